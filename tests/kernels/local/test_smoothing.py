"""Smoothing kernels and bandwidth rules."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal._kernels.local._smoothing import (
    KERNELS,
    kernel_values,
    loess_values,
    nearest_bandwidth,
    robustness_weights,
    vanishes_at_one,
)

U = np.array([0.0, 0.5, 1.0, 1.5])


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("uniform", [1, 1, 1, 0]),
        ("epanechnikov", [0.75, 0.5625, 0, 0]),
        ("tricube", [1, (1 - 0.125) ** 3, 0, 0]),
        ("gaussian", np.exp(-0.5 * U**2)),
        ("bisquare", [1, 0.5625, 0, 0]),
        ("triangular", [1, 0.5, 0, 0]),
        ("cosine", [1, np.sqrt(0.5), 0, 0]),
    ],
)
def test_kernel_values_by_hand(kernel, expected):
    assert_allclose(kernel_values(U, kernel), expected, atol=1e-15)


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_decrease(kernel):
    values = kernel_values(np.linspace(0, 2, 50), kernel)
    assert np.all(np.diff(values) <= 1e-15)


def test_only_uniform_and_gaussian_speak_at_the_edge():
    assert [k for k in KERNELS if not vanishes_at_one(k)] == ["uniform", "gaussian"]
    assert vanishes_at_one(lambda u: np.maximum(1 - u, 0))


def test_callable_kernels_are_checked():
    with pytest.raises(ValueError, match="shape"):
        kernel_values(U, lambda u: u[:1])
    with pytest.raises(ValueError, match="negative or non-finite"):
        kernel_values(U, lambda u: -u)


def test_bandwidth_is_the_next_neighbour_or_the_last():
    distances = np.array([[0.0, 1.0, 2.0, 5.0]])
    assert nearest_bandwidth(distances, None, 2, exceed=True) == 2.0
    assert nearest_bandwidth(distances, None, 2, exceed=False) == 1.0
    assert np.isnan(nearest_bandwidth(distances, None, 4, exceed=True))


def test_weighted_bandwidth_counts_weight_not_rows():
    distances = np.array([[0.0, 1.0, 2.0, 5.0]])
    weights = np.array([[2.0, 0.0, 1.0, 1.0]])
    assert nearest_bandwidth(distances, weights, 2, exceed=True) == 2.0
    assert nearest_bandwidth(distances, weights, 2, exceed=False) == 0.0
    ones = np.ones((1, 4))
    for k in (1, 2, 3):
        for exceed in (True, False):
            assert nearest_bandwidth(distances, ones, k, exceed=exceed) == nearest_bandwidth(
                distances, None, k, exceed=exceed
            )


def test_loess_guards():
    assert_allclose(loess_values(np.array([0.0005, 0.5, 0.9995])), [1.0, 0.875**3, 0.0])


def test_robustness_weights_by_hand():
    # Median size 2, scale 12: bisquare of 0, 1/6 and 1.
    expected = [1.0, (1 - 1 / 36) ** 2, 0.0]
    assert_allclose(robustness_weights(np.array([0.0, -2.0, 12.0]), None), expected)


def test_robustness_weights_count_repetition():
    residuals, weights = np.array([1.0, 3.0, 10.0]), np.array([2.0, 1.0, 1.0])
    repeated = robustness_weights(np.array([1.0, 1.0, 3.0, 10.0]), None)
    assert_allclose(robustness_weights(residuals, weights), repeated[1:])
