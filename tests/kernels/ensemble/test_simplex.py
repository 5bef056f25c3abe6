import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import logsumexp

from vicinal._kernels.ensemble._simplex import (
    bootstrapped_weights,
    effective_number,
    information_weights,
    project_to_simplex,
    stacked_mean_weights,
    stacking_weights,
)


@pytest.fixture
def densities(rng):
    return rng.normal(size=(80, 4)) * 2.0 + np.array([0.0, -0.2, 0.3, -3.0])


def log_score(weights, log_density, share):
    return float(share @ logsumexp(log_density, axis=1, b=weights))


def em_step(weights, log_density, share):
    """Expectation maximisation, written plainly."""
    joint = weights * np.exp(log_density)
    return share @ (joint / joint.sum(axis=1, keepdims=True))


def test_stacking_reaches_what_em_and_a_general_solver_reach(densities):
    share = np.full(80, 1 / 80)
    found, _ = stacking_weights(densities, share, tol=1e-14)
    slow = np.full(4, 0.25)
    for _ in range(5000):
        slow = em_step(slow, densities, share)
    assert_allclose(found, slow, atol=1e-4)
    general = minimize(
        lambda w: -log_score(np.maximum(w, 0), densities, share),
        np.full(4, 0.25),
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        method="SLSQP",
    )
    assert log_score(found, densities, share) >= -general.fun - 1e-9


def test_stacking_is_stationary_on_the_simplex(densities, rng):
    share = rng.dirichlet(np.ones(80))
    found, _ = stacking_weights(densities, share, tol=1e-15)
    density = np.exp(densities)
    slope = share @ (density / (density @ found)[:, None])
    assert slope.max() <= 1.0 + 1e-4
    assert_allclose(slope[found > 0.01], 1.0, atol=1e-4)


def test_weights_of_rows_equal_repetition(densities, rng):
    times = rng.randint(1, 4, 80)
    weighted, _ = stacking_weights(densities, times / times.sum())
    repeated, _ = stacking_weights(
        np.repeat(densities, times, axis=0), np.full(times.sum(), 1 / times.sum())
    )
    assert_allclose(weighted, repeated, atol=1e-6)


def test_useless_models_get_exactly_zero(rng):
    good = rng.normal(size=200)
    log_density = np.column_stack([good, good - rng.uniform(0.5, 2.0, 200), good - 5.0])
    found, _ = stacking_weights(log_density, np.full(200, 1 / 200))
    assert found.tolist() == [1.0, 0.0, 0.0]


def test_one_model_has_weight_one(densities):
    assert_allclose(stacking_weights(densities[:, :1], np.full(80, 1 / 80))[0], [1.0])


def test_hopeless_densities_do_not_underflow():
    log_density = np.array([[-2000.0, -1.0], [-1.0, -3000.0], [-1.5, -1.5]])
    found, _ = stacking_weights(log_density, np.full(3, 1 / 3))
    assert_allclose(found, [0.5, 0.5], atol=1e-6)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=8))
def test_projection_lands_on_the_simplex_and_is_nearest(values):
    v = np.array(values)
    p = project_to_simplex(v)
    assert p.min() >= 0
    assert_allclose(p.sum(), 1.0, atol=1e-9)
    corners = np.eye(len(v))
    # Nearest point: no corner lies beyond the hyperplane through p.
    assert ((corners - p) @ (v - p)).max() <= 1e-7 * max(1.0, np.abs(v).max())


def test_stacked_mean_equals_a_general_solver(rng):
    predictions, y = rng.normal(size=(60, 4)), rng.normal(size=60)
    y = y + predictions @ np.array([0.6, 0.4, 0.0, 0.0])
    share = rng.dirichlet(np.ones(60))
    found = stacked_mean_weights(predictions, y, share)
    general = minimize(
        lambda w: share @ (y - predictions @ w) ** 2,
        np.full(4, 0.25),
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    assert_allclose(found, general.x, atol=1e-5)


def test_perfect_members_share_without_error():
    y = np.arange(5.0)
    found = stacked_mean_weights(np.column_stack([y, y]), y, np.full(5, 0.2))
    assert_allclose(found, [0.5, 0.5])


def test_information_weights_are_posterior_odds():
    assert_allclose(information_weights(np.array([-1000.0, -1000.0 - np.log(3)])), [0.75, 0.25])


def test_flat_draws_give_pseudo_bma(densities):
    draw = np.full(80, 1 / 80)
    expected = information_weights(densities.sum(axis=0))
    assert_allclose(bootstrapped_weights(densities, np.ones(80), [draw]), expected)


def test_effective_number_counts_models():
    assert effective_number(np.array([1.0, 0.0, 0.0])) == 1.0
    assert_allclose(effective_number(np.full(5, 0.2)), 5.0)
