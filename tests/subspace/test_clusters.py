"""Clusters that are joined and left out, by centres and in a kernel's feature space."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vicinal.subspace._clusters import CenterClusters, KernelClusters


def centers(*places):
    return CenterClusters(np.array([[place] for place in places]))


def landmarks(*places):
    """One landmark a cluster; labels need not be consecutive."""
    rows = np.array([[place] for place in places])
    return KernelClusters(rows, np.ones(len(rows)), 3 * np.arange(len(rows)), 1.0, np.float32)


@pytest.mark.parametrize("make", [centers, landmarks])
def test_joined_clusters_follow_one_another(make):
    clusters = make(0.0, 1.0).joined([make(5.0), make(7.0, 9.0)])
    assert len(clusters) == 5
    assert_array_equal(clusters.centers[:, 0], [0, 1, 5, 7, 9])
    assert_array_equal(clusters.assign(np.array([[4.6], [0.9], [8.8]])), [2, 1, 4])


@pytest.mark.parametrize("make", [centers, landmarks])
def test_clusters_left_out_close_the_gap(make):
    clusters = make(0.0, 1.0, 5.0).without([1])
    assert_array_equal(clusters.centers[:, 0], [0, 5])
    assert_array_equal(clusters.assign(np.array([[1.0], [4.0]])), [0, 1])


def test_a_cluster_of_landmarks_has_their_weighted_mean():
    rows, weights = np.array([[0.0], [4.0], [9.0]]), np.array([3.0, 1.0, 2.0])
    clusters = KernelClusters(rows, weights, np.array([0, 0, 1]), 0.1, np.float64)
    assert_allclose(clusters.centers, [[1.0], [9.0]])
    # Between h = (3/4, 1/4) at distance 4: h1^2 + h2^2 + 2 h1 h2 exp(-0.1 * 16).
    assert_allclose(clusters.spread, [0.625 + 0.375 * np.exp(-1.6), 1.0])


def test_equal_rows_are_one_cluster(rng):
    X = np.repeat([[1.0, 2.0]], 6, axis=0)
    assert_allclose(CenterClusters.learn(X, np.ones(6), 3, rng).centers, [[1.0, 2.0]])
