"""Local learning with a kernel learned from simulated tables, before any data are seen."""

from vicinal.pretrained._neighbors import (
    PretrainedNeighborsClassifier,
    PretrainedNeighborsRegressor,
)

__all__ = ["PretrainedNeighborsClassifier", "PretrainedNeighborsRegressor"]
