"""Prediction in one dimension through sorted points."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from vicinal._base import saved
from vicinal._kernels.local._line_smoother import LineFits, LinePoints, LineWindow, smooth_line
from vicinal.local._data import LocalData, Settings
from vicinal.local._fits import over_queries
from vicinal.local._neighborhood import NearestRule


@saved()
@dataclass(frozen=True)
class Line:
    """Training points sorted along the only column, with their targets (n_outputs, n)."""

    x: np.ndarray
    Y: np.ndarray
    order: np.ndarray

    @classmethod
    def applies(cls, data: LocalData, settings: Settings) -> bool:
        """Tell whether windows of sorted points give what a search and QR would."""
        rule = settings.rule
        return (
            isinstance(data.rows, np.ndarray)
            and data.rows.shape[1] == 1
            and data.index.X is data.rows
            and data.index.is_euclidean
            and data.sample_weight is None
            and settings.alpha == 0.0
            and isinstance(rule, NearestRule)
            and rule.kernel == "tricube"
        )

    @classmethod
    def from_data(cls, data: LocalData, Y: np.ndarray) -> "Line":
        """Sort the rows; ties by target, so that their order in the data does not matter."""
        x = data.rows[:, 0]
        order = np.lexsort((*Y.T[::-1], x))
        return cls(x[order], np.ascontiguousarray(Y[order].T), order)

    def evaluate(self, q, settings: Settings, factor, *, want_norms: bool, n_jobs: int | None):
        """Return values, slopes (n_queries, n_outputs), norms (n_queries,) and where they hold."""
        rule: Any = settings.rule
        n_queries = len(q)
        values = np.full((n_queries, len(self.Y)), np.nan)
        slopes = np.full((n_queries, len(self.Y)), np.nan)
        norms = np.full(n_queries, np.nan)
        solved = np.ones(n_queries, dtype=bool)
        f = np.ones(len(self.x)) if factor is None else factor[self.order]
        points = LinePoints(self.x, self.Y, f)
        k = min(len(self.x), int(rule.count))
        window = LineWindow(k, rule.exceed, float(rule.stretch), rule.loess, settings.degree)

        def run(queries):
            out = LineFits(values[queries], slopes[queries], norms[queries], solved[queries])
            smooth_line(points, q[queries], window, want_norms, out)

        over_queries(run, n_queries, n_jobs)
        return values, slopes, norms, solved
