"""How compiled functions are compiled: in one place, cached on disk, without the lock.

Threads are given blocks of rows by the caller (``vicinal._base.thread_map``) instead of by numba's
own ``prange``: ``n_jobs`` is then obeyed, nested parallelism is safe with every threading layer,
and compilation takes half the time.
"""

import functools
import os
import warnings
from typing import Any

import numba

# Allows reassociation and fused multiply-add, which vectorises reductions; NaN and infinity keep
# their meaning, so guards on them still work.
_FASTMATH = {"reassoc", "contract", "arcp", "nsz"}
# The source files that the compiled functions of a file were made from, its own among them.
_sources: dict[str, set[str]] = {}


def _stamp(function) -> tuple:
    """Return what tells whether a cached function is up to date: the state of all its sources.

    Numba itself looks at the function's own file only, and would go on using a function compiled
    together with an older version of one that it calls.
    """
    own = function.__code__.co_filename
    files = _sources.setdefault(own, {own})
    for value in function.__globals__.values():
        called = getattr(value, "py_func", None)
        if called is not None:
            files |= _sources.get(called.__code__.co_filename, set())
    states = [os.stat(file) for file in sorted(files)]
    return tuple((state.st_mtime, state.st_size) for state in states)


@functools.cache
def _warn_no_cache() -> None:
    warnings.warn(
        "no folder to keep compiled functions in can be written to, so that they are compiled "
        "anew in every process (seconds to a minute); set NUMBA_CACHE_DIR to a folder that can.",
        RuntimeWarning,
        stacklevel=2,
    )


def _compile(function=None, **options) -> Any:
    if function is None:
        return functools.partial(_compile, **options)
    try:
        dispatcher = numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        _warn_no_cache()
        return numba.njit(nogil=True, **options)(function)
    dispatcher._cache._cache_file._source_stamp = _stamp(function)
    return dispatcher


# Typed as Any: type checkers cannot know that a decorated function stays callable.
jit: Any = _compile()
fast_jit: Any = _compile(fastmath=_FASTMATH)
# For functions that allocate nothing and return numbers or nothing: arrays are not counted, which
# costs many times as much as a small call.
outer_jit: Any = _compile(fastmath=_FASTMATH, _nrt=False)
# The same for functions that only compiled ones call: nothing is compiled to enter from Python, and
# a call from Python would crash.
inner_jit: Any = _compile(
    fastmath=_FASTMATH, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True
)
# For small functions that only compiled ones call: they become part of their callers.
inline_jit: Any = _compile(fastmath=_FASTMATH, _nrt=False, inline="always")
