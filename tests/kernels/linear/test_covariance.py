import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtri
from sklearn.covariance import ledoit_wolf_shrinkage as sklearn_ledoit_wolf

from vicinal._kernels.linear._covariance import (
    MAX_KNOTS,
    WHITENINGS,
    LDAStatistics,
    add_statistics,
    class_means,
    independent_cholesky,
    lda_coefficients,
    lda_statistics,
    ledoit_wolf_shrinkage,
    normal_score_knots,
    score_slopes,
    shift_statistics,
    standard_scale,
    statistics_means,
    within_class_whitening,
    within_covariance,
)


@pytest.fixture
def data(rng):
    codes = rng.randint(3, size=90)
    X = rng.normal(size=(90, 4)) @ rng.normal(size=(4, 4)) + 2.0 * rng.normal(size=(3, 4))[codes]
    return X, codes, rng.uniform(0.5, 2.0, size=90)


def assert_same(a, b, rtol):
    for left, right in zip(a, b, strict=True):
        assert_allclose(left, right, rtol=rtol, atol=rtol * np.abs(right).max())


def test_statistics_by_hand():
    X = np.array([[1.0, 0.0], [3.0, 2.0], [0.0, 5.0]])
    stats = lda_statistics(X, np.array([0, 0, 1]), np.array([1.0, 2.0, 3.0]), 2)
    assert_array_equal(stats.weights, [3.0, 3.0])
    assert_array_equal(stats.sums, [[7.0, 4.0], [0.0, 15.0]])
    assert_allclose(stats.gram, [[19.0, 12.0], [12.0, 83.0]], rtol=1e-15)
    # Means (7/3, 4/3) and (0, 5); only the first class spreads: deviations -4/3, 2/3.
    assert_allclose(within_covariance(stats), np.full((2, 2), 8 / 18), atol=1e-14)


def test_coefficients_by_hand():
    """Unit covariance, means at 0 and 2: the score difference is 2 (x - 1)."""
    X = np.array([[-1.0], [1.0], [1.0], [3.0]])
    coef, intercept = lda_coefficients(lda_statistics(X, np.array([0, 0, 1, 1]), None, 2))
    assert_allclose(coef[1] - coef[0], [2.0])
    assert_allclose(intercept[1] - intercept[0], -2.0)


@pytest.mark.parametrize("weighted", [False, True])
def test_halves_add_up_to_the_whole(data, weighted):
    X, codes, w = data
    w = w if weighted else None
    shifts = class_means(X, codes, w, 3)

    def sums(rows):
        weights = None if w is None else w[rows]
        return lda_statistics(X, codes[rows], weights, 3, rows=rows, shifts=shifts)

    whole = lda_statistics(X, codes, w, 3, shifts=shifts)
    halves = add_statistics(sums(np.arange(0, 45)), sums(np.arange(45, 90)))
    for left, right in zip(halves, whole, strict=True):
        assert_allclose(left, right, rtol=1e-12, atol=1e-12)


def test_halves_about_different_shifts_add_up(data):
    X, codes, w = data
    whole = lda_statistics(X, codes, w, 3)
    first, second = np.arange(0, 30), np.arange(30, 90)
    a = lda_statistics(X, codes[first], w[first], 3, rows=first)
    shifts = class_means(X, codes, w, 3)
    b = lda_statistics(X, codes[second], w[second], 3, rows=second, shifts=shifts)
    assert_same(add_statistics(a, b), whole, 1e-12)


def test_shifting_there_and_back_is_the_identity(data):
    X, codes, w = data
    stats = lda_statistics(X, codes, w, 3)
    there = shift_statistics(stats, class_means(X, codes, w, 3))
    assert_allclose(within_covariance(there), within_covariance(stats), rtol=1e-11, atol=1e-12)
    assert_same(shift_statistics(there, stats.shifts), stats, 1e-12)


def test_blocks_do_not_change_the_sums(data):
    X, codes, w = data
    whole = lda_statistics(X, codes, w, 3)
    with sklearn.config_context(working_memory=24 * 4 * 7 / 2**20):
        blocked = lda_statistics(X, codes, w, 3)
        means = class_means(X, codes, w, 3)
    assert_same(blocked, whole, 1e-13)
    assert_allclose(means, statistics_means(whole), rtol=1e-12)


def test_input_is_left_alone(data):
    X, codes, w = data
    before = X.copy()
    lda_statistics(X, codes, w, 3, shifts=np.ones((3, 4)))
    assert_array_equal(X, before)


def test_absent_class_scores_minus_infinity(data):
    X, codes, w = data
    three = lda_coefficients(lda_statistics(X, codes, w, 3))
    four = lda_coefficients(lda_statistics(X, codes + (codes == 2), w, 4))
    present = [0, 1, 3]
    assert_allclose(four[0][present], three[0], rtol=1e-12)
    assert_allclose(four[1][present], three[1], rtol=1e-12)
    assert_array_equal(four[0][2], 0.0)
    assert four[1][2] == -np.inf


def test_single_class_is_constant(data):
    X, _, w = data
    coef, intercept = lda_coefficients(lda_statistics(X, np.ones(90, dtype=int), w, 2))
    assert_array_equal(coef, 0.0)
    assert_array_equal(intercept, [-np.inf, 0.0])


def test_covariance_survives_a_far_origin(data):
    X, codes, w = data
    near = within_covariance(lda_statistics(X, codes, w, 3))
    far = X + 2.0**26
    shifts = class_means(far, codes, w, 3)
    assert_allclose(
        within_covariance(lda_statistics(far, codes, w, 3, shifts=shifts)), near, rtol=1e-6
    )


def test_dependent_column_shares_the_weight_of_its_twin(data):
    """The ridge of a singular covariance gives the solution of least norm."""
    X, codes, w = data
    twins = np.hstack([X, X[:, :1]])
    single = lda_coefficients(lda_statistics(X, codes, w, 3))[0]
    double = lda_coefficients(lda_statistics(twins, codes, w, 3))[0]
    assert_allclose(double[:, 0] + double[:, 4], single[:, 0], rtol=1e-5)
    assert_allclose(double[:, 0], double[:, 4], rtol=1e-5)


@pytest.mark.parametrize("value", [0.0, 1e6 / 3])
def test_constant_column_changes_no_score(data, value):
    X, codes, w = data
    wide = np.hstack([X, np.full((90, 1), value)])
    shifts = class_means(wide, codes, w, 3)
    coef, intercept = lda_coefficients(lda_statistics(wide, codes, w, 3, shifts=shifts))
    plain = lda_coefficients(lda_statistics(X, codes, w, 3))
    assert_allclose(wide @ coef.T + intercept, X @ plain[0].T + plain[1], rtol=1e-5, atol=1e-5)


def test_classes_without_spread_are_told_apart_by_nearest_mean():
    X = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    coef, intercept = lda_coefficients(lda_statistics(X, np.arange(3), None, 3))
    queries = np.array([[1.0, 0.5], [3.0, 1.0], [0.5, 2.5]])
    assert_array_equal((queries @ coef.T + intercept).argmax(axis=1), [0, 1, 2])


def test_ledoit_wolf_is_that_of_the_residuals(data):
    X, codes, _ = data
    stats = lda_statistics(X, codes, None, 3)
    residuals = X - statistics_means(stats)[codes]
    expected = sklearn_ledoit_wolf(residuals, assume_centered=True)
    assert_allclose(ledoit_wolf_shrinkage(X, codes, None, stats), expected, rtol=1e-10)


def test_ledoit_wolf_counts_weights_as_rows(data):
    X, codes, _ = data
    counts = np.arange(90) % 3 + 1
    again = np.repeat(np.arange(90), counts)
    weighted = lda_statistics(X, codes, counts.astype(float), 3)
    repeated = lda_statistics(X[again], codes[again], None, 3)
    assert_allclose(
        ledoit_wolf_shrinkage(X, codes, counts.astype(float), weighted),
        ledoit_wolf_shrinkage(X[again], codes[again], None, repeated),
        rtol=1e-10,
    )


def test_ledoit_wolf_needs_no_shrinkage_for_an_isotropic_sample():
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    codes = np.zeros(4, dtype=int)
    assert ledoit_wolf_shrinkage(X, codes, None, lda_statistics(X, codes, None, 1)) == 0.0


def test_statistics_are_plain_arrays(data):
    X, codes, w = data
    stats = lda_statistics(X, codes, w, 3)
    again = LDAStatistics(*(np.array(part) for part in stats))
    assert_array_equal(lda_coefficients(again)[0], lda_coefficients(stats)[0])


def test_factor_by_hand():
    """The third column is the sum of the first two; the fourth stands alone."""
    B = np.array([[2.0, 0.0, 0.0], [1.0, 3.0, 0.0], [3.0, 3.0, 0.0], [0.0, 1.0, 5.0]])
    lower, kept = independent_cholesky(B @ B.T, 1e-10)
    assert_array_equal(kept, [0, 1, 3])
    assert_allclose(lower, B, atol=1e-12)


def test_factor_equals_lapack_at_full_rank(rng):
    A = np.cov(rng.normal(size=(6, 40)))
    lower, kept = independent_cholesky(A, 1e-10)
    assert_array_equal(kept, np.arange(6))
    assert_allclose(lower, np.linalg.cholesky(A), rtol=1e-12, atol=1e-14)


def test_noise_pivot_is_not_a_pivot(rng):
    """A rank that LAPACK's own factorisation does not see."""
    B = rng.normal(size=(8, 3))
    A = B @ B.T
    A[np.diag_indices(8)] *= 1 + 1e-15
    lower, kept = independent_cholesky(A, 1e-10)
    assert len(kept) == 3
    assert_allclose(lower @ lower.T, A, atol=1e-12)


@pytest.mark.parametrize("method", sorted(WHITENINGS))
def test_maps_are_inverse_and_whiten(rng, method):
    A = np.cov(rng.normal(size=(5, 40)))
    whitening = WHITENINGS[method](A, 1e-10)
    assert_allclose(whitening.forward.T @ A @ whitening.forward, np.eye(5), atol=1e-10)
    assert_allclose(whitening.forward @ whitening.backward, np.eye(5), atol=1e-10)


def test_scale_is_the_weighted_deviation():
    X = np.array([[0.0, 7.0], [2.0, 7.0], [2.0, 7.0]])
    mean, scale = standard_scale(X, np.array([2.0, 1.0, 1.0]))
    assert_allclose(mean, [1.0, 7.0])
    # The second column is constant and keeps its unit.
    assert_allclose(scale, [1.0, 1.0])


def test_a_constant_that_rounds_is_still_constant():
    column = np.full((10, 1), 0.1) * np.ones((10, 1))
    assert standard_scale(1e8 * column, None)[1] == 1.0


@pytest.mark.parametrize("shrinkage", [0.0, 0.1])
def test_whitened_classes_have_unit_covariance(rng, shrinkage):
    codes = np.arange(200) % 2
    X = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3)) + 5.0 * codes[:, None]
    mean, A = within_class_whitening(X, codes, None, shrinkage)
    assert_allclose(mean, X.mean(axis=0))
    centred = X - np.stack([X[codes == c].mean(axis=0) for c in (0, 1)])[codes]
    covariance = centred.T @ centred / 200
    level = np.trace(covariance) / 3
    shrunk = (1 - shrinkage) * covariance + shrinkage * level * np.eye(3)
    assert_allclose(A.T @ shrunk @ A, np.eye(3), atol=1e-9)


def test_weights_are_repetitions(rng):
    X, codes, times = rng.normal(size=(20, 2)), np.arange(20) % 2, rng.randint(1, 4, 20)
    weighted = within_class_whitening(X, codes, times.astype(float))
    repeated = within_class_whitening(np.repeat(X, times, axis=0), np.repeat(codes, times), None)
    assert_allclose(weighted[1] @ weighted[1].T, repeated[1] @ repeated[1].T)


def test_classes_without_spread_are_left_as_they_are():
    _, A = within_class_whitening(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1]), None)
    assert_allclose(A, np.eye(2))


def test_normal_scores_are_standardised_mid_rank_quantiles():
    values, scores = normal_score_knots(np.array([5.0, -1.0, 5.0, 2.0]), None)
    assert_array_equal(values, [-1.0, 2.0, 5.0])
    mass = np.array([0.25, 0.25, 0.5])
    raw = ndtri([0.125, 0.375, 0.75])
    raw -= mass @ raw
    assert_allclose(scores, raw / np.sqrt(mass @ raw**2))


def test_normal_scores_ignore_units_and_count_weights(rng):
    x = rng.exponential(size=30)
    plain = normal_score_knots(x, None)[1]
    assert_allclose(normal_score_knots(1e200 * x, None)[1], plain)
    assert_allclose(normal_score_knots(x, np.full(30, 1e12))[1], plain)
    times = rng.randint(1, 4, 30)
    repeated = normal_score_knots(np.repeat(x, times), None)[1]
    assert_allclose(normal_score_knots(x, times.astype(float))[1], repeated)


def test_constant_and_long_columns():
    values, scores = normal_score_knots(np.full(5, 3.0), None)
    assert_array_equal(scores, [0.0])
    assert_array_equal(score_slopes(np.array([1.0, 3.0]), values, scores), 0.0)
    values, scores = normal_score_knots(np.arange(1000.0), None)
    assert len(values) <= MAX_KNOTS
    assert values[[0, -1]].tolist() == [0.0, 999.0]
    assert (np.diff(scores) > 0).all()


def test_score_slopes_are_differences(rng):
    values, scores = normal_score_knots(rng.normal(size=20), None)
    x = 0.5 * (values[1:] + values[:-1])
    step = 1e-7
    expected = (np.interp(x + step, values, scores) - np.interp(x - step, values, scores)) / (
        2 * step
    )
    assert_allclose(score_slopes(x, values, scores), expected, rtol=1e-5)
    assert_array_equal(score_slopes(np.array([-99.0, 99.0]), values, scores), 0.0)
