"""Divide a feature space into subspaces: random, principal, discriminant, and by blocks."""

import warnings
from dataclasses import dataclass, replace
from math import ceil
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from vicinal import _base
from vicinal._base._compat import Interval, StrOptions, check_feature_names_in
from vicinal._kernels.linear import _scatter

# Above this many columns a scatter matrix and its eigenvectors are no longer formed.
MAX_SCATTER = 5000
_DEFAULT_DIRECTIONS = 256

# Of the parameters that the fusion shares.
SUBSPACE_CONSTRAINTS: dict = {
    "n_subspaces": [Interval(Integral, 1, None, closed="left")],
    "subspace_size": [
        Interval(Integral, 1, None, closed="left"),
        Interval(Real, 0, 1, closed="right"),
        None,
    ],
    "n_blocks": [Interval(Integral, 1, None, closed="left")],
}

_VANISHED = (
    "{} of X varies by more than rounding, because squares of its numbers vanish; scale X first, "
    "for example with sklearn.preprocessing.StandardScaler."
)


@_base.saved(constant_="p", mean_="p", _maps="* | * *")
@_base.documented
class FeatureSpaceDecomposition(TransformerMixin, BaseEstimator):
    r"""Decomposition of the feature space into subspaces, after a linear transform.

    A decomposition has a transform ``x* = W x`` of the features, and groups of the new features,
    one per subspace [1]_. :class:`SubspaceFusionClassifier` fits a model on every subspace and
    combines them.

    ============================  ===================================================  ==========
    ``method``                    transform                                            groups
    ============================  ===================================================  ==========
    ``"random"`` (RD)             none                                                 subsets
    ``"principal"`` (PCA)         eigenvectors of the scatter matrix                   subsets
    ``"discriminant"`` (DCA)      scatter against scatter within classes (needs y)     subsets
    ``"cholesky"`` (BCD)          residual of each block on the previous blocks        partitions
    ``"approximate"`` (ABD)       linear combinations of blocks, nearly orthogonal     partitions
    ============================  ===================================================  ==========

    Read more in the :doc:`user guide </guide/subspace>`.

    Parameters
    ----------
    method : {"random", "principal", "discriminant", "cholesky", "approximate"}, default="random"
        The transform. ``"random"`` and ``"approximate"`` return sparse output for sparse input and
        work for millions of columns.
    n_subspaces : int, default=4
        Number of random subsets, for the methods with subsets.
    subspace_size : int, float or None, default=0.75
        Size of each subset: a count, or a share of the available columns (rounded up). With
        ``None`` the columns are partitioned into ``n_blocks`` blocks, ``n_repeats`` times. The
        methods with blocks always partition.
    n_blocks : int, default=2
        Number of blocks of a partition; lowered, with a warning, when there are fewer columns.
    n_repeats : int, default=2
        Number of partitions, each with its own order of the columns, giving
        ``n_blocks * n_repeats`` subspaces.
    n_components : int, default=None
        Number of leading directions of ``"principal"``. ``None`` means all directions with
        variance, or 256 if there are more than 5000 columns (then the scatter matrix is not
        formed).
    shrinkage : float, default=1e-3
        Share of the mean scatter within classes that is added to its diagonal, for
        ``"discriminant"``. It also ranks the directions beyond the first ``n_classes - 1``, whose
        eigenvalues would otherwise all equal one.
    random_state : int, RandomState instance or None, default=None
        Seed of the groups, and of the order and alignment of the blocks.

    Attributes
    ----------
    n_subspaces_ : int
        Number of subspaces that are not empty.
    groups_ : list of ndarray
        For every subspace the rows of its transform that it is made of.
    partition_of_ : ndarray of shape (`n_subspaces_`,)
        For every subspace the index of its transform in ``components_``.
    components_ : list of ndarray or sparse array
        The transforms ``W``, one, or one per partition for the methods with blocks.
    eigenvalues_ : list of ndarray
        Values that order the directions: eigenvalues of the scatter matrix, of the discriminant
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
      diagonal. Singular blocks are handled with a pseudo-inverse, and columns that are linear
      functions of the previous blocks are dropped.
    - ABD: :math:`G_{ij} = \langle X_i, X_j \rangle_F` over pairs of blocks (equation 5 of [1]_,
      read as an :math:`m \times m` matrix), :math:`G = V \Lambda V^\top`, and the new block
      :math:`k` is :math:`\sum_j v_{jk} X_j`. Narrow blocks are padded with zeros, so that
      :math:`\langle X^*_k, X^*_l \rangle_F = \lambda_k \delta_{kl}` about the mean.

    The map is linear and nothing is subtracted from the data: scatter is measured about the mean
    for dense and sparse input alike, and a sparse row stays sparse. Torch tensors and other
    array-API arrays stay on their device; only the scatter matrix is copied to the host.

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
        **SUBSPACE_CONSTRAINTS,
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
        _base.store_parameters(self, locals())

    @_base.atomic_fit
    def fit(self, X, y=None, sample_weight=None):
        """Learn the transform and choose the groups.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,), default=None
            Classes, for ``method="discriminant"``; ignored otherwise.
        """
        options: dict = {"arrays": True, "accept_sparse": "csr"}
        if self.method == "discriminant":
            if y is None:
                raise ValueError(
                    "method='discriminant' requires y to be passed, but the target y is None; pass "
                    "the classes, or use method='principal'."
                )
            options["task"] = "classification"
        else:
            y = None
        data = _base.training_data(self, X, y, sample_weight, **options)
        constant = _scatter.constant_columns(data.X)
        mean = _scatter.column_means(data.X, data.weights)
        dtype = np.float32 if data.X.dtype == data.xp.float32 else np.float64
        self._learn(SummedRows(data, len(data), constant, mean, data.classes, dtype, data))
        return self

    @_base.atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit to a table in blocks of rows, from sums over them: equal to a fit in memory."""
        self._reference = None
        blocks, found = _base.survey(blocks, has_classes=self.method == "discriminant")
        constant, mean = found.moments.constant, found.moments.mean
        encoded = blocks.then(encoded_block, found.classes)
        self._learn(SummedRows(encoded, found.n_rows, constant, mean, found.classes, np.float64))

    def _learn(self, rows: "SummedRows") -> None:
        rng = check_random_state(self.random_state)
        self.constant_, self.mean_ = rows.constant, rows.mean
        if rows.classes is not None:
            self.classes_ = rows.classes
        if not len(rows.columns):
            raise ValueError(
                f"Every column of X is constant over the n_samples={rows.n_samples} rows given; "
                "give more rows."
            )
        learn = _learn_blocks if self.method in ("cholesky", "approximate") else _learn_directions
        self._maps, learned, self.eigenvalues_ = learn(self, rows, rng)
        self.groups_ = [group for groups in learned for group in groups]
        owners = np.repeat(np.arange(len(learned)), list(map(len, learned)))
        self.partition_of_, self.n_subspaces_ = owners.astype(np.intp), len(owners)

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
        X = _base.query_rows(self, X, accept_sparse="csr")
        if not 0 <= i < self.n_subspaces_:
            raise IndexError(f"i={i!r} is not a subspace; use 0 to {self.n_subspaces_ - 1}.")
        return self._transform_valid(X, i)

    def transform(self, X):
        """Return the features of all subspaces, side by side.

        Returns
        -------
        X_star : {ndarray, sparse array} of shape (n_samples, sum of the sizes of the groups)
            The subspaces in order.
        """
        X = _base.query_rows(self, X, accept_sparse="csr")
        parts = [self._transform_valid(X, i) for i in range(self.n_subspaces_)]
        if sp.issparse(parts[0]):
            return sp.hstack(parts, format="csr")
        return _base.namespace(parts[0]).concat(parts, axis=1)

    def _transform_valid(self, X, i):
        """``transform_subspace`` without checks, for callers that validated X."""
        group = self.groups_[i]
        if self.method == "random":
            return _scatter.take_columns(X, group)
        transform = self._maps[self.partition_of_[i]]
        if self.method == "approximate":
            blocks, vectors = transform
            width = max(len(block) for block in blocks)
            return _scatter.mix_blocks(X, blocks, vectors[:, group[0] // width])
        return _scatter.map_rows(X, transform[group].T)

    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns of ``transform``.

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
        names = check_feature_names_in(self, input_features)
        keeps_columns = self.method in ("random", "cholesky")
        return np.array(
            [
                f"{self.method}{i}_{names[c] if keeps_columns else c}"
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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = self.method == "discriminant"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(frozen=True)
class SummedRows:
    """Sums over rows in memory, on a device, or in blocks."""

    data: _base.TrainingData | _base.Blocks  # blocks of training data
    n_samples: int
    constant: np.ndarray
    mean: np.ndarray
    classes: Any
    dtype: Any
    in_memory: _base.TrainingData | None = None

    @property
    def columns(self) -> np.ndarray:
        """Columns that vary."""
        return np.flatnonzero(~self.constant)

    @property
    def center(self) -> np.ndarray:
        """Means of the columns that vary."""
        return self.mean[self.columns]

    def centered(self) -> np.ndarray | None:
        """Return rows whose product is the scatter matrix, if they are fewer than columns."""
        data = self.in_memory
        if data is None or len(data) >= len(self.columns):
            return None
        X = _scatter.take_columns(data.X, self.columns)
        return _scatter.centered_rows(X, data.weights, self.center)

    def scatter(self) -> np.ndarray:
        """Return the scatter matrix of the columns that vary."""
        return self.data.total(_sum_scatter, self.columns, self.center, False)

    def refuse_wide(self, method: str) -> None:
        """Raise if the matrix to decompose is too large."""
        n_columns = len(self.columns)
        order = n_columns if self.in_memory is None else min(self.n_samples, n_columns)
        if order > 4 * MAX_SCATTER:
            raise ValueError(
                f"method={method!r} takes at most {4 * MAX_SCATTER} rows or as many varying "
                f"columns, got {self.n_samples} rows and {n_columns} columns; use "
                "method='random' or 'approximate', or reduce the columns first."
            )


# Transforms, the groups of each, and their eigenvalues.
Learned = tuple[list, list[list[np.ndarray]], list[np.ndarray]]


def encoded_block(block: _base.TrainingData, classes: Any) -> _base.TrainingData:
    """Return a block of dense rows, with codes for labels if there are classes."""
    y = block.y if classes is None else np.searchsorted(classes, block.y)
    return replace(block, X=_base.dense(block), y=y, classes=classes)


def _sum_scatter(data: _base.TrainingData, columns, centers, by_class: bool) -> np.ndarray:
    X, codes = _scatter.take_columns(data.X, columns), data.y if by_class else None
    return _scatter.scatter_matrix(X, data.weights, centers, codes)


def _sum_classes(data: _base.TrainingData, columns) -> tuple:
    X = _scatter.take_columns(data.X, columns)
    return _scatter.class_sums(X, data.y, data.weights, len(data.classes))


def _sum_grams(data: _base.TrainingData, mean, partitions) -> np.ndarray:
    return np.stack([_scatter.block_gram(data.X, data.weights, mean, p) for p in partitions])


# --- one transform, with subsets of its directions ------------------------------------------------


def _learn_directions(model: FeatureSpaceDecomposition, rows: SummedRows, rng) -> Learned:
    """Learn one transform; the groups are subsets, or blocks, of its directions."""
    maps: list = [None]
    available, eigenvalues = rows.columns, []
    if model.method != "random":
        values, directions = _directions(model, rows, rng)
        components = np.zeros((len(directions), len(rows.mean)), dtype=rows.dtype)
        components[:, rows.columns] = directions
        maps, eigenvalues, available = [components], [values], np.arange(len(directions))
    if not len(available):
        raise ValueError(_VANISHED.format("no direction"))
    size = model.subspace_size
    if size is None:
        groups = [block for blocks in _partitions(model, available, rng) for block in blocks]
    else:
        if not isinstance(size, Integral):
            size = max(1, ceil(size * len(available) - 1e-9))
        size = min(int(size), len(available))
        groups = [rng.choice(available, size, replace=False) for _ in range(model.n_subspaces)]
    return maps, [[np.sort(group) for group in groups]], eigenvalues


def _directions(model: FeatureSpaceDecomposition, rows: SummedRows, rng) -> tuple:
    """Return eigenvalues and directions in the columns that vary."""
    n_columns, data = len(rows.columns), rows.in_memory
    is_wide = model.method == "principal" and n_columns > MAX_SCATTER
    if is_wide and data is not None:
        smaller = min(rows.n_samples, n_columns)
        wanted = max(1, min(model.n_components or _DEFAULT_DIRECTIONS, smaller - 1))
        start = rng.uniform(-1.0, 1.0, size=smaller)
        X = _scatter.take_columns(data.X, rows.columns)
        weights = data.host(data.weights)
        return _scatter.leading_principal_directions(X, weights, rows.center, wanted, start)
    rows.refuse_wide(model.method)
    Z, basis = rows.centered(), None
    if data is not None and Z is not None:  # all variance is in the space of the rows
        Z, basis = _scatter.row_space(Z)
        if not len(basis):
            return np.empty(0), basis
        weights, none = data.host(data.weights), np.zeros(len(basis), dtype=bool)
        codes = None if data.y is None else data.host(data.y)
        inner = _base.TrainingData(Z / np.sqrt(weights)[:, None], codes, data.classes, weights)
        rows = SummedRows(inner, rows.n_samples, none, 0.0 * Z[0], rows.classes, rows.dtype)
    if model.method == "principal":
        values, directions = _scatter.principal_directions(rows.scatter())
        values, directions = values[: model.n_components], directions[: model.n_components]
    else:
        counts, sums = rows.data.total(_sum_classes, rows.columns, combine=_base.add_tuples)
        means = sums / counts[:, None]
        within = rows.data.total(_sum_scatter, rows.columns, means, True)
        between = ((means - rows.center).T * counts) @ (means - rows.center)
        values, directions = _scatter.discriminant_directions(
            between, within, model.shrinkage, n_columns
        )
    return values, directions if basis is None else _scatter.fix_signs(directions @ basis)


def _partitions(model: FeatureSpaceDecomposition, columns: np.ndarray, rng) -> list[list]:
    """Return blocks of columns in random order, several times."""
    if model.n_blocks > len(columns):
        warnings.warn(
            f"n_blocks={model.n_blocks} exceeds the {len(columns)} columns that vary; "
            f"{len(columns)} blocks are used.",
            UserWarning,
            stacklevel=5,
        )
    n_blocks = min(model.n_blocks, len(columns))
    return [np.array_split(rng.permutation(columns), n_blocks) for _ in range(model.n_repeats)]


# --- one transform per partition of the columns ---------------------------------------------------


def _learn_blocks(model: FeatureSpaceDecomposition, rows: SummedRows, rng) -> Learned:
    """Learn one transform per partition of the columns; the blocks are the groups."""
    partitions = _partitions(model, rows.columns, rng)
    if model.method == "approximate":
        grams = rows.data.total(_sum_grams, rows.mean, partitions)
        found = [_mix(*pair) for pair in zip(partitions, grams, strict=True)]
    else:
        rows.refuse_wide(model.method)
        Z = rows.centered()
        if Z is None:
            S = rows.scatter()
            squares = np.diag(S)
        else:
            S, squares = None, (Z**2).sum(axis=0)
        if not squares.all():
            raise ValueError(_VANISHED.format("not every column"))
        found = [_eliminate(blocks, rows, S, Z) for blocks in partitions]
    maps, groups, eigenvalues = (list(part) for part in zip(*found, strict=True))
    if not any(groups):
        raise ValueError(_VANISHED.format("no block"))
    return maps, groups, [values for values in eigenvalues if values is not None]


def _eliminate(blocks: list[np.ndarray], rows: SummedRows, S, Z) -> tuple:
    """Learn the transform of one partition from the scatter matrix S, or from few rows Z."""
    columns, n_features = rows.columns, len(rows.mean)
    positions = [np.searchsorted(columns, block) for block in blocks]
    if Z is None:
        W, kept = _scatter.block_elimination(S, positions)
        full = np.zeros((n_features, n_features), dtype=rows.dtype)
        full[np.ix_(columns, columns)] = W
    else:
        W, kept = _scatter.row_block_elimination(Z, positions)
        W = W.tocoo()
        entries = W.data.astype(rows.dtype), (columns[W.row], columns[W.col])
        full = sp.csr_array(entries, shape=(n_features, n_features))
    groups = [np.sort(columns[own[kept[own]]]) for own in positions]
    return full, [group for group in groups if len(group)], None


def _mix(blocks: list[np.ndarray], G: np.ndarray) -> tuple:
    """Learn mixtures of whole blocks from their Gram matrix."""
    values, vectors = scipy.linalg.eigh(G)
    values, vectors = values[::-1], _scatter.fix_signs(vectors[:, ::-1].T).T
    width = max(len(block) for block in blocks)
    kept = np.flatnonzero(values > 1e-12 * values[0])
    return (blocks, vectors), [np.arange(k * width, (k + 1) * width) for k in kept], values
