"""Linear learners that take weights, and whitening: building blocks that the families share."""

from vicinal.linear._averaged_perceptron import AveragedPerceptron
from vicinal.linear._weighted_lda import WeightedLDA

__all__ = ["AveragedPerceptron", "WeightedLDA"]
