"""Labels and targets that look wrong, and columns that give them away."""

from typing import Any

import numpy as np
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from vicinal._base import aligned_answers, cross_fit, is_frame, row_blocks
from vicinal._base._compat import num_samples, rows_of
from vicinal._base._tables import sampled_rows
from vicinal._kernels.calibration._label_noise import confident_count, sure_ranks, wrong_share
from vicinal._kernels.ensemble._weights import log_proba
from vicinal.inspection.checks._findings import Findings, table_of
from vicinal.table import TableEncoder

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
    # Classes are judged if most of their rows are predicted as they were given.
    given = np.bincount(codes, minlength=len(classes))
    known = 2 * np.bincount(codes[answers == codes], minlength=len(classes)) > given
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


_LEAK_ROWS = 5000
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
    rows = sampled_rows(num_samples(X), _LEAK_ROWS, rng)
    X, y = rows_of(X if is_frame(X) else np.asarray(X), rows), y[rows]
    scorer = _Scorer(y, is_classification(y, task), int(rng.randint(np.iinfo(np.int32).max)))
    encoder = TableEncoder(encoding="tree")
    Z = encoder.fit_transform(X, y)
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
    lines = [(name, alone, everything) for alone, name in found]
    table = table_of(lines, {"column": object, "alone": float, "all": float})
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
