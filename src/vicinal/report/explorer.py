"""Base of the pages on which the reader changes a row and sees the prediction."""

from typing import Any

import numpy as np

from vicinal._base import last_step
from vicinal._base._compat import num_samples
from vicinal._base._explanation import plain
from vicinal._base._tables import column_names, column_values, sampled_rows
from vicinal._base._wrappers import split_threshold
from vicinal.inspection.colors import color_index
from vicinal.report._held_out import check_labels
from vicinal.report._page import Page

_MOST_ROWS = 400


class ExplorerPage(Page):
    """Base class of the explorers: controls, initial rows and the decision rule.

    Parameters
    ----------
    model : estimator
        The fitted model; behind scikit-learn's ``FixedThresholdClassifier`` its threshold decides.
    table : data frame, array or None
        Rows to start from and to compare with.
    y : array-like of shape (n_samples,) or None
        Their target.
    title : str
        Heading of the page.
    target : str or None
        Name of the target.
    coverage : float
        Probability that an interval or set of labels contains the target.
    random_state : int, RandomState instance or None
        Seed of the sample of rows on the page.
    """

    template = "explorer.html"
    max_categories = 40
    encoder: Any = None  # the TableEncoder of the model

    def __init__(
        self,
        model: Any,
        table: Any,
        y: Any = None,
        *,
        title: str = "Explorer",
        target: str | None = None,
        coverage: float = 0.9,
        random_state: Any = 0,
    ) -> None:
        self.model, self.rule = split_threshold(model)
        self.table, self.title, self.target = table, title, target
        self.y = None if y is None else np.asarray(y)
        self.coverage, self.random_state = coverage, random_state

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the page as plain values.

        Returns
        -------
        dict
            ``title``, and ``data``: controls, rows, and the model.
        """
        columns = self.columns()
        n_rows = 0 if self.table is None else num_samples(self.table)
        kept = sampled_rows(n_rows, _MOST_ROWS, self.random_state).tolist()
        classes = getattr(self.model, "classes_", None)
        data = {
            "name": self.model_name(),
            "target": self.target,
            "classes": None if classes is None else [plain(label) for label in classes],
            "colors": [] if classes is None else [color_index(k) for k in range(len(classes))],
            "controls": [column.control for column in columns],
            "numbers": kept,
            "rows": [[column.cell(i) for column in columns] for i in kept],
            "truth": None if self.y is None else [plain(self.y[i]) for i in kept],
            "coverage": self.coverage,
            "threshold": None if self.rule is None else self.rule._asdict(),
            "copied": None,
            **self.engine(columns),
        }
        return {"title": self.title, "data": data}

    def model_name(self) -> str:
        """Return the class of the model, or of the last step of a pipeline."""
        return type(last_step(self.model)).__name__

    def values(self) -> dict[str, list[Any]]:
        """Return the values of each column; what the encoder reads as numbers are numbers."""
        names = column_names(self.table)
        found = {name: column_values(self.table, j) for j, name in enumerate(names)}
        if self.encoder is not None:
            read = self.encoder.plain_columns(self.table)
            for name, kind in self.encoder.kinds_.items():
                if kind == "number" and any(isinstance(cell, str) for cell in found[name]):
                    cells = read[name].tolist()
                    found[name] = [None if np.isnan(number) else number for number in cells]
        return found

    def columns(self) -> list[Any]:
        """Return the controls of the columns."""
        return [
            ExplorerColumn(name, values, max_categories=self.max_categories)
            for name, values in self.values().items()
        ]

    def engine(self, columns: list[Any]) -> dict[str, Any]:
        """Return the arrays of the model; ``model`` is ``None`` where a server predicts."""
        return {"model": None}


class ExplorerColumn:
    """A column of the table: its control and its values.

    Parameters
    ----------
    name : str
        Its name.
    values : list
        Its values, ``None`` for a missing one.
    max_categories : int
        Largest number of categories of a menu; with more, the value is typed.
    as_categories : bool
        Treat numbers as categories.
    """

    def __init__(
        self, name: str, values: list[Any], *, max_categories: int, as_categories: bool = False
    ) -> None:
        self.values = values
        known = [value for value in values if value is not None]
        self.is_number = not as_categories and all(
            isinstance(value, int | float) for value in known
        )
        if not known:
            found: dict[str, Any] = {"kind": "unknown", "value": None if values else 0}
        elif self.is_number:
            found = _number_control(np.array(known, dtype=float))
        else:
            found = _category_control([str(value) for value in known], max_categories)
        self.control = {"name": name, **found, "is_used": True}

    def cell(self, i: int) -> Any:
        """Return a value in a type of JSON."""
        value = self.values[i]
        return plain(value) if self.is_number or value is None else str(value)


def _number_control(numbers: np.ndarray) -> dict[str, Any]:
    """Return the range of a column of numbers, and its median as the initial value."""
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return {"kind": "unknown", "value": None}
    low, middle, high = np.quantile(numbers, [0.0, 0.5, 1.0], method="nearest").tolist()
    is_whole = bool(np.all(numbers == np.round(numbers)))
    step = 1.0 if is_whole else (high - low) / 200 or 1.0
    limits = {"min": low, "max": high, "value": middle, "step": step}
    return {"kind": "number", **limits, "is_whole": is_whole}


def _category_control(texts: list[str], max_categories: int) -> dict[str, Any]:
    """Return the menu of a column of categories; many distinct strings are free text."""
    categories, counts = np.unique(texts, return_counts=True)
    if len(categories) > max_categories:
        return {"kind": "text", "value": texts[0]}
    usual = str(categories[counts.argmax()])
    return {"kind": "category", "categories": categories.tolist(), "value": usual}


def errors_of(model: Any, table: Any, y: Any) -> np.ndarray:
    """Return the conformity scores: absolute error, or one minus the probability of the label.

    Their quantiles give intervals and sets of labels with that coverage of new rows, if the model
    was not fitted to the table.
    """
    if not hasattr(model, "classes_"):
        return np.abs(np.asarray(y, dtype=float) - np.asarray(model.predict(table)))
    y = np.asarray(y)
    check_labels(y, model.classes_)
    proba = np.asarray(model.predict_proba(table))
    codes = np.searchsorted(model.classes_, y)
    return 1.0 - proba[np.arange(len(codes)), codes]
