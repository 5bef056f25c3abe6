"""The archive: one JSON document and one part with the bytes of all arrays, nothing packed.

Because nothing is packed, no part can be larger than the file; and because arrays lie one behind
the other in the order of the document, none can overlap another or reach beyond the end. Numbers
are stored in the smallest type that holds them exactly, so that arrays take at most eight times
their bytes in memory.
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
    stored = [narrow(array) for array in arrays]
    entries = [describe_array(*pair) for pair in zip(stored, arrays, strict=True)]
    document = {**document, "arrays": entries}
    with zipfile.ZipFile(file, "w", compression=zipfile.ZIP_STORED) as archive:
        archive.writestr(_DOCUMENT, json.dumps(document, allow_nan=False))
        with archive.open(_ARRAYS, "w", force_zip64=True) as part:
            for array in stored:
                part.write(_bytes_of(array))


def narrow(array: np.ndarray) -> np.ndarray:
    """Return an array of numbers in the smallest type of its kind that holds all of them."""
    types: tuple[type, ...] = ()
    if array.size and array.dtype.kind == "i":
        types = np.int8, np.int16, np.int32
    elif array.size and array.dtype.kind == "f":
        types = np.float16, np.float32
    for kind in types:
        if np.dtype(kind).itemsize < array.itemsize:
            with np.errstate(all="ignore"):
                small: np.ndarray = array.astype(kind)
            if np.array_equal(small.astype(array.dtype), array, equal_nan=array.dtype.kind == "f"):
                return small
    return array


def _bytes_of(array: np.ndarray) -> Any:
    ordered = array.T if describe_array(array)[2] == "F" else np.ascontiguousarray(array)
    return ordered.reshape(-1).view(np.uint8).data if array.size else b""


def read_document(file: BinaryIO) -> dict[str, Any]:
    """Return the document of a file whose checksum is right, without reading its arrays."""
    with _opened(file) as archive:
        return _document(archive)


def read_archive(file: BinaryIO) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return the document and the arrays of a file whose checksums are right."""
    with _opened(file) as archive:
        document = _document(archive)
        layouts = [array_layout(entry) for entry in document["arrays"]]
        size = sum(stored.itemsize * math.prod(shape) for stored, shape, *_ in layouts)
        if size != archive.getinfo(_ARRAYS).file_size:
            raise ModelFileError("its arrays are not as long as its document says.")
        with archive.open(_ARRAYS) as part:
            arrays = [_array(part, *layout) for layout in layouts]
            # The end is where the checksum is compared.
            if part.read(1):
                raise ModelFileError("its arrays are not as long as its document says.")
        return document, arrays


def _array(
    part: Any, stored: np.dtype, shape: tuple[int, ...], order: str, dtype: np.dtype
) -> np.ndarray:
    # As many bytes as the file has, because the sum of all arrays is the length of the part.
    content = np.empty(stored.itemsize * math.prod(shape), dtype=np.uint8)
    if content.size and part.readinto(content.data) != content.size:
        raise ModelFileError("the file was cut short.")
    array = content.view(stored) if content.size else np.empty(0, stored)
    # Truth values and characters may have any bytes in a file, and only some in memory.
    if stored.kind == "b":
        array = content != 0
    elif stored.kind == "U" and content.size and array.view(np.uint32).max() > sys.maxunicode:
        raise ModelFileError("its arrays hold texts of characters that do not exist.")
    array = array.reshape(shape, order=order)  # type: ignore[call-overload]
    return array.astype(dtype, order="K", copy=False)


def _document(archive: zipfile.ZipFile) -> dict[str, Any]:
    document = json.loads(archive.read(_DOCUMENT))
    if not isinstance(document, dict):
        raise ModelFileError("its document is no dictionary.")
    return document


def _opened(file: BinaryIO) -> zipfile.ZipFile:
    """Return the archive if it has the two parts of a model file, plainly stored."""
    begins = file.read(len(_ZIP_FILE))
    if not zipfile.is_zipfile(file):
        raise ModelFileError(
            "the file was cut short."
            if begins == _ZIP_FILE
            else "not a model file (no zip archive); write one with vicinal.io.save."
        )
    archive = zipfile.ZipFile(file)
    _check_parts(archive.infolist(), file.seek(0, os.SEEK_END))
    return archive


def _check_parts(entries: list[zipfile.ZipInfo], file_size: int) -> None:
    names = [entry.filename for entry in entries]
    if sorted(names) != sorted([_DOCUMENT, _ARRAYS]):
        raise ModelFileError(
            f"not a model file: it must hold the parts {_DOCUMENT!r} and {_ARRAYS!r}, and holds "
            f"{names[:5]}; write one with vicinal.io.save."
        )
    for entry in entries:
        if entry.flag_bits & _ENCRYPTED or entry.compress_type != zipfile.ZIP_STORED:
            raise ModelFileError(f"the part {entry.filename!r} is packed or encrypted.")
        if not entry.file_size == entry.compress_size <= file_size:
            raise ModelFileError(f"the part {entry.filename!r} is larger than the file.")
