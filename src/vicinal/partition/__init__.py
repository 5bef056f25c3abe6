"""Regions with one model each, learned jointly."""

from vicinal.partition._space_partitioning import (
    SpacePartitioningClassifier,
    SpacePartitioningRegressor,
    vc_bound,
)
from vicinal.partition._surrogate_partition_classifier import SurrogatePartitionClassifier

__all__ = [
    "SpacePartitioningClassifier",
    "SpacePartitioningRegressor",
    "SurrogatePartitionClassifier",
    "vc_bound",
]
