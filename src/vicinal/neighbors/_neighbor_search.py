"""Nearest neighbours for local models."""

from collections.abc import Iterator
from numbers import Integral
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.neighbors import VALID_METRICS, VALID_METRICS_SPARSE, BallTree, KDTree
from sklearn.utils.validation import check_is_fitted

from vicinal._base import (
    as_numpy,
    atomic_fit,
    check_is_table,
    documented,
    is_array_api,
    namespace,
    on_device_of,
    query_rows,
    random_seeds,
    store_parameters,
    training_data,
)
from vicinal._base._compat import Interval, StrOptions
from vicinal._kernels.neighbors._nearest import DeviceRows
from vicinal.neighbors._engines import (
    BruteEngine,
    ExcludedRows,
    GraphEngine,
    MetricEngine,
    SmallEngine,
    TreeEngine,
)


class Neighborhoods(NamedTuple):
    """Neighbours of each query in flat arrays, in the layout of a CSR matrix.

    The neighbours of query ``i`` are the entries ``indptr[i]:indptr[i + 1]`` of ``indices`` and
    ``distances``, nearest first, ties by row number.

    Attributes
    ----------
    indptr : array of shape (n_queries + 1,)
        Start and end of the neighbours of each query.
    indices : array of shape (n_pairs,)
        Training rows.
    distances : array of shape (n_pairs,)
        Their distances from the query.
    radii : array of shape (n_queries,)
        Radius of each neighbourhood: every training row within it is listed.

    See Also
    --------
    NeighborSearch : Finds them.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.neighbors import NeighborSearch
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> found = NeighborSearch().fit(X).radius_neighbors([[0.5], [9.0]], radius=1.0)
    >>> found.indptr
    array([0, 2, 2])
    >>> [indices.tolist() for distances, indices in found.split()]
    [[0, 1], []]
    """

    indptr: Any
    indices: Any
    distances: Any
    radii: Any

    def split(self) -> Iterator[tuple[Any, Any]]:
        """Yield distances and indices query by query."""
        for i in range(self.indptr.shape[0] - 1):
            part = slice(int(self.indptr[i]), int(self.indptr[i + 1]))
            yield self.distances[part], self.indices[part]


def starts(queries: Any, n_queries: int) -> Any:
    """Return ``indptr`` of a CSR matrix from the sorted queries of its entries."""
    xp = namespace(queries)
    edges = xp.arange(n_queries + 1, dtype=xp.int64, device=compat.device(queries))
    return xp.searchsorted(xp.sort(queries), edges)


_METRICS = set().union(*VALID_METRICS.values()) - {"precomputed"}
_EUCLIDEAN = ("euclidean", "l2")
_ROWS: dict[str, Any] = {"accept_sparse": "csr", "order": "C"}

# Rows from which a tree beats blocked products, by number of features, for rows of one normal cloud
# (bench_neighbors_tree.py).
_TREE_FROM_ROWS = (0, 0, 0, 0, 20_000, 50_000, 250_000, 1_000_000, np.inf)
_MAX_TREE_FEATURES = 8


@documented
class NeighborSearch(BaseEstimator):
    """Nearest-neighbour search with a fixed order of ties, exact or approximate.

    The search of the local models. Compared with :class:`~sklearn.neighbors.NearestNeighbors` it
    orders equal distances by row number, excludes rows by index or group (duplicates of a row
    stay), computes distances by differences (a duplicate is at distance 0), and works on torch
    tensors on their device. Results do not depend on ``n_jobs``, on ``working_memory`` or on the
    other queries of a call.

    Read more in the :doc:`user guide </guide/neighbors>`.

    Parameters
    ----------
    n_neighbors : int, default=10
        Default number of neighbours per query.
    metric : str or callable, default="euclidean"
        Any metric of scikit-learn's neighbour search except "precomputed".
    metric_params : dict, default=None
        Further arguments of the metric, such as ``{"p": 3}`` for "minkowski".
    algorithm : {"auto", "tree", "brute", "approximate"}, default="auto"
        "tree" is scikit-learn's kd-tree or ball tree, "brute" compares with every row. "auto"
        selects the faster: for the Euclidean metric the tree up to 3 features, and for 4 to 7
        features from 20,000, 50,000, 250,000 and 1,000,000 rows; for other metrics the tree up to 8
        features. Sparse matrices and arrays of other libraries need brute force. "approximate"
        searches a neighbour graph (needs the extra ``approx``) and may not find all neighbours;
        see ``recall_``.
    n_jobs : int, default=None
        Number of threads. ``None`` is 1 unless in a :func:`joblib.parallel_config` context, ``-1``
        is every core. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the neighbour graph and of the rows on which its recall is measured.

    Attributes
    ----------
    algorithm_ : {"tree", "brute", "approximate"}
        The algorithm in use.
    recall_ : float
        Share of the true ``n_neighbors`` neighbours that are found, measured on up to 200
        training rows (each without itself); 1 for the exact algorithms.
    n_samples_fit_ : int
        Number of training rows.

    See Also
    --------
    sklearn.neighbors.NearestNeighbors : Search without these guarantees.

    Notes
    -----
    Brute force computes a lower bound of every squared distance by a matrix product in float32,
    and then distances by differences in float64 for the rows that the bound does not exclude. The
    bound includes the rounding error of the product, so the result is exact; the proof is in
    ``vicinal._kernels.neighbors._nearest``.

    Float32 data give float32 distances, rounded from float64 after the selection.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.neighbors import NeighborSearch
    >>> X = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 7.0], [0.0, 2.0]])
    >>> search = NeighborSearch(n_neighbors=2).fit(X)
    >>> distances, indices = search.kneighbors()
    >>> distances
    array([[0., 2.],
           [0., 2.],
           [5., 7.],
           [2., 2.]])
    >>> indices
    array([[1, 3],
           [0, 3],
           [3, 0],
           [0, 1]])
    """

    _parameter_constraints = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "metric": [StrOptions(_METRICS), callable],
        "metric_params": [dict, None],
        "algorithm": [StrOptions({"auto", "tree", "brute", "approximate"})],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_neighbors=10,
        *,
        metric="euclidean",
        metric_params=None,
        algorithm="auto",
        n_jobs=None,
        random_state=None,
    ):
        store_parameters(self, locals())

    _reference: Any = None  # an empty array of the library of the training rows, None for NumPy

    @atomic_fit
    def fit(self, X, y=None):
        """Prepare the search among the rows of ``X``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows, also of an array-API library.
        y : Ignored
            Present by convention.
        """
        check_is_table(X)
        X = training_data(self, X, arrays=True, **_ROWS).X
        self.n_samples_fit_ = int(X.shape[0])
        self.algorithm_ = self._choose_algorithm(X)
        graph_seed, sample_seed = random_seeds(self.random_state, 2)
        self._engine = self._build_engine(X, graph_seed)
        self.recall_ = self._measure_recall(X, sample_seed)
        return self

    def kneighbors(
        self, X=None, n_neighbors=None, return_distance=True, *, exclude=None, groups=None
    ):
        """Find the nearest training rows of each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
            Queries. ``None`` means the training rows, each without itself.
        n_neighbors : int, default=None
            Number of neighbours; ``None`` means the parameter of that name.
        return_distance : bool, default=True
            Whether to return distances too.
        exclude : array-like of int of shape (n_queries,), default=None
            Training row that each query must not find, -1 for none. Other rows with the same
            values may be found.
        groups : array-like of shape (`n_samples_fit_`,), default=None
            Groups of the training rows. With ``exclude`` (or ``X=None``) the whole group of the
            excluded row is left out.

        Returns
        -------
        distances : array of shape (n_queries, n_neighbors)
            Distances, smallest first; only if ``return_distance``.
        indices : array of shape (n_queries, n_neighbors)
            Training rows; those at the same distance by number.
        """
        if not hasattr(self, "_engine"):  # many times as fast as the check
            check_is_fitted(self)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        if not isinstance(k, Integral) or k < 1:
            raise ValueError(f"n_neighbors={k!r} must be an integer of at least 1.")
        Q, left_out = self._queries(X, exclude, groups)
        n_found = self.n_samples_fit_ - left_out.most
        if k > n_found:
            without = f" without the {left_out.most} left out" if left_out.most else ""
            raise ValueError(
                f"n_neighbors={k} exceeds the {n_found} training rows{without}; lower n_neighbors "
                "or fit on more rows."
            )
        distances, indices = self._engine.nearest(Q, int(k), left_out)
        return (distances, indices) if return_distance else indices

    def radius_neighbors(self, X=None, radius=1.0, *, exclude=None, groups=None):
        """Find all training rows within a radius of each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
            Queries. ``None`` means the training rows, each without itself.
        radius : float or array-like of shape (n_queries,), default=1.0
            Largest distance, the same for all queries or one for each.
        exclude, groups : array-like, default=None
            Rows left out, as for `kneighbors`.

        Returns
        -------
        neighborhoods : Neighborhoods
            Flat arrays ``indptr``, ``indices``, ``distances``, ``radii``.
        """
        check_is_fitted(self)
        Q, left_out = self._queries(X, exclude, groups)
        radii = self._check_radii(radius, Q)
        queries, rows, distances = self._engine.within(Q, radii, left_out)
        return Neighborhoods(starts(queries, Q.shape[0]), rows, distances, radii)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.metric in VALID_METRICS_SPARSE["brute"]
        return tags

    # --- preparation ---

    def _is_euclidean(self):
        params = self.metric_params or {}
        return (self.metric in _EUCLIDEAN and not params) or (
            self.metric == "minkowski" and (params or {"p": 2}) == {"p": 2}
        )

    def _choose_algorithm(self, X):
        treeable = callable(self.metric) or (
            self.metric in KDTree.valid_metrics + BallTree.valid_metrics
        )
        if is_array_api(X) or sparse.issparse(X):
            if self.algorithm in ("tree", "approximate"):
                kind = "a sparse matrix" if sparse.issparse(X) else f"a {type(X).__name__}"
                raise ValueError(
                    f"algorithm={self.algorithm!r} does not support {kind}; use 'brute' or 'auto'."
                )
            return "brute"
        if self.algorithm == "tree" and not treeable:
            raise ValueError(
                f"algorithm='tree' cannot use metric={self.metric!r}; use algorithm='brute' or "
                "'auto'."
            )
        if self.algorithm == "auto":
            return "tree" if treeable and self._tree_pays(X) else "brute"
        return self.algorithm

    def _tree_pays(self, X) -> bool:
        """Return whether a tree is faster than brute force."""
        n, d = X.shape
        if not self._is_euclidean():
            return d <= _MAX_TREE_FEATURES
        is_long = n >= _TREE_FROM_ROWS[min(d, len(_TREE_FROM_ROWS) - 1)]
        return is_long and not SmallEngine.suits(X)

    def _build_engine(self, X, seed):
        euclidean = self._is_euclidean()
        if is_array_api(X):
            if not euclidean:
                raise ValueError(
                    f"metric={self.metric!r} is not available for a {type(X).__name__}; use "
                    "metric='euclidean', or convert X with numpy.asarray."
                )
            return DeviceRows(X)
        metric = "euclidean" if euclidean else self.metric
        settings = X, metric, self.metric_params if not euclidean else None, euclidean, self.n_jobs
        if self.algorithm_ == "approximate":
            return GraphEngine(*settings, self.n_neighbors, seed)
        if self.algorithm_ == "tree":
            return TreeEngine(*settings)
        if euclidean and not sparse.issparse(X):
            return SmallEngine(X) if SmallEngine.suits(X) else BruteEngine(X, self.n_jobs)
        return MetricEngine(*settings)

    def __saved_state__(self):
        """Return the state for a model file: of the engine only the rows."""
        state = dict(vars(self))
        if hasattr(self, "_engine"):
            state["_engine"] = self._engine.X
        return state

    def __restore__(self, state):
        """Restore the state of a model file and build the engine."""
        vars(self).update(state)
        rows = state.get("_engine")
        if rows is not None:
            if rows.shape != (self.n_samples_fit_, self.n_features_in_):
                raise ValueError(
                    f"NeighborSearch rows have shape {rows.shape}, which does not fit."
                )
            self._engine = self._build_engine(rows, random_seeds(self.random_state, 2)[0])

    def _measure_recall(self, X, seed):
        """Return the share of exact neighbours found for some training rows."""
        k = min(self.n_neighbors, X.shape[0] - 1)
        if self.algorithm_ != "approximate" or k == 0:
            return 1.0
        sample = np.random.RandomState(seed).permutation(X.shape[0])[:200]
        left_out = self._leave_out(sample, None, X)
        exact = clone(self).set_params(algorithm="auto").fit(X)._engine
        wanted = exact.nearest(X[sample], k, left_out)[0][:, -1:]
        found = self._engine.nearest(X[sample], k, left_out)[0]
        # By distance, so that any row of a tie counts.
        return float(np.mean(found <= wanted * (1 + 1e-6)))

    # --- arguments ---

    def _queries(self, X, exclude, groups):
        """Return validated queries and the rows they exclude."""
        n_rows = self.n_samples_fit_
        if X is None:
            Q = self._engine.X
            exclude = np.arange(n_rows) if exclude is None else exclude
        else:
            Q = self._validated(X)
        if exclude is None and groups is None and not sparse.issparse(Q):
            # Made where the queries are, because copies to a device take longer.
            xp, device = namespace(Q), compat.device(Q)
            none = xp.full(Q.shape[0], -1, dtype=xp.int64, device=device)
            return Q, ExcludedRows(xp.arange(n_rows, device=device), none, 0)
        if exclude is None:
            exclude = np.full(Q.shape[0], -1)
        exclude = np.asarray(exclude)
        if exclude.shape != (Q.shape[0],) or exclude.dtype.kind not in "iu":
            raise ValueError(
                f"exclude must hold one row number for each of the {Q.shape[0]} queries, -1 for "
                f"none; got shape {exclude.shape} and dtype {exclude.dtype}."
            )
        if exclude.size and not -1 <= exclude.min() <= exclude.max() < n_rows:
            raise ValueError(
                f"exclude holds row numbers from {exclude.min()} to {exclude.max()}, but the "
                f"training rows are 0 to {n_rows - 1} (-1 for none)."
            )
        return Q, self._leave_out(exclude, groups, Q)

    def _validated(self, X):
        """Return queries as the training rows are: sparse or dense, of their precision."""
        rows = self._engine.X
        X = query_rows(self, X, arrays=True, dtype=rows.dtype, **_ROWS)
        if sparse.issparse(rows):
            return sparse.csr_matrix(X)
        return X.toarray() if sparse.issparse(X) else namespace(X).astype(X, rows.dtype, copy=False)

    def _leave_out(self, exclude, groups, Q):
        some = exclude >= 0
        if groups is None:
            row_codes = np.arange(self.n_samples_fit_)
            most = int(some.any())
            query_codes = exclude.astype(np.int64)
        else:
            groups = np.asarray(groups)
            if groups.shape != (self.n_samples_fit_,):
                raise ValueError(
                    f"groups must hold one label for each of the {self.n_samples_fit_} training "
                    f"rows, got shape {groups.shape}."
                )
            _, row_codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
            query_codes = np.where(some, row_codes[exclude], -1)
            most = int(sizes[query_codes[some]].max()) if some.any() else 0
        return ExcludedRows(on_device_of(row_codes, Q), on_device_of(query_codes, Q), most)

    def _check_radii(self, radius, Q):
        radii = np.asarray(as_numpy(radius), dtype=np.float64)
        if radii.shape not in ((), (Q.shape[0],)):
            raise ValueError(
                f"radius must be a number or one for each of the {Q.shape[0]} queries, got shape "
                f"{radii.shape}."
            )
        if not (radii >= 0).all():
            raise ValueError(f"radius={radius!r} must not be negative or NaN.")
        radii = np.array(np.broadcast_to(radii, Q.shape[0]))
        if sparse.issparse(Q):
            return radii
        return namespace(Q).asarray(radii, device=compat.device(Q))
