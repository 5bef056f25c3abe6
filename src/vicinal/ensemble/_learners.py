"""Base learners of ensembles: weights, seeds, class probabilities, folds, bootstrap samples."""

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import KFold, StratifiedKFold

from vicinal._base import (
    check_takes_weights,
    finite_predictions,
    random_seeds,
    seeded_clone,
    takes_weights,
)
from vicinal._kernels.ensemble._trees import COLUMN_SHARE, MANY_COLUMNS


def column_share(model):
    """Return the share of the columns that a split of a boosted tree considers by default."""
    is_sampled = is_classifier(model) and model.n_features_in_ >= MANY_COLUMNS
    return COLUMN_SHARE if is_sampled else 1.0


def fresh_learner(learner, rng):
    """Clone a learner and give every random part of it a seed of its own."""
    return seeded_clone(learner, rng, only_unset=False)


def usable_weights(learner, weight):
    """Return the weights to pass to the learner, ``None`` if they are all equal."""
    if np.ptp(weight) == 0.0:
        return None if weight[0] == 1.0 or not takes_weights(learner) else weight
    check_takes_weights(learner)
    return weight


def class_probabilities(estimator, X, n_classes):
    """Return probabilities of all class codes, zero for classes the estimator has not seen.

    An estimator without ``predict_proba`` has probability one for the class it predicts.
    """
    probability = np.zeros((X.shape[0], n_classes))
    if hasattr(estimator, "predict_proba"):
        predicted = finite_predictions(estimator, estimator.predict_proba(X))
        probability[:, estimator.classes_] = predicted
    else:
        probability[np.arange(X.shape[0]), estimator.predict(X)] = 1.0
    return probability


def shuffled_folds(cv: Any, data: Any, random_state: Any) -> list[tuple]:
    """Return training and held-out rows of ``cv`` folds, stratified by class.

    There are at most as many folds as rows, or rows of the largest class.
    """
    is_classified = data.classes is not None
    most = int(np.bincount(data.y).max()) if is_classified else len(data)
    if most < 2:
        raise ValueError(
            f"n_samples={len(data)} {'without two rows of one class ' if is_classified else ''}is "
            "too small for cross-validation; give more rows."
        )
    kind: Any = StratifiedKFold if is_classified else KFold
    # Files are often sorted by target, so folds are shuffled.
    folds = kind(min(cv, most), shuffle=True, random_state=random_seeds(random_state, 1)[0])
    return list(folds.split(data.y, data.y))


def resample_rows(rng, weight, n_sampled, codes=None):
    """Return rows sampled with replacement, with probabilities proportional to ``weight``.

    With ``codes`` every class must appear: a sample that lacks one is repeated ten times at most;
    then each class is sampled separately, in proportion to its weight.
    """
    chance = weight / weight.sum()
    n_rows = len(weight)
    if codes is None:
        return rng.choice(n_rows, size=n_sampled, p=chance)
    n_classes = codes.max() + 1
    for _ in range(10):
        rows = rng.choice(n_rows, size=n_sampled, p=chance)
        if len(np.unique(codes[rows])) == n_classes:
            return rows
    parts = []
    for code in range(n_classes):
        own = np.flatnonzero(codes == code)
        share = chance[own].sum()
        size = max(1, round(n_sampled * share))
        parts.append(rng.choice(own, size=size, p=chance[own] / share))
    return np.concatenate(parts)


def row_count(weight):
    """Return the number of rows: the sum of the weights if all are integers, else their count."""
    total = weight.sum()
    return int(total) if np.all(weight == np.rint(weight)) else len(weight)
