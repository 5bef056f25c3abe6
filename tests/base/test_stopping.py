"""Only the work of the thread and block in question stops."""

import threading

import pytest

from vicinal._base import row_blocks
from vicinal._base._parallel import WorkStoppedError, check_stopped, stopped_by


def test_blocks_of_rows_end_when_nobody_waits():
    event = threading.Event()
    with stopped_by(event):
        blocks = row_blocks(10, 1, max_rows=3)
        found = [next(blocks).start, next(blocks).start]
        event.set()
        with pytest.raises(WorkStoppedError):
            next(blocks)
    assert found == [0, 3]
    check_stopped()
    assert len(list(row_blocks(10, 1, max_rows=3))) == 4
