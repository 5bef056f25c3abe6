"""A worker killed in the middle of a fit changes nothing."""

import os
import signal

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose

from distributed import Client, LocalCluster
from tests.common.processes import posix
from vicinal import distributed
from vicinal.auto import AutoClassifier

# Four blocks are read in each pass; this reading belongs to the third, the search.
_DEADLY_READING = 10


def killed_once(block, folder):
    """Return the block; one process that reads the tenth, or a later one, dies without a word."""
    if len(block):
        diary, mark = os.path.join(folder, "readings"), os.path.join(folder, "killed")
        with open(diary, "a") as file:
            file.write("x")
        if os.path.getsize(diary) >= _DEADLY_READING:
            try:
                open(mark, "x").close()
            except FileExistsError:
                return block
            os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


def surviving(model, X, y, folder, cluster):
    """Return the model of all workers, and that of workers of which one is killed."""
    targets = da.from_array(y, chunks=50)
    safe = da.from_array(X, chunks=(50, X.shape[1]))
    wanted = distributed.fit(model, safe, targets)
    nothing = np.empty((0, X.shape[1]))
    deadly = safe.map_blocks(killed_once, str(folder), dtype=X.dtype, meta=nothing)
    with Client(cluster):
        found = distributed.fit(model, deadly, targets)
    assert (folder / "killed").exists()
    return wanted, found


@posix
def test_mixtures_survive_a_killed_worker(tmp_path, monkeypatch, cluster):
    monkeypatch.setattr("vicinal.auto._fit.SAMPLE_ROWS", 100)
    X = np.random.RandomState(0).normal(size=(200, 2))
    y = (X[:, 0] > 0.3 * X[:, 1]).astype(int)
    model = AutoClassifier(["linear"], random_state=0)
    wanted, found = surviving(model, X, y, tmp_path, cluster)
    assert found.estimators_[0].n_rows == 200
    # Sums over blocks are taken in one order, but which worker computes a block changes, and with
    # it, in rare runs, the last bit of what comes back (2e-16 was seen).
    assert_allclose(found.predict_proba(X), wanted.predict_proba(X), rtol=1e-12, atol=1e-15)
