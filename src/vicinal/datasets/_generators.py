"""Toy problems of the papers."""

from numbers import Integral, Real

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.utils import check_random_state

from vicinal._base._compat import Interval, StrOptions, validate_params

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
    """XOR problem: four clusters on the corners of a square.

    No line separates the classes; two regions with a linear model each do. It is the smallest
    problem that needs a partition.

    Parameters
    ----------
    n_samples : int, default=400
        Number of samples, divided equally among the clusters.

    noise : float, default=0.1
        Standard deviation of the clusters; 0 puts all samples on the four corners, the idealised
        XOR of [1]_, Theorem 2.5.

    shuffle : bool, default=True
        Whether to shuffle the rows; otherwise they are sorted by cluster.

    random_state : int, RandomState instance or None, default=None
        Seed of the samples.

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
    """Synthetic problem shaped like the banana benchmark.

    The published benchmark is a fixed set of 5300 points. This generator samples any number of
    points from simple shapes fitted to them: class 1 is a thick arch and a bar above it; class 0
    is a roof around the arch, which the bar crosses, and a blob between the arch's legs. The class
    shares (55 and 45 %) and the difficulty are those of the benchmark, but errors are not
    comparable with published ones.

    Parameters
    ----------
    n_samples : int, default=400
        Number of samples.

    shuffle : bool, default=True
        Whether to shuffle the rows; otherwise they are sorted by class.

    random_state : int, RandomState instance or None, default=None
        Seed of the samples.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Samples, centred and scaled as the benchmark is.

    y : ndarray of shape (n_samples,)
        Class 0 or 1.

    Examples
    --------
    >>> from vicinal.datasets import make_banana
    >>> X, y = make_banana(1000, random_state=0)
    >>> X.shape, int(y.sum())
    ((1000, 2), 448)
    """
    rng = check_random_state(random_state)
    shapes = ((_roof, 0, 0.345), (_blob, 0, 0.207), (_arch, 1, 0.383), (_bar, 1, 0.065))
    counts = np.diff(np.rint(n_samples * np.cumsum([0.0, *(share for *_, share in shapes)])))
    X = np.concatenate([part(int(n), rng) for (part, _, _), n in zip(shapes, counts, strict=True)])
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


class LabeledMixture:
    """Gaussian mixture of equal weights whose components carry class labels.

    Parameters
    ----------
    means : ndarray of shape (n_components, n_features)
        Centres of the components.
    labels : ndarray of shape (n_components,)
        Class of each component.
    variances : ndarray of shape (n_features,)
        Variances of the features, shared by all components.
    """

    def __init__(self, means, labels, variances):
        self.means = np.asarray(means, dtype=np.float64)
        self.labels = np.asarray(labels)
        self.scale = np.sqrt(variances)
        self.classes = np.unique(self.labels)

    def sample(self, n_samples: int, *, shuffle: bool = True, random_state=None):
        """Return samples and their classes; every component has the same share of them."""
        rng = check_random_state(random_state)
        component = np.sort(np.arange(n_samples) % len(self.means))
        X = self.means[component] + self.scale * rng.standard_normal((n_samples, len(self.scale)))
        order = rng.permutation(n_samples) if shuffle else np.arange(n_samples)
        return X[order], self.labels[component][order]

    def posterior(self, X) -> np.ndarray:
        """Return the true probability of each class, computed in logarithms."""
        Z = (np.asarray(X, dtype=np.float64)[:, None] - self.means) / self.scale
        joint = norm.logpdf(Z).sum(axis=2)
        by_class = np.column_stack(
            [logsumexp(joint[:, self.labels == label], axis=1) for label in self.classes]
        )
        return np.exp(by_class - logsumexp(by_class, axis=1, keepdims=True))

    def bayes_error(self, *, n_samples: int = 100_000, random_state=0) -> float:
        """Estimate the smallest possible error, as the mean of 1 - max P(class | x)."""
        X, _ = self.sample(n_samples, shuffle=False, random_state=random_state)
        return float(np.mean(1.0 - self.posterior(X).max(axis=1)))


_BLOBS = {
    "square": ([[2, 2], [-2, -2], [2, -2], [-2, 2]], [0, 0, 1, 1], [1.44, 1.44]),
    "row": ([[-4.5, 0], [-1.5, 1], [1.5, -1], [4.5, 0]], [0, 1, 0, 1], [0.49, 1.44]),
}


@validate_params(
    {**_SAMPLE, "pattern": [StrOptions(set(_BLOBS))], "return_mixture": ["boolean"]},
    prefer_skip_nested_validation=True,
)
def make_overlapping_blobs(
    n_samples: int = 1200,
    *,
    pattern: str = "square",
    shuffle: bool = True,
    random_state=None,
    return_mixture: bool = False,
) -> tuple:
    """Four overlapping Gaussian blobs of two classes.

    They show where local models belong. A mixture fitted to the density puts its components on the
    blobs, each of which has one class. A mixture guided by uncertainty puts them between the
    blobs, where the classes overlap.

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
        Whether to shuffle the rows; otherwise they are sorted by blob.

    random_state : int, RandomState instance or None, default=None
        Seed of the samples.

    return_mixture : bool, default=False
        Whether to return the distribution of the samples as well.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Samples.

    y : ndarray of shape (n_samples,)
        Class 0 or 1.

    mixture : LabeledMixture
        The distribution, with ``return_mixture=True``: ``mixture.posterior(X)`` returns the true
        probability of each class and ``mixture.bayes_error()`` the smallest error that a
        classifier can reach; ``means`` and ``labels`` are those of the blobs.

    Examples
    --------
    >>> from vicinal.datasets import make_overlapping_blobs
    >>> X, y, mixture = make_overlapping_blobs(random_state=0, return_mixture=True)
    >>> X.shape, int(y.sum())
    ((1200, 2), 600)
    >>> mixture.posterior([[0.0, 2.0], [2.0, 2.0]]).round(2)
    array([[0.5 , 0.5 ],
           [0.99, 0.01]])
    >>> round(mixture.bayes_error(), 2)
    0.09
    """
    mixture = LabeledMixture(*_BLOBS[pattern])
    X, y = mixture.sample(n_samples, shuffle=shuffle, random_state=random_state)
    return (X, y, mixture) if return_mixture else (X, y)
