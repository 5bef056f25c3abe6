"""Regions and the models of the regions, learned together."""

from vicinal.partition._space_partitioning_classifier import SpacePartitioningClassifier
from vicinal.partition._space_partitioning_regressor import SpacePartitioningRegressor
from vicinal.partition._surrogate_partition_classifier import SurrogatePartitionClassifier
from vicinal.partition._vc_bound import vc_bound

__all__ = [
    "SpacePartitioningClassifier",
    "SpacePartitioningRegressor",
    "SurrogatePartitionClassifier",
    "vc_bound",
]
