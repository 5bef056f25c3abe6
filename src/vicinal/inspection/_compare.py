"""Cross-validated comparison of models on one table."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import check_random_state, indexable

from vicinal._base import Progress
from vicinal._base._compat import rows_of


@dataclass(frozen=True)
class ComparisonEntry:
    """What one model reached.

    Attributes
    ----------
    name : str
        Name of the model.
    scores : ndarray of shape (n_folds,)
        Score of every fold, higher is better.
    fit_seconds, predict_seconds : float
        Mean wall time of a fold.
    error : str
        Why the model could not be fitted; empty when it could.
    """

    name: str
    scores: np.ndarray
    fit_seconds: float
    predict_seconds: float
    error: str = ""

    @property
    def mean(self) -> float:
        """Mean score over the folds."""
        return float(np.mean(self.scores)) if len(self.scores) else float("nan")

    @property
    def standard_error(self) -> float:
        """Standard error of the mean over the folds."""
        if len(self.scores) < 2:
            return float("nan")
        return float(np.std(self.scores, ddof=1) / np.sqrt(len(self.scores)))


@dataclass(frozen=True)
class Comparison:
    """Models ranked by their mean score; made by :func:`compare`.

    Attributes
    ----------
    entries : list of ComparisonEntry
        Best first; models that failed come last.
    metric : str
        Name of the score.
    n_folds : int
        Number of folds.
    n_samples, n_features : int
        Shape of the table.
    """

    entries: list[ComparisonEntry]
    metric: str
    n_folds: int
    n_samples: int
    n_features: int

    def __str__(self) -> str:
        width = max(len(entry.name) for entry in self.entries)
        lines = [
            f"{self.n_samples} rows, {self.n_features} columns, {self.n_folds}-fold {self.metric}",
            f"{'':4}{'model':<{width}}  {'score':>8}  {'± se':>7}  {'fit s':>7}  {'predict s':>9}",
        ]
        for rank, entry in enumerate(self.entries, start=1):
            if entry.error:
                lines.append(f"{'-':>2}  {entry.name:<{width}}  failed: {entry.error}")
                continue
            lines.append(
                f"{rank:>2}  {entry.name:<{width}}  {entry.mean:8.4f}  {entry.standard_error:7.4f}"
                f"  {entry.fit_seconds:7.2f}  {entry.predict_seconds:9.3f}"
            )
        return "\n".join(lines)


def compare(
    models: Mapping[str, Any],
    X: Any,
    y: Any,
    *,
    cv: int = 5,
    metric: str | None = None,
    random_state: Any = 0,
    verbose: int = 0,
) -> Comparison:
    """Cross-validate every model on the same folds and rank them.

    A model that raises is listed with its message instead of ending the comparison.

    Parameters
    ----------
    models : mapping of str to estimator
        Unfitted estimators by name; they are cloned.
    X : array-like or data frame of shape (n_samples, n_features)
        Table of features.
    y : array-like of shape (n_samples,)
        Target.
    cv : int, default=5
        Number of folds, shuffled, stratified for classifiers.
    metric : str, default=None
        Any scikit-learn scorer name; ``None`` is accuracy for classifiers and R² for regressors.
    random_state : int, RandomState instance or None, default=0
        Draws the folds.
    verbose : int, default=0
        1 shows progress.

    Returns
    -------
    Comparison
        The leaderboard; ``print`` it.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from vicinal.inspection import compare
    >>> models = {"guess": DummyClassifier(), "5-NN": KNeighborsClassifier()}
    >>> board = compare(models, *load_wine(return_X_y=True))
    >>> [entry.name for entry in board.entries]
    ['5-NN', 'guess']
    """
    if not models:
        raise ValueError("models is empty; name at least one model to compare.")
    X, y = indexable(X, y)
    classification = all(is_classifier(model) for model in models.values())
    splitter = (StratifiedKFold if classification else KFold)(
        cv, shuffle=True, random_state=check_random_state(random_state)
    )
    folds = list(splitter.split(np.zeros(len(y)), y))
    metric = metric or ("accuracy" if classification else "r2")
    entries = []
    with Progress(len(models) * cv, "comparing", verbose=verbose) as progress:
        for name, model in models.items():
            entries.append(_cross_validate(name, model, X, y, folds, metric, progress))
    entries.sort(key=lambda entry: (bool(entry.error), -entry.mean))
    return Comparison(entries, metric, cv, *np.shape(X))


def _cross_validate(name, model, X, y, folds, metric, progress) -> ComparisonEntry:
    """Fit and score one model on all folds; its first error ends its own row only."""
    scores, fit_seconds, predict_seconds = [], [], []
    for fold, (train, test) in enumerate(folds):
        try:
            fitted = clone(model)
            started = time.perf_counter()
            fitted.fit(rows_of(X, train), rows_of(y, train))
            fit_seconds.append(time.perf_counter() - started)
            started = time.perf_counter()
            scores.append(check_scoring(fitted, metric)(fitted, rows_of(X, test), rows_of(y, test)))
            predict_seconds.append(time.perf_counter() - started)
        except Exception as error:
            progress.advance(len(folds) - fold, note=f"{name} failed")
            message = f"{type(error).__name__}: {error}".splitlines()[0]
            return ComparisonEntry(name, np.array([]), np.nan, np.nan, message)
        progress.advance(note=f"{name} {np.mean(scores):.4f}")
    return ComparisonEntry(
        name, np.array(scores), float(np.mean(fit_seconds)), float(np.mean(predict_seconds))
    )
