"""Find where classes mix, and place local metrics there."""

from vicinal.uncertainty._local_discriminant_transformer import LocalDiscriminantTransformer
from vicinal.uncertainty._locally_adaptive_classifier import LocallyAdaptiveClassifier
from vicinal.uncertainty._responsibility_mixture import ResponsibilityMixture
from vicinal.uncertainty._uncertainty_map import uncertainty_map

__all__ = [
    "LocalDiscriminantTransformer",
    "LocallyAdaptiveClassifier",
    "ResponsibilityMixture",
    "uncertainty_map",
]
