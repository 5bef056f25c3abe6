"""Uncertain regions, local metrics there, and conformal intervals and label sets."""

from vicinal.uncertainty._conformal import ConformalClassifier, ConformalRegressor
from vicinal.uncertainty._local_discriminant_transformer import LocalDiscriminantTransformer
from vicinal.uncertainty._locally_adaptive_classifier import LocallyAdaptiveClassifier
from vicinal.uncertainty._responsibility_mixture import ResponsibilityMixture
from vicinal.uncertainty._uncertainty_map import uncertainty_map

__all__ = [
    "ConformalClassifier",
    "ConformalRegressor",
    "LocalDiscriminantTransformer",
    "LocallyAdaptiveClassifier",
    "ResponsibilityMixture",
    "uncertainty_map",
]
