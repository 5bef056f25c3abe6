"""Training rows and resolved settings, as the local fits see them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from vicinal._base import saved
from vicinal.local._coordinates import Coordinates
from vicinal.local._fits import equivalent_kernels
from vicinal.local._forest import ForestIndex, ForestLocalizer, ForestRule
from vicinal.local._neighborhood import Localizer, NearestRule, RadiusRule
from vicinal.local._sparse import sparse_equivalent_kernels


@saved()
@dataclass(frozen=True)
class Settings:
    """What a local fit needs to know, resolved from parameters or chosen."""

    rule: NearestRule | RadiusRule | ForestRule
    degree: int = 1
    alpha: float = 1.0
    relative: bool = True

    @property
    def is_global(self) -> bool:
        """One model for all queries: every row has the same say everywhere."""
        return isinstance(self.rule, RadiusRule) and bool(np.isinf(self.rule.bandwidth))


@saved(rows="n *", sample_weight="n", groups="n", **{"index.X": "n *"})
@dataclass
class LocalData:
    """The training rows as the local models see them."""

    rows: np.ndarray | sparse.csr_matrix
    index: Any  # a NeighborIndex, or the ForestIndex of a forest metric
    coordinates: Coordinates
    sample_weight: np.ndarray | None
    groups: np.ndarray | None

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return self.rows.shape[0]

    @property
    def total_weight(self) -> float:
        """Number of rows, counted with their weights."""
        return float(self.n_samples if self.sample_weight is None else self.sample_weight.sum())

    def localizer(self, rule, factor=None) -> Any:
        """Return the map from queries to neighbourhoods."""
        if isinstance(self.index, ForestIndex):
            return ForestLocalizer(self.index, rule, factor=factor)
        return Localizer(self.index, rule, sample_weight=self.sample_weight, factor=factor)


def smoothers(
    data: LocalData, design, found, alphas, *, relative: bool, degree: int, skip=None, n_jobs=None
) -> np.ndarray:
    """Return the equivalent kernels of a block for each penalty, shape (n_alphas, nnz)."""
    if sparse.issparse(data.rows):
        return sparse_equivalent_kernels(
            data.rows, design, found, alphas, relative=relative, degree=degree
        )
    return equivalent_kernels(
        data.rows,
        design,
        found,
        alphas,
        relative=relative,
        degree=degree,
        skip=skip,
        n_jobs=n_jobs,
    )
