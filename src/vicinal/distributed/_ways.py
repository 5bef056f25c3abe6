"""Every model that can be fitted by blocks: to import a module is to register its way."""

from vicinal.distributed import (
    _adaptive,
    _boosting,
    _divide_conquer,
    _ensemble,
    _fusion,
    _local,
    _partition,
    _subspace,
    _uncertainty,
)

__all__ = [
    "_adaptive",
    "_boosting",
    "_divide_conquer",
    "_ensemble",
    "_fusion",
    "_local",
    "_partition",
    "_subspace",
    "_uncertainty",
]
