"""Support vector machine trained on clusters of the rows."""

import warnings
from dataclasses import dataclass
from itertools import combinations
from math import ceil
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.svm import SVC
from sklearn.utils import check_random_state

from vicinal._base import (
    TrainingData,
    atomic_fit,
    class_factors,
    documented,
    parallel_map,
    query_rows,
    random_seeds,
    saved,
    store_parameters,
    training_data,
)
from vicinal._base._compat import RUN_CONSTRAINTS, Interval, StrOptions
from vicinal._base._explanation import ExplainRowMixin
from vicinal._base._tables import sampled_rows
from vicinal._kernels.subspace import _divide_conquer
from vicinal.subspace._explain import cluster_sections

_ROWS_PER_CLUSTER = 2000
_SPLIT_ROUNDS = 20
# Rows that centres are learned from, also at least a hundred per cluster; the others are assigned.
_CLUSTERING_ROWS = 20_000
# Coordinate steps of one exact problem at most, and the kernel cache of each problem.
_MAX_STEPS, _CACHE_MIB = 10_000_000, 200.0


@saved(
    classes_="c labels",
    cluster_centers_="k p",
    cluster_sizes_="k",
    support_vectors_="s p",
    dual_coef_="s *",
)
@documented
class DivideConquerSVC(ExplainRowMixin, ClassifierMixin, BaseEstimator):
    r"""RBF support vector machine trained cluster by cluster (DC-SVM).

    The rows are divided into clusters and one small SVM is trained on each. With
    ``prediction="early"`` the SVM of the nearest cluster predicts a query: the training time grows
    linearly with the number of rows, and the model is local. With ``prediction="exact"`` the
    solutions of the clusters are the start of a descent on the whole problem, which then needs few
    steps [1]_.

    Read more in the :doc:`user guide </guide/subspace>`.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of violated margins, as of ``SVC``.
    gamma : float or "scale", default="scale"
        Width of the kernel ``exp(-gamma |x - z|^2)``; ``"scale"`` is one over the number of
        features times the variance of ``X``.
    n_clusters : int or "auto", default="auto"
        Number of clusters; ``"auto"`` takes one per 2000 rows.
    max_cluster_size : int, default=8000
        Larger clusters are divided again, unless their rows coincide.
    prediction : {"early", "exact"}, default="early"
        See above. The exact SVM has no bias term.
    class_weight : dict, "balanced" or None, default=None
        Factors on ``C`` per class.
    tol : float, default=1e-3
        Largest violation of the gradient at which the solvers stop.
    n_jobs : int, default=None
        Number of clusters fitted in parallel, through joblib; ``None`` means 1 unless in a
        ``joblib.parallel_config`` context. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the clustering.
    verbose : int, default=0
        Whether to show progress over the clusters.

    Attributes
    ----------
    n_clusters_ : int
        Number of clusters.
    cluster_sizes_ : ndarray of shape (`n_clusters_`,)
        Training rows in each.
    cluster_centers_ : ndarray of shape (`n_clusters_`, `n_features_in_`)
        Means of the clusters.
    estimators_ : list
        For ``"early"``: the fitted ``SVC`` of each cluster, or the code of its only class.
    gamma_ : float
        The width used.
    support_vectors_ : ndarray of shape (n_support, `n_features_in_`)
        For ``"exact"``: rows with a positive dual coefficient.
    dual_coef_ : ndarray of shape (n_support, n_pairs)
        For ``"exact"``: signed dual coefficients, one column per pair of classes.
    dual_objective_ : ndarray of shape (n_pairs,)
        For ``"exact"``: final value of the dual objective.
    n_steps_ : ndarray of int of shape (n_pairs,)
        For ``"exact"``: steps on the whole problem.

    See Also
    --------
    sklearn.svm.SVC : One SVM of all rows, in quadratic time or worse.
    sklearn.calibration.CalibratedClassifierCV : Adds probabilities.
    SubspaceFusionClassifier : Divides the features as well.

    Notes
    -----
    The dual of the SVM without bias is

    .. math:: \min_{0 \le \alpha \le C} f(\alpha) = \tfrac12 \alpha^\top Q \alpha - e^\top \alpha,
              \qquad Q_{ij} = y_i y_j K(x_i, x_j).

    Dropping :math:`Q_{ij}` across clusters :math:`\pi` gives :math:`\bar\alpha` with
    :math:`0 \le f(\bar\alpha) - f(\alpha^*) \le
    \frac{C^2}{2} \sum_{\pi(i) \ne \pi(j)} |K(x_i, x_j)|`
    (theorem 1 of [1]_). Early prediction is
    :math:`\operatorname{sign} \sum_{i \in \pi(x)} \alpha_i y_i K(x_i, x)`, with a bias for each
    cluster here. The exact step descends greedily, one coordinate at a time.

    With more than two classes there is one SVM per pair, over shared clusters. The score of a
    class is the mean of :math:`\tanh` of its margins against the others; a class that is not in a
    cluster loses all its pairs there. In a cluster with one class, its score is one.

    References
    ----------
    .. [1] C.-J. Hsieh, S. Si and I. S. Dhillon, "A divide-and-conquer solver for kernel support
       vector machines", ICML 2014.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from vicinal.subspace import DivideConquerSVC
    >>> X, y = make_moons(600, noise=0.15, random_state=0)
    >>> model = DivideConquerSVC(C=10.0, gamma=2.0, n_clusters=6, random_state=0)
    >>> model.fit(X[:300], y[:300]).score(X[300:], y[300:])
    0.99...
    >>> model.set_params(prediction="exact").fit(X[:300], y[:300]).score(X[300:], y[300:])
    0.99...
    """

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale"})],
        "n_clusters": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "max_cluster_size": [Interval(Integral, 2, None, closed="left")],
        "prediction": [StrOptions({"early", "exact"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        **RUN_CONSTRAINTS,
    }

    def __init__(
        self,
        C=1.0,
        gamma="scale",
        *,
        n_clusters="auto",
        max_cluster_size=8000,
        prediction="early",
        class_weight=None,
        tol=1e-3,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Cluster the rows and train the SVMs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows; features should have comparable scales.
        """
        data = training_data(self, X, y, sample_weight, task="classification", order="C")
        settings = resolve(self, data)
        self.classes_, self.gamma_ = data.classes, settings.gamma
        self._dtype = data.X.dtype.name
        factors = class_factors(self.class_weight, data.classes, data.y, data.weights)
        bounds = self.C * data.weights * factors[data.y]
        seed = random_seeds(self.random_state, 1)[0]
        self.cluster_centers_, labels = divide(data.X, data.weights, settings, seed)
        self.n_clusters_ = len(self.cluster_centers_)
        self.cluster_sizes_ = np.bincount(labels)
        if self.prediction == "early":
            self.estimators_ = fit_clusters(data, bounds, labels, settings)
        else:
            exact = solve_exact(data, bounds, labels, settings)
            self.support_vectors_, self.dual_coef_, self.dual_objective_, self.n_steps_ = exact
        return self

    def decision_function(self, X):
        """Return the scores of the classes."""
        X = query_rows(self, X, order="C")
        n_classes = len(self.classes_)
        if self.prediction == "exact":
            kernel = self.support_vectors_, self.gamma_, self.dual_coef_
            margins = _divide_conquer.rbf_product(X.astype(np.float64, copy=False), *kernel)
            scores = scores_from_pairs(margins, np.arange(n_classes), n_classes)
        else:
            nearest = pairwise_distances_argmin(X, self.cluster_centers_)
            groups = groups_of(nearest, self.n_clusters_)
            filled = [c for c, rows in enumerate(groups) if len(rows)]
            tasks = [(self.estimators_[c], X[groups[c]], n_classes) for c in filled]
            parts = parallel_map(score_cluster, tasks, n_jobs=self.n_jobs, prefer="threads")
            scores = np.empty((len(X), *parts[0].shape[1:]))
            for c, part in zip(filled, parts, strict=True):
                scores[groups[c]] = part
        return scores.astype(self._dtype, copy=False)

    def predict(self, X):
        """Return the class of the largest score."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[chosen]

    def predict_cluster(self, X):
        """Return the cluster of each row, whose SVM predicts its class.

        Returns
        -------
        clusters : ndarray of int of shape (n_samples,)
            Indices into ``cluster_centers_``.
        """
        return pairwise_distances_argmin(query_rows(self, X, order="C"), self.cluster_centers_)

    _sections = cluster_sections


@dataclass(frozen=True)
class SVMSettings:
    """Settings of a fit, with "auto" and "scale" resolved."""

    model: DivideConquerSVC
    gamma: float
    n_clusters: int

    @property
    def parallel(self) -> dict:
        """Options of ``parallel_map``."""
        return {"n_jobs": self.model.n_jobs, "verbose": self.model.verbose}

    @property
    def svm(self) -> SVC:
        """SVM of a cluster; the weights of its rows include C."""
        shared = {"tol": self.model.tol, "cache_size": _CACHE_MIB, "decision_function_shape": "ovo"}
        return SVC(C=1.0, gamma=self.gamma, **shared)


def resolve(model: DivideConquerSVC, data: TrainingData) -> SVMSettings:
    """Return widths, number and kind of clusters, and the limits of the solvers."""
    n_clusters = model.n_clusters
    if n_clusters == "auto":
        n_clusters = ceil(len(data) / _ROWS_PER_CLUSTER)
    elif n_clusters > len(data):
        raise ValueError(
            f"n_clusters={n_clusters} exceeds the n_samples={len(data)} rows of positive "
            "weight; lower n_clusters or use 'auto'."
        )
    mean = np.average(data.X, axis=0, weights=data.weights)
    square = np.average(data.X.astype(np.float64) ** 2, axis=0, weights=data.weights)
    variance = square.mean() - mean.mean() ** 2
    scale = float(1.0 / (len(mean) * variance)) if variance > 0 else 1.0
    return SVMSettings(model, scale if model.gamma == "scale" else float(model.gamma), n_clusters)


# --- clusters -------------------------------------------------------------------------------------


def divide(X: np.ndarray, weights: np.ndarray, settings: SVMSettings, seed: int) -> tuple:
    """Return the centres of clusters of the rows, none of them empty, and every row's cluster."""
    rng = check_random_state(seed)
    centers = learn_centers(X, weights, settings.n_clusters, rng)
    for _ in range(_SPLIT_ROUNDS):
        centers, labels, sizes = _filled(centers, X)
        divided = {}
        for c in np.flatnonzero(sizes > settings.model.max_cluster_size):
            rows = np.flatnonzero(labels == c)
            n_parts = ceil(2 * sizes[c] / settings.model.max_cluster_size)
            parts = learn_centers(X[rows], weights[rows], n_parts, rng)
            if len(parts) > 1:
                divided[c] = parts
        if not divided:
            break
        centers = np.delete(np.vstack([centers, *divided.values()]), list(divided), axis=0)
    return centers, labels


def _filled(centers: np.ndarray, X: np.ndarray) -> tuple:
    """Return the centres of clusters with rows, the cluster of every row, and the sizes."""
    while True:
        labels = pairwise_distances_argmin(X, centers)
        sizes = np.bincount(labels, minlength=len(centers))
        if sizes.all():
            return centers, labels, sizes
        centers = centers[sizes > 0]


def learn_centers(X, weights, n_clusters: int, rng) -> np.ndarray:
    """Return the centres of at most so many clusters of the rows, by k-means."""
    n_clusters = min(n_clusters, len(np.unique(X, axis=0)) if len(X) < 5000 else len(X))
    if n_clusters == 1:
        return np.average(X, axis=0, weights=weights)[None].astype(X.dtype)
    rows = sampled_rows(len(X), max(_CLUSTERING_ROWS, 100 * n_clusters), rng)
    model = KMeans(n_clusters, n_init=1, max_iter=50, random_state=rng)
    return model.fit(X[rows], sample_weight=weights[rows]).cluster_centers_


# --- SVMs of the clusters -------------------------------------------------------------------------


def groups_of(labels, n_clusters):
    """Rows of every cluster, from one sort."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels, minlength=n_clusters))[:-1])


def fit_clusters(data: TrainingData, bounds, labels, settings: SVMSettings) -> list:
    """Return the fitted SVM of every cluster."""
    groups = groups_of(labels, labels.max() + 1)
    # The largest first, since they take longest.
    order = np.argsort([-len(rows) for rows in groups], kind="stable")
    ordered = [groups[c] for c in order]
    fitted = parallel_map(
        fit_cluster,
        [(settings.svm, data.X[rows], data.y[rows], bounds[rows]) for rows in ordered],
        prefer="threads",
        label="DivideConquerSVC clusters",
        **settings.parallel,
    )
    return [fitted[position] for position in np.argsort(order)]


def fit_cluster(svm, X, codes, bounds):
    """Fit one cluster; return the code of a single class."""
    return int(codes[0]) if (codes == codes[0]).all() else svm.fit(X, codes, bounds)


def score_cluster(svm, X, n_classes):
    """Scores of one cluster's rows, (n,) for two classes, else (n, n_classes)."""
    if isinstance(svm, int):
        return scores_from_pairs(np.empty((len(X), 0)), np.array([svm]), n_classes)
    margins = svm.decision_function(X)
    # libsvm's margins are positive for the first class of a pair, except when there is one pair.
    margins = margins[:, None] if margins.ndim == 1 else -margins
    return scores_from_pairs(margins, svm.classes_, n_classes)


def scores_from_pairs(margins, present, n_classes):
    """Class scores from margins of pairs (a, b), a < b, positive for b.

    A class that is not ``present`` loses every pair.
    """
    if n_classes == 2:
        if len(present) == 2:
            return margins[:, 0]
        return np.full(len(margins), 1.0 if present[0] == 1 else -1.0)
    scores = np.zeros((len(margins), n_classes))
    absent = np.setdiff1d(np.arange(n_classes), present)
    scores[:, present] += len(absent)
    scores[:, absent] -= len(present)
    for (a, b), margin in zip(combinations(present, 2), np.tanh(margins).T, strict=True):
        scores[:, a] -= margin
        scores[:, b] += margin
    return scores / (n_classes - 1)


# --- exact solution -------------------------------------------------------------------------------


def solve_exact(data: TrainingData, bounds, labels, settings: SVMSettings) -> tuple:
    """Solve the clusters, then the whole problem.

    Returns support vectors, their dual coefficients, objectives and numbers of steps; the last
    three have one column or entry per pair of classes.
    """
    X = np.ascontiguousarray(data.X, dtype=np.float64)
    pairs = list(combinations(range(len(data.classes)), 2))
    columns = np.zeros((len(X), len(pairs)))
    objectives, n_steps = np.empty(len(pairs)), np.empty(len(pairs), np.intp)
    for number, (first, second) in enumerate(pairs):
        rows = np.flatnonzero((data.y == first) | (data.y == second))
        problem = X[rows], np.where(data.y[rows] == second, 1.0, -1.0), bounds[rows]
        start = _solve_clusters(*problem, labels[rows], settings)
        alpha, objectives[number], n_steps[number], worst = _solve_dual(*problem, start, settings)
        columns[rows, number] = alpha * problem[1]
        if worst > settings.model.tol:
            warnings.warn(
                f"The exact solver stopped after {_MAX_STEPS} steps with a violation of "
                f"{worst:.3g}, above tol={settings.model.tol}; raise tol or lower C.",
                ConvergenceWarning,
                stacklevel=4,
            )
    support = (columns != 0).any(axis=1)
    return X[support], columns[support], objectives, n_steps


def _solve_clusters(X, signs, bounds, labels, settings: SVMSettings) -> np.ndarray:
    """Return the dual coefficients of the problems of all clusters, each without other rows."""
    groups = [g for g in groups_of(labels, labels.max() + 1) if len(g)]
    solved = parallel_map(
        _solve_dual,
        [(X[g], signs[g], bounds[g], np.zeros(len(g)), settings) for g in groups],
        prefer="threads",
        label="DivideConquerSVC clusters",
        **settings.parallel,
    )
    alpha = np.zeros(len(X))
    for group, (own, *_) in zip(groups, solved, strict=True):
        alpha[group] = own
    return alpha


def _solve_dual(X, signs, bounds, alpha, settings: SVMSettings) -> tuple:
    """Descend from ``alpha``; return the solution, its value, the steps and the violation."""
    alpha, gamma = alpha.copy(), settings.gamma
    gradient = _divide_conquer.dual_gradient(X, signs, alpha, gamma)
    limits = settings.model.tol, _MAX_STEPS, _divide_conquer.cache_rows_for(len(X), _CACHE_MIB)
    steps, worst = _divide_conquer.descend_dual(X, signs, bounds, gamma, alpha, gradient, *limits)
    return alpha, _divide_conquer.dual_objective(alpha, gradient), steps, worst
