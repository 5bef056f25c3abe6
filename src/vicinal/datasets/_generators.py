"""Generators of the toy problems of the papers, with mixtures whose Bayes error is known."""

from collections.abc import Sequence
from numbers import Integral, Real

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import logsumexp
from sklearn.utils import check_random_state

from vicinal._base._compat import Interval, StrOptions, validate_params


class LabeledMixture:
    r"""A Gaussian mixture whose components carry class labels.

    It draws classification problems whose truth is known: the posterior probability of each class
    at any point, and the least error that any classifier can reach.

    Parameters
    ----------
    means : array-like of shape (n_components, n_features)
        Centres of the components.

    labels : array-like of shape (n_components,), default=None
        Class of each component; several components may share one. By default component ``k`` is
        class ``k``.

    covariances : float or array-like, default=1.0
        A variance shared by all features and components, or an array of shape ``(n_features,)``
        (a shared diagonal), ``(n_features, n_features)`` (a shared matrix) or
        ``(n_components, n_features, n_features)`` (one matrix each).

    weights : array-like of shape (n_components,), default=None
        Shares of the components, rescaled to sum to one. Equal by default.

    Attributes
    ----------
    means : ndarray of shape (n_components, n_features)
        Centres of the components.

    labels : ndarray of shape (n_components,)
        Class of each component.

    covariances : ndarray of shape (n_components, n_features, n_features)
        Covariance matrix of each component.

    weights : ndarray of shape (n_components,)
        Shares of the components, summing to one.

    classes : ndarray of shape (n_classes,)
        Sorted labels.

    See Also
    --------
    make_overlapping_blobs : Draw from the mixtures used to show where classes mix.

    Notes
    -----
    With weights :math:`w_k`, densities :math:`N(x; m_k, S_k)` and labels :math:`c_k` the posterior
    is

    .. math::
        P(c \mid x) = \frac{\sum_{k: c_k = c} w_k N(x; m_k, S_k)}{\sum_k w_k N(x; m_k, S_k)},

    evaluated in logarithms, so that it stays correct far from all centres. The Bayes error is
    :math:`E[1 - \max_c P(c \mid x)]`.

    Examples
    --------
    >>> from vicinal.datasets import LabeledMixture
    >>> mixture = LabeledMixture([[-1.0], [1.0]])
    >>> mixture.posterior([[0.0], [1.0]]).round(3)
    array([[0.5  , 0.5  ],
           [0.119, 0.881]])
    >>> X, y = mixture.sample(6, random_state=0)
    >>> X.shape, sorted(y.tolist())
    ((6, 1), [0, 0, 0, 1, 1, 1])
    """

    def __init__(
        self,
        means: Sequence | np.ndarray,
        labels: Sequence | np.ndarray | None = None,
        *,
        covariances: float | Sequence | np.ndarray = 1.0,
        weights: Sequence | np.ndarray | None = None,
    ) -> None:
        self.means = np.asarray(means, dtype=np.float64)
        if self.means.ndim != 2 or self.means.size == 0 or not np.isfinite(self.means).all():
            raise ValueError(
                f"means has shape {self.means.shape}; it must be a finite array of shape "
                "(n_components, n_features) with at least one of each."
            )
        n_components = len(self.means)
        self.labels = np.arange(n_components) if labels is None else np.asarray(labels)
        if self.labels.shape != (n_components,):
            raise ValueError(
                f"labels has shape {self.labels.shape}; give one label for each of the "
                f"{n_components} components."
            )
        self.classes = np.unique(self.labels)
        self.weights = _check_shares(weights, n_components)
        self.covariances = _expand_covariances(covariances, *self.means.shape)
        try:
            self._factors = [cholesky(S, lower=True) for S in self.covariances]
        except np.linalg.LinAlgError as error:
            raise ValueError("covariances must be positive definite matrices.") from error

    @classmethod
    def overlapping_blobs(cls, pattern: str = "square") -> "LabeledMixture":
        """Return the mixture from which :func:`make_overlapping_blobs` draws.

        Parameters
        ----------
        pattern : {"square", "row"}, default="square"
            Arrangement of the four blobs.

        Returns
        -------
        mixture : LabeledMixture
            Its ``posterior`` tells how uncertain a place truly is.

        Examples
        --------
        >>> from vicinal.datasets import LabeledMixture
        >>> mixture = LabeledMixture.overlapping_blobs("square")
        >>> round(mixture.bayes_error(), 2)
        0.09
        >>> mixture.posterior([[0.0, 2.0], [2.0, 2.0]]).round(2)
        array([[0.5 , 0.5 ],
               [0.99, 0.01]])
        """
        if pattern == "square":
            corners = [[2, 2], [-2, -2], [2, -2], [-2, 2]]
            return cls(corners, [0, 0, 1, 1], covariances=1.44)
        if pattern == "row":
            places = [[-4.5, 0], [-1.5, 1], [1.5, -1], [4.5, 0]]
            return cls(places, [0, 1, 0, 1], covariances=[0.49, 1.44])
        raise ValueError(f"pattern={pattern!r} must be 'square' or 'row'.")

    def __repr__(self) -> str:
        n_components, n_features = self.means.shape
        return (
            f"LabeledMixture(n_components={n_components}, n_features={n_features}, "
            f"n_classes={len(self.classes)})"
        )

    def sample(
        self, n_samples: int, *, shuffle: bool = True, random_state=None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw samples.

        The number drawn from each component is its share of `n_samples`, rounded so that the sum
        is kept; it is not random.

        Parameters
        ----------
        n_samples : int
            Number of samples.

        shuffle : bool, default=True
            Whether to mix the rows; otherwise they are sorted by component.

        random_state : int, RandomState instance or None, default=None
            Seed of the draw.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Samples.

        y : ndarray of shape (n_samples,)
            Their classes.
        """
        if n_samples < 1:
            raise ValueError(f"n_samples={n_samples} must be at least 1.")
        rng = check_random_state(random_state)
        counts = _divide(n_samples, self.weights)
        X = np.concatenate(
            [
                mean + rng.standard_normal((count, len(mean))) @ factor.T
                for mean, factor, count in zip(self.means, self._factors, counts, strict=True)
            ]
        )
        y = np.repeat(self.labels, counts)
        if shuffle:
            order = rng.permutation(n_samples)
            X, y = X[order], y[order]
        return X, y

    def posterior(self, X: Sequence | np.ndarray) -> np.ndarray:
        """Return the true probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Points.

        Returns
        -------
        P : ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of ``classes``.
        """
        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.means.shape[1]:
            raise ValueError(
                f"X has shape {X.shape}; the mixture has {self.means.shape[1]} features, so it "
                f"must be of shape (n_samples, {self.means.shape[1]})."
            )
        joint = self._log_joint(X)
        by_class = np.column_stack(
            [logsumexp(joint[:, self.labels == label], axis=1) for label in self.classes]
        )
        by_class -= logsumexp(by_class, axis=1, keepdims=True)
        return np.exp(by_class)

    def bayes_error(self, *, n_samples: int = 100_000, random_state=0) -> float:
        """Estimate the least error that any classifier can reach.

        Parameters
        ----------
        n_samples : int, default=100_000
            Number of points over which the true conditional error is averaged.

        random_state : int, RandomState instance or None, default=0
            Seed of the points.

        Returns
        -------
        error : float
            Mean of one minus the largest posterior probability.
        """
        X, _ = self.sample(n_samples, shuffle=False, random_state=random_state)
        return float(np.mean(1.0 - self.posterior(X).max(axis=1)))

    def _log_joint(self, X: np.ndarray) -> np.ndarray:
        """Log of weight times density, one column per component, constants left out."""
        columns = []
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights)
        for mean, factor, log_weight in zip(self.means, self._factors, log_weights, strict=True):
            whitened = solve_triangular(factor, (X - mean).T, lower=True)
            half_log_det = np.log(np.diag(factor)).sum()
            columns.append(
                log_weight - half_log_det - 0.5 * np.einsum("ij,ij->j", whitened, whitened)
            )
        return np.column_stack(columns)


def _check_shares(weights: Sequence | np.ndarray | None, n_components: int) -> np.ndarray:
    if weights is None:
        return np.full(n_components, 1.0 / n_components)
    shares = np.asarray(weights, dtype=np.float64)
    if shares.shape != (n_components,) or not (shares >= 0).all() or not 0 < shares.sum() < np.inf:
        raise ValueError(
            f"weights={weights!r} must be {n_components} non-negative numbers, one per component, "
            "that are not all zero."
        )
    return shares / shares.sum()


def _expand_covariances(covariances, n_components: int, n_features: int) -> np.ndarray:
    given = np.asarray(covariances, dtype=np.float64)
    full = (n_components, n_features, n_features)
    if given.ndim == 0:
        given = given * np.eye(n_features)
    elif given.shape == (n_features,):
        given = np.diag(given)
    elif given.shape not in (full[1:], full):
        raise ValueError(
            f"covariances has shape {given.shape}; expected a number or an array of shape "
            f"{(n_features,)}, {full[1:]} or {full}."
        )
    if not np.allclose(given, np.swapaxes(given, -1, -2)):
        raise ValueError("covariances must be symmetric matrices.")
    return np.broadcast_to(given, full).copy()


def _divide(n_samples: int, shares: np.ndarray) -> np.ndarray:
    """Divide a number by shares, the largest remainders rounded up."""
    exact = n_samples * shares
    # 10 * 0.3 may come out as 2.9999999999999996, which is a whole share and not a remainder.
    counts = np.floor(exact + 1e-9).astype(int)
    left = n_samples - counts.sum()
    largest = np.argsort(-(exact - counts), kind="stable")[:left]
    counts[largest] += 1
    return counts


_SAMPLE = {
    "n_samples": [Interval(Integral, 1, None, closed="left")],
    "shuffle": ["boolean"],
    "random_state": ["random_state"],
}


@validate_params(
    {**_SAMPLE, "noise": [Interval(Real, 0, None, closed="left")]},
    prefer_skip_nested_validation=True,
)
def make_xor(
    n_samples: int = 400, *, noise: float = 0.1, shuffle: bool = True, random_state=None
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the XOR problem: four clusters on the corners of a square.

    No line separates the classes, and two regions with a linear model each do: the smallest
    problem that needs a partition.

    Parameters
    ----------
    n_samples : int, default=400
        Number of samples, divided equally among the clusters.

    noise : float, default=0.1
        Standard deviation of the clusters; 0 puts all samples on the four corners, the idealised
        XOR of [1]_, Theorem 2.5.

    shuffle : bool, default=True
        Whether to mix the rows; otherwise they are sorted by cluster.

    random_state : int, RandomState instance or None, default=None
        Seed of the draw.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Samples around (-1, -1), (1, 1), (-1, 1) and (1, -1).

    y : ndarray of shape (n_samples,)
        0 around the first two corners, 1 around the others.

    References
    ----------
    .. [1] J. Wang and V. Saligrama, "Local supervised learning through space partitioning",
       Advances in Neural Information Processing Systems 25, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.datasets import make_xor
    >>> X, y = make_xor(8, noise=0.0, random_state=0)
    >>> bool(np.all(y == (X[:, 0] * X[:, 1] < 0)))
    True
    """
    rng = check_random_state(random_state)
    corners = np.array([[-1.0, -1.0], [1.0, 1.0], [-1.0, 1.0], [1.0, -1.0]])
    cluster = np.sort(np.arange(n_samples) % 4)
    if shuffle:
        cluster = rng.permutation(cluster)
    X = corners[cluster] + noise * rng.standard_normal((n_samples, 2))
    return X, (cluster >= 2).astype(np.int64)


@validate_params(dict(_SAMPLE), prefer_skip_nested_validation=True)
def make_banana(
    n_samples: int = 400, *, shuffle: bool = True, random_state=None
) -> tuple[np.ndarray, np.ndarray]:
    """Draw a problem shaped like the banana benchmark.

    The published benchmark, read by ``load_dataset("banana")``, is a fixed set of 5300 points. This
    stand-in draws as many as wanted from simple shapes laid over them: class 1 is a thick arch
    and a bar above it; class 0 is a roof around the arch, which the bar crosses, and a blob between
    the arch's legs. It has the benchmark's class shares (55 and 45 %) and is about as hard, but
    errors on it are not comparable with published ones.

    Parameters
    ----------
    n_samples : int, default=400
        Number of samples.

    shuffle : bool, default=True
        Whether to mix the rows; otherwise they are sorted by class.

    random_state : int, RandomState instance or None, default=None
        Seed of the draw.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Samples, centred and scaled as the benchmark is.

    y : ndarray of shape (n_samples,)
        Class 0 or 1.

    See Also
    --------
    load_dataset : Reads the published benchmark and its resamplings.

    Examples
    --------
    >>> from vicinal.datasets import make_banana
    >>> X, y = make_banana(1000, random_state=0)
    >>> X.shape, int(y.sum())
    ((1000, 2), 448)
    """
    rng = check_random_state(random_state)
    shapes = (
        (_roof, 0, 0.345),
        (_blob, 0, 0.207),
        (_arch, 1, 0.383),
        (_bar, 1, 0.065),
    )
    counts = np.diff(np.rint(n_samples * np.cumsum([0.0, *(share for *_, share in shapes)])))
    X = np.concatenate([draw(int(n), rng) for (draw, _, _), n in zip(shapes, counts, strict=True)])
    y = np.repeat([label for _, label, _ in shapes], counts.astype(int))
    if shuffle:
        order = rng.permutation(n_samples)
        X, y = X[order], y[order]
    return X, y


def _arch(n: int, rng: np.random.RandomState) -> np.ndarray:
    along = rng.uniform(-1.7, 1.7, n)
    height = 0.1 - 0.45 * along**2 + rng.uniform(-0.8, 0.8, n)
    return np.column_stack([along - 0.25, height]) + 0.12 * rng.standard_normal((n, 2))


def _bar(n: int, rng: np.random.RandomState) -> np.ndarray:
    along = rng.uniform(-0.3, 2.6, n)
    return np.column_stack([along, 1.76 - 0.23 * along + 0.18 * rng.standard_normal(n)])


def _blob(n: int, rng: np.random.RandomState) -> np.ndarray:
    return np.array([-0.28, -1.16]) + np.array([0.44, 0.23]) * rng.standard_normal((n, 2))


def _roof(n: int, rng: np.random.RandomState) -> np.ndarray:
    left, ridge, right = np.array([-2.1, 0.3]), np.array([0.2, 1.7]), np.array([1.7, -0.5])
    share = rng.uniform(size=(n, 1))
    # The right slope is steeper and holds more of the points.
    on_left = rng.uniform(size=(n, 1)) < 0.37
    end = np.where(on_left, left, right)
    return ridge + share * (end - ridge) + 0.26 * rng.standard_normal((n, 2))


@validate_params(
    {**_SAMPLE, "pattern": [StrOptions({"square", "row"})]}, prefer_skip_nested_validation=True
)
def make_overlapping_blobs(
    n_samples: int = 1200, *, pattern: str = "square", shuffle: bool = True, random_state=None
) -> tuple[np.ndarray, np.ndarray]:
    """Draw four Gaussian blobs of two classes that overlap.

    They show where local models belong: a mixture fitted to the density puts its components on
    the blobs, where a single class lives; one guided by uncertainty puts them between the blobs,
    where the classes mix.

    Parameters
    ----------
    n_samples : int, default=1200
        Number of samples, divided equally among the blobs.

    pattern : {"square", "row"}, default="square"
        "square": class 0 at (2, 2) and (-2, -2), class 1 at (2, -2) and (-2, 2), covariance
        1.44 times the identity; Bayes error 9.1 %.
        "row": classes 0, 1, 0, 1 at (-4.5, 0), (-1.5, 1), (1.5, -1) and (4.5, 0), variances 0.49
        and 1.44; Bayes error 2.0 %.

    shuffle : bool, default=True
        Whether to mix the rows; otherwise they are sorted by blob.

    random_state : int, RandomState instance or None, default=None
        Seed of the draw.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Samples.

    y : ndarray of shape (n_samples,)
        Class 0 or 1.

    See Also
    --------
    LabeledMixture.overlapping_blobs : The same mixture with its true posterior.

    Examples
    --------
    >>> from vicinal.datasets import make_overlapping_blobs
    >>> X, y = make_overlapping_blobs(pattern="row", random_state=0)
    >>> X.shape, int(y.sum())
    ((1200, 2), 600)
    """
    mixture = LabeledMixture.overlapping_blobs(pattern)
    return mixture.sample(n_samples, shuffle=shuffle, random_state=random_state)
