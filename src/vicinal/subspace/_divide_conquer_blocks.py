"""A machine for every cluster: rows travel once, to the task that trains their cluster."""

from typing import Any

import numpy as np
from sklearn.base import clone

from vicinal._base import (
    Block,
    Blocks,
    Survey,
    class_factors,
    dense,
    draw_seeds,
    refuse,
    sample_rows,
    survey,
)
from vicinal.subspace._machines import clustering_rows, fit_machine, scale_gamma, score_out_of_fold
from vicinal.subspace._slope_blocks import slope_of

# Clusters are sent in this many bundles at least, so that tasks stay few and bundles small.
_BUNDLES = 32


def fit_divide_conquer(model: Any, blocks: Blocks) -> None:
    """Fit the classifier in place: centres from a sample, one pass to count, one to send rows."""
    refuse(model, prediction="early", why="by blocks of rows, since the joint machine needs all")
    blocks, found = survey(blocks, has_classes=True)
    mean, variance = found.moments.mean, found.moments.variance
    codes = np.arange(len(found.classes))
    scale = scale_gamma(mean, variance + mean**2)
    model._set_scales(found.classes, scale, np.float64)
    counts = found.class_weights
    factors = model.C * class_factors(model.class_weight, found.classes, codes, counts)
    seeds = draw_seeds(model.random_state, 3)
    n_clusters = model._wanted_clusters(found.n_rows)
    model._divide(DrawnRows(blocks, found, n_clusters, seeds[0]), n_clusters, scale, seeds[0])
    bundles = _bundles(model, blocks, factors)
    trained = bundles.gather(_train_bundle, model._machine())
    model.estimators_ = [machine for group in trained for machine in group]
    if model.probability:
        shared = model._machine(), len(model.classes_), draw_seeds(seeds[2], model.n_clusters_)
        model.slope_ = slope_of(bundles.then(_score_bundle, *shared), found)


class DrawnRows:
    """A sample from which clusters are learned, counted over the whole table."""

    def __init__(self, blocks: Blocks, found: Survey, n_clusters: int, seed: int):
        self.blocks = blocks
        sample = sample_rows(blocks, found, clustering_rows(n_clusters), seed)
        self.X, self.weights = sample.X, sample.sample_weight
        self.labels: np.ndarray = np.zeros(len(self.X), dtype=np.int64)

    def count(self, clusters: Any) -> np.ndarray:
        """Assign every row; return the number of rows in each cluster."""
        self.labels = clusters.assign(self.X)
        return self.blocks.total(_count_clusters, clusters)

    def members(self, c: int) -> tuple[np.ndarray, np.ndarray]:
        """Return sampled rows of a cluster, and their weights."""
        chosen = np.flatnonzero(self.labels == c)
        return self.X[chosen], self.weights[chosen]


def _labels(block: Block, clusters: Any) -> np.ndarray:
    return clusters.assign(dense(block)) if len(block) else np.zeros(0, dtype=np.int64)


def _count_clusters(block: Block, clusters: Any) -> np.ndarray:
    return np.bincount(_labels(block, clusters), minlength=len(clusters))


def _bundles(model: Any, blocks: Blocks, factors: np.ndarray) -> Blocks:
    """Return a block for every bundle of clusters: the clusters and the rows of each."""
    n_bundles = min(model.n_clusters_, max(_BUNDLES, len(blocks)))
    bundles = np.array_split(np.arange(model.n_clusters_), n_bundles)
    own = [(clusters,) for clusters in bundles]
    return blocks.regrouped(_split, _join, own, model, factors, bundles)


def _split(block: Block, model: Any, factors: np.ndarray, bundles: list) -> list:
    """Return the rows of a block for every bundle: rows, codes, bounds, weights, clusters."""
    labels = _labels(block, model._clusters)
    codes = np.searchsorted(model.classes_, block.y)
    bounds = block.sample_weight * factors[codes]
    columns = block.X, codes, bounds, block.sample_weight, labels
    chosen = [np.flatnonzero((labels >= b[0]) & (labels <= b[-1])) for b in bundles]
    return [tuple(column[rows] for column in columns) for rows in chosen]


def _join(pieces: list, clusters: np.ndarray) -> list:
    """Return each cluster with its rows, codes, bounds and weights, in the order of the table."""
    *columns, labels = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    chosen = [(c, np.flatnonzero(labels == c)) for c in clusters]
    return [(c, *(column[rows] for column in columns)) for c, rows in chosen]


def _train_bundle(bundle: list, machine: Any) -> list:
    return [fit_machine(clone(machine), X, codes, bounds) for _, X, codes, bounds, _ in bundle]


def _score_bundle(bundle: list, machine: Any, n_classes: int, seeds: list) -> Block:
    """Return scores by machines that did not see the row in place of rows, codes for targets."""
    scores, codes, weights = [], [], []
    for cluster, X, own, bounds, weight in bundle:
        found = score_out_of_fold(clone(machine), X, own, bounds, n_classes, seeds[cluster])
        scores.append(found if n_classes > 2 else 0.5 * np.column_stack([-found, found]))
        codes.append(own)
        weights.append(weight)
    return Block(np.vstack(scores), np.concatenate(codes), np.concatenate(weights))
