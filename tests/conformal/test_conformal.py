"""Scales, intervals and typicality from held-out predictions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import Ridge

from vicinal._conformal import StandardizedRows, Typicality
from vicinal._conformal._intervals import (
    LocalScale,
    NearRows,
    ResidualIntervals,
    label_sets,
    learning_factor,
    local_lines,
)


def noisy(n, seed=0, slope=2.0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n, 2))
    return X, ((0.2 + slope * X[:, 0]) * rng.normal(size=n))[:, None]


def test_standardized_rows_ignores_units_and_constant_columns():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(40, 3))
    scaled = np.column_stack([X * [1e-5, 1.0, 1e8] + [1.0, -3.0, 1e9], np.full(40, 7.0)])
    near = StandardizedRows(X).neighbors(X, 5)[1]
    assert (StandardizedRows(scaled).neighbors(scaled, 5)[1] == near).all()


def test_standardized_rows_survives_huge_columns_and_missing_values():
    X = np.array([[1e300, np.nan], [2e300, 1.0], [3e300, 2.0]])
    rows = StandardizedRows(X)
    assert np.isfinite(rows.Z).all()


def test_sparse_rows_stand_where_dense_ones_do():
    rng = np.random.RandomState(0)
    X = sparse.random(60, 8, density=0.3, random_state=rng, format="csr")
    assert_allclose(
        StandardizedRows(X).neighbors(X[:5], 4)[0],
        StandardizedRows(X.toarray()).neighbors(X[:5].toarray(), 4)[0],
    )


def test_constant_columns_of_sparse_rows_are_ignored():
    """Rounding leaves them a deviation of 1e-9, by which they must not be divided."""
    X = sparse.csr_array(np.column_stack([np.arange(60.0), np.full(60, 0.1)]))
    assert StandardizedRows(X).scale[1] == np.inf


def test_line_of_errors_is_the_weighted_least_squares_fit():
    rng = np.random.RandomState(0)
    A, weights = rng.normal(size=(1, 30, 2)), rng.uniform(size=(1, 30))
    weights /= weights.sum()
    errors = 3.0 + A @ np.array([1.0, -2.0])
    found = local_lines(A, errors[..., None], weights)[0, 0]
    # The penalty is relative and small, the errors lie on a plane: the intercept is nearly exact.
    assert_allclose(found, 3.0, atol=0.05)
    centred = A[0] - weights @ A[0]
    penalty = 0.01 * (weights[0] @ centred**2).sum() / 2
    line = Ridge(penalty, tol=1e-12).fit(A[0], errors[0], weights[0])
    assert_allclose(found, line.intercept_, rtol=1e-9)


def test_line_of_errors_is_evaluated_at_the_query_and_bounded():
    X = np.linspace(0.0, 1.0, 400)[:, None]
    rows = StandardizedRows(X)
    scale = LocalScale(rows, 0.1 + X)
    queries = rows.coordinates(np.array([[0.25], [0.9], [1.0], [30.0], [-30.0]]))
    found = scale._fits(queries, 40, 1)[:, 0]
    means = scale._fits(queries, 40, 0)[:, 0]
    assert_allclose(found[:3], [0.35, 1.0, 1.1], rtol=2e-3)
    # Far away the line is bounded by shares of the local mean.
    assert_allclose(found[3:], means[3:] * [5.0, 0.2])


def test_local_mean_of_errors_by_hand():
    """Five neighbours are averaged; the distance to the sixth is the bandwidth."""
    X = np.arange(30.0)[:, None]
    rows = StandardizedRows(X)
    weights = np.linspace(1.0, 2.0, 30)
    scale = LocalScale(rows, X**2, weights)
    found = scale._fits(rows.coordinates(np.array([[10.2]])), 5, 0)
    near = np.array([10, 11, 9, 12, 8])
    tricube = weights[near] * (1.0 - (np.abs(near - 10.2) / 2.8) ** 3) ** 3
    assert_allclose(found, [[tricube @ near**2 / tricube.sum()]])


def test_constant_scale_is_the_mean_error_of_other_groups():
    X, groups = np.arange(6.0)[:, None], np.array([0, 0, 1, 1, 1, 2])
    errors, weights = np.arange(12.0).reshape(6, 2), np.array([1.0, 2.0, 1.0, 1.0, 3.0, 2.0])
    scale = LocalScale(StandardizedRows(X), errors, weights, groups)
    assert scale.size is None
    expected = [
        np.average(errors[groups != own], axis=0, weights=weights[groups != own]) for own in groups
    ]
    assert_allclose(scale.held_out, expected)


def test_unknown_label_scores_are_refused():
    with pytest.raises(
        ValueError, match=r"method='raps' must be one of \['adaptive', 'threshold'\]"
    ):
        label_sets(None, np.eye(2), 0.9, method="raps", by_class=False, near=None)


def test_few_rows_have_one_scale():
    for n, size in ((48, None), (52, 20)):
        X = np.linspace(0.0, 1.0, n)[:, None]
        assert LocalScale(StandardizedRows(X), np.exp(5.0 * X)).size == size


def test_neighbourhoods_are_smaller_than_the_rows_outside_the_largest_group():
    X, residuals = noisy(400, slope=20.0)
    groups = np.r_[np.zeros(350, dtype=np.int64), np.arange(1, 51)]
    scale = LocalScale(StandardizedRows(X), np.abs(residuals), groups=groups)
    assert scale.size in (20, 40)
    assert np.isfinite(scale.held_out).all()


def test_equal_noise_has_one_scale():
    X, _ = noisy(300)
    errors = np.abs(np.random.RandomState(1).normal(size=(300, 1)))
    scale = LocalScale(StandardizedRows(X), errors)
    assert scale.size is None
    assert_allclose(scale(X[:3]), errors.mean())


def test_scale_follows_the_noise():
    X, residuals = noisy(800)
    scale = LocalScale(StandardizedRows(X), np.abs(residuals))
    low, high = scale(np.array([[0.05, 0.5], [0.95, 0.5]]))[:, 0]
    # E|N(0, s)| = 0.8 s.
    assert 0.8 * 0.3 * 0.6 < low < 0.8 * 0.3 * 1.6
    assert 0.8 * 2.1 * 0.7 < high < 0.8 * 2.1 * 1.3


def test_held_out_scale_does_not_see_its_own_error():
    X, residuals = noisy(400)
    errors = np.abs(residuals)
    before = LocalScale(StandardizedRows(X), errors)
    errors[17] *= 1e6
    rows = StandardizedRows(X)
    after = LocalScale(rows, errors)
    after.size, after.degree = before.size, before.degree
    own = rows.Z[[17]], before.size, before.degree, np.array([17])
    assert_allclose(after._fits(*own), before._fits(*own))


@pytest.mark.parametrize("errors", [np.zeros((60, 1)), np.full((60, 1), 2.0)])
def test_scale_is_positive_whatever_the_errors(errors):
    X, _ = noisy(60)
    assert (LocalScale(StandardizedRows(X), errors)(X) > 0.0).all()


def test_weight_two_is_the_row_twice():
    X, residuals = noisy(40)
    weights = np.ones(40)
    weights[:10] = 2.0
    rows = np.r_[np.arange(40), np.arange(10)]
    once = ResidualIntervals(StandardizedRows(X), residuals, weights)
    twice = ResidualIntervals(StandardizedRows(X[rows]), residuals[rows])
    ends = np.zeros((1, 1))
    # Standardisation counts rows, so only the level of the constant scale is compared.
    assert_allclose(once.scale.level, twice.scale.level)
    assert once.around(ends, X[:1], 0.8).shape == (1, 1, 2)


@pytest.mark.statistical
@pytest.mark.parametrize("local", [False, True])
def test_intervals_cover_everywhere(local):
    X, residuals = noisy(1500)
    fresh, truth = noisy(6000, seed=1)
    rows = StandardizedRows(X)
    near = NearRows(rows, fresh, None, 0.9) if local else None
    ends = ResidualIntervals(rows, residuals).around(np.zeros((6000, 1)), fresh, 0.9, near)
    covered = (ends[:, 0, 0] <= truth[:, 0]) & (truth[:, 0] <= ends[:, 0, 1])
    assert abs(covered.mean() - 0.9) < 0.02
    for part in np.array_split(np.argsort(fresh[:, 0]), 5):
        assert abs(covered[part].mean() - 0.9) < 0.045


def test_intervals_cover_rows_of_new_groups():
    """Errors of a group are alike: among its own rows every error looks usual."""
    rng = np.random.RandomState(0)

    def clusters(n_groups):
        groups = np.repeat(np.arange(n_groups), 10)
        X = rng.uniform(size=(n_groups, 2))[groups] + 0.01 * rng.normal(size=(len(groups), 2))
        return X, rng.normal(size=(n_groups, 1))[groups], groups

    X, residuals, groups = clusters(60)
    new, truth, _ = clusters(100)
    found = ResidualIntervals(StandardizedRows(X), residuals, groups=groups)
    ends = found.around(np.zeros((len(new), 1)), new, 0.9)[:, 0]
    assert np.mean(np.abs(truth[:, 0]) <= ends[:, 1]) > 0.85


def test_scales_are_as_flat_as_rows_left_out_allow():
    X, residuals = noisy(800)
    scale = LocalScale(StandardizedRows(X), np.abs(residuals))
    assert 0.7 < scale.power <= 1.0
    # Whatever the power, errors are one scale large on average.
    assert_allclose(np.mean(np.abs(residuals) / scale.held_out), 1.0)


def test_scales_have_the_unit_of_the_errors():
    X, residuals = noisy(400, slope=0.7)
    rows, errors = StandardizedRows(X), np.abs(residuals)
    scale, scaled = LocalScale(rows, errors), LocalScale(rows, 1e3 * errors)
    assert 0.0 < scale.power < 1.0
    assert_allclose(scaled(X[:20]), 1e3 * scale(X[:20]), rtol=1e-8)
    # Scales at training rows differ from those at queries by one error among many.
    assert_allclose(np.median(scale(X) / scale.held_out), 1.0, atol=0.02)


def test_errors_around_rows_nobody_learned_from_are_larger():
    """Each row is predicted by its nearest row of another fold, a function without noise."""
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(500, 2))
    y, folds = np.sin(5 * X).sum(axis=1), np.arange(500) % 5
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    distances[folds[:, None] == folds] = np.inf
    near = np.argsort(distances, axis=1)[:, :4]
    residuals = (y - y[near].mean(axis=1))[:, None]
    scale = LocalScale(StandardizedRows(X), np.abs(residuals))
    assert scale.size is not None
    assert 1.005 < scale.unseen(folds)[0] < 1.2
    # Folds unrelated to the predictions show nothing.
    assert_allclose(scale.unseen(rng.permutation(folds)), 1.0, atol=0.03)


def test_errors_that_fall_with_the_rows_are_shrunk():
    rng = np.random.RandomState(0)
    folds, errors = np.arange(400) % 5, np.abs(rng.normal(size=(400, 1)))
    # Fitted to 0.48 of the rows on (log) average, then to 0.8: errors fall with the square root.
    half = np.exp(0.6 * np.log(0.4) + 0.4 * np.log(0.6))
    coarse = errors * np.sqrt(0.8 / half)
    assert_allclose(learning_factor(coarse, errors, folds, None), np.sqrt(0.8))
    assert learning_factor(errors, coarse, folds, None) == 1.0


def test_skewed_errors_reach_further_on_their_side():
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(600, 1))
    residuals = rng.exponential(size=(600, 1)) - 1.0
    low, high = ResidualIntervals(StandardizedRows(X), residuals).around(
        np.zeros((1, 1)), X[:1], 0.9
    )[0, 0]
    assert high > 1.5 * -low > 0.0


def test_too_few_rows_warn():
    X, residuals = noisy(15)
    with pytest.warns(UserWarning, match="1 of 1 intervals are unbounded"):
        ends = ResidualIntervals(StandardizedRows(X), residuals).around(
            np.zeros((1, 1)), X[:1], 0.99
        )
    assert np.isinf(ends).all()


def test_typicality_is_uniform_on_rows_of_the_same_kind():
    from scipy.stats import kstest

    values = []
    for seed in range(20):
        rng = np.random.RandomState(seed)
        values.append(
            Typicality(StandardizedRows(rng.normal(size=(200, 3))))(rng.normal(size=(20, 3)))
        )
    # Coordinates are learned from the training rows, so the law is uniform up to their noise.
    assert kstest(np.concatenate(values), "uniform").pvalue > 0.01


def test_training_rows_are_left_out_of_their_neighbours_distances():
    X = np.random.RandomState(0).normal(size=(40, 2))
    found = Typicality(StandardizedRows(X, are_coordinates=True))
    local = []
    for row in range(40):
        others = Typicality(StandardizedRows(np.delete(X, row, axis=0), are_coordinates=True))
        around = others.rows.neighbors(X[row : row + 1], 10)[1][0]
        local.append(others.means[around].mean())
    expected = found.means / (np.array(local) + found.means.mean())
    assert_allclose(found.novelties, np.sort(expected))


def test_a_row_near_a_dense_cluster_is_unusual():
    rng = np.random.RandomState(0)
    X = np.vstack([0.1 * rng.normal(size=(100, 2)), 6.0 + 2.0 * rng.normal(size=(100, 2))])
    typicality = Typicality(StandardizedRows(X, are_coordinates=True))
    # Equally far from its nearest rows, but those of the first are close together.
    close, within = typicality(np.array([[1.2, 0.0], [6.0, 6.0]]))
    assert close < 0.1 < 0.3 < within


def test_typicality_vanishes_far_away():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(99, 3))
    typicality = Typicality(StandardizedRows(X))
    assert typicality(np.full((1, 3), 50.0))[0] == 1 / 100
    assert typicality(np.zeros((1, 3)))[0] > 0.5


def test_typicality_of_one_or_two_rows():
    assert_allclose(Typicality(StandardizedRows(np.zeros((1, 2))))(np.zeros((1, 2))), 1.0)
    assert_allclose(Typicality(StandardizedRows(np.zeros((2, 2))))(np.zeros((1, 2))), 1.0)
