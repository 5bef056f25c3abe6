"""Ascent on a function whose maximum is known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal.uncertainty._metric_learning import (
    BestIterate,
    annealed_ascent,
    lbfgs_ascent,
)

TOP = np.array([[1.0, -2.0], [0.5, 3.0]])


def hill(A):
    """A bell with its top at ``TOP``."""
    value = float(np.exp(-np.sum((A - TOP) ** 2) / 20))
    return value, -(A - TOP) / 10 * value


def value_of(A):
    return hill(A)[0]


def test_lbfgs_finds_the_top():
    watch = BestIterate(value_of, None)
    assert lbfgs_ascent(hill, np.eye(2), watch, max_iter=100, tol=1e-14)
    assert_allclose(watch.matrix, TOP, atol=1e-4)
    assert np.diff(watch.scores).min() >= 0


def test_lbfgs_reports_when_it_ran_out_of_steps():
    watch = BestIterate(value_of, None)
    assert not lbfgs_ascent(hill, np.eye(2), watch, max_iter=2, tol=0.0)
    assert len(watch.iterates) == 3


def test_annealing_ascends_and_keeps_the_best(rng):
    watch = BestIterate(lambda matrices: sum(value_of(A) for A in matrices), None)
    annealed_ascent(
        lambda matrices: np.stack([hill(A)[1] for A in matrices]),
        lambda matrices: sum(map(value_of, matrices)),
        np.stack([np.eye(2), -np.eye(2)]),
        watch,
        max_iter=150,
        temperature=0.1,
        cooling=0.925,
        step=0.1,
        noise=0.02,
        random_state=rng,
    )
    assert watch.matrix.shape == (2, 2, 2)
    assert watch.scores[watch.best] == max(watch.scores) > 1.9


@pytest.mark.parametrize("loss", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("n_proposals", [1, 2])
def test_annealing_accepts_a_loss_with_its_probability(rng, loss, n_proposals):
    """A loss d at temperature T is accepted with probability exp(-d / T); then T falls."""
    start, n_runs = np.eye(2), 1500
    accepted = 0
    for _ in range(n_runs):
        watch = BestIterate(lambda matrices: 0.0, None)
        annealed_ascent(
            np.zeros_like,
            lambda matrices: 0.0 if np.array_equal(matrices[0], start) else -loss,
            start[None],
            watch,
            max_iter=n_proposals,
            temperature=0.1,
            cooling=0.5,
            step=0.1,
            noise=0.02,
            random_state=rng,
        )
        accepted += not np.array_equal(watch.iterates[-1][0], start)
    refused = np.prod([1 - np.exp(-loss / (0.1 * 0.5**i)) for i in range(n_proposals)])
    error = np.sqrt(refused * (1 - refused) / n_runs)
    assert abs(accepted / n_runs - (1 - refused)) < 3.5 * error


def test_the_sign_of_print_would_descend(rng):
    """Algorithm 1 prints a minus where the objective is to be maximised."""
    watch = BestIterate(lambda matrices: value_of(matrices[0]), None)
    annealed_ascent(
        lambda matrices: -hill(matrices[0])[1][None],
        lambda matrices: value_of(matrices[0]),
        np.eye(2)[None],
        watch,
        max_iter=50,
        temperature=10.0,
        cooling=1.0,
        step=0.1,
        noise=0.0,
        random_state=rng,
    )
    assert watch.best == 0


def test_n_iter_no_change_counts_updates_without_gain():
    scores = iter([0.1, 0.5, 0.50001, 0.4, 0.3])
    watch = BestIterate(lambda A: next(scores), 3, min_gain=1e-3)
    stops = [watch.update(np.full((1, 1), i)) for i in range(5)]
    assert stops == [False, False, False, False, True]
    assert watch.matrix.item() == 2  # the small gain is kept although it was not waited for


@pytest.mark.parametrize("n_iter_no_change", [2, 5])
def test_early_stopping_ends_lbfgs(n_iter_no_change):
    watch = BestIterate(lambda A: -value_of(A), n_iter_no_change)
    assert lbfgs_ascent(hill, np.eye(2), watch, max_iter=100, tol=0.0)
    assert watch.best == 0
    assert len(watch.scores) == n_iter_no_change + 1
