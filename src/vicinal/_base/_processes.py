"""Python processes that share the cores, and that may be started before they are needed.

Their imports take seconds, during which a table can be read.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from joblib import cpu_count

from vicinal._base import _clock

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "LOKY_MAX_CPU_COUNT",
)
_ready: dict[tuple[str, int], list[Any]] = {}


@contextmanager
def processes_ahead(module: str, n_processes: int) -> Iterator[None]:
    """Start processes for :func:`take_process`; unused ones end with the block."""
    waiting = [_started(module, n_processes) for _ in range(n_processes)]
    _ready[module, n_processes] = waiting
    try:
        yield
    finally:
        for process in _ready.pop((module, n_processes)):
            process.kill()
            process.communicate()
            process.log.close()


def take_process(module: str, n_processes: int) -> Any:
    """Return one of ``n_processes`` that run a module, with pipes; ``log`` is its standard error.

    A process may use ``cores // n_processes`` threads. Unlike one of multiprocessing it does not
    import the user's script.
    """
    waiting = _ready.get((module, n_processes))
    return waiting.pop() if waiting else _started(module, n_processes)


def _started(module: str, n_processes: int) -> Any:
    log = tempfile.TemporaryFile()
    process: Any = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env=_environment(max(1, cpu_count() // n_processes)),
    )
    process.log, process.started = log, _clock.now()
    return process


def _environment(n_threads: int) -> dict[str, str]:
    """Return environment variables with a limit on threads and the path of this library."""
    environment = dict(os.environ)
    for name in _THREAD_VARIABLES:
        given = environment.get(name, "")
        environment[name] = str(min(n_threads, int(given)) if given.isdigit() else n_threads)
    source = str(Path(__file__).parents[2])
    paths = [source, *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment
