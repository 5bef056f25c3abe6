"""Device arrays give what NumPy arrays give."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from vicinal._base import as_numpy
from vicinal.subspace import (
    FeatureSpaceDecomposition,
    TruncatedRBFClassifier,
    TruncatedRBFFeatures,
    TruncatedRBFRegressor,
)


@pytest.fixture
def data(three_classes):
    X, y = three_classes
    return X[:110], y[:110], X[110:]


@pytest.mark.parametrize("solver", ["primal", "dual"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers_agree(to_array, data, solver, n_classes):
    X, y, Q = data
    y = np.minimum(y, n_classes - 1)
    weights = np.random.RandomState(0).randint(0, 3, len(y)).astype(float)
    model = TruncatedRBFClassifier(2, solver=solver)
    host = clone(model).fit(X, y, sample_weight=weights)
    device = clone(model).fit(to_array(X), to_array(y), sample_weight=to_array(weights))
    queries = to_array(Q)
    assert type(device.predict_proba(queries)) is type(queries)
    assert device.slope_ == pytest.approx(host.slope_, rel=1e-8)
    assert_allclose(
        as_numpy(device.decision_function(queries)), host.decision_function(Q), rtol=1e-7, atol=1e-9
    )
    assert_allclose(as_numpy(device.predict_proba(queries)), host.predict_proba(Q), rtol=1e-7)
    assert_array_equal(as_numpy(device.predict(queries)), host.predict(Q))


@pytest.mark.parametrize("solver", ["primal", "dual"])
def test_regressors_agree(to_array, data, solver):
    X, _, Q = data
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]])
    for target in (Y, Y[:, 0]):
        model = TruncatedRBFRegressor(3, gamma=0.01, solver=solver)
        host = clone(model).fit(X, target)
        device = clone(model).fit(to_array(X), to_array(target))
        assert_allclose(
            as_numpy(device.predict(to_array(Q))), host.predict(Q), rtol=1e-6, atol=1e-8
        )


@pytest.mark.parametrize("center", [True, False])
def test_features_agree(to_array, data, center):
    X = data[0]
    model = TruncatedRBFFeatures(2, center=center)
    host = clone(model).fit_transform(X)
    device = clone(model).fit(to_array(X))
    assert_allclose(as_numpy(device.transform(to_array(X))), host, rtol=1e-10, atol=1e-14)


def test_class_weights_and_thresholds_agree(to_array, data):
    X, y, Q = data
    model = TruncatedRBFClassifier(class_weight="balanced", threshold="tuned")
    host = clone(model).fit(X, y > 0)
    device = clone(model).fit(to_array(X), to_array((y > 0).astype(int)))
    assert device.threshold_ == pytest.approx(host.threshold_, rel=1e-8)
    assert_allclose(as_numpy(device.predict_proba(to_array(Q))), host.predict_proba(Q), rtol=1e-7)


def test_labels_from_the_host_come_back_as_they_were(to_array, data):
    X, y, Q = data
    names = np.array(["low", "mid", "high"])[y]
    device = TruncatedRBFClassifier().fit(to_array(X), names)
    assert_array_equal(
        device.predict(to_array(Q)), TruncatedRBFClassifier().fit(X, names).predict(Q)
    )


def test_float32_tensors_stay_float32(data):
    torch = pytest.importorskip("torch")
    X, y, Q = data
    single = [torch.asarray(a, dtype=torch.float32) for a in (X, Q)]
    model = TruncatedRBFClassifier(2)
    proba = clone(model).fit(single[0], torch.asarray(y)).predict_proba(single[1])
    assert proba.dtype == torch.float32
    assert_allclose(proba.numpy(), clone(model).fit(X, y).predict_proba(Q), atol=1e-4)


def test_unsupported_settings_are_named(to_array, data):
    X, y, _ = data
    model = TruncatedRBFClassifier().fit(to_array(X), to_array(y))
    with pytest.raises(TypeError, match="convert X"):
        model.predict(X)
    with pytest.raises(ValueError, match="finite, nonnegative"):
        model.fit(to_array(X), to_array(y), sample_weight=to_array(-np.ones(len(y))))
    with pytest.raises(ValueError, match="y has 3 entries"):
        model.fit(to_array(X), to_array(y[:3]))


def test_wide_gamma_warns_on_a_device_too(to_array, data):
    X, y, _ = data
    with pytest.warns(UserWarning, match="above order/2"):
        TruncatedRBFClassifier(gamma=10.0).fit(to_array(X), to_array(y))


@pytest.mark.parametrize(
    "method", ["random", "principal", "discriminant", "cholesky", "approximate"]
)
def test_decompositions_agree(to_array, data, method):
    X, y, Q = data
    X, Q = (np.column_stack([a, np.ones(len(a))]) for a in (X, Q))
    weights = np.random.RandomState(0).randint(0, 3, len(y)).astype(float)
    model = FeatureSpaceDecomposition(method, n_blocks=2, random_state=0)
    host = clone(model).fit(X, y, sample_weight=weights)
    device = clone(model).fit(to_array(X), to_array(y), sample_weight=to_array(weights))
    queries = to_array(Q)
    assert type(device.transform(queries)) is type(queries)
    assert_allclose(as_numpy(device.transform(queries)), host.transform(Q), rtol=1e-7, atol=1e-9)
    assert_array_equal(device.constant_, host.constant_)
    with pytest.raises(TypeError, match="convert X"):
        device.transform(Q)


def test_mixed_libraries_are_refused(data):
    torch = pytest.importorskip("torch")
    strict = pytest.importorskip("array_api_strict")
    X, y, _ = data
    with pytest.raises(TypeError, match="y is a .* give both in one array library"):
        TruncatedRBFClassifier().fit(torch.asarray(X), strict.asarray(y))
