"""Blocks of rows in threads, one BLAS thread inside each."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from threadpoolctl import ThreadpoolController

from vicinal._base import is_array_api, thread_map


@functools.cache
def _controller() -> ThreadpoolController:
    # Looking for the loaded libraries takes milliseconds, so it is done once per process.
    return ThreadpoolController()


def one_blas_thread() -> Any:
    """Return a context in which BLAS keeps to one thread, so that threads of ours can call it."""
    return _controller().limit(limits=1, user_api="blas")


def one_thread_each() -> Any:
    """Return a context in which BLAS and OpenMP keep to one thread.

    Small work gains little by more of them, and on a busy machine threads that wait for one another
    take several times as long.
    """
    return _controller().limit(limits=1)


def block_threads(X: Any, n_jobs: int | None) -> int | None:
    """Return ``n_jobs`` for rows on the host, one for a device: it divides the work itself."""
    return 1 if is_array_api(X) else n_jobs


def block_map(function: Callable, blocks: Iterable[Any], n_jobs: int | None = None) -> list:
    """Apply ``function`` to each block in threads and return the results in order.

    BLAS is held to one thread meanwhile: element-wise work, which BLAS does not thread, is as large
    as the products here, so threads pay only around both.
    """
    with one_blas_thread():
        return thread_map(function, blocks, n_jobs)
