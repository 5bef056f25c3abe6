"""Any table as numbers, with names, sources and a way back."""

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import (
    atomic_fit,
    check_groups,
    check_is_table,
    counted,
    documented,
    is_frame,
    quoted,
    store_parameters,
)
from vicinal._base._compat import Interval, StrOptions, check_feature_names_in, num_samples
from vicinal._base._tables import column_names
from vicinal._base._unseen import UnseenValues, report_unseen
from vicinal.table import _decisions
from vicinal.table.parsing import is_category, label_of, missing_values, read_column

# Characters of a value that a warning shows.
_LONGEST = 40


@documented
class TableEncoder(TransformerMixin, BaseEstimator):
    """Turn a table of mixed columns into an array of numbers.

    Takes a pandas or polars frame as it is, or an array. ``fit`` decides from the values what each
    column is, and lists its decisions in ``decisions_``. ``transform`` follows them: strings among
    numbers, unseen categories and unexpected missing values are encoded by rule, with a warning.

    ======================  =====================================  ==========================
    a column of             ``encoding="distance"``                ``encoding="tree"``
    ======================  =====================================  ==========================
    numbers, truth values   numbers; missing values filled with    numbers; missing is NaN
                            the median and marked in a column
    few categories          one column of 0 and 1 per category     one code; missing is NaN
    many categories         statistics of the target               the same
    choices (``a;b;c``)     one column of 0 and 1 per choice       the same
    numbers (``120/80``)    one column for each of them            the same; missing is NaN
    dates                   calendar parts, count of days          the same; missing is NaN
    free text               latent columns                         the same
    ======================  =====================================  ==========================

    Texts such as ``$1,234.50``, ``15%``, ``1.234,5``, ``85 m²`` and ``31.12.2020`` are read as
    numbers and dates; digits with leading zeros, and numbers of an id that repeats, are codes.
    Columns without a value, with one value in all rows or with nested values are left out, and so
    are columns that number or name the rows (see Notes).

    Read more in the :doc:`user guide </guide/table>`.

    Parameters
    ----------
    encoding : {"distance", "tree"}, default="distance"
        ``"distance"`` is for models that measure distances or add up columns, ``"tree"`` for trees
        that split on codes and missing values.
    kinds : dict of str to {"number", "numbers", "category", "choices", "date", "text", "drop"}, \
            default=None
        Type of some columns, by name. Columns of a categorical data type are categories; the type
        of other columns is decided from their values.
    max_categories : int, default=32
        A column of more categories is encoded by statistics of the target. Without a target, the
        most frequent categories get a column each and the others share one.
    drop_identifiers : bool, default=True
        Whether columns that number or name the rows are left out.
    unseen : {"warn", "error", "ignore"}, default="warn"
        What ``transform`` does with values that no training row has: unseen categories, strings
        among numbers, infinities, other types, and missing values in columns that had none. One
        warning counts them by column, ``"error"`` refuses the rows.

    Attributes
    ----------
    kinds_ : dict of str to str
        What each column was taken for, ``"drop"`` when it was left out.
    decisions_ : list of str
        Decisions, one line for each type of decision with all its columns.
    remarks_ : dict of str to list of str
        The same, column by column.
    identifiers_ : list of str
        Columns left out because they number or name the rows.
    input_to_outputs_ : dict of str to list of str
        The encoded columns that each column became, as skrub's encoders name this.
    sources_ : ndarray of shape (n_features_out,)
        The column of the table that each encoded column was made from.
    categorical_features_ : ndarray of bool of shape (n_features_out,)
        The encoded columns that are codes without an order, as histogram boosting wants to know.

    See Also
    --------
    sklearn.compose.ColumnTransformer : Encodes each column as declared.
    sklearn.preprocessing.TargetEncoder : The statistics of many categories.

    Notes
    -----
    ``fit_transform`` encodes the categories of each row by targets of rows in other folds, so that
    a model fitted to the result does not see a row's own target. ``fit(X, y).transform(X)`` uses
    all targets and would leak them. A pipeline calls ``fit_transform``.

    A column that numbers or names the rows does not help to predict new rows, but follows the
    target where rows are sorted or were collected in batches. In tables of ten rows or more, these
    columns are left out:

    - row counters: whole numbers, all different, without a name or named ``Unnamed: 0``,
      ``index``, ``row`` and the like; and exactly 0, 1, ... or 1, 2, ... from the first row to the
      last under any name but one of time (``day``, ``step``, ``year``, ...), unless it is the only
      column;
    - identifiers: whole numbers or texts named ``id``, ``customer_id``, ``PatientID``, ... of which
      more than 90 % are different, whole numbers that are all different named ``key`` or
      ``number``, and short texts (fewer than three tokens) of which more than 90 % are different
      and that share no tokens, as titles and domains are shared.

    Kept are fractions, dates and whole numbers that are merely all different (prices, time stamps),
    whole numbers that count on from another start (``kept, though it counts the rows``: a trend or
    a row number), and longer texts. An id that repeats is a category. ``kinds`` overrules all
    of this for a column, a categorical type does too, and ``drop_identifiers=False`` for all.

    Columns are found by name and others ignored, as by scikit-learn's ``ColumnTransformer``.

    Examples
    --------
    >>> import pandas as pd
    >>> from vicinal.table import TableEncoder
    >>> table = pd.DataFrame(
    ...     {
    ...         "age": [31, None, 50, 42],
    ...         "city": ["Rome", "Oslo", None, "Rome"],
    ...         "fee": ["$1,200.50", "$80", "$95", "$310"],
    ...     }
    ... )
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'age missing', 'city = Rome', 'city = (missing)', 'city = Oslo', 'fee']
    >>> encoder.transform(table)[1].tolist()
    [42.0, 1.0, 0.0, 0.0, 1.0, 80.0]
    >>> for line in encoder.decisions_:
    ...     print(line)
    missing values filled with the median and marked: 'age'
    numbers read from text: 'fee' ('$1,200.50')
    """

    _parameter_constraints = {
        "encoding": [StrOptions({"distance", "tree"})],
        "kinds": [dict, None],
        "max_categories": [Interval(Integral, 2, None, closed="left")],
        "drop_identifiers": ["boolean"],
        "unseen": [StrOptions({"warn", "error", "ignore"})],
    }

    def __init__(
        self,
        encoding="distance",
        *,
        kinds=None,
        max_categories=32,
        drop_identifiers=True,
        unseen="warn",
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y=None):
        """Decide what each column is and learn how to encode it.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The table.
        y : array-like of shape (n_samples,), default=None
            The target, for statistics of columns with many categories. Floats are a regression
            target; other values, if few of them differ, are classes.
        """
        columns, target = self._decide(X, y)
        for j, encoder in self._encoders:
            encoder.fit(columns[j], target)
        return self._name_outputs(columns)

    @atomic_fit
    def fit_transform(self, X, y=None, groups=None):
        """Fit, and encode the same rows without showing a row its own target.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The table.
        y : array-like of shape (n_samples,), default=None
            The target.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group are not shown each other's target either.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_features_out)
            The encoded rows.
        """
        columns, target = self._decide(X, y)
        groups = check_groups(groups, num_samples(X))
        blocks = [encoder.fit_encode(columns[j], target, groups) for j, encoder in self._encoders]
        self._name_outputs(columns)
        return _stacked(blocks, X)

    def transform(self, X):
        """Encode rows of a table with the same columns, in any order.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The table; other columns of a frame are ignored.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_features_out)
            The encoded rows.
        """
        X, columns = self._read(X)
        report_unseen(lambda: self._unseen_in(columns), self.unseen)
        blocks = [e.encode(values) for (_, e), values in zip(self._encoders, columns, strict=True)]
        return _stacked(blocks, X)

    def unseen_values(self, X):
        """Return the values that no training row has.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The table.

        Returns
        -------
        list of UnseenValues
            An entry for each column and problem, with ``column``, ``problem``, ``rows`` (a mask),
            and an ``example``; ``str`` of an entry is a line with the count.

        Examples
        --------
        >>> import pandas as pd
        >>> from vicinal.table import TableEncoder
        >>> encoder = TableEncoder().fit(pd.DataFrame({"sex": ["male", "female"] * 9}))
        >>> for found in encoder.unseen_values(pd.DataFrame({"sex": ["male", "Klingon"]})):
        ...     print(found)
        'sex': 1 unseen category such as 'Klingon'
        """
        return self._unseen_in(self._read(X)[1])

    def _unseen_in(self, columns) -> list[UnseenValues]:
        return [
            UnseenValues(self._names[j], problem, rows, _example(values, rows), encoder.typicality_)
            for (j, encoder), values in zip(self._encoders, columns, strict=True)
            for problem, rows in encoder.unseen(values).items()
            if rows.any()
        ]

    def inverse_transform(self, X):
        """Read encoded rows back as values of the table.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_out)
            Encoded rows, as `transform` gives them.

        Returns
        -------
        table : ndarray of object of shape (n_samples, n_features_in)
            Numbers, categories and dates; for statistics of the target, the nearest category.
            ``None`` is a missing value, a column that was left out, or a free text.
        """
        check_is_fitted(self)
        Z = check_array(X, ensure_all_finite="allow-nan")
        if Z.shape[1] != len(self.sources_):
            raise ValueError(
                f"X has {counted(Z.shape[1], 'column')}, but encoded rows have "
                f"{len(self.sources_)}; pass what transform returned."
            )
        table = np.full((len(Z), self.n_features_in_), None, dtype=object)
        start = 0
        for j, encoder in self._encoders:
            stop = start + len(encoder.names_)
            table[:, j] = encoder.decode(Z[:, start:stop])
            start = stop
        return table

    def get_feature_names_out(self, input_features=None):
        """Return a readable name for every encoded column.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns, checked against those seen by ``fit``.

        Returns
        -------
        names : ndarray of str
            The name of the column, and after it the category or the part.
        """
        check_is_fitted(self)
        check_feature_names_in(self, input_features)
        names = [label for labels in self.input_to_outputs_.values() for label in labels]
        return np.array(names, dtype=object)

    @property
    def column_encoders_(self):
        """The fitted encoder of each column that was kept, by name."""
        check_is_fitted(self)
        return {self._names[j]: encoder for j, encoder in self._encoders}

    def plain_columns(self, X):
        """Return the columns that are encoded, each in the plain type that its encoder reads.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The table.

        Returns
        -------
        columns : dict of str to ndarray of shape (n_samples,)
            Numbers, and dates as days since 1970, as floats; categories and texts as objects. A
            missing value is NaN or "".
        """
        pairs = zip(self._encoders, self._read(X)[1], strict=True)
        return {self._names[j]: encoder.plain(values) for (j, encoder), values in pairs}

    def with_numbers(self, X):
        """Return a table with numbers instead of the strings that are read as numbers.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The table; anything but a frame is returned as it is.

        Returns
        -------
        X : data frame or array-like
            The same table, if no numeric column holds strings.

        Examples
        --------
        >>> import pandas as pd
        >>> from vicinal.table import TableEncoder
        >>> table = pd.DataFrame({"price": ["1,50 €", "12,00 €", "7,25 €"]})
        >>> TableEncoder().fit(table).with_numbers(table)["price"].tolist()
        [1.5, 12.0, 7.25]
        """
        if not is_frame(X) or not hasattr(self, "feature_names_in_"):
            return X
        numbers = {
            name: values
            for name, values in self.plain_columns(X).items()
            if self.kinds_[name] == "number" and any(isinstance(cell, str) for cell in X[name])
        }
        return X.with_columns(**numbers) if hasattr(X, "with_columns") else X.assign(**numbers)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # --- parts of fit ---

    def _decide(self, X, y) -> tuple[list[np.ndarray], Any]:
        """Read the columns and choose an encoder for each; return columns and target as arrays."""
        X = _checked(X)
        self._names = column_names(X)
        validate_data(self, X, skip_check_array=True)
        _check_kinds(self.kinds, self._names)
        target = None if y is None else np.asarray(y)
        if target is not None:
            check_consistent_length(X, target)
        rules = _decisions.Rules(
            self.encoding,
            self.max_categories,
            _decisions.target_type_of(target),
            self.drop_identifiers,
            one_column=len(self._names) == 1,
        )
        columns = [read_column(X, j) for j in range(len(self._names))]
        declared = {name: "category" for j, name in enumerate(self._names) if is_category(X, j)} | (
            self.kinds or {}
        )
        decisions = {
            name: _decisions.decide(name, values, declared.get(name), rules)
            for name, values in zip(self._names, columns, strict=True)
        }
        self.kinds_ = {name: decision.kind for name, decision in decisions.items()}
        self.remarks_ = {name: decision.remarks for name, decision in decisions.items()}
        self.decisions_ = _decisions.lines(decisions)
        self.identifiers_ = [
            name
            for name, decision in decisions.items()
            if not {_decisions.COUNTER, _decisions.IDENTIFIER}.isdisjoint(decision.remarks)
        ]
        self._encoders = [
            (j, decision.encoder)
            for j, decision in enumerate(decisions.values())
            if decision.encoder is not None
        ]
        if not self._encoders:
            raise ValueError(
                f"no column is left to predict from (n_samples={len(columns[0])}); "
                + "; ".join(self.decisions_)
            )
        return columns, target

    def _name_outputs(self, columns):
        names, codes = {}, []
        for j, encoder in self._encoders:
            encoder.learn_usual(columns[j])
            source = self._names[j]
            names[source] = [f"{source} {part}".rstrip() for part in encoder.names_]
            codes += [encoder.is_categorical] * len(encoder.names_)
        self.input_to_outputs_ = names
        self.sources_ = np.array([name for name in names for _ in names[name]], dtype=object)
        self.categorical_features_ = np.array(codes, dtype=bool)
        return self

    def _read(self, X):
        """Return the table and its columns that are encoded."""
        check_is_fitted(self)
        X = _checked(X)
        if not is_frame(X) or not hasattr(self, "feature_names_in_"):
            validate_data(self, X, skip_check_array=True, reset=False)
            return X, [read_column(X, j) for j, _ in self._encoders]
        positions = {name: at for at, name in enumerate(column_names(X))}
        used = [self._names[j] for j, _ in self._encoders]
        missing = [name for name in used if name not in positions]
        if missing:
            raise ValueError(
                f"the table lacks {'the column' if len(missing) == 1 else 'the columns'} "
                f"{quoted(missing)} that the encoder was fitted on; it has {quoted(positions)}"
            )
        return X, [read_column(X, positions[name]) for name in used]


def _checked(X):
    """Return a frame as it is, and anything else as an array of two dimensions."""
    check_is_table(X)
    if is_frame(X):
        return X
    if hasattr(X, "collect"):
        raise TypeError(f"a table in memory is needed, got {type(X).__name__}; call collect().")
    return check_array(X, dtype=None, ensure_all_finite=False)


def _example(values, rows) -> str:
    """Return the first of some values, shortened."""
    value = values[rows.argmax()]
    text = "" if missing_values(values[rows][:1])[0] else label_of(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _check_kinds(kinds, names) -> None:
    for name, kind in (kinds or {}).items():
        if kind not in _decisions.KINDS:
            raise ValueError(
                f"kinds[{name!r}]={kind!r} is unknown; choose from {quoted(_decisions.KINDS)}."
            )
        if name not in names:
            raise ValueError(f"kinds names {name!r}, but the table has {quoted(names)}.")


def _stacked(blocks, X) -> np.ndarray:
    """Join the blocks; an array of single precision stays one."""
    dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
    return np.hstack(blocks).astype(dtype, copy=False)
