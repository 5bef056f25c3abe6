"""Geometry of decision surfaces: projections, signed distances, normals, counterfactuals."""

from vicinal.surface._counterfactuals import Counterfactuals
from vicinal.surface._decision_surface import DecisionSurface
from vicinal.surface._surface_calibrated_classifier import SurfaceCalibratedClassifier
from vicinal.surface._surface_projection import SurfaceProjection
from vicinal.surface._surface_status import SurfaceStatus

__all__ = [
    "Counterfactuals",
    "DecisionSurface",
    "SurfaceCalibratedClassifier",
    "SurfaceProjection",
    "SurfaceStatus",
]
