"""Models of tables larger than memory, with Dask; fitted models do not need Dask."""

from importlib import import_module

from vicinal._base import import_optional

__all__ = ["fit", "kneighbors", "predict"]


def __getattr__(name: str):
    if name not in __all__:
        raise AttributeError(f"module 'vicinal.distributed' has no attribute {name!r}")
    for package in ("dask", "distributed"):  # on first use
        import_optional(package, needed_by="vicinal.distributed", extra="distributed")
    return getattr(import_module("vicinal.distributed._blocks"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
