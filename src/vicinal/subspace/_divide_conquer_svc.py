"""Support vector machine by clusters of the rows: one small problem each, joined if wanted."""

import warnings
from functools import partial
from itertools import combinations
from math import ceil
from numbers import Integral, Real

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.svm import SVC
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import (
    atomic_fit,
    atomic_fit_blocks,
    class_factors,
    documented,
    draw_seeds,
    encode_labels,
    parallel_map,
    positive_rows,
    saved,
)
from vicinal._base._compat import Interval, StrOptions
from vicinal._base._explanation import ExplainRowMixin
from vicinal._kernels.calibration._probabilities import fit_slope
from vicinal._kernels.subspace import _svm_dual
from vicinal.subspace._clusters import CenterClusters, KernelClusters
from vicinal.subspace._divide_conquer_blocks import fit_divide_conquer
from vicinal.subspace._explain import cluster_sections
from vicinal.subspace._machines import (
    ClusteredRows,
    fit_machine,
    groups_of,
    scale_gamma,
    score_machine,
    score_out_of_fold,
    scores_from_pairs,
)

_ROWS_PER_CLUSTER = 2000
_SPLIT_ROUNDS = 20


@saved(
    classes_="c labels",
    cluster_centers_="k p",
    cluster_sizes_="k",
    support_vectors_="s p",
    dual_coef_="s *",
    **{"_clusters.centers": "k p", "_clusters.landmarks": "l p"},
)
@documented
class DivideConquerSVC(ExplainRowMixin, ClassifierMixin, BaseEstimator):
    r"""RBF support vector machine trained cluster by cluster (DC-SVM).

    The rows are divided into clusters and one small machine is trained on each. With
    ``prediction="early"`` a query is answered by the machine of its nearest cluster: the time
    grows linearly with the number of rows, and the model is local. With ``prediction="exact"``
    the solutions of the clusters, side by side, start a descent on the whole problem, which then
    needs a small share of the steps of a cold start [1]_.

    Read more in the :doc:`user guide </guide/subspace>`.

    Parameters
    ----------
    C : float, default=1.0
        Price of violated margins.
    gamma : float or "scale", default="scale"
        Width of the kernel ``exp(-gamma |x - z|^2)``; ``"scale"`` is one over the number of
        features times the variance of ``X``.
    n_clusters : int or "auto", default="auto"
        Number of clusters; ``"auto"`` takes one per 2000 rows.
    clustering : {"kmeans", "kernel"}, default="kmeans"
        Clusters in the input space, or in the feature space of an RBF kernel (from
        ``n_landmarks`` sampled rows).
    cluster_gamma : float, default=None
        Width for ``clustering="kernel"``; ``None`` takes the value of ``gamma="scale"``. The
        machine's own ``gamma`` is often too large for it: distances between far rows are then all
        alike and one cluster swallows most of them.
    n_landmarks : int, default=2000
        Rows sampled for ``clustering="kernel"``.
    max_cluster_size : int, default=8000
        Larger clusters are divided again, unless their rows coincide.
    prediction : {"early", "exact"}, default="early"
        See above. The exact machine has no bias term.
    n_levels : int, default=2
        For ``"exact"``, the number of rounds of clusters before the whole problem: round ``l``
        has about ``n_clusters ** (l / n_levels)`` clusters, the finest first, each started from
        the one before, with centres found from its support vectors.
    class_weight : dict, "balanced" or None, default=None
        Factors on ``C`` per class.
    probability : bool, default=False
        Whether to offer ``predict_proba``, from a slope fitted on out-of-fold scores of the
        machines of the clusters (three folds inside each: fitting takes about twice as long).
    tol : float, default=1e-3
        The solvers stop when no gradient is violated by more.
    max_steps : int, default=10_000_000
        Bound on the coordinate steps of one exact problem.
    cache_size : float, default=200
        MiB for kernel rows, per problem.
    n_jobs : int, default=None
        Clusters at once, through joblib; ``None`` is one, unless ``joblib.parallel_config`` says
        otherwise. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Draws the starts of the clustering and the folds.
    verbose : int, default=0
        Shows progress over the clusters.

    Attributes
    ----------
    n_clusters_ : int
        Number of clusters.
    cluster_sizes_ : ndarray of shape (`n_clusters_`,)
        Training rows in each.
    cluster_centers_ : ndarray of shape (`n_clusters_`, `n_features_in_`)
        Means of the clusters (of their landmarks, for kernel clusters).
    estimators_ : list
        For ``"early"``: the fitted ``SVC`` of each cluster, or the code of its only class.
    gamma_ : float
        The width used.
    support_vectors_ : ndarray of shape (n_support, `n_features_in_`)
        For ``"exact"``: rows with a positive dual coefficient.
    dual_coef_ : ndarray of shape (n_support, n_pairs)
        For ``"exact"``: signed dual coefficients, one column per pair of classes.
    dual_objective_ : ndarray of shape (n_pairs,)
        For ``"exact"``: the value reached.
    n_steps_ : ndarray of int of shape (n_pairs,)
        For ``"exact"``: steps of the last level, which begins at the answers of the clusters.
    slope_ : float
        With ``probability=True``: slope from scores to log-probabilities.

    See Also
    --------
    sklearn.svm.SVC : One machine on all rows, quadratic time or worse.
    SubspaceFusionClassifier : Divides the features as well.

    Notes
    -----
    The dual of the machine without bias is

    .. math:: \min_{0 \le \alpha \le C} f(\alpha) = \tfrac12 \alpha^\top Q \alpha - e^\top \alpha,
              \qquad Q_{ij} = y_i y_j K(x_i, x_j).

    Dropping :math:`Q_{ij}` across clusters :math:`\pi` gives :math:`\bar\alpha` with
    :math:`0 \le f(\bar\alpha) - f(\alpha^*) \le
    \frac{C^2}{2} \sum_{\pi(i) \ne \pi(j)} |K(x_i, x_j)|`
    (theorem 1 of [1]_). Early prediction is
    :math:`\operatorname{sign} \sum_{i \in \pi(x)} \alpha_i y_i K(x_i, x)`, with a bias for each
    cluster here. The exact step descends greedily, one coordinate at a time.

    With more than two classes there is one machine per pair, over shared clusters; the score of a
    class is the mean of :math:`\tanh` of its margins against the others, and a class that a
    cluster lacks loses all its pairs there. A cluster with one class answers with a score of
    one.

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
        "clustering": [StrOptions({"kmeans", "kernel"})],
        "cluster_gamma": [Interval(Real, 0, None, closed="neither"), None],
        "n_landmarks": [Interval(Integral, 2, None, closed="left")],
        "max_cluster_size": [Interval(Integral, 2, None, closed="left")],
        "prediction": [StrOptions({"early", "exact"})],
        "n_levels": [Interval(Integral, 1, None, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "probability": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_steps": [Interval(Integral, 1, None, closed="left")],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        C=1.0,
        gamma="scale",
        *,
        n_clusters="auto",
        clustering="kmeans",
        cluster_gamma=None,
        n_landmarks=2000,
        max_cluster_size=8000,
        prediction="early",
        n_levels=2,
        class_weight=None,
        probability=False,
        tol=1e-3,
        max_steps=10_000_000,
        cache_size=200.0,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.C = C
        self.gamma = gamma
        self.n_clusters = n_clusters
        self.clustering = clustering
        self.cluster_gamma = cluster_gamma
        self.n_landmarks = n_landmarks
        self.max_cluster_size = max_cluster_size
        self.prediction = prediction
        self.n_levels = n_levels
        self.class_weight = class_weight
        self.probability = probability
        self.tol = tol
        self.max_steps = max_steps
        self.cache_size = cache_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Divide the rows, train a machine on each cluster, and join them if asked to.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows; features should have comparable scales.
        """
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], order="C")
        weights, X, y = positive_rows(sample_weight, X, y)
        classes, codes = encode_labels(y)
        scale = _scale_gamma(X, weights)
        self._set_scales(classes, scale, X.dtype)
        factors = class_factors(self.class_weight, classes, codes, weights)
        bounds = self.C * weights * factors[codes]
        seeds = draw_seeds(self.random_state, 3)
        rows = ClusteredRows(X, weights)
        self._divide(rows, self._wanted_clusters(len(X)), scale, seeds[0])
        labels = rows.labels
        if self.prediction == "early":
            self._fit_early(X, codes, bounds, labels)
        else:
            self._fit_exact(X, codes, bounds, labels, weights, seeds[1])
        if self.probability:
            scores = self._out_of_fold_scores(X, codes, bounds, labels, seeds[2])
            self.slope_ = fit_slope(scores, codes, weights)
        return self

    @atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit to a table in blocks of rows: each row is sent once, to the machine of its cluster.

        The fit equals that in memory; the clusters are learned from a sample.
        """
        fit_divide_conquer(self, blocks)

    def decision_function(self, X):
        """Return the scores of the classes."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32], order="C")
        if self.prediction == "exact":
            margins = _svm_dual.rbf_product(
                X.astype(np.float64, copy=False),
                self.support_vectors_,
                self.gamma_,
                self.dual_coef_,
            )
            scores = scores_from_pairs(margins, np.arange(len(self.classes_)), len(self.classes_))
        else:
            scores = self._early_scores(X)
        return scores.astype(self._dtype, copy=False)

    @available_if(lambda self: self.probability)
    def predict_proba(self, X):
        """Return the probabilities of the classes; with ``probability=True`` only."""
        scores = self.decision_function(X)
        slope = scores.dtype.type(self.slope_)
        if scores.ndim == 1:
            p = expit(slope * scores)
            return np.column_stack([1 - p, p])
        return softmax(slope * scores, axis=1)

    def predict(self, X):
        """Return the class of the largest score."""
        if self.probability:
            # Where rounding makes two probabilities equal, the label should follow them.
            chosen = self.predict_proba(X).argmax(axis=1)
            return self.classes_[chosen]
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[chosen]

    def predict_cluster(self, X):
        """Return the cluster whose machine answers for each row.

        Returns
        -------
        clusters : ndarray of int of shape (n_samples,)
            Indices into ``cluster_centers_``.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32], order="C")
        return self._clusters.assign(X)

    # --- division ---------------------------------------------------------------------------------

    def _sections(self, X, columns):
        return cluster_sections(self, X, columns)

    def _set_scales(self, classes, scale, dtype):
        """Keep the classes, the precision of answers, and the width; ``scale`` is the default."""
        self.classes_, self._dtype = classes, np.dtype(dtype).name
        self.gamma_ = scale if self.gamma == "scale" else float(self.gamma)

    def _wanted_clusters(self, n_samples):
        if self.n_clusters == "auto":
            return ceil(n_samples / _ROWS_PER_CLUSTER)
        if self.n_clusters > n_samples:
            raise ValueError(
                f"n_clusters={self.n_clusters} exceeds the n_samples={n_samples} rows of positive "
                "weight; lower n_clusters or use 'auto'."
            )
        return self.n_clusters

    def _divide(self, rows, n_clusters, scale, seed):
        """Learn the clusters, none of them empty; ``rows`` know how many fall into each."""
        rng = check_random_state(seed)
        learn = CenterClusters.learn
        if self.clustering == "kernel":
            gamma = self.cluster_gamma or scale
            learn = partial(KernelClusters.learn, gamma=gamma, n_landmarks=self.n_landmarks)
        clusters = learn(rows.X, rows.weights, n_clusters, rng)
        for _ in range(_SPLIT_ROUNDS):
            clusters = self._keep_filled(rows, clusters)
            divided = {}
            for c in np.flatnonzero(self.cluster_sizes_ > self.max_cluster_size):
                n_parts = ceil(2 * self.cluster_sizes_[c] / self.max_cluster_size)
                parts = learn(*rows.members(c), n_parts, rng)
                if len(parts) > 1:
                    divided[c] = parts
            if not divided:
                break
            clusters = clusters.joined(divided.values()).without(list(divided))

    def _keep_filled(self, rows, clusters):
        """Keep the clusters that hold rows, and how many."""
        sizes = rows.count(clusters)
        while not sizes.all():
            clusters = clusters.without(np.flatnonzero(sizes == 0))
            sizes = rows.count(clusters)
        self._clusters, self.cluster_sizes_ = clusters, sizes
        self.cluster_centers_, self.n_clusters_ = clusters.centers, len(clusters)
        return clusters

    # --- early prediction -------------------------------------------------------------------------

    def _machine(self):
        return SVC(C=1.0, gamma=self.gamma_, tol=self.tol, cache_size=self.cache_size)

    def _fit_early(self, X, codes, bounds, labels):
        groups = groups_of(labels, self.n_clusters_)
        # The largest first: they take longest, and none should start when the others are done.
        order = np.argsort([-len(rows) for rows in groups], kind="stable")
        fitted = parallel_map(
            fit_machine,
            [
                (self._machine(), X[rows], codes[rows], bounds[rows])
                for rows in (groups[c] for c in order)
            ],
            n_jobs=self.n_jobs,
            prefer="threads",
            label="DivideConquerSVC clusters",
            verbose=self.verbose,
        )
        self.estimators_ = [fitted[place] for place in np.argsort(order)]

    def _early_scores(self, X):
        n_classes = len(self.classes_)
        groups = groups_of(self._clusters.assign(X), self.n_clusters_)
        filled = [c for c in range(self.n_clusters_) if len(groups[c])]
        parts = parallel_map(
            score_machine,
            [(self.estimators_[c], X[groups[c]], n_classes) for c in filled],
            n_jobs=self.n_jobs,
            prefer="threads",
        )
        scores = np.empty((len(X), n_classes) if n_classes > 2 else len(X))
        for c, part in zip(filled, parts, strict=True):
            scores[groups[c]] = part
        return scores

    def _out_of_fold_scores(self, X, codes, bounds, labels, seed):
        """Score every row by a machine of its cluster that did not see it, (n, n_classes)."""
        n_classes = len(self.classes_)
        seeds = draw_seeds(seed, self.n_clusters_)
        groups = groups_of(labels, self.n_clusters_)
        parts = parallel_map(
            score_out_of_fold,
            [
                (self._machine(), X[rows], codes[rows], bounds[rows], n_classes, s)
                for rows, s in zip(groups, seeds, strict=True)
            ],
            n_jobs=self.n_jobs,
            prefer="threads",
            label="DivideConquerSVC calibration",
            verbose=self.verbose,
        )
        scores = np.empty((len(X), n_classes) if n_classes > 2 else len(X))
        for rows, part in zip(groups, parts, strict=True):
            scores[rows] = part
        return scores if n_classes > 2 else 0.5 * np.column_stack([-scores, scores])

    # --- exact solution ---------------------------------------------------------------------------

    def _fit_exact(self, X, codes, bounds, labels, weights, seed):
        X = np.ascontiguousarray(X, dtype=np.float64)
        n_classes = len(self.classes_)
        pairs = list(combinations(range(n_classes), 2))
        levels = self._coarser_levels(X, codes, bounds, labels, weights, seed, pairs)
        columns = np.zeros((len(X), len(pairs)))
        self.dual_objective_, self.n_steps_ = np.empty(len(pairs)), np.empty(len(pairs), np.intp)
        for number, (rows, signs, alpha) in enumerate(levels):
            settings = self.gamma_, self.tol, self.max_steps, self.cache_size
            alpha, objective, steps, worst = _solve_exactly(
                X[rows], signs, bounds[rows], alpha, *settings
            )
            self._warn_unless(worst)
            self.n_steps_[number], self.dual_objective_[number] = steps, objective
            columns[rows, number] = alpha * signs
        support = (columns != 0).any(axis=1)
        self.support_vectors_, self.dual_coef_ = X[support], columns[support]

    def _coarser_levels(self, X, codes, bounds, labels, weights, seed, pairs):
        """Solve the clusters of every level; returns (rows, signs, alpha) per pair of classes."""
        rng = check_random_state(seed)
        states = []
        for first, second in pairs:
            rows = np.flatnonzero((codes == first) | (codes == second))
            states.append((rows, np.where(codes[rows] == second, 1.0, -1.0), np.zeros(len(rows))))
        for level in range(self.n_levels, 0, -1):
            if level < self.n_levels:
                labels = self._regroup(X, weights, states, level, rng)
            states = [self._solve_clusters(X, bounds, labels, *state) for state in states]
        return states

    def _regroup(self, X, weights, states, level, rng):
        """Fewer clusters, centred on the support vectors found so far."""
        n_clusters = max(1, round(self.n_clusters_ ** (level / self.n_levels)))
        support = np.unique(np.concatenate([rows[alpha > 0] for rows, _, alpha in states]))
        n_clusters = min(n_clusters, len(support))
        model = KMeans(n_clusters, n_init=1, random_state=rng)
        model.fit(X[support], sample_weight=weights[support])
        return pairwise_distances_argmin(X, model.cluster_centers_)

    def _solve_clusters(self, X, bounds, labels, rows, signs, alpha):
        tasks = [g for g in groups_of(labels[rows], int(labels.max()) + 1) if len(g)]
        settings = self.gamma_, self.tol, self.max_steps, self.cache_size
        solved = parallel_map(
            _solve_exactly,
            [
                (X[rows[members]], signs[members], bounds[rows[members]], alpha[members], *settings)
                for members in tasks
            ],
            n_jobs=self.n_jobs,
            prefer="threads",
            label="DivideConquerSVC clusters",
            verbose=self.verbose,
        )
        alpha = alpha.copy()
        for members, (own, _, _, _) in zip(tasks, solved, strict=True):
            alpha[members] = own
        return rows, signs, alpha

    def _warn_unless(self, worst):
        if worst > self.tol:
            warnings.warn(
                f"the exact solver stopped after max_steps={self.max_steps} steps with a violation "
                f"of {worst:.3g}, above tol={self.tol}; raise max_steps or tol, or lower C.",
                ConvergenceWarning,
                stacklevel=4,
            )


def _scale_gamma(X, weights):
    """One over the number of features times the (weighted) variance of all entries."""
    mean = np.average(X, axis=0, weights=weights)
    square = np.average(X.astype(np.float64) ** 2, axis=0, weights=weights)
    return scale_gamma(mean, square)


def _solve_exactly(X, signs, bounds, alpha, gamma, tol, max_steps, cache_size):
    """Descend from ``alpha``; returns the solution, its value, the steps and what is violated."""
    alpha = alpha.copy()
    gradient = _svm_dual.dual_gradient(X, signs, alpha, gamma)
    cache_rows = _svm_dual.cache_rows_for(len(X), cache_size)
    steps, worst = _svm_dual.descend_dual(
        X, signs, bounds, gamma, alpha, gradient, tol, max_steps, cache_rows
    )
    return alpha, _svm_dual.dual_objective(alpha, gradient), steps, worst
