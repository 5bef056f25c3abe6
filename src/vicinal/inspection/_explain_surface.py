"""How far a row is from another answer, and the least change that gets it."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if

from vicinal._base._compat import num_samples
from vicinal._base._explanation import ExplanationSection, show
from vicinal.surface import DecisionSurface

# Background rows between which points of the surface are looked for.
_MOST_ROWS = 400
_SURFACE_POINTS = 60
# Columns of more categories are names, dates or prose, which nobody exchanges for another's.
_MOST_CATEGORIES = 20
# The change may be so much longer than the shortest if fewer columns change then.
_SPARSITY = 0.25
_LENGTHS = 1.0 + np.concatenate([[1e-6, 1e-4], np.geomspace(1e-3, _SPARSITY, 8)])
_FEW_COLUMNS = 12


class Change(NamedTuple):
    """Another answer: where it is, which one, how far, and how far the surface is."""

    point: np.ndarray
    label: Any
    length: float
    distance: float


def surface_section(
    model: Any, table: Any, names: list[str], prediction: Any, background: Any
) -> ExplanationSection | None:
    """Return distance and counterfactual of a classifier; ``None`` for a row with missing values.

    Distances are in standard deviations of the background; a change of a category counts as one.
    """
    coder = TableCoder(table, background)
    row, rows = coder.coded(table), coder.coded(background)
    rows = rows[np.isfinite(rows).all(axis=1)]
    if not np.isfinite(row).all() or not len(rows):
        return None
    chosen = np.linspace(0, len(rows) - 1, min(len(rows), _MOST_ROWS)).round().astype(np.int64)
    rows = np.vstack([rows[chosen], row])
    inner = model if coder.is_plain else CodedModel(model, coder)
    with warnings.catch_warnings():
        # That every row gets the same answer is told in words below.
        warnings.simplefilter("ignore", UserWarning)
        surface = DecisionSurface(
            inner,
            oracle="labels" if coder.is_category.any() or _is_dear(model) else "auto",
            metric="standardized",
            n_surface_points=_SURFACE_POINTS,
            random_state=0,
        ).fit(rows)
        if coder.is_category.any():
            change = _exchange(surface, row, coder)
        else:
            change = _shift(surface, row, rows.std(axis=0), prediction)
    if change is None:
        return ExplanationSection(
            "surface",
            "Decision surface",
            f"No change was found that gets another answer than {show(prediction)}.",
            values={"found": False, "distance": None},
        )
    return _section(coder, names, row[0], rows.std(axis=0), change)


def _is_dear(model: Any) -> bool:
    """Tell whether differences of scores would take long: many local models for every point."""
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    return hasattr(last, "rungs_")


def _exchange(surface: DecisionSurface, row: np.ndarray, coder: "TableCoder") -> Change | None:
    """Find the least change of a row with categories."""
    found = surface.counterfactual(
        row,
        categorical=np.flatnonzero(coder.is_category),
        immutable=np.flatnonzero(coder.is_text),
        sparsity=_SPARSITY,
    )
    if not found.found[0]:
        return None
    length = float(found.distances[0])
    return Change(np.asarray(found.points[0], dtype=float), found.labels[0], length, length)


def _shift(surface, row: np.ndarray, spread: np.ndarray, prediction: Any) -> Change | None:
    """Find the nearest point of the surface, and a step beyond it that changes few columns.

    All steps along the largest 1, 2, ... parts of the way are tried at once, since one call for
    many rows costs little more than one for one.
    """
    found = surface.orthogonal_projection(row)
    distance, point = float(found.distances[0]), np.asarray(found.points[0], dtype=float)
    if not np.isfinite(distance):
        return None
    unit = np.where(spread > 0.0, spread, 1.0)
    way = (point - row[0]) / unit
    order = np.argsort(-np.abs(way), kind="stable")
    counts = [*range(1, min(len(way), _FEW_COLUMNS) + 1), len(way)]
    directions = np.zeros((len(counts), len(way)))
    for i, count in enumerate(counts):
        directions[i, order[:count]] = way[order[:count]]
    sizes = np.linalg.norm(directions, axis=1, keepdims=True)
    directions = directions / np.where(sizes > 0.0, sizes, 1.0)
    reach = max(abs(distance), 1e-6)  # a row right on the surface steps over it
    steps = reach * _LENGTHS[None, :, None] * directions[:, None, :]
    tried = row + (steps * unit).reshape(-1, len(way))
    labels = np.asarray(surface.estimator_.predict(tried))
    hits = np.flatnonzero(labels != prediction)
    if not len(hits):
        return None
    best = int(hits[0])
    length = reach * float(_LENGTHS[best % len(_LENGTHS)])
    return Change(tried[best], labels[best], length, distance)


def _section(
    coder: "TableCoder", names: list[str], row: np.ndarray, spread: np.ndarray, change: Change
) -> ExplanationSection:
    table = []
    for j in np.flatnonzero(change.point != row).tolist():
        before, after = coder.decoded(j, row[j]), coder.decoded(j, change.point[j])
        step = (change.point[j] - row[j]) / max(spread[j], 1e-300)
        table.append((names[j], before, after, 1.0 if coder.is_category[j] else float(step)))
    table.sort(key=lambda line: -abs(line[3]))
    changes = "this change" if len(table) == 1 else "these changes"
    if coder.is_category.any():
        summary = (
            f"The answer becomes {show(change.label)} with {changes}, {show(change.length)} away, "
            "in standard deviations (another category counts as one)."
        )
    else:
        summary = (
            f"The answer changes {show(abs(change.distance))} standard deviations from this row. "
            f"It becomes {show(change.label)} with {changes}, {show(change.length)} away."
        )
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

    Parameters
    ----------
    table, background : array or frame
        The row that is explained, and others like it.
    """

    def __init__(self, table: Any, background: Any) -> None:
        self.template = table
        self.is_frame = hasattr(table, "columns")
        self.categories: list[list | None] = []
        for j in range(table.shape[1]):
            cells = [*_cells(background, j), *_cells(table, j)]
            self.categories.append(None if _are_numbers(cells) else list(dict.fromkeys(cells)))

    @property
    def is_category(self) -> np.ndarray:
        """Which columns hold categories."""
        return np.array([known is not None for known in self.categories])

    @property
    def is_text(self) -> np.ndarray:
        """Which columns hold too many categories to choose from."""
        return np.array([len(known or []) > _MOST_CATEGORIES for known in self.categories])

    @property
    def is_plain(self) -> bool:
        """Whether the model takes the numbers as they are."""
        return not self.is_frame and not self.is_category.any()

    def coded(self, table: Any) -> np.ndarray:
        """Return a matrix of numbers."""
        coded = np.empty((num_samples(table), len(self.categories)))
        for j, known in enumerate(self.categories):
            cells = _cells(table, j)
            if known is None:
                coded[:, j] = np.asarray(cells, dtype=float)
            else:
                code = {value: number for number, value in enumerate(known)}
                coded[:, j] = [code[value] for value in cells]
        return coded

    def decoded(self, j: int, number: float) -> Any:
        """Return the cell that a number stands for."""
        known = self.categories[j]
        return float(number) if known is None else known[round(number)]

    def table(self, coded: np.ndarray) -> Any:
        """Return a table like the template from a matrix of numbers."""
        columns = [
            coded[:, j]
            if known is None
            else [known[int(code)] for code in np.clip(coded[:, j].round(), 0, len(known) - 1)]
            for j, known in enumerate(self.categories)
        ]
        if not self.is_frame:
            return np.column_stack([np.asarray(column, dtype=object) for column in columns])
        names = list(self.template.columns)
        if hasattr(self.template, "with_columns"):  # polars
            made = type(self.template)(dict(zip(names, columns, strict=True)))
            kinds = {
                name: kind
                for name, kind, known in zip(
                    names, self.template.dtypes, self.categories, strict=True
                )
                if known is not None
            }
            return made.cast(kinds)
        made = type(self.template)(dict(zip(names, columns, strict=True)))
        return made.astype(
            {
                name: self.template[name].dtype
                for name, known in zip(names, self.categories, strict=True)
                if known is not None
            }
        )


def _cells(table: Any, j: int) -> list[Any]:
    if hasattr(table, "columns"):
        column = table[table.columns[j]]
        return column.to_list() if hasattr(column, "to_list") else list(column)
    if hasattr(table, "toarray"):
        return table[:, [j]].toarray().ravel().tolist()
    return np.asarray(table)[:, j].tolist()


def _are_numbers(cells: list[Any]) -> bool:
    return all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)


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
