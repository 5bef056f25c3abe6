"""Cache files of compiled functions: one per signature, named by a hash of it.

Numba numbers the files of a function in an index. Two processes that compile different signatures
at the same time may use the same number, and later processes then run code that was compiled for
other arguments. Names made from the signature avoid this.
"""

import hashlib
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile


class SignatureFiles(IndexDataCacheFile):
    """The cached signatures of one function, each in a file of its own.

    Parameters
    ----------
    folder : str
        Folder of the files.
    base : str
        Prefix of the names of all files of the function.
    stamp : tuple
        State of the sources; files of another state are removed when one is written.
    """

    def __init__(self, folder: str, base: str, stamp: tuple):
        super().__init__(folder, base, stamp)
        self._base = base
        self._state = _digest((self._version, stamp))

    def flush(self) -> None:
        """Forget every signature."""
        self._remove("")

    def save(self, key: Any, data: Any) -> None:
        """Write what was compiled for a signature; readers see all of it or nothing."""
        self._remove(self._state)
        self._save_data(self._file(key), data)

    def load(self, key: Any) -> Any:
        """Return what was compiled for a signature, or ``None``."""
        try:
            return self._load_data(self._file(key))
        except (OSError, EOFError, pickle.UnpicklingError):
            return None

    def _file(self, key: Any) -> str:
        return f"{self._base}.{self._state}.{_digest(key)}.nbc"

    def _remove(self, kept: str) -> None:
        """Remove the files of the function, but for those of a state."""
        for path in Path(self._cache_path).glob(f"{self._base}.*.nbc"):
            if not kept or not path.name.startswith(f"{self._base}.{kept}."):
                with suppress(OSError):
                    path.unlink()


def _digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]
