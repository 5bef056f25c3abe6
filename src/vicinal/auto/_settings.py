"""Resolved parameters of a fit: time, splits, score, constraints, device and seeds."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import TimeSeriesSplit, check_cv
from sklearn.utils import check_random_state

from vicinal._base import _clock, host_jobs, random_seeds
from vicinal._base._compat import HasMethods, check_monotonic_cst, num_samples
from vicinal.auto._base_models import FAMILIES, Rules
from vicinal.auto._scorers import Metric
from vicinal.auto._tables import Table, plain_targets
from vicinal.table import TableEncoder

# Share of the time for trials and fits to all rows; the rest is for weights and the score.
_SEARCH_SHARE = 0.95
# Largest number of random folds.
_MAX_FOLDS = {"fast": 3}
# Blocks of rows that ``cv="time"`` predicts; those before the first one are only learned from.
_N_BLOCKS = 5


@dataclass(frozen=True)
class Settings:
    """Resolved parameters of a fit; all others are those of the model."""

    model: Any
    deadline: float
    cv: int
    splits: list | None  # training and test rows of the table given, where cv is no number
    metric: Metric | None
    signs: np.ndarray | None  # monotone constraints of the columns given
    n_jobs: int | None
    rules: Rules  # which base models are tried
    device: str | None  # of torch, that trains networks of host arrays
    fold_seed: int
    row_seed: int
    model_seed: int


def resolve(model: Any, X: Any, y: Any, groups: Any, data: Table) -> Settings:
    """Return the settings of a fit that begins now; X, y and groups are those given."""
    _check_families(model.families)
    if model.time_column is not None and not isinstance(model.cv, str):
        raise ValueError(f"time_column={model.time_column!r} needs cv='time', got cv={model.cv!r}.")
    splits = None
    if not isinstance(model.cv, Integral):
        options = {"classifier": data.classes is not None}
        labels = None if y is None else plain_targets(y)
        splits = table_splits(model.cv, X, labels, groups, model.time_column, **options)
        check_nested(splits, model.cv)
    metric = None
    if model.scoring is not None:
        metric = Metric(model.scoring, data.classes)
        metric.check(data.y)
    return Settings(
        model,
        search_deadline(model.max_fit_time),
        min(model.cv, _MAX_FOLDS.get(model.preset, np.inf)) if splits is None else len(splits),
        splits,
        metric,
        _check_signs(model, data),
        # A device is filled by one model at a time, and cannot record the steps of two.
        host_jobs(data.X, model.n_jobs),
        data.rules,
        data.network_device(model.device),
        *random_seeds(check_random_state(model.random_state), 3),
    )


def _check_families(families: Any) -> None:
    """Refuse entries that name no family and are no pairs with an estimator."""
    if isinstance(families, str):
        return
    if not families:
        raise ValueError("families is empty; name at least one, or use families='default'.")
    for entry in families:
        is_family = isinstance(entry, str) and entry in FAMILIES
        is_pair = isinstance(entry, tuple) and len(entry) == 2
        if not is_family and not (is_pair and HasMethods("fit").is_satisfied_by(entry[1])):
            raise ValueError(
                f"families holds {entry!r}; give pairs (name, estimator), the estimator an "
                f"instance, or names of model families among {', '.join(FAMILIES)}."
            )


def _check_signs(model: Any, data: Table) -> np.ndarray | None:
    """Return -1, 0 or 1 for every column of the table; ``None`` without a constraint."""
    if model.monotonic_cst is None:
        return None
    signs = np.asarray(check_monotonic_cst(model, model.monotonic_cst))
    if not signs.any():
        return None
    if data.classes is not None and len(data.classes) > 2:
        raise ValueError(f"monotonic_cst needs two classes, but y has {len(data.classes)}.")
    data.check_on_host("monotonic_cst needs rows on the host; pass NumPy arrays or a frame")
    return signs


def search_deadline(max_fit_time: float | None) -> float:
    """Return when trials and fits must end, by the monotonic clock, in a fit that begins now."""
    return _clock.now() + (np.inf if max_fit_time is None else _SEARCH_SHARE * max_fit_time)


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
