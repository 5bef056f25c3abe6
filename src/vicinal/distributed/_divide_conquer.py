"""A machine for every cluster: rows travel once, to the task that trains their cluster."""

import numpy as np
from dask import delayed

from vicinal._base import draw_seeds
from vicinal.distributed._blocks import Block, Blocks
from vicinal.distributed._compute import compute
from vicinal.distributed._fit import fits
from vicinal.distributed._moments import dense, table_moments
from vicinal.distributed._partition import refuse
from vicinal.distributed._sample import sample_rows
from vicinal.distributed._slope import slope_of
from vicinal.distributed._survey import Survey, survey
from vicinal.subspace import DivideConquerSVC
from vicinal.subspace._divide_conquer_svc import (
    clustering_rows,
    fit_machine,
    scale_gamma,
    score_out_of_fold,
)

# Clusters are sent in this many bundles at least, so that tasks stay few and bundles small.
_BUNDLES = 32


@fits(DivideConquerSVC)
def fit_divide_conquer(model: DivideConquerSVC, blocks: Blocks, verbose: int) -> None:
    """Fit the classifier in place: centres from a sample, one pass to count, one to send rows."""
    refuse(model, prediction="early", why="by blocks of rows, since the joint machine needs all")
    blocks, found = survey(blocks, has_classes=True, verbose=verbose)
    moments = table_moments(found)
    model.classes_, model._dtype = found.classes, "float64"
    scale = scale_gamma(moments.mean, moments.variance + moments.mean**2)
    model.gamma_ = scale if model.gamma == "scale" else float(model.gamma)
    model._landmark_gamma = model.cluster_gamma or scale
    codes = np.arange(len(found.classes))
    factors = model.C * model._class_factors(codes, found.class_weights)
    seeds = draw_seeds(model.random_state, 3)
    n_clusters = model._wanted_clusters(found.n_rows)
    model._divide(DrawnRows(blocks, found, n_clusters, seeds[0], verbose), n_clusters, seeds[0])
    bundles = _bundles(model, blocks, factors)
    _train(model, bundles, verbose)
    if model.probability:
        _fit_slope(model, bundles, found, seeds[2], verbose)


class DrawnRows:
    """A sample on the client from which clusters are learned, counted over the whole table."""

    def __init__(self, blocks: Blocks, found: Survey, n_clusters: int, seed: int, verbose: int):
        self.blocks, self.verbose = blocks, verbose
        wanted = clustering_rows(n_clusters)
        self.X, _, self.weights = sample_rows(blocks, found, wanted, seed, verbose=verbose)
        self.labels: np.ndarray = np.zeros(len(self.X), dtype=np.int64)

    def count(self, model: DivideConquerSVC) -> np.ndarray:
        self.labels = model._assign(self.X)
        return self.blocks.total(_count_clusters, model, verbose=self.verbose)

    def members(self, c: int) -> tuple[np.ndarray, np.ndarray]:
        chosen = np.flatnonzero(self.labels == c)
        return self.X[chosen], self.weights[chosen]


def _count_clusters(block: Block, model: DivideConquerSVC) -> np.ndarray:
    labels = model._assign(dense(block)) if len(block) else np.zeros(0, dtype=np.int64)
    return np.bincount(labels, minlength=model.n_clusters_)


def _bundles(model: DivideConquerSVC, blocks: Blocks, factors: np.ndarray) -> list:
    """Return, for every bundle of clusters, its clusters and their rows, lazily."""
    n_bundles = min(model.n_clusters_, max(_BUNDLES, len(blocks)))
    clusters = np.array_split(np.arange(model.n_clusters_), n_bundles)
    pieces = blocks.map(_split, model, model.classes_, factors, n_bundles)
    join = delayed(_join, pure=True)
    return [
        (own, join([piece[place] for piece in pieces], own)) for place, own in enumerate(clusters)
    ]


def _split(block: Block, model, classes, factors, n_bundles: int) -> list:
    """Return the rows of a block for every bundle: rows, codes, bounds, weights, clusters."""
    labels = model._assign(dense(block)) if len(block) else np.zeros(0, dtype=np.int64)
    codes = np.searchsorted(classes, block.y)
    bounds = block.sample_weight * factors[codes]
    columns = block.X, codes, bounds, block.sample_weight, labels
    bundles = np.array_split(np.arange(model.n_clusters_), n_bundles)
    chosen = [np.flatnonzero((labels >= b[0]) & (labels <= b[-1])) for b in bundles]
    return [tuple(column[rows] for column in columns) for rows in chosen]


def _join(pieces: list, clusters: np.ndarray) -> list:
    """Return rows, codes, bounds and weights of every cluster, in the order of the table."""
    *columns, labels = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    chosen = [np.flatnonzero(labels == c) for c in clusters]
    return [tuple(column[rows] for column in columns) for rows in chosen]


def _train(model: DivideConquerSVC, bundles: list, verbose: int) -> None:
    train = delayed(_train_bundle, pure=True)
    machine = delayed(model._machine(), traverse=False)
    found = compute([train(rows, machine) for _, rows in bundles], verbose=verbose)
    model.estimators_ = [fitted for group in found for fitted in group]


def _train_bundle(groups: list, machine) -> list:
    return [
        fit_machine(type(machine)(**machine.get_params()), X, codes, bounds)
        for X, codes, bounds, _ in groups
    ]


def _fit_slope(model, bundles: list, found: Survey, seed: int, verbose: int) -> None:
    """Fit the slope of the probabilities to scores of machines that did not see the row."""
    seeds = draw_seeds(seed, model.n_clusters_)
    score = delayed(_score_bundle, pure=True)
    machine = delayed(model._machine(), traverse=False)
    parts = [
        score(rows, machine, len(model.classes_), [seeds[c] for c in clusters])
        for clusters, rows in bundles
    ]
    model.slope_ = slope_of(Blocks(parts, n_features=0, feature_names=None), found, verbose)


def _score_bundle(groups: list, machine, n_classes: int, seeds: list) -> Block:
    scores, codes, weights = [], [], []
    for (X, own, bounds, weight), seed in zip(groups, seeds, strict=True):
        fresh = type(machine)(**machine.get_params())
        found = score_out_of_fold(fresh, X, own, bounds, n_classes, seed)
        scores.append(found if n_classes > 2 else 0.5 * np.column_stack([-found, found]))
        codes.append(own)
        weights.append(weight)
    return Block(np.vstack(scores), np.concatenate(codes), np.concatenate(weights), None)
