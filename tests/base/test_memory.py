import pytest
import sklearn

from vicinal._base import row_blocks


@pytest.mark.parametrize("n_rows", [0, 1, 7, 100])
@pytest.mark.parametrize("bytes_per_row", [1, 2**19, 2**30])
def test_blocks_cover_every_row_once(n_rows, bytes_per_row):
    blocks = list(row_blocks(n_rows, bytes_per_row, working_memory=2))
    assert [i for b in blocks for i in range(b.start, b.stop)] == list(range(n_rows))


def test_block_length_follows_working_memory():
    with sklearn.config_context(working_memory=4):
        (first, *_) = row_blocks(100, 2**20)
    assert first == slice(0, 4)


def test_a_row_larger_than_the_budget_still_gets_a_block():
    assert list(row_blocks(2, 2**30, working_memory=1)) == [slice(0, 1), slice(1, 2)]


def test_max_rows_bounds_a_block():
    assert list(row_blocks(5, 1, max_rows=3)) == [slice(0, 3), slice(3, 5)]
