"""Columns of a table as numbers, with their names and their undoing."""

from typing import Any

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from vicinal._base import import_optional
from vicinal.cli._errors import InputError, quoted

_OTHER, _MISSING = "(other)", "(missing)"
_DATE_PARTS = ("year", "month", "day", "weekday", "days")


class TableEncoder(TransformerMixin, BaseEstimator):
    """Turn a table of mixed columns into an array of numbers.

    Numbers stay in their own units, gaps filled by the median and marked in a column of their own;
    a category becomes one column per level, rare levels together; a date becomes calendar parts
    and a count of days; a free text becomes latent columns by skrub's ``StringEncoder``.

    What was learned is lists, numbers and texts, so that a saved encoder can be read without
    running anything.

    Parameters
    ----------
    kinds : dict of str to {"number", "category", "date", "text"}, default=None
        What each column is; columns that are not named are left out. ``None`` decides by type.
    target : str, default=None
        Name of the column that is predicted, kept for those who read the model.
    max_levels : int, default=40
        Levels of a category that get a column, the most frequent ones.
    text_components : int, default=10
        Latent columns of a text.

    Attributes
    ----------
    columns_ : list of str
        The columns that were encoded.
    kinds_ : list of str
        Their kinds.
    feature_names_in_ : ndarray of str
        The same columns, as scikit-learn names them.
    input_to_outputs_ : dict of str to list of str
        The encoded columns that each column became, as skrub's encoders name this.
    """

    def __init__(self, kinds=None, *, target=None, max_levels=40, text_components=10):
        self.kinds = kinds
        self.target = target
        self.max_levels = max_levels
        self.text_components = text_components

    def fit(self, X, y=None):
        """Learn medians and levels."""
        frame = as_frame(X)
        kinds = self.kinds or {name: kind_of(frame[name]) for name in frame.columns}
        self.columns_ = [name for name in frame.columns if name in kinds]
        self.kinds_ = [kinds[name] for name in self.columns_]
        self.feature_names_in_ = np.array(self.columns_, dtype=object)
        self.n_features_in_ = len(self.columns_)
        self.fills_, self.levels_, self.texts_ = {}, {}, {}
        self.input_to_outputs_ = {}
        for name, kind in zip(self.columns_, self.kinds_, strict=True):
            parts = getattr(self, f"_fit_{kind}")(name, _cast(frame[name], kind))
            self.input_to_outputs_[name] = [f"{name} {part}".rstrip() for part in parts]
        return self

    def transform(self, X):
        """Encode the rows of a table that has the same columns, in any order."""
        check_is_fitted(self)
        frame = as_frame(X)
        missing = [name for name in self.columns_ if name not in frame.columns]
        if missing:
            raise InputError(
                f"the table lacks {'the column' if len(missing) == 1 else 'the columns'} "
                f"{quoted(missing)} that the model was fitted on; it has {quoted(frame.columns)}"
            )
        blocks = []
        for name, kind in zip(self.columns_, self.kinds_, strict=True):
            blocks += getattr(self, f"_encode_{kind}")(name, _cast(frame[name], kind))
        return np.column_stack(blocks)

    def get_feature_names_out(self, input_features=None):
        """Return a readable name for every encoded column."""
        check_is_fitted(self)
        names = [label for labels in self.input_to_outputs_.values() for label in labels]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags

    # --- one pair of methods per kind ---

    def _fit_number(self, name, column):
        median = column.median()
        self.fills_[name] = [0.0 if median is None else float(median), column.null_count() > 0]
        return ["", "missing"] if self.fills_[name][1] else [""]

    def _encode_number(self, name, column):
        fill, marked = self.fills_[name]
        blocks = [column.fill_null(fill).to_numpy()]
        return [*blocks, column.is_null().to_numpy().astype(float)] if marked else blocks

    def _fit_category(self, name, column):
        counts = column.fill_null(_MISSING).value_counts(sort=True)
        counts = counts.sort("count", name, descending=[True, False])
        levels = counts[name].to_list()
        if len(levels) > self.max_levels:
            levels = [*levels[: self.max_levels - 1], _OTHER]
        # Of two levels one column says it all.
        self.levels_[name] = sorted(levels)[1:] if len(levels) == 2 else levels
        return [f"= {level}" for level in self.levels_[name]]

    def _encode_category(self, name, column):
        levels = self.levels_[name]
        values = column.fill_null(_MISSING)
        if _OTHER in levels:
            values = values.set(~values.is_in(levels), _OTHER)
        return [(values == level).to_numpy().astype(float) for level in levels]

    def _fit_date(self, name, column):
        days = _date_parts(column)[-1]
        self.fills_[name] = [float(np.nanmedian(part)) for part in _date_parts(column)]
        self.fills_[name].append(bool(np.isnan(days).any()))
        return [*_DATE_PARTS, *(["missing"] if self.fills_[name][-1] else [])]

    def _encode_date(self, name, column):
        *fills, marked = self.fills_[name]
        parts = _date_parts(column)
        blocks = [
            np.where(np.isnan(part), fill, part) for part, fill in zip(parts, fills, strict=True)
        ]
        return [*blocks, np.isnan(parts[-1]).astype(float)] if marked else blocks

    def _fit_text(self, name, column):
        skrub = import_optional("skrub", needed_by="A column of free text", extra="cli")
        encoder = skrub.StringEncoder(n_components=self.text_components, random_state=0)
        encoded = encoder.fit_transform(column.fill_null(""))
        self.texts_[name] = encoder
        return [f"text {k + 1}" for k in range(encoded.shape[1])]

    def _encode_text(self, name, column):
        encoded = self.texts_[name].transform(column.fill_null(""))
        return list(np.asarray(encoded.to_numpy(), dtype=float).T)


def as_frame(X: Any) -> pl.DataFrame:
    """Return any data frame as one of polars."""
    if isinstance(X, pl.DataFrame):
        return X
    if hasattr(X, "columns"):
        # NaN is how pandas says that any value is missing, and nothing else is unequal to itself.
        columns = {str(name): X[name].tolist() for name in X.columns}
        known = {
            name: [value if value == value else None for value in values]
            for name, values in columns.items()
        }
        return pl.DataFrame(known, strict=False)
    raise InputError(
        f"a table with named columns is needed (polars or pandas), got {type(X).__name__}"
    )


def kind_of(column: pl.Series) -> str:
    """Say what a column is by its type."""
    if column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null, pl.Duration):
        return "number"
    return "date" if column.dtype in (pl.Date, pl.Datetime) else "category"


def _cast(column: pl.Series, kind: str) -> pl.Series:
    """Bring a column to the type of its kind; a value that will not go is named."""
    if kind == "date":
        if column.dtype == pl.String:
            return column.str.to_datetime(strict=False)
        return column.cast(pl.Datetime)
    if kind != "number":
        return column.cast(pl.String)
    if column.dtype == pl.Duration:
        return column.dt.total_seconds(fractional=True)
    numbers = column.cast(pl.Float64, strict=False).fill_nan(None)
    lost = column.filter(numbers.is_null() & column.is_not_null())
    if column.dtype == pl.String and len(lost):
        raise InputError(f"the column {column.name!r} holds numbers, but here also {lost[0]!r}")
    if numbers.is_infinite().any():
        raise InputError(f"the column {column.name!r} holds infinities; remove or replace them")
    return numbers


def _date_parts(column: pl.Series) -> list[np.ndarray]:
    when = column.dt
    parts = [when.year(), when.month(), when.day(), when.weekday()]
    days = when.epoch("us").cast(pl.Float64) / 86_400e6
    return [part.cast(pl.Float64).to_numpy() for part in (*parts, days)]
