"""Fixtures shared by all tests."""

import gc
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_regression

_MANY = 8000  # tests of a run of the whole suite


def pytest_collection_finish(session):
    """In a run of the whole suite, let the workers share the compilation of what all need."""
    gc.set_threshold(50_000, 20, 50)  # the collected tests are many objects and no garbage
    worker = getattr(session.config, "workerinput", None)
    if worker is None or len(session.items) < _MANY:
        return
    from tests.compiled import STEPS

    number = int(worker["workerid"].removeprefix("gw"))
    for step in list(STEPS.values())[number :: worker["workercount"]]:
        with suppress(Exception):  # tests/kernels/test_jit.py runs the steps too
            step()


@pytest.fixture
def rng():
    return np.random.RandomState(0)


@pytest.fixture(scope="session")
def data_folder():
    """The folder of the benchmark sets, or a skip that says how to get them."""
    folder = os.environ.get("VICINAL_DATA")
    if not folder:
        pytest.skip("set VICINAL_DATA to the folder of the benchmark sets to run this test")
    return Path(folder)


@pytest.fixture(scope="session")
def three_classes():
    """Three overlapping classes in five dimensions."""
    return make_classification(
        n_samples=150, n_features=5, n_informative=4, n_redundant=0, n_classes=3, random_state=0
    )


@pytest.fixture(scope="session")
def smooth_target():
    """A noisy linear target in four dimensions."""
    return make_regression(n_samples=120, n_features=4, noise=1.0, random_state=0)


def _converter(xp_name):
    if xp_name == "torch":
        torch = pytest.importorskip("torch")
        return torch.asarray
    strict = pytest.importorskip("array_api_strict")
    return strict.asarray


@pytest.fixture(params=["torch", "array_api_strict"])
def to_array(request):
    """A function that turns a NumPy array into one of another library."""
    return _converter(request.param)
