"""Decorators of compiled functions, cached on disk and run without the global interpreter lock.

Callers give threads blocks of rows (``vicinal._base.thread_map``) instead of using numba's
``prange``: then ``n_jobs`` sets the number of threads, nested parallelism is safe, and compilation
takes half the time. Numba is imported when a compiled function is first called, because the import
takes half a second that small tables do not need.
"""

import functools
import importlib
import os
import threading
import warnings
from typing import Any

# Allow reassociation and fused multiply-add for vectorised reductions; NaN and infinity still work.
_FASTMATH = {"reassoc", "contract", "arcp", "nsz"}
# The source files that the compiled functions of a file were made from, its own among them.
_sources: dict[str, set[str]] = {}
_lock = threading.RLock()


class Kernel:
    """A function that is compiled, with those it calls, when it is first called."""

    def __init__(self, function, options: dict):
        functools.update_wrapper(self, function)
        self.py_func = function
        self._options = options
        self._dispatcher: Any = None
        _note_sources(function)

    def __call__(self, *args, **named):
        return self.dispatcher(*args, **named)

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)

    def __reduce__(self):
        return _kernel_named, (self.py_func.__module__, self.py_func.__qualname__)

    @property
    def dispatcher(self) -> Any:
        """The compiled function; it also replaces the kernels that the function calls."""
        if self._dispatcher is None:
            with _lock:
                known = self.py_func.__globals__
                for name in self.py_func.__code__.co_names:
                    if isinstance(known.get(name), Kernel):
                        known[name] = known[name].dispatcher
                if self._dispatcher is None:
                    self._dispatcher = _compiled(self.py_func, self._options)
        return self._dispatcher


def _kernel_named(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _note_sources(function) -> None:
    """Note the files that a function is compiled from."""
    own = function.__code__.co_filename
    files = _sources.setdefault(own, {own})
    for value in function.__globals__.values():
        called = getattr(value, "py_func", None)
        if called is not None:
            files |= _sources.get(called.__code__.co_filename, set())


def _stamp(function) -> tuple:
    """Return the state of all source files of a function, to detect an outdated cache.

    Numba checks the function's own file only, not those of the functions that it calls.
    """
    states = [os.stat(file) for file in sorted(_sources[function.__code__.co_filename])]
    return tuple((state.st_mtime, state.st_size) for state in states)


@functools.cache
def _warn_no_cache() -> None:
    warnings.warn(
        "No cache folder for compiled functions is writable, so every process compiles them again "
        "(seconds to a minute); set NUMBA_CACHE_DIR to a writable folder.",
        RuntimeWarning,
        stacklevel=2,
    )


def _compiled(function, options: dict) -> Any:
    import numba

    from vicinal._kernels._compiled_files import SignatureFiles

    try:
        dispatcher = numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        _warn_no_cache()
        return numba.njit(nogil=True, **options)(function)
    cache = dispatcher._cache
    base = cache._impl.filename_base
    cache._cache_file = SignatureFiles(cache.cache_path, base, _stamp(function))
    return dispatcher


def _decorator(function=None, **options) -> Any:
    if function is None:
        return functools.partial(_decorator, **options)
    return Kernel(function, options)


# Typed as Any: type checkers cannot know that a decorated function stays callable.
jit: Any = _decorator()
fast_jit: Any = _decorator(fastmath=_FASTMATH)
# Division by zero raises no error: loops that may raise one cannot be vectorised.
vector_jit: Any = _decorator(fastmath=_FASTMATH, error_model="numpy")
# For functions that allocate nothing and return numbers or nothing: without reference counts of
# arrays, which would take longer than a small call.
outer_jit: Any = _decorator(fastmath=_FASTMATH, _nrt=False)
# The same for functions that only compiled functions call: a call from Python would crash.
inner_jit: Any = _decorator(
    fastmath=_FASTMATH, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True
)
# For small functions that only compiled functions call: they are inlined.
inline_jit: Any = _decorator(fastmath=_FASTMATH, _nrt=False, inline="always")
