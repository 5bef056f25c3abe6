"""Space partitioning for regression."""

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.utils.validation import validate_data

from vicinal._base import atomic_fit, atomic_fit_blocks, documented, import_optional, saved
from vicinal._base._compat import HasMethods, StrOptions
from vicinal._conformal import IntervalMixin
from vicinal.partition._base import BaseSpacePartitioning
from vicinal.partition._block_fit import fit_regressor_blocks
from vicinal.partition._cascade import Cascade
from vicinal.partition._explain import with_spread
from vicinal.partition._space_partitioning_classifier import BUILT_IN_LEARNERS
from vicinal.partition._training_set import TrainingSet

_BUILT_IN_REGRESSORS = {"ridge": Ridge()}


@saved(**{"scaler_.mean_": "p", "scaler_.scale_": "p"})
@documented
class SpacePartitioningRegressor(RegressorMixin, IntervalMixin, BaseSpacePartitioning):
    r"""Cascade of reject classifiers over one simple regressor per region.

    The regression form of :class:`SpacePartitioningClassifier`: the loss of a region is the squared
    error, and a gate learns to send each sample where its squared error is smaller, weighted by
    how much smaller. With linear regions the result is a piecewise linear function.

    Read more in the :doc:`user guide </guide/partition>`.

    Parameters
    ----------
    region_estimator : {"ridge"} or regressor, default="ridge"
        Regressor of the regions; ``"ridge"`` stands for :class:`~sklearn.linear_model.Ridge`, which
        has a fast path. Any other regressor is cloned for each stage, sweep and start.
    reject_estimator : {"logistic", "lda", "perceptron"} or classifier, default="logistic"
        Classifier of the gates; it must accept ``sample_weight``.
    max_iter : int, default=None
        Number of sweeps of a start; ``None`` means 8. The sweeps need not settle.
    init : {"kmeans", "random", "hyperplane"} or array-like of int, default="kmeans"
        First assignment of samples to regions: a few steps of k-means, uniformly at random, slices
        by random directions, or one region number per sample (one start only).
    monotone : bool, default=False
        Whether a refitted stage replaces the old one only if it lowers its own term of the training
        loss. The training loss then never rises after the first sweep.
    keep : {"best", "last"}, default="best"
        Which sweep of a start to keep: the one of least error (see ``selection``) or the last one.
    selection : {"train", "validation"}, default="train"
        Data on which starts, and sweeps for ``keep="best"``, are compared.
    combine : {"average", "best"}, default="average"
        ``"average"`` averages the predictions of all starts, ``"best"`` keeps the start of least
        error: one cascade that can be read as it stands.
    validation_fraction : float, default=0.2
        Share of the samples that is held out where validation is asked for.
    prune : bool, default=True
        Whether stages that hold no training sample are deleted.
    scale : bool, default=True
        Whether features are standardised first; sparse ones without centring.

    Attributes
    ----------
    region_estimators_ : list of length `n_regions_`
        Regressors of the regions of the best start, on scaled features.
    restarts_ : list of Cascade
        The cascades that predict, best first: all of them with ``combine="average"``, else one.
    start_errors_ : ndarray of shape (n_init,)
        Mean squared error of each start, ascending, on the data named by ``selection``.
    n_regions_errors_ : dict
        Validation error of each candidate, for ``n_regions="auto"``.
    n_iter_ : int
        Number of sweeps of the best start.
    train_error_ : float
        Weighted mean squared error of the best start on the training data.
    training_history_ : dict of ndarray
        Per sweep of the best start: ``error``, ``region_sizes``, ``disagreement``, and
        ``validation_error`` where rows were held out.

    See Also
    --------
    SpacePartitioningClassifier : The same for labels.

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

    # Planes take little time, and of a surface with many bends few of them say nothing.
    _gives_up = False

    _parameter_constraints = {
        **BaseSpacePartitioning._parameter_constraints,
        "region_estimator": [
            StrOptions(set(_BUILT_IN_REGRESSORS)),
            HasMethods(["fit", "predict"]),
        ],
        "reject_estimator": [StrOptions(set(BUILT_IN_LEARNERS)), HasMethods(["fit", "predict"])],
        "init": [StrOptions({"kmeans", "random", "hyperplane"}), "array-like"],
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
        monotone=False,
        keep="best",
        selection="train",
        combine="average",
        validation_fraction=0.2,
        prune=True,
        scale=True,
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
        self.monotone = monotone
        self.keep = keep
        self.selection = selection
        self.combine = combine
        self.validation_fraction = validation_fraction
        self.prune = prune
        self.scale = scale
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Learn the regions and their regressors.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training samples.
        """
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], y_numeric=True
        )
        self._fit_cascades(self._training_set(X, y.astype(X.dtype), sample_weight))
        self._keep_rows(X, y, sample_weight)
        return self

    @atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit to a table in blocks of rows: all starts together, one pass for every stage.

        Stages equal those of a fit in memory, but for perceptrons, which are averages over blocks;
        ``n_regions="auto"`` is chosen on a sample.
        """
        fit_regressor_blocks(self, blocks)

    def predict(self, X):
        """Predict the target of each sample.

        Returns
        -------
        target : ndarray of shape (n_samples,)
            What the sample's own region predicts, averaged over the starts with
            ``combine="average"``.
        """
        X = self._prepared(X)
        return self._mean_prediction(self.restarts_, X)

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
        pandas = import_optional("pandas", needed_by="region_report", extra="frame")
        X, y = self._prepared(X), np.asarray(y, dtype=np.float64)
        best = self.restarts_[0]
        region = best.apply(X)
        columns = pandas.DataFrame({"y": y, "loss": (y - best.predict(X, X.dtype)) ** 2})
        groups = columns.groupby(region)
        report = pandas.DataFrame(
            {
                "n_samples": groups.size(),
                "share": groups.size() / len(y),
                "error": groups["loss"].mean(),
                "mean": groups["y"].mean(),
                "std": groups["y"].std(ddof=0),
            }
        ).reindex(pandas.RangeIndex(self.n_regions_, name="region"))
        report["n_samples"] = report["n_samples"].fillna(0).astype(int)
        report["share"] = report["share"].fillna(0.0)
        return report

    # --- parts ---

    def _region_estimator(self):
        given = self.region_estimator
        return _BUILT_IN_REGRESSORS[given] if isinstance(given, str) else given

    def _reject_estimator(self):
        given = self.reject_estimator
        return BUILT_IN_LEARNERS[given] if isinstance(given, str) else given

    def _mean_prediction(self, cascades: list[Cascade], X) -> np.ndarray:
        total = np.zeros(X.shape[0], dtype=X.dtype)
        for cascade in cascades:
            total += cascade.predict(X, X.dtype)
        return total / len(cascades)

    def _beside_others(self, path, X):
        return with_spread(path, np.array([one.predict(X, float)[0] for one in self.restarts_]))

    def _combined_loss(self, cascades, data: TrainingSet) -> float:
        return data.average(data.loss(self._mean_prediction(cascades, data.X)))
