"""LoessRegressor against the reference code."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal.local import LocalRegressor, LoessRegressor
from vicinal.local._fits import LineFit, LocalFit


def reference(X, y, *, span, degree, robust):
    """Fit the reference code; it wants two columns in Fortran order inside a C array."""
    loess = pytest.importorskip("skmisc.loess").loess
    n, d = X.shape
    model = loess(
        X[:, 0].copy() if d == 1 else X.T.copy().reshape(n, d),
        y,
        span=span,
        degree=degree,
        family="symmetric" if robust else "gaussian",
        iterations=4 if robust else 1,
        surface="direct",
        statistics="exact",
        normalize=False,
    )
    model.fit()
    return model


def noisy(rng, n, d):
    X = rng.uniform(0, 3, size=(n, d))
    return X, np.sin(2 * X).sum(axis=1) + 0.2 * rng.standard_t(3, size=n)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("span", [0.4, 1.0])
def test_fitted_values_equal_the_reference(rng, d, degree, robust, span):
    X, y = noisy(rng, 90, d)
    expected = reference(X, y, span=span, degree=degree, robust=robust)
    model = LoessRegressor(span, degree=degree, robust_iterations=4 * robust).fit(X, y)
    assert_allclose(model.predict(X), expected.outputs.fitted_values, atol=1e-7)


@pytest.mark.parametrize("degree", [1, 2])
def test_standard_errors_equal_the_reference(rng, degree):
    X, y = noisy(rng, 90, 1)
    expected = reference(X, y, span=0.5, degree=degree, robust=False)
    model = LoessRegressor(0.5, degree=degree).fit(X, y)
    q = np.linspace(0.1, 2.9, 15)
    predicted = expected.predict(q, stderror=True)
    value, error = model.predict(q[:, None], return_std=True)
    found = model.statistics()
    assert_allclose(value, predicted.values, atol=1e-8)
    assert_allclose(error, predicted.stderr, atol=1e-8)
    assert_allclose(found.sigma, expected.outputs.residual_scale, atol=1e-8)
    assert_allclose(found.one_delta, expected.outputs.one_delta, atol=1e-7)
    assert_allclose(found.two_delta, expected.outputs.two_delta, atol=1e-7)
    assert_allclose(found.equivalent_parameters, expected.outputs.enp, atol=1e-7)
    bounds = predicted.confidence(0.05)
    interval = model.predict_interval(q[:, None], 0.95, method="normal", kind="confidence")
    assert_allclose(interval, np.column_stack([bounds.lower, bounds.upper]), atol=1e-7)


@pytest.mark.parametrize("d", [1, 2])
def test_span_above_one_stretches_the_largest_distance(rng, d):
    X, y = noisy(rng, 60, d)
    model = LoessRegressor(2.0, degree=1).fit(X, y)
    q = X[0]
    distance = np.linalg.norm(X - q, axis=1)
    w = (1 - (distance / (distance.max() * 2.0 ** (1 / d))) ** 3) ** 3
    D = np.column_stack([np.ones(60), X - q])
    expected = np.linalg.solve(D.T @ (w[:, None] * D), D.T @ (w * y))[0]
    assert_allclose(model.predict(q[None]), expected, rtol=1e-7)


def test_is_a_preset_of_the_local_regressor(rng):
    X, y = noisy(rng, 80, 2)
    general = LocalRegressor(n_neighbors=0.5, degree=2, alpha=0.0, metric="euclidean").fit(X, y)
    assert_allclose(LoessRegressor(0.5).fit(X, y).predict(X), general.predict(X), rtol=1e-12)


@pytest.mark.parametrize("degree", [0, 1, 2])
@pytest.mark.parametrize("rule", [0.3, 17])
def test_sorted_windows_equal_search_and_qr(rng, degree, rule):
    x = np.round(rng.uniform(0, 3, size=(120, 1)), 1 if rule == 0.3 else 6)
    y = np.column_stack([np.sin(x.ravel()), rng.normal(size=120)])
    q = np.concatenate([x[:30], rng.uniform(-0.2, 3.2, size=(30, 1))])
    model = LocalRegressor(n_neighbors=rule, degree=degree, alpha=0.0, metric="euclidean").fit(x, y)
    assert isinstance(model._model, LineFit)
    general = LocalFit(**model._model.__getstate__())
    assert_allclose(model.predict(q), general.predictions(q), atol=1e-8)


def test_repeated_points_are_averaged():
    x = np.repeat([0.0, 1.0, 2.0], [10, 10, 10])[:, None]
    y = np.arange(30.0)
    assert_allclose(LoessRegressor(0.2, degree=1).fit(x, y).predict([[1.0]]), 14.5)


def test_interpolation_is_close_and_exact_at_nodes(rng):
    X, y = noisy(rng, 800, 1)
    direct = LoessRegressor(0.3).fit(X, y)
    blended = LoessRegressor(0.3, surface="interpolate").fit(X, y)
    nodes = blended._model.curve.x[:, None]
    assert len(nodes) < 50
    assert_allclose(blended.predict(nodes), direct.predict(nodes), rtol=1e-9)
    error = np.abs(blended.predict(X) - direct.predict(X)).max()
    assert 0.0 < error < 0.02 * np.ptp(direct.predict(X))


def test_interpolation_of_weighted_rows_is_exact_at_nodes(rng):
    X, y = noisy(rng, 200, 1)
    y, weights = np.column_stack([y, 2.0 * y]), rng.uniform(0.5, 2.0, 200)
    direct = LoessRegressor(0.3).fit(X, y, sample_weight=weights)
    blended = LoessRegressor(0.3, surface="interpolate").fit(X, y, sample_weight=weights)
    nodes = blended._model.curve.x[:, None]
    assert_allclose(blended.predict(nodes), direct.predict(nodes), rtol=1e-9)


def test_interpolation_of_equal_rows_is_their_mean():
    model = LoessRegressor(surface="interpolate").fit(np.ones((10, 1)), np.arange(10.0))
    assert_allclose(model.predict([[1.0]]), 4.5)


def test_interpolation_fits_directly_outside_the_nodes(rng):
    X, y = noisy(rng, 300, 1)
    direct = LoessRegressor(0.3).fit(X, y)
    blended = LoessRegressor(0.3, surface="interpolate").fit(X, y)
    assert_allclose(blended.predict([[-0.5], [3.4]]), direct.predict([[-0.5], [3.4]]), rtol=1e-9)


def test_interpolation_needs_one_column(rng):
    X, y = noisy(rng, 50, 2)
    with pytest.raises(ValueError, match="one column, and X has 2"):
        LoessRegressor(surface="interpolate").fit(X, y)


@pytest.mark.parametrize("surface", ["direct", "interpolate"])
def test_four_robust_iterations_are_five_fits(rng, surface):
    X, y = noisy(rng, 100, 1)
    model = LoessRegressor(0.5, robust_iterations=4, surface=surface).fit(X, y)
    by_hand = LoessRegressor(0.5, surface=surface).fit(X, y)
    for _ in range(4):
        size = np.abs(y - by_hand.predict(X))
        u = size / (6 * np.median(size))
        factor = np.where(u < 0.001, 1.0, np.where(u > 0.999, 0.0, (1 - u**2) ** 2))
        by_hand._model = replace(by_hand._model, factor=factor)
    assert_allclose(model.predict(X), by_hand.predict(X), rtol=1e-9)


def test_weights_equal_repetition(rng):
    X, y = noisy(rng, 60, 1)
    weights = rng.randint(0, 4, 60)
    model = LoessRegressor(0.5, robust_iterations=2)
    weighted = model.fit(X, y, sample_weight=weights).predict(X)
    repeated = model.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).predict(X)
    assert_allclose(weighted, repeated, rtol=1e-8)
