"""How far a row is from another answer, and the least change that gets it."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if

from vicinal._base._compat import num_samples
from vicinal.inspection._explanation import ExplanationSection, show
from vicinal.surface import DecisionSurface

# Background rows between which points of the surface are looked for.
_MOST_ROWS = 400
_SURFACE_POINTS = 100
# Columns of more categories are names, dates or prose, which nobody exchanges for another's.
_MOST_CATEGORIES = 20
# The change may be so much longer than the shortest if fewer columns change then.
_SPARSITY = 0.25


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
    surface = DecisionSurface(
        inner, metric="standardized", n_surface_points=_SURFACE_POINTS, random_state=0
    )
    with warnings.catch_warnings():
        # That every row gets the same answer is told in words below.
        warnings.simplefilter("ignore", UserWarning)
        surface.fit(rows)
        changed = surface.counterfactual(
            row,
            categorical=np.flatnonzero(coder.is_category),
            immutable=np.flatnonzero(coder.is_text),
            sparsity=_SPARSITY,
        )
        distance = float(np.abs(changed.distances[0]))
        if not coder.is_category.any():
            distance = float(surface.distance(row)[0])
    if not changed.found[0]:
        return ExplanationSection(
            "surface",
            "Decision surface",
            f"No change was found that gets another answer than {show(prediction)}.",
            values={"found": False, "distance": None},
        )
    return _section(coder, names, row[0], changed, rows, distance, prediction)


def _section(coder, names, row, changed, rows, distance, prediction) -> ExplanationSection:
    point, label = np.asarray(changed.points[0], dtype=float), changed.labels[0]
    spread = rows.std(axis=0)
    table = []
    for j in np.flatnonzero(point != row):
        before, after = coder.decoded(j, row[j]), coder.decoded(j, point[j])
        step = 1.0 if coder.is_category[j] else (point[j] - row[j]) / max(spread[j], 1e-300)
        table.append((names[j], before, after, float(step)))
    table.sort(key=lambda line: -abs(line[3]))
    away = show(float(changed.distances[0]))
    changes = "this change" if len(table) == 1 else "these changes"
    if coder.is_category.any():
        summary = (
            f"The answer becomes {show(label)} with {changes}, {away} away, in standard deviations "
            "(another category counts as one)."
        )
    else:
        summary = (
            f"The answer changes {show(abs(distance))} standard deviations from this row. It "
            f"becomes {show(label)} with {changes}, {away} away."
        )
    values = {
        "found": True,
        "distance": distance,
        "unit": "standard deviations",
        "label": label,
        "counterfactual": {names[j]: coder.decoded(j, point[j]) for j in range(len(names))},
        "counterfactual_distance": float(changed.distances[0]),
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
