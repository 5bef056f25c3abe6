"""Linear classifiers with sample weights, and whitening."""

from vicinal.linear._classifiers import AveragedPerceptron, WeightedLDA
from vicinal.linear._whitening_transformer import WhiteningTransformer

__all__ = ["AveragedPerceptron", "WeightedLDA", "WhiteningTransformer"]
