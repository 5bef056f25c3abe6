import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime, minimize_scalar
from sklearn.linear_model import Lasso, LogisticRegression

from vicinal._kernels.ensemble._boosting import (
    AbsoluteError,
    Exponential,
    Huber,
    LeastSquaresRefit,
    Logistic,
    MeanLoss,
    Multinomial,
    Poisson,
    Quantile,
    SquaredError,
    best_constant,
    deviation,
    step_length,
    weighted_quantile,
)


@pytest.mark.parametrize("n", [1, 2, 5, 10, 37])
def test_unit_weights_give_numpys_averaged_inverse(n, rng):
    values, q = rng.normal(size=n), np.array([0.05, 0.1, 0.25, 0.5, 0.9, 0.95])
    expected = np.quantile(values, q, method="averaged_inverted_cdf")
    assert_allclose(weighted_quantile(values, q, np.ones(n)), expected)


def test_weights_equal_repetition(rng):
    values, times = rng.normal(size=20), rng.randint(1, 5, size=20)
    q = np.linspace(0.05, 0.95, 19)
    repeated = np.repeat(values, times)
    assert_allclose(
        weighted_quantile(values, q, times.astype(float)),
        weighted_quantile(repeated, q, np.ones(len(repeated))),
    )


def test_result_does_not_depend_on_the_scale_of_weights(rng):
    values, weights = rng.normal(size=9), rng.uniform(0.1, 1.0, size=9)
    q = np.array([0.2, 0.5, 0.8])
    assert_allclose(
        weighted_quantile(values, q, weights), weighted_quantile(values, q, 1e-9 * weights)
    )


SINGLE = [
    (SquaredError(), "real"),
    (AbsoluteError(), "real"),
    (Quantile(0.3), "real"),
    (Huber(0.9, delta=0.7), "real"),
    (Poisson(), "count"),
    (Logistic(), "binary"),
    (Exponential(), "binary"),
]
IDS = [type(loss).__name__ for loss, _ in SINGLE]


def targets(kind, n, rng):
    if kind == "binary":
        return rng.randint(0, 2, n).astype(float)
    return rng.poisson(2.0, n).astype(float) if kind == "count" else rng.normal(size=n)


@pytest.mark.parametrize(("loss", "kind"), SINGLE, ids=IDS)
def test_gradient_and_hessian_agree_with_differences(loss, kind, rng):
    y, score = targets(kind, 40, rng), rng.normal(size=40)
    step = 1e-6
    up, down = loss.value(y, score + step), loss.value(y, score - step)
    assert_allclose(loss.gradient(y, score), (up - down) / (2 * step), atol=1e-8)
    up, down = loss.gradient(y, score + step), loss.gradient(y, score - step)
    assert_allclose(loss.hessian(y, score), (up - down) / (2 * step), atol=1e-7)


def test_multinomial_derivatives_agree_with_differences(rng):
    loss, y, score = Multinomial(4), np.array([2]), rng.normal(size=4)
    gradient = approx_fprime(score, lambda s: loss.value(y, s[None])[0], 1e-7)
    assert_allclose(loss.gradient(y, score[None])[0], gradient, atol=1e-6)
    direction, step = rng.normal(size=(1, 4)), 1e-5
    slopes = [
        (loss.gradient(y, score[None] + s * direction) * direction).sum() for s in (step, -step)
    ]
    # One coefficient, of a column that holds the direction.
    _, along = MeanLoss(loss, y, np.ones(1), direction.T, score[None]).derivatives(np.zeros(1))
    assert_allclose(along[0, 0], (slopes[0] - slopes[1]) / (2 * step), rtol=1e-6)
    for k in range(4):
        unit = np.eye(4)[:, [k]]
        _, curvature = MeanLoss(loss, y, np.ones(1), unit, score[None]).derivatives(np.zeros(1))
        assert_allclose(loss.hessian(y, score[None])[0, k], curvature[0, 0])


@pytest.mark.parametrize(
    ("loss", "kind"), [pair for pair in SINGLE if not isinstance(pair[0], Huber)]
)
def test_constant_minimises_the_weighted_loss(loss, kind, rng):
    y, weight = targets(kind, 31, rng), rng.uniform(0.5, 2.0, 31)

    def total(constant):
        return weight @ loss.value(y, np.full(31, constant))

    found = minimize_scalar(total, bounds=(-5, 5), method="bounded", options={"xatol": 1e-10})
    assert total(loss.constant(y, weight)) <= found.fun + 1e-8


def test_multinomial_constant_gives_the_class_shares():
    loss, y = Multinomial(3), np.array([0, 0, 1, 2, 2, 2])
    start = loss.constant(y, np.ones(6))
    assert_allclose(loss.probability(start[None])[0], [2 / 6, 1 / 6, 3 / 6])
    assert_allclose(start.sum(), 0.0, atol=1e-12)


def test_losses_without_a_constant_are_searched(rng):
    class Squared:
        def value(self, y, score):
            return (y - score) ** 2

    y, weight = rng.normal(size=20), rng.uniform(size=20)
    assert_allclose(best_constant(Squared(), y, weight), np.average(y, weights=weight), rtol=1e-6)


def test_huber_takes_its_threshold_from_the_residuals():
    y = np.array([0.0, 1.0, 2.0, 3.0, 100.0])
    adapted = Huber(0.7).adapted(y, np.zeros(5), np.ones(5))
    assert adapted.delta == 3.0
    assert_allclose(adapted.value(y, np.zeros(5)), [0.0, 0.5, 2.0, 4.5, 3.0 * (100.0 - 1.5)])


def test_large_scores_do_not_overflow_the_logistic_loss():
    loss, score = Logistic(), np.array([800.0, -800.0])
    assert_allclose(loss.value(np.array([1.0, 0.0]), score), 0.0)
    assert_allclose(loss.value(np.array([0.0, 1.0]), score), 800.0)


@pytest.mark.parametrize("loss", [Exponential(), Poisson()])
def test_overflow_is_infinite_and_silent(loss):
    assert loss.value(np.array([0.0]), np.array([1e4]))[0] == np.inf


def test_squared_error_has_the_closed_form(rng):
    (y, score, d), w = rng.normal(size=(3, 50)), rng.uniform(0.1, 2, 50)
    d *= np.sign(w @ ((y - score) * d))
    expected = (w @ (d * (y - score))) / (w @ d**2)
    assert_allclose(step_length(SquaredError(), y, w, score, d), expected, rtol=1e-9)


@pytest.mark.parametrize(
    "loss", [Logistic(), Exponential(), Poisson(), AbsoluteError(), Quantile(0.2)]
)
def test_step_is_the_minimum_along_the_line(loss, rng):
    y, score = rng.randint(0, 2, 60).astype(float), rng.normal(size=60)
    w = rng.uniform(0.5, 2, 60)
    d = -loss.gradient(y, score) + 0.5 * rng.normal(size=60)
    found = step_length(loss, y, w, score, d)

    def total(a):
        return w @ loss.value(y, score + a * d)

    best = minimize_scalar(total, bounds=(0, 50), method="bounded", options={"xatol": 1e-10})
    assert found > 0
    assert total(found) <= best.fun + 1e-7


def test_multinomial_step_is_the_minimum_along_the_line(rng):
    loss, y, score = Multinomial(3), rng.randint(0, 3, 60), rng.normal(size=(60, 3))
    d, w = -loss.gradient(y, score) + rng.normal(size=(60, 3)), np.ones(60)

    def total(a):
        return w @ loss.value(y, score + a * d)

    best = minimize_scalar(total, bounds=(0, 50), method="bounded", options={"xatol": 1e-10})
    assert_allclose(step_length(loss, y, w, score, d), best.x, rtol=1e-4)


@pytest.mark.parametrize("loss", [SquaredError(), AbsoluteError()])
def test_directions_that_do_not_descend_get_zero(loss, rng):
    y, score = rng.normal(size=30), np.zeros(30)
    w = np.ones(30)
    assert step_length(loss, y, w, score, loss.gradient(y, score)) == 0.0
    assert step_length(loss, y, w, score, np.zeros(30)) == 0.0


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_size_of_the_direction_does_not_matter(factor, rng):
    y, score = rng.randint(0, 2, 60).astype(float), rng.normal(size=60)
    w, d = np.ones(60), -Logistic().gradient(y, score)
    plain = step_length(Logistic(), y, w, score, d)
    assert_allclose(step_length(Logistic(), y, w, score, factor * d) * factor, plain, rtol=1e-8)


def test_separated_rows_give_a_finite_step():
    y, d = np.array([0.0, 0.0, 1.0, 1.0]), np.array([-1.0, -1.0, 1.0, 1.0])
    assert np.isfinite(step_length(Logistic(), y, np.ones(4), np.zeros(4), d))


def test_deviation_is_the_weighted_standard_deviation(rng):
    values, times = rng.normal(size=15), rng.randint(1, 4, 15)
    assert_allclose(deviation(values, times.astype(float)), np.repeat(values, times).std())


@pytest.fixture
def members(rng):
    Phi = np.asfortranarray(np.column_stack([np.ones(120), rng.normal(size=(120, 5))]))
    score = Phi @ np.array([0.3, 1.0, -0.5, 0.0, 0.0, 0.2])
    return Phi, score + rng.normal(size=120), rng.uniform(0.5, 2.0, 120)


def test_least_squares_refit_equals_lstsq(members):
    Phi, y, w = members
    refit = LeastSquaresRefit(y, w, 6)
    for m in range(1, 7):
        refit.add(Phi[:, :m])
        root = np.sqrt(w)
        expected = np.linalg.lstsq(root[:, None] * Phi[:, :m], root * y, rcond=None)[0]
        assert_allclose(refit.solve(np.zeros(m)), expected, atol=1e-10)


def test_newton_equals_the_normal_equations_for_squared_error(members):
    Phi, y, w = members
    refit = LeastSquaresRefit(y, w, 6)
    refit.add(Phi)
    ridge = np.r_[0.0, np.full(5, 0.1)]
    found = MeanLoss(SquaredError(), y, w, Phi).refit(np.zeros(6), ridge)
    assert_allclose(found, refit.solve(ridge), atol=1e-9)


def test_identical_members_share_their_coefficient(members):
    Phi, y, w = members
    refit = LeastSquaresRefit(y, w, 3)
    refit.add(np.asfortranarray(Phi[:, [0, 1, 1]]))
    found = refit.solve(np.zeros(3))
    assert_allclose(found[1], found[2], rtol=1e-6)


def test_logistic_refit_equals_scikit_learn(members):
    Phi, score, w = members
    y = (score > 0).astype(float)
    ridge = np.r_[0.0, np.full(5, 0.05)]
    found = MeanLoss(Logistic(), y, w, Phi).refit(np.zeros(6), ridge)
    reference = LogisticRegression(C=1.0 / (0.05 * w.sum()), tol=1e-10, max_iter=10_000)
    reference.fit(Phi[:, 1:], y, sample_weight=w)
    assert_allclose(found[1:], reference.coef_[0], atol=1e-5)
    assert_allclose(found[0], reference.intercept_[0], atol=1e-5)


def test_derivatives_in_coefficients_agree_with_differences(rng):
    n, K, m = 30, 3, 4
    Phi = np.asfortranarray(rng.normal(size=(n * K, m)))
    y, share = rng.randint(0, K, n), rng.dirichlet(np.ones(n))
    theta, mean_loss = rng.normal(size=m), MeanLoss(Multinomial(K), y, share, Phi)
    gradient, hessian = mean_loss.derivatives(theta)
    differences = approx_fprime(theta, mean_loss.value, 1e-7)
    assert_allclose(gradient, differences, atol=1e-6)
    for j in range(m):
        step = 1e-5 * np.eye(m)[j]
        up, down = mean_loss.gradient(theta + step), mean_loss.gradient(theta - step)
        assert_allclose(hessian[j], (up - down) / 2e-5, atol=1e-7)


def test_l1_path_equals_lasso(members):
    Phi, y, _ = members
    w = np.ones(len(y))
    start = np.r_[y.mean(), np.zeros(5)]
    mean_loss = MeanLoss(SquaredError(), y, w, Phi)
    top = mean_loss.largest_useful_penalty(1, start)
    penalties = top * np.array([1.0, 0.3, 0.05])
    path = mean_loss.l1_path(1, penalties, start)
    assert not path[0, 1:].any()
    for penalty, theta in zip(penalties[1:], path[1:], strict=True):
        reference = Lasso(alpha=penalty, tol=1e-10).fit(Phi[:, 1:], y)
        assert_allclose(theta[1:], reference.coef_, atol=1e-5)
        assert_allclose(theta[0], reference.intercept_, atol=1e-5)


def test_l1_path_of_the_logistic_loss_is_stationary(members):
    Phi, score, w = members
    y, loss = (score > 0).astype(float), Logistic()
    start = np.r_[loss.constant(y, w), np.zeros(5)]
    mean_loss = MeanLoss(loss, y, w, Phi)
    top = mean_loss.largest_useful_penalty(1, start)
    penalty = 0.1 * top
    theta = mean_loss.l1_path(1, np.array([top, penalty]), start, tol=1e-13)[-1]
    gradient = mean_loss.gradient(theta)
    assert abs(gradient[0]) < 1e-6
    active = theta[1:] != 0
    assert 0 < active.sum()
    assert_allclose(gradient[1:][active], -penalty * np.sign(theta[1:][active]), atol=1e-6)
    assert (np.abs(gradient[1:][~active]) <= penalty + 1e-6).all()
