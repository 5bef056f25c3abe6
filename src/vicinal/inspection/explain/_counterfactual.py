"""Counterfactuals: the nearest rows with another prediction, under constraints."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier
from sklearn.utils.metaestimators import available_if

from vicinal._base import is_frame, last_step
from vicinal._base._compat import num_samples, rows_of
from vicinal._base._explanation import ExplanationSection, show
from vicinal._base._parallel import check_stopped
from vicinal._base._tables import ColumnCodes, are_numbers, column_values, spread_rows
from vicinal._base._wrappers import encoder_of, split_threshold
from vicinal.inspection.explain._columns import MixedRows, set_columns
from vicinal.surface import DecisionSurface

# Background rows between which points of the surface are searched.
_MOST_ROWS = 400
_SURFACE_POINTS = 60
# Columns of more categories are names, dates or free text, which are not changed.
_MOST_CATEGORIES = 20
# The distance may be larger by this share if fewer columns change then.
_SPARSITY = 0.25
# Rows per step of the search: background rows, values of single columns, rows that are improved.
_NEIGHBORS, _SINGLES, _IMPROVED = 150, 300, 8
_FEW_COLUMNS = 10
# Steps beyond the exact distance of the decision surface.
_LENGTHS = 1.0 + np.concatenate([[1e-6, 1e-4], np.geomspace(1e-3, _SPARSITY, 8)])


@dataclass(frozen=True)
class Constraints:
    """What a counterfactual may change.

    Attributes
    ----------
    target : object
        Wanted class, or for regression the pair (low, high) of the wanted range, ``None`` for an
        open end. ``None`` means any other class.
    fixed, increase, decrease : sequence of str
        Columns that must not change, that may only increase, and that may only decrease.
    ranges : mapping of str to (low, high)
        Limits of changed numbers, ``None`` for an open end.
    categories : mapping of str to sequence
        Values that a column may take.
    costs : mapping of str to float
        Factors of the changes of columns in the distance; 1 for the others.
    n_counterfactuals : int
        How many alternatives, which change different columns.
    """

    target: Any = None
    fixed: Sequence[str] = ()
    increase: Sequence[str] = ()
    decrease: Sequence[str] = ()
    ranges: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    categories: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    n_counterfactuals: int = 1

    def check(self, model: Any, names: list[str]) -> None:
        """Raise an error for unknown columns, classes and empty ranges."""
        for option in ("fixed", "increase", "decrease", "ranges", "categories", "costs"):
            unknown = [name for name in getattr(self, option) if name not in names]
            if unknown:
                raise ValueError(f"{option} names {unknown}, but the columns are {names}.")
        for name, limits in self.ranges.items():
            is_pair = isinstance(limits, tuple | list) and len(limits) == 2
            low, high = limits if is_pair else (1.0, 0.0)
            if low is not None and high is not None and low > high:
                raise ValueError(f"ranges[{name!r}]={limits!r} must be a pair (low, high).")
        for name, cost in self.costs.items():
            if not (isinstance(cost, int | float) and 0.0 < cost < np.inf):
                raise ValueError(f"costs[{name!r}]={cost!r} must be a positive number.")
        if self.n_counterfactuals < 1:
            raise ValueError(f"n_counterfactuals={self.n_counterfactuals!r} must be at least 1.")
        if self.target is None:
            return
        if is_classifier(model):
            known = np.asarray(model.classes_).tolist()
            if self.target not in known:
                raise ValueError(
                    f"target={self.target!r} must be one of the classes of the model, {known}."
                )
        elif np.shape(self.target) != (2,) or all(end is None for end in self.target):
            raise ValueError(
                f"target={self.target!r} must be a pair (low, high) for regression, such as "
                "(4000, None) for at least 4000."
            )

    @property
    def is_given(self) -> bool:
        """Whether anything differs from the defaults."""
        return self != Constraints()

    @property
    def interval(self) -> tuple[float, float] | None:
        """The wanted range of a regression, infinite at an open end; ``None`` for classes."""
        if not isinstance(self.target, tuple | list):
            return None
        low, high = self.target
        return -np.inf if low is None else low, np.inf if high is None else high

    def reached(self, predictions: np.ndarray, prediction: Any) -> np.ndarray:
        """Return which predictions are wanted."""
        if self.interval is not None:
            low, high = self.interval
            return (predictions >= low) & (predictions <= high)
        return predictions != prediction if self.target is None else predictions == self.target

    def wanted(self, prediction: Any) -> str:
        """Return the wanted prediction as text."""
        if self.target is None:
            return f"another class than {show(prediction)}"
        if self.interval is None:
            return show(self.target)
        low, high = map(show, self.target)
        if None not in self.target:
            return f"{low} to {high}"
        return f"at least {low}" if self.target[1] is None else f"at most {high}"


class Found(NamedTuple):
    """A counterfactual: the point, its prediction and its distance."""

    point: np.ndarray
    prediction: Any
    length: float


def counterfactual_section(
    model: Any, table: Any, names: list[str], prediction: Any, background: Any, given: Constraints
) -> ExplanationSection | None:
    """Return the counterfactuals of a row; ``None`` without complete other rows.

    Distances are in standard deviations of the background times the costs of the columns; another
    category counts as one. Integers stay integers, categories are known ones, and numbers stay in
    the range of the background unless ``given`` has another one.
    """
    if given.target is not None and given.reached(np.array([prediction]), prediction)[0]:
        return _not_found(f"The prediction is already {given.wanted(prediction)}.")
    if not num_samples(background):
        return None
    if (encoder := encoder_of(model)) is not None:  # prices and the like may change then
        table, background = encoder.with_numbers(table), encoder.with_numbers(background)
    codes = RowCodes(table, background)
    if not len(codes.rows):
        return None
    search = _Search(model, codes, names, prediction, given)
    found = search.run() if search.free.any() else []
    if not found:
        return _not_found(f"No counterfactual was found with {given.wanted(prediction)}.")
    return _section(codes, names, search, found, prediction)


def _not_found(summary: str) -> ExplanationSection:
    values = {"found": False, "distance": None}
    return ExplanationSection("counterfactual", "Counterfactual", summary, values=values)


class RowCodes(ColumnCodes):
    """Numbers for the cells of a row and of other complete rows, codes for categories.

    A number that the row misses stays missing.

    Parameters
    ----------
    table, background : array or frame
        The row that is explained, and others like it.

    Attributes
    ----------
    row : ndarray of shape (n_columns,)
        Codes of the row.
    rows : ndarray of shape (n_rows, n_columns)
        Codes of at most 400 other rows.
    is_category, is_text, is_whole, is_fixed : ndarray of bool of shape (n_columns,)
        Columns of categories, of too many to choose from, of whole numbers, and of numbers that the
        row misses.
    """

    def __init__(self, table: Any, background: Any) -> None:
        width = table.shape[1]
        cells = [column_values(table, j) + column_values(background, j) for j in range(width)]
        self.is_category = np.array([not are_numbers(column) for column in cells])
        self.is_fixed = ~self.is_category & np.array([column[0] is None for column in cells])
        codes = np.zeros((len(cells[0]), width))
        for j in np.flatnonzero(~self.is_category & ~self.is_fixed).tolist():
            codes[:, j] = np.array(cells[j], dtype=float)  # None becomes NaN
        chosen = np.flatnonzero(np.isfinite(codes).all(axis=1))
        others = chosen[1:] if chosen[:1].tolist() == [0] else chosen[:0]
        chosen = np.append(0, others[spread_rows(len(others), _MOST_ROWS)])
        columns = np.flatnonzero(self.is_category).tolist()
        shown = {j: [cells[j][i] for i in chosen.tolist()] for j in columns}
        super().__init__(shown)
        self.mixed = MixedRows(table, rows_of(background, chosen[1:] - 1))
        codes = codes[chosen]
        self.first: dict[int, np.ndarray] = {}  # where each category stands first
        for j in columns:
            codes[:, j] = self.codes(j, shown[j])
            self.first[j] = np.unique(codes[:, j], return_index=True)[1]
        self.row, self.rows = codes[0], codes[1:]
        self.is_whole = ~self.is_category & (codes == np.round(codes)).all(axis=0)
        n_categories = np.array([len(self.first.get(j, ())) for j in range(width)])
        self.is_text = n_categories > _MOST_CATEGORIES
        self.is_plain = not is_frame(table) and not (self.is_category | self.is_fixed).any()

    def decoded(self, j: int, number: float) -> Any:
        """Return the cell that a number stands for."""
        if j in self.first:
            return self.categories[j][round(number)]
        if self.is_fixed[j]:
            return None
        return int(number) if self.is_whole[j] else float(number)

    def table(self, codes: np.ndarray) -> Any:
        """Return a table like the one of the row from a matrix of codes."""
        index = np.zeros(codes.shape, dtype=np.int64)
        for j, first in self.first.items():
            index[:, j] = first[np.clip(codes[:, j].round(), 0, len(first) - 1).astype(int)]
        numbers = np.flatnonzero(~self.is_category & ~self.is_fixed)
        return set_columns(self.mixed.take(index), numbers, codes[:, numbers])


class _Search:
    """Search for counterfactuals of one row, in codes of its table, by batches of predictions."""

    def __init__(
        self, model: Any, codes: RowCodes, names: list[str], prediction: Any, given: Constraints
    ) -> None:
        self.table_model = model
        self.model = model if codes.is_plain else CodedModel(model, codes)
        self.codes, self.row, self.rows = codes, codes.row, codes.rows
        self.prediction, self.given = prediction, given
        everything = np.vstack([codes.rows, codes.row])
        self.spread = everything.std(axis=0)
        self.cost = np.array([given.costs.get(name, 1.0) for name in names])
        self.unit = np.where(self.spread > 0.0, self.spread, 1.0) / self.cost
        self.free = ~(codes.is_text | codes.is_fixed | np.isin(names, list(given.fixed)))
        self.low, self.high = everything.min(axis=0), everything.max(axis=0)
        self.allowed: dict[int, np.ndarray] = {}
        for j, name in enumerate(names):
            self._constrain(j, name)
        self.points = np.empty((0, len(names)))
        self.predictions = np.empty(0, dtype=object)
        self.distance: float | None = None

    def _constrain(self, j: int, name: str) -> None:
        given = self.given
        if j in self.codes.first:
            if name in (*given.ranges, *given.increase, *given.decrease):
                raise ValueError(
                    f"{name!r} holds categories, which have no range and do not increase or "
                    "decrease; use categories or fixed."
                )
            known = self.codes.categories[j]
            wanted = given.categories.get(name, known)
            chosen = [k for k, v in enumerate(known) if v is not None and v in wanted]
            self.allowed[j] = np.array(chosen, dtype=float)
            return
        if name in given.ranges:
            low, high = given.ranges[name]
            column = self.rows[:, j]
            self.low[j] = column.min() if low is None or np.isinf(low) else low
            self.high[j] = column.max() if high is None or np.isinf(high) else high
        if name in given.increase:
            self.low[j] = max(self.low[j], self.row[j])
        if name in given.decrease:
            self.high[j] = min(self.high[j], self.row[j])
        if self.codes.is_whole[j]:
            self.low[j], self.high[j] = np.ceil(self.low[j]), np.floor(self.high[j])
        if name in given.categories:
            values = np.array(given.categories[name], dtype=float)
            values = np.unique(values[(values >= self.low[j]) & (values <= self.high[j])])
            values = values[values == np.round(values)] if self.codes.is_whole[j] else values
            self.allowed[j] = values
            self.free[j] &= len(values) > 0
        if self.low[j] > self.high[j]:
            self.free[j] = False

    def run(self) -> list[Found]:
        """Return counterfactuals, the preferred one first."""
        self._try(self._nearest())
        self._try(self._steepest())
        self._project()
        if not len(self.points):
            self._ascend()
        if not len(self.points):
            return []
        self._try(self._prefixes(self._best()))
        self._shrink()
        for _ in range(2):
            self._try(self._undone(self._best(_IMPROVED // 4)))
            self._try(self._reductions(self._best(_IMPROVED // 4)))
            self._shrink()
        return self._selected()

    # --- candidates ---

    def _feasible(self, points: np.ndarray) -> np.ndarray:
        """Return points with every constraint applied; unchanged cells stay as they are."""
        numbers = np.clip(points, self.low, self.high)
        numbers = np.where(self.codes.is_whole, np.round(numbers), numbers)
        points = np.where(points == self.row, self.row, numbers)
        for j, allowed in self.allowed.items():
            if j not in self.codes.first and len(allowed):  # numbers move to the nearest one
                is_moved = points[:, j] != self.row[j]
                nearest = allowed[np.abs(points[:, j, None] - allowed).argmin(axis=1)]
                points[:, j] = np.where(is_moved, nearest, points[:, j])
            points[:, j] = np.where(np.isin(points[:, j], allowed), points[:, j], self.row[j])
        return np.where(self.free, points, self.row)

    def _nearest(self) -> np.ndarray:
        """Return the nearest background rows, as far as they may be changed to."""
        rows = self._feasible(self.rows)
        return rows[np.argsort(self._lengths(rows), kind="stable")[:_NEIGHBORS]]

    def _singles(self, start: np.ndarray) -> np.ndarray:
        """Return rows that differ from ``start`` in one column."""
        columns = np.flatnonzero(self.free)
        n_values = max(2, min(12, _SINGLES // len(columns)))
        found = []
        for j in columns.tolist():
            values = self.allowed.get(j)
            if values is None:
                shares = np.linspace(0.0, 1.0, n_values)
                inside = np.clip(np.quantile(self.rows[:, j], shares), self.low[j], self.high[j])
                values = np.unique([*inside, self.low[j], self.high[j]])
            points = np.repeat(start[None], len(values), axis=0)
            points[:, j] = values
            found.append(points)
        return self._feasible(np.vstack(found))

    def _steepest(self) -> np.ndarray:
        """Return changes of single columns, and steps along their slopes."""
        singles = self._singles(self.row)
        progress = self._progress(np.vstack([self.row, singles]))
        if progress is None:
            return singles
        steps = np.where(self.codes.is_category, 0.0, self._steps(singles))
        column = np.abs(steps).argmax(axis=1)
        size = steps[np.arange(len(steps)), column]
        slope = np.zeros(len(self.row))
        ratio = (progress[1:] - progress[0]) / np.where(size == 0.0, np.inf, np.abs(size))
        for k in np.argsort(ratio, kind="stable"):  # the largest slope of a column comes last
            if ratio[k] > 0.0:
                slope[column[k]] = np.sign(size[k]) * ratio[k]
        order = np.argsort(-np.abs(slope), kind="stable")[: np.count_nonzero(slope)]
        lengths = np.geomspace(0.03, 10.0, 24)[:, None]
        found = [singles[np.argsort(-progress[1:], kind="stable")[: _NEIGHBORS // 3]]]
        for count in {1, 2, 3, 5, 10, len(order)} if len(order) else ():
            some = np.zeros(len(slope))
            some[order[:count]] = slope[order[:count]]
            found.append(self.row + lengths * some / np.linalg.norm(some) * self.unit)
        return self._feasible(np.vstack(found))

    def _ascend(self) -> None:
        """Change one column after another towards the wanted prediction until it is reached."""
        start = self.row
        for _ in range(_FEW_COLUMNS):
            points = self._singles(start)
            if self._try(points):
                return
            progress = self._progress(points)
            if progress is None:
                return
            start = points[int(progress.argmax())]

    def _progress(self, points: np.ndarray) -> np.ndarray | None:
        """Return how near predictions are to the wanted one; ``None`` without probabilities."""
        if self.given.interval is not None:
            values = np.asarray(self.model.predict(points), dtype=float)
            low, high = self.given.interval
            return -np.maximum(0.0, low - values) - np.maximum(0.0, values - high)
        if not hasattr(self.model, "predict_proba"):
            return None
        proba = np.clip(np.asarray(self.model.predict_proba(points)), 1e-9, 1.0 - 1e-9)
        classes = np.asarray(self.model.classes_).tolist()
        target = self.given.target
        share = proba[:, classes.index(self.prediction if target is None else target)]
        odds = np.log(share) - np.log1p(-share)
        return -odds if target is None else odds

    def _project(self) -> None:
        """Add the projection on the decision surface, of a model with scores and no constraint.

        Scores do not lead to a surface at another threshold.
        """
        last, (_, threshold) = last_step(self.table_model), split_threshold(self.table_model)
        has_scores = hasattr(last, "decision_function") and not threshold
        if not has_scores or self.given.is_given or not self.free.all() or self.allowed:
            return
        # The section reports that every row has the same prediction.
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            options = {"metric": "standardized", "n_surface_points": _SURFACE_POINTS}
            surface = DecisionSurface(self.model, random_state=0, **options)
            surface.fit(np.vstack([self.rows, self.row]))
            found = surface.orthogonal_projection(self.row[None])
        if np.isfinite(found.distances[0]):
            self.distance = float(found.distances[0])
            self._try(self._feasible(self._along(found.points[0])))

    def _along(self, goal: np.ndarray) -> np.ndarray:
        """Return steps along the largest 1, 2, ... parts of the way to a point, and all of it."""
        way = (goal - self.row) / self.unit
        order = np.argsort(-np.abs(way), kind="stable")
        reach = max(float(np.linalg.norm(way)), 1e-6)  # a row on the surface steps over it
        points = []
        for count in [*range(1, min(len(way), _FEW_COLUMNS) + 1), len(way)]:
            some = np.zeros(len(way))
            some[order[:count]] = way[order[:count]]
            size = float(np.linalg.norm(some))
            some = some * (reach / size) if size > 0.0 else some
            points.append(self.row + _LENGTHS[:, None] * some * self.unit)
        return np.vstack(points)

    # --- improvement ---

    def _try(self, points: np.ndarray) -> bool:
        """Predict points, store those with a wanted prediction; return whether there is one."""
        check_stopped()
        points = np.unique(points[(points != self.row).any(axis=1)], axis=0)
        if not len(points):
            return False
        return bool(self._stored(points).any())

    def _stored(self, points: np.ndarray) -> np.ndarray:
        """Store the points whose prediction is wanted; return which these are."""
        predictions = np.asarray(self.model.predict(points))
        hits = self.given.reached(predictions, self.prediction) & (points != self.row).any(axis=1)
        self.points = np.vstack([self.points, points[hits]])
        self.predictions = np.append(self.predictions, predictions[hits].astype(object))
        return hits

    def _best(self, n: int = _IMPROVED) -> np.ndarray:
        """Return the shortest of the stored points, and the shortest of those with few changes."""
        lengths, counts = self._lengths(self.points), (self.points != self.row).sum(axis=1)
        shortest = np.argsort(lengths, kind="stable")[:n]
        sparsest = np.lexsort((lengths, counts))[:n]
        return self.points[np.union1d(shortest, sparsest)]

    def _steps(self, points: np.ndarray) -> np.ndarray:
        """Return the change of each column, in standard deviations or 1, times its cost."""
        changed = (points != self.row) * self.cost
        return np.where(self.codes.is_category, changed, (points - self.row) / self.unit)

    def _prefixes(self, points: np.ndarray) -> np.ndarray:
        """Return points with only the largest 1, 2, ... changes."""
        order = np.argsort(-np.abs(self._steps(points)), axis=1, kind="stable")
        rank = np.argsort(order, axis=1)
        counts = np.arange(1, min(points.shape[1], _FEW_COLUMNS) + 1)
        some = rank[:, None, :] < counts[None, :, None]
        return np.where(some, points[:, None], self.row).reshape(-1, points.shape[1])

    def _undone(self, points: np.ndarray) -> np.ndarray:
        """Return points with changes undone, those first that matter least for their size."""
        found = [points[:0]]
        for point in points:
            changed = np.flatnonzero(point != self.row)
            if len(changed) < 2:
                continue
            singles = np.repeat(point[None], len(changed), axis=0)
            singles[np.arange(len(changed)), changed] = self.row[changed]
            progress = self._progress(np.vstack([point, singles]))
            if progress is None:
                predictions = np.asarray(self.model.predict(np.vstack([point, singles])))
                progress = self.given.reached(predictions, self.prediction).astype(float)
            loss = (progress[0] - progress[1:]) / self._steps(point[None])[0, changed] ** 2
            undone = np.tri(len(changed) - 1, len(changed), dtype=bool)
            several = np.repeat(point[None], len(changed) - 1, axis=0)
            columns = changed[np.argsort(loss, kind="stable")]
            several[:, columns] = np.where(undone, self.row[columns], several[:, columns])
            found.append(several)
        return np.vstack(found)

    def _reductions(self, points: np.ndarray) -> np.ndarray:
        """Return points with one of the largest changes reduced or undone."""
        order = np.argsort(-np.abs(self._steps(points)), axis=1, kind="stable")[:, :_FEW_COLUMNS]
        found = [points[:0]]
        for point, columns in zip(points, order, strict=True):
            for j in columns[point[columns] != self.row[columns]].tolist():
                shares = np.array([0.0] if self.codes.is_category[j] else [0.0, 0.5, 0.8])
                others = np.repeat(point[None], len(shares), axis=0)
                others[:, j] = self.row[j] + shares * (point[j] - self.row[j])
                found.append(others)
        return self._feasible(np.vstack(found))

    def _shrink(self) -> None:
        """Move the best points towards the row as far as the prediction stays wanted."""
        points = self._best(_IMPROVED // 2)
        inner, outer = np.zeros(len(points)), np.ones(len(points))
        for n_steps in (16, 8, 8):
            shares = inner[:, None] + (outer - inner)[:, None] * np.arange(n_steps) / n_steps
            numbers = self.row + shares[:, :, None] * (points - self.row)[:, None]
            tried = np.where(self.codes.is_category, points[:, None], numbers)
            hits = self._stored(self._feasible(tried.reshape(-1, points.shape[1])))
            grid = hits.reshape(len(points), n_steps)
            first = np.where(grid.any(axis=1), grid.argmax(axis=1), n_steps)
            width = (outer - inner) / n_steps
            outer = inner + width * first
            inner = np.maximum(inner, outer - width)

    def _lengths(self, points: np.ndarray) -> np.ndarray:
        return np.linalg.norm(self._steps(points), axis=1)

    def _selected(self) -> list[Found]:
        """Return the shortest point, preferring few changes, and alternatives in other columns."""
        changed, lengths = self.points != self.row, self._lengths(self.points)
        counts = changed.sum(axis=1)
        near = lengths <= (1.0 + _SPARSITY) * lengths.min()
        order = [int(np.lexsort((lengths, counts, ~near))[0])]
        for at in np.argsort(lengths * (1.0 + 0.1 * counts), kind="stable").tolist():
            if len(order) == self.given.n_counterfactuals:
                break
            shared = [(changed[at] & changed[k]).sum() for k in order]
            adds_nothing = any((changed[k] <= changed[at]).all() for k in order)
            if not adds_nothing and max(shared) <= 0.5 * counts[at]:
                order.append(at)
        return [Found(self.points[k], self.predictions[k], float(lengths[k])) for k in order]


def _section(
    codes: RowCodes, names: list[str], search: _Search, found: list[Found], prediction: Any
) -> ExplanationSection:
    tables = [_changes(codes, names, search.spread, one.point) for one in found]
    best = found[0]
    changes = "this change" if len(tables[0]) == 1 else "these changes"
    summary = (
        f"With {changes} the prediction is {show(best.prediction)} instead of {show(prediction)}; "
        f"the distance is {show(best.length)} standard deviations"
    )
    counted = ["another category counts as one"] if codes.is_category.any() else []
    counted += ["times the costs of the columns"] if search.given.costs else []
    summary += f" ({', '.join(counted)})." if counted else "."
    if search.distance is not None:
        summary += f" The decision surface is {show(abs(search.distance))} away."
    for one, table in zip(found[1:], tables[1:], strict=True):
        parts = ", ".join(f"{name} {show(old)} → {show(new)}" for name, old, new, _ in table[:5])
        parts += f" and {len(table) - 5} more" if len(table) > 5 else ""
        summary += f" Alternative ({show(one.prediction)}, distance {show(one.length)}): {parts}."
    values = {
        "found": True,
        "distance": best.length if search.distance is None else search.distance,
        "unit": "standard deviations",
        "label": best.prediction,
        "counterfactual": _decoded(codes, names, best.point),
        "counterfactual_distance": best.length,
        "alternatives": [_decoded(codes, names, one.point) for one in found[1:]],
    }
    head = ("column", "value", "becomes", "deviations")
    return ExplanationSection(
        "counterfactual", "Counterfactual", summary, head, tables[0], "deviations", values
    )


def _changes(codes: RowCodes, names: list[str], spread: np.ndarray, point: np.ndarray) -> list:
    row, table = codes.row, []
    for j in np.flatnonzero(point != row).tolist():
        before, after = codes.decoded(j, row[j]), codes.decoded(j, point[j])
        step = (point[j] - row[j]) / max(spread[j], 1e-300)
        table.append((names[j], before, after, 1.0 if codes.is_category[j] else float(step)))
    return sorted(table, key=lambda line: -abs(line[3]))


def _decoded(codes: RowCodes, names: list[str], point: np.ndarray) -> dict[str, Any]:
    return {name: codes.decoded(j, point[j]) for j, name in enumerate(names)}


class CodedModel(ClassifierMixin, BaseEstimator):
    """A classifier of tables, seen through their codes."""

    def __init__(self, model: Any, codes: RowCodes) -> None:
        self.model = model
        self.codes = codes

    @property
    def classes_(self) -> np.ndarray:
        """Classes of the model."""
        return self.model.classes_

    def fit(self, X, y=None):
        """Do nothing: the model is fitted."""
        return self

    def predict(self, X):
        """Predict rows of codes."""
        return self.model.predict(self.codes.table(np.asarray(X, dtype=float)))

    @available_if(lambda self: hasattr(self.model, "predict_proba"))
    def predict_proba(self, X):
        """Predict probabilities of rows of codes."""
        return self.model.predict_proba(self.codes.table(np.asarray(X, dtype=float)))

    def __sklearn_is_fitted__(self) -> bool:
        return True
