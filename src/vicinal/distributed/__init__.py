"""Models of tables larger than memory, on Dask; what comes back needs Dask no longer."""

from vicinal._base import import_optional

for _package in ("dask", "distributed"):
    import_optional(_package, needed_by="vicinal.distributed", extra="distributed")

from vicinal.distributed import (  # noqa: E402, F401
    _adaptive,
    _boosting,
    _divide_conquer,
    _ensemble,
    _fusion,
    _partition,
    _subspace,
)
from vicinal.distributed._fit import fit  # noqa: E402
from vicinal.distributed._local import local_predict  # noqa: E402
from vicinal.distributed._neighbors import kneighbors  # noqa: E402
from vicinal.distributed._predict import predict  # noqa: E402
from vicinal.distributed._uncertainty import uncertainty_map  # noqa: E402

__all__ = ["fit", "kneighbors", "local_predict", "predict", "uncertainty_map"]
