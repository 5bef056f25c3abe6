import numpy as np
import sklearn
from numpy.testing import assert_array_equal
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel

from vicinal._kernels.subspace import _kernel_kmeans


def _blobs(rng):
    codes = np.repeat([0, 1, 2], 30)
    return rng.normal(scale=0.3, size=(90, 2)) + np.array([[0, 0], [4, 0], [0, 4]])[codes], codes


def test_separated_groups_are_found(rng):
    X, codes = _blobs(rng)
    labels = _kernel_kmeans.kernel_kmeans(X, np.ones(90), 3, 0.2, np.array([0, 30, 60]))
    assert adjusted_rand_score(codes, labels) == 1.0


def test_assignment_is_the_nearest_mean_in_feature_space(rng):
    X, codes = _blobs(rng)
    weights, gamma = rng.uniform(0.5, 2, 90), 0.3
    H, spread = _kernel_kmeans.landmark_model(X, weights, codes, gamma)
    queries = rng.normal(scale=3, size=(25, 2))
    distance = np.empty((25, 3))
    for c in range(3):
        h = weights * (codes == c) / weights[codes == c].sum()
        K = rbf_kernel(X, gamma=gamma)
        distance[:, c] = 1 - 2 * rbf_kernel(queries, X, gamma=gamma) @ h + h @ K @ h
    with sklearn.config_context(working_memory=0.01):
        labels = _kernel_kmeans.assign_by_landmarks(queries, X, H, spread, gamma)
    assert_array_equal(labels, distance.argmin(axis=1))


def test_weight_two_is_the_row_twice(rng):
    X, _ = _blobs(rng)
    X = X + rng.normal(size=X.shape)
    weights = np.where(np.arange(90) % 3 == 0, 2, 1)
    seeds = np.array([1, 31, 61])
    weighted = _kernel_kmeans.kernel_kmeans(X, weights.astype(float), 3, 0.3, seeds)
    starts = np.cumsum(weights) - weights
    repeated = _kernel_kmeans.kernel_kmeans(
        np.repeat(X, weights, axis=0), np.ones(weights.sum()), 3, 0.3, starts[seeds]
    )
    assert_array_equal(repeated[starts], weighted)
