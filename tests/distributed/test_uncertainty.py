"""The mixture over blocks equals the one in memory."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_moons

from tests.distributed.blocks import as_dask
from vicinal import distributed
from vicinal.uncertainty import ResponsibilityMixture, _responsibility_mixture

BLOCKS = (40, 60, 500)


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(150, noise=0.3, random_state=0)
    return X, np.array(["up", "down"])[y]


@pytest.mark.parametrize("rows_per_block", BLOCKS)
@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_mixture_equals_the_one_in_memory(moons, rows_per_block, covariance_type):
    X, _ = moons
    weight = np.random.RandomState(0).randint(0, 3, size=len(X)).astype(float)
    model = ResponsibilityMixture(
        3, covariance_type=covariance_type, n_init=2, max_iter=15, tol=1e-3, random_state=0
    )
    kept = weight > 0
    wanted = model.fit(X[kept], sample_weight=weight[kept])
    found = distributed.fit(
        model, as_dask(X, rows_per_block), sample_weight=as_dask(weight, rows_per_block)
    )
    for name in ("weights_", "means_", "covariances_", "lower_bounds_"):
        assert_allclose(getattr(found, name), getattr(wanted, name), atol=1e-9, err_msg=name)
    assert_allclose(found.predict_proba(X), wanted.predict_proba(X), atol=1e-9)


def test_weights_equal_repetition(moons):
    X, _ = moons
    weight = np.random.RandomState(1).randint(0, 3, size=len(X))
    model = ResponsibilityMixture(2, means_init=[[-1.0, 1.0], [2.0, 0.0]])
    whole = np.repeat(X, weight, axis=0)
    repeated = distributed.fit(model, as_dask(whole, 40))
    weighted = distributed.fit(model, as_dask(X, 40), sample_weight=as_dask(weight, 40))
    assert_allclose(weighted.means_, repeated.means_, atol=1e-9)
    assert_allclose(weighted.covariances_, repeated.covariances_, atol=1e-9)


def test_starts_from_a_sample_do_not_depend_on_blocks(moons, monkeypatch):
    X, _ = moons
    monkeypatch.setattr(_responsibility_mixture, "SAMPLE_ROWS", 60)
    model = ResponsibilityMixture(3, n_init=3, random_state=0)
    first, second = (distributed.fit(model, as_dask(X, size)) for size in (40, 60))
    assert_allclose(first.means_, second.means_, atol=1e-9)
    best = ResponsibilityMixture(3, n_init=10, random_state=0).fit(X)
    assert first.lower_bounds_[-1] > best.lower_bounds_[-1] - 0.02


def test_labels_and_too_many_components_are_refused(moons):
    X, y = moons
    with pytest.raises(ValueError, match="does not take labels y"):
        distributed.fit(ResponsibilityMixture(2), as_dask(X, 50), as_dask(y, 50))
    with pytest.raises(ValueError, match="exceeds the 150 rows"):
        distributed.fit(ResponsibilityMixture(151), as_dask(X, 50))


def test_empty_blocks_do_not_matter(moons):
    X, _ = moons
    sizes = (0, 90, 0, 60)
    rows = da.from_array(X, chunks=(sizes, 2))
    model = ResponsibilityMixture(2, random_state=0)
    assert_allclose(distributed.fit(model, rows).means_, model.fit(X).means_, atol=1e-9)
