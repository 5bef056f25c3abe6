"""The ladder of local models that the automatic choice climbs.

Rungs differ in what "near" means (columns as given, standardised, bent to normal scores, mapped by
slopes, or sharing leaves of a forest), in size, degree and penalty; the last one is the global
model. Every rung predicts the same rows without having seen them: local models leave the row out of
its neighbourhood, forests ask trees that did not draw it, and whatever learned from labels (slopes,
global models) learned from the other folds.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils import check_random_state

from vicinal._base import Progress, row_blocks, saved
from vicinal.local._coordinates import Coordinates, QuadraticCoordinates
from vicinal.local._data import LocalData
from vicinal.local._forest import FOREST_ROWS, FORESTS, ForestRule
from vicinal.local._global_rung import GlobalModel, boosted_model, global_fits
from vicinal.local._gradient_round import (
    gradient_round,
    rescaled,
    slope_neighbors,
    slope_queries,
)
from vicinal.local._metrics import learn_coordinates
from vicinal.local._neighborhood import NearestRule
from vicinal.local._stacking import Judge

NEIGHBOR_RUNGS = (10, 20, 40, 80, 160, 320, 640)
# Rows on which rungs are compared: as many as this budget allows, within bounds.
_MAX_ROWS, _MIN_ROWS, _FLOPS = 3000, 600, 4e9
# Local models live in at most so many coordinates; wider tables are reduced to principal axes.
_MAX_COORDINATES = 100
_N_FOLDS = 5
# On small tables folds are drawn anew, because one draw is noise, and fewer maps are compared,
# because each comparison is.
_SMALL, _MIDDLE = 300, 1000
_MAX_ROUNDS = 6
_PATIENCE = 2
# A second trail of rounds is followed while its loss stays within this factor of the first.
_SLACK = 1.25
_ROUND_ALPHA = {True: 1.0, False: 0.1}  # classes, numbers
_GLOBAL_ALPHAS = {"ridge": (1e-4, 1e-3, 1e-2, 0.1, 1.0), "logistic": (1.0, 10.0, 100.0)}
_MAX_GLOBAL_COLUMNS = 1000
# A logistic model is not worth its time where a linear one errs this much more than a local one.
_HOPELESS = 2.5
# Squares and products are tried where their scatter and its eigenvectors cost no more than this.
_MAX_QUADRATIC_FLOPS = 3e9
# A logistic model of squares and products is tried up to this many rows x terms x classes.
_MAX_LOGISTIC_SIZE = 3e6
# Boosting is tried where a forest comes this near to the best local model.
_TREES_PAY, _MAX_BOOSTED_CLASSES = 1.1, 10
_MIN_BOOSTED_ROWS = {True: 1000, False: 100}  # classes, numbers
# Where classes are many, so are the trees: boosting ends with the fold after which its loss is this
# much greater than the best.
_BOOSTING_PAYS = 1.2


@saved()
@dataclass
class Rung:
    """One model of the ladder with its predictions of rows it did not see."""

    name: str
    metric: str
    degree: int
    size: float
    alpha: float
    predictions: np.ndarray
    loss: float
    build: Callable[[], Any] = field(repr=False)


@dataclass(frozen=True)
class Table:
    """Training data as the ladder sees it: a dense X and one column per output."""

    X: np.ndarray
    Y: np.ndarray
    codes: np.ndarray | None
    targets: np.ndarray
    weights: np.ndarray | None
    groups: np.ndarray | None

    @property
    def total_weight(self) -> float:
        """Number of rows, counted with their weights."""
        return float(len(self.X) if self.weights is None else self.weights.sum())


class Ladder:
    """Build rungs until they stop paying or time is up.

    Parameters
    ----------
    table : Table
        Training data.
    make_judge : callable
        (rows) -> judge of predictions of these rows.
    evaluate : callable
        (data, alphas, degree) -> function of (design, neighbourhoods) that predicts for each alpha.
    place : callable
        (metric, coordinates) -> LocalData; grows the forest of a forest metric.
    counts, alphas, degrees : sequence
        What to try.
    kernel : str or callable
        Smoothing kernel.
    n_jobs, random_state, verbose
        As in the estimators.
    max_time : float or None
        Seconds after which no further rung is begun; the first one always is.
    label : str
        What progress is called.
    """

    def __init__(
        self,
        table: Table,
        *,
        make_judge: Callable[[np.ndarray], Judge],
        evaluate: Callable,
        place: Callable[[str, Coordinates], LocalData],
        counts,
        alphas,
        degrees,
        kernel,
        n_jobs,
        random_state,
        verbose: int,
        max_time: float | None,
        label: str,
    ):
        self.table = table
        self.evaluate = evaluate
        self.place = place
        self.alphas = list(alphas)
        self.degrees = list(degrees)
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.label = label
        self._rng = check_random_state(random_state)
        self._deadline = np.inf if max_time is None else time.monotonic() + max_time
        n_columns = min(table.X.shape[1], _MAX_COORDINATES)
        self.counts = _affordable_counts(counts, table.total_weight, n_columns)
        self._draw_entries(n_columns)
        self.judge = make_judge(self.rows)
        self.rungs: list[Rung] = []

    def climb(self) -> list[Rung]:
        """Return the rungs, the best of each kind."""
        stages: list[Callable[[], None]] = [
            lambda: self._try_metric("standardized"),
            lambda: self._try_metric("ranked"),
            lambda: self._try_metric("euclidean"),
            self._try_degree,
            *(lambda metric=metric: self._try_forest(metric) for metric in FORESTS),
            self._try_boosting,
            self._try_global,
            self._try_rounds,
        ]
        with Progress(len(stages), self.label, verbose=self.verbose) as progress:
            for stage in stages:
                if self.rungs and time.monotonic() > self._deadline:
                    break
                stage()
                best = min(self.rungs, key=lambda rung: rung.loss)
                progress.advance(note=f"{best.name}: loss {best.loss:.4g}")
        return self.rungs

    # --- rows and folds ---

    def _draw_entries(self, n_columns: int) -> None:
        """Draw the rows to predict, with the fold in which each is held out.

        On small tables every row enters once per repetition of the folds.
        """
        n = len(self.table.X)
        cost = sum(_flops(k, n_columns, len(self.alphas)) for k in self.counts)
        limit = min(_MAX_ROWS, max(_MIN_ROWS, int(_FLOPS / cost)))
        self.distinct = np.arange(n)
        if n > limit:
            self.distinct = np.sort(self._rng.choice(n, limit, replace=False))
        repeats = 2 if n < _MIDDLE else 1
        self.folds = [fold for _ in range(repeats) for fold in self._folds(n)]
        owner = [np.full(n, -1) for _ in range(repeats)]
        for f, fold in enumerate(self.folds):
            owner[f * repeats // len(self.folds)][fold] = f
        self.rows = np.tile(self.distinct, repeats)
        self.entry_folds = np.concatenate([part[self.distinct] for part in owner])
        self.repeats = repeats

    def _folds(self, n: int) -> list[np.ndarray]:
        groups = self.table.groups
        if groups is None:
            seed = self._rng.randint(np.iinfo(np.int32).max)
            folds = KFold(min(_N_FOLDS, n), shuffle=True, random_state=seed).split(np.arange(n))
        else:
            n_folds = min(_N_FOLDS, len(np.unique(groups)))
            folds = GroupKFold(n_folds).split(groups, groups=groups)
        return [fold for _, fold in folds]

    def _held_out(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield (training mask, entries held out, their rows) of each fold."""
        for f, fold in enumerate(self.folds):
            mask = np.ones(len(self.table.X), dtype=bool)
            mask[fold] = False
            entries = np.flatnonzero(self.entry_folds == f)
            yield mask, entries, self.rows[entries]

    # --- metrics that need no labels ---

    def _try_metric(self, metric: str) -> None:
        coordinates = self._reduced(self._coordinates(metric))
        data = self.place(metric, coordinates)
        self._try_sizes(metric, data, self.degrees[0])

    def _coordinates(self, metric: str) -> Coordinates:
        table = self.table
        return learn_coordinates(metric, table.X, table.codes, table.targets, table.weights)

    def _reduced(self, coordinates: Coordinates) -> Coordinates:
        """Follow by principal axes where there are more columns than local models can carry."""
        if self.table.X.shape[1] <= _MAX_COORDINATES:
            return coordinates
        Z = coordinates(self.table.X)
        mean = Z.mean(axis=0)
        centred = Z - mean
        if len(Z) >= Z.shape[1]:
            axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]
        else:
            values, vectors = np.linalg.eigh(centred @ centred.T)
            values = np.sqrt(np.maximum(values[::-1], 1e-12 * values[-1]))
            axes = centred.T @ (vectors[:, ::-1] / values)
        return coordinates.followed_by(axes[:, : min(_MAX_COORDINATES, len(Z) - 1)], mean)

    def _try_sizes(self, metric: str, data: LocalData, degree: int) -> None:
        rules = [NearestRule(float(k), self.kernel) for k in self.counts]
        predictions = self._spread(self._local_predictions(data, rules, degree, self.distinct))
        self._keep_best(metric, metric, degree, self.counts, predictions, lambda: data)

    def _spread(self, predictions: np.ndarray) -> np.ndarray:
        """Repeat predictions of distinct rows for every entry."""
        return np.tile(predictions, (1, 1, self.repeats, 1)) if self.repeats > 1 else predictions

    def _local_predictions(self, data, rules, degree, rows) -> np.ndarray:
        """Return predictions (n_rules, n_alphas, n_rows, n_outputs), each row left out."""
        evaluate = self.evaluate(data, self.alphas, degree)
        shape = (len(rules), len(self.alphas), len(rows), self.table.Y.shape[1])
        out = np.empty(shape, dtype=np.float32)
        localizer = data.localizer(rules[-1])
        for block in row_blocks(len(rows), 8 * 20 * localizer.expected_size(), max_rows=2048):
            own = rows[block]
            found: Any
            if isinstance(rules[0], ForestRule):
                found = [localizer.neighborhoods(data.index.X[own], rows=own, groups=data.groups)]
            else:
                nearest = localizer.candidates(
                    data.index.X[own], rules[-1].count, rows=own, groups=data.groups
                )
                found = (localizer.from_candidates(nearest, rule.count) for rule in rules)
            for j, some in enumerate(found):
                out[j][:, block] = evaluate(data.rows[own], some)
        return out

    def _keep_best(self, name, metric, degree, sizes, predictions, build) -> Rung:
        """Add the size and penalty of least loss to the ladder."""
        losses = self._losses(predictions)
        j, a = np.unravel_index(int(losses.argmin()), losses.shape)
        rung = Rung(
            name,
            metric,
            degree,
            float(sizes[j]),
            self.alphas[a],
            predictions[j, a],
            float(losses[j, a]),
            build,
        )
        self.rungs.append(rung)
        return rung

    def _losses(self, predictions) -> np.ndarray:
        """Return the loss of each size and penalty; infinite where errors rule it out already."""
        judge = self.judge
        errors = np.array([[judge.share @ judge.errors(p) for p in row] for row in predictions])
        worth = errors <= 1.2 * errors.min() + 1.0 / len(self.rows)
        return np.array(
            [
                [judge.loss(p) if keep else np.inf for p, keep in zip(row, kept, strict=True)]
                for row, kept in zip(predictions, worth, strict=True)
            ]
        )

    def _bases(self) -> list[Rung]:
        """Return the rungs of plain coordinates, the best first."""
        plain = [
            rung for rung in self.rungs if rung.name in _BASES and rung.degree == self.degrees[0]
        ]
        return sorted(plain, key=lambda rung: rung.loss)

    def _try_degree(self) -> None:
        """Try further degrees in the coordinates that suit the first one best."""
        best = self._bases()[0]
        for degree in self.degrees[1:]:
            self._try_sizes(best.metric, best.build(), degree)

    # --- forests ---

    def _try_forest(self, metric: str) -> None:
        if self.table.groups is not None:
            # Trees that did not draw a row have still seen the rest of its group.
            return
        data = self.place(metric, self._bases()[0].build().coordinates)
        rule = ForestRule(FOREST_ROWS)
        predictions = self._spread(self._local_predictions(data, [rule], 1, self.distinct))
        linear = self._keep_best(metric, metric, 1, [FOREST_ROWS], predictions, lambda: data)
        constant = self._spread(self._forest_means(data))
        loss = self.judge.loss(constant[0, 0])
        if loss <= linear.loss:
            self.rungs[-1] = Rung(
                metric, metric, 0, len(self.table.X), 0.0, constant[0, 0], loss, lambda: data
            )

    def _forest_means(self, data) -> np.ndarray:
        """Return the forest's own out-of-bag answers: local models of degree zero."""
        localizer = data.localizer(ForestRule(len(self.table.X)))
        evaluate = self.evaluate(data, [0.0], 0)
        out = np.empty((1, 1, len(self.distinct), self.table.Y.shape[1]), dtype=np.float32)
        for block in row_blocks(len(self.distinct), 8 * 20 * FOREST_ROWS, max_rows=512):
            own = self.distinct[block]
            found = localizer.neighborhoods(data.index.X[own], rows=own, groups=data.groups)
            out[0][:, block] = evaluate(data.rows[own], found)
        return out

    # --- global models ---

    def _try_boosting(self) -> None:
        """Boost trees where forests show that steps matter."""
        if not self._boosting_may_pay():
            return
        table = self.table
        seed = int(self._rng.randint(np.iinfo(np.int32).max))
        predictions = np.zeros((len(self.rows), table.Y.shape[1]))
        held_out = list(self._held_out())
        # One draw of the folds will do: its noise is small beside the cost of ten more fits.
        seen = np.zeros(len(self.rows), dtype=bool)
        for mask, entries, rows in held_out[: len(held_out) // self.repeats]:
            model = boosted_model(
                table.X[mask], table.Y[mask], _some(table.codes, mask),
                _some(table.weights, mask), seed,
            )  # fmt: skip
            predictions[entries] = model.scores(table.X[rows])
            seen[entries] = True
            if table.codes is not None and self._is_behind(predictions, seen):
                return
        once = predictions[: len(self.distinct)]
        predictions = np.tile(once, (self.repeats, 1))
        self.rungs.append(
            Rung(
                "boosted trees",
                "boosting",
                0,
                np.inf,
                0.0,
                predictions,
                self.judge.loss(predictions),
                lambda: boosted_model(table.X, table.Y, table.codes, table.weights, seed),
            )
        )

    def _boosting_may_pay(self) -> bool:
        """Tell whether a forest is near the best so far, and rows, classes allow to boost."""
        table = self.table
        n_outputs = table.Y.shape[1]
        is_small = len(table.X) < _MIN_BOOSTED_ROWS[table.codes is not None]
        forests = [rung.loss for rung in self.rungs if rung.metric in FORESTS]
        if is_small or n_outputs > _MAX_BOOSTED_CLASSES or not forests:
            return False
        return min(forests) <= _TREES_PAY * min(rung.loss for rung in self.rungs)

    def _is_behind(self, predictions, entries) -> bool:
        """Tell whether boosting has lost on the entries so far."""
        best = min(self.rungs, key=lambda rung: rung.loss)
        least = self.judge.loss(best.predictions, entries)
        return self.judge.loss(predictions, entries) > _BOOSTING_PAYS * least

    def _try_global(self) -> None:
        """End the ladder with models of all rows, linear and quadratic in the coordinates."""
        best_local = min(rung.loss for rung in self.rungs)
        tried = [(self._try_global_in("ridge", place), place) for place in self._global_places()]
        best = min(tried, key=lambda pair: pair[0].loss)
        quadratic = self._squared(best[1])
        if quadratic is not None:
            tried.append((self._try_global_in("ridge", quadratic), quadratic))
        tried.sort(key=lambda pair: pair[0].loss)
        if self.table.codes is None or tried[0][0].loss > _HOPELESS * best_local:
            return
        place = next(place for _, place in tried if self._can_iterate_in(place))
        self._try_global_in("logistic", place)

    def _global_places(self) -> list["_Place"]:
        wide = self.table.X.shape[1] > _MAX_GLOBAL_COLUMNS
        places = []
        for base in self._bases():
            if base.metric != "euclidean":
                coordinates = self._coordinates(base.metric)
                coordinates = self._reduced(coordinates) if wide else coordinates
                places.append(_Place(base.metric, coordinates, 1, self._width(coordinates)))
        return places

    def _squared(self, place: "_Place") -> "_Place | None":
        """Add squares and products of the coordinates, where their scatter is cheap."""
        n_terms = place.width + place.width * (place.width + 1) // 2
        if (len(self.table.X) + 10 * n_terms) * n_terms**2 > _MAX_QUADRATIC_FLOPS:
            return None
        both = QuadraticCoordinates(place.coordinates, place.width)
        return _Place(f"{place.name} quadratic", both, 2, n_terms)

    def _width(self, coordinates) -> int:
        return coordinates(self.table.X[:1]).shape[1]

    def _can_iterate_in(self, place: "_Place") -> bool:
        """Tell whether a logistic model, which takes many passes, can afford the coordinates."""
        return place.degree == 1 or self.table.Y.size * place.width <= _MAX_LOGISTIC_SIZE

    def _try_global_in(self, solver: str, place: "_Place") -> Rung:
        table, alphas = self.table, _GLOBAL_ALPHAS[solver]
        name, coordinates = place.name, place.coordinates
        Z = coordinates(table.X)
        predictions = np.zeros((len(alphas), len(self.rows), table.Y.shape[1]))
        for mask, entries, rows in self._held_out():
            if rows.size == 0:
                continue
            fits = global_fits(
                solver, Z[mask], table.Y[mask], _some(table.codes, mask),
                _some(table.weights, mask), alphas,
            )  # fmt: skip
            for a, (centre, level, coef) in enumerate(fits):
                predictions[a, entries] = level + (Z[rows] - centre) @ coef.T
        losses = [self.judge.loss(p) for p in predictions]
        a = int(np.argmin(losses))

        def build() -> GlobalModel:
            fit = global_fits(solver, Z, table.Y, table.codes, table.weights, alphas)[a]
            return GlobalModel(solver, name, alphas[a], coordinates, *fit)

        rung = Rung(
            f"{name} {solver}",
            name,
            place.degree,
            np.inf,
            alphas[a],
            predictions[a],
            losses[a],
            build,
        )
        self.rungs.append(rung)
        return rung

    # --- metrics learned from slopes ---

    def _try_rounds(self) -> None:
        """Turn slopes into a metric, round after round, while held-out rows gain by it."""
        # Which coordinates suit slopes best shows after some rounds, not before.
        is_small = len(self.table.X) < _SMALL
        bases = self._bases()[: 1 if is_small else 2]
        trails = [_Trail(base, len(self.folds)) for base in bases]
        for round_number in range(_MAX_ROUNDS // 2 if is_small else _MAX_ROUNDS):
            for trail in trails:
                if time.monotonic() > self._deadline:
                    return
                trail.follow(self._try_round(trail))
            least = min(trail.least for trail in trails)
            slack = _SLACK if round_number + 1 >= _PATIENCE else np.inf
            trails = [t for t in trails if t.waited < _PATIENCE and t.least <= slack * least]
            if not trails:
                return

    def _try_round(self, trail: "_Trail") -> Rung:
        first, maps, counts = trail.coordinates, trail.maps, _window(self.counts, trail.rung.size)
        Z = first(self.table.X)
        rules = [NearestRule(float(k), self.kernel) for k in counts]
        shape = (len(rules), len(self.alphas), len(self.rows), self.table.Y.shape[1])
        predictions = np.zeros(shape, dtype=np.float32)
        for f, (mask, entries, rows) in enumerate(self._held_out()):
            maps[f] = self._round_map(Z, maps[f], mask)
            if rows.size:
                data = self.place("gradient", first.followed_by(maps[f]))
                predictions[:, :, entries] = self._local_predictions(data, rules, 1, rows)
        maps[-1] = self._round_map(Z, maps[-1], np.ones(len(Z), dtype=bool))
        final = maps[-1]
        return self._keep_best(
            f"{trail.base} gradient {trail.n_rounds + 1}",
            "gradient",
            1,
            counts,
            predictions,
            lambda: self.place("gradient", first.followed_by(final)),
        )

    def _round_map(self, Z, P, mask) -> np.ndarray:
        table = self.table
        weights = _some(table.weights, mask)
        total = float(mask.sum() if weights is None else weights.sum())
        k = slope_neighbors(Z.shape[1], total)
        queries = slope_queries(int(mask.sum()), Z.shape[1], k, self._rng)
        step, _ = gradient_round(
            np.ascontiguousarray(Z[mask] @ P),
            np.ascontiguousarray(self._comparable(table.Y[mask])),
            weights,
            queries,
            n_neighbors=k,
            alpha=_ROUND_ALPHA[table.codes is not None],
            n_jobs=self.n_jobs,
        )
        return rescaled(P @ step)

    def _comparable(self, Y: np.ndarray) -> np.ndarray:
        """Return the targets in units in which outputs can be compared."""
        if self.table.codes is not None:
            return Y
        spread = self.table.Y.std(axis=0)
        return Y / np.where(spread > 0.0, spread, 1.0)


@dataclass(frozen=True)
class _Place:
    """Coordinates of a global model."""

    name: str
    coordinates: Any
    degree: int
    width: int


class _Trail:
    """Rounds of the gradient metric from one kind of coordinates, one map per fold and for all."""

    def __init__(self, base: Rung, n_folds: int):
        self.base = base.name
        self.rung = base
        self.coordinates = base.build().coordinates
        n_columns = base.build().rows.shape[1]
        self.maps = [np.eye(n_columns) for _ in range(n_folds + 1)]
        self.n_rounds = 0
        self.waited = 0
        self.least = base.loss

    def follow(self, rung: Rung) -> None:
        """Take note of a round."""
        self.rung = rung
        self.n_rounds += 1
        self.waited = 0 if rung.loss < self.least else self.waited + 1
        self.least = min(self.least, rung.loss)


_BASES = ("standardized", "ranked", "euclidean")


def _some(values, mask):
    return None if values is None else values[mask]


def _flops(k: int, d: int, n_alphas: int) -> float:
    """Cost of one neighbourhood: its Gram matrix and a factor per penalty."""
    small = min(k, d)
    return k * d * small + n_alphas * small**3 / 3.0 + 20.0 * k * d


def _affordable_counts(counts, total_weight: float, n_columns: int) -> list[int]:
    """Cut the sizes by what the rows allow and by what a prediction may cost."""
    most = int(total_weight) - 2
    dear = max(160, int(2e6 / n_columns**2))
    return [k for k in counts if k <= most and k <= dear] or [max(1, min(most, counts[0]))]


def _window(counts: list[int], size: float) -> list[int]:
    """Return the sizes beside the one that was best."""
    j = counts.index(int(size)) if int(size) in counts else len(counts) - 1
    return counts[max(0, j - 1) : j + 2]
