"""Models of tables larger than memory, with Dask; fitted models do not need Dask."""

from importlib import import_module

from vicinal._base import import_optional

# Dask is imported on first use of one of these.
_MODULES = {"fit": "_fit", "kneighbors": "_neighbors", "predict": "_fit"}

__all__ = ["fit", "kneighbors", "predict"]


def __getattr__(name: str):
    if name not in _MODULES:
        raise AttributeError(f"module 'vicinal.distributed' has no attribute {name!r}")
    for package in ("dask", "distributed"):
        import_optional(package, needed_by="vicinal.distributed", extra="distributed")
    return getattr(import_module(f"vicinal.distributed.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
