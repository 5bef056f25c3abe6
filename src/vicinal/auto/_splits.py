"""Splits of a table by a splitter or in time, and a test whether the order of rows matters."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm, rankdata
from sklearn.base import clone
from sklearn.model_selection import TimeSeriesSplit, check_cv

from vicinal._base import TrainingData
from vicinal._base._compat import num_samples
from vicinal.auto._base_models import Spec
from vicinal.auto._encodings import Encodings
from vicinal.auto._monotonic import encoded_signs, signs_for
from vicinal.table import TableEncoder

# Blocks of rows that ``cv="time"`` predicts; those before the first one are only learned from.
_N_BLOCKS = 5
# Level of the test whether the order of rows matters, and the fewest rows that are tested.
_LEVEL, _MIN_ORDERED = 1e-4, 20


def table_splits(
    cv: Any, X: Any, y: Any, groups: Any = None, time_column: Any = None, *, classifier: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return training and test rows of every split by ``"time"``, a splitter, or pairs of rows.

    With ``"time"``, the training rows of a block are strictly earlier than its first row; those of
    its groups are left out.
    """
    n = num_samples(X)
    if isinstance(cv, str):
        times = np.arange(n) if time_column is None else moments(X, time_column)
        pairs: list = _time_splits(times, None if groups is None else np.asarray(groups))
    else:
        splitter = check_cv(cv, y, classifier=classifier)
        pairs = [
            tuple(np.sort(np.arange(n)[part]) for part in pair)
            for pair in splitter.split(np.zeros((n, 1)), y, groups)
        ]
    for train, test in pairs:
        if not len(train) or not len(test) or np.isin(test, train).any():
            raise ValueError(
                f"cv={_named(cv)} gives a split of {len(train)} training and {len(test)} test "
                "rows; both are needed, and no row may be in both."
            )
    return pairs


def check_nested(pairs: list[tuple[np.ndarray, np.ndarray]], cv: Any) -> None:
    """Refuse splits of which none learns from rows that another one predicts."""
    tested = np.unique(np.concatenate([test for _, test in pairs])) if pairs else np.empty(0)
    if not any(np.isin(tested, train).any() for train, _ in pairs):
        raise ValueError(
            f"cv={_named(cv)} gives no split whose training rows were predicted in another one; "
            "weights are chosen on such rows and scored on others, so use cv=5 or more splits."
        )


def _named(cv: Any) -> str:
    return f"[{len(cv)} pairs]" if isinstance(cv, list) else repr(cv)


def _time_splits(times: np.ndarray, groups: np.ndarray | None) -> list:
    order = np.argsort(times, kind="stable")
    ordered, pairs = times[order], []
    n_blocks = min(_N_BLOCKS, len(times) - 1)
    blocks = TimeSeriesSplit(n_blocks).split(order) if n_blocks > 1 else ()
    for _, block in blocks:
        test = order[block]
        train = order[: np.searchsorted(ordered, ordered[block[0]])]
        if groups is not None:
            train = train[~np.isin(groups[train], groups[test])]
        if len(train):
            pairs.append((np.sort(train), np.sort(test)))
    if not pairs:
        raise ValueError(
            f"cv='time' finds no rows before others (n_samples={len(times)}, "
            f"{len(np.unique(times))} times); 3 rows at different times are needed."
        )
    return pairs


def moments(X: Any, column: Any) -> np.ndarray:
    """Return a column of dates or numbers as numbers that increase with time."""
    if hasattr(X, "columns"):
        if column not in list(X.columns):
            raise ValueError(f"time_column={column!r} is no column of X.")
        dates = np.asarray(X[column]).dtype.kind == "M"
        encoder = TableEncoder("tree", kinds={column: "date"} if dates else None)
        try:
            values = encoder.fit_transform(X[[column]])[:, -1]
        except ValueError as error:
            raise ValueError(f"time_column={column!r}: {error}") from error
        is_time = encoder.kinds_[column] in ("date", "number")
    else:
        if isinstance(column, str) or not 0 <= column < np.shape(X)[1]:
            raise ValueError(f"time_column={column!r} must be an index, because X has no names.")
        values, is_time = np.asarray(X)[:, column].astype(np.float64), True
    if not is_time or not np.isfinite(values).all():
        raise ValueError(f"time_column={column!r} must hold a date or a number in every row.")
    return values


@dataclass(frozen=True)
class Split:
    """Training and test rows of a split, encoded by what the training rows show.

    Attributes
    ----------
    train, test : ndarray of int
        Numbers of the rows.
    X_train, X_test : dict of str to array
        The rows in each encoding.
    encodings : Encodings
        Fitted to the training rows.
    signs : dict of str to ndarray or None
        Monotone constraints of the columns of each encoding.
    """

    train: np.ndarray
    test: np.ndarray
    X_train: dict[str, Any]
    X_test: dict[str, Any]
    encodings: Encodings
    signs: dict[str, Any] | None

    @classmethod
    def of(cls, data: TrainingData, train, test, signs, on_device: bool) -> "Split":
        """Return a split of a table; its encodings know the training rows alone."""
        known, encodings = data.take(train), Encodings(on_device)
        X = encodings.fit_transform(known.X, known.labels, known.groups)
        new = {name: encodings.transform(data.rows(test), name) for name in X}
        signs = None if signs is None else encoded_signs(signs, encodings, X)
        return cls(train, test, X, new, encodings, signs)

    def adapted(self, spec: Spec, setting: dict) -> Any:
        """Return a copy of a base model for the columns of these encodings."""
        estimator, categorical = clone(spec.estimator).set_params(**setting), None
        new: dict[str, Any] = {}
        if spec.encoding == "tree" and self.encodings.reads_frames:
            categorical = self.encodings.categorical
            for name, value in estimator.get_params().items():
                if name.endswith("categorical_features") and isinstance(value, np.ndarray):
                    new[name] = categorical
                elif name.endswith("__transformers"):
                    new[name] = [(label, one, categorical) for label, one, _ in value]
            estimator.set_params(**new)
        if self.signs is None:
            return estimator
        return estimator.set_params(**signs_for(spec, self.signs[spec.encoding], categorical) or {})


def depends_on_order(columns: np.ndarray, least: float) -> bool:
    """Return whether columns of values drift with the row number, or resemble the row before.

    Rank correlations with the row number, and with the row before, have a standard error of one
    over the root of the number of rows if the order is random; those below ``least`` do not count.
    """
    n = len(columns)
    ranks = rankdata(columns, axis=0)
    ranks -= ranks.mean(axis=0)
    spread = ranks.std(axis=0)
    if n < _MIN_ORDERED or not spread.any():
        return False
    number = np.arange(n) - 0.5 * (n - 1)
    drift = np.abs(number @ ranks) / (n * number.std() * np.where(spread > 0.0, spread, 1.0))
    likeness = (ranks[1:] * ranks[:-1]).sum() / (ranks**2).sum()
    by_chance = norm.isf(_LEVEL / (4.0 * columns.shape[1])) / np.sqrt(n)
    return bool(max(drift.max(), likeness) > max(by_chance, least))


def is_sorted(y: np.ndarray, has_classes: bool) -> bool:
    """Return whether rows are sorted by the target, so that their order means nothing else."""
    steps = np.diff(y, axis=0)
    if has_classes:
        return np.count_nonzero(steps) == len(np.unique(y)) - 1
    return bool((steps >= 0.0).all() or (steps <= 0.0).all())
