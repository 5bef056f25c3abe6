"""A small cluster within the test's own process, or no threads at all."""

import dask
import pytest

from distributed import Client


@pytest.fixture(scope="module")
def client():
    with Client(
        processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0"
    ) as client:
        yield client


@pytest.fixture
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield
