"""Divide and conquer over subspaces of the features or clusters of the rows."""

from vicinal.subspace._divide_conquer_svc import DivideConquerSVC
from vicinal.subspace._feature_space_decomposition import FeatureSpaceDecomposition
from vicinal.subspace._subspace_fusion import SubspaceFusionClassifier, SubspaceFusionRegressor
from vicinal.subspace._truncated_rbf import (
    TruncatedRBFClassifier,
    TruncatedRBFFeatures,
    TruncatedRBFRegressor,
)

__all__ = [
    "DivideConquerSVC",
    "FeatureSpaceDecomposition",
    "SubspaceFusionClassifier",
    "SubspaceFusionRegressor",
    "TruncatedRBFClassifier",
    "TruncatedRBFFeatures",
    "TruncatedRBFRegressor",
]
