"""Labels and targets that look wrong, and columns that leak the target."""

import warnings
from typing import Any

import numpy as np
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from vicinal._base import is_frame
from vicinal._base._compat import num_samples, rows_of
from vicinal._base._tables import sampled_rows
from vicinal._kernels.calibration._label_noise import confidence_ranks, confident_count, wrong_share
from vicinal._kernels.ensemble._weights import log_proba
from vicinal.inspection.checks._findings import Findings, table_of
from vicinal.inspection.checks._profile import Target
from vicinal.table import TableEncoder

# Targets are reported whose error normal noise exceeds in this share of tables only, times a
# factor, because local scales are estimates.
_RARE, _SLACK = 0.01, 1.2
# Significance level of the test that more labels are wrong than this share.
_LEVEL, _TOLERANCE = 0.005, 0.01


def label_issues(held_out: Any, y: Any) -> Findings:
    r"""Find labels, or targets, that similar rows contradict.

    Parameters
    ----------
    held_out : estimator or array-like
        A fitted model with ``held_out_``, such as :class:`~vicinal.uncertainty.ConformalClassifier`
        or :class:`~vicinal.auto.AutoClassifier`; or its held-out predictions: probabilities of
        shape (n_samples, n_classes), columns in the order of the sorted labels, or values of shape
        (n_samples,). Predictions of a model for its own training rows find nothing; rows whose
        prediction is NaN are skipped.
    y : array-like of shape (n_samples,)
        Given labels or targets.

    Returns
    -------
    Findings
        One row per suspicious row, most suspicious first. For labels: ``row``, ``given``,
        ``suggested`` and ``odds``, how many times more probable the best other label is than the
        given one; ``values["expected"]`` estimates how many labels are wrong, and ``bool(result)``
        is whether more than 1 % are wrong at the level 0.005 (``values["p_value"]``). For
        regression: ``row``, ``given``, ``expected`` and ``ratio``, the absolute error divided by
        its local mean.

    Notes
    -----
    Where classes overlap, predictions contradict correct labels. The most confident predictions
    separate overlap from wrong labels, as in the estimate of an observer's lapse rate [1]_. With u
    the rank of a row's confidence among rows predicted c (0 for the most confident), the share of
    contradicted labels is modelled as

    .. math:: r_c(u) = w + (1 - w)\, b_c\, u^{k_c}, \qquad k_c \ge 3\,(1 - 2b_c):

    the effect of overlap vanishes for the most confident rows of each class, while labels that are
    wrong at random leave the same share w in all classes. A second count is confident learning: the
    labels contradicted by a prediction that is as confident as predictions of its class are on
    average [2]_. The share w is unreliable where few predictions are confident, and confident
    learning counts overlap as errors. The number of wrong labels is estimated by the geometric mean
    of both counts, and that many rows, those of largest odds, are listed. A model that is confident
    and wrong also raises w: an alarm needs a likelihood-ratio test against all :math:`w \le 0.01`,
    so a few wrong labels in a large table are listed without an alarm. Wrong labels that occur only
    where classes overlap cannot be detected. Classes most of whose rows are predicted as another
    class are skipped.

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
    predictions = getattr(held_out, "held_out_", held_out)
    predictions = check_array(predictions, ensure_2d=False, ensure_all_finite="allow-nan")
    y = np.asarray(y)
    check_consistent_length(predictions, y)
    rows = np.flatnonzero(np.isfinite(predictions.reshape(len(predictions), -1)).all(axis=1))
    if not len(rows):
        raise ValueError("held_out has no row without NaN; pass held-out predictions of some rows.")
    if predictions.ndim == 1 or predictions.shape[1] == 1:
        scale = held_out.held_out_scale()[rows] if hasattr(held_out, "held_out_scale") else None
        return far_targets(predictions.reshape(len(predictions))[rows], y[rows], scale, rows)
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) != predictions.shape[1]:
        raise ValueError(
            f"held_out has {predictions.shape[1]} columns, y has {len(classes)} different labels; "
            "there must be one column for each label, in sorted order."
        )
    return _wrong_labels(predictions[rows], classes, codes[rows], rows)


def label_odds(proba: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many times more probable the best other label is, and that label.

    Add-one smoothing keeps every probability positive.
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
    predictions = proba.argmax(axis=1)
    # Classes are judged if most of their rows are predicted as they were given.
    given = np.bincount(codes, minlength=len(classes))
    known = 2 * np.bincount(codes[predictions == codes], minlength=len(classes)) > given
    judged = np.flatnonzero(known[codes] & known[predictions])
    expected, p_value = 0, 1.0
    if known.sum() > 1:
        predicted, given = predictions[judged], codes[judged]
        ranks = confidence_ranks(proba[judged, predicted], predicted)
        share, p_value = wrong_share(predicted != given, ranks, predicted, _TOLERANCE)
        # Labels that are wrong at random are wrong in the skipped classes, too.
        expected = round(np.sqrt(share * len(codes) * confident_count(proba, codes)))
    odds, best = label_odds(proba, codes)
    order = judged[np.argsort(-odds[judged], kind="stable")][:expected]
    table = {
        "row": rows[order],
        "given": classes[codes[order]],
        "suggested": classes[best[order]],
        "odds": odds[order],
    }
    found, n = bool(expected and p_value < _LEVEL), len(codes)
    if found:
        summary = (
            f"About {expected} of {n} labels ({expected / n:.1%}) look wrong, more than "
            "overlapping classes explain."
        )
    elif expected:
        are = "label is" if expected == 1 else "labels are"
        summary = (
            f"{expected} of {n} {are} surprising, not clearly more than overlapping classes "
            "explain."
        )
    else:
        summary = f"The {n} labels are no more surprising than overlapping classes explain."
    if not known.all():
        names = ", ".join(str(label) for label in classes[~known][:5])
        summary += f" Most rows of {names} are predicted as another class; they are skipped."
    values = {"expected": expected, "p_value": p_value, "found": found}
    return Findings(summary, table, values)


def far_targets(
    predictions: np.ndarray, y: np.ndarray, scale: np.ndarray | None, rows: np.ndarray
) -> Findings:
    """Return targets that lie far from held-out predictions, in units of a local scale."""
    residuals = y.astype(np.float64) - predictions
    ratio = np.abs(residuals) / (_spread(residuals) if scale is None else scale)
    order = np.argsort(-ratio, kind="stable")
    # A normal law has E|r| = sqrt(2 / pi) sigma.
    far = _SLACK * np.sqrt(np.pi / 2.0) * stats.norm.isf(_RARE / (2.0 * len(y)))
    order = order[ratio[order] > far]
    table = {
        "row": rows[order],
        "given": y[order],
        "expected": predictions[order],
        "ratio": ratio[order],
    }
    summary = (
        f"{len(order)} of {len(y)} targets differ by {far:.1f} or more local mean errors:"
        if len(order)
        else f"No target of {len(y)} is far from its held-out prediction."
    )
    return Findings(summary, table)


def _spread(residuals: np.ndarray) -> float:
    """Return the mean absolute error of normal residuals, estimated robustly by the median."""
    spread = float(np.median(np.abs(residuals))) * 0.7979 / 0.6745
    return spread if spread > 0.0 else 1.0


_LEAK_ROWS = 5000
_N_FOLDS = 3
# Integers with more distinct values than this are a regression target; floats with fewer.
_MAX_CLASSES, _MAX_FLOAT_CLASSES = 20, 10
# A column leaks if it alone explains this share of the loss, and this share of what all explain.
_ALONE, _OF_ALL = 0.9, 0.95
# Trees are fitted only to columns whose bins explain this share.
_AT_A_GLANCE = 0.5


def leaking_columns(X: Any, y: Any, *, task=None, random_state=0) -> Findings:
    """Find columns that alone predict nearly as well as all columns together.

    Such a column was often filled in after the target was known (a date of discharge, a fee that
    only one class pays) and is not available when the model is used.

    Parameters
    ----------
    X : {array-like, data frame} of shape (n_samples, n_features)
        The table.
    y : array-like of shape (n_samples,)
        Target.
    task : {"classification", "regression"}, default=None
        Type of the target; ``None`` treats strings, and integers of few values, as classes.
    random_state : int, RandomState instance or None, default=0
        Seed of the rows used (at most 5,000) and of the folds.

    Returns
    -------
    Findings
        One row per suspicious column: ``column``, ``alone`` and ``all``, the shares of the loss
        (Gini impurity, or variance of the ranks) that a small tree on this column, and boosted
        trees on all columns, explain on held-out rows. The boosted trees are fitted only if a
        column is suspicious.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.inspection.checks import leaking_columns
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
    rows = sampled_rows(num_samples(X), _LEAK_ROWS, rng)
    X, y = rows_of(X if is_frame(X) else np.asarray(X), rows), y[rows]
    target, leaf = Target(y, is_classification(y, task)), max(2, len(y) // 200)
    seed = int(rng.randint(np.iinfo(np.int32).max))
    tree: Any = DecisionTreeRegressor(min_samples_leaf=leaf, random_state=seed)
    boosting: Any = HistGradientBoostingRegressor(max_iter=60, random_state=seed)
    if target.has_classes:
        tree = DecisionTreeClassifier(min_samples_leaf=leaf, random_state=seed)
        boosting = HistGradientBoostingClassifier(max_iter=60, random_state=seed)
    encoder = TableEncoder(encoding="tree")
    Z = encoder.fit_transform(X, y)
    sources = np.asarray(encoder.sources_)
    columns, index, widths = np.unique(sources, return_inverse=True, return_counts=True)
    # Columns encoded by several numbers need a tree; bins of a single number are enough.
    maybe = [
        widths[j] > 1 or target.explained(_bins(numbers, 2 * leaf)) >= _AT_A_GLANCE
        for j, numbers in zip(index, Z.T, strict=True)
    ]
    skills = [
        (_skill(tree, Z[:, index == j], target, seed), columns[j]) for j in np.unique(index[maybe])
    ]
    found = [pair for pair in skills if pair[0] >= _ALONE]
    everything = _skill(boosting, Z, target, seed) if found else np.nan
    found = [pair for pair in found if pair[0] >= _OF_ALL * everything]
    found.sort(key=lambda pair: -pair[0])
    lines = [(name, alone, everything) for alone, name in found]
    table = table_of(lines, {"column": object, "alone": float, "all": float})
    names = ", ".join(repr(str(name)) for _, name in found)
    summary = (
        f"{names} alone predict{'s' if len(found) == 1 else ''} nearly as well as all columns:"
        if found
        else "No column alone predicts nearly as well as all columns."
    )
    return Findings(summary, table)


def is_classification(y: np.ndarray, task: str | None = None) -> bool:
    """Return whether targets are classes, by ``task`` or, without it, by their values."""
    if task is not None:
        if task not in ("classification", "regression"):
            raise ValueError(f'task={task!r} must be "classification", "regression" or None.')
        return task == "classification"
    if y.dtype.kind not in "iuf":
        return True
    limit = _MAX_FLOAT_CLASSES if y.dtype.kind == "f" else _MAX_CLASSES
    return type_of_target(y) in ("binary", "multiclass") and len(np.unique(y)) <= limit


def _bins(numbers: np.ndarray, size: int) -> np.ndarray:
    """Return the codes of bins of about ``size`` rows each, in the order of the numbers."""
    n, codes = len(numbers), np.empty(len(numbers), dtype=np.int64)
    codes[np.argsort(numbers, kind="stable")] = np.arange(n) * max(n // size, 1) // n
    return codes


def _skill(model: Any, Z: np.ndarray, target: Target, seed: int) -> float:
    """Return the share of the loss that a model explains on held-out rows."""
    y: np.ndarray = target.Y[:, 0]
    splitter, method = KFold, "predict"
    if target.has_classes:
        y, method = target.codes, "predict_proba"
        splitter = StratifiedKFold if np.bincount(y).min() >= _N_FOLDS else KFold
    cv = splitter(_N_FOLDS, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        # A class that the training rows of a fold lack has probability zero.
        warnings.filterwarnings("ignore", "Number of classes in training fold", RuntimeWarning)
        predictions = cross_val_predict(model, Z, y, cv=cv, method=method)
    return target.share(predictions.reshape(len(y), -1))
