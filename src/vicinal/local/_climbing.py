"""The automatic choice over the whole ladder, as a mixin of the local estimators."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from vicinal.local._forest import FORESTS, ForestIndex, ForestRule
from vicinal.local._global_rung import BoostedModel, GlobalModel
from vicinal.local._ladder import NEIGHBOR_RUNGS, Ladder, Rung, Table
from vicinal.local._neighborhood import NearestRule
from vicinal.local._stack import Stack
from vicinal.local._stacking import honest_score, sparse_weights

# Fewer rows than this cannot tell many models apart: size and penalty are chosen alone.
_MIN_ROWS = 30


class Climbing:
    """Climb the ladder where the metric is left open, and stack its rungs or keep the best."""

    # Parameters and methods of the estimators that mix this in.
    n_neighbors: Any
    bandwidth: Any
    kernel: Any
    metric: Any
    metric_params: Any
    degree: Any
    location_columns: Any
    anchors: Any
    n_jobs: int | None
    random_state: Any
    verbose: int
    combine: str = "best"
    max_fit_time: float | None = None
    _stack: Any = None
    _generic: Any
    _alpha_candidates: Callable
    _degree_candidates: Callable
    _criterion: Callable
    _place_data: Callable
    _forest_data: Callable
    _keep: Callable
    _judge: Callable
    _nearest_rule: Callable
    _adopt: Callable

    def _climbs(self, X) -> bool:
        """Tell whether the whole ladder is open: any dense table whose metric was not named."""
        return (
            isinstance(self.metric, str)
            and self.metric == "auto"
            and self.bandwidth is None
            and self.location_columns is None
            and self.anchors is None
            and self._generic is None
            and self._has_linear_rungs()
            and not sparse.issparse(X)
            and X.shape[0] >= _MIN_ROWS
        )

    def _has_linear_rungs(self) -> bool:
        """Tell whether the local model is the least-squares one that all rungs share."""
        return False

    def _climb(self, X, Y, codes, targets, weights, groups) -> None:
        """Build the rungs, weigh them and keep what carries weight."""
        table = Table(np.asarray(X, dtype=np.float64), Y, codes, targets, weights, groups)
        ladder = Ladder(
            table,
            make_judge=lambda rows: self._judge(rows, weights),
            evaluate=lambda data, alphas, degree: self._criterion(data, alphas, degree)[0],
            place=lambda metric, coordinates: self._place_rung(table, metric, coordinates),
            counts=self._count_rungs(table.total_weight),
            alphas=self._alpha_candidates(),
            degrees=self._degree_candidates(X),
            kernel=self.kernel,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            verbose=self.verbose,
            max_time=self.max_fit_time,
            label=type(self).__name__,
        )
        rungs = ladder.climb()
        stack = np.stack([rung.predictions for rung in rungs])
        if self.combine == "stack":
            shares, temperature = sparse_weights(ladder.judge, stack)
        else:
            shares, temperature = self._single(ladder, rungs, stack)
        self.selection_ = _path(rungs, shares)
        self.loo_score_, self.loo_score_error_ = honest_score(
            ladder.judge, stack[shares > 0.0], ladder.rows
        )
        self._note_held_out(ladder.rows, np.tensordot(shares, stack, 1), ladder.judge.share)
        self._stand_on(rungs, shares, temperature, table)

    def _note_held_out(self, rows, predictions, share) -> None:
        """Learn what can be learned from predictions of rows that were not seen."""

    def _single(self, ladder, rungs, stack):
        """Weigh one local rung alone: that of least loss."""
        local = [m for m, rung in enumerate(rungs) if np.isfinite(rung.size)]
        best = min(local, key=lambda m: rungs[m].loss)
        shares = np.zeros(len(rungs))
        shares[best] = 1.0
        return shares, ladder.judge.combine(stack[[best]])[1]

    def _count_rungs(self, total_weight: float) -> list[int]:
        if self.n_neighbors == "auto":
            return list(NEIGHBOR_RUNGS)
        return [int(self._nearest_rule(self.n_neighbors, total_weight).count)]

    def _place_rung(self, table: Table, metric: str, coordinates):
        if metric in FORESTS:
            return self._forest_data(
                table.X,
                table.codes,
                table.targets,
                table.weights,
                table.groups,
                metric,
                coordinates,
            )
        return self._place_data(table.X, table.weights, table.groups, "euclidean", coordinates)

    def _stand_on(self, rungs: list[Rung], shares, temperature: float, table: Table) -> None:
        """Keep the rungs that carry weight, the heaviest first."""
        order = [m for m in np.argsort(-shares, kind="stable") if shares[m] > 0.0]
        fitted = [self._fitted_rung(rungs[m]) for m in order]
        heaviest = rungs[order[0]]
        if len(fitted) == 1 and not isinstance(fitted[0], (BoostedModel, GlobalModel)):
            only = fitted[0]
            self._keep_like(only, heaviest)
            self._set_temperature(temperature)
            return
        self.rungs_ = fitted
        self.rung_weights_ = shares[order]
        self._stack = Stack(
            fitted, self.rung_weights_, table.X, table.Y, table.codes, table.weights
        )
        local = next(
            (rung for rung in fitted if not isinstance(rung, (BoostedModel, GlobalModel))), None
        )
        self.metric_ = heaviest.name
        self.alpha_ = heaviest.alpha
        self.degree_ = heaviest.degree
        self.n_neighbors_ = None if local is None else local.n_neighbors_
        self.bandwidth_ = None if np.isfinite(heaviest.size) else np.inf
        self._set_temperature(temperature)

    def _set_temperature(self, temperature: float) -> None:
        """Keep what turns scores into probabilities, where there are any."""

    def _fitted_rung(self, rung: Rung):
        """Return a rung as a fitted model of its own."""
        data = rung.build()
        if isinstance(data, (BoostedModel, GlobalModel)):
            return data
        model = clone(self)
        model.set_params(
            combine="best",
            metric=rung.metric,
            degree=rung.degree,
            alpha=rung.alpha,
            n_neighbors="auto" if isinstance(data.index, ForestIndex) else int(rung.size),
        )
        self._adopt(model)
        model._keep(data, rung.metric, self._rung_rule(rung, data), rung.degree, rung.alpha)
        return model

    def _rung_rule(self, rung: Rung, data):
        if isinstance(data.index, ForestIndex):
            return ForestRule(int(rung.size))
        return NearestRule(rung.size, self.kernel)

    def _keep_like(self, model, rung: Rung) -> None:
        settings = model._settings
        self._keep(model._data, rung.metric, settings.rule, settings.degree, settings.alpha)


def _path(rungs: list[Rung], shares) -> dict[str, np.ndarray]:
    """Return the path of the choice as columns, one entry per rung."""
    return {
        "metric": np.array([rung.name for rung in rungs], dtype=object),
        "degree": np.array([rung.degree for rung in rungs]),
        "size": np.array([rung.size for rung in rungs]),
        "alpha": np.array([rung.alpha for rung in rungs]),
        "loss": np.array([rung.loss for rung in rungs]),
        "weight": np.asarray(shares),
    }
