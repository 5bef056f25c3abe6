"""Running lazy work: on the cluster when one is connected, else on this machine's threads."""

from contextlib import nullcontext
from typing import Any

import dask
import distributed
from dask.diagnostics import ProgressBar

# A task that fails because its worker died is started again this often.
_RETRIES = 3


def compute(lazy: list, *, verbose: int = 0) -> tuple:
    """Return the values of lazy objects, with Dask's own progress bar when ``verbose``."""
    client = connected_client()
    if client is None:
        with ProgressBar() if verbose else nullcontext():
            return dask.compute(*lazy)
    futures = client.compute(lazy, retries=_RETRIES, sync=False)
    if verbose:
        distributed.progress(futures, notebook=False)
    return tuple(client.gather(futures))


def connected_client() -> Any:
    """Return the client of the cluster in use, or ``None``."""
    try:
        return distributed.get_client()
    except ValueError:
        return None
