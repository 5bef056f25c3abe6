"""Tasks in parallel, with seeds drawn before dispatch.

``n_jobs=None`` is one rule in all of the library, scikit-learn's: compiled loops use every core
(``n_threads``, ``thread_map``), whole fits run one after the other unless joblib is configured
otherwise (``parallel_map``).
"""

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from vicinal._base._compat import openmp_threads, threadpool_controller
from vicinal._base._progress import Progress

_MAX_SEED = np.iinfo(np.int32).max


def _use_one_openmp_thread() -> None:
    threadpool_controller().limit(limits=1, user_api="openmp")


if hasattr(os, "register_at_fork"):
    # GNU's OpenMP, which scikit-learn is built with, would wait in a forked child for threads that
    # only the parent has, for ever; one thread needs no others.
    os.register_at_fork(after_in_child=_use_one_openmp_thread)


def draw_seeds(random_state, n_seeds: int) -> list[int]:
    """Draw one integer seed per task, so that results cannot depend on how tasks are scheduled."""
    rng = check_random_state(random_state)
    return [int(seed) for seed in rng.randint(_MAX_SEED, size=n_seeds)]


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads for compiled code.

    ``None`` means every core the process may use, as for scikit-learn's own OpenMP code: compiled
    loops release the lock and share memory, so more threads cost nothing.
    """
    return int(openmp_threads()) if n_jobs is None else int(effective_n_jobs(n_jobs))


def thread_map(
    function: Callable,
    items: Iterable,
    n_jobs: int | None = None,
    *,
    stop: threading.Event | None = None,
) -> list:
    """Apply ``function`` to each item in threads; for compiled code that releases the lock.

    When anything goes wrong, Ctrl-C included, ``stop`` is set before the other threads are waited
    for, so that long functions can look at it and end.
    """
    items = list(items)
    threads = min(n_threads(n_jobs), len(items))
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

    Any joblib backend set by ``joblib.parallel_config`` is used; ``verbose`` shows progress.
    """
    tasks = list(tasks)
    runner = Parallel(n_jobs=n_jobs, prefer=prefer, return_as="generator")
    results = []
    with Progress(len(tasks), label, verbose=verbose) as progress:
        for result in runner(delayed(function)(*task) for task in tasks):
            results.append(result)
            progress.advance()
    return results
