"""Archives read with suspicion: bounded in size, plain in names, numbers only."""

import io
import math
import re
import zipfile

import numpy as np

from vicinal.io._errors import ModelFileError

# What skops writes (identifiers of objects and uuids) and the stamp; no folders, no dots in front.
_MEMBER = re.compile(r"(schema\.json|vicinal\.json|[0-9a-f-]+\.(npy|npz|bin))\Z")
_SPARSE_MEMBER = re.compile(r"[a-z_]+\.npy\Z")

# Contents may be this large whatever the file, and beyond that so many times the file.
FREE_BYTES = 2**28
MAX_EXPANSION = 100

_ENCRYPTED = 0x1


def expands_too_far(content_bytes: int, file_bytes: int) -> bool:
    """Tell whether contents are too large for their file to be an honest archive."""
    return content_bytes > max(FREE_BYTES, MAX_EXPANSION * file_bytes)


def read_members(data: bytes) -> dict[str, bytes]:
    """Return the contents of a model's archive by name, checksums and array headers verified."""
    members = _read_zip(data, _MEMBER)
    for name, content in members.items():
        if name.endswith(".npy"):
            check_array(name, content)
        elif name.endswith(".npz"):
            for part, array in _read_zip(content, _SPARSE_MEMBER).items():
                check_array(f"{name}/{part}", array)
    return members


def _read_zip(data: bytes, names: re.Pattern) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        if len({entry.filename for entry in entries}) != len(entries):
            raise ModelFileError("two parts of the archive have the same name.")
        for entry in entries:
            if not names.match(entry.filename):
                raise ModelFileError(f"the archive holds an unexpected part {entry.filename!r}.")
            if entry.flag_bits & _ENCRYPTED:
                raise ModelFileError(f"the part {entry.filename!r} is encrypted.")
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ModelFileError(f"the part {entry.filename!r} is packed in an unknown way.")
        # zipfile reads no more than the declared size of a part, so the sum is a true bound.
        if expands_too_far(sum(entry.file_size for entry in entries), len(data)):
            raise ModelFileError("its contents are too large for its size; it may be a zip bomb.")
        return {entry.filename: archive.read(entry) for entry in entries}


def check_array(name: str, content: bytes) -> None:
    """Raise unless ``content`` is one array of numbers or text whose header tells its length.

    NumPy allocates what a header asks for before it reads, and an array of objects is a pickle.
    """
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise ModelFileError(f"the array {name!r} has an unknown format version {version}.")
    if dtype.hasobject:
        raise ModelFileError(f"the array {name!r} holds Python objects.")
    if any(size < 0 for size in shape):
        raise ModelFileError(f"the array {name!r} has a negative shape {shape}.")
    if math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ModelFileError(f"the array {name!r} is not as long as its header says.")
