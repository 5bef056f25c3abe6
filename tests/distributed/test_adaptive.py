"""Metrics learned over blocks: voters are a sample, everybody teaches."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.distributed.blocks import as_dask
from vicinal import distributed
from vicinal._base import Block
from vicinal._kernels.metric._soft_votes import expected_accuracy
from vicinal.uncertainty import LocallyAdaptiveClassifier, _adaptive_blocks


@pytest.fixture(scope="module")
def quarters():
    """Two informative columns and four of noise: a metric has much to learn."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(2600, 6))
    y = np.array(["low", "high"])[(X[:, 0] * X[:, 1] > 0).astype(int)]
    return X, y


def test_a_small_table_is_fitted_as_in_memory(quarters):
    X, y = quarters[0][:200], quarters[1][:200]
    model = LocallyAdaptiveClassifier(1, solver="adam", max_iter=5, random_state=0)
    found = distributed.fit(model, as_dask(X, 70), as_dask(y, 70))
    assert_allclose(found.metrics_, model.fit(X, y).metrics_)


@pytest.fixture
def few_voters(monkeypatch):
    monkeypatch.setattr(_adaptive_blocks, "VOTERS", 400)
    monkeypatch.setattr(_adaptive_blocks, "_STEP_ROWS", 800)
    monkeypatch.setattr(_adaptive_blocks, "_SCORED", 300)
    monkeypatch.setattr(_adaptive_blocks, "_MAX_STEPS", 12)


def test_the_blocks_do_not_matter_and_more_rows_help(quarters, few_voters):
    X, y = quarters
    model = LocallyAdaptiveClassifier(1, random_state=0)
    found = [
        distributed.fit(model, as_dask(X[:2000], size), as_dask(y[:2000], size))
        for size in (500, 700, 2000)
    ]
    for other in found[1:]:
        assert_allclose(other.metrics_, found[0].metrics_, rtol=1e-4, atol=1e-5)
    path = found[0].objective_paths_[0]
    assert path.max() > path[0]
    assert found[0].validation_score_ == path.max()
    assert found[0].validation_score_ < 0.0  # a log-likelihood, as in memory
    assert found[0].score(X[2000:], y[2000:]) > 0.8
    proba = found[0].predict_proba(X[2000:])
    assert (found[0].classes_[proba.argmax(axis=1)] == found[0].predict(X[2000:])).all()


def test_gradients_of_blocks_add_up_to_that_of_the_table(quarters):
    X, y = quarters
    model = LocallyAdaptiveClassifier(2, solver="adam", max_iter=3, random_state=0).fit(
        X[:300], y[:300]
    )
    voters = _adaptive_blocks._Voters.of(model)
    draw = _adaptive_blocks._Draw(5, 0.1, 0.2)
    A, weight = model._matrices, np.linspace(0.5, 2.0, len(y))
    cuts = [0, 900, 1000, 2600]
    parts = [
        _adaptive_blocks._gradients(Block(X[a:b], y[a:b], weight[a:b], a), voters, A, draw, 9, 0.5)
        for a, b in pairwise(cuts)
    ]
    whole = Block(X, y, weight, 0)
    rows = draw.teachers(whole, 9, 0.5)
    anchors = voters.anchors(whole.take(rows))
    wanted = np.stack(
        [
            expected_accuracy(own, some, voters.references, floor=voters.floor)[1]
            for own, some in zip(A, anchors, strict=True)
        ]
    )
    assert_allclose(sum(part[1] for part in parts), wanted, rtol=1e-3, atol=1e-3)
    assert_allclose(sum(part[2] for part in parts), weight[rows].sum())


def test_nobody_votes_scores_and_teaches_at_once(quarters):
    block = Block(*quarters, np.ones(2600), 0)
    draw = _adaptive_blocks._Draw(3, 0.2, 0.3)
    scored, teachers = draw.scored(block), draw.teachers(block, 4, 1.0)
    assert not np.intersect1d(scored, teachers).size
    assert abs(len(scored) / 2600 - 0.1) < 0.03
    assert abs(len(teachers) / 2600 - 0.7) < 0.03


def test_a_class_without_voters_is_refused(quarters, few_voters):
    X, y = quarters
    y = y.astype(object)
    y[2599] = "rare"
    with pytest.raises(ValueError, match="rare"):
        distributed.fit(LocallyAdaptiveClassifier(1), as_dask(X, 700), as_dask(y.astype(str), 700))
