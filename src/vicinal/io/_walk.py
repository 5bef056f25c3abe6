"""Every object that a model is made of."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

_LEAVES = (str, bytes, bytearray, int, float, complex, bool, type(None), type)


def parts_of(model: Any) -> Iterator[Any]:
    """Yield ``model`` and every object reachable from it, each once."""
    seen: set[int] = set()
    pending = [model]
    while pending:
        part = pending.pop()
        if isinstance(part, _LEAVES) or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, dict):
            pending.extend(part.values())
        elif isinstance(part, list | tuple | set | frozenset):
            pending.extend(part)
        elif isinstance(part, np.ndarray):
            if part.dtype.hasobject:
                pending.extend(part.ravel().tolist())
        elif not isinstance(part, Callable) or hasattr(part, "get_params"):  # type: ignore[arg-type]
            pending.extend(getattr(part, "__dict__", {}).values())
