# ruff: noqa: F403
"""What every layer above uses: arrays, training data, validation, threads and blocks, progress.

``from vicinal._base import name`` finds the public names of the modules below.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vicinal._base._arrays import *
    from vicinal._base._blocks import *
    from vicinal._base._compat import *
    from vicinal._base._docs import *
    from vicinal._base._estimator import *
    from vicinal._base._files import *
    from vicinal._base._forests import *
    from vicinal._base._held_out import *
    from vicinal._base._parallel import *
    from vicinal._base._progress import *
    from vicinal._base._saved import *
    from vicinal._base._training_data import *
    from vicinal._base._validation import *

# Imported on first use, the light ones first: `vicinal info` needs no scikit-learn.
_MODULES = (
    "_files", "_progress", "_arrays", "_saved", "_compat", "_docs", "_parallel", "_validation",
    "_held_out", "_training_data", "_blocks", "_estimator", "_forests",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    for module in () if name.startswith("_") else _MODULES:
        found = vars(import_module(f"vicinal._base.{module}"))
        if name in found:
            globals()[name] = found[name]
            return found[name]
    raise AttributeError(f"module 'vicinal._base' has no attribute {name!r}")
