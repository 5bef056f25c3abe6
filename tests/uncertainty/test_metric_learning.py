"""Ascent on a function whose maximum is known, and the start of the ascent."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal._base import TrainingData
from vicinal.uncertainty._metric_learning import (
    _SHARPNESS,
    BestIterate,
    MetricProblem,
    Split,
    _best_scale,
    _importance,
    _nearest_scale,
    annealed_ascent,
    by_class,
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


# --- start ----------------------------------------------------------------------------------------

SETTINGS = SimpleNamespace(n_classes=2, n_jobs=1, region_method="uncertainty")


@pytest.mark.parametrize("informative", [False, True])
def test_sharpness_is_the_best_of_the_grid(rng, informative):
    """Labels without information need the bluntest votes, two noisy halves sharper ones."""
    X, y = rng.uniform(size=(120, 2)), rng.randint(2, size=120)
    if informative:
        y = np.where(rng.uniform(size=120) < 0.1, y, X[:, 0] > 0.5)
    rows = by_class(TrainingData(X.astype(np.float32), y))
    unit = 1.0 / np.sqrt(_nearest_scale(rows, 1))
    score, scale = _best_scale(rows, None, np.arange(120), SETTINGS)
    scores = []
    for sharpness in _SHARPNESS * unit:
        d2 = ((rows.X[:, None] - rows.X[None]) ** 2).sum(axis=2) * sharpness**2
        np.fill_diagonal(d2, np.inf)
        e = np.exp(d2.min(axis=1, keepdims=True) - d2)
        p = (e * (rows.y[:, None] == rows.y[None])).sum(axis=1) / e.sum(axis=1)
        scores.append(np.mean(np.log(np.maximum(p, 1e-6))))
    assert score == pytest.approx(max(scores), rel=1e-4)
    assert scale == pytest.approx((_SHARPNESS * unit)[np.argmax(scores)])
    assert np.argmax(scores) > 0 if informative else np.argmax(scores) == 0


def test_held_out_rows_are_scored_by_all_training_rows(rng):
    X, y, A = rng.normal(size=(30, 2)), np.arange(30) % 2, rng.normal(size=(2, 2))
    train, watched = (
        by_class(TrainingData(X[part], y[part])) for part in (slice(20), slice(20, 30))
    )
    shares = [np.ones(20), rng.uniform(0.2, 1.0, size=10)]
    problem = MetricProblem(Split(train, watched), 2, shares, n_jobs=1)
    e = np.exp(-(((watched.X[:, None] - train.X) @ A.T) ** 2).sum(axis=2))
    p = (e * (watched.y[:, None] == train.y)).sum(axis=1) / e.sum(axis=1)
    assert problem.score(A) == pytest.approx(shares[1] @ p / 10)


def test_scale_of_few_rows_in_pairs_is_the_distance_to_the_next_pair():
    X = np.array([[0.0], [0.0], [2.0], [2.0]])
    assert _nearest_scale(TrainingData(X, np.array([0, 1, 0, 1])), 1) == pytest.approx(4.0)


def test_rows_far_from_other_classes_have_no_importance():
    X = np.r_[np.arange(10) * 0.1, np.arange(10) * 0.1 + 0.05, 1e6 + np.arange(30) * 0.1]
    codes = np.repeat([0, 1, 0], [10, 10, 30])
    uncertainty, importance = _importance(TrainingData(X[:, None], codes), SETTINGS)
    order = np.argsort(codes, kind="stable")
    assert_allclose(importance, uncertainty[order])
    assert importance[10:40].max() == 0.0
    assert importance[:10].min() > 0.1
    # Without any uncertain row, all have the same importance.
    assert_allclose(_importance(TrainingData(X[20:, None], codes[20:]), SETTINGS)[1], 1.0)
