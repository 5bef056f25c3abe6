"""The linear pool: weights, few members, nested errors."""

import numpy as np
import pytest
from scipy.optimize import minimize

from vicinal._kernels.ensemble._pool import (
    few_weights,
    log_proba,
    mean_and_error,
    nested_answers,
)
from vicinal._kernels.ensemble._pool_weights import pool_weights


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


def test_nested_pools_never_choose_on_the_fold_they_answer():
    folds = np.array([0, 2, 1, 0, 1])
    chosen_on = []

    def choose(outside):
        chosen_on.append(set(folds[outside]))
        return lambda inside: 10.0 * folds[inside, None] + len(outside)

    answers = nested_answers(choose, folds)
    assert chosen_on == [{1, 2}, {0, 2}, {0, 1}]
    np.testing.assert_array_equal(answers[:, 0], [3, 24, 13, 3, 13])


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
