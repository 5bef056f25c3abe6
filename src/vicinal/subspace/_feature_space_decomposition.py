"""Divide a feature space into subspaces: random, principal, discriminant, and by blocks."""

import warnings
from math import ceil
from numbers import Integral, Real

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from array_api_compat import device as device_of
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import (
    atomic_fit,
    atomic_fit_blocks,
    check_same_library,
    documented,
    is_array_api,
    namespace,
    positive_rows,
    saved,
    validate_array_api,
    weighted_device_rows,
)
from vicinal._base._compat import Interval, StrOptions
from vicinal._kernels.linear import _scatter
from vicinal.subspace._row_sums import MAX_SCATTER, BlockSums, RowSums, take_columns

_DEFAULT_DIRECTIONS = 256

_BLOCK_METHODS = ("cholesky", "approximate")
_VANISHED = (
    "{} of X varies by more than rounding, because squares of its numbers vanish; scale X first, "
    "for example with sklearn.preprocessing.StandardScaler."
)


@saved(constant_="p", mean_="p", _maps="* | * *")
@documented
class FeatureSpaceDecomposition(TransformerMixin, BaseEstimator):
    r"""Divide the feature space into subspaces, after a linear map that sets them apart.

    A decomposition is a pair: a transform ``x* = W x`` of the features, and groups of the new
    features, one per subspace [1]_. Local models fitted on the subspaces see different sides of
    the data; :class:`SubspaceFusionClassifier` joins them.

    ============================  ===================================================  ==========
    ``method``                    transform                                            groups
    ============================  ===================================================  ==========
    ``"random"`` (RD)             none                                                 subsets
    ``"principal"`` (PCA)         eigenvectors of the scatter matrix                   subsets
    ``"discriminant"`` (DCA)      scatter against scatter within classes (needs y)     subsets
    ``"cholesky"`` (BCD)          each block less what the blocks before it tell       partitions
    ``"approximate"`` (ABD)       mixtures of whole blocks, orthogonal on average      partitions
    ============================  ===================================================  ==========

    Read more in the :doc:`user guide </guide/subspace>`.

    Parameters
    ----------
    method : {"random", "principal", "discriminant", "cholesky", "approximate"}, default="random"
        The transform. ``"random"`` and ``"approximate"`` keep sparse input sparse and take
        millions of columns.
    n_subspaces : int, default=4
        Number of subsets drawn; for the methods with subsets.
    subspace_size : int, float or None, default=0.75
        Size of each subset: a count, or a share of the available columns (rounded up). With
        ``None`` the columns are partitioned into ``n_blocks`` blocks, ``n_repeats`` times,
        instead of drawing subsets. The methods with blocks always partition.
    n_blocks : int, default=2
        Number of blocks of a partition; lowered, with a warning, when there are fewer columns.
    n_repeats : int, default=2
        Number of partitions, each with its own order of the columns, giving
        ``n_blocks * n_repeats`` subspaces.
    n_components : int, default=None
        Number of leading directions kept by ``"principal"``. ``None`` keeps every direction with
        variance, or 256 when there are more than 5000 columns (they are then found without
        forming the scatter matrix).
    shrinkage : float, default=1e-3
        Share of the mean scatter within classes that is added to its diagonal, for
        ``"discriminant"``. It also ranks the directions beyond the first ``n_classes - 1``, whose
        eigenvalues would otherwise all equal one.
    random_state : int, RandomState instance or None, default=None
        Draws the groups, and the order and alignment of the blocks.

    Attributes
    ----------
    n_subspaces_ : int
        Number of subspaces; one that would be empty is left out.
    groups_ : list of ndarray
        For every subspace the rows of its transform that it is made of.
    partition_of_ : ndarray of shape (`n_subspaces_`,)
        For every subspace the index of its transform in ``components_``.
    components_ : list of ndarray or sparse array
        The transforms ``W``, one, or one per partition for the methods with blocks. Formed when
        asked for.
    eigenvalues_ : list of ndarray
        What the transform was ranked by: eigenvalues of the scatter matrix, of the discriminant
        problem, or of the block Gram matrix of every partition; empty for the other methods.
    mean_ : ndarray of shape (`n_features_in_`,)
        Mean about which scatter was measured. It is not subtracted by ``transform``.
    constant_ : ndarray of bool of shape (`n_features_in_`,)
        Columns that never vary; they belong to no subspace.
    classes_ : ndarray
        The classes, for ``"discriminant"``.

    See Also
    --------
    SubspaceFusionClassifier : Fits a model on every subspace and joins them.
    sklearn.decomposition.PCA : Principal components as one transform.

    Notes
    -----
    With :math:`S = \sum_n w_n (x_n - \mu)(x_n - \mu)^\top`:

    - PCA: :math:`S = V \Lambda V^\top`, :math:`W = V^\top`.
    - DCA: :math:`S v = \lambda (S_w + \rho I) v` (equation 3 of [1]_), :math:`S_w` being the
      scatter within classes. The vectors are orthogonal in the metric :math:`S_w + \rho I`, and
      are scaled to unit length.
    - BCD: block elimination (equation 4 of [1]_). With the Cholesky factor
      :math:`S = L L^\top` in the order of the blocks,
      :math:`W = \mathrm{blockdiag}(L_{11}, \dots, L_{mm}) L^{-1}`: block :math:`i` becomes its
      residual after least squares on the blocks before it, and :math:`W S W^\top` is block
      diagonal. Singular blocks are handled with a pseudo-inverse, and columns that the blocks
      before them tell entirely are left out.
    - ABD: :math:`G_{ij} = \langle X_i, X_j \rangle_F` over pairs of blocks (equation 5 of [1]_,
      read as an :math:`m \times m` matrix), :math:`G = V \Lambda V^\top`, and the new block
      :math:`k` is :math:`\sum_j v_{jk} X_j`. Narrow blocks count as padded with zeros, so that
      :math:`\langle X^*_k, X^*_l \rangle_F = \lambda_k \delta_{kl}` about the mean.

    The map is linear and nothing is subtracted from the data: scatter is measured about the mean
    for dense and sparse input alike, and a sparse row stays sparse. The scatter of torch tensors
    and other array-API arrays is summed where they are; only matrices of the size of the columns
    travel to the host, and transformed rows stay on the device.

    References
    ----------
    .. [1] Q. Guo, B.-W. Chen, F. Jiang, X. Ji and S.-Y. Kung, "Efficient divide-and-conquer
       classification based on feature-space decomposition", arXiv:1501.07584, 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_wine
    >>> from vicinal.subspace import FeatureSpaceDecomposition
    >>> X, y = load_wine(return_X_y=True)
    >>> parts = FeatureSpaceDecomposition("cholesky", n_blocks=3, random_state=0).fit(X)
    >>> first, second = (parts.transform_subspace(X, i) for i in (0, 1))
    >>> centered = lambda Z: Z - Z.mean(axis=0)
    >>> bool(np.allclose(centered(first).T @ centered(second), 0.0, atol=1e-6))
    True
    """

    _parameter_constraints: dict = {
        "method": [StrOptions({"random", "principal", "discriminant", "cholesky", "approximate"})],
        "n_subspaces": [Interval(Integral, 1, None, closed="left")],
        "subspace_size": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="right"),
            None,
        ],
        "n_blocks": [Interval(Integral, 1, None, closed="left")],
        "n_repeats": [Interval(Integral, 1, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "shrinkage": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        method="random",
        *,
        n_subspaces=4,
        subspace_size=0.75,
        n_blocks=2,
        n_repeats=2,
        n_components=None,
        shrinkage=1e-3,
        random_state=None,
    ):
        self.method = method
        self.n_subspaces = n_subspaces
        self.subspace_size = subspace_size
        self.n_blocks = n_blocks
        self.n_repeats = n_repeats
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.random_state = random_state

    @atomic_fit
    def fit(self, X, y=None, sample_weight=None):
        """Learn the transform and draw the groups.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,), default=None
            Classes, for ``method="discriminant"``; ignored otherwise.
        """
        self._learn(RowSums(*self._validate_training(X, y, sample_weight)))
        return self

    @atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit to a table in blocks of rows, from sums over them: equal to a fit in memory."""
        self._reference = None
        self._learn(BlockSums(blocks, self.method == "discriminant"))

    def transform_subspace(self, X, i):
        """Return the features of one subspace.

        Parameters
        ----------
        i : int
            Index of the subspace.

        Returns
        -------
        X_sub : {ndarray, sparse array} of shape (n_samples, len(groups_[i]))
            Sparse for sparse ``X`` and ``method`` ``"random"`` or ``"approximate"``.
        """
        check_is_fitted(self)
        X = self._validate_queries(X)
        if not 0 <= i < self.n_subspaces_:
            raise IndexError(
                f"subspace {i!r} does not exist; there are {self.n_subspaces_}, counted from 0."
            )
        return self._transform_valid(X, i)

    def transform(self, X):
        """Return the features of all subspaces, side by side.

        Returns
        -------
        X_star : {ndarray, sparse array} of shape (n_samples, sum of the sizes of the groups)
            The subspaces in order.
        """
        check_is_fitted(self)
        X = self._validate_queries(X)
        parts = [self._transform_valid(X, i) for i in range(self.n_subspaces_)]
        if is_array_api(X):
            return namespace(X).concat(parts, axis=1)
        if sp.issparse(parts[0]):
            return sp.hstack(parts, format="csr")
        return np.hstack(parts)

    def get_feature_names_out(self, input_features=None):
        """Return a name for every column that ``transform`` gives.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the original columns; by default those seen in ``fit``, or ``x0``, ``x1``...

        Returns
        -------
        names : ndarray of str
            The method, the number of the subspace, and the column or direction.
        """
        check_is_fitted(self)
        if input_features is None:
            default = [f"x{c}" for c in range(self.n_features_in_)]
            input_features = getattr(self, "feature_names_in_", default)
        elif len(input_features) != self.n_features_in_:
            raise ValueError(
                f"input_features has {len(input_features)} names, but there are "
                f"{self.n_features_in_} features; give one name each."
            )
        keeps_columns = self.method in ("random", "cholesky")
        return np.array(
            [
                f"{self.method}{i}_{input_features[c] if keeps_columns else c}"
                for i, group in enumerate(self.groups_)
                for c in group
            ],
            dtype=object,
        )

    @property
    def components_(self):
        """The transforms ``W``, formed from their compact state."""
        check_is_fitted(self)
        n_features = self.n_features_in_
        if self.method == "random":
            return [sp.eye_array(n_features, format="csr")]
        if self.method != "approximate":
            return list(self._maps)
        stacks = []
        for blocks, vectors in self._maps:
            parts = [_scatter.mixing_matrix(n_features, blocks, v).T for v in vectors.T]
            stacks.append(sp.vstack(parts, format="csr"))
        return stacks

    # --- learning ---------------------------------------------------------------------------------

    def _learn(self, rows):
        """Learn from sums over rows, wherever the rows are; see ``RowSums``."""
        rng = check_random_state(self.random_state)
        self.constant_, self.mean_ = rows.constant_columns(), rows.means()
        columns = np.flatnonzero(~self.constant_)
        if not len(columns):
            raise ValueError(
                f"every column of X is constant over the n_samples={rows.n_samples} rows given; "
                "subspaces need columns that vary. Give more rows."
            )
        if self.method in _BLOCK_METHODS:
            self._fit_blocks(rows, columns, rng)
        else:
            self._fit_directions(rows, columns, rng)
        self.n_subspaces_ = len(self.groups_)

    def _fit_directions(self, rows, columns, rng):
        """One transform; the groups are subsets, or blocks, of its directions."""
        self.eigenvalues_ = []
        if self.method == "random":
            available = columns
            self._maps = [None]
        else:
            values, directions = self._directions(rows, columns, rng)
            components = np.zeros((len(directions), len(self.mean_)), dtype=rows.dtype)
            components[:, columns] = directions
            self.eigenvalues_ = [values]
            self._maps = [components]
            available = np.arange(len(directions))
        if not len(available):
            raise ValueError(_VANISHED.format("no direction"))
        if self.subspace_size is None:
            n_blocks = self._blocks_for(len(available))
            self.groups_ = [
                np.sort(block)
                for _ in range(self.n_repeats)
                for block in np.array_split(rng.permutation(available), n_blocks)
            ]
        else:
            size = self._size_for(len(available))
            self.groups_ = [
                np.sort(rng.choice(available, size, replace=False)) for _ in range(self.n_subspaces)
            ]
        self.partition_of_ = np.zeros(len(self.groups_), dtype=np.intp)

    def _directions(self, rows, columns, rng):
        """Return eigenvalues and directions in the columns that vary."""
        center, n_columns = self.mean_[columns], len(columns)
        if self.method == "principal" and n_columns > MAX_SCATTER:
            smaller = min(rows.n_samples, n_columns)
            wanted = max(1, min(self.n_components or _DEFAULT_DIRECTIONS, smaller - 1))
            start = rng.uniform(-1.0, 1.0, size=smaller)
            return rows.leading_directions(columns, center, wanted, start)
        self._refuse_wide(rows, columns)
        Z, basis = rows.centered(columns, center), None
        if Z is not None:  # every direction with variance is in the space of the rows
            Z, basis = _scatter.row_space(Z)
            if not len(basis):
                return np.empty(0), basis
            rows, columns, center = rows.in_coordinates(Z), np.arange(len(basis)), 0.0 * Z[0]
        if self.method == "principal":
            values, directions = _scatter.principal_directions(rows.scatter(columns, center))
            values, directions = values[: self.n_components], directions[: self.n_components]
        else:
            self.classes_, counts, means, within = rows.within_classes(columns)
            between = ((means - center).T * counts) @ (means - center)
            values, directions = _scatter.discriminant_directions(
                between, within, self.shrinkage, n_columns
            )
        return values, directions if basis is None else _scatter.fix_signs(directions @ basis)

    def _fit_blocks(self, rows, columns, rng):
        """One transform per partition of the columns; the blocks are the groups."""
        n_blocks = self._blocks_for(len(columns))
        partitions = [
            np.array_split(rng.permutation(columns), n_blocks) for _ in range(self.n_repeats)
        ]
        self.groups_, owners, self._maps, self.eigenvalues_ = [], [], [], []
        if self.method == "cholesky":
            self._refuse_wide(rows, columns)
            Z = rows.centered(columns, self.mean_[columns])
            S = rows.scatter(columns, self.mean_[columns]) if Z is None else None
            if not (np.diag(S).all() if Z is None else (Z**2).sum(axis=0).all()):
                raise ValueError(_VANISHED.format("not every column"))
            found = [self._eliminate(columns, blocks, S, Z, rows.dtype) for blocks in partitions]
        else:
            grams = rows.block_grams(self.mean_, partitions)
            found = [self._mix(*pair) for pair in zip(partitions, grams, strict=True)]
        for number, groups in enumerate(found):
            self.groups_ += groups
            owners += [number] * len(groups)
        if not owners:
            raise ValueError(_VANISHED.format("no block"))
        self.partition_of_ = np.array(owners, dtype=np.intp)

    def _eliminate(self, columns, blocks, S, Z, dtype):
        """Learn the transform of one partition from the scatter matrix S, or from few rows Z."""
        places = [np.searchsorted(columns, block) for block in blocks]
        n_features = len(self.mean_)
        if Z is None:
            W, kept = _scatter.block_elimination(S, places)
            full = np.zeros((n_features, n_features), dtype=dtype)
            full[np.ix_(columns, columns)] = W
        else:
            W, kept = _scatter.row_block_elimination(Z, places)
            W = W.tocoo()
            entries = W.data.astype(dtype), (columns[W.row], columns[W.col])
            full = sp.csr_array(entries, shape=(n_features, n_features))
        self._maps.append(full)
        groups = [np.sort(columns[place[kept[place]]]) for place in places]
        return [group for group in groups if len(group)]

    def _mix(self, blocks, G):
        values, vectors = scipy.linalg.eigh(G)
        values, vectors = values[::-1], vectors[:, ::-1]
        vectors = _scatter.fix_signs(vectors.T).T
        width = max(len(block) for block in blocks)
        self._maps.append((blocks, vectors))
        self.eigenvalues_.append(values)
        return [
            np.arange(k * width, (k + 1) * width)
            for k in range(len(values))
            if values[k] > 1e-12 * values[0]
        ]

    def _refuse_wide(self, rows, columns):
        if rows.order(columns) > 4 * MAX_SCATTER:
            raise ValueError(
                f"method={self.method!r} takes at most {4 * MAX_SCATTER} rows or as many varying "
                f"columns, got {rows.n_samples} rows and {len(columns)} columns; use "
                "method='random' or 'approximate', or reduce the columns first."
            )

    def _blocks_for(self, n_columns):
        if self.n_blocks > n_columns:
            warnings.warn(
                f"n_blocks={self.n_blocks} exceeds the {n_columns} columns that vary; "
                f"{n_columns} blocks are used.",
                UserWarning,
                stacklevel=4,
            )
        return min(self.n_blocks, n_columns)

    def _size_for(self, n_columns):
        if isinstance(self.subspace_size, Integral) and not isinstance(self.subspace_size, bool):
            return min(int(self.subspace_size), n_columns)
        return max(1, ceil(self.subspace_size * n_columns - 1e-9))

    # --- data -------------------------------------------------------------------------------------

    def _validate(self, X, y):
        options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        if self.method != "discriminant":
            return validate_data(self, X, **options), None
        if y is None:
            raise ValueError(
                "method='discriminant' requires y to be passed, but the target y is None; pass "
                "the classes, or use method='principal', which needs none."
            )
        return validate_data(self, X, y, **options)

    def _validate_training(self, X, y, sample_weight):
        """Return the rows that weigh something, their classes, and their weights."""
        if is_array_api(X):
            return self._validate_device_training(X, y, sample_weight)
        self._reference = None
        weights, X, y = positive_rows(sample_weight, *self._validate(X, y))
        return X, y, weights

    def _validate_device_training(self, X, y, sample_weight):
        if y is None and self.method == "discriminant":
            self._validate(X, y)
        X = validate_array_api(self, X, reset=True)
        xp = namespace(X)
        wanted = y if self.method == "discriminant" else X
        X, y, weights = weighted_device_rows(X, wanted, sample_weight, dtype=xp.float64)
        if weights is None:
            weights = xp.ones(X.shape[0], dtype=xp.float64, device=device_of(X))
        # An empty array that tells library and device of the rows.
        self._reference = X[:0, :]
        return X, y, weights

    def _validate_queries(self, X):
        if self._reference is not None:
            check_same_library(self._reference, X)
            return validate_array_api(self, X, reset=False)
        return validate_data(
            self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32]
        )

    def _transform_valid(self, X, i):
        """``transform_subspace`` without checks, for callers that validated X."""
        group = self.groups_[i]
        if self.method == "random":
            return take_columns(X, group)
        transform = self._maps[self.partition_of_[i]]
        if self.method == "approximate":
            blocks, vectors = transform
            width = max(len(block) for block in blocks)
            return _scatter.mix_blocks(X, blocks, vectors[:, group[0] // width])
        chosen = transform[group].T
        if is_array_api(X):
            return _scatter.device_map(X, chosen.toarray() if sp.issparse(chosen) else chosen)
        mapped = X @ chosen
        return mapped.toarray() if sp.issparse(mapped) else np.asarray(mapped)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = self.method == "discriminant"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
