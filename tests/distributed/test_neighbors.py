"""The sharded search finds what a search in one memory finds."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.distributed.blocks import as_dask
from vicinal.distributed import kneighbors
from vicinal.neighbors import NeighborSearch

BLOCKS = (7, 40, 300)


@pytest.fixture(scope="module")
def rows():
    return np.random.RandomState(0).normal(size=(211, 3))


@pytest.mark.parametrize("rows_per_block", BLOCKS)
def test_neighbors_equal_those_in_memory_for_any_blocks(rows, rows_per_block):
    Q = rows[::9] + 0.1
    wanted = NeighborSearch().fit(rows).kneighbors(Q, 12)
    found = kneighbors(as_dask(rows, rows_per_block), as_dask(Q, 10), 12)
    assert_array_equal(found[0].compute(), wanted[0])
    assert_array_equal(found[1].compute(), wanted[1])


@pytest.mark.parametrize("rows_per_block", BLOCKS)
def test_ties_go_to_the_first_rows(rows_per_block):
    X = np.tile([[0.0], [1.0], [2.0]], (50, 1))
    _, positions = kneighbors(as_dask(X, rows_per_block), as_dask(np.array([[1.0]]), 1), 4)
    assert_array_equal(positions.compute(), [[1, 4, 7, 10]])


def test_blocks_shorter_than_the_neighborhood_are_merged_whole(rows):
    distances, _ = kneighbors(as_dask(rows, 7), as_dask(rows[:5], 5), 100)
    assert distances.compute().shape == (5, 100)
    assert_array_equal(np.diff(distances.compute(), axis=1) >= 0, True)


def test_other_metrics(rows):
    wanted = NeighborSearch(metric="manhattan").fit(rows).kneighbors(rows[:6], 5)
    found = kneighbors(as_dask(rows, 30), as_dask(rows[:6], 6), 5, metric="manhattan")
    assert_allclose(found[0].compute(), wanted[0], rtol=1e-12)
    assert_array_equal(found[1].compute(), wanted[1])


def test_data_frames_are_counted_first(rows):
    frame = pd.DataFrame(rows, columns=list("abc"))
    wanted = NeighborSearch().fit(rows).kneighbors(rows[:8], 3)
    X = dd.from_pandas(frame, npartitions=4)
    Q = dd.from_pandas(frame.iloc[:8], npartitions=2)
    _, positions = kneighbors(X, Q, 3)
    assert_array_equal(positions.compute(), wanted[1])
    with pytest.raises(ValueError, match="use the same columns"):
        kneighbors(X, Q[["b", "a", "c"]], 3)


@pytest.mark.parametrize(
    ("n_neighbors", "match"),
    [(0, "at least 1"), (2.5, "must be an integer"), (212, "exceeds the 211 rows of X")],
)
def test_impossible_numbers_are_refused_before_work(rows, n_neighbors, match):
    X = as_dask(rows, 50)
    with pytest.raises(ValueError, match=match):
        kneighbors(X, X, n_neighbors)


def test_queries_of_another_width_are_refused(rows):
    with pytest.raises(ValueError, match="Q has 2 columns, but X has 3"):
        kneighbors(as_dask(rows, 50), as_dask(rows[:, :2], 50), 3)


def test_missing_values_are_refused(rows):
    broken = rows.copy()
    broken[100, 1] = np.nan
    found = kneighbors(as_dask(broken, 50), as_dask(rows[:2], 2), 3)[1]
    with pytest.raises(ValueError, match="X contains NaN"):
        found.compute()
