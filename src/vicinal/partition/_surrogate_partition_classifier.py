"""Two regions by a surrogate of the training error that never rises."""

import warnings
from numbers import Integral, Real

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning

from vicinal._base import (
    atomic_fit,
    documented,
    parallel_map,
    query_rows,
    random_seeds,
    saved,
    store_parameters,
    training_data,
)
from vicinal._base._compat import RUN_CONSTRAINTS, Interval
from vicinal._base._explanation import ExplainRowMixin
from vicinal._kernels.cascade._soft import alternate_blocks
from vicinal.partition._explain import surrogate_sections


@saved(classes_="c labels", gate_coef_="p", coef_="r p", intercept_="r")
@documented
class SurrogatePartitionClassifier(ExplainRowMixin, ClassifierMixin, BaseEstimator):
    r"""Binary classifier of two linear regions and a linear gate, with a monotone objective.

    For two classes and two regions the training error has a smooth upper bound that is convex in
    the gate and in each region's classifier. It is minimised over each of them in turn, so that it
    falls at every step and converges. :class:`SpacePartitioningClassifier` is more accurate; use
    this class if a monotone objective matters.

    Read more in the :doc:`user guide </guide/partition>`.

    Parameters
    ----------
    alpha : float, default=1.0
        Ridge penalty of gate and regions, relative to a sum over samples; intercepts are not
        penalised.
    n_init : int, default=10
        Number of random first gates; the start of least objective is used.
    max_iter : int, default=200
        Number of sweeps over the three blocks.
    tol : float, default=1e-6
        Relative decrease of the objective in a sweep below which a start stops.
    scale : bool, default=True
        Whether features are standardised first.
    n_jobs : int, default=None
        Number of starts run in parallel, through joblib; ``None`` means 1 unless in a
        ``joblib.parallel_config`` context. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the first gates.
    verbose : int, default=0
        Whether to show progress over the starts.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels.
    gate_coef_ : ndarray of shape (n_features,)
        Weights of the gate; region 1 is where the gate's score is above 0.
    gate_intercept_ : float
        Offset of the gate.
    coef_ : ndarray of shape (2, n_features)
        Weights of the two regions; a positive score means ``classes_[1]``.
    intercept_ : ndarray of shape (2,)
        Offsets of the two regions.
    objective_ : ndarray
        Penalised objective of the selected start, at first and after every step.
    objectives_ : list of ndarray
        The same for all starts, the selected one first.
    n_iter_ : int
        Number of sweeps of the selected start.
    converged_ : bool
        Whether the selected start stopped by ``tol``.
    scaler_ : StandardScaler or None
        The scaling of the features.

    See Also
    --------
    SpacePartitioningClassifier : Any learner, any number of regions and classes.

    Notes
    -----
    With labels :math:`y \in \{-1, 1\}`, gate :math:`h`, regions :math:`f_0, f_1` and the logistic
    loss in base 2, :math:`\varphi(z) = \log_2(1 + e^{-z}) \ge 1\{z \le 0\}`, the objective is

    .. math:: J = \frac1n \sum_i \left[\varphi(h(x_i))\,\varphi(y_i f_0(x_i))
              + \varphi(-h(x_i))\,\varphi(y_i f_1(x_i))\right]
              + \frac{\alpha}{2n}\left(\|h\|^2 + \|f_0\|^2 + \|f_1\|^2\right),

    equation (3) of [1]_ with a penalty. Its first part bounds the error of the rule "region 1 where
    h > 0": base 2 is needed for that, since the natural logarithm is only 0.69 at 0. For fixed
    regions the gate solves a weighted logistic problem (Lemma 2.2), and so does each region for
    a fixed gate. Every block is solved by Newton's method, in time :math:`O(n d^2 + d^3)` a step.

    Theorem 2.3 holds in this form: the objective never rises and converges, and limits are
    stationary in each block. They need not be minima: with :math:`h = 0` and :math:`f_0 = f_1`
    nothing moves, hence random first gates and several starts.

    References
    ----------
    .. [1] J. Wang and V. Saligrama, "Local Supervised Learning through Space Partitioning",
       Advances in Neural Information Processing Systems 25, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.partition import SurrogatePartitionClassifier
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-1, 1, size=(200, 2))
    >>> y = np.sign(X[:, 0] * X[:, 1])
    >>> model = SurrogatePartitionClassifier(alpha=0.1, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> bool(np.all(np.diff(model.objective_) <= 1e-10))
    True
    """

    _parameter_constraints = {
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "scale": ["boolean"],
        **RUN_CONSTRAINTS,
    }

    def __init__(
        self,
        alpha=1.0,
        *,
        n_init=10,
        max_iter=200,
        tol=1e-6,
        scale=True,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Learn the gate and the two regions.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Labels of two classes.
        """
        data = training_data(self, X, y, sample_weight, task="classification")
        self.classes_ = data.classes
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"y holds {len(self.classes_)} classes; use SpacePartitioningClassifier."
            )
        scaled, self.scaler_ = data.standardized() if self.scale else (data, None)
        Z = np.column_stack([scaled.X, np.ones(len(data))]).astype(np.float64)
        problem = Z, 2.0 * data.y - 1.0, data.weights, self.alpha, self.max_iter, self.tol
        starts = parallel_map(
            alternate_blocks,
            [
                (*problem, np.random.RandomState(seed))
                for seed in random_seeds(self.random_state, self.n_init)
            ],
            n_jobs=self.n_jobs,
            prefer="threads",
            label=type(self).__name__,
            verbose=self.verbose,
        )
        self._store(sorted(starts, key=lambda start: start[1][-1]), data.X.dtype)
        return self

    def _store(self, starts, dtype):
        thetas, objectives, self.converged_ = starts[0]
        self.objective_ = np.array(objectives)
        self.objectives_ = [np.array(start[1]) for start in starts]
        self.n_iter_ = (len(objectives) - 1) // 3
        self.gate_coef_ = thetas[0, :-1].astype(dtype)
        self.gate_intercept_ = float(thetas[0, -1])
        self.coef_ = thetas[1:, :-1].astype(dtype)
        self.intercept_ = thetas[1:, -1].astype(dtype)
        if not self.converged_:
            warnings.warn(
                f"The best start did not converge in max_iter={self.max_iter} sweeps; raise "
                f"max_iter or tol={self.tol}.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def decision_path(self, X):
        """Return the gate's score of each sample.

        Returns
        -------
        scores : ndarray of shape (n_samples, 1)
            Score of the gate; above 0 is region 1.
        """
        X = self._prepared(X)
        return (X @ self.gate_coef_ + X.dtype.type(self.gate_intercept_))[:, None]

    def apply(self, X):
        """Return the region of each sample, 0 or 1.

        Returns
        -------
        region : ndarray of int of shape (n_samples,)
            Region of each sample.
        """
        return (self.decision_path(X)[:, 0] > 0).astype(np.int64)

    def decision_function(self, X):
        """Return the score of each sample in its own region.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Scores; above 0 means ``classes_[1]``.
        """
        region = self.apply(X)
        X = self._prepared(X)
        scores = X @ self.coef_.T + self.intercept_
        return scores[np.arange(len(region)), region]

    def predict(self, X):
        """Predict the class of each sample."""
        codes = (self.decision_function(X) > 0).astype(np.int64)
        return self.classes_[codes]

    def predict_proba(self, X):
        """Predict the probability of each class by the logistic model of the sample's region.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, 2)
            Probabilities in the order of ``classes_``.
        """
        scores = self.decision_function(X)
        return np.column_stack([expit(-scores), expit(scores)])

    _sections = surrogate_sections

    def _prepared(self, X):
        X = query_rows(self, X)
        # Single precision cannot represent the scales of every model.
        X = X.astype(np.result_type(X, self.coef_), copy=False)
        return X if self.scaler_ is None else self.scaler_.transform(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
