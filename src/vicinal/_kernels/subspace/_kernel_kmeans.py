"""Clusters in the feature space of an RBF kernel, from a sample of landmark rows."""

import numpy as np
from scipy.spatial.distance import cdist

from vicinal._base import row_blocks


def _rbf(X, Z, gamma):
    return np.exp(-gamma * cdist(X, Z, "sqeuclidean"))


def _members(labels, weights, n_clusters):
    """One column per cluster, summing to one over its members."""
    H = np.zeros((len(labels), n_clusters))
    H[np.arange(len(labels)), labels] = weights
    return H / np.maximum(H.sum(axis=0), 1e-300)


def kernel_kmeans(
    X: np.ndarray,
    weights: np.ndarray,
    n_clusters: int,
    gamma: float,
    seeds: np.ndarray,
    *,
    max_iter: int = 50,
) -> np.ndarray:
    r"""Label the rows by Lloyd iterations in the feature space; ``seeds`` are starting rows.

    The squared distance of a row to a cluster ``c`` is
    :math:`1 - 2 \sum_{j \in c} h_j K(x, x_j) + \sum_{j, l \in c} h_j h_l K(x_j, x_l)`, with
    :math:`h` the weights normalised within the cluster. An emptied cluster stays empty.
    """
    K = _rbf(X, X, gamma)
    labels = K[:, seeds].argmax(axis=1)
    for _ in range(max_iter):
        H = _members(labels, weights, n_clusters)
        KH = K @ H
        spread = (H * KH).sum(axis=0)
        distance = np.where(H.any(axis=0), spread - 2.0 * KH, np.inf)
        new = distance.argmin(axis=1)
        if np.array_equal(new, labels):
            break
        labels = new
    return labels


def landmark_model(landmarks: np.ndarray, weights: np.ndarray, labels: np.ndarray, gamma: float):
    """Return (H, spread), what ``assign_by_landmarks`` needs; labels must be 0..k-1."""
    H = _members(labels, weights, int(labels.max()) + 1)
    return H, (H * (_rbf(landmarks, landmarks, gamma) @ H)).sum(axis=0)


def assign_by_landmarks(
    X: np.ndarray, landmarks: np.ndarray, H: np.ndarray, spread: np.ndarray, gamma: float
) -> np.ndarray:
    """Return the nearest cluster of every row in the feature space."""
    labels = np.empty(X.shape[0], dtype=np.intp)
    for rows in row_blocks(X.shape[0], 24 * len(landmarks)):
        labels[rows] = (spread - 2.0 * _rbf(X[rows], landmarks, gamma) @ H).argmin(axis=1)
    return labels
