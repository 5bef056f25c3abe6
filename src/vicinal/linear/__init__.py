"""Linear classifiers with sample weights, and whitening."""

from vicinal.linear._estimators import AveragedPerceptron, WeightedLDA, WhiteningTransformer

__all__ = ["AveragedPerceptron", "WeightedLDA", "WhiteningTransformer"]
