"""Parallel work, blocks of rows that fit in memory, and work that can be stopped."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn import get_config
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from vicinal._base._compat import threadpool_controller
from vicinal._base._progress import Progress

_stop: ContextVar[threading.Event | None] = ContextVar("stop", default=None)


class WorkStoppedError(Exception):
    """Raised in work whose result is no longer needed."""


@contextmanager
def stopped_by(event: threading.Event) -> Iterator[None]:
    """Stop the work of this block, in this thread, soon after the event is set."""
    token = _stop.set(event)
    try:
        yield
    finally:
        _stop.reset(token)


def check_stopped() -> None:
    """Raise if the event of the enclosing :func:`stopped_by` is set."""
    event = _stop.get()
    if event is not None and event.is_set():
        raise WorkStoppedError


_MIB = 2**20


def row_blocks(
    n_rows: int,
    bytes_per_row: int,
    *,
    working_memory: float | None = None,
    max_rows: int | None = None,
) -> Iterator[slice]:
    """Yield slices that cover ``range(n_rows)``, each within the memory budget.

    Stopped work ends before the next slice (see :func:`stopped_by`).

    Parameters
    ----------
    n_rows : int
        Number of rows to cover.
    bytes_per_row : int
        Temporary memory needed for one row.
    working_memory : float, default=None
        Budget in MiB; ``None`` reads ``sklearn.get_config()["working_memory"]``.
    max_rows : int, default=None
        Largest number of rows of a block.

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


_MAX_SEED = np.iinfo(np.int32).max


def _use_one_openmp_thread() -> None:
    threadpool_controller().limit(limits=1, user_api="openmp")


if hasattr(os, "register_at_fork"):
    # In a forked child GNU's OpenMP waits forever for threads that only the parent has; one thread
    # does not need them.
    os.register_at_fork(after_in_child=_use_one_openmp_thread)


def random_seeds(random_state, n_seeds: int) -> list[int]:
    """Return one integer seed per task, so that results do not depend on scheduling."""
    rng = check_random_state(random_state)
    return [int(seed) for seed in rng.randint(_MAX_SEED, size=n_seeds)]


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads for compiled code: ``None`` is 1 unless joblib is configured."""
    return int(effective_n_jobs(n_jobs))


def thread_map(
    function: Callable,
    items: Iterable,
    n_jobs: int | None = None,
    *,
    stop: threading.Event | None = None,
) -> list:
    """Apply ``function`` to each item in threads; for compiled code that releases the GIL.

    After an error or Ctrl-C ``stop`` is set before the other threads are joined, so that long
    functions can check it and end.
    """
    items = list(items)
    threads = len(items) if len(items) <= 1 else min(n_threads(n_jobs), len(items))
    if threads <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(function, item) for item in items]
        try:
            done = wait(futures, return_when=FIRST_EXCEPTION).done
            for future in (future for future in futures if future in done):
                future.result()
            return [future.result() for future in futures]
        except BaseException:
            if stop is not None:
                stop.set()
            for future in futures:
                future.cancel()
            raise


def parallel_map(
    function: Callable,
    tasks: Sequence[tuple],
    *,
    n_jobs: int | None = None,
    prefer: str | None = None,
    label: str = "",
    verbose: int = 0,
) -> list[Any]:
    """Call ``function(*task)`` for every task through joblib and return the results in order.

    Any joblib backend set by ``joblib.parallel_config`` is used; ``verbose`` shows progress. The
    function may run in another process, where changes of its arguments are lost, so it must return
    its result: ``None`` raises. Functions that write into shared arrays belong to
    :func:`thread_map`, which always runs threads.
    """
    tasks = list(tasks)
    runner = Parallel(n_jobs=n_jobs, prefer=prefer, return_as="generator")
    results = []
    with Progress(len(tasks), label, verbose=verbose) as progress:
        for result in runner(delayed(function)(*task) for task in tasks):
            if result is None:
                raise TypeError(
                    f"{function!r} returns None, but tasks may run in other processes, where "
                    "changes of arguments are lost; return the result, or use thread_map."
                )
            results.append(result)
            progress.advance()
    return results
