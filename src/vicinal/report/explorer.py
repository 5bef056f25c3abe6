"""The page of a served model, on which the reader changes a row and sees the prediction."""

from dataclasses import KW_ONLY, dataclass
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
_MOST_CATEGORIES = 40  # of a menu; with more, the value is typed
_COVERAGE = 0.9


@dataclass(eq=False, repr=False)
class ExplorerPage(Page):
    """Controls of the columns, rows to start from, and the decision rule; a server predicts.

    Parameters
    ----------
    model : estimator
        The fitted model; behind scikit-learn's ``FixedThresholdClassifier`` its threshold decides.
    columns : list of str
        Names of the columns, used without a table.
    table : data frame, array or None
        Rows to start from and to compare with.
    y : array-like of shape (n_samples,) or None
        Their target.
    encoder : TableEncoder or None
        The encoder of the model.
    title : str
        Heading of the page.
    target : str or None
        Name of the target.
    has_limits, has_typicality : bool
        Whether the server computes intervals or sets of labels, and typicality.
    """

    template = "explorer.html"

    model: Any
    columns: list[str]
    table: Any = None
    y: Any = None
    _: KW_ONLY
    encoder: Any = None
    title: str = "Explorer"
    target: str | None = None
    has_limits: bool = False
    has_typicality: bool = False

    def __post_init__(self) -> None:
        self.model, self.rule = split_threshold(self.model)
        self.y = None if self.y is None else np.asarray(self.y)

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the page as plain values.

        Returns
        -------
        dict
            ``title``, and ``data``: controls, rows, and what the server computes.
        """
        values = self._values()
        n_rows = 0 if self.table is None else num_samples(self.table)
        kept = sampled_rows(n_rows, _MOST_ROWS, 0).tolist()
        columns = [_cells(cells, kept) for cells in values.values()]
        classes = getattr(self.model, "classes_", None)
        data = {
            "name": type(last_step(self.model)).__name__,
            "target": self.target,
            "classes": None if classes is None else [plain(label) for label in classes],
            "colors": [] if classes is None else [color_index(k) for k in range(len(classes))],
            "controls": [{"name": name, **_control(cells)} for name, cells in values.items()],
            "numbers": kept,
            "rows": list(map(list, zip(*columns, strict=True))),
            "truth": None if self.y is None else [plain(self.y[i]) for i in kept],
            "coverage": _COVERAGE,
            "threshold": None if self.rule is None else self.rule._asdict(),
            "has_limits": self.has_limits,
            "has_typicality": self.has_typicality,
        }
        return {"title": self.title, "data": data}

    def _values(self) -> dict[str, list[Any]]:
        """Return the values of each column; what the encoder reads as numbers are numbers."""
        if self.table is None:  # an encoder reads missing values
            return {name: [] if self.encoder is None else [None] for name in self.columns}
        table = self.table if self.encoder is None else self.encoder.with_numbers(self.table)
        return {name: column_values(table, j) for j, name in enumerate(column_names(table))}


def _are_numbers(values: list[Any]) -> bool:
    return all(value is None or isinstance(value, int | float) for value in values)


def _cells(values: list[Any], rows: list[int]) -> list[Any]:
    """Return the values of some rows in types of JSON."""
    read = plain if _are_numbers(values) else str
    return [None if values[i] is None else read(values[i]) for i in rows]


def _control(values: list[Any]) -> dict[str, Any]:
    """Return the control of a column, with a typical initial value."""
    known = [value for value in values if value is not None]
    if not known:
        return {"kind": "unknown", "value": None if values else 0}
    if not _are_numbers(known):
        categories, counts = np.unique([str(value) for value in known], return_counts=True)
        if len(categories) > _MOST_CATEGORIES:
            return {"kind": "text", "value": str(known[0])}
        usual = str(categories[counts.argmax()])
        return {"kind": "category", "categories": categories.tolist(), "value": usual}
    numbers = np.array(known, dtype=float)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return {"kind": "unknown", "value": None}
    low, middle, high = np.quantile(numbers, [0.0, 0.5, 1.0], method="nearest").tolist()
    is_whole = bool(np.all(numbers == np.round(numbers)))
    step = 1.0 if is_whole else (high - low) / 200 or 1.0
    limits = {"min": low, "max": high, "value": middle, "step": step}
    return {"kind": "number", **limits, "is_whole": is_whole}


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
