"""Every estimator with ``n_jobs`` predicts the same on every joblib backend."""

import importlib.util

import joblib
import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification

from tests.common.discovery import public_estimators
from tests.common.instances import accepts, make

PARALLEL = sorted(name for name, cls in public_estimators().items() if accepts(cls, "n_jobs"))


@pytest.fixture(scope="module")
def rows():
    return make_classification(n_samples=90, n_features=4, n_redundant=0, random_state=0)


@pytest.fixture(scope="module")
def workers():
    """Two worker processes of loky, started once and ended with the module."""
    yield
    get_reusable_executor().shutdown(wait=True)


def predictions(name, rows, n_jobs):
    X, y = rows
    X = X[:, :1] if name == "LoessRegressor" else X
    model = make(public_estimators()[name], n_jobs=n_jobs).fit(X, y)
    for method in ("predict_proba", "predict", "transform"):
        if hasattr(model, method):
            return np.asarray(getattr(model, method)(X[:30]))
    return np.asarray(model.kneighbors(X[:30])[0])


@pytest.fixture(scope="module")
def serial(rows):
    return {name: predictions(name, rows, 1) for name in PARALLEL}


def check(backend, serial, rows, names=PARALLEL):
    with joblib.parallel_config(backend=backend, n_jobs=2):
        for name in names:
            found = predictions(name, rows, 2)
            assert_allclose(found, serial[name], rtol=1e-12, atol=1e-12, err_msg=name)


def test_the_estimators_are_found_by_their_signature():
    assert {"BootstrapEnsembleClassifier", "LocalClassifier", "NeighborSearch"} <= set(PARALLEL)


def test_dask(client, serial, rows):
    check("dask", serial, rows)


def test_tasks_of_joblib_reach_the_workers_of_dask(client, rows):
    with joblib.parallel_config(backend="dask"):
        predictions("BootstrapEnsembleClassifier", rows, None)
    done = client.run_on_scheduler(lambda dask_scheduler: set(dask_scheduler.task_prefixes))
    assert any("_fit_estimator" in prefix for prefix in done), done


def test_loky(workers, serial, rows):
    check("loky", serial, rows)


def test_threading(serial, rows):
    check("threading", serial, rows)


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray: pip install ray")
def test_ray(serial, rows):
    from ray.util.joblib import register_ray

    register_ray()
    check("ray", serial, rows)
