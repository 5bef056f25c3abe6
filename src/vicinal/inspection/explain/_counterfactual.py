"""Distance of a row to the decision surface, and its counterfactual."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if

from vicinal._base import is_frame, last_step
from vicinal._base._compat import num_samples, rows_of
from vicinal._base._explanation import ExplanationSection, show
from vicinal._base._tables import column_values, spread_rows
from vicinal._base._wrappers import split_threshold
from vicinal.inspection.explain._columns import MixedRows, set_columns
from vicinal.surface import DecisionSurface

# Background rows between which points of the surface are looked for.
_MOST_ROWS = 400
_SURFACE_POINTS = 60
# Columns of more categories are names, dates or free text, which are not changed.
_MOST_CATEGORIES = 20
# The change may be so much longer than the shortest if fewer columns change then.
_SPARSITY = 0.25
# How far to go, as multiples of the way to the surface; whole numbers may need the long ones.
_LENGTHS = 1.0 + np.concatenate([[1e-6, 1e-4], np.geomspace(1e-3, _SPARSITY, 8)])
_LONGER = np.array([1.5, 2.0, 3.0])
_FEW_COLUMNS = 12
# Rows of the background that are tried as they are.
_NEIGHBORS = 50


class Change(NamedTuple):
    """A counterfactual: the point, its prediction, its distance and that of the surface."""

    point: np.ndarray
    label: Any
    length: float
    distance: float


def counterfactual_section(
    model: Any,
    table: Any,
    names: list[str],
    prediction: Any,
    background: Any,
    *,
    immutable: Sequence[str] = (),
    target: Any = None,
) -> ExplanationSection | None:
    """Return distance and counterfactual of a classifier; ``None`` without complete other rows.

    Distances are in standard deviations of the background; a change of a category counts as one.
    Whole numbers stay whole, categories are seen ones, and numbers stay between those of the
    background wherever a change within them is found.
    """
    if target is not None and target == prediction:
        return _no_change(f"The prediction is {show(target)} already.")
    if not num_samples(background):
        return None
    codes = RowCodes(table, background)
    if not len(codes.rows):
        return None
    rows = np.vstack([codes.rows, codes.row])
    spread = rows.std(axis=0)
    free = ~(codes.is_text | codes.is_fixed | np.isin(names, list(immutable)))
    inner = model if codes.is_plain else CodedModel(model, codes)
    # Scores do not lead to a surface at another threshold, and their differences take long where
    # many local models predict every point.
    by_labels = split_threshold(model)[1] is not None or hasattr(last_step(model), "encoders_")
    search = _Search(inner, codes, rows, np.where(spread > 0.0, spread, 1.0), free)
    change = search.counterfactual(prediction, target, by_labels) if free.any() else None
    if change is None:
        wanted = f"another prediction than {show(prediction)}" if target is None else show(target)
        return _no_change(f"No counterfactual was found with {wanted}.")
    is_exact = target is None and bool(free.all()) and not codes.is_category.any()
    return _section(codes, names, spread, change, is_exact)


def _no_change(summary: str) -> ExplanationSection:
    values = {"found": False, "distance": None}
    return ExplanationSection("counterfactual", "Counterfactual", summary, values=values)


class _Search:
    """Search for the counterfactual of one row, in codes of its table."""

    def __init__(self, model, codes, rows, unit, free) -> None:
        self.model, self.row, self.rows = model, codes.row, rows
        self.unit, self.free = unit, free
        self.is_category = codes.is_category
        self.is_whole = codes.is_whole

    def counterfactual(self, prediction: Any, target: Any, by_labels: bool) -> Change | None:
        """Find the surface, and beyond it a feasible row whose prediction differs."""
        with warnings.catch_warnings():
            # The caller reports that every row has the same prediction.
            warnings.simplefilter("ignore", UserWarning)
            surface = DecisionSurface(
                self.model,
                oracle="labels" if self.is_category.any() or by_labels else "auto",
                metric="standardized",
                n_surface_points=_SURFACE_POINTS,
                random_state=0,
            ).fit(self.rows)
            goal, distance = self._goal(surface, target)
        if goal is None:
            return None
        tried = np.vstack([self._candidates(goal), self._neighbors()])
        low, high = self.rows.min(axis=0), self.rows.max(axis=0)
        for points in (np.clip(tried, low, high), tried):
            points = self._whole(points)
            labels = np.asarray(self.model.predict(points))
            hits = labels != prediction if target is None else labels == target
            if hits.any():
                return self._shortest(points[hits], labels[hits], distance)
        return None

    def _goal(self, surface: DecisionSurface, target: Any) -> tuple[np.ndarray | None, float]:
        """Return a point with another prediction, and the distance of the surface."""
        if target is None and self.free.all() and not self.is_category.any():
            found = surface.orthogonal_projection(self.row[None])
            distance = float(found.distances[0])
            return (found.points[0] if np.isfinite(distance) else None), distance
        found = surface.counterfactual(
            self.row[None],
            target=target,
            categorical=np.flatnonzero(self.is_category),
            immutable=np.flatnonzero(~self.free),
            sparsity=_SPARSITY,
        )
        return (found.points[0] if found.found[0] else None), float(found.distances[0])

    def _candidates(self, goal: np.ndarray) -> np.ndarray:
        """Return steps along the largest 1, 2, ... parts of the way, and along all of it.

        All are tried at once, since one call for many rows costs little more than one for one.
        """
        changed = self.is_category & (goal != self.row)
        way = np.where(self.is_category, changed, (goal - self.row) / self.unit)
        order = np.argsort(-np.abs(way), kind="stable")
        counts = [*range(1, min(len(way), _FEW_COLUMNS) + 1), len(way)]
        lengths = np.concatenate([_LENGTHS, _LONGER]) if self.is_whole.any() else _LENGTHS
        # A row right on the surface steps over it.
        reach = max(float(np.linalg.norm(way)), 1e-6)
        points = []
        for count in counts:
            some = np.zeros(len(way), dtype=bool)
            some[order[:count]] = True
            numbers = np.where(some & ~self.is_category, way, 0.0)
            rest = max(reach**2 - float((some & changed).sum()), 1e-12) ** 0.5
            size = float(np.linalg.norm(numbers))
            numbers = numbers * (rest / size) if size > 0.0 else numbers
            steps = self.row + lengths[:, None] * numbers * self.unit
            points.append(np.where(some & self.is_category, goal, steps))
        return np.vstack(points)

    def _neighbors(self) -> np.ndarray:
        """Return the nearest rows, with the columns that must not change as they are."""
        rows = np.where(self.free, self.rows, self.row)
        return rows[np.argsort(self._lengths(rows), kind="stable")[:_NEIGHBORS]]

    def _lengths(self, points: np.ndarray) -> np.ndarray:
        moved = points != self.row
        step = np.where(self.is_category, moved, (points - self.row) / self.unit)
        return np.linalg.norm(step, axis=1)

    def _whole(self, points: np.ndarray) -> np.ndarray:
        """Make whole what is whole in all rows: to the nearest, and away from the row's own."""
        if not self.is_whole.any():
            return points
        away = np.where(points > self.row, np.ceil(points - 1e-9), np.floor(points + 1e-9))
        rounded = [np.where(self.is_whole, way, points) for way in (np.round(points), away)]
        return np.unique(np.vstack(rounded), axis=0)

    def _shortest(self, points: np.ndarray, labels: np.ndarray, distance: float) -> Change:
        """Return the point of fewest changes among those not much longer than the shortest."""
        moved, lengths = points != self.row, self._lengths(points)
        near = np.flatnonzero(lengths <= (1.0 + _SPARSITY) * lengths.min())
        best = int(near[np.lexsort((lengths[near], moved[near].sum(axis=1)))[0]])
        return Change(points[best], labels[best], float(lengths[best]), distance)


def _section(
    codes: "RowCodes", names: list[str], spread: np.ndarray, change: Change, is_exact: bool
) -> ExplanationSection:
    row, table = codes.row, []
    for j in np.flatnonzero(change.point != row).tolist():
        before, after = codes.decoded(j, row[j]), codes.decoded(j, change.point[j])
        step = (change.point[j] - row[j]) / max(spread[j], 1e-300)
        table.append((names[j], before, after, 1.0 if codes.is_category[j] else float(step)))
    table.sort(key=lambda line: -abs(line[3]))
    changes = "this change" if len(table) == 1 else "these changes"
    if is_exact:
        summary = (
            f"The decision surface is {show(abs(change.distance))} standard deviations away. "
            f"With {changes}, {show(change.length)} away, the prediction is {show(change.label)}."
        )
    else:
        summary = (
            f"With {changes} the prediction is {show(change.label)}; the distance is "
            f"{show(change.length)} standard deviations"
        )
        summary += " (another category counts as one)." if codes.is_category.any() else "."
    values = {
        "found": True,
        "distance": change.distance,
        "unit": "standard deviations",
        "label": change.label,
        "counterfactual": {name: codes.decoded(j, change.point[j]) for j, name in enumerate(names)},
        "counterfactual_distance": change.length,
    }
    head = ("column", "value", "becomes", "deviations")
    return ExplanationSection(
        "counterfactual", "Counterfactual", summary, head, table, "deviations", values
    )


class RowCodes:
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
        self.is_category = np.array([not _are_numbers(column) for column in cells])
        self.is_fixed = ~self.is_category & np.array([column[0] is None for column in cells])
        codes = np.zeros((len(cells[0]), width))
        for j in np.flatnonzero(~self.is_category & ~self.is_fixed).tolist():
            codes[:, j] = np.array(cells[j], dtype=float)  # None becomes NaN
        chosen = np.flatnonzero(np.isfinite(codes).all(axis=1))
        others = chosen[1:] if chosen[:1].tolist() == [0] else chosen[:0]
        chosen = np.append(0, others[spread_rows(len(others), _MOST_ROWS)] if len(others) else [])
        chosen = chosen.astype(np.int64)
        self.cells = [[column[i] for i in chosen.tolist()] for column in cells]
        self.mixed = MixedRows(table, rows_of(background, chosen[1:] - 1))
        codes = codes[chosen]
        self.first: dict[int, np.ndarray] = {}  # where each category stands first
        for j in np.flatnonzero(self.is_category).tolist():
            # One and True are equal, but not the same category.
            keys = [(type(cell), cell) for cell in self.cells[j]]
            number = {key: k for k, key in enumerate(dict.fromkeys(keys))}
            codes[:, j] = [number[key] for key in keys]
            self.first[j] = np.array([keys.index(key) for key in number])
        self.row, self.rows = codes[0], codes[1:]
        self.is_whole = ~self.is_category & (codes == np.round(codes)).all(axis=0)
        n_categories = np.array([len(self.first.get(j, ())) for j in range(width)])
        self.is_text = n_categories > _MOST_CATEGORIES
        self.is_plain = not is_frame(table) and not (self.is_category | self.is_fixed).any()

    def decoded(self, j: int, number: float) -> Any:
        """Return the cell that a number stands for."""
        if j in self.first:
            return self.cells[j][self.first[j][round(number)]]
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


def _are_numbers(cells: list[Any]) -> bool:
    known = [cell for cell in cells if cell is not None]
    return bool(known) and all(
        isinstance(cell, int | float) and not isinstance(cell, bool) for cell in known
    )


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
