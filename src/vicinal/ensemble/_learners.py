"""Handling of learners passed in: weights, seeds, columns of probabilities, bootstrap draws."""

import numpy as np
from sklearn.base import clone

from vicinal._base import draw_seeds, finite_predictions, takes_weights


def fresh_learner(learner, rng):
    """Clone a learner and give every random part of it a seed of its own."""
    copy = clone(learner)
    names = [
        name
        for name in sorted(copy.get_params(deep=True))
        if name == "random_state" or name.endswith("__random_state")
    ]
    if names:
        copy.set_params(**dict(zip(names, draw_seeds(rng, len(names)), strict=True)))
    return copy


def usable_weights(learner, weight, owner):
    """Return weights to hand to the learner: ``None`` if they are all equal.

    A learner that cannot take the weights it would need is an error before any work.
    """
    if np.ptp(weight) == 0.0:
        return None if weight[0] == 1.0 or not takes_weights(learner) else weight
    if not takes_weights(learner):
        raise ValueError(
            f"sample_weight was given to {owner}, but its learner {learner!r} takes none; use a "
            "learner whose fit has sample_weight, or repeat rows instead of weighting them."
        )
    return weight


def class_probabilities(member, X, n_classes):
    """Probabilities with one column per class code, zero for classes the member has not seen.

    Members without ``predict_proba`` vote with weight one.
    """
    probability = np.zeros((X.shape[0], n_classes))
    if hasattr(member, "predict_proba"):
        probability[:, member.classes_] = finite_predictions(member, member.predict_proba(X))
    else:
        probability[np.arange(X.shape[0]), member.predict(X)] = 1.0
    return probability


def fold_count(cv, y, classifier):
    """Return the number of folds: fewer than ``cv`` for data too small for it.

    Folds are drawn within classes, so the largest class decides.
    """
    most = int(np.bincount(y).max()) if classifier else len(y)
    if most < 2:
        raise ValueError(
            f"n_samples={len(y)} {'without two rows of one class ' if classifier else ''}cannot be "
            "both learned from and held out; give more rows."
        )
    return min(cv, most)


def draw_rows(rng, weight, n_draws, codes=None):
    """Draw rows with replacement, with chances proportional to ``weight``.

    With ``codes`` every class must appear: a draw that misses one is repeated ten times at most,
    then each class is drawn by itself, in proportion to its weight.
    """
    chance = weight / weight.sum()
    n_rows = len(weight)
    if codes is None:
        return rng.choice(n_rows, size=n_draws, p=chance)
    n_classes = codes.max() + 1
    for _ in range(10):
        rows = rng.choice(n_rows, size=n_draws, p=chance)
        if len(np.unique(codes[rows])) == n_classes:
            return rows
    parts = []
    for code in range(n_classes):
        members = np.flatnonzero(codes == code)
        share = chance[members].sum()
        size = max(1, round(n_draws * share))
        parts.append(rng.choice(members, size=size, p=chance[members] / share))
    return np.concatenate(parts)


def row_count(weight):
    """Return how many rows weights stand for: their sum if all are whole, else their number."""
    total = weight.sum()
    return int(total) if np.all(weight == np.rint(weight)) else len(weight)
