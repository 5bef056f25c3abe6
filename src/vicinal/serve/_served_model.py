"""A fitted model as the server asks it: rows in, plain values out."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vicinal._base import import_optional
from vicinal.inspection import explain
from vicinal.serve._errors import RequestError


class ServedModel:
    """Answers of one model to rows of plain values; safe to ask from several threads.

    Parameters
    ----------
    model : estimator
        Fitted classifier or regressor, or a pipeline that ends in one.
    name : str
        What clients call it.
    background : data frame or ndarray, optional
        Rows like those of the training set, for reasons that compare with other rows.
    max_rows : int
        Most rows of a request.
    """

    def __init__(self, model: Any, name: str, background: Any = None, max_rows: int = 100_000):
        self.model = model
        self.name = name
        self.background = background
        self.max_rows = max_rows
        names: Any = getattr(model, "feature_names_in_", None)
        self.has_names = names is not None
        self.columns = (
            list(map(str, names))
            if self.has_names
            else [f"x{j}" for j in range(model.n_features_in_)]
        )
        self.classes: Any = getattr(model, "classes_", None)
        self.has_proba = self.classes is not None and hasattr(model, "predict_proba")

    # --- rows ---

    def table(self, rows: Any) -> Any:
        """Return rows, each a mapping by column name or a list in their order, as a table."""
        if not isinstance(rows, Sequence) or isinstance(rows, str) or not rows:
            raise RequestError(400, "rows must be a list of one or more rows.")
        if len(rows) > self.max_rows:
            raise RequestError(
                413, f"{len(rows)} rows were sent, {self.max_rows} are allowed at once."
            )
        columns = self._by_name(rows) if isinstance(rows[0], Mapping) else self._by_place(rows)
        return self.frame(columns)

    def _by_name(self, rows: Sequence[Any]) -> dict[str, list]:
        if not all(isinstance(row, Mapping) for row in rows):
            raise RequestError(400, "all rows must be objects, or all must be lists.")
        missing = [name for name in self.columns if name not in rows[0]]
        if missing:
            raise RequestError(
                400, f"the column {missing[0]!r} is missing; expected {self.columns}."
            )
        return {name: [row.get(name) for row in rows] for name in self.columns}

    def _by_place(self, rows: Sequence[Any]) -> dict[str, list]:
        width = len(self.columns)
        for row in rows:
            if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != width:
                raise RequestError(400, f"a row must be an object, or a list of {width} values.")
        return {name: [row[j] for row in rows] for j, name in enumerate(self.columns)}

    def frame(self, columns: Mapping[str, Sequence]) -> Any:
        """Return columns as the model takes them: a frame where it knows names, else an array."""
        for name, values in columns.items():
            if any(isinstance(value, Mapping | list | tuple) for value in values):
                raise RequestError(400, f"the column {name!r} holds nested values.")
        if self.has_names:
            pandas = import_optional("pandas", needed_by="serving a model of tables", extra="serve")
            return pandas.DataFrame({name: list(values) for name, values in columns.items()})
        try:
            return np.array([list(values) for values in columns.values()], dtype=np.float64).T
        except (TypeError, ValueError):
            raise RequestError(400, "the model takes numbers only.") from None

    def from_csv(self, text: str) -> Any:
        """Return the rows of a CSV text with a head as a table; numbers are read as numbers."""
        try:
            rows = list(csv.DictReader(io.StringIO(text), strict=True))
        except csv.Error as error:
            raise RequestError(400, f"the CSV text cannot be read: {error}.") from None
        if any(None in row or None in row.values() for row in rows):
            raise RequestError(400, "a line of the CSV text has more or fewer cells than its head.")
        return self.table([{name: _read(cell) for name, cell in row.items()} for row in rows])

    # --- answers ---

    def predictions(self, table: Any) -> dict[str, Any]:
        """Return predictions, with probabilities where the model has them."""
        answers: dict[str, Any] = {}
        try:
            if self.has_proba:
                proba = np.asarray(self.model.predict_proba(table))
                answers["predictions"] = plain(np.asarray(self.classes)[proba.argmax(axis=1)])
                answers["probabilities"] = plain(proba)
                answers["classes"] = plain(self.classes)
            else:
                answers["predictions"] = plain(self.model.predict(table))
        except (TypeError, ValueError) as error:
            raise RequestError(422, _one_line(error)) from None
        return answers

    def explanation(self, table: Any) -> dict[str, Any]:
        """Return the reasons of the first row."""
        try:
            found = explain(self.model, table[:1], background=self.background)
        except (TypeError, ValueError) as error:
            raise RequestError(422, _one_line(error)) from None
        return {"text": found.text(), "html": found.to_html(style=False), **found.to_dict()}

    def metadata(self) -> dict[str, Any]:
        """Return what a client may know of the model."""
        last = getattr(self.model, "steps", [(None, self.model)])[-1][1]
        task = "regression" if self.classes is None else "classification"
        return {
            "name": self.name,
            "model": type(last).__name__,
            "task": task,
            "columns": self.columns,
            "classes": None if self.classes is None else plain(self.classes),
        }


def plain(values: Any) -> Any:
    """Return arrays as lists that JSON knows; numbers that it does not know become null."""
    array = np.asarray(values)
    return _finite(array.tolist()) if array.dtype.kind == "f" else array.tolist()


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return value if math.isfinite(value) else None


def _read(cell: str) -> Any:
    if cell == "":
        return None
    try:
        return float(cell)
    except ValueError:
        return cell


def _one_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:500] if text else type(error).__name__
