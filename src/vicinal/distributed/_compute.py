"""Running lazy work: on the cluster when one is connected, else on this machine's threads."""

from contextlib import nullcontext
from typing import Any

import dask
from dask.diagnostics import ProgressBar

import distributed

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


def persist(lazy: list) -> list:
    """Return lazy objects whose values are kept: by the workers, or on this machine."""
    client = connected_client()
    if client is None:
        return list(dask.persist(*lazy))
    return list(client.persist(lazy, retries=_RETRIES))


def connected_client() -> Any:
    """Return the client of the cluster in use, or ``None``."""
    try:
        return distributed.get_client()
    except ValueError:
        return None
