"""Intervals from the errors of held-out answers, wide where errors are large."""

import warnings
from typing import Any

import numpy as np

from vicinal._kernels.calibration._conformal import (
    conformal_quantile,
    is_skewed,
    local_quantiles,
    own_weight,
)
from vicinal._rows._folds import learning_factor
from vicinal._rows._local_scale import LocalScale, tricube
from vicinal._rows._place import Place


class ResidualIntervals:
    r"""Intervals :math:`f(x) \mp q\, s(x)` with a local scale s and a conformal quantile q.

    The quantile is that of :math:`|r_i| / s_{-i}(x_i)` over the training rows, a new row's own mass
    counted; where these ratios are skewed, the ends have quantiles of their own.

    Rows held out by folds differ from new ones in two ways, and both show in how folds answer. The
    rows around a held-out one had mostly learned from it, those around a new one have not: its
    scale is too small by :meth:`LocalScale.unseen`. And its own answer is by a model of fewer rows:
    its error is too large by :func:`learning_factor`.

    Parameters
    ----------
    place : Place
        Training rows in their coordinates.
    residuals : ndarray of shape (n_samples, n_outputs)
        Targets less held-out answers.
    weights : ndarray of shape (n_samples,), optional
        How often each row counts.
    folds : ndarray of int of shape (n_samples,), optional
        Rows of one number were held out together; ``None`` where each was held out alone.
    coarse : ndarray of shape (n_samples, n_outputs), optional
        Targets less the answers of models that had seen about half of the rows.
    groups : ndarray of int of shape (n_samples,), optional
        Rows of one number are left out of each other's scale.
    """

    def __init__(
        self,
        place: Place,
        residuals: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        folds: np.ndarray | None = None,
        coarse: np.ndarray | None = None,
        groups: np.ndarray | None = None,
    ):
        self.place = place
        self.weights = weights
        self.scale = LocalScale(place, np.abs(residuals), weights, groups)
        scale = self.scale.held_out
        if folds is not None:
            scale = scale * self.scale.unseen(folds)
        self.ratios = residuals / scale
        if folds is not None and coarse is not None:
            errors = np.abs(coarse / scale), np.abs(self.ratios)
            self.ratios *= learning_factor(*errors, folds, weights)

    def around(self, values: np.ndarray, X, coverage: float, *, local: bool = False) -> np.ndarray:
        """Return the ends of intervals around answers, (n_queries, n_outputs, 2).

        With ``local`` the quantile itself is taken over the rows around each query, weighted by
        their nearness; it is infinite where these are too few for the coverage, with a warning.
        """
        check_coverage(coverage)
        scale = self.scale(X)
        neighbors = _Neighbors(self.place, X, self.weights, coverage) if local else None
        ends = np.empty((*values.shape, 2))
        for output in range(values.shape[1]):
            low, high = self._reach(self.ratios[:, output], coverage, neighbors)
            ends[:, output, 0] = values[:, output] - low * scale[:, output]
            ends[:, output, 1] = values[:, output] + high * scale[:, output]
        warn_of_infinite(np.isinf(ends).any(axis=(1, 2)), coverage, "intervals")
        return ends

    def _reach(self, ratios: np.ndarray, coverage: float, neighbors: "_Neighbors | None"):
        """Return how many scales an interval reaches down and up."""

        def quantile(scores, chance):
            if neighbors is None:
                return conformal_quantile(scores, chance, self.weights)
            return neighbors.quantiles(scores, chance)

        if is_skewed(ratios):
            one_sided = 0.5 * (1.0 + coverage)
            return quantile(-ratios, one_sided), quantile(ratios, one_sided)
        reach = quantile(np.abs(ratios), coverage)
        return reach, reach


class _Neighbors:
    """Rows around queries, weighted by their nearness, and each query's own weight."""

    def __init__(self, place: Place, X, weights: np.ndarray | None, coverage: float):
        size = local_size(place.n_samples, coverage)
        distances, self.indices = place.neighbors(X, size + 1)
        self.indices = self.indices[:, :-1]
        self.weights = tricube(distances)
        if weights is not None:
            self.weights = self.weights * weights[self.indices]
        self.own = np.full(len(distances), own_weight(weights))

    def quantiles(self, scores: np.ndarray, coverage: float) -> np.ndarray:
        """Return the conformal quantile around each query."""
        return local_quantiles(scores[self.indices], self.weights, self.own, coverage)


def local_size(n_samples: int, coverage: float) -> int:
    """Return how many neighbours a local quantile needs: some twenty beyond it, if there are."""
    return int(min(max(100, np.ceil(20.0 / (1.0 - coverage))), n_samples - 1))


def check_coverage(coverage) -> None:
    """Raise unless ``coverage`` is a chance."""
    if not 0.0 < coverage < 1.0:
        raise ValueError(
            f"coverage={coverage!r} must lie between 0 and 1, for example 0.9 for 90 %."
        )


def warn_of_infinite(rows: Any, coverage: float, what: str) -> None:
    """Warn where too few rows speak for a finite answer."""
    if rows.any():
        warnings.warn(
            f"{int(rows.sum())} of {len(rows)} {what} are unbounded: too few held-out rows speak "
            f"there for a coverage of {coverage:g}. Lower the coverage or add rows.",
            UserWarning,
            stacklevel=4,
        )
