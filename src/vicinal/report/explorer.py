"""A page to change the columns of a row and see the prediction."""

from typing import Any

import numpy as np

from vicinal._base import last_step
from vicinal._base._compat import num_samples
from vicinal._base._explanation import plain
from vicinal._base._tables import column_names, column_values, sampled_rows
from vicinal._base._wrappers import split_threshold
from vicinal.report._held_out import check_labels
from vicinal.report._page import Page


def control(
    name: str, values: list[Any], *, most_levels: int = 40, as_levels: bool = False
) -> dict[str, Any]:
    """Return the kind of a column, where it starts, and how far it goes.

    Numbers have a range from the least to the greatest value, unless they are asked for as levels;
    up to so many words are levels to choose from, more are text. Without a value nothing is known
    but the name.
    """
    known = [value for value in values if value is not None]
    if not known:
        return {"name": name, "kind": "unknown", "value": None if values else 0}
    if not as_levels and all(isinstance(value, bool | int | float) for value in known):
        numbers = np.array(known, dtype=float)
        numbers = numbers[np.isfinite(numbers)]
        if not len(numbers):
            return {"name": name, "kind": "unknown", "value": None}
        low, middle, high = np.quantile(numbers, [0.0, 0.5, 1.0], method="nearest").tolist()
        is_whole = bool(np.all(numbers == np.round(numbers)))
        step = 1.0 if is_whole else (high - low) / 200 or 1.0
        return {
            "name": name,
            "kind": "number",
            "min": low,
            "max": high,
            "value": middle,
            "step": step,
            "is_whole": is_whole,
        }
    levels, counts = np.unique([str(value) for value in known], return_counts=True)
    if len(levels) > most_levels:
        return {"name": name, "kind": "text", "value": str(known[0])}
    usual = str(levels[counts.argmax()])
    return {"name": name, "kind": "level", "levels": levels.tolist(), "value": usual}


_MOST_ROWS = 400


class ExplorerPage(Page):
    """What explorers share: controls, rows to start from, and which answer is given.

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
    coverage : float
        Chance with which an interval or set of labels holds the truth.
    random_state : int, RandomState instance or None
        Draws the rows that the page keeps.
    """

    template = "explorer.html"
    most_levels = 40

    def __init__(
        self,
        model: Any,
        table: Any,
        y: Any = None,
        *,
        title: str = "Explorer",
        coverage: float = 0.9,
        random_state: Any = 0,
    ) -> None:
        self.model, self.rule = split_threshold(model)
        self.table, self.title = table, title
        self.y = None if y is None else np.asarray(y)
        self.coverage, self.random_state = coverage, random_state

    def as_dict(self) -> dict[str, Any]:
        """Return everything the page works with as plain values.

        Returns
        -------
        dict
            ``title``, and ``data``: controls, rows, and what answers them.
        """
        columns = self.columns()
        n_rows = 0 if self.table is None else num_samples(self.table)
        kept = sampled_rows(n_rows, _MOST_ROWS, self.random_state).tolist()
        classes = getattr(self.model, "classes_", None)
        data = {
            "name": self.model_name(),
            "classes": None if classes is None else [plain(label) for label in classes],
            "controls": [column.control for column in columns],
            "numbers": kept,
            "rows": [[column.cell(i) for column in columns] for i in kept],
            "truth": None if self.y is None else [plain(self.y[i]) for i in kept],
            "coverage": self.coverage,
            "threshold": None if self.rule is None else self.rule._asdict(),
            **self.engine(columns),
        }
        return {"title": self.title, "data": data}

    def model_name(self) -> str:
        """Return what the model is called: the class of the last step."""
        return type(last_step(self.model)).__name__

    def columns(self) -> list["ExplorerColumn"]:
        """Return what can be set."""
        return [
            ExplorerColumn(name, column_values(self.table, j), most_levels=self.most_levels)
            for j, name in enumerate(column_names(self.table))
        ]

    def engine(self, columns: list["ExplorerColumn"]) -> dict[str, Any]:
        """Return what answers rows; ``model`` is ``None`` where a server does."""
        return {"model": None}


class ExplorerColumn:
    """A column of the table: what can be set, and its cells as the page knows them.

    Parameters
    ----------
    name : str
        Its name.
    values : list
        Its cells, ``None`` for a gap.
    most_levels : int
        Words of more levels are typed, not chosen.
    as_levels : bool
        Take numbers for levels.
    """

    def __init__(
        self, name: str, values: list[Any], *, most_levels: int, as_levels: bool = False
    ) -> None:
        self.values = values
        known = [value for value in values if value is not None]
        self.is_number = not as_levels and all(isinstance(value, int | float) for value in known)
        self.control = control(
            name, values, most_levels=most_levels, as_levels=not self.is_number
        ) | {"is_used": True}

    def cell(self, i: int) -> Any:
        """Return a cell as the page knows it."""
        value = self.values[i]
        return plain(value) if self.is_number or value is None else str(value)


def errors_of(model: Any, table: Any, y: Any) -> np.ndarray:
    """Return how far off each answer is, or how unlikely the true label was.

    Their quantiles make intervals and sets of labels that hold the truth of new rows with that
    chance, if the model had not seen the table.
    """
    if not hasattr(model, "classes_"):
        return np.abs(np.asarray(y, dtype=float) - np.asarray(model.predict(table)))
    y = np.asarray(y)
    check_labels(y, model.classes_)
    proba = np.asarray(model.predict_proba(table))
    codes = np.searchsorted(model.classes_, y)
    return 1.0 - proba[np.arange(len(codes)), codes]
