"""Labels and targets that look wrong."""

from typing import Any

import numpy as np
from scipy import stats
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets

from vicinal._kernels.calibration._label_noise import confident_count, sure_ranks, wrong_share
from vicinal._kernels.ensemble._weights import log_proba
from vicinal.inspection._findings import Findings

# Targets so far off that normal noise would put one into this share of tables are reported, if they
# are farther by this factor, because local scales are estimates.
_RARE, _SLACK = 0.01, 1.2
# Chance of a false alarm about the labels of a table, if no larger share than this is wrong.
_LEVEL, _TOLERANCE = 0.005, 0.01


def label_issues(held_out: Any, y: Any) -> Findings:
    r"""Find labels, or targets, that the rows around them contradict.

    Parameters
    ----------
    held_out : estimator or array-like
        A fitted model with ``held_out_``, such as :class:`~vicinal.uncertainty.ConformalClassifier`
        or :class:`~vicinal.auto.AutoClassifier`; or its held-out answers: probabilities of shape
        (n_samples, n_classes), columns in the order of the sorted labels, or predictions of shape
        (n_samples,). Answers by a model that had seen the rows find nothing; rows answered by NaN
        are not judged.
    y : array-like of shape (n_samples,)
        Labels or targets as they were given.

    Returns
    -------
    Findings
        One row per suspicious row, most suspicious first. For labels: ``row``, ``given``,
        ``suggested`` and ``odds``, how many times more probable the best other label is than the
        given one; ``values["expected"]`` estimates how many labels are wrong, and ``bool`` tells
        whether they are surely more than one in a hundred (``values["p_value"]`` below 0.005).
        For numbers: ``row``, ``given``, ``expected`` and ``ratio``, the error in units of the local
        mean of errors.

    Notes
    -----
    Where classes overlap, labels are contradicted that nobody mistyped. Both kinds are told apart
    by the surest answers, as the lapse rate of an observer is [1]_. With u the rank of a row's
    sureness among rows answered c (0 for the surest), the share of them whose labels are
    contradicted is taken to be

    .. math:: r_c(u) = w + (1 - w)\, b_c\, u^{k_c}, \qquad k_c \ge 3\,(1 - 2b_c):

    overlap fades towards the surest rows, in each class in its own way and steeply where it hardly
    meets others, while labels that are wrong wherever they stand leave one floor w in all of them.
    Another count is that of labels contradicted by an answer as sure as answers of its class are on
    average [2]_. The floor errs where hardly one is sure, confident counting takes overlap for
    mistakes: the geometric mean of both counts is expected to be wrong, none where overlap explains
    everything, and so many rows of largest odds are listed. A model that is sure and wrong leaves a
    floor, too: the likelihood ratio against all :math:`w \le 0.01` decides about an alarm, so that
    a few wrong labels in a large table are listed without one. Wrong labels that gather where
    classes overlap cannot be told from overlap by anybody; classes most of whose rows are answered
    otherwise are not judged.

    References
    ----------
    .. [1] F. A. Wichmann and N. J. Hill, "The psychometric function: I. Fitting, sampling, and
       goodness of fit", Perception & Psychophysics 63 (2001), 1293-1313.
       :doi:`10.3758/BF03194544`
    .. [2] C. G. Northcutt, L. Jiang and I. L. Chuang, "Confident learning: estimating uncertainty
       in dataset labels", Journal of Artificial Intelligence Research 70 (2021), 1373-1411.
       :doi:`10.1613/jair.1.12125`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from vicinal.inspection import label_issues
    >>> from vicinal.uncertainty import ConformalClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> y[7] = 2
    >>> model = ConformalClassifier(LogisticRegression(max_iter=500), random_state=0).fit(X, y)
    >>> int(label_issues(model, y)["row"][0])
    7
    """
    answers = getattr(held_out, "held_out_", held_out)
    answers = check_array(answers, ensure_2d=False, ensure_all_finite="allow-nan")
    y = np.asarray(y)
    check_consistent_length(answers, y)
    rows = np.flatnonzero(np.isfinite(answers.reshape(len(answers), -1)).all(axis=1))
    if not len(rows):
        raise ValueError("held_out has no row without NaN; there is nothing to judge labels by.")
    if answers.ndim == 1 or answers.shape[1] == 1:
        scale = held_out.held_out_scale()[rows] if hasattr(held_out, "held_out_scale") else None
        return far_targets(answers.reshape(len(answers))[rows], y[rows], scale, rows)
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) != answers.shape[1]:
        raise ValueError(
            f"held_out has {answers.shape[1]} columns, y has {len(classes)} different labels; "
            "there must be one column for each label, in sorted order."
        )
    return _wrong_labels(answers[rows], classes, codes[rows], rows)


def label_odds(proba: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many times more probable the best other label is, and that label.

    One row more is spread over the classes, so that no label is ruled out.
    """
    rows = np.arange(len(codes))
    proba = np.exp(log_proba(proba, len(codes)))
    others = proba.copy()
    others[rows, codes] = -np.inf
    best = others.argmax(axis=1)
    return others[rows, best] / proba[rows, codes], best


def _wrong_labels(
    proba: np.ndarray, classes: np.ndarray, codes: np.ndarray, rows: np.ndarray
) -> Findings:
    answers = proba.argmax(axis=1)
    known = _known_classes(answers, codes, len(classes))
    judged = np.flatnonzero(known[codes] & known[answers])
    expected, p_value = 0, 1.0
    if known.sum() > 1:
        answer, given = answers[judged], codes[judged]
        ranks = sure_ranks(proba[judged, answer], answer)
        share, p_value = wrong_share(answer != given, ranks, answer, _TOLERANCE)
        # Labels that are mistaken wherever they stand are so in classes that cannot be judged, too.
        expected = round(np.sqrt(share * len(codes) * confident_count(proba, codes)))
    odds, best = label_odds(proba, codes)
    order = judged[np.argsort(-odds[judged], kind="stable")][:expected]
    table = {
        "row": rows[order],
        "given": classes[codes[order]],
        "suggested": classes[best[order]],
        "odds": odds[order],
    }
    found = bool(expected and p_value < _LEVEL)
    values = {"expected": expected, "p_value": p_value, "found": found}
    return Findings(_label_summary(found, expected, classes, known, len(codes)), table, values)


def _known_classes(answers: np.ndarray, codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Return which classes have most of their rows answered as they were given."""
    given = np.bincount(codes, minlength=n_classes)
    return 2 * np.bincount(codes[answers == codes], minlength=n_classes) > given


def _label_summary(
    found: bool, expected: int, classes: np.ndarray, known: np.ndarray, n: int
) -> str:
    unknown = ""
    if not known.all():
        names = ", ".join(str(label) for label in classes[~known][:5])
        unknown = f" Most rows of {names} are answered otherwise; they are not judged."
    if found:
        return (
            f"About {expected} of {n} labels ({expected / n:.1%}) look wrong, more than classes "
            f"that overlap explain.{unknown}"
        )
    if expected:
        are = "label stands" if expected == 1 else "labels stand"
        return f"{expected} {are} out among {n}, not clearly more than overlap explains.{unknown}"
    return f"Of {n} labels no more are contradicted than classes that overlap explain.{unknown}"


def far_targets(
    answers: np.ndarray, y: np.ndarray, scale: np.ndarray | None, rows: np.ndarray
) -> Findings:
    """Return targets that lie far from held-out answers, in units of ``scale`` at each row."""
    residuals = y.astype(np.float64) - answers
    ratio = np.abs(residuals) / (_spread(residuals) if scale is None else scale)
    order = np.argsort(-ratio, kind="stable")
    # A normal law has E|r| = sqrt(2 / pi) sigma.
    far = _SLACK * np.sqrt(np.pi / 2.0) * stats.norm.isf(_RARE / (2.0 * len(y)))
    order = order[ratio[order] > far]
    table = {
        "row": rows[order],
        "given": y[order],
        "expected": answers[order],
        "ratio": ratio[order],
    }
    summary = (
        f"{len(order)} of {len(y)} targets lie {far:.1f} or more local mean errors off:"
        if len(order)
        else f"No target of {len(y)} lies far from what the rows around it say."
    )
    return Findings(summary, table)


def _spread(residuals: np.ndarray) -> float:
    """Return the mean error of normal residuals, from their median: outliers must not hide."""
    spread = float(np.median(np.abs(residuals))) * 0.7979 / 0.6745
    return spread if spread > 0.0 else 1.0
