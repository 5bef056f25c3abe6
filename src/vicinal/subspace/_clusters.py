"""Clusters of rows: by nearest centre, or in the feature space of a kernel."""

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin

from vicinal._base import saved
from vicinal._kernels.subspace import _kernel_kmeans
from vicinal.subspace._machines import clustering_rows


@saved(centers="k *")
class CenterClusters:
    """Every row belongs to the nearest of the centres that k-means found."""

    def __init__(self, centers):
        self.centers = centers

    def __len__(self):
        return len(self.centers)

    @classmethod
    def learn(cls, X, weights, n_clusters, rng):
        """Return at most so many clusters of the rows."""
        n_clusters = min(n_clusters, len(np.unique(X, axis=0)) if len(X) < 5000 else len(X))
        if n_clusters == 1:
            return cls(np.average(X, axis=0, weights=weights)[None].astype(X.dtype))
        n_rows = clustering_rows(n_clusters)
        if len(X) > n_rows:
            chosen = np.sort(rng.choice(len(X), n_rows, replace=False))
            X, weights = X[chosen], weights[chosen]
        model = KMeans(n_clusters, n_init=1, max_iter=50, random_state=rng)
        return cls(model.fit(X, sample_weight=weights).cluster_centers_)

    def joined(self, others):
        """Return these clusters and those of others."""
        return CenterClusters(np.vstack([self.centers, *(other.centers for other in others)]))

    def without(self, gone):
        """Return the clusters that are left."""
        return CenterClusters(np.delete(self.centers, gone, axis=0))

    def assign(self, X):
        """Return the cluster of every row."""
        return pairwise_distances_argmin(X, self.centers)


@saved(landmarks="l *", weights="l", labels="l <k", membership="l k", spread="k", centers="k *")
class KernelClusters:
    """Every row belongs to the cluster of landmarks whose mean is nearest in the feature space."""

    def __init__(self, landmarks, weights, labels, gamma, dtype):
        self.landmarks, self.weights, self.gamma = landmarks, weights, gamma
        self.labels = np.unique(labels, return_inverse=True)[1]
        model = _kernel_kmeans.landmark_model(landmarks, weights, self.labels, gamma)
        self.membership, self.spread = model
        self.centers = (self.membership.T @ landmarks).astype(dtype)

    def __len__(self):
        return len(self.centers)

    @classmethod
    def learn(cls, X, weights, n_clusters, rng, *, gamma, n_landmarks):
        """Return at most so many clusters of the rows."""
        n_clusters = min(n_clusters, len(X))
        chosen = np.sort(rng.choice(len(X), min(n_landmarks, len(X)), replace=False))
        landmarks, w = X[chosen].astype(np.float64), weights[chosen]
        seeds = rng.choice(len(landmarks), min(n_clusters, len(landmarks)), replace=False)
        labels = _kernel_kmeans.kernel_kmeans(landmarks, w, len(seeds), gamma, np.sort(seeds))
        return cls(landmarks, w, labels, gamma, X.dtype)

    def joined(self, others):
        """Return these clusters and those of others."""
        parts = [self, *others]
        starts = np.cumsum([0, *map(len, parts[:-1])])
        return KernelClusters(
            np.vstack([part.landmarks for part in parts]),
            np.concatenate([part.weights for part in parts]),
            np.concatenate([p.labels + start for p, start in zip(parts, starts, strict=True)]),
            self.gamma,
            self.centers.dtype,
        )

    def without(self, gone):
        """Return the clusters that are left."""
        keep = ~np.isin(self.labels, gone)
        rows = self.landmarks[keep], self.weights[keep], self.labels[keep]
        return KernelClusters(*rows, self.gamma, self.centers.dtype)

    def assign(self, X):
        """Return the cluster of every row."""
        X = X.astype(np.float64, copy=False)
        return _kernel_kmeans.assign_by_landmarks(
            X, self.landmarks, self.membership, self.spread, self.gamma
        )
