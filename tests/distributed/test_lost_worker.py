"""A worker killed in the middle of a fit changes nothing."""

import os
import signal

import dask.array as da
import numpy as np
from numpy.testing import assert_array_equal

from distributed import Client, LocalCluster
from vicinal import distributed
from vicinal.local import AnchoredLocalClassifier

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


def test_models_at_anchors_survive_a_killed_worker(tmp_path, monkeypatch):
    monkeypatch.setattr("vicinal.local.blocks.SAMPLE_ROWS", 100)
    X = np.random.RandomState(0).normal(size=(200, 2))
    y = da.from_array((X[:, 0] * X[:, 1] > 0).astype(int), chunks=50)
    model = AnchoredLocalClassifier(
        6, n_neighbors=20, metric="euclidean", alpha=1.0, random_state=0
    )
    safe = da.from_array(X, chunks=(50, 2))
    wanted = distributed.fit(model, safe, y)
    deadly = safe.map_blocks(killed_once, str(tmp_path), dtype=X.dtype, meta=np.empty((0, 2)))
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        found = distributed.fit(model, deadly, y)
    assert (tmp_path / "killed").exists()
    assert_array_equal(found.anchors_.values, wanted.anchors_.values)
    assert_array_equal(found.anchors_.slopes, wanted.anchors_.slopes)
    assert_array_equal(found.predict_proba(X), wanted.predict_proba(X))
