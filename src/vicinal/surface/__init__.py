"""Geometry of decision surfaces: projections, signed distances, normals, counterfactuals."""

from vicinal.surface._counterfactuals import Counterfactuals
from vicinal.surface._decision_surface import DecisionSurface
from vicinal.surface._search import SurfaceProjection, SurfaceStatus
from vicinal.surface._surface_calibrated_classifier import SurfaceCalibratedClassifier

__all__ = [
    "Counterfactuals",
    "DecisionSurface",
    "SurfaceCalibratedClassifier",
    "SurfaceProjection",
    "SurfaceStatus",
]
