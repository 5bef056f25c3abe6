"""Atomic writing of files, and printable text."""

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be replaced or removed
    fcntl = None

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
# Windows has the last only, and needs it: newlines would be translated otherwise.
_FLAGS = _NEW_FILE | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))

_OLD_FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK")
)


@contextlib.contextmanager
def whole_file(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``path`` when the block succeeds.

    A reader sees the old file or the new one, never a part. The temporary file is in the same
    folder, because only then is the final rename atomic; it must be new, so that no link is
    followed. The mode of a replaced file is kept. Temporary files of killed processes are removed.
    """
    target = Path(path)
    draft = None
    try:
        mode = _mode(target)
        with contextlib.suppress(OSError):
            _remove_abandoned(target)
        draft, file = _new_draft(target)
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:  # renamed under its lock, so that no other process removes it
                _replace(draft, target, mode)
        if fcntl is None:
            _replace(draft, target, mode)
    except OSError as error:
        if error.errno is None:
            raise
        # The error of a full disk has no file name, and users do not know the temporary one.
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        if draft is not None:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)


def _replace(draft: Path, target: Path, mode: int | None) -> None:
    if mode is not None:
        os.chmod(draft, mode)
    os.replace(draft, target)


def _new_draft(target: Path) -> tuple[Path, BinaryIO]:
    """Return a new file, locked: the lock ends with the process, even if it is killed."""
    for attempt in range(3):
        draft = target.with_name(f".{target.name[:200]}.{secrets.token_hex(8)}.tmp")
        file = open(os.open(draft, _FLAGS, 0o666), "wb")
        if fcntl is not None:
            with contextlib.suppress(OSError):  # of file systems without locks
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another process may have removed it as abandoned before it was locked.
        if attempt == 2 or draft.exists():
            break
        file.close()
    return draft, file


def _remove_abandoned(target: Path) -> None:
    """Remove temporary files of ``target`` that no process has locked."""
    pattern = re.compile(re.escape(f".{target.name[:200]}.") + r"[0-9a-f]{16}\.tmp")
    if fcntl is None:
        return
    for name in filter(pattern.fullmatch, os.listdir(target.parent)):
        draft = target.with_name(name)
        with contextlib.suppress(OSError), open(os.open(draft, _OLD_FLAGS), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.unlink()


def write_whole(path: str | os.PathLike, content: str | bytes) -> Path:
    """Write ``content`` to ``path``; a reader sees the old file or the new one."""
    with whole_file(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)
    return Path(path)


def _mode(path: Path) -> int | None:
    """Return the permissions of an existing file; raise if it is a pipe or a device."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "not a regular file, choose another path", str(path))
    return stat.S_IMODE(mode)


def printable(text: str) -> str:
    """Return a text with terminal control characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def quoted(names: Iterable, limit: int = 8) -> str:
    """Return names in quotes, the first few of many."""
    names = list(names)
    shown = ", ".join(repr(str(name)) for name in names[:limit])
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "")
