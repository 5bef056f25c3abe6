"""Space partitioning: regions and their classifiers, learned together."""

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from array_api_compat import device as device_of
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from vicinal._base import (
    as_numpy,
    atomic_fit,
    atomic_fit_blocks,
    check_weights,
    class_factors,
    device_classes,
    documented,
    encode_device_labels,
    encode_labels,
    import_optional,
    is_array_api,
    namespace,
    saved,
    validate_array_api,
    weighted_device_rows,
)
from vicinal._base._compat import HasMethods, Interval, StrOptions
from vicinal._conformal import LabelSetMixin
from vicinal._kernels.cascade._soft import fit_soft_cascade
from vicinal.linear import AveragedPerceptron, WeightedLDA
from vicinal.partition._base import BaseSpacePartitioning
from vicinal.partition._block_fit import fit_classifier_blocks
from vicinal.partition._cascade import Cascade
from vicinal.partition._device_training_set import DeviceTrainingSet
from vicinal.partition._explain import with_votes
from vicinal.partition._linear_learners import is_plain_lda
from vicinal.partition._training_set import TrainingSet
from vicinal.partition.stages import LinearGate, LinearRegionClassifier

# Chosen on held-out training data, docs/results/partition_defaults.md.
BUILT_IN_LEARNERS = {
    "logistic": LogisticRegression(C=10.0, tol=1e-3, max_iter=1000),
    "lda": WeightedLDA(shrinkage=1e-4),
    "perceptron": AveragedPerceptron(),
}

# Iterations of L-BFGS that stand for a sweep where soft numbers of regions are compared.
_ITERATIONS_A_SWEEP = 10


@saved(**{"scaler_.mean_": "p", "scaler_.scale_": "p"})
@documented
class SpacePartitioningClassifier(ClassifierMixin, LabelSetMixin, BaseSpacePartitioning):
    r"""Cascade of reject classifiers over one simple classifier per region.

    A chain of gates cuts the feature space into regions: gate ``k`` keeps a sample in region ``k``
    or passes it on. Each region has its own classifier. Gates and region classifiers are fitted in
    turn, each to the part of the training error that it is responsible for, so that the partition
    serves the classification rather than the shape of the data. Any scikit-learn classifier can
    stand in either place; with linear ones the result is a piecewise linear classifier that can
    be read region by region.

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
        sweeps or 200 iterations. The sweeps need not settle, see Notes.
    init : {"kmeans", "random", "classes", "hyperplane"} or array-like of int, default="kmeans"
        First assignment of samples to regions: a few steps of k-means, uniformly at random, each
        class to one region, slices by random directions, or one region number per sample (one
        start only). Soft gates always begin as random slices.
    gating : {"hard", "soft"}, default="hard"
        ``"hard"`` alternates between regions and gates and lets one region answer for a sample;
        ``"soft"`` maximises the likelihood of a mixture in which gates are probabilities.
    alpha : float, default=1.0
        Ridge penalty of soft gating, on the scale of a sum over samples.
    monotone : bool, default=False
        Whether a refitted stage replaces the old one only if it lowers its own term of the
        training error. The training error then never rises after the first sweep and the sweeps
        settle, mostly at a worse classifier.
    keep : {"last", "best"}, default="last"
        Which sweep of a start to keep: the last one, or the one of least error (see
        ``selection``).
    selection : {"train", "validation"}, default="train"
        Data on which starts, and sweeps for ``keep="best"``, are compared. ``"validation"`` holds
        rows out of the fit.
    combine : {"average", "best"}, default="average"
        ``"average"`` averages the probabilities of all starts, ``"best"`` keeps the start of least
        error: one cascade that can be read as it stands.
    validation_fraction : float, default=0.2
        Share of each class that is held out where validation is asked for.
    prune : bool, default=True
        Whether stages that hold no training sample are deleted (hard gating).
    scale : bool, default=True
        Whether features are standardised first; sparse ones are divided by their standard
        deviation without centring.
    class_weight : dict or "balanced", default=None
        Factors on the weights of each class; ``"balanced"`` counts weights.

    Attributes
    ----------
    region_estimators_ : list of length `n_regions_`
        Classifiers of the regions of the best start. Fast linear ones have ``coef_`` of shape
        (n_classes, n_features) on scaled features and ``intercept_``, minus infinity for classes
        that a region never saw.
    restarts_ : list of Cascade
        The cascades that predict, best first: all of them with ``combine="average"``, else one.
        Each has ``regions``, ``gates``, ``history`` and ``train_error``.
    start_errors_ : ndarray of shape (n_init,)
        Error of each start, ascending, on the data named by ``selection``.
    n_regions_errors_ : dict
        Brier score of each candidate on the rows held out for ``n_regions="auto"``; the error for
        perceptrons and for estimators without probabilities. Larger candidates are left out after
        two that were worse than a smaller one.
    n_iter_ : int
        Number of sweeps (or iterations) of the best start.
    train_error_ : float
        Weighted training error of the best start.
    training_history_ : dict of ndarray
        Per sweep of the best start: ``error``, ``region_sizes`` (n_sweeps, n_regions) and
        ``disagreement`` (n_sweeps, n_regions - 1), the share of samples on which each gate has a
        say; ``validation_error`` where rows were held out; ``objective`` per iteration for soft
        gates.

    See Also
    --------
    SpacePartitioningRegressor : The same for numbers.
    SurrogatePartitionClassifier : Two regions by a global objective that never rises.
    vc_bound : The capacity of a linear cascade.

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
    keeps its classifier, a region of one class is constant, a gate without rows stays as it was.
    The learners do not minimise the 0/1 error itself, so the training error moves up and down and
    sweeps rarely settle; ``max_iter`` is a budget rather than a limit that must not be reached, and
    no warning is given unless ``monotone=True``.

    Torch tensors and other array-API arrays are taken with ``region_estimator="lda"``: rows are
    summed up and routed where they are, the models are kept on the host.

    The paper's protocol is ``SpacePartitioningClassifier(learner, n_regions=5, init="random",
    n_init=15, keep="best", combine="best", max_iter=50)``. The defaults here were chosen on
    held-out training data, see the page of results on them.

    Soft gating minimises, with :math:`\pi_k = \prod_{j<k} \sigma(h_j)\,(1 - \sigma(h_k))` and
    :math:`p_k` the softmax of region ``k``,

    .. math:: -\sum_i w_i \ln \sum_k \pi_k(x_i)\,p_k(y_i | x_i) + \tfrac{\alpha}{2}\|W\|^2

    jointly over all weights by L-BFGS (offsets free).

    Examples
    --------
    Two lines cannot be drawn by one linear classifier, but by one gate and two of them:

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
        **BaseSpacePartitioning._parameter_constraints,
        "region_estimator": [StrOptions(set(BUILT_IN_LEARNERS)), HasMethods(["fit", "predict"])],
        "reject_estimator": [
            StrOptions(set(BUILT_IN_LEARNERS)),
            HasMethods(["fit", "predict"]),
            None,
        ],
        "init": [StrOptions({"kmeans", "random", "classes", "hyperplane"}), "array-like"],
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
        monotone=False,
        keep="last",
        selection="train",
        combine="average",
        validation_fraction=0.2,
        prune=True,
        scale=True,
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.region_estimator = region_estimator
        self.reject_estimator = reject_estimator
        self.n_regions = n_regions
        self.n_init = n_init
        self.max_iter = max_iter
        self.init = init
        self.gating = gating
        self.alpha = alpha
        self.monotone = monotone
        self.keep = keep
        self.selection = selection
        self.combine = combine
        self.validation_fraction = validation_fraction
        self.prune = prune
        self.scale = scale
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

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
        if is_array_api(X):
            self._fit_cascades(self._device_training_set(X, y, sample_weight))
            return self
        self._reference = None
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        data = self._training_set(X, y, self._class_weighted(y, sample_weight))
        self.classes_, codes = encode_labels(data.y)
        self._fit_cascades(replace(data, codes=codes, classes=self.classes_))
        self._keep_rows(X, y, sample_weight)
        return self

    @atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit to a table in blocks of rows: all starts together, one pass for every stage.

        Stages equal those of a fit in memory, but for perceptrons, which are averages over blocks;
        ``n_regions="auto"`` is chosen on a sample.
        """
        fit_classifier_blocks(self, blocks)

    def predict(self, X):
        """Predict the class of each sample."""
        X = self._prepared(X)
        if self._reference is not None:
            scores = self._mean_proba(self.restarts_, X)
            return device_classes(self.classes_, scores, on_device=self._labels_on_device)
        return self._predict_labels(self.restarts_, X)

    @available_if(lambda self: self._has_proba())
    def predict_proba(self, X):
        """Predict the probability of each class.

        That of the sample's own region with hard gates, the mixture over regions with soft ones,
        in either case averaged over the starts with ``combine="average"``. Probabilities of
        perceptron regions are the softmax of scores scaled by the spread of the training margins:
        an order, not a calibrated chance.
        """
        X = self._prepared(X)
        return self._mean_proba(self.restarts_, X)

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
        self._check_on_host("region_histogram")
        X = self._prepared(X)
        return self._count_classes(self.restarts_[0].apply(X), y)

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
        self._check_on_host("region_report")
        pandas = import_optional("pandas", needed_by="region_report", extra="frame")
        X = self._prepared(X)
        best = self.restarts_[0]
        region = best.apply(X)
        counts = self._count_classes(region, y)
        sizes = counts.sum(axis=1)
        wrong = best.predict(X, self.classes_.dtype) != np.asarray(y)
        errors = np.bincount(region, weights=wrong, minlength=self.n_regions_)
        report = pandas.DataFrame(
            {
                "n_samples": sizes,
                "share": sizes / max(1, sizes.sum()),
                "error": np.divide(errors, sizes, out=np.full(len(sizes), np.nan), where=sizes > 0),
                "majority_class": self.classes_[counts.argmax(axis=1)],
                "classes_present": (counts > 0).mean(axis=1),
            },
            index=pandas.RangeIndex(self.n_regions_, name="region"),
        )
        for j, label in enumerate(self.classes_):
            report[f"n_{label}"] = counts[:, j]
        return report

    # --- parts ---

    def _device_training_set(self, X, y, sample_weight) -> DeviceTrainingSet:
        """Check the training data; labels become codes on the device."""
        self._check_device_parameters()
        X = validate_array_api(self, X, reset=True)
        xp = namespace(X)
        first_region = self._first_region(X.shape[0])
        n_given = X.shape[0]
        # Rows of weight 0 are dropped, with their first region.
        rows = xp.arange(n_given, device=device_of(X))
        kept, rows, weight = weighted_device_rows(X, rows, sample_weight, dtype=xp.float64)
        _, y, _ = weighted_device_rows(X, y, sample_weight, dtype=xp.float64)
        if first_region is not None and kept.shape[0] < n_given:
            first_region = first_region[as_numpy(rows)]
        self._labels_on_device = is_array_api(y)
        self.classes_, codes = encode_device_labels(y, kept)
        is_weighted = weight is not None
        if weight is None:
            weight = xp.ones(kept.shape[0], dtype=xp.float64, device=device_of(X))
        self._reference = X[:0, :]
        return DeviceTrainingSet(
            kept, codes, weight, is_weighted, codes, self.classes_, first_region
        )

    def _check_device_parameters(self) -> None:
        given = {
            "region_estimator": not is_plain_lda(self._region_estimator()),
            "reject_estimator": not is_plain_lda(self._reject_estimator()),
            "gating": self.gating != "hard",
            "class_weight": self.class_weight is not None,
        }
        named = [name for name, is_set in given.items() if is_set]
        if named:
            raise ValueError(
                f"{', '.join(named)} as given cannot be used with a device array, where regions "
                "and hard gates are discriminant analyses; use region_estimator='lda', or convert "
                "X with numpy.asarray."
            )

    def _check_on_host(self, what: str) -> None:
        if self._reference is not None:
            raise ValueError(
                f"{what} needs a model fitted on NumPy arrays; convert X with numpy.asarray and "
                "fit again."
            )

    def _count_classes(self, region, y) -> np.ndarray:
        codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        unknown = self.classes_[codes] != np.asarray(y)
        if unknown.any():
            stranger = str(np.asarray(y)[unknown][0])
            raise ValueError(
                f"y holds the label {stranger!r}, which is not among the classes of the fit, "
                f"{self.classes_.tolist()!r}."
            )
        counts = np.zeros((self.n_regions_, len(self.classes_)), dtype=np.int64)
        np.add.at(counts, (region, codes), 1)
        return counts

    def _class_weighted(self, y, sample_weight):
        """Multiply the weights of samples by those of their classes."""
        if self.class_weight is None:
            return sample_weight
        weights = check_weights(sample_weight, np.empty((len(y), 1)))
        counted = weights > 0.0
        classes, codes = np.unique(y[counted], return_inverse=True)
        factors = np.ones(len(y))
        factors[counted] = class_factors(self.class_weight, classes, codes, weights[counted])[codes]
        return factors * weights

    def _region_estimator(self):
        return _resolve(self.region_estimator)

    def _reject_estimator(self):
        given = self.reject_estimator
        return _resolve(self.region_estimator if given is None else given)

    def _has_proba(self) -> bool:
        return self.gating == "soft" or hasattr(self._region_estimator(), "predict_proba")

    def _start_function(self, data, validation, n_regions, max_sweeps=None):
        if self.gating == "hard":
            return super()._start_function(data, validation, n_regions, max_sweeps)
        max_iter = 200 if self.max_iter is None else self.max_iter
        if max_sweeps is not None:
            max_iter = min(max_iter, _ITERATIONS_A_SWEEP * max_sweeps)
        return _SoftStart(data, validation, n_regions, self.alpha, max_iter), True

    def _fit_single(self, data, rng):
        if self.gating == "hard":
            return super()._fit_single(data, rng)
        start, _ = self._start_function(data, None, 1)
        return start(int(rng.randint(np.iinfo(np.int32).max)))

    def _predict_labels(self, cascades: list[Cascade], X) -> np.ndarray:
        if len(cascades) == 1 and not cascades[0].soft:
            return cascades[0].predict(X, self.classes_.dtype)
        if self._has_proba():
            return self.classes_[np.argmax(self._mean_proba(cascades, X), axis=1)]
        votes = np.zeros((X.shape[0], len(self.classes_)))
        for cascade in cascades:
            labels = cascade.predict(X, self.classes_.dtype)
            votes[np.arange(len(labels)), np.searchsorted(self.classes_, labels)] += 1
        return self.classes_[np.argmax(votes, axis=1)]

    def _beside_others(self, path, X):
        answers = np.array([self._predict_labels([cascade], X)[0] for cascade in self.restarts_])
        return with_votes(path, answers, self._predict_labels(self.restarts_, X)[0])

    def _mean_proba(self, cascades: list[Cascade], X) -> Any:
        total = cascades[0].predict_proba(X, self.classes_)
        for cascade in cascades[1:]:
            total += cascade.predict_proba(X, self.classes_)
        return total / len(cascades)

    def _combined_loss(self, cascades, data: TrainingSet) -> float:
        if not self._has_proba() or isinstance(self._region_estimator(), AveragedPerceptron):
            # A perceptron's probabilities are an order only.
            return data.average(data.loss(self._predict_labels(cascades, data.X)))
        # The Brier score sees how sure the right and wrong answers are, so that it tells apart
        # with fewer samples what the error counts alike.
        return data.brier_score(self._mean_proba(cascades, data.X))


class _SoftStart:
    """One start of the soft cascade, as a function of its seed that may travel to a worker."""

    def __init__(self, data, validation, n_regions, alpha, max_iter):
        self.data, self.validation = data, validation
        self.n_regions, self.alpha, self.max_iter = n_regions, alpha, max_iter

    def __call__(self, seed: int) -> Cascade:
        data = self.data
        (coefs, intercepts, gates, gate_offsets), objectives, converged = fit_soft_cascade(
            data.X,
            data.codes,
            data.weight,
            self.n_regions,
            len(data.classes),
            self.alpha,
            self.max_iter,
            tol=1e-5,
            rng=np.random.RandomState(seed),
        )
        dtype = data.X.dtype
        cascade = Cascade(
            [
                LinearRegionClassifier(data.classes, coef.astype(dtype), intercept.astype(dtype))
                for coef, intercept in zip(coefs, intercepts, strict=True)
            ],
            [
                LinearGate(gate.astype(dtype), dtype.type(offset))
                for gate, offset in zip(gates, gate_offsets, strict=True)
            ],
            soft=True,
        )
        cascade.train_error = self._error(cascade, data)
        chosen_on = data if self.validation is None else self.validation
        cascade.selection_error = self._error(cascade, chosen_on)
        cascade.region_sizes = np.bincount(cascade.apply(data.X), minlength=self.n_regions)
        cascade.history = {"objective": np.array(objectives)}
        cascade.n_iter, cascade.converged = len(objectives), converged
        return cascade

    @staticmethod
    def _error(cascade: Cascade, data: TrainingSet) -> float:
        proba = cascade.predict_proba(data.X, data.classes)
        return float(np.average(proba.argmax(axis=1) != data.codes, weights=data.weight))


def _resolve(estimator):
    """Return the estimator that a string stands for."""
    return BUILT_IN_LEARNERS[estimator] if isinstance(estimator, str) else estimator
