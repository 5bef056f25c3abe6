"""Columns that give the answer away."""

from typing import Any

import numpy as np
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.multiclass import type_of_target

from vicinal._base import aligned_answers, cross_fit, row_blocks
from vicinal._base._compat import num_samples, rows_of
from vicinal.inspection._findings import Findings
from vicinal.table import TableEncoder

_MAX_ROWS = 5000
_N_FOLDS = 3
# Whole numbers with more different values than this are numbers, not classes; as floats sooner.
_MAX_CLASSES, _MAX_FLOAT_CLASSES = 20, 10
# A column leaks if it alone takes away this share of the loss, nearly as much as all columns do.
_ALONE, _OF_ALL = 0.9, 0.95
# Trees are grown only on columns whose neighbouring values take away this share.
_AT_A_GLANCE = 0.5


def leaking_columns(X: Any, y: Any, *, task=None, random_state=0) -> Findings:
    """Find columns that alone answer nearly as well as all columns together.

    Such a column was often written after the target was known (a date of discharge, a fee that only
    one class pays), and will not be there when the model is used.

    Parameters
    ----------
    X : {array-like, data frame} of shape (n_samples, n_features)
        The table.
    y : array-like of shape (n_samples,)
        Labels or numbers.
    task : {"classification", "regression"}, default=None
        What y holds; ``None`` takes words, and whole numbers of few values, for classes.
    random_state : int, RandomState instance or None, default=0
        Seed of the rows used (at most 5,000) and of the folds.

    Returns
    -------
    Findings
        One row per suspicious column: ``column``, ``alone`` and ``all``, the shares of the loss
        (Gini impurity, or variance of the ranks) that a small tree on this column, and boosted
        trees on all, take away on rows held out. The boosted trees are grown only where a column is
        suspicious.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.inspection import leaking_columns
    >>> rng = np.random.RandomState(0)
    >>> X = rng.normal(size=(300, 3))
    >>> y = X[:, 0] + X[:, 1] + rng.normal(size=300)
    >>> X[:, 2] = np.exp(y)
    >>> leaking_columns(X, y)["column"].tolist()
    ['x2']
    """
    check_consistent_length(X, y)
    rng = check_random_state(random_state)
    y = np.asarray(y)
    n = num_samples(X)
    if n > _MAX_ROWS:
        rows = np.sort(rng.choice(n, _MAX_ROWS, replace=False))
        X, y, n = rows_of(X, rows), y[rows], _MAX_ROWS
    scorer = _Scorer(y, is_classification(y, task), int(rng.randint(np.iinfo(np.int32).max)))
    encoder = TableEncoder(form="tree")
    Z = encoder.fit_transform(X if hasattr(X, "columns") else np.asarray(X), y)
    sources = np.asarray(encoder.sources_)
    columns, place, widths = np.unique(sources, return_inverse=True, return_counts=True)
    # Columns made into several numbers tell by all of them; one number shows sooner.
    maybe = (widths[place] > 1) | (scorer.glance(Z) >= _AT_A_GLANCE)
    skills = [
        (scorer.skill(Z[:, place == j], scorer.tree), columns[j]) for j in np.unique(place[maybe])
    ]
    found = [pair for pair in skills if pair[0] >= _ALONE]
    everything = scorer.skill(Z, scorer.boosting) if found else np.nan
    found = [pair for pair in found if pair[0] >= _OF_ALL * everything]
    found.sort(key=lambda pair: -pair[0])
    table = {
        "column": np.array([name for _, name in found], dtype=object),
        "alone": np.array([alone for alone, _ in found]),
        "all": np.full(len(found), everything),
    }
    names = ", ".join(repr(str(name)) for _, name in found)
    summary = (
        f"{names} alone answer{'s' if len(found) == 1 else ''} nearly as well as all columns:"
        if found
        else "No column alone answers nearly as well as all of them."
    )
    return Findings(summary, table)


def is_classification(y: np.ndarray, task: str | None = None) -> bool:
    """Tell whether targets are classes; where ``task`` does not say so, by their values."""
    if task is not None:
        if task not in ("classification", "regression"):
            raise ValueError(f'task={task!r} must be "classification", "regression" or None.')
        return task == "classification"
    if y.dtype.kind not in "iuf":
        return True
    limit = _MAX_FLOAT_CLASSES if y.dtype.kind == "f" else _MAX_CLASSES
    return type_of_target(y) in ("binary", "multiclass") and len(np.unique(y)) <= limit


class _Scorer:
    """Shares of the loss that models take away on rows held out."""

    def __init__(self, y: np.ndarray, has_classes: bool, seed: int) -> None:
        self.seed = seed
        self.classes = None
        if has_classes:
            self.classes, y = np.unique(y, return_inverse=True)
        # Ranks: one mistyped number must not make up the whole variance.
        self.y = stats.rankdata(y) if self.classes is None else y

    @property
    def leaf(self) -> int:
        return max(2, len(self.y) // 200)

    def tree(self):
        make = DecisionTreeRegressor if self.classes is None else DecisionTreeClassifier
        return make(min_samples_leaf=self.leaf, random_state=self.seed)

    def glance(self, Z: np.ndarray) -> np.ndarray:
        """Return the share of the loss that each column takes away by the rows next in its order.

        Rows are answered by the mean of the others in bins of two leaves, (S - y) / (w - 1) with S
        the sum over w rows, which errs by w (y - S / w) / (w - 1).
        """
        n, columns = Z.shape
        Y = self._targets()
        starts = np.linspace(0, n, max(n // (2 * self.leaf), 1), endpoint=False).astype(np.int64)
        widths = np.diff(np.append(starts, n)).astype(np.float64)
        inflation = (widths / np.maximum(widths - 1.0, 1.0)) ** 2
        loss = np.empty(columns)
        for block in row_blocks(columns, 24 * n * Y.shape[1]):
            sorted_targets = Y[np.argsort(Z[:, block], axis=0, kind="stable")]
            sums = np.add.reduceat(sorted_targets, starts) ** 2 / widths[:, None, None]
            squares = np.add.reduceat(sorted_targets**2, starts)
            loss[block] = inflation @ (squares - sums).sum(axis=2)
        constant = np.sum((Y - Y.mean(axis=0)) ** 2)
        return 1.0 - loss / constant if constant else np.zeros(columns)

    def _targets(self) -> np.ndarray:
        """Return ranks, or one column of zeros and ones per class."""
        return self.y[:, None] if self.classes is None else np.eye(len(self.classes))[self.y]

    def boosting(self):
        if self.classes is None:
            return HistGradientBoostingRegressor(max_iter=60, random_state=self.seed)
        return HistGradientBoostingClassifier(max_iter=60, random_state=self.seed)

    def skill(self, Z: np.ndarray, make) -> float:
        """Return one less the loss over that of the best constant."""
        answers, order = self._held_out(Z, make)
        truth = self._targets()[order]
        constant = np.mean((truth - truth.mean(axis=0)) ** 2)
        return float(1.0 - np.mean((truth - answers) ** 2) / constant) if constant else 0.0

    def _held_out(self, Z, make):
        if self.classes is None:
            splitter: Any = KFold(_N_FOLDS, shuffle=True, random_state=self.seed)
            method, labels = "predict", None
        else:
            enough = np.bincount(self.y).min() >= _N_FOLDS
            kind = StratifiedKFold if enough else KFold
            splitter = kind(_N_FOLDS, shuffle=True, random_state=self.seed)
            method, labels = "predict_proba", np.arange(len(self.classes))
        folds = [test for _, test in splitter.split(Z, self.y)]
        _, answers = cross_fit(
            lambda X, y, weight: make().fit(X, y),
            lambda model, X: aligned_answers(model, X, method, labels),
            Z, self.y, folds,
        )  # fmt: skip
        return answers, np.concatenate(folds)
