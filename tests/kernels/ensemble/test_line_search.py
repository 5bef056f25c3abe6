import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from vicinal._kernels.ensemble._line_search import deviation, step_length
from vicinal._kernels.ensemble._losses import (
    AbsoluteError,
    Exponential,
    Logistic,
    Multinomial,
    Poisson,
    Quantile,
    SquaredError,
)


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
