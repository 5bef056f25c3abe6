"""Conformal quantiles and scores of labels, by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vicinal._kernels.calibration._conformal import (
    adaptive_scores,
    conformal_quantile,
    is_skewed,
    local_quantiles,
    threshold_scores,
)


@pytest.mark.parametrize(("coverage", "expected"), [(0.5, 5.0), (0.8, 8.0), (0.9, 9.0)])
def test_quantile_counts_the_new_row(coverage, expected):
    # ceil(c (9 + 1))-th smallest of 1..9.
    assert conformal_quantile(np.arange(9, 0, -1.0), coverage) == expected


def test_quantile_is_infinite_where_rows_are_too_few():
    assert conformal_quantile(np.arange(9.0), 0.95) == np.inf
    assert conformal_quantile(np.empty(0), 0.5) == np.inf


def test_weight_two_is_the_row_twice():
    scores = np.array([0.3, 0.1, 0.9, 0.5])
    weights = np.array([2.0, 1.0, 3.0, 1.0])
    repeated = np.repeat(scores, weights.astype(int))
    for coverage in (0.2, 0.4, 0.5, 0.6, 0.75, 0.85):
        assert conformal_quantile(scores, coverage, weights) == conformal_quantile(
            repeated, coverage
        )


def test_local_quantiles_are_those_of_each_neighbourhood():
    scores = np.array([[3.0, 1.0, 2.0], [10.0, 30.0, 20.0]])
    weights = np.array([[1.0, 1.0, 1.0], [5.0, 0.0, 5.0]])
    found = local_quantiles(scores, weights, np.ones(2), 0.6)
    assert_array_equal(found, [3.0, 20.0])


def test_quantile_covers_exchangeable_rows():
    rng = np.random.RandomState(0)
    draws = rng.exponential(size=(4000, 20))
    covered = [row[-1] <= conformal_quantile(row[:-1], 0.8) for row in draws]
    assert_allclose(np.mean(covered), 0.8, atol=0.02)


def test_adaptive_scores_add_up_the_labels_above():
    proba = np.array([[0.5, 0.2, 0.3], [0.25, 0.25, 0.5]])
    assert_allclose(adaptive_scores(proba), [[0.0, 0.8, 0.5], [0.5, 0.5, 0.0]])


def test_a_new_row_counts_no_more_than_the_others():
    scores = np.arange(10.0)
    assert conformal_quantile(scores, 0.85) == 9.0
    assert conformal_quantile(scores, 0.85, np.full(10, 1e-3)) == 9.0
    assert conformal_quantile(scores, 0.85, np.full(10, 3.0)) == 8.0


def test_threshold_scores():
    assert_allclose(threshold_scores(np.array([[0.75, 0.25]])), [[0.25, 0.75]])


def test_skewness_is_seen_and_not_imagined():
    rng = np.random.RandomState(0)
    assert is_skewed(rng.exponential(size=500))
    assert not any(is_skewed(rng.normal(size=200)) for _ in range(50))
    assert not is_skewed(np.zeros(100))
