"""Blocks of rows sized from scikit-learn's ``working_memory``."""

from collections.abc import Iterator

from sklearn import get_config

from vicinal._base._stopping import check_stopped

_MIB = 2**20


def row_blocks(
    n_rows: int,
    bytes_per_row: int,
    *,
    working_memory: float | None = None,
    max_rows: int | None = None,
) -> Iterator[slice]:
    """Yield slices that cover ``range(n_rows)``, each within the memory budget.

    Work that nobody waits for any more ends before the next slice.

    Parameters
    ----------
    n_rows : int
        Number of rows to cover.
    bytes_per_row : int
        Temporary memory that one row costs its consumer.
    working_memory : float, default=None
        Budget in MiB; ``None`` reads ``sklearn.get_config()["working_memory"]``.
    max_rows : int, default=None
        Upper bound on a block, for consumers that gain nothing from longer ones.

    Examples
    --------
    >>> from vicinal._base import row_blocks
    >>> [(b.start, b.stop) for b in row_blocks(5, 2**20, working_memory=2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    budget = get_config()["working_memory"] if working_memory is None else working_memory
    rows = max(1, int(budget * _MIB // max(1, bytes_per_row)))
    if max_rows is not None:
        rows = min(rows, max_rows)
    for start in range(0, n_rows, rows):
        check_stopped()
        yield slice(start, min(start + rows, n_rows))
