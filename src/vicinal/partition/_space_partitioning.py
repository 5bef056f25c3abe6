"""Space partitioning: regions with one model each, learned jointly."""

import math
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from vicinal._base import (
    as_numpy,
    atomic_fit,
    atomic_fit_blocks,
    documented,
    import_optional,
    namespace,
    predicted_labels,
    query_rows,
    saved,
    scaled_rows,
    store_parameters,
    training_data,
)
from vicinal._base._compat import RUN_CONSTRAINTS, HasMethods, Interval, StrOptions, validate_params
from vicinal._base._explanation import ExplainRowMixin, show
from vicinal._conformal import FoldedRowsMixin, IntervalMixin, LabelSetMixin
from vicinal.partition._blocks import fit_blocks
from vicinal.partition._explain import cascade_sections
from vicinal.partition._fit import (
    CLASSIFIERS,
    REGRESSORS,
    fit_cascades,
    learners,
    resolve,
    weigh_classes,
)
from vicinal.partition.stages import Cascade, mean_prediction, mean_proba, predict_labels


@documented
class _SpacePartitioning(FoldedRowsMixin, ExplainRowMixin, BaseEstimator):
    """Common part of classifier and regressor.

    Parameters
    ----------
    n_regions : int or "auto", default="auto"
        Largest number of regions; those without training samples are deleted. ``"auto"`` selects 1,
        2, 5 or 15 on held-out training rows, then fits to all rows; it is 1 if there are too few
        samples to hold any out.
    n_init : int, default=10
        Number of random starts; one for a single region.
    n_jobs : int, default=None
        Number of starts run in parallel, through joblib; ``None`` means 1 unless in a
        ``joblib.parallel_config`` context. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of starts and learners.
    verbose : int, default=0
        Whether to show progress over the starts.

    Attributes
    ----------
    reject_estimators_ : list of length `n_regions_` - 1
        Gates of the best start; they predict 1 for samples that are passed on.
    n_regions_ : int
        Number of regions of the best start.
    converged_ : bool
        Whether the best start stopped before ``max_iter``.
    scaler_ : StandardScaler or None
        The scaling of the features.

    References
    ----------
    .. [1] J. Wang and V. Saligrama, "Local Supervised Learning through Space Partitioning",
       Advances in Neural Information Processing Systems 25, 2012.
    """

    _reference: Any = None  # an empty array of the library of the training rows, None for NumPy

    _parameter_constraints: dict = {
        "n_regions": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"kmeans", "random"})],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "keep": [StrOptions({"best", "last"})],
        "combine": [StrOptions({"best", "average"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "scale": ["boolean"],
        **RUN_CONSTRAINTS,
    }

    @atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit to a table in blocks of rows: all starts together, one pass for every stage.

        Stages equal those of a fit in memory; ``n_regions="auto"`` is selected on a sample.
        Perceptrons cannot be fitted to blocks.
        """
        found, self.scaler_ = fit_blocks(self, blocks)
        self._store(*found)

    def _store(self, cascades: list[Cascade], n_regions_errors: dict | None) -> None:
        best = cascades[0]
        if n_regions_errors is not None:
            self.n_regions_errors_ = n_regions_errors
        self.restarts_ = cascades if self.combine == "average" else [best]
        self.start_errors_ = np.array([cascade.train_error for cascade in cascades])
        self.region_estimators_ = best.regions
        self.reject_estimators_ = best.gates
        self.n_regions_ = best.n_regions
        self.n_iter_ = best.n_iter
        self.converged_ = best.converged
        self.train_error_ = best.train_error
        self.training_history_ = best.history

    def _prepared(self, X: Any) -> Any:
        """Validate and scale samples given after fit."""
        X = query_rows(self, X, accept_sparse="csr")  # raises where it is not fitted
        return scaled_rows(self.scaler_, X)

    def apply(self, X):
        """Return the region of each sample.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries.

        Returns
        -------
        region : ndarray of int of shape (n_samples,) or (n_samples, n_init)
            Number of the region, from 0; with ``combine="average"`` one column per start, in the
            order of ``restarts_``.
        """
        X = self._prepared(X)
        regions = [cascade.apply(X) for cascade in self.restarts_]
        if self.combine == "best":
            return regions[0]
        return namespace(regions[0]).stack(regions, axis=1)

    def decision_path(self, X):
        """Return the scores of the gates of the best cascade.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries.

        Returns
        -------
        scores : ndarray of shape (n_samples, `n_regions_` - 1)
            Score of every gate; a sample is passed on to the next stage if the score is above 0.
            Scores of gates after the sample's region have no effect.
        """
        X = self._prepared(X)
        return self.restarts_[0].gate_scores(X)

    def _report(self, region, averaged: dict, **columns):
        """Return a frame of the regions: sizes, means of arrays over their samples, and columns."""
        pandas = import_optional("pandas", needed_by="region_report", extra="frame")
        sizes = np.bincount(region, minlength=self.n_regions_)
        means = {
            name: np.bincount(region, weights=values, minlength=self.n_regions_)
            / np.where(sizes > 0, sizes, np.nan)
            for name, values in averaged.items()
        }
        found = {"n_samples": sizes, "share": sizes / max(1, sizes.sum()), **means, **columns}
        return pandas.DataFrame(found, index=pandas.RangeIndex(self.n_regions_, name="region"))

    def _sections(self, X, columns):
        X, n_cascades = self._prepared(X), len(self.restarts_)
        path, *coefficients = cascade_sections(self.restarts_[0], X, self.scaler_, columns)
        if n_cascades > 1:
            text, values = self._agreement(X)
            values = {**path.values, "n_cascades": n_cascades, **values}
            summary = f"{path.summary} This is the best of {n_cascades} cascades, {text}"
            path = replace(path, summary=summary, values=values)
        return [path, *coefficients]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = all(get_tags(part).input_tags.sparse for part in learners(self))
        return tags


@saved(**{"scaler_.mean_": "p", "scaler_.scale_": "p"})
@documented
class SpacePartitioningClassifier(ClassifierMixin, LabelSetMixin, _SpacePartitioning):
    r"""Classifier that learns regions and one simple classifier per region jointly.

    A chain of gates divides the feature space into regions: gate ``k`` keeps a sample in region
    ``k`` or passes it on. Each region has its own classifier. Gates and region classifiers are
    fitted in turn, each to its part of the training error, so that the regions are chosen for
    classification rather than by the density of the data. Gates and regions can be any
    scikit-learn classifiers; with linear ones the result is a piecewise linear classifier that can
    be interpreted region by region.

    Read more in the :doc:`user guide </guide/partition>`.

    Parameters
    ----------
    region_estimator : {"logistic", "lda", "perceptron"} or classifier, default="logistic"
        Classifier of the regions. The strings stand for
        :class:`~sklearn.linear_model.LogisticRegression` with ``C=10, tol=1e-3``,
        :class:`~vicinal.linear.WeightedLDA` with ``shrinkage=1e-4`` and
        :class:`~vicinal.linear.AveragedPerceptron`; give an instance for other settings. These
        classes have fast paths; any other classifier is cloned for each stage, sweep and start.
        Not used with ``gating="soft"``.
    reject_estimator : {"logistic", "lda", "perceptron"} or classifier, default=None
        Classifier of the gates; ``None`` takes the region estimator.
    max_iter : int, default=None
        Number of sweeps of a start (iterations of L-BFGS for soft gates); ``None`` means 8
        sweeps or 200 iterations. The sweeps need not converge, see Notes.
    init : {"kmeans", "random"}, default="kmeans"
        First assignment of samples to regions: a few steps of k-means, or uniformly at random. Soft
        gates always start from random hyperplanes.
    gating : {"hard", "soft"}, default="hard"
        ``"hard"`` fits regions and gates in turn, and one region predicts each sample; ``"soft"``
        maximises the likelihood of a mixture of regions whose weights are given by the gates.
    alpha : float, default=1.0
        Ridge penalty of soft gating, on the scale of a sum over samples.
    keep : {"last", "best"}, default="last"
        Which sweep of a start to use: the last one, or the one of least training error.
    combine : {"average", "best"}, default="average"
        ``"average"`` averages the probabilities of all starts; ``"best"`` uses the start of least
        error, a single cascade that is easier to interpret.
    validation_fraction : float, default=0.2
        Share of each class that is held out for ``n_regions="auto"``.
    scale : bool, default=True
        Whether features are standardised first; sparse ones are divided by their standard
        deviation without centring.
    class_weight : dict or "balanced", default=None
        Factors on the weights of each class.

    Attributes
    ----------
    region_estimators_ : list of length `n_regions_`
        Classifiers of the regions of the best start. Fast linear ones have ``coef_`` of shape
        (n_classes, n_features) on scaled features, and ``intercept_``, minus infinity for classes
        without training rows in the region.
    restarts_ : list of Cascade
        The cascades used for prediction, best first: all with ``combine="average"``, else one.
        Each has ``regions``, ``gates``, ``history`` and ``train_error``.
    start_errors_ : ndarray of shape (n_init,)
        Training error of each start, ascending.
    n_regions_errors_ : dict
        Brier score of each candidate on the rows held out for ``n_regions="auto"``; the error for
        perceptrons and for estimators without probabilities. Candidates stop after two that are
        worse than a smaller one.
    n_iter_ : int
        Number of sweeps (or iterations) of the best start.
    train_error_ : float
        Weighted training error of the best start.
    training_history_ : dict of ndarray
        Per sweep of the best start: ``error``, ``region_sizes`` (n_sweeps, n_regions) and
        ``disagreement`` (n_sweeps, n_regions - 1), the share of samples whose loss depends on each
        gate; ``objective`` per iteration for soft gates.

    See Also
    --------
    SpacePartitioningRegressor : The same for regression.
    SurrogatePartitionClassifier : Two regions by a global objective that never rises.
    vc_bound : Bound of the VC dimension of a linear cascade.

    Notes
    -----
    With gates :math:`g_k \in \{0, 1\}` (1 passes on), region classifiers :math:`f_k` and
    :math:`C_k(x) = 1\{g_1(x) = \dots = g_{k-1}(x) = 1\}`, the training error of the cascade is the
    mean of :math:`L_1`, where

    .. math:: L_k(x, y) = 1\{g_k(x) = 0\}\,1\{f_k(x) \ne y\} + 1\{g_k(x) = 1\}\,L_{k+1}(x, y),
              \quad L_r(x, y) = 1\{f_r(x) \ne y\},

    equations (4) and (5) of [1]_ (which prints :math:`f_{k+1}` in the last case). For fixed other
    stages, :math:`f_k` is a classification problem on the samples of its region (6), and the best
    gate minimises a weighted error (7)

    .. math:: \sum_i w_i 1\{g(x_i) \ne l_i\},\quad l_i = 1\{f_k(x_i) \ne y_i\},\quad
              w_i = C_k(x_i)\,1\{l_i \ne L_{k+1}(x_i, y_i)\}.

    A sweep fits all region classifiers, then the gates from the last to the first. An empty region
    keeps its classifier, a region of one class is constant, and a gate without rows does not
    change. The learners do not minimise the 0/1 error itself, so the training error may rise and
    sweeps rarely converge; there is no convergence warning.

    Torch tensors and other array-API arrays stay on their device, with ``region_estimator="lda"``
    only; the models are stored on the host.

    The paper's protocol is ``SpacePartitioningClassifier(learner, n_regions=5, init="random",
    n_init=15, keep="best", combine="best", max_iter=50)``. The defaults here were chosen on
    held-out training data, see the page of results.

    Soft gating minimises, with :math:`\pi_k = \prod_{j<k} \sigma(h_j)\,(1 - \sigma(h_k))` and
    :math:`p_k` the softmax of region ``k``,

    .. math:: -\sum_i w_i \ln \sum_k \pi_k(x_i)\,p_k(y_i | x_i) + \tfrac{\alpha}{2}\|W\|^2

    jointly over all weights by L-BFGS (offsets free).

    Examples
    --------
    No linear classifier separates these classes, but one gate and two linear classifiers do:

    >>> import numpy as np
    >>> from vicinal.partition import SpacePartitioningClassifier
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-1, 1, size=(400, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same sign", "opposite sign")
    >>> model = SpacePartitioningClassifier(n_regions=2, combine="best", random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> model.apply([[0.5, 0.5], [-0.5, 0.5]]).shape
    (2,)
    """

    _parameter_constraints = {
        **_SpacePartitioning._parameter_constraints,
        "region_estimator": [StrOptions(set(CLASSIFIERS)), HasMethods(["fit", "predict"])],
        "reject_estimator": [StrOptions(set(CLASSIFIERS)), HasMethods(["fit", "predict"]), None],
        "gating": [StrOptions({"hard", "soft"})],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        region_estimator="logistic",
        reject_estimator=None,
        *,
        n_regions="auto",
        n_init=10,
        max_iter=None,
        init="kmeans",
        gating="hard",
        alpha=1.0,
        keep="last",
        combine="average",
        validation_fraction=0.2,
        scale=True,
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Learn the regions and their classifiers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Labels of at least two classes.
        """
        data = training_data(
            self, X, y, sample_weight, task="classification", arrays=True, accept_sparse="csr"
        )
        self.classes_ = data.classes
        settings = resolve(self, data)
        weighed = weigh_classes(data, self.class_weight)
        scaled, self.scaler_ = weighed.standardized() if self.scale else (weighed, None)
        self._store(*fit_cascades(scaled, settings))
        if self._reference is None:
            self._keep_rows(data.X, data.labels, data.sample_weight)
        return self

    def predict(self, X):
        """Predict the class of each sample."""
        X = self._prepared(X)
        if self._reference is not None:
            return predicted_labels(self, mean_proba(self.restarts_, X, self.classes_))
        return predict_labels(self.restarts_, X, self.classes_, self._has_proba())

    @available_if(lambda self: self._has_proba())
    def predict_proba(self, X):
        """Predict the probability of each class.

        Probabilities are those of the sample's region with hard gates, and a mixture over regions
        with soft gates, averaged over the starts with ``combine="average"``. Probabilities of
        perceptron regions are the softmax of scaled scores and are not calibrated.
        """
        X = self._prepared(X)
        return mean_proba(self.restarts_, X, self.classes_)

    def region_histogram(self, X, y):
        """Count the classes in each region of the best cascade.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Their labels.

        Returns
        -------
        counts : ndarray of int of shape (`n_regions_`, n_classes)
            Number of samples of each class in each region.
        """
        X = self._prepared(X)
        return self._count_classes(as_numpy(self.restarts_[0].apply(X)), as_numpy(y))

    def region_report(self, X, y):
        """Describe each region of the best cascade on labelled data.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Their labels.

        Returns
        -------
        report : pandas.DataFrame
            One row per region: ``n_samples``, ``share`` of all samples, ``error`` of the region's
            classifier, ``majority_class``, ``classes_present`` (share of the classes that occur),
            and ``n_<label>`` for each class.
        """
        X, y = self._prepared(X), as_numpy(y)
        best = self.restarts_[0]
        region = as_numpy(best.apply(X))
        counts = self._count_classes(region, y)
        wrong = best.predict(X, self.classes_.dtype) != y
        return self._report(
            region,
            {"error": wrong},
            majority_class=self.classes_[counts.argmax(axis=1)],
            classes_present=(counts > 0).mean(axis=1),
            **{f"n_{label}": counts[:, j] for j, label in enumerate(self.classes_)},
        )

    def _count_classes(self, region, y) -> np.ndarray:
        codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        unknown = self.classes_[codes] != y
        if unknown.any():
            label = str(y[unknown][0])
            raise ValueError(
                f"y holds the label {label!r}, which is not one of the classes "
                f"{self.classes_.tolist()!r} of fit; remove its rows."
            )
        counts = np.zeros((self.n_regions_, len(self.classes_)), dtype=np.int64)
        np.add.at(counts, (region, codes), 1)
        return counts

    def _has_proba(self) -> bool:
        return self.gating == "soft" or hasattr(learners(self)[0], "predict_proba")

    def _agreement(self, X):
        options = X, self.classes_, self._has_proba()
        predicted = predict_labels(self.restarts_, *options)[0]
        votes = [predict_labels([cascade], *options)[0] for cascade in self.restarts_]
        n_agreeing = sum(bool(vote == predicted) for vote in votes)
        text = f"whose average is predicted; {n_agreeing} of them predict {show(predicted)}."
        return text, {"n_agreeing": n_agreeing}


@saved(**{"scaler_.mean_": "p", "scaler_.scale_": "p"})
@documented
class SpacePartitioningRegressor(RegressorMixin, IntervalMixin, _SpacePartitioning):
    r"""Regressor that learns regions and one simple regressor per region jointly.

    It is the counterpart of :class:`SpacePartitioningClassifier`: the loss of a region is the
    squared error, and a gate learns to send each sample where its squared error is smaller,
    weighted by the difference. With linear regions the result is a piecewise linear function.

    Read more in the :doc:`user guide </guide/partition>`.

    Parameters
    ----------
    region_estimator : {"ridge"} or regressor, default="ridge"
        Regressor of the regions; ``"ridge"`` stands for :class:`~sklearn.linear_model.Ridge`, which
        has a fast path. Any other regressor is cloned for each stage, sweep and start.
    reject_estimator : {"logistic", "lda", "perceptron"} or classifier, default="logistic"
        Classifier of the gates; it must accept ``sample_weight``.
    max_iter : int, default=None
        Number of sweeps of a start; ``None`` means 8. The sweeps need not converge.
    init : {"kmeans", "random"}, default="kmeans"
        First assignment of samples to regions: a few steps of k-means, or uniformly at random.
    keep : {"best", "last"}, default="best"
        Which sweep of a start to use: the one of least training error or the last one.
    combine : {"average", "best"}, default="average"
        ``"average"`` averages the predictions of all starts; ``"best"`` uses the start of least
        error, a single cascade that is easier to interpret.
    validation_fraction : float, default=0.2
        Share of the samples that is held out for ``n_regions="auto"``.
    scale : bool, default=True
        Whether features are standardised first; sparse ones without centring.

    Attributes
    ----------
    region_estimators_ : list of length `n_regions_`
        Regressors of the regions of the best start, on scaled features.
    restarts_ : list of Cascade
        The cascades used for prediction, best first: all with ``combine="average"``, else one.
    start_errors_ : ndarray of shape (n_init,)
        Mean squared training error of each start, ascending.
    n_regions_errors_ : dict
        Validation error of each candidate, for ``n_regions="auto"``.
    n_iter_ : int
        Number of sweeps of the best start.
    train_error_ : float
        Weighted mean squared error of the best start on the training data.
    training_history_ : dict of ndarray
        Per sweep of the best start: ``error``, ``region_sizes`` and ``disagreement``.

    See Also
    --------
    SpacePartitioningClassifier : The same for classification.

    Notes
    -----
    With squared errors :math:`e_k(x, y) = (y - f_k(x))^2` the chain of equation (4) of [1]_ becomes
    :math:`L_k = 1\{g_k = 0\}\,e_k + 1\{g_k = 1\}\,L_{k+1}`, :math:`L_r = e_r`. For fixed other
    stages the best gate minimises

    .. math:: \sum_i C_k(x_i)\,|e_k - L_{k+1}|_i\,1\{g(x_i) \ne l_i\},\qquad
              l_i = 1\{e_k > L_{k+1}\}_i,

    which for 0/1 losses is equation (7). The weights are divided by their mean, so that the penalty
    of a gate's learner does not depend on the unit of the target.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.partition import SpacePartitioningRegressor
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> model = SpacePartitioningRegressor(n_regions=2, combine="best", random_state=0)
    >>> model.fit(X, np.abs(X[:, 0])).predict([[-0.5], [0.0], [0.5]]).round(1)
    array([0.5, 0. , 0.5])
    """

    _parameter_constraints = {
        **_SpacePartitioning._parameter_constraints,
        "region_estimator": [StrOptions(set(REGRESSORS)), HasMethods(["fit", "predict"])],
        "reject_estimator": [StrOptions(set(CLASSIFIERS)), HasMethods(["fit", "predict"])],
    }

    def __init__(
        self,
        region_estimator="ridge",
        reject_estimator="logistic",
        *,
        n_regions="auto",
        n_init=10,
        max_iter=None,
        init="kmeans",
        keep="best",
        combine="average",
        validation_fraction=0.2,
        scale=True,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Learn the regions and their regressors.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training samples.
        """
        data = training_data(self, X, y, sample_weight, task="regression", accept_sparse="csr")
        data = replace(data, y=data.y.astype(data.X.dtype))
        settings = resolve(self, data)
        scaled, self.scaler_ = data.standardized() if self.scale else (data, None)
        self._store(*fit_cascades(scaled, settings))
        self._keep_rows(data.X, data.y, data.sample_weight)
        return self

    def predict(self, X):
        """Predict the target of each sample.

        Returns
        -------
        target : ndarray of shape (n_samples,)
            Prediction of the sample's region, averaged over the starts with
            ``combine="average"``.
        """
        X = self._prepared(X)
        return mean_prediction(self.restarts_, X)

    def region_report(self, X, y):
        """Describe each region of the best cascade on data with known targets.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Their targets.

        Returns
        -------
        report : pandas.DataFrame
            One row per region: ``n_samples``, ``share`` of all samples, ``error`` (mean squared
            error of the region's regressor), ``mean`` and ``std`` of the target.
        """
        X, y = self._prepared(X), np.asarray(y, dtype=np.float64)
        best = self.restarts_[0]
        region = best.apply(X)
        report = self._report(region, {"error": (y - best.predict(X, X.dtype)) ** 2, "mean": y})
        deviation = (y - report["mean"].to_numpy()[region]) ** 2
        return report.assign(std=self._report(region, {"variance": deviation})["variance"] ** 0.5)

    def _agreement(self, X):
        predicted = [cascade.predict(X, float)[0] for cascade in self.restarts_]
        low, high = show(min(predicted)), show(max(predicted))
        return f"whose mean is predicted; their predictions range from {low} to {high}.", {}


@validate_params(
    {
        "n_regions": [Interval(Integral, 1, None, closed="left")],
        "n_features": [Interval(Integral, 1, None, closed="left")],
    },
    prefer_skip_nested_validation=True,
)
def vc_bound(n_regions: int, n_features: int) -> float:
    r"""Bound of the VC dimension of a cascade of linear gates and linear binary classifiers.

    Parameters
    ----------
    n_regions : int
        Number of regions, at least 1.
    n_features : int
        Number of features, at least 1.

    Returns
    -------
    bound : float
        An upper bound on the number of points that such cascades can label in every way.

    Notes
    -----
    A cascade of ``r`` regions is a Boolean function of :math:`K = 2r - 1` half-spaces of
    :math:`d` features. Theorem 2.4 of [1]_ gives

    .. math:: 2 K \log_2(e K) (d + 1).

    The logarithm has base 2: Sauer's lemma allows :math:`(em / (d + 1))^{K (d + 1)}` labelings of
    :math:`m` points, which falls below :math:`2^m` at the stated :math:`m` exactly when
    :math:`eK > 2 \log_2(eK)`, true for :math:`K \ge 3`; with the natural logarithm the argument
    fails for K = 3, 5 and 9. One region is one half-space, of VC dimension :math:`d + 1`.

    References
    ----------
    .. [1] J. Wang and V. Saligrama, "Local Supervised Learning through Space Partitioning",
       Advances in Neural Information Processing Systems 25, 2012.

    Examples
    --------
    >>> from vicinal.partition import vc_bound
    >>> [round(vc_bound(n_regions, 16)) for n_regions in (1, 2, 5)]
    [17, 309, 1411]
    """
    if n_regions == 1:
        return float(n_features + 1)
    n_half_spaces = 2 * n_regions - 1
    return float(2 * n_half_spaces * np.log2(math.e * n_half_spaces) * (n_features + 1))
