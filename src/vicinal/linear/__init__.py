"""Linear learners that take weights, and whitening: building blocks that the families share."""

from vicinal.linear._classifiers import AveragedPerceptron, WeightedLDA
from vicinal.linear._whitening_transformer import WhiteningTransformer

__all__ = ["AveragedPerceptron", "WeightedLDA", "WhiteningTransformer"]
