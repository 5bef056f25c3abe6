"""Device arrays give what NumPy arrays give."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vicinal._base import as_numpy
from vicinal._kernels._local_batched import batched_newton
from vicinal._kernels._local_newton import LOGISTIC, SQUARED_HINGE, local_newton
from vicinal.local import LocalClassifier, LocalRegressor, NadarayaWatsonRegressor


@pytest.fixture
def data(three_classes):
    X, y = three_classes
    return X[:110], y[:110], X[110:]


def both(model, to_array, X, y, Q, **fit):
    """Return the model fitted on NumPy arrays, on device arrays, and the device queries."""
    from sklearn.base import clone

    host = clone(model).fit(X, y, **fit)
    fit = {name: to_array(np.asarray(value, dtype=float)) for name, value in fit.items()}
    return host, clone(model).fit(to_array(X), to_array(y), **fit), to_array(Q)


@pytest.mark.parametrize("solver", ["ridge", "logistic", "squared_hinge"])
@pytest.mark.parametrize("metric", ["euclidean", "standardized"])
def test_classifiers_agree(to_array, data, solver, metric):
    X, y, Q = data
    # Calibration is the same code for all solvers; left-out Newton fits would only take time.
    calibration = "temperature" if solver == "ridge" else None
    model = LocalClassifier(
        solver=solver, n_neighbors=20, alpha=0.3, metric=metric, calibration=calibration
    )
    host, device, queries = both(model, to_array, X, y, Q)
    assert type(device.predict_proba(queries)) is type(queries)
    assert_allclose(
        as_numpy(device.decision_function(queries)), host.decision_function(Q), rtol=1e-6, atol=1e-7
    )
    assert_allclose(
        as_numpy(device.predict_proba(queries)), host.predict_proba(Q), rtol=1e-5, atol=1e-7
    )
    assert_array_equal(as_numpy(device.predict(queries)), host.predict(Q))
    assert_allclose(as_numpy(device.local_coef(queries)), host.local_coef(Q), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", ["tricube", "uniform", "gaussian", "cosine", "epanechnikov"])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("n_neighbors", [15, 0.3])
def test_regressors_agree(to_array, data, kernel, alpha, n_neighbors):
    X, _, Q = data
    y = np.sin(X[:, 0]) + X[:, 1]
    weights = np.random.RandomState(0).randint(0, 3, len(y))
    model = LocalRegressor(
        n_neighbors=n_neighbors, alpha=alpha, kernel=kernel, degree=1, metric="euclidean"
    )
    host, device, queries = both(model, to_array, X, y, Q, sample_weight=weights)
    assert_allclose(as_numpy(device.predict(queries)), host.predict(Q), rtol=1e-6, atol=1e-8)
    if alpha > 0:
        assert_allclose(
            as_numpy(device.local_coef(queries)), host.local_coef(Q), rtol=1e-6, atol=1e-8
        )


def test_more_columns_than_neighbours(to_array, rng):
    X, y, Q = rng.normal(size=(60, 30)), rng.normal(size=(60, 2)), rng.normal(size=(9, 30))
    model = LocalRegressor(n_neighbors=12, alpha=0.5, degree=1, metric="euclidean")
    host, device, queries = both(model, to_array, X, y, Q)
    assert_allclose(as_numpy(device.predict(queries)), host.predict(Q), rtol=1e-7)
    assert_allclose(as_numpy(device.local_coef(queries)), host.local_coef(Q), rtol=1e-6, atol=1e-9)


def test_choices_agree(to_array, data):
    X, y, Q = data
    for model, target in (
        (LocalClassifier(metric="standardized", random_state=0), y),
        (LocalRegressor(metric="standardized", degree=1), X[:, 0] ** 2),
        (NadarayaWatsonRegressor(), X[:, 0] ** 2),
    ):
        host, device, queries = both(model, to_array, X, target, Q)
        assert_allclose(device.selection_["loss"], host.selection_["loss"], rtol=1e-7, atol=1e-9)
        assert device.metric_ == host.metric_
        assert device.n_neighbors_ == host.n_neighbors_
        assert_allclose(as_numpy(device.predict(queries)), host.predict(Q), rtol=1e-6)


def test_duplicates_of_the_query(to_array):
    X = np.array([[1.0, 1.0]] * 6 + [[2.0, 2.0], [3.0, 1.0]])
    y = np.array([1.0, 2, 3, 4, 5, 6, 50, 60])
    model = LocalRegressor(n_neighbors=3, alpha=1.0, degree=1, metric="euclidean")
    host, device, queries = both(model, to_array, X, y, X)
    assert_allclose(as_numpy(device.predict(queries)), host.predict(X), rtol=1e-9)
    assert_allclose(as_numpy(device.predict(queries))[0], 3.5)


@pytest.mark.parametrize(
    ("loss", "code"), [("squared_hinge", SQUARED_HINGE), ("logistic", LOGISTIC)]
)
def test_newton_twins_agree(to_array, rng, loss, code):
    offsets, weights = rng.normal(size=(4, 15, 3)), rng.uniform(0.1, 1, size=(4, 15))
    codes = rng.randint(0, 2, 60)
    codes[::15], codes[1::15] = 0, 1
    y = np.where(codes.reshape(4, 15) == 1, 1.0, -1.0)
    penalties = np.full(4, 0.3), np.full(4, 0.1)
    theta, converged = batched_newton(
        *map(to_array, (offsets, y, weights, *penalties)), C=0.7, loss=loss, tol=1e-10, max_iter=60
    )
    assert bool(as_numpy(converged).all())
    scores, slopes = np.empty((4, 2)), np.empty((4, 2, 3))
    local_newton(
        offsets.reshape(60, 3), np.zeros((4, 3)), np.arange(5) * 15, np.arange(60),
        weights.ravel(), codes.astype(np.int64), code, 1, 0.3, False, 0.7, 0.1, 0.0, 1e-12, 100,
        True, scores, slopes, np.ones(4, dtype=bool),
    )  # fmt: skip
    expected = np.column_stack([slopes[:, 1], scores[:, 1]])
    assert_allclose(as_numpy(theta), expected, rtol=1e-6, atol=1e-8)


def test_unsupported_settings_are_named(to_array, data):
    X, y, _ = data
    with pytest.raises(ValueError, match="bandwidth, solver as given"):
        LocalClassifier(bandwidth=1.0, solver="hinge").fit(to_array(X), to_array(y))
    model = LocalClassifier(n_neighbors=9, alpha=1.0).fit(to_array(X), to_array(y))
    with pytest.raises(ValueError, match="NumPy arrays"):
        model.neighbors(to_array(X))
    with pytest.raises(TypeError, match="convert X"):
        model.predict(X)


def test_float32_tensors_stay_float32(data):
    torch = pytest.importorskip("torch")
    X, y, Q = data
    model = LocalClassifier(solver="squared_hinge", n_neighbors=20, alpha=0.3, metric="euclidean")
    tensors = [torch.asarray(a, dtype=torch.float32) for a in (X, Q)]
    proba = model.fit(tensors[0], torch.asarray(y)).predict_proba(tensors[1])
    assert proba.dtype == torch.float32
    assert_allclose(proba.numpy(), model.fit(X, y).predict_proba(Q), atol=1e-3)
