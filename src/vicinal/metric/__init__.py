"""Models with learned distances."""

from vicinal.metric._gradient_kernel import GradientKernelClassifier, GradientKernelRegressor
from vicinal.metric._neural_neighbors import NeuralNeighborsClassifier, NeuralNeighborsRegressor

__all__ = [
    "GradientKernelClassifier",
    "GradientKernelRegressor",
    "NeuralNeighborsClassifier",
    "NeuralNeighborsRegressor",
]
