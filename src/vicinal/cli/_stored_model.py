"""A saved model, and what the options of commands mean for it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from vicinal._base import last_step
from vicinal._base._wrappers import call_method, can, unseen_rule, unseen_values
from vicinal._conformal import decide
from vicinal.cli._check_table import as_numbers, rows_with_target
from vicinal.cli._read_table import read_table
from vicinal.cli._show import InputError, log, quoted
from vicinal.cli._threshold import Threshold
from vicinal.io import info, load

_BACKGROUND_ROWS = 200  # the rows of the table that an explained one is compared with
_HAS_IT = "a model of `vicinal fit --model auto` has"


class StoredModel:
    """A model that `fit` wrote, with the metadata and the threshold of its file."""

    def __init__(self, path: Path) -> None:
        try:
            self.fitted = load(path)
            self.metadata = info(path).metadata
            self.threshold = Threshold.of(self.metadata)
        except (ValueError, TypeError) as error:
            raise InputError(f"the model {str(path)!r} cannot be loaded: {error}") from error
        if not hasattr(self.fitted, "predict"):
            name = type(self.fitted).__name__
            raise InputError(f"the model {str(path)!r} holds a {name}, no predictor")
        self.target = self.metadata.get("target")

    def decided(self) -> Any:
        """Return the model with its threshold applied, if it has one."""
        if self.threshold is None:
            return self.fitted
        log(f"the prediction is {self.threshold}")
        return self.threshold.applied(self.fitted)

    def label(self, text: str, option: str) -> Any:
        """Return the class that is written so."""
        classes = np.asarray(getattr(self.fitted, "classes_", [])).tolist()
        for label in classes:
            if str(label) == text:
                return label
        raise InputError(f"{option} {text!r}: the classes are {quoted(classes)}")

    # --- tables ---

    def features(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the columns that the model uses; one that is missing is an error."""
        columns = [str(name) for name in getattr(self.fitted, "feature_names_in_", frame.columns)]
        missing = [name for name in columns if name not in frame.columns]
        if missing:
            raise InputError(
                f"the table lacks {'the column' if len(missing) == 1 else 'the columns'} "
                f"{quoted(missing)} that the model was fitted on; it has {quoted(frame.columns)}"
            )
        return frame.select(columns)

    def labelled(
        self, frame: pl.DataFrame, target: str | None = None
    ) -> tuple[pl.DataFrame, Any, list[str]]:
        """Return the features of the rows that have a target, their target, and notes.

        A table without the target is returned whole.
        """
        target = target or self.target
        if target is None or target not in frame.columns:
            lacks = "target" if target is None else f"column {target!r}"
            notes = [f"the table has no {lacks}: scores cannot be computed"]
            return self.features(frame), None, notes
        notes = []
        frame = rows_with_target(frame, target, notes)
        y = known_target(frame[target], getattr(self.fitted, "classes_", None))
        return self.features(frame), y, notes

    def check_unseen(self, X: pl.DataFrame, strict: bool) -> None:
        """Print which values are unlike those of the training rows, or refuse them."""
        found = [str(part) for part in unseen_values(self.fitted, X)]
        if found and (strict or unseen_rule(self.fitted) == "error"):
            raise InputError(
                f"some values are unlike those of the training rows: {'; '.join(found)}"
            )
        for line in found:
            log(f"  note: unlike the training rows, {line}")

    # --- predictions ---

    def predictions(
        self, X: pl.DataFrame, *, proba: bool, abstain: float | None, cost_matrix: Path | None
    ) -> dict[str, Any]:
        """Return the columns of predictions and probabilities."""
        is_decided = abstain is not None or cost_matrix is not None
        if not (proba or is_decided or self.threshold is not None):
            return {"prediction": np.asarray(self.fitted.predict(X))}
        if not hasattr(self.fitted, "predict_proba"):
            raise InputError(
                "the model gives no probabilities, labels or costs; it predicts numbers"
            )
        classes = self.fitted.classes_
        shares = np.asarray(self.fitted.predict_proba(X))
        prediction: Any = classes[shares.argmax(axis=1)]
        if is_decided:
            prediction = self._least_cost(shares, abstain, cost_matrix)
        elif self.threshold is not None:
            log(f"the prediction is {self.threshold}")
            prediction = self.threshold.predict(shares, classes)
        named = {f"P({label})": shares[:, j] for j, label in enumerate(classes)} if proba else {}
        return {"prediction": prediction, **named}

    def _least_cost(self, shares: np.ndarray, abstain: float | None, path: Path | None) -> list:
        """Return labels of least cost, ``None`` where the error rate would be larger."""
        classes, last = self.fitted.classes_, last_step(self.fitted)
        costs = None if path is None else _read_costs(path, classes)
        if abstain is not None and not can(self.fitted, "predict_set"):
            name = type(last).__name__
            raise InputError(f"--abstain: {name} has no held-out predictions; {_HAS_IT}")
        try:
            held_out = None if abstain is None else last._held_out_rows()
            labels = decide(shares, classes, costs, abstain, held_out)
        except ValueError as error:
            raise InputError(str(error)) from None
        n_none = sum(label is None for label in labels)
        if n_none:
            log(f"{n_none:,} of {len(labels):,} rows have no prediction (--abstain {abstain:g})")
        return labels.tolist()

    def limits(
        self, X: pl.DataFrame, coverage: float, by: Sequence[str], by_class: bool
    ) -> dict[str, Any]:
        """Return limits of numbers, or the labels of prediction sets."""
        options = {"coverage": coverage} | ({"by": list(by)} if by else {})
        if not hasattr(self.fitted, "classes_"):
            ends = self.call("predict_interval", "--interval", X, **options)
            return {"lower": ends[:, 0], "upper": ends[:, 1]}
        sets = self.call("predict_set", "--interval", X, by_class=by_class, **options)
        labels = np.array([str(label) for label in self.fitted.classes_])
        return {"prediction_set": [" | ".join(labels[row]) for row in np.asarray(sets, dtype=bool)]}

    def call(self, method: str, option: str, X: pl.DataFrame, **options: Any) -> np.ndarray:
        """Call a method of the model or of its last step."""
        if not can(self.fitted, method):
            name = type(last_step(self.fitted)).__name__
            raise InputError(f"{option}: {name} has no {method}; {_HAS_IT}")
        try:
            return np.asarray(call_method(self.fitted, method, X, **options))
        except ValueError as error:
            raise InputError(f"{option}: {error}") from None

    # --- explanations ---

    def background(self, rows: pl.DataFrame, row: int) -> Any:
        """Return rows to compare one with: those that the model stores, else of the table."""
        found = self.fitted.background(rows[row]) if hasattr(self.fitted, "background") else None
        if found is None:
            return rows.filter(pl.int_range(rows.height) != row).head(_BACKGROUND_ROWS)
        return found

    def wanted(self, text: str) -> Any:
        """Return the class, or the range of values, that --to names."""
        if hasattr(self.fitted, "classes_"):
            return self.label(text, "--to")
        try:
            value = float(text.lstrip("<>= "))
            if text.startswith(">="):
                return value, None
            if text.startswith("<="):
                return None, value
        except ValueError:
            pass
        raise InputError(f"--to {text!r}: the model predicts numbers; give >=4000 or <=4000")


def known_target(column: pl.Series, classes: Any) -> np.ndarray:
    """Return a target in the type that a model predicts; ``classes`` is ``None`` for numbers."""
    if classes is None:
        try:
            return as_numbers(column, "regression").cast(pl.Float64).to_numpy()
        except pl.exceptions.InvalidOperationError:
            raise InputError(f"the target {column.name!r} holds no numbers") from None
    if np.asarray(classes).dtype.kind in "UO":
        y = column.cast(pl.String).to_numpy().astype(str)
    else:
        y = as_numbers(column, None).to_numpy()
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise InputError(
            f"the target {column.name!r} has classes unknown to the model: {quoted([*unknown])}"
        )
    return y


def _read_costs(path: Path, classes: np.ndarray) -> np.ndarray:
    """Read costs: the true labels in the first column, the predicted ones in the header."""
    frame = read_table(path, None)
    labels = [str(label) for label in classes]
    rows = [str(label) for label in frame.to_series(0)]
    if sorted(rows) != sorted(labels) or not {*labels} <= {*frame.columns}:
        raise InputError(
            f"--cost-matrix {str(path)!r} needs the true labels in its first column and a column "
            f"for each predicted label: {quoted(labels)}"
        )
    costs = frame.select(pl.col(labels).cast(pl.Float64)).to_numpy()
    return costs[[rows.index(label) for label in labels]]


# Options of a counterfactual: their names in Python and in the shell.
CHANGE_OPTIONS = {
    "fixed": "--fixed",
    "increase": "--increase",
    "decrease": "--decrease",
    "ranges": "--range",
    "categories": "--allow",
    "costs": "--change-cost",
}


def change_options(given: dict[str, Sequence[str]], rows: pl.DataFrame) -> dict[str, Any]:
    """Return the options of a counterfactual as `vicinal.inspection.explain` takes them."""
    found: dict[str, Any] = dict(given)
    form = "column=low:high, such as age=20:40"
    found["ranges"] = dict(_pair("--range", text, _limits, form) for text in given["ranges"])
    found["categories"] = dict(_allowed(text, rows) for text in given["categories"])
    form = "column=factor, such as income=3"
    found["costs"] = dict(_pair("--change-cost", text, float, form) for text in given["costs"])
    for key, option in CHANGE_OPTIONS.items():
        unknown = [name for name in found[key] if name not in rows.columns]
        if unknown:
            raise InputError(f"{option} {unknown[0]!r}: the model uses {quoted(rows.columns)}")
    return found


def _limits(text: str) -> tuple[float | None, ...]:
    """Read limits such as 20:40, 20: or :40."""
    low, high = text.split(":")
    return tuple(float(end) if end else None for end in (low, high))


def _pair(option: str, text: str, read: Callable[[str], Any], form: str) -> tuple[str, Any]:
    """Read a column and what is given for it."""
    name, _, value = text.rpartition("=")
    try:
        return name, read(value)
    except ValueError:
        raise InputError(f"{option} {text!r} must read {form}") from None


def _allowed(text: str, rows: pl.DataFrame) -> tuple[str, list[Any]]:
    """Read categories such as job=cook,smith, in the type of the column."""
    name, equals, values = text.partition("=")
    if not equals or name not in rows.columns:
        raise InputError(
            f"--allow {text!r} must read column=category,category with one of "
            f"{quoted(rows.columns)}"
        )
    wanted = values.split(",")
    known = [value for value in rows[name].unique().to_list() if str(value) in wanted]
    return name, known or wanted
