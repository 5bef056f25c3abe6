"""Columns that give the answer away."""

from typing import Any

import numpy as np
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.multiclass import type_of_target

from vicinal._base import aligned_answers, cross_fit
from vicinal._base._compat import num_samples, rows_of
from vicinal.inspection._findings import Findings
from vicinal.table import TableEncoder

_MAX_ROWS = 5000
_N_FOLDS = 3
# Whole numbers with more different values than this are numbers, not classes; as floats sooner.
_MAX_CLASSES, _MAX_FLOAT_CLASSES = 20, 10
# A column leaks if it alone takes away this share of the loss, nearly as much as all columns do.
_ALONE, _OF_ALL = 0.9, 0.95


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
    skills = [
        (scorer.skill(Z[:, sources == name], scorer.tree), name) for name in dict.fromkeys(sources)
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

    def tree(self):
        make = DecisionTreeRegressor if self.classes is None else DecisionTreeClassifier
        leaf = max(2, len(self.y) // 200)
        return make(min_samples_leaf=leaf, random_state=self.seed)

    def boosting(self):
        if self.classes is None:
            return HistGradientBoostingRegressor(max_iter=60, random_state=self.seed)
        return HistGradientBoostingClassifier(max_iter=60, random_state=self.seed)

    def skill(self, Z: np.ndarray, make) -> float:
        """Return one less the loss over that of the best constant."""
        answers, order = self._held_out(Z, make)
        if self.classes is None:
            truth = self.y[order]
            spread = np.mean((truth - truth.mean()) ** 2)
            return float(1.0 - np.mean((truth - answers[:, 0]) ** 2) / spread) if spread else 0.0
        truth = np.eye(len(self.classes))[self.y[order]]
        constant = np.mean((truth - truth.mean(axis=0)) ** 2)
        return float(1.0 - np.mean((truth - answers) ** 2) / constant)

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
