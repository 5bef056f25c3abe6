"""A saved model, and what the options of commands mean for it."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from vicinal._base import last_step
from vicinal._base._wrappers import call_method, can, unseen_rule, unseen_values
from vicinal.cli._check_table import as_numbers, rows_with_target
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

    def predictions(self, X: pl.DataFrame, proba: bool) -> dict[str, Any]:
        """Return the columns of predictions and probabilities."""
        if not proba and self.threshold is None:
            return {"prediction": np.asarray(self.fitted.predict(X))}
        if not hasattr(self.fitted, "predict_proba"):
            raise InputError("the model gives no probabilities; it predicts numbers")
        classes = self.fitted.classes_
        shares = np.asarray(self.fitted.predict_proba(X))
        prediction: Any = classes[shares.argmax(axis=1)]
        if self.threshold is not None:
            log(f"the prediction is {self.threshold}")
            prediction = self.threshold.predict(shares, classes)
        named = {f"P({label})": shares[:, j] for j, label in enumerate(classes)} if proba else {}
        return {"prediction": prediction, **named}

    def limits(self, X: pl.DataFrame, coverage: float) -> dict[str, Any]:
        """Return limits of numbers, or the labels of prediction sets."""
        if not hasattr(self.fitted, "classes_"):
            ends = self.call("predict_interval", "--interval", X, coverage=coverage)
            return {"lower": ends[:, 0], "upper": ends[:, 1]}
        sets = self.call("predict_set", "--interval", X, coverage=coverage)
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
        raise InputError(f"--to {text!r}: the model predicts numbers; give '>=4000' or '<=4000'")


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
