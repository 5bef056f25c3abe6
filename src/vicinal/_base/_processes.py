"""Python processes that share the cores."""

import os
import subprocess
import sys
import tempfile
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


def start_process(module: str, n_processes: int) -> Any:
    """Return one of ``n_processes`` that run a module, with pipes; ``log`` is its standard error.

    Each has its share of the cores for compiled code, BLAS and joblib.
    """
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
