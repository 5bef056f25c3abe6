import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime, minimize_scalar

from vicinal._kernels.ensemble._losses import (
    AbsoluteError,
    Exponential,
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    Quantile,
    SquaredError,
    best_constant,
    curvature_along,
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
    along = curvature_along(loss, y, score[None], direction)
    assert_allclose(along, (slopes[0] - slopes[1]) / (2 * step), rtol=1e-6)
    for k in range(4):
        unit = np.eye(4)[[k]]
        assert_allclose(
            loss.hessian(y, score[None])[0, k], curvature_along(loss, y, score[None], unit)[0]
        )


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
