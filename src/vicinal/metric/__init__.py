"""Coordinates learned so that near means alike."""

from vicinal.metric._gradient_kernel_classifier import GradientKernelClassifier
from vicinal.metric._gradient_kernel_regressor import GradientKernelRegressor

__all__ = [
    "GradientKernelClassifier",
    "GradientKernelRegressor",
]
