"""How far a row is from another answer, and the least change that gets it."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if

from vicinal._base._compat import num_samples
from vicinal._base._explanation import ExplanationSection, show
from vicinal._base._thresholds import split_threshold
from vicinal.surface import DecisionSurface

# Background rows between which points of the surface are looked for.
_MOST_ROWS = 400
_SURFACE_POINTS = 60
# Columns of more categories are names, dates or prose, which nobody exchanges for another's.
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
    """Another answer: where it is, which one, how far, and how far the surface is."""

    point: np.ndarray
    label: Any
    length: float
    distance: float


def surface_section(
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
        return _no_change(f"The answer is {show(target)} already.")
    coder = TableCoder(table, background)
    row, rows = coder.coded(table), coder.coded(background)
    rows = rows[np.isfinite(rows).all(axis=1)]
    if not np.isfinite(row).all() or not len(rows):
        return None
    chosen = np.linspace(0, len(rows) - 1, min(len(rows), _MOST_ROWS)).round().astype(np.int64)
    rows = np.vstack([rows[chosen], row])
    spread = rows.std(axis=0)
    free = ~(coder.is_text | np.isin(names, list(immutable)))
    free[list(coder.gaps)] = False
    inner = model if coder.is_plain else CodedModel(model, coder)
    search = _Search(inner, coder, row[0], rows, np.where(spread > 0.0, spread, 1.0), free)
    change = (
        search.least_change(prediction, target, _has_labels_only(model)) if free.any() else None
    )
    if change is None:
        wanted = f"another answer than {show(prediction)}" if target is None else show(target)
        return _no_change(f"No change was found that gets {wanted}.")
    is_exact = target is None and bool(free.all()) and not coder.is_category.any()
    return _section(coder, names, row[0], spread, change, is_exact)


def _no_change(summary: str) -> ExplanationSection:
    values = {"found": False, "distance": None}
    return ExplanationSection("surface", "Decision surface", summary, values=values)


def _has_labels_only(model: Any) -> bool:
    """Tell whether scores do not lead to the surface: it is at another threshold, or they are dear.

    Differences of scores take long where many local models answer every point.
    """
    if split_threshold(model)[1] is not None:
        return True
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    return hasattr(last, "members_")


class _Search:
    """Search for the least change of one row, in codes of its table."""

    def __init__(self, model, coder, row, rows, unit, free) -> None:
        self.model, self.coder, self.row, self.rows = model, coder, row, rows
        self.unit, self.free = unit, free
        self.is_category = coder.is_category
        self.is_whole = coder.is_whole & ~self.is_category

    def least_change(self, prediction: Any, target: Any, has_labels_only: bool) -> Change | None:
        """Find the surface, and beyond it a feasible row with another answer, confirmed."""
        with warnings.catch_warnings():
            # That every row gets the same answer is told in words by the caller.
            warnings.simplefilter("ignore", UserWarning)
            surface = DecisionSurface(
                self.model,
                oracle="labels" if self.is_category.any() or has_labels_only else "auto",
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
        """Return a point of another answer in real numbers, and the distance of the surface."""
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
    coder: "TableCoder",
    names: list[str],
    row: np.ndarray,
    spread: np.ndarray,
    change: Change,
    is_exact: bool,
) -> ExplanationSection:
    table = []
    for j in np.flatnonzero(change.point != row).tolist():
        before, after = coder.decoded(j, row[j]), coder.decoded(j, change.point[j])
        step = (change.point[j] - row[j]) / max(spread[j], 1e-300)
        table.append((names[j], before, after, 1.0 if coder.is_category[j] else float(step)))
    table.sort(key=lambda line: -abs(line[3]))
    changes = "this change" if len(table) == 1 else "these changes"
    if is_exact:
        summary = (
            f"The answer changes {show(abs(change.distance))} standard deviations from this row. "
            f"It becomes {show(change.label)} with {changes}, {show(change.length)} away."
        )
    else:
        summary = (
            f"The answer becomes {show(change.label)} with {changes}, {show(change.length)} away, "
            "in standard deviations"
        )
        summary += " (another category counts as one)." if coder.is_category.any() else "."
    values = {
        "found": True,
        "distance": change.distance,
        "unit": "standard deviations",
        "label": change.label,
        "counterfactual": {name: coder.decoded(j, change.point[j]) for j, name in enumerate(names)},
        "counterfactual_distance": change.length,
    }
    head = ("column", "value", "becomes", "deviations")
    return ExplanationSection(
        "surface", "Decision surface", summary, head, table, "deviations", values
    )


class TableCoder:
    """Numbers for the cells of a table: themselves, or the code of a category.

    A gap among the numbers of the row stays a gap, whatever its code.

    Parameters
    ----------
    table, background : array or frame
        The row that is explained, and others like it.
    """

    def __init__(self, table: Any, background: Any) -> None:
        self.template = table
        self.is_frame = hasattr(table, "columns")
        self.categories: list[list | None] = []
        self.whole: list[bool] = []
        self.gaps: dict[int, Any] = {}
        for j in range(table.shape[1]):
            (own,) = _cells(table, j)
            cells = [*_cells(background, j), own]
            are_numbers = _are_numbers(cells)
            self.categories.append(None if are_numbers else list(dict.fromkeys(cells)))
            self.whole.append(are_numbers and all(_is_whole(cell) for cell in cells))
            if are_numbers and _is_gap(own):
                self.gaps[j] = own

    @property
    def is_category(self) -> np.ndarray:
        """Which columns hold categories."""
        return np.array([known is not None for known in self.categories])

    @property
    def is_whole(self) -> np.ndarray:
        """Which columns hold whole numbers only."""
        return np.array(self.whole)

    @property
    def is_text(self) -> np.ndarray:
        """Which columns hold too many categories to choose from."""
        return np.array([len(known or []) > _MOST_CATEGORIES for known in self.categories])

    @property
    def is_plain(self) -> bool:
        """Whether the model takes the numbers as they are."""
        return not self.is_frame and not self.is_category.any() and not self.gaps

    def coded(self, table: Any) -> np.ndarray:
        """Return a matrix of numbers."""
        coded = np.empty((num_samples(table), len(self.categories)))
        for j, known in enumerate(self.categories):
            cells = _cells(table, j)
            if j in self.gaps:
                coded[:, j] = 0.0
            elif known is None:
                coded[:, j] = np.array(cells, dtype=float)  # None becomes NaN
            else:
                code = {value: number for number, value in enumerate(known)}
                coded[:, j] = [code[value] for value in cells]
        return coded

    def decoded(self, j: int, number: float) -> Any:
        """Return the cell that a number stands for."""
        known = self.categories[j]
        if j in self.gaps:
            return self.gaps[j]
        if known is not None:
            return known[round(number)]
        return int(number) if self.whole[j] else float(number)

    def table(self, coded: np.ndarray) -> Any:
        """Return a table like the template from a matrix of numbers."""
        columns = [self._column(j, coded[:, j]) for j in range(len(self.categories))]
        if not self.is_frame:
            kind = object if self.is_category.any() else float
            return np.column_stack([np.asarray(column, dtype=kind) for column in columns])
        names = list(self.template.columns)
        made = type(self.template)(dict(zip(names, columns, strict=True)))
        kinds = {
            name: self.template[name].dtype
            for j, name in enumerate(names)
            if self.categories[j] is not None or j in self.gaps
        }
        return made.cast(kinds) if hasattr(made, "with_columns") else made.astype(kinds)

    def _column(self, j: int, codes: np.ndarray) -> Any:
        known = self.categories[j]
        if j in self.gaps:
            return [self.gaps[j]] * len(codes)
        if known is None:
            return codes
        return [known[int(code)] for code in np.clip(codes.round(), 0, len(known) - 1)]


def _cells(table: Any, j: int) -> list[Any]:
    if hasattr(table, "columns"):
        column = table[table.columns[j]]
        return column.to_list() if hasattr(column, "to_list") else list(column)
    if hasattr(table, "toarray"):
        return table[:, [j]].toarray().ravel().tolist()
    return np.asarray(table)[:, j].tolist()


def _are_numbers(cells: list[Any]) -> bool:
    known = [cell for cell in cells if cell is not None]
    return bool(known) and all(
        isinstance(cell, int | float) and not isinstance(cell, bool) for cell in known
    )


def _is_gap(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and bool(np.isnan(cell)))


def _is_whole(cell: Any) -> bool:
    return _is_gap(cell) or float(cell).is_integer()


def _has(method: str):
    return lambda self: hasattr(self.model, method)


class CodedModel(ClassifierMixin, BaseEstimator):
    """A classifier of tables, seen through their codes."""

    def __init__(self, model: Any, coder: TableCoder) -> None:
        self.model = model
        self.coder = coder

    @property
    def classes_(self) -> np.ndarray:
        """Classes of the model."""
        return self.model.classes_

    def fit(self, X, y=None):
        """Do nothing: the model is fitted."""
        return self

    def predict(self, X):
        """Predict rows of codes."""
        return self.model.predict(self.coder.table(np.asarray(X, dtype=float)))

    @available_if(_has("predict_proba"))
    def predict_proba(self, X):
        """Predict probabilities of rows of codes."""
        return self.model.predict_proba(self.coder.table(np.asarray(X, dtype=float)))

    def __sklearn_is_fitted__(self) -> bool:
        return True
