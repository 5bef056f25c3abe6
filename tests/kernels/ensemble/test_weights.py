import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from vicinal._kernels.ensemble._weights import (
    bootstrapped_weights,
    effective_number,
    few_weights,
    log_proba,
    mean_and_error,
    pool_weights,
    project_to_simplex,
    stacked_mean_weights,
    stacking_weights,
)


def test_weights_of_two_members_by_hand():
    # d/dw of log(.9 w + .1 (1 - w)) + log(.2 w + .8 (1 - w)) vanishes at w = .58 / .96.
    density = np.array([[0.9, 0.1], [0.2, 0.8]])
    weights = pool_weights(density, np.full(2, 0.5), ridge=0.0)
    np.testing.assert_allclose(weights, [0.58 / 0.96, 1.0 - 0.58 / 0.96], rtol=1e-8)


@pytest.mark.parametrize("ridge", [0.0, 0.03])
@pytest.mark.parametrize("seed", range(4))
def test_weights_against_a_general_solver(ridge, seed):
    rng = np.random.RandomState(seed)
    density = rng.uniform(0.01, 1.0, (150, 6)) ** rng.uniform(0.3, 3.0, 6)
    share = rng.dirichlet(np.ones(150))

    def objective(a):
        mixed = density @ a
        slope = 1.0 - share @ (density / mixed[:, None]) + ridge * a
        return -share @ np.log(mixed) + a.sum() + 0.5 * ridge * a @ a, slope

    found = minimize(
        objective,
        np.full(6, 1 / 6),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * 6,
        options={"ftol": 1e-15, "gtol": 1e-9},
    )
    weights = pool_weights(density, share, ridge=ridge)
    np.testing.assert_allclose(weights, found.x / found.x.sum(), atol=1e-6)


def test_a_dominated_member_gets_nothing():
    density = np.array([[0.9, 0.5], [0.8, 0.4], [0.7, 0.6]])
    np.testing.assert_array_equal(pool_weights(density, np.full(3, 1 / 3), ridge=0.0), [1.0, 0.0])


def test_copies_share_their_weight():
    rng = np.random.RandomState(0)
    density = rng.uniform(0.1, 1.0, (50, 2))[:, [0, 1, 1]]
    for ridge in (0.0, 1e-3):
        weights = pool_weights(density, np.full(50, 0.02), ridge=ridge)
        assert weights[1] == pytest.approx(
            weights[2], rel=1e-4
        )  # a flat direction, up to tolerance
        assert weights.sum() == pytest.approx(1.0)


def test_tiny_densities_do_not_underflow():
    density = np.array([[1e-300, 1e-303], [1e-310, 1e-300]])
    assert np.isfinite(pool_weights(density, np.full(2, 0.5), ridge=0.01)).all()


def test_few_weights_drop_the_light_ones_together_then_one_by_one():
    asked = []

    def solve(kept):
        asked.append(list(kept))
        raw = np.array([0.5, 0.3, 0.01, 0.005, 0.185])[kept]
        return raw / raw.sum()

    weights = few_weights(solve, 5, least=0.02, most=2)
    assert asked == [[0, 1, 2, 3, 4], [0, 1, 4], [0, 1]]
    np.testing.assert_allclose(weights, [0.625, 0.375, 0, 0, 0])


def test_the_heaviest_of_many_equal_members_stays():
    weights = few_weights(lambda kept: np.full(len(kept), 1 / len(kept)), 100, least=0.02, most=6)
    assert weights.sum() == pytest.approx(1.0)
    assert (weights > 0).sum() >= 1


def test_no_class_is_certain_and_none_changes_place():
    proba = np.array([[1.0, 0.0, 0.0], [0.2, 0.5, 0.3]])
    z = log_proba(proba, 10)
    np.testing.assert_allclose(np.exp(z).sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(z[0, 1]), (1 / 3) / 11)
    np.testing.assert_array_equal(z.argmax(axis=1), proba.argmax(axis=1))


def test_the_mean_is_not_above_the_largest_error_by_rounding():
    shares = np.random.RandomState(0).uniform(size=(100, 30))
    means = [mean_and_error(np.ones(30), share, np.arange(30))[0] for share in shares]
    assert max(means) == 1.0


def test_answers_of_one_row_count_as_one():
    errors = np.array([0.0, 1.0, 1.0, 1.0])
    mean, spread = mean_and_error(errors, np.full(4, 0.25), np.array([0, 0, 1, 1]))
    assert mean == 0.75
    # Two rows of means 0.5 and 1: standard deviation 0.25 * sqrt(2), over sqrt(2).
    assert spread == pytest.approx(0.25)
    # s^2 (1 / n + 1 / n_learned): with as many to learn from, twice the variance.
    units = {"units": np.array([0, 0, 1, 1]), "n_learned": 2.0}
    assert mean_and_error(errors, np.full(4, 0.25), **units)[1] == pytest.approx(0.25 * 2**0.5)


def test_no_mistake_is_as_sure_as_one():
    units, share = np.arange(50), np.full(50, 0.02)
    one = np.zeros(50)
    one[3] = 1.0
    found = [mean_and_error(errors, share, units, step=1.0)[1] for errors in (0.0 * one, one)]
    assert found == pytest.approx([0.02, 0.02])
    # More mistakes are told as before, and errors that are measured may all be zero.
    assert mean_and_error(np.eye(50)[:2].sum(0), share, units, step=1.0)[1] > 0.027
    assert mean_and_error(0.0 * one, share, units)[1] == 0.0


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
    found = stacking_weights(densities, share)
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
    found = stacking_weights(densities, share)
    density = np.exp(densities)
    slope = share @ (density / (density @ found)[:, None])
    assert slope.max() <= 1.0 + 1e-8
    assert_allclose(slope[found > 0.0], 1.0, atol=1e-8)


def test_weights_of_rows_equal_repetition(densities, rng):
    times = rng.randint(1, 4, 80)
    weighted = stacking_weights(densities, times / times.sum())
    repeated = stacking_weights(
        np.repeat(densities, times, axis=0), np.full(times.sum(), 1 / times.sum())
    )
    assert_allclose(weighted, repeated, atol=1e-6)


def test_useless_models_get_exactly_zero(rng):
    good = rng.normal(size=200)
    log_density = np.column_stack([good, good - rng.uniform(0.5, 2.0, 200), good - 5.0])
    found = stacking_weights(log_density, np.full(200, 1 / 200))
    assert found.tolist() == [1.0, 0.0, 0.0]


def test_one_model_has_weight_one(densities):
    assert_allclose(stacking_weights(densities[:, :1], np.full(80, 1 / 80)), [1.0])


def test_hopeless_densities_do_not_underflow():
    log_density = np.array([[-2000.0, -1.0], [-1.0, -3000.0], [-1.5, -1.5]])
    found = stacking_weights(log_density, np.full(3, 1 / 3))
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


def test_flat_draws_give_pseudo_bma(densities):
    draw = np.full(80, 1 / 80)
    expected = softmax(densities.sum(axis=0))
    assert_allclose(bootstrapped_weights(densities, np.ones(80), [draw]), expected)


def test_effective_number_counts_models():
    assert effective_number(np.array([1.0, 0.0, 0.0])) == 1.0
    assert_allclose(effective_number(np.full(5, 0.2)), 5.0)
