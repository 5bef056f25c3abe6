"""Files that appear whole or not at all."""

import os
from pathlib import Path


def write_whole(path: str | os.PathLike, content: str | bytes) -> Path:
    """Write ``content`` to ``path`` so that a reader sees the old file or the new one, never half.

    The draft lies in the same folder, because only then is the final rename atomic.
    """
    target = Path(path)
    data = content.encode("utf-8") if isinstance(content, str) else content
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        draft.write_bytes(data)
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return target
