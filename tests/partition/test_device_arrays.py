"""Device arrays give what NumPy arrays give."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from vicinal._base import as_numpy
from vicinal._kernels.cascade._hard import assign_kmeans, rows_by_region
from vicinal._kernels.linear._covariance import lda_statistics
from vicinal.partition import SpacePartitioningClassifier


@pytest.fixture
def data(rng):
    X = rng.uniform(-1, 1, size=(400, 3))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, 0) + (X[:, 2] > 0.6)
    return X[:300], y[:300], X[300:]


@pytest.mark.parametrize("init", ["kmeans", "random"])
def test_cascades_agree(to_array, data, init):
    X, y, Q = data
    model = SpacePartitioningClassifier(
        "lda", n_regions=3, n_init=2, init=init, max_iter=25, random_state=0
    )
    host = clone(model).fit(X, y)
    device = clone(model).fit(to_array(X), to_array(y))
    queries = to_array(Q)
    assert_allclose(device.start_errors_, host.start_errors_)
    assert type(device.predict_proba(queries)) is type(queries)
    assert_allclose(as_numpy(device.predict_proba(queries)), host.predict_proba(Q), rtol=1e-6)
    assert_array_equal(as_numpy(device.predict(queries)), host.predict(Q))
    assert_array_equal(as_numpy(device.apply(queries)), host.apply(Q))
    assert_allclose(
        as_numpy(device.decision_path(queries)), host.decision_path(Q), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("options", [
    {"keep": "best", "combine": "best"},
    {"n_regions": 1},
    {"scale": False, "keep": "best"},
])  # fmt: skip
def test_choices_agree(to_array, data, options):
    X, y, Q = data
    model = SpacePartitioningClassifier("lda", random_state=0).set_params(
        **{"n_regions": 2, "n_init": 2, **options}
    )
    host = clone(model).fit(X, y)
    device = clone(model).fit(to_array(X), to_array(y))
    assert_allclose(device.start_errors_, host.start_errors_)
    assert_allclose(as_numpy(device.predict_proba(to_array(Q))), host.predict_proba(Q), rtol=1e-6)


def test_errors_of_few_regions_agree(to_array, data):
    # With more regions, a last bit may lead to another minimum.
    X, y, _ = data
    model = SpacePartitioningClassifier("lda", n_regions="auto", n_init=1, random_state=0)
    host = clone(model).fit(X, y).n_regions_errors_
    device = clone(model).fit(to_array(X), to_array(y)).n_regions_errors_
    assert_allclose([device[n] for n in (1, 2)], [host[n] for n in (1, 2)], rtol=1e-6)


def test_weights_count_rows(to_array, data):
    X, y, Q = data
    weights = np.random.RandomState(1).randint(0, 3, len(y)).astype(float)
    model = SpacePartitioningClassifier("lda", n_regions=2, n_init=1, random_state=0)
    host = clone(model).fit(X, y, sample_weight=weights)
    device = clone(model).fit(to_array(X), to_array(y), sample_weight=to_array(weights))
    assert_allclose(as_numpy(device.predict_proba(to_array(Q))), host.predict_proba(Q), rtol=1e-6)


def test_labels_from_the_host_come_back_as_they_were(to_array, data):
    X, y, Q = data
    names = np.array(["a", "b", "c"])[y]
    model = SpacePartitioningClassifier("lda", n_regions=2, n_init=1, random_state=0)
    found = model.fit(to_array(X), names).predict(to_array(Q))
    assert_array_equal(found, clone(model).fit(X, names).predict(Q))


def test_first_assignments_agree(to_array, data):
    X, _, _ = data
    weight = np.random.RandomState(0).uniform(0.5, 2, len(X))
    expected = assign_kmeans(X, weight, 4, np.random.RandomState(3))
    found = assign_kmeans(to_array(X), to_array(weight), 4, np.random.RandomState(3))
    assert_array_equal(as_numpy(found), expected)


def test_sums_of_regions_agree(to_array, data):
    X, y, _ = data
    region = np.random.RandomState(0).randint(0, 3, len(y))
    weight = np.random.RandomState(0).uniform(0.5, 2, len(X))
    rows = rows_by_region(to_array(region), 3)
    for k in range(3):
        chosen = np.flatnonzero(region == k)
        assert_array_equal(as_numpy(rows[k]), chosen)
        own = y[chosen], weight[chosen]
        found = lda_statistics(to_array(X), *map(to_array, own), 3, rows=rows[k])
        expected = lda_statistics(X, *own, 3, rows=chosen)
        for a, b in zip(found, expected, strict=True):
            assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_float32_tensors_stay_float32(data):
    torch = pytest.importorskip("torch")
    X, y, Q = data
    model = SpacePartitioningClassifier("lda", n_regions=2, n_init=1, random_state=0)
    single = [torch.asarray(a, dtype=torch.float32) for a in (X, Q)]
    proba = clone(model).fit(single[0], torch.asarray(y)).predict_proba(single[1])
    assert proba.dtype == torch.float32
    expected = clone(model).fit(X.astype(np.float32), y).predict_proba(Q.astype(np.float32))
    assert_allclose(proba.numpy(), expected, atol=1e-3)


def test_unsupported_settings_are_named(to_array, data):
    X, y, Q = data
    with pytest.raises(ValueError, match="region_estimator='logistic', reject_estimator=None"):
        SpacePartitioningClassifier().fit(to_array(X), to_array(y))
    with pytest.raises(ValueError, match="gating='soft' cannot be.*use region_estimator='lda'"):
        SpacePartitioningClassifier("lda", gating="soft").fit(to_array(X), to_array(y))
    model = SpacePartitioningClassifier("lda", n_regions=2, n_init=1, random_state=0)
    model.fit(to_array(X), to_array(y))
    with pytest.raises(TypeError, match="convert X"):
        model.predict(Q)


def test_regions_are_counted_and_described_on_the_host(to_array, data):
    X, y, _ = data
    model = SpacePartitioningClassifier("lda", n_regions=2, n_init=1, random_state=0)
    there = clone(model).fit(to_array(X), to_array(y))
    model.fit(X, y)
    counts = there.region_histogram(to_array(X), to_array(y))
    assert_array_equal(counts, model.region_histogram(X, y))
    pytest.importorskip("pandas")
    report = there.region_report(to_array(X), to_array(y))
    assert_array_equal(report["error"], model.region_report(X, y)["error"])
