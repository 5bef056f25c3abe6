"""The archive of a model file: a JSON document and the bytes of all arrays, uncompressed.

Without compression no part is larger than the file. Arrays follow one another in the order of the
document, so that none overlaps another or reaches beyond the end.
"""

import json
import math
import os
import sys
import zipfile
from typing import Any, BinaryIO

import numpy as np

from vicinal.io._document import array_layout, describe_array
from vicinal.io._errors import ModelFileError

_DOCUMENT, _ARRAYS = "model.json", "arrays.bin"
_ENCRYPTED = 0x1
_ZIP_FILE = b"PK"


def write_archive(file: BinaryIO, document: dict[str, Any], arrays: list[np.ndarray]) -> None:
    """Write a document and its arrays, one array at a time."""
    document = {**document, "arrays": [describe_array(array) for array in arrays]}
    with zipfile.ZipFile(file, "w", compression=zipfile.ZIP_STORED) as archive:
        archive.writestr(_DOCUMENT, json.dumps(document, allow_nan=False))
        with archive.open(_ARRAYS, "w", force_zip64=True) as part:
            for array in arrays:
                part.write(_bytes_of(array))


def _bytes_of(array: np.ndarray) -> Any:
    ordered = array.T if describe_array(array)[2] == "F" else np.ascontiguousarray(array)
    return ordered.reshape(-1).view(np.uint8).data if array.size else b""


def read_document(file: BinaryIO) -> dict[str, Any]:
    """Return the document of a file after a check of its checksum, without the arrays."""
    with _opened(file) as archive:
        return _document(archive)


def read_archive(file: BinaryIO) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return the document and the arrays of a file after a check of the checksums."""
    with _opened(file) as archive:
        document = _document(archive)
        layouts = [array_layout(entry) for entry in document["arrays"]]
        size = sum(dtype.itemsize * math.prod(shape) for dtype, shape, _ in layouts)
        if size != archive.getinfo(_ARRAYS).file_size:
            raise ModelFileError("the arrays have another length than the document declares.")
        with archive.open(_ARRAYS) as part:
            arrays = [_array(part, *layout) for layout in layouts]
            # zipfile compares the checksum at the end.
            if part.read(1):
                raise ModelFileError("the arrays have another length than the document declares.")
        return document, arrays


def _array(part: Any, dtype: np.dtype, shape: tuple[int, ...], order: str) -> np.ndarray:
    # Not more than the file holds: the lengths of all arrays add up to that of the part.
    content = np.empty(dtype.itemsize * math.prod(shape), dtype=np.uint8)
    if content.size and part.readinto(content.data) != content.size:
        raise ModelFileError("the file is truncated; copy or save it again.")
    array = content.view(dtype) if content.size else np.empty(0, dtype)
    # Not every byte is a valid Boolean or character.
    if dtype.kind == "b":
        array = content != 0
    elif dtype.kind == "U" and content.size and array.view(np.uint32).max() > sys.maxunicode:
        raise ModelFileError("a string array holds invalid characters.")
    return array.reshape(shape, order=order)  # type: ignore[call-overload]


def _document(archive: zipfile.ZipFile) -> dict[str, Any]:
    document = json.loads(archive.read(_DOCUMENT))
    if not isinstance(document, dict):
        raise ModelFileError("the document is not a dictionary.")
    return document


def _opened(file: BinaryIO) -> zipfile.ZipFile:
    """Return the archive if it has the two parts of a model file, uncompressed."""
    begins = file.read(len(_ZIP_FILE))
    if not zipfile.is_zipfile(file):
        raise ModelFileError(
            "the file is truncated; copy or save it again."
            if begins == _ZIP_FILE
            else "not a model file (no zip archive); vicinal.io.save writes model files."
        )
    archive = zipfile.ZipFile(file)
    _check_parts(archive.infolist(), file.seek(0, os.SEEK_END))
    return archive


def _check_parts(entries: list[zipfile.ZipInfo], file_size: int) -> None:
    names = [entry.filename for entry in entries]
    if sorted(names) != sorted([_DOCUMENT, _ARRAYS]):
        raise ModelFileError(
            f"not a model file: it holds {names[:5]} instead of {_DOCUMENT!r} and {_ARRAYS!r}; "
            "vicinal.io.save writes model files."
        )
    for entry in entries:
        if entry.flag_bits & _ENCRYPTED or entry.compress_type != zipfile.ZIP_STORED:
            raise ModelFileError(f"the part {entry.filename!r} is compressed or encrypted.")
        if not entry.file_size == entry.compress_size <= file_size:
            raise ModelFileError(f"the part {entry.filename!r} is larger than the file.")
