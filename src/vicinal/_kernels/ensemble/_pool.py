r"""The linear pool of calibrated probabilities, and a score that its own choices cannot flatter.

Member m says :math:`p_m(c|x)`; calibrated by a slope :math:`a_m` on its log probabilities and
sharpened by a factor b that all members share, :math:`q_m = \operatorname{softmax}(b a_m \log
p_m)`: a mean of calibrated probabilities is too timid (Gneiting and Ranjan 2013), and b makes up
for it. The pool is :math:`\sum_m w_m q_m(c|x)` with
:math:`w \ge 0, \sum_m w_m = 1`, so that :math:`w_m q_m` are contributions in units of probability.
Numbers are pooled alike, :math:`\sum_m w_m f_m(x)`.
"""

from collections.abc import Callable

import numpy as np


def log_proba(proba: np.ndarray, n_rows: int) -> np.ndarray:
    """Return log probabilities of shares counted in ``n_rows`` rows: none is ever certain.

    One row more is spread over the classes, ``(n p + 1 / C) / (n + 1)``; the order of the classes
    does not change.
    """
    n_classes = proba.shape[-1]
    return np.log((n_rows * np.maximum(proba, 0.0) + 1.0 / n_classes) / (n_rows + 1.0))


def few_weights(
    solve: Callable[[np.ndarray], np.ndarray], n_members: int, *, least: float, most: int
) -> np.ndarray:
    """Return weights of which at most ``most`` are positive, each at least ``least``.

    ``solve(members)`` returns weights of sum one of some members; members below the bound leave
    together, then the lightest ones one by one.
    """
    kept = np.arange(n_members)
    while True:
        weights = solve(kept)
        light = weights < least
        if light.any() and len(kept) > 1:
            # The heaviest always stays: a sum of one over many members may leave all below.
            light[weights.argmax()] = False
        elif len(kept) > most:
            light = np.arange(len(kept)) == weights.argmin()
        else:
            out = np.zeros(n_members)
            out[kept] = weights
            return out
        kept = kept[~light]


def nested_answers(
    choose: Callable[[np.ndarray], Callable[[np.ndarray], np.ndarray]], folds: np.ndarray
) -> np.ndarray:
    """Return the answer to every entry by a pool in whose making its fold had no part.

    Parameters
    ----------
    choose : callable
        (entries) -> function of entries that answers them; candidates, calibration and weights come
        from the entries given.
    folds : ndarray of int of shape (n_entries,)
        Fold of each entry.
    """
    parts, places = [], []
    for fold in np.unique(folds):
        inside = np.flatnonzero(folds == fold)
        parts.append(choose(np.flatnonzero(folds != fold))(inside))
        places.append(inside)
    answers = np.concatenate(parts)
    out = np.empty_like(answers)
    out[np.concatenate(places)] = answers
    return out


def mean_and_error(
    errors: np.ndarray,
    share: np.ndarray,
    units: np.ndarray,
    *,
    n_learned: float = np.inf,
    step: float = 0.0,
) -> tuple[float, float]:
    r"""Return the weighted mean and its standard error, entries of one unit counted as one.

    Of a single model that learned from ``n_learned`` units, the error varies with the rows it is
    asked about and with the luck of those it learned from. Held-out answers show the first alone;
    with :math:`s^2` the variance of the errors of n units the variance of the mean as an estimate
    of that model's error is :math:`s^2 (1 / n + 1 / n_{learned})` [1]_.

    Errors that are counted, each of size ``step``, may all be zero by luck, so the variance is at
    least that of one error among n units. Where five folds answer all rows the standard error is
    then 1.5 / n, and twice it the bound of 3 / n on a chance that was not met in n trials.

    References
    ----------
    .. [1] C. Nadeau and Y. Bengio, "Inference for the generalization error", Machine Learning 52
       (2003), 239-281. :doi:`10.1023/A:1024068626366`
    """
    counted = share > 0.0  # a class may weigh nothing
    errors, share = errors[counted], share[counted]
    names, unit = np.unique(units[counted], return_inverse=True)
    n = len(names)
    mass = np.bincount(unit, share)
    means = np.bincount(unit, share * errors) / mass
    mean = float(mass @ means / mass.sum())
    mass = mass / mass.sum()
    variance = mass**2 @ (means - mean) ** 2 * n / max(n - 1, 1)
    variance = max(variance, step**2 * (mass @ mass) / n)
    return mean, float(np.sqrt(variance * (1.0 + n / n_learned)))
