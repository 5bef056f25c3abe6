"""Geometry of decision surfaces: projections, signed distances, normals, counterfactuals."""

from vicinal.surface._decision_surface import DecisionSurface
from vicinal.surface._surface_calibrated_classifier import SurfaceCalibratedClassifier

__all__ = ["DecisionSurface", "SurfaceCalibratedClassifier"]
