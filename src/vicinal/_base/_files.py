"""Files that appear whole or not at all."""

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
# Absent on Windows, where only the last is needed: without it newlines would be translated.
_FLAGS = _NEW_FILE | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))


@contextlib.contextmanager
def whole_file(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open a draft that takes the place of ``path`` when the block ends well.

    A reader sees the old file or the new one, never half. The draft lies in the same folder,
    because only then is the final rename atomic; it must be new, so nobody can have laid a link in
    its way. The mode of a file that is replaced is kept.
    """
    target = Path(path)
    draft = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        mode = _mode(target)
        with open(os.open(draft, _FLAGS, 0o666), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(draft, mode)
        os.replace(draft, target)
    except OSError as error:
        if error.errno is None:
            raise
        # A full disk names no file, and the name of the draft says nothing.
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def write_whole(path: str | os.PathLike, content: str | bytes) -> Path:
    """Write ``content`` to ``path`` so that a reader sees the old file or the new one."""
    with whole_file(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)
    return Path(path)


def _mode(path: Path) -> int | None:
    """Return the permissions of an existing file."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None
