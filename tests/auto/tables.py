"""Simulated tables and fitted models for the tests of ``vicinal.auto``."""

from sklearn.datasets import make_blobs

from vicinal.auto import AutoClassifier

QUICK = ["constant", "local", "linear"]


def blobs(n_rows=120, seed=0, **settings):
    return make_blobs(n_rows, centers=3, cluster_std=3.0, random_state=seed, **settings)


def fitted(**settings):
    X, y = blobs()
    return AutoClassifier(**{"families": QUICK, "random_state": 0, **settings}).fit(X, y), X, y


def tried(model):
    """Base models of the ensemble, and those that were skipped."""
    return [*model.estimators_, *model.skipped_]
