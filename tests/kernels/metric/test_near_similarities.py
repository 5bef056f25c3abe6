"""Truncated soft neighbourhoods: what is left out is less than rounding."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vicinal._kernels.metric._near_similarities import all_similarities, near_similarities
from vicinal._kernels.metric._soft_votes import (
    Anchors,
    References,
    expected_accuracy,
    own_class_probabilities,
    soft_votes,
)
from vicinal._kernels.metric._uncertainty import class_bounds

PATH = "vicinal._kernels.metric._soft_votes._SPARSE"


def as_dense(near, n):
    dense = np.zeros((len(near.starts) - 1, n), near.values.dtype)
    rows = np.repeat(np.arange(len(dense)), np.diff(near.starts))
    dense[rows, near.columns] = near.values
    return dense


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 5, 64, 150])
@pytest.mark.parametrize("spread", [1.0, 30.0, 1e4])
def test_what_is_left_out_is_less_than_rounding(rng, dtype, n, spread):
    logits = (spread * rng.normal(size=(7, n))).astype(dtype)
    near = near_similarities(logits)
    exact = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    lost = exact.sum(axis=1) - as_dense(near, n).astype(np.float64).sum(axis=1)
    bound = {np.float32: 1e-6, np.float64: 1e-14}[dtype]
    assert np.all(np.abs(lost) <= (bound + 4 * np.finfo(dtype).eps) * exact.sum(axis=1))
    assert_allclose(all_similarities(logits.copy()), exact, rtol=2e-5, atol=1e-25)


def test_the_greatest_is_kept_wherever_it_stands():
    for n in (63, 64, 65, 130):
        logits = np.full((n, n), -1e5, np.float32)
        np.fill_diagonal(logits, 3.0)
        near = near_similarities(logits)
        assert_array_equal(near.columns, np.arange(n))
        assert_array_equal(near.values, 1.0)


def test_too_many_are_refused(rng):
    assert near_similarities(rng.normal(size=(50, 40)), 0.5) is None


@pytest.mark.parametrize("sharpness", [0.5, 2.0, 6.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-5), (np.float64, 1e-11)])
def test_truncated_neighbourhoods_equal_whole_ones(rng, sharpness, dtype, tolerance, monkeypatch):
    y = np.sort(rng.randint(0, 5, 700))
    X = (rng.normal(size=(700, 6)) + rng.normal(size=(5, 6))[y]).astype(dtype)
    bounds = class_bounds(y, 5)
    references = References(X, bounds, np.log(rng.uniform(0.5, 2.0, 700)).astype(dtype))
    anchors = Anchors(X, bounds, rng.uniform(size=700).astype(dtype), np.arange(700))
    A = sharpness * (np.eye(6) + 0.1 * rng.normal(size=(6, 6)))
    found = {}
    for most in (0.0, 1.0):
        monkeypatch.setattr(PATH, most)
        value, gradient = expected_accuracy(A, anchors, references)
        alone, _ = expected_accuracy(A, anchors, references, gradient=False)
        assert_allclose(alone, value, rtol=tolerance)
        found[most] = value, gradient, own_class_probabilities(A, anchors, references)
    assert_allclose(found[1.0][0], found[0.0][0], rtol=tolerance)
    size = np.abs(found[0.0][1]).max()
    assert_allclose(found[1.0][1], found[0.0][1], atol=20 * tolerance * size)
    assert_allclose(found[1.0][2], found[0.0][2], atol=tolerance)


def test_votes_do_not_depend_on_the_queries_beside_them(rng):
    X = rng.normal(size=(400, 3))
    references = References(X, np.array([0, 100, 250, 400]), np.zeros(400))
    Q = np.vstack([rng.normal(size=(40, 3)), 50 * rng.normal(size=(40, 3))])
    order = rng.permutation(80)
    votes = soft_votes(2 * np.eye(3), Q, references)
    assert_array_equal(soft_votes(2 * np.eye(3), Q[order], references), votes[order])
    assert_allclose(votes.sum(axis=1), 1.0, rtol=1e-12)
