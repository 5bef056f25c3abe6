"""A linear metric learned from the slopes of local models."""

from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from array_api_compat import device as device_of
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from vicinal._base import (
    Progress,
    TrainingData,
    as_numpy,
    atomic_fit,
    documented,
    namespace,
    query_rows,
    saved,
    store_parameters,
    training_data,
    weighted_mean,
)
from vicinal._base._compat import RUN_CONSTRAINTS, Interval, StrOptions
from vicinal._base._tables import sampled_rows
from vicinal._kernels.local._batched import gradient_outer_product, metric_step
from vicinal._kernels.local._smoothing import column_scale
from vicinal.local._data import local_weights
from vicinal.local._neighborhoods import NearestRule
from vicinal.local._rows import Coordinates, LocalRows, RowMapping, map_rows
from vicinal.local._solvers import RidgeSolver
from vicinal.neighbors import NeighborSearch

# Least scale of a direction, relative to the largest.
_FLOOR = 1e-3
# Number of rows at which slopes are computed, between two limits by cost.
_MAX_QUERIES, _MIN_QUERIES, _FLOPS = 500, 200, 2e9
# Largest number of rows among which their neighbours are searched.
_MAX_ROWS = 100_000


@saved(mean_="p", scale_="p", components_="k p")
@documented
class GradientMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Linear map learned from local slopes, which shrinks columns that do not change the target.

    The mean outer product of the slopes of local linear models shows along which directions the
    target changes. The map stretches those and shrinks the others; then the slopes are computed
    again in the new coordinates, for ``n_rounds`` rounds. Use it as a transformer before k-nearest
    neighbours or any other model based on distances, or pass it to a local model as ``metric=``.

    Read more in the :doc:`user guide </guide/metric>`.

    Parameters
    ----------
    n_rounds : int, default=3
        Number of rounds. One or two suit noisy class labels; up to six help where many columns are
        irrelevant and the target is smooth.
    n_neighbors : int or "auto", default="auto"
        Size of the neighbourhoods of the local models; ``"auto"`` is twice the number of
        columns, between 40 and 160 and at most a third of the rows.
    alpha : float or "auto", default="auto"
        Ridge penalty of the slopes, relative to the spread of the neighbourhood; ``"auto"`` is 1
        for classification and 0.1 for regression.
    diagonal : bool, default=False
        Only scale the columns, without rotating them.
    standardize : bool, default=True
        Scale the columns to unit variance first; ``False`` for columns of one unit, such as
        principal axes, whose spread is informative.
    task : {"auto", "classification", "regression"}, default="auto"
        ``"auto"`` is regression if y has fractional values, or more than 20 distinct values that
        make up over a tenth of the rows; otherwise classification.
    n_jobs : int, default=None
        Number of threads. ``None`` is 1 unless in a :func:`joblib.parallel_config` context, ``-1``
        is every core. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the rows at which slopes are computed, and of a sample of 100,000 rows where there
        are more.

    Attributes
    ----------
    mean_, scale_ : ndarray of shape (n_features,)
        Mean and scale of the columns; the scale is 1 for constant columns, and for all columns
        without ``standardize``.
    components_ : ndarray of shape (n_features, n_features)
        Map of the scaled columns: ``transform(X) = (X - mean_) / scale_ @ components_.T``.
    maps_ : ndarray of shape (n_rounds, n_features, n_features)
        Map reached after every round; the last is ``components_.T``.
    outer_products_ : ndarray of shape (n_rounds, n_features, n_features)
        Gradient outer product of every round, in the scaled columns.
    feature_importances_ : ndarray of shape (n_features,)
        Length of each scaled column under the map, as a share of the sum.

    See Also
    --------
    LocalClassifier : Selects the number of rounds by cross-fitting.
    sklearn.neighbors.NeighborhoodComponentsAnalysis : A metric for nearest neighbours, by descent.

    Notes
    -----
    With the slopes :math:`B_q` of local ridge models on class indicators or targets,
    :math:`G = \operatorname{mean}_q B_q^\top B_q = U \operatorname{diag}(w_j) U^\top` is the
    expected gradient outer product [1]_, and a round maps the coordinates by
    :math:`U \operatorname{diag}(w_j^{1/4} + 10^{-3} w_1^{1/4}) U^\top`. The fourth root moves
    half-way to the metric :math:`G` itself. The floor keeps every direction, because a direction
    that is lost cannot come back. Neighbourhoods of one class have slope 0.

    Array-API arrays such as torch tensors stay on their device, as do the fitted attributes.

    The map uses y, so leave-one-out within neighbourhoods is far too optimistic: cross-validate the
    whole pipeline.

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
        **RUN_CONSTRAINTS,
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
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Learn the map.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Class labels, or targets.
        """
        rows, rounds = self._begin(X, y, sample_weight)
        maps, products = [], []
        with Progress(self.n_rounds, "GradientMetric", verbose=self.verbose) as progress:
            for P, G in rounds:
                maps.append(P)
                products.append(G)
                progress.advance()
        self._keep(rows, maps, products)
        return self

    def _begin(self, X, y, sample_weight=None) -> tuple[LocalRows, Iterator]:
        """Return the scaled rows, and an iterator over (map, outer product) of the rounds."""
        data = self._read(X, y, sample_weight)
        xp = data.xp
        self.mean_, self.scale_ = column_scale(data.X, data.sample_weight)
        if not self.standardize:
            self.scale_ = xp.ones_like(self.scale_)
        Z = (data.X - self.mean_) / self.scale_
        Z = xp.where(xp.abs(Z) < 1e-150, xp.zeros_like(Z), Z)  # their squares underflow
        search = NeighborSearch(n_jobs=self.n_jobs)
        rows = map_rows(replace(data, X=Z), RowMapping(Coordinates()), search)
        alpha = 1.0
        if rows.n_classes is None:  # targets in units of their spread
            centred = rows.y - rows.prior()
            spread = xp.sqrt(weighted_mean(centred * centred, rows.sample_weight))
            spread = xp.where(spread > 0.0, spread, xp.ones_like(spread))
            rows, alpha = replace(rows, y=centred / spread), 0.1
        return rows, self._rounds(rows, alpha if self.alpha == "auto" else self.alpha)

    def _rounds(self, rows: LocalRows, alpha: float) -> Iterator:
        """Yield (map, outer product in the first coordinates) after every round.

        ``rows`` are in scaled columns, on the host or on a device.
        """
        xp = namespace(rows.rows)
        k = self._count_neighbors(rows.n_columns, rows.total_weight)
        affordable = int(_FLOPS / (k * rows.n_columns**2 + rows.n_columns**3 / 3))
        limit = min(_MAX_QUERIES, max(_MIN_QUERIES, affordable))
        queries = sampled_rows(rows.n_samples, limit, self.random_state)
        solver = rows.suited(RidgeSolver(n_jobs=self.n_jobs))
        P = xp.eye(rows.n_columns, dtype=xp.float64, device=device_of(rows.rows))
        for _ in range(self.n_rounds):
            X = rows.rows @ xp.astype(P, rows.rows.dtype)
            mapped = replace(rows, rows=X, index=rows.index.over(X), given=None)
            G = _mean_outer_product(mapped, solver, queries, NearestRule(float(k)), alpha)
            product = P @ G @ P.T
            P = P @ metric_step(G, floor=_FLOOR, diagonal=self.diagonal)
            P = P * (P.shape[0] ** 0.5 / xp.sum(P * P) ** 0.5)
            yield P, product

    def _read(self, X, y, sample_weight) -> TrainingData:
        """Return the training data; labels become codes."""
        if y is None:
            raise ValueError("GradientMetric requires y to be passed, but the target y is None.")
        options: dict = {"arrays": True, "multi_output": True, "ensure_min_samples": 2}
        data = local_weights(training_data(self, X, y, sample_weight, **options))
        n = len(data)
        if n < 3:
            raise ValueError(f"Found {n} sample(s) of positive weight; at least 3 are needed.")
        if n > _MAX_ROWS:
            data = data.take(sampled_rows(n, _MAX_ROWS, self.random_state))
        task, shape = self._task(as_numpy(data.y)), tuple(data.y.shape)
        if task == "classification" and len(shape) != 1:
            raise ValueError(
                f"y should be a 1d array of labels, got an array of shape {shape}; use "
                'task="regression" for several targets.'
            )
        return data.encoded(task)

    def _mappings(self, data: TrainingData, located=None) -> Iterator[RowMapping]:
        """Yield the coordinates after each round."""
        X = data.X if located is None else data.X[:, np.flatnonzero(located)]
        _, rounds = self._begin(X, data.y, data.sample_weight)
        for P, _ in rounds:
            matrix = namespace(P).astype(P, self.scale_.dtype) / self.scale_[:, None]
            yield RowMapping(Coordinates(matrix, self.mean_), located)

    def _keep(self, rows: LocalRows, maps, products) -> None:
        xp, Z = namespace(rows.rows), rows.rows
        self.maps_ = xp.astype(xp.stack(maps), Z.dtype)
        self.outer_products_ = xp.astype(xp.stack(products), Z.dtype)
        P = maps[-1]
        self.components_ = xp.astype(P.T, Z.dtype)
        varies = xp.astype(xp.max(Z, axis=0) > xp.min(Z, axis=0), P.dtype)
        lengths = xp.sqrt(xp.sum(P * P, axis=1)) * varies
        total = xp.sum(lengths)
        total = xp.where(total > 0.0, total, xp.ones_like(total))
        self.feature_importances_ = xp.astype(lengths / total, Z.dtype)

    def _task(self, y) -> str:
        if self.task != "auto":
            return self.task
        if np.asarray(y).dtype.kind in "OUSb":
            return "classification"
        is_count = len(np.unique(y)) > max(20, 0.1 * len(y))
        is_number = is_count or np.ndim(y) == 2 or np.any(y != np.rint(y))
        return "regression" if is_number else "classification"

    def _count_neighbors(self, n_features: int, total: float) -> int:
        k = self.n_neighbors
        if k == "auto":  # enough for a slope per column
            k = max(2, int(min(max(40, 2 * n_features), 160, total / 3)))
        if k >= total:
            raise ValueError(
                f"n_neighbors={k} must be below the {total:g} samples given (counted by weight); "
                "lower n_neighbors."
            )
        return k

    def _linear_map(self):
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
        X = query_rows(self, X)
        xp = namespace(X)
        Z = (xp.astype(X, self.components_.dtype) - self.mean_) / self.scale_
        return xp.astype(Z @ self.components_.T, X.dtype, copy=False)

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


def _mean_outer_product(rows: LocalRows, solver, queries, rule, alpha: float) -> Any:
    """Return the mean outer product of leave-one-out slopes at some rows."""
    xp, weights = namespace(rows.rows), rows.weights
    G: Any = 0.0
    total = 0.0
    for _, own, _, design, found in rows.left_out([rule], queries):
        gradients = solver.slopes(rows, design, found, alpha)
        share = xp.take(weights, own, axis=0)
        mass = float(xp.sum(share))
        G = G + gradient_outer_product(gradients, share) * mass
        total += mass
    return G / total
