"""A fitted model with methods that take parsed requests and return JSON values."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from vicinal._base import _explanation, _wrappers, counted, import_optional, is_frame, last_step
from vicinal._base._compat import num_samples, rows_of
from vicinal._base._parallel import check_stopped
from vicinal._base._unseen import unreported
from vicinal._conformal import StandardizedRows, Typicality
from vicinal._kernels.calibration._conformal import conformal_quantile
from vicinal.inspection import explain
from vicinal.report.explorer import ExplorerPage, errors_of
from vicinal.report.results import ExplanationReport
from vicinal.serve._requests import DEFAULT_LIMITS, Limits, RequestError, read_csv, read_json
from vicinal.table import TableEncoder

_N_NEIGHBORS = 8
# Types of columns by the kind of their dtype.
_TYPES = {"i": "integer", "u": "integer", "f": "number", "b": "boolean"}
# Options of the counterfactual in a request, with their types.
OPTIONS: dict[str, Any] = {
    "target": object,
    "fixed": list,
    "increase": list,
    "decrease": list,
    "ranges": dict,
    "categories": dict,
    "costs": dict,
    "n_counterfactuals": int,
}
_MOST_COUNTERFACTUALS = 10
# Rows predicted between two checks whether the client is still connected.
_BLOCK_ROWS = 5_000
_WARM_ROWS = 100


class ServedModel:
    """Predictions of one model for rows of plain values; safe to use from several threads.

    Parameters
    ----------
    model : estimator
        Fitted classifier or regressor, or a pipeline that ends in one.
    name : str
        Name of the model.
    background : data frame or ndarray, optional
        Rows like the training rows, with which explanations compare the query; by default those
        that the model stores.
    y : ndarray, optional
        Targets of ``background``, for intervals and sets of a model without own ones.
    limits : Limits
        Largest size of a request.
    target : str, optional
        Name of the target.
    strict : bool, default=False
        Whether rows with values that no training row has are refused.
    """

    def __init__(
        self,
        model: Any,
        name: str,
        background: Any = None,
        y: Any = None,
        limits: Limits = DEFAULT_LIMITS,
        target: str | None = None,
        strict: bool = False,
    ):
        self.decided = model  # with its decision threshold, if there is one
        self.model, self.rule = _wrappers.split_threshold(model)
        model = self.model
        self.encoder = _wrappers.encoder_of(model)
        self.name = name
        self.y = None if y is None else np.asarray(y)
        self.limits, self.target = limits, target
        self.strict = strict or _wrappers.unseen_rule(model) == "error"
        names: Any = getattr(model, "feature_names_in_", None)
        self.has_names = names is not None
        self.columns = (
            list(map(str, names))
            if self.has_names
            else [f"x{j}" for j in range(model.n_features_in_)]
        )
        self.background = self._stored_rows() if background is None else background
        self.classes: Any = getattr(model, "classes_", None)
        self.has_proba = self.classes is not None and hasattr(model, "predict_proba")
        self.own_limits = "predict_interval" if self.classes is None else "predict_set"
        self.has_limits = _wrappers.can(model, self.own_limits) or (
            self.y is not None and (self.has_proba or self.classes is None)
        )
        self.has_typicality = _wrappers.can(model, "typicality") or self.background is not None

    def _stored_rows(self) -> Any:
        """Return training rows that the model stores; ``None`` without any."""
        if not hasattr(self.model, "background"):
            return None
        if not self.has_names:
            return self.model.background(np.empty((0, len(self.columns))))
        pandas = import_optional("pandas", needed_by="serving a model of tables", extra="serve")
        return self.model.background(pandas.DataFrame(columns=self.columns))

    # --- rows ---

    def request(self, body: bytes, is_csv: bool = False) -> tuple[Any, dict[str, Any]]:
        """Return the rows of a body as a table, and what else a JSON body holds."""
        if is_csv:
            return self.frame(read_csv(body, self.columns, self.limits)), {}
        content = read_json(body, self.limits)
        rest = content if isinstance(content, dict) else {}
        rows = rest.get("rows") if rest else content
        if not isinstance(rows, list) or not rows:
            raise RequestError(400, "'rows' must be a list with at least one row.")
        self.limits.check(len(rows), len(rows) * len(self.columns))
        if not self.has_names and (numbers := self._matrix(rows)) is not None:
            return numbers, rest
        columns = self._by_name(rows) if isinstance(rows[0], Mapping) else self._by_position(rows)
        return self.frame(columns), rest

    def _matrix(self, rows: list) -> np.ndarray | None:
        """Return lists of numbers as a matrix; ``None`` for anything else, which is read slowly."""
        try:
            numbers = np.array(rows, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            return None
        is_valid = numbers.shape == (len(rows), len(self.columns)) and not np.isinf(numbers).any()
        return numbers if is_valid else None

    def _by_name(self, rows: list) -> dict[str, list]:
        if not all(isinstance(row, Mapping) for row in rows):
            raise RequestError(400, "rows must be all objects or all lists.")
        for i, row in enumerate(rows):
            missing = [name for name in self.columns if name not in row]
            if missing:
                raise RequestError(
                    400,
                    f"the column {missing[0]!r} is missing in row {i}; expected {self.columns}, "
                    "with null for a missing value.",
                )
        return {name: [row[name] for row in rows] for name in self.columns}

    def _by_position(self, rows: list) -> dict[str, list]:
        width = len(self.columns)
        if not all(isinstance(row, list) and len(row) == width for row in rows):
            values = counted(width, "value")
            raise RequestError(400, f"every row must be an object, or a list of {values}.")
        return {name: [row[j] for row in rows] for j, name in enumerate(self.columns)}

    def frame(self, columns: Mapping[str, list]) -> Any:
        """Return columns as the input of the model: a data frame if it has column names."""
        n_rows = max(map(len, columns.values()), default=0)
        if not n_rows:
            raise RequestError(400, "'rows' must be a list with at least one row.")
        self.limits.check(n_rows, n_rows * len(columns))
        for name, values in columns.items():
            check_stopped()
            for i, value in enumerate(values):
                if isinstance(value, dict | list):
                    raise RequestError(
                        400,
                        f"the column {name!r} holds lists or objects; use numbers, strings or "
                        "null.",
                    )
                if isinstance(value, float) and math.isinf(value):
                    raise _no_number(name, i, value)
        if not self.has_names:
            return np.column_stack([_numbers(name, values) for name, values in columns.items()])
        pandas = import_optional("pandas", needed_by="serving a model of tables", extra="serve")
        table = pandas.DataFrame(dict(columns))
        self._check_numbers(columns, table)
        return table

    def _check_numbers(self, columns: Mapping[str, list], table: Any) -> None:
        """Raise for strings in numeric columns that are neither numbers nor missing values."""
        if not any(isinstance(v, str) for name in self._number_columns for v in columns[name]):
            return
        if self.encoder is None:
            for name in self._number_columns:
                _numbers(name, columns[name])
            return
        for found in self.encoder.unseen_values(table):
            if found.column in self._number_columns and found.example:
                i = int(found.rows.argmax())
                raise _no_number(found.column, i, columns[found.column][i])

    @cached_property
    def _number_columns(self) -> list[str]:
        """Numeric columns according to the encoder, or else to the table."""
        if self.encoder is not None:
            return [name for name, kind in self.encoder.kinds_.items() if kind == "number"]
        kinds = self.kinds.items() if is_frame(self.background) else ()
        return [name for name, kind in kinds if kind in ("integer", "number")]

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Type of each column as JSON Schema names it, from the encoder and the table.

        Without both, columns of a pipeline are strings, and others are numbers.
        """
        usual = "string" if self.has_names and isinstance(self.model, Pipeline) else "number"
        kinds = dict.fromkeys(self.columns, usual)
        for name in self.columns if is_frame(self.background) else ():
            if name in self.background:
                kinds[name] = _TYPES.get(np.asarray(self.background[name]).dtype.kind, "string")
        for name, kind in {} if self.encoder is None else self.encoder.kinds_.items():
            if kind == "number" and kinds[name] == "string":
                kinds[name] = "number"
            elif kind not in ("number", "drop") and kinds[name] != "boolean":
                kinds[name] = "string"
        return kinds

    # --- predictions ---

    def predictions(
        self, table: Any, coverage: float | None = None, typicality: bool = False
    ) -> dict[str, Any]:
        """Return predictions, and probabilities if the model has them.

        ``coverage`` adds intervals or label sets with this coverage, ``typicality`` that of each
        row. ``warnings`` list values that no training row has.
        """
        if coverage is not None and not self.has_limits:
            raise RequestError(
                400, "the model has no intervals; serve it with a table that has the target."
            )
        if typicality and not self.has_typicality:
            raise RequestError(400, "the model has no typicality; serve it with a table.")
        result: dict[str, Any] = {}
        with _errors_of_the_client():
            if unseen := [str(found) for found in _wrappers.unseen_values(self.model, table)]:
                result["warnings"] = unseen
                if self.strict:
                    raise ValueError(
                        f"some values are unlike those of the training rows: {'; '.join(unseen)}."
                    )
            if self.has_proba:
                proba = _in_blocks(self.model.predict_proba, table)
                codes = proba.argmax(axis=1) if self.rule is None else self.rule.codes(proba)
                result["predictions"] = plain(np.asarray(self.classes)[codes])
                result["probabilities"] = plain(proba)
                result["classes"] = plain(self.classes)
            else:
                result["predictions"] = plain(_in_blocks(self.decided.predict, table))
            if coverage is not None:
                result |= self._limits(table, coverage, result)
            if typicality:
                result["typicality"] = plain(self._typicality(table))
        return result

    def _limits(self, table: Any, coverage: float, result: dict[str, Any]) -> dict[str, Any]:
        """Return intervals or sets, of the model or from the residuals of the table."""
        if _wrappers.can(self.model, self.own_limits):
            found = np.asarray(
                _wrappers.call_method(self.model, self.own_limits, table, coverage=coverage)
            )
        else:
            reach = conformal_quantile(self._errors, coverage)
            if self.classes is None:
                found = np.asarray(result["predictions"])[:, None] + [-reach, reach]
            else:
                found = 1.0 - np.asarray(result["probabilities"]) <= reach
        if self.classes is None:
            return {"intervals": plain(found)}
        return {"sets": [plain(np.asarray(self.classes)[row]) for row in found.astype(bool)]}

    @cached_property
    def _errors(self) -> np.ndarray:
        return errors_of(self.model, self.background, self.y)

    def _typicality(self, table: Any) -> np.ndarray:
        if _wrappers.can(self.model, "typicality"):
            return np.asarray(_wrappers.call_method(self.model, "typicality", table))
        return self._typicality_in_table(self._numbers(table))

    @cached_property
    def _typicality_in_table(self) -> Typicality:
        return Typicality(self._background_rows)

    def neighbors(self, table: Any) -> dict[str, Any]:
        """Return the rows of the table nearest to the first row, with values and predictions."""
        if self.background is None:
            raise RequestError(400, "there is no table to search; serve the model with one.")
        with _errors_of_the_client():
            k = min(_N_NEIGHBORS, num_samples(self.background))
            distances, rows = self._background_rows.neighbors(self._numbers(table[:1]), k)
            near = rows_of(self.background, rows[0])
            result = self.predictions(near)
        found = [
            {
                "row": int(row),
                "distance": float(distances[0, at]),
                "truth": None if self.y is None else plain(self.y[row]),
                "prediction": result["predictions"][at],
                "probabilities": result.get("probabilities", [None] * k)[at],
                "values": plain_row(near[at : at + 1], self.columns),
            }
            for at, row in enumerate(rows[0])
        ]
        return {"neighbors": found}

    @cached_property
    def _encoder(self) -> Any:
        """Transformer of rows to numbers: the steps before the model, or an encoder."""
        if isinstance(self.model, Pipeline):
            return self.model[:-1]
        return TableEncoder().fit(self.background) if self.has_names else None

    def _numbers(self, table: Any) -> Any:
        return table if self._encoder is None else self._encoder.transform(table)

    @cached_property
    def _background_rows(self) -> StandardizedRows:
        return StandardizedRows(self._numbers(self.background))

    def explanation(self, table: Any, options: Any = None) -> dict[str, Any]:
        """Return the explanation of the first row; ``options`` are those of the counterfactual."""
        options = {} if options is None else options
        if not isinstance(options, dict) or not options.keys() <= OPTIONS.keys():
            raise RequestError(400, f"'counterfactual' must be an object with {[*OPTIONS]}.")
        for name, value in options.items():
            if not isinstance(value, OPTIONS[name]) or isinstance(value, bool):
                kind = {list: "a list", dict: "an object", int: "an integer"}[OPTIONS[name]]
                raise RequestError(400, f"{name!r} of 'counterfactual' must be {kind}.")
        if options.get("n_counterfactuals", 1) > _MOST_COUNTERFACTUALS:
            raise RequestError(400, f"'n_counterfactuals' must be at most {_MOST_COUNTERFACTUALS}.")
        with _errors_of_the_client():
            known = {"background": self.background, "target_name": self.target}
            found = explain(self.decided, table[:1], **known, **options)
        return {"text": found.text(), "html": ExplanationReport(found).article(), **found.to_dict()}

    def warm_up(self) -> None:
        """Predict and explain some rows, so that requests do not wait for imports and compilers.

        The explanation compares with two rows and may change no column, which is quick.
        """
        rows = self.background
        if rows is None:
            rows = self.frame({name: [None if self.encoder else 0.0] for name in self.columns})
        rows = rows_of(rows, np.arange(_WARM_ROWS) % num_samples(rows))
        one, two = (rows_of(rows, slice(0, n)) for n in (1, 2))
        for work, part in (
            (self.predictions, rows),
            (self.predictions, one),
            (self.neighbors, one),
        ):
            with suppress(Exception), unreported():
                work(part)
        with suppress(Exception), unreported():
            found = explain(self.decided, one, background=two, fixed=self.columns)
            ExplanationReport(found).article()

    def page(self) -> ExplorerPage:
        """Return the interactive page."""
        return ExplorerPage(
            self.decided,
            self.columns,
            self.background,
            self.y,
            encoder=self.encoder,
            title=self.name,
            target=self.target,
            has_limits=self.has_limits,
            has_typicality=self.has_typicality,
        )

    def metadata(self) -> dict[str, Any]:
        """Return a description of the model."""
        task = "regression" if self.classes is None else "classification"
        return {
            "name": self.name,
            "model": type(last_step(self.model)).__name__,
            "task": task,
            "target": self.target,
            "columns": self.columns,
            "types": self.kinds,
            "classes": None if self.classes is None else plain(self.classes),
            "threshold": None
            if self.rule is None
            else {"label": plain(self.classes)[self.rule.code], "probability": self.rule.value},
            "has_intervals": self.has_limits,
            "has_typicality": self.has_typicality,
        }


def plain_row(row: Any, names: list[str]) -> dict[str, Any]:
    """Return the cells of a table of one row by name, in types of JSON."""
    return _explanation.plain(dict(zip(names, _explanation.values_of(row), strict=True)))


def plain(values: Any) -> Any:
    """Return an array as lists; NaN and infinity become ``None``."""
    array: Any = np.asarray(values)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        array = np.where(np.isfinite(array), array, None)
    return array.tolist()


def _numbers(name: str, values: list) -> np.ndarray:
    """Return a column as floats, NaN for a missing value."""
    numbers = []
    for i, value in enumerate(values):
        try:
            numbers.append(math.nan if value is None else float(value))
        except (TypeError, ValueError, OverflowError):
            raise _no_number(name, i, value) from None
        if math.isinf(numbers[-1]):
            raise _no_number(name, i, value)
    return np.array(numbers)


def _no_number(name: str, row: int, value: Any) -> RequestError:
    shown = repr(value)
    shown = shown if len(shown) <= 40 else f"{shown[:40]}..."
    return RequestError(
        422,
        f"{shown} in column {name!r}, row {row}, is not a finite number; send null for a missing "
        "value.",
    )


def _in_blocks(predict: Callable, table: Any) -> np.ndarray:
    """Return predictions of all rows, computed in blocks."""
    parts = []
    for start in range(0, num_samples(table), _BLOCK_ROWS):
        check_stopped()
        parts.append(np.asarray(predict(table[start : start + _BLOCK_ROWS])))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@contextmanager
def _errors_of_the_client() -> Iterator[None]:
    """Convert errors of the model about its rows to a RequestError with one line."""
    try:
        with unreported():
            yield
    except (TypeError, ValueError, OverflowError) as error:
        lines = str(error).strip().splitlines()
        raise RequestError(422, lines[0][:500] if lines else type(error).__name__) from None
