"""Atomic writing of files, and printable text."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
# Windows has the last only, and needs it: newlines would be translated otherwise.
_FLAGS = _NEW_FILE | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))


@contextlib.contextmanager
def whole_file(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``path`` when the block succeeds.

    A reader sees the old file or the new one, never a part. The temporary file is in the same
    folder, because only then is the final rename atomic; it must be new, so that no link is
    followed. The mode of a replaced file is kept.
    """
    target = Path(path)
    draft = None
    try:
        mode = _mode(target)
        new = target.with_name(f".{target.name[:200]}.{secrets.token_hex(8)}.tmp")
        with open(os.open(new, _FLAGS, 0o666), "wb") as file:
            draft = new
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(draft, mode)
        os.replace(draft, target)
    except OSError as error:
        if error.errno is None:
            raise
        # The error of a full disk has no file name, and users do not know the temporary one.
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        if draft is not None:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)


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


def counted(number: int, noun: str) -> str:
    """Return a number and its noun: ``1 row``, ``12 rows``, ``0 categories``."""
    if number != 1:
        stem, end = (noun[:-1], "ies") if noun.endswith("y") else (noun, "s")
        noun = f"{stem}{'e' * stem.endswith('s')}{end}"
    return f"{number:,} {noun}"


def quoted(names: Iterable, limit: int = 8) -> str:
    """Return names in quotes, the first few of many."""
    names = list(names)
    shown = ", ".join(repr(str(name)) for name in names[:limit])
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "")
