"""Sets of labels from the probabilities of held-out answers."""

from typing import Any

import numpy as np

from vicinal._kernels.calibration._conformal import (
    adaptive_scores,
    conformal_quantile,
    threshold_scores,
)
from vicinal._rows._place import Place
from vicinal._rows._residual_intervals import _Neighbors, check_coverage

SCORES = {"threshold": threshold_scores, "adaptive": adaptive_scores}


class LabelSets:
    r"""Sets :math:`\{c : e_c(x) \le q\}` of labels, q the conformal quantile of the true ones.

    Parameters
    ----------
    place : Place
        Training rows in their coordinates.
    proba : ndarray of shape (n_samples, n_classes)
        Held-out probabilities.
    codes : ndarray of int of shape (n_samples,)
        True classes.
    weights : ndarray of shape (n_samples,), optional
        How often each row counts.
    """

    def __init__(
        self, place: Place, proba: np.ndarray, codes: np.ndarray, weights: np.ndarray | None = None
    ):
        self.place = place
        self.proba = proba
        self.codes = codes
        self.weights = weights

    def of(
        self, proba: np.ndarray, X, coverage: float, *, method: str, by_class: bool, local: bool
    ) -> np.ndarray:
        """Return which labels are in the set of each query, boolean (n_queries, n_classes)."""
        check_coverage(coverage)
        if method not in SCORES:
            raise ValueError(f"method={method!r} must be one of {sorted(SCORES)}.")
        if by_class and local:
            raise ValueError(
                "by_class=True and local=True both choose whose scores count; ask for one of them."
            )
        scores = SCORES[method](self.proba)
        true = scores[np.arange(len(self.codes)), self.codes]
        limit: Any
        if local:
            limit = _Neighbors(self.place, X, self.weights, coverage).quantiles(true, coverage)
            limit = limit[:, None]
        elif by_class:
            limit = np.array([self._class_limit(true, c, coverage) for c in range(scores.shape[1])])
        else:
            limit = conformal_quantile(true, coverage, self.weights)
        return SCORES[method](proba) <= limit

    def _class_limit(self, true: np.ndarray, label: int, coverage: float) -> float:
        rows = self.codes == label
        weights = None if self.weights is None else self.weights[rows]
        return conformal_quantile(true[rows], coverage, weights)
