"""One column of a table as numbers and back: an object for every way of doing it.

An object is fitted on the values of one column (numbers, dates, texts or objects),
stores the names of its encoded columns in ``names_``, and encodes any values without an error:
values that it has not seen are encoded by rule. Everything it learned is texts, numbers,
arrays and estimators of scikit-learn.
"""

from collections import Counter
from itertools import repeat
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import TargetEncoder

from vicinal._base import group_folds, rows_outside, saved, store_parameters
from vicinal._base._compat import target_encoder
from vicinal.table import parsing

OTHER, MISSING = "(other)", "(missing)"
_DATE_PARTS = ("year", "month", "day", "weekday", "hour")
_FOLDS = 5
# Categories of fitted columns, their codes as a dictionary, and the lines of ``lookup``.
_LOOKUPS: WeakKeyDictionary = WeakKeyDictionary()


class ColumnEncoder(BaseEstimator):
    """What all of them do."""

    is_categorical = False  # whether the encoded columns are codes without an order
    is_statistic = False  # whether they are statistics of the target
    takes = "categories"  # or numbers, several numbers, choices, dates, text
    unread = "unseen categories"  # what values are that are encoded by rule
    names_: list[str]
    categories_: Any

    def fit(self, values: np.ndarray, y: Any = None) -> "ColumnEncoder":
        """Learn from the values of a column."""
        raise NotImplementedError

    def learn_usual(self, values: np.ndarray) -> None:
        """Store what the values of a column are like, once the encoder is fitted."""
        labels, missing = parsing.as_labels(values), parsing.missing_values(values)
        self.kind_, self.has_missing_ = values.dtype.kind, bool(missing.any())
        self.known_ = sorted({str(text) for text in labels[self._is_unread(values) & ~missing]})
        counts = Counter(labels if self.takes in ("categories", "choices") else ())
        n_single = sum(count == 1 for count in counts.values())
        self.typicality_ = (n_single + 1) / (len(values) + 1)

    def unseen(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """Return where values are that no training row has, by what they are, if any are."""
        missing = parsing.missing_values(values)
        found = {}
        if not self.has_missing_ and missing.any():
            found["missing values where training rows have none"] = missing
        was_moment, is_moment = (kind in "mM" for kind in (self.kind_, values.dtype.kind))
        is_number_as_text = self.takes == "text" and values.dtype != object
        if is_number_as_text or (self.takes == "numbers" and was_moment != is_moment):
            return found | {"values of another type": ~missing}
        new = self._is_unread(values) & ~missing
        if not new.any():
            return found
        new[new] = [str(text) not in self.known_ for text in parsing.as_labels(values[new])]
        infinite = new & np.isinf(values) if values.dtype.kind == "f" else np.zeros_like(new)
        return found | {self.unread: new & ~infinite, "infinite numbers": infinite}

    def _is_unread(self, values: np.ndarray) -> np.ndarray:
        """Mark values that are encoded by rule, here none."""
        return np.zeros(len(values), dtype=bool)

    def fit_encode(self, values: np.ndarray, y: Any = None, groups: Any = None) -> np.ndarray:
        """Learn and encode; only statistics of the target make this more than one after another."""
        return self.fit(values, y).encode(values)

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Return an array of shape (n_rows, len(names_))."""
        raise NotImplementedError

    def plain(self, values: np.ndarray) -> np.ndarray:
        """Return values as floats with NaN, or as texts with "", where they are missing."""
        return np.array(_as_texts(values), dtype=object)

    def decode(self, block: np.ndarray) -> list[Any]:
        """Return a value of the column for every encoded row, ``None`` where there is none."""
        return [None] * len(block)


class _MeasuredColumn(ColumnEncoder):
    """Numbers read from a column; missing values stay, or are filled with the median and marked."""

    keep_missing: bool

    def _read(self, values: np.ndarray) -> np.ndarray:
        """Return an array of shape (n_rows, n_numbers), NaN where a value is missing."""
        raise NotImplementedError

    def _learn(self, values: np.ndarray, names: list[str]) -> "ColumnEncoder":
        numbers = self._read(values)
        missing = np.isnan(numbers[:, -1])
        self.fills_ = np.zeros(len(names))
        if not missing.all():
            self.fills_ = np.median(numbers[~missing], axis=0)
        is_marked = missing.any() and not self.keep_missing
        self.names_ = [*names, "missing"] if is_marked else names
        return self

    def _is_unread(self, values):
        return np.isnan(self._read(values)[:, -1])

    def encode(self, values):
        numbers = self._read(values)
        if self.keep_missing:
            return numbers
        missing = np.isnan(numbers)
        filled = np.where(missing, self.fills_, numbers)
        is_marked = len(self.names_) > len(self.fills_)
        return np.column_stack([filled, missing[:, -1]]) if is_marked else filled

    def decode(self, block):
        n_numbers = len(self.fills_)
        missing = np.isnan(block[:, 0])
        if len(self.names_) > n_numbers:
            missing = block[:, -1] >= 0.5
        cells = self._cells(block[:, :n_numbers])
        return [None if gone else cell for cell, gone in zip(cells, missing, strict=True)]

    def _cells(self, numbers: np.ndarray) -> list[Any]:
        """Return a value of the column for every row of numbers."""
        raise NotImplementedError


@saved()
class NumberColumn(_MeasuredColumn):
    """A numeric column."""

    takes = "numbers"
    unread = "values that are not numbers"

    def __init__(self, decimal=".", keep_missing=False, unit=""):
        store_parameters(self, locals())

    def fit(self, values, y=None):
        return self._learn(values, [""])

    def plain(self, values):
        return parsing.as_numbers(values, self.decimal, self.unit)

    def _read(self, values):
        return self.plain(values)[:, None]

    def _cells(self, numbers):
        return numbers[:, 0].tolist()


@saved()
class NumbersColumn(_MeasuredColumn):
    """The numbers of cells that hold several, such as 120/80."""

    takes = "several numbers"
    unread = "values that are not numbers"

    def __init__(self, n_numbers=2, keep_missing=False):
        store_parameters(self, locals())

    def fit(self, values, y=None):
        return self._learn(values, [str(k + 1) for k in range(self.n_numbers)])

    def _read(self, values):
        found = [parsing.numbers_in(text) for text in _as_texts(values)]
        missing = [np.nan] * self.n_numbers
        return np.array(
            [row if len(row) == self.n_numbers else missing for row in found], dtype=float
        )

    def _cells(self, numbers):
        return [" / ".join(f"{n:g}" for n in row) for row in numbers.tolist()]


@saved()
class ChoicesColumn(ColumnEncoder):
    """A column of 0 and 1 for each of the choices that cells list, the most frequent first.

    A missing value has none of them; a choice that was not seen is ignored.
    """

    takes = "choices"

    def __init__(self, separator=";", max_categories=32):
        store_parameters(self, locals())

    def fit(self, values, y=None):
        found = [choice for choices in self._read(values) for choice in choices]
        self.categories_ = categories_of(np.array(found, dtype=object))[: self.max_categories]
        self.names_ = [f"has {category}" for category in self.categories_]
        return self

    def encode(self, values):
        cells = self._read(values)
        return np.array(
            [[category in cell for category in self.categories_] for cell in cells], dtype=float
        )

    def decode(self, block):
        found = [
            [category for category, is_in in zip(self.categories_, row, strict=True) if is_in]
            for row in (block >= 0.5).tolist()
        ]
        return [self.separator.join(choices) or None for choices in found]

    def _is_unread(self, values):
        return np.array([not cell <= {*self.categories_} for cell in self._read(values)])

    def _read(self, values):
        return [set(parsing.choices_in(text, self.separator)) for text in parsing.as_labels(values)]


@saved()
class DateColumn(_MeasuredColumn):
    """The parts of the calendar that vary, and a count of days; of a time of day the hour."""

    takes = "dates"
    unread = "values that are not dates"

    def __init__(self, formats=("iso",), keep_missing=False):
        store_parameters(self, locals())

    def fit(self, values, y=None):
        dates = parsing.as_dates(values, self.formats)
        known = _calendar(dates[~np.isnat(dates)])
        parts = [name for name in _DATE_PARTS if len(np.unique(known[name])) > 1]
        self.parts_ = [*parts, "days"] if not self._is_clock() else ["hour"]
        return self._learn(values, list(self.parts_))

    def plain(self, values):
        return _calendar(parsing.as_dates(values, self.formats))["days"]

    def _read(self, values):
        found = _calendar(parsing.as_dates(values, self.formats))
        return np.column_stack([found[name] for name in self.parts_])

    def _cells(self, numbers):
        is_clock = self._is_clock()
        days = np.nan_to_num(numbers[:, -1]) / (24.0 if is_clock else 1.0)
        moments = np.round(days * 86_400).astype("datetime64[s]")
        whole = "D" if "hour" not in self.parts_ else "s"
        texts = np.datetime_as_string(moments.astype(f"datetime64[{whole}]")).tolist()
        return [text.partition("T")[2] for text in texts] if is_clock else texts

    def _is_clock(self):
        return self.formats[0] in parsing.CLOCKS


class _CategoryColumn(ColumnEncoder):
    """Categories, each encoded by a line of numbers."""

    def lookup(self) -> tuple[list[str], np.ndarray]:
        """Return the categories ("" is a missing value), and a line for each and any other."""
        raise NotImplementedError

    def encode(self, values):
        codes, lines = self._coded()
        labels = parsing.as_labels(values).tolist()
        return lines[np.fromiter(map(codes.get, labels, repeat(-1)), np.int64, len(labels))]

    def _coded(self) -> tuple[dict[str | None, int], np.ndarray]:
        """Return the line number of every category, and the lines."""
        found = _LOOKUPS.get(self)
        if found is None or found[0] is not self.categories_:  # fitted again since
            names, lines = self.lookup()
            codes = {name or None: k for k, name in enumerate(names)}
            found = _LOOKUPS[self] = self.categories_, codes, lines
        return found[1:]

    def _is_unread(self, values):
        codes, labels = self._coded()[0], parsing.as_labels(values).tolist()
        return np.array([label is not None and label not in codes for label in labels], dtype=bool)


@saved()
class OneHotColumn(_CategoryColumn):
    """A column of 0 and 1 per category, the most frequent first; two categories share one column.

    A category that was not seen, or a missing value where ``fit`` saw none, is "(other)" or
    "(missing)" where these have a column. Otherwise it is the more frequent of two categories, and
    no category of more than two.
    """

    def __init__(self, max_categories=32):
        self.max_categories = max_categories

    def fit(self, values, y=None):
        self.categories_ = categories = _joined(categories_of(values), self.max_categories)
        self.shown_ = (
            [max(categories)] if len(categories) == 2 and OTHER not in categories else categories
        )
        self.names_ = [f"= {category}" for category in self.shown_]
        return self

    def lookup(self):
        shown = np.array([self.categories_.index(category) for category in self.shown_])
        codes = np.array([*range(len(self.categories_)), self._unseen()])
        return _with_missing(self.categories_), (codes[:, None] == shown).astype(np.float64)

    def decode(self, block):
        if len(self.shown_) < len(self.categories_):
            low, high = min(self.categories_), max(self.categories_)
            found = [high if value >= 0.5 else low for value in block[:, 0]]
        else:
            best = block.argmax(axis=1)
            found = [
                self.categories_[k] if block[i, k] >= 0.5 else MISSING for i, k in enumerate(best)
            ]
        return [None if category == MISSING else category for category in found]

    def _unseen(self):
        """Return where a category that was not seen is among the categories, -1 for nowhere."""
        for category in (OTHER, MISSING):
            if category in self.categories_:
                return self.categories_.index(category)
        return 0 if len(self.categories_) == 2 else -1


@saved()
class CodeColumn(_CategoryColumn):
    """One number per category, the most frequent first; NaN for missing and unseen values."""

    is_categorical = True

    def __init__(self, max_categories=255):
        self.max_categories = max_categories

    def fit(self, values, y=None):
        categories = [category for category in categories_of(values) if category != MISSING]
        self.categories_ = _joined(categories, self.max_categories)
        self.names_ = [""]
        return self

    def lookup(self):
        unseen = self.categories_.index(OTHER) if OTHER in self.categories_ else np.nan
        codes = np.array([*range(len(self.categories_)), np.nan, unseen], dtype=np.float64)
        return [*self.categories_, ""], codes[:, None]

    def decode(self, block):
        return [None if np.isnan(code) else self.categories_[round(code)] for code in block[:, 0]]


@saved()
class TargetColumn(_CategoryColumn):
    """Mean target of each category, shrunk to the overall mean: scikit-learn's TargetEncoder.

    Training rows get statistics of rows in other folds, which hold groups whole, so that no row
    sees its own target, nor that of its group.
    A category that was not seen has the mean of all.
    """

    is_statistic = True

    def __init__(self, target_type="continuous"):
        self.target_type = target_type

    def fit(self, values, y=None):
        self._prepare(len(values))
        self.encoder_.fit(_as_table(values), y)
        return self._name()

    def fit_encode(self, values, y=None, groups=None):
        if groups is None:
            self._prepare(len(values))
            block = self.encoder_.fit_transform(_as_table(values), y)
            self._name()
            return block
        table = _as_table(values)
        block = self.fit(values, y).encode(values)
        scores = y[:, None] if self.target_type == "continuous" else y[:, None] == self._shown()
        for fold in group_folds(groups, _FOLDS):
            rest = rows_outside(fold, len(values))
            for k, score in enumerate(scores.T.astype(np.float64)):
                part = TargetEncoder(target_type="continuous").fit(table[rest], score[rest])
                block[fold, k] = part.transform(table[fold])[:, 0]
        return block

    @property
    def categories_(self):
        """Return the categories, ``MISSING`` among them if values are missing."""
        return self.encoder_.categories_[0]

    def lookup(self):
        known = np.column_stack(self.encoder_.encodings_)
        mean = np.broadcast_to(np.ravel(self.encoder_.target_mean_), (1, known.shape[1]))
        return _with_missing(self.categories_.tolist()), np.vstack([known, mean])

    def decode(self, block):
        categories = self.categories_
        known = np.column_stack(self.encoder_.encodings_)
        nearest = ((block[:, None, :] - known) ** 2).sum(axis=2).argmin(axis=1)
        return [None if categories[k] == MISSING else categories[k] for k in nearest.tolist()]

    def _prepare(self, n_rows):
        self.encoder_ = target_encoder(self.target_type, min(_FOLDS, n_rows))

    def _shown(self):
        """Return the classes that have a column."""
        return self.encoder_.classes_[int(self.target_type == "binary") :]

    def _name(self):
        if self.target_type == "continuous":
            self.names_ = ["mean of target"]
        else:
            self.names_ = [f"share of {label}" for label in self._shown().tolist()]
        return self


@saved()
class TextColumn(ColumnEncoder):
    """Latent columns of the letters: weights of three and four of them in a row, decomposed.

    The recipe of skrub's ``StringEncoder``, from scikit-learn's parts, so that results do not
    depend on what is installed. Latent columns have no way back to a text.
    """

    takes = "text"

    def __init__(self, n_components=10):
        self.n_components = n_components

    def fit(self, values, y=None):
        texts = _as_texts(values)
        self.vectorizer_ = TfidfVectorizer(ngram_range=(3, 4), analyzer="char_wb")
        weights = self.vectorizer_.fit_transform(texts)
        n_components = min(self.n_components, weights.shape[1], weights.shape[0])
        self.decomposition_ = TruncatedSVD(n_components, random_state=0)
        latent = self.decomposition_.fit_transform(weights)
        self.scale_ = float(np.sqrt(latent.var(axis=0).sum())) or 1.0
        self.names_ = [f"text {k + 1}" for k in range(n_components)]
        return self

    def encode(self, values):
        weights = self.vectorizer_.transform(_as_texts(values))
        return self.decomposition_.transform(weights) / self.scale_


def _with_missing(categories: list[str]) -> list[str]:
    """Return the categories as plain columns have them."""
    return ["" if category == MISSING else category for category in categories]


def categories_of(values: np.ndarray) -> list[str]:
    """Return the categories, the most frequent first, those of equal count by name."""
    counts = Counter(_with_name(values))
    return sorted(counts, key=lambda category: (-counts[category], category))


def _joined(categories: list[str], most: int) -> list[str]:
    """Return the categories, the rarest of too many as one."""
    return categories if len(categories) <= most else [*categories[: most - 1], OTHER]


def _calendar(dates):
    """Return the parts of dates as arrays of floats, NaN where a date is missing."""
    days = dates.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    parts = {
        "year": dates.astype("datetime64[Y]").astype(np.int64) + 1970,
        "month": months.astype(np.int64) % 12 + 1,
        "day": (days - months.astype("datetime64[D]")).astype(np.int64) + 1,
        "weekday": (days.astype(np.int64) + 3) % 7 + 1,  # Monday is 1, as in ISO 8601
        "hour": (dates - days).astype(np.int64) / 3600e6,
        "days": dates.astype(np.int64) / 86_400e6,
    }
    missing = np.isnat(dates)
    return {name: np.where(missing, np.nan, part) for name, part in parts.items()}


def _with_name(values):
    """Return the labels, missing ones by their name."""
    return [MISSING if label is None else label for label in parsing.as_labels(values)]


def _as_table(values):
    return np.array(_with_name(values), dtype=object)[:, None]


def _as_texts(values):
    return ["" if label is None else label for label in parsing.as_labels(values)]
