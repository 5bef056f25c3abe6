"""A linear metric learned from the slopes of local models."""

from numbers import Integral, Real

import numpy as np
from array_api_compat import device as device_of
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import (
    Progress,
    atomic_fit,
    check_same_library,
    encode_device_labels,
    encode_labels,
    is_array_api,
    namespace,
    positive_rows,
    validate_array_api,
    weighted_device_rows,
)
from vicinal._base._compat import Interval, StrOptions
from vicinal._kernels.linear._maps import standard_scale
from vicinal.local._device import indicators, make_device_data
from vicinal.local._device_rounds import next_map
from vicinal.local._gradient_round import (
    gradient_round,
    rescaled,
    slope_neighbors,
    slope_queries,
)

_ALPHA = {"classification": 1.0, "regression": 0.1}


class GradientMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""A linear map under which columns that do not change the answer fade away.

    Local linear models already hold what a metric needs: their slopes. Their mean outer product
    says along which directions the answer changes; the map stretches those and shrinks the others.
    Then the slopes are taken again in the new coordinates, round after round. The result is a plain
    transformer: put it before k-nearest neighbours, mixtures or any other model that lives on
    distances, or hand it to a local model as ``metric=``.

    Parameters
    ----------
    n_rounds : int, default=3
        Number of rounds. One or two suit noisy class labels; up to six pay where many columns are
        irrelevant and the answer is smooth.
    n_neighbors : int or "auto", default="auto"
        Size of the neighbourhoods whose slopes are taken; ``"auto"`` is twice the number of
        columns, between 40 and 160 and at most a third of the rows.
    alpha : float or "auto", default="auto"
        Relative ridge penalty of the slopes; ``"auto"`` is 1 for classes and 0.1 for numbers.
    diagonal : bool, default=False
        Scale the columns only, instead of rotating them too.
    task : {"auto", "classification", "regression"}, default="auto"
        What y holds; ``"auto"`` takes numbers with a fractional part, or with more than twenty
        distinct values that make up over a tenth of the rows, for targets and the rest for labels.
    n_jobs : int, default=None
        Threads; ``None`` uses every core.
    random_state : int, RandomState instance or None, default=None
        Draws the rows at which slopes are taken when there are more than needed.
    verbose : int, default=0
        Show progress.

    Attributes
    ----------
    mean_, scale_ : ndarray of shape (n_features,)
        Columns are centred and scaled first; constant ones keep scale one.
    components_ : ndarray of shape (n_features, n_features)
        Map of the scaled columns: ``transform(X) = (X - mean_) / scale_ @ components_.T``.
    maps_ : ndarray of shape (n_rounds, n_features, n_features)
        Map reached after every round; the last is ``components_.T``.
    outer_products_ : ndarray of shape (n_rounds, n_features, n_features)
        Gradient outer product of every round, in the scaled columns.
    feature_importances_ : ndarray of shape (n_features,)
        Length of each scaled column under the map, as a share; near zero where it has faded.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, when X has string names.

    See Also
    --------
    LocalClassifier : Chooses the number of rounds by cross-fitting.
    sklearn.neighbors.NeighborhoodComponentsAnalysis : A metric for nearest neighbours, by descent.

    Notes
    -----
    With the slopes :math:`B_q` of local ridge models on class indicators or targets,
    :math:`G = \operatorname{mean}_q B_q^\top B_q = U \operatorname{diag}(w_j) U^\top` is the
    expected gradient outer product [1]_, and a round maps the coordinates by
    :math:`U \operatorname{diag}(w_j^{1/4} + 10^{-3} w_1^{1/4}) U^\top`. The fourth root moves
    half-way to the metric :math:`G` itself; the floor keeps every direction alive, because one that
    is lost cannot come back. Neighbourhoods of one class add nothing.

    Torch tensors and other array-API arrays are worked on where they are, and what is learned
    stays there.

    The map has seen the labels: an error estimated by leaving rows out of neighbourhoods only is
    worthless with it. Cross-validate the whole pipeline.

    References
    ----------
    .. [1] S. Trivedi, J. Wang, S. Kpotufe and G. Shakhnarovich, "A consistent estimator of the
       expected gradient outerproduct", UAI 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.local import GradientMetric
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-1, 1, (500, 6))
    >>> y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
    >>> metric = GradientMetric(n_rounds=3, random_state=0).fit(X, y)
    >>> print(metric.feature_importances_.round(2))
    [0.5  0.34 0.05 0.04 0.03 0.04]
    """

    _parameter_constraints: dict = {
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "n_neighbors": [Interval(Integral, 2, None, closed="left"), StrOptions({"auto"})],
        "alpha": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "diagonal": ["boolean"],
        "task": [StrOptions({"auto", "classification", "regression"})],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_rounds=3,
        *,
        n_neighbors="auto",
        alpha="auto",
        diagonal=False,
        task="auto",
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.n_rounds = n_rounds
        self.n_neighbors = n_neighbors
        self.alpha = alpha
        self.diagonal = diagonal
        self.task = task
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Learn the map.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Class labels or targets.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts; rows of weight 0 are removed.

        Returns
        -------
        self : object
            Fitted transformer.
        """
        if is_array_api(X):
            return self._fit_on_device(X, y, sample_weight)
        X, y = validate_data(
            self, X, y, dtype=[np.float64, np.float32], multi_output=True, ensure_min_samples=3
        )
        weights, X, y = positive_rows(sample_weight, X, y, compact=True)
        self._dtype = X.dtype
        task = self._task(y)
        Y = _outputs(y, task, weights)
        X = np.asarray(X, dtype=np.float64)
        self.mean_, self.scale_ = standard_scale(X, weights)
        Z = (X - self.mean_) / self.scale_
        self.maps_, products = self._learn(Z, Y, weights, _ALPHA[task])
        P = self.maps_[-1]
        self.components_ = P.T
        self.outer_products_ = products
        lengths = np.linalg.norm(P, axis=1)
        lengths[Z.std(axis=0) == 0.0] = 0.0
        self.feature_importances_ = lengths / max(lengths.sum(), np.finfo(float).tiny)
        return self

    def _fit_on_device(self, X, y, sample_weight):
        """Do the same where the rows are; what is learned stays there."""
        X = validate_array_api(self, X, reset=True)
        if X.shape[0] < 3:
            raise ValueError(f"Found {X.shape[0]} sample(s); at least 3 are needed.")
        X, y, weights = weighted_device_rows(X, y, sample_weight)
        xp = namespace(X)
        base = make_device_data(X, weights, "standardized")
        task = self._device_task(y, xp) if is_array_api(y) else self._task(np.asarray(y))
        Y = _device_outputs(y, task, base)
        k = self._count_neighbors(X.shape[1], base.total_weight)
        queries = slope_queries(*X.shape, k, check_random_state(self.random_state))
        P = xp.eye(X.shape[1], dtype=xp.float64, device=device_of(X))
        maps, products = [], []
        with Progress(self.n_rounds, "GradientMetric", verbose=self.verbose) as progress:
            for _ in range(self.n_rounds):
                alpha = _ALPHA[task] if self.alpha == "auto" else self.alpha
                old = P
                P, G = next_map(base, Y, P, queries, count=k, alpha=alpha, diagonal=self.diagonal)
                maps.append(P)
                products.append(old @ G @ old.T)
                progress.advance()
        self.mean_, self.scale_ = base.mean, base.scale
        self.maps_ = xp.astype(xp.stack(maps), X.dtype)
        self.components_ = xp.astype(P.T, X.dtype)
        self.outer_products_ = xp.astype(xp.stack(products), X.dtype)
        varies = xp.astype(xp.max(X, axis=0) > xp.min(X, axis=0), P.dtype)
        lengths = xp.sqrt(xp.sum(P * P, axis=1)) * varies
        self.feature_importances_ = xp.astype(lengths / xp.sum(lengths), X.dtype)
        return self

    def _device_task(self, y, xp) -> str:
        if self.task != "auto":
            return self.task
        if not xp.isdtype(y.dtype, "real floating"):
            numbers = xp.astype(y, xp.float64)
        else:
            numbers = y
        distinct = xp.unique_values(numbers).shape[0]
        is_count = distinct > max(20, 0.1 * y.shape[0])
        if is_count or bool(xp.any(numbers != xp.round(numbers))):
            return "regression"
        return "classification"

    def _task(self, y) -> str:
        if self.task != "auto":
            return self.task
        if np.asarray(y).dtype.kind in "OUSb":
            return "classification"
        distinct = len(np.unique(y))
        is_count = distinct > max(20, 0.1 * len(y))
        return "regression" if is_count or np.any(y != np.rint(y)) else "classification"

    def _learn(self, Z, Y, weights, alpha):
        rng = check_random_state(self.random_state)
        total = float(len(Z) if weights is None else weights.sum())
        k = self._count_neighbors(Z.shape[1], total)
        queries = slope_queries(len(Z), Z.shape[1], k, rng)
        P = np.eye(Z.shape[1])
        maps, products = [], []
        with Progress(self.n_rounds, "GradientMetric", verbose=self.verbose) as progress:
            for _ in range(self.n_rounds):
                step, G = gradient_round(
                    np.ascontiguousarray(Z @ P),
                    Y,
                    weights,
                    queries,
                    n_neighbors=k,
                    alpha=alpha if self.alpha == "auto" else self.alpha,
                    diagonal=self.diagonal,
                    n_jobs=self.n_jobs,
                )
                products.append(P @ G @ P.T)
                P = rescaled(P @ step)
                maps.append(P)
                progress.advance()
        return np.stack(maps), np.stack(products)

    def _count_neighbors(self, n_features: int, total: float) -> int:
        k = slope_neighbors(n_features, total) if self.n_neighbors == "auto" else self.n_neighbors
        if k >= total:
            raise ValueError(
                f"n_neighbors={k} must be below the {total:g} samples given (counted by weight); "
                "lower n_neighbors."
            )
        return k

    def transform(self, X):
        """Map rows.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_queries, n_features)
            Coordinates in which Euclidean distance is the learned metric.
        """
        check_is_fitted(self)
        if is_array_api(self.components_):
            check_same_library(self.components_, X)
            X = validate_array_api(self, X, reset=False)
            rows = namespace(X).astype(X, self.components_.dtype)
            return (rows - self.mean_) / self.scale_ @ self.components_.T
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        Z = (np.asarray(X, dtype=np.float64) - self.mean_) / self.scale_
        return (Z @ self.components_.T).astype(X.dtype, copy=False)

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


def _outputs(y, task: str, weights) -> np.ndarray:
    """Return indicator columns, or targets in units of their spread."""
    if task == "classification":
        _, codes = encode_labels(y)
        return np.eye(int(codes.max()) + 1)[codes]
    Y = np.require(np.reshape(y, (len(y), -1)), np.float64, ["C", "W"])
    mean, scale = standard_scale(Y, weights)
    return (Y - mean) / scale


def _device_outputs(y, task: str, base):
    """Return the same on the device of the rows."""
    xp, device = namespace(base.X), device_of(base.X)
    if task == "classification":
        classes, codes = encode_device_labels(y, base.X)
        return indicators(codes, len(classes), base.X)
    Y = xp.asarray(y, dtype=base.X.dtype, device=device)
    Y = Y[:, None] if Y.ndim == 1 else Y
    return make_device_data(Y, base.weights, "standardized").X
