"""Coordinates learned so that near means alike."""

from vicinal.metric._gradient_kernel import GradientKernelClassifier, GradientKernelRegressor
from vicinal.metric._neural_neighbors_classifier import NeuralNeighborsClassifier
from vicinal.metric._neural_neighbors_regressor import NeuralNeighborsRegressor

__all__ = [
    "GradientKernelClassifier",
    "GradientKernelRegressor",
    "NeuralNeighborsClassifier",
    "NeuralNeighborsRegressor",
]
