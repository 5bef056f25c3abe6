"""A linear metric learned from the slopes of local models."""

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from array_api_compat import device as device_of
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import (
    Progress,
    atomic_fit,
    check_magnitude,
    check_same_library,
    documented,
    encode_device_labels,
    encode_labels,
    is_array_api,
    namespace,
    saved,
    validate_array_api,
    weighted_device_rows,
)
from vicinal._base._compat import Interval, StrOptions
from vicinal._kernels.linear._covariance import standard_scale
from vicinal.local._arrays import ArrayLabels, ArrayNumbers, ArrayRows, learn_map
from vicinal.local._coordinates import Coordinates, Placement
from vicinal.local._data import (
    Labels,
    PlacedRows,
    SearchOptions,
    TrainingTable,
    checked_rows,
    number_targets,
)
from vicinal.local._solvers import RidgeSolver

# A direction whose slope vanished keeps this share of the largest scale.
_FLOOR = 1e-3
# Slopes at so many rows settle the outer product; fewer where one slope is dear.
_MAX_QUERIES, _MIN_QUERIES, _FLOPS = 1500, 200, 2e9
# They are searched for neighbours among so many rows at most.
_MAX_ROWS = 100_000


@saved(mean_="p", scale_="p", components_="k p")
@documented
class GradientMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""A linear map under which columns that do not change the answer fade away.

    Local linear models already hold what a metric needs: their slopes. Their mean outer product
    says along which directions the answer changes; the map stretches those and shrinks the others.
    Then the slopes are taken again in the new coordinates, round after round. The result is a plain
    transformer: put it before k-nearest neighbours, mixtures or any other model that lives on
    distances, or hand it to a local model as ``metric=``.

    Read more in the :doc:`user guide </guide/metric>`.

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
    standardize : bool, default=True
        Scale the columns to unit variance first; ``False`` for columns of one unit, such as
        principal axes, whose spread says how much they matter.
    task : {"auto", "classification", "regression"}, default="auto"
        What y holds; ``"auto"`` takes numbers with a fractional part, or with more than twenty
        distinct values that make up over a tenth of the rows, for targets and the rest for labels.
    n_jobs : int, default=None
        Threads; ``None`` uses every core.
    random_state : int, RandomState instance or None, default=None
        Draws the rows at which slopes are taken when there are more than needed, and 100,000 rows
        to learn from where there are more.

    Attributes
    ----------
    mean_, scale_ : ndarray of shape (n_features,)
        Columns are centred and scaled first; constant ones keep scale one, and all do without
        ``standardize``.
    components_ : ndarray of shape (n_features, n_features)
        Map of the scaled columns: ``transform(X) = (X - mean_) / scale_ @ components_.T``.
    maps_ : ndarray of shape (n_rounds, n_features, n_features)
        Map reached after every round; the last is ``components_.T``.
    outer_products_ : ndarray of shape (n_rounds, n_features, n_features)
        Gradient outer product of every round, in the scaled columns.
    feature_importances_ : ndarray of shape (n_features,)
        Length of each scaled column under the map, as a share; near zero where it has faded.

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
        "standardize": ["boolean"],
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
        standardize=True,
        task="auto",
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.n_rounds = n_rounds
        self.n_neighbors = n_neighbors
        self.alpha = alpha
        self.diagonal = diagonal
        self.standardize = standardize
        self.task = task
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Learn the map.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Class labels, or targets.
        """
        data, rounds = self._begin(X, y, sample_weight)
        maps, products = [], []
        with Progress(self.n_rounds, "GradientMetric", verbose=self.verbose) as progress:
            for P, G in rounds:
                maps.append(P)
                products.append(G)
                progress.advance()
        self._keep(data, maps, products)
        return self

    def _begin(self, X, y, sample_weight=None) -> tuple[Any, Iterator]:
        """Read the rows; return them and (map, outer product) of each round, made when asked for.

        For those who end before the last round.
        """
        read = self._read_arrays if is_array_api(X) else self._read_rows
        data = read(X, y, sample_weight)
        Y, alpha = data.targets.comparable(data.sample_weight)
        alpha = alpha if self.alpha == "auto" else self.alpha
        k = self._count_neighbors(data.n_columns, data.total_weight)
        rng = check_random_state(self.random_state)
        queries = slope_queries(data.n_samples, data.n_columns, k, rng)
        settings = (queries, k, alpha, self.diagonal, self.n_jobs)
        return data, gradient_rounds(data, Y, self.n_rounds, *settings)

    def _read_rows(self, X, y, sample_weight) -> PlacedRows:
        """Check NumPy arrays and scale the columns."""
        X, y, weights, _ = checked_rows(
            self, X, y, sample_weight, None, accept_sparse=False, multi_output=True
        )
        if len(X) < 3:
            raise ValueError(f"Found {len(X)} sample(s) of positive weight; at least 3 are needed.")
        self._dtype = X.dtype
        if len(X) > _MAX_ROWS:
            rng = check_random_state(self.random_state)
            rows = np.sort(rng.choice(len(X), _MAX_ROWS, replace=False))
            X, y, weights = X[rows], y[rows], None if weights is None else weights[rows]
        if self._task(y) == "classification":
            _check_one_column(y)
            classes, codes = encode_labels(y)
            targets: Any = Labels(codes.astype(np.int64), len(classes))
        else:
            targets = number_targets(np.asarray(y, dtype=np.float64))
        X = np.asarray(X, dtype=np.float64)
        self.mean_, self.scale_ = standard_scale(X, weights)
        if not self.standardize:
            self.scale_ = np.ones_like(self.scale_)
        Z = (X - self.mean_) / self.scale_
        Z[np.abs(Z) < 1e-150] = 0.0  # their squares vanish, and slopes along them overflow
        table = TrainingTable(Z, targets, weights, None)
        return PlacedRows.place(table, Placement(Coordinates()), SearchOptions(n_jobs=self.n_jobs))

    def _read_arrays(self, X, y, sample_weight) -> ArrayRows:
        """Check arrays of another library and scale the columns; what is learned stays there."""
        X = validate_array_api(self, X, reset=True)
        if X.shape[0] < 3:
            raise ValueError(f"Found {X.shape[0]} sample(s); at least 3 are needed.")
        X, y, weights = weighted_device_rows(X, y, sample_weight)
        self._dtype = X.dtype
        task = self._array_task(y) if is_array_api(y) else self._task(np.asarray(y))
        if task == "classification":
            _check_one_column(y)
            classes, codes = encode_device_labels(y, X)
            targets: Any = ArrayLabels(codes, len(classes), X.dtype)
        else:
            Y = namespace(X).asarray(y, dtype=X.dtype, device=device_of(X))
            targets = ArrayNumbers(Y[:, None] if Y.ndim == 1 else Y, Y.ndim == 2)
        scaled = learn_map(X, weights, "standardized" if self.standardize else "euclidean")
        self.mean_, self.scale_ = scaled.mean, scaled.scale
        return ArrayRows.place(TrainingTable(X, targets, weights, None), scaled)

    def _keep(self, data, maps, products) -> None:
        xp, Z = namespace(data.rows), data.rows
        self.maps_ = xp.astype(xp.stack(maps), Z.dtype)
        self.outer_products_ = xp.astype(xp.stack(products), Z.dtype)
        P = maps[-1]
        self.components_ = xp.astype(P.T, Z.dtype)
        varies = xp.astype(xp.max(Z, axis=0) > xp.min(Z, axis=0), P.dtype)
        lengths = xp.sqrt(xp.sum(P * P, axis=1)) * varies
        total = xp.sum(lengths)
        total = xp.where(total > 0.0, total, xp.ones_like(total))
        self.feature_importances_ = xp.astype(lengths / total, Z.dtype)

    def _array_task(self, y) -> str:
        if self.task != "auto":
            return self.task
        xp = namespace(y)
        numbers = y if xp.isdtype(y.dtype, "real floating") else xp.astype(y, xp.float64)
        is_count = xp.unique_values(numbers).shape[0] > max(20, 0.1 * y.shape[0])
        is_number = is_count or y.ndim == 2 or bool(xp.any(numbers != xp.round(numbers)))
        return "regression" if is_number else "classification"

    def _task(self, y) -> str:
        if self.task != "auto":
            return self.task
        if np.asarray(y).dtype.kind in "OUSb":
            return "classification"
        is_count = len(np.unique(y)) > max(20, 0.1 * len(y))
        is_number = is_count or np.ndim(y) == 2 or np.any(y != np.rint(y))
        return "regression" if is_number else "classification"

    def _count_neighbors(self, n_features: int, total: float) -> int:
        k = slope_neighbors(n_features, total) if self.n_neighbors == "auto" else self.n_neighbors
        if k >= total:
            raise ValueError(
                f"n_neighbors={k} must be below the {total:g} samples given (counted by weight); "
                "lower n_neighbors."
            )
        return k

    def linear_map(self):
        """Return the map in the columns given.

        Returns
        -------
        matrix : array of shape (n_features, n_features)
            ``transform(X)`` is ``(X - mean) @ matrix``.
        mean : array of shape (n_features,)
            Origin.
        """
        check_is_fitted(self)
        return self.components_.T / self.scale_[:, None], self.mean_

    def transform(self, X):
        """Map rows.

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
        check_magnitude("X", X)
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


def _check_one_column(y) -> None:
    """Refuse labels in several columns."""
    if y.ndim != 1:
        raise ValueError(
            f"y should be a 1d array of labels, got an array of shape {tuple(y.shape)}; a table of "
            'numbers in several columns is read with task="regression".'
        )


def gradient_rounds(
    data, Y, n_rounds: int, queries, count: int, alpha: float, diagonal: bool, n_jobs
) -> Iterator:
    """Yield (map, outer product in the first coordinates) after every round.

    The one driver of the gradient metric: ``data`` are rows in scaled columns and supply slopes and
    linear algebra of their array library; ``queries`` are the rows at which slopes are taken.
    """
    solver = RidgeSolver(n_jobs=n_jobs)
    P = data.identity()
    for _ in range(n_rounds):
        G = data.mapped(P).outer_product(solver, Y, queries, count=count, alpha=alpha)
        product = P @ G @ P.T
        P = P @ data.metric_step(G, floor=_FLOOR, diagonal=diagonal)
        P = P * (P.shape[0] ** 0.5 / namespace(P).sum(P * P) ** 0.5)
        yield P, product


def slope_neighbors(n_features: int, total_weight: float) -> int:
    """Return a neighbourhood that can carry a slope per column without seeing everything."""
    return max(2, int(min(max(40, 2 * n_features), 160, total_weight / 3)))


def slope_queries(n_samples: int, n_features: int, n_neighbors: int, rng) -> np.ndarray:
    """Draw the rows at which slopes are taken."""
    affordable = int(_FLOPS / (n_neighbors * n_features**2 + n_features**3 / 3))
    limit = min(_MAX_QUERIES, max(_MIN_QUERIES, affordable))
    if n_samples <= limit:
        return np.arange(n_samples)
    return np.sort(rng.choice(n_samples, limit, replace=False))
