"""The archive of a model file: a JSON document and the bytes of all arrays.

Arrays follow one another in the order of the document, so that none overlaps another or reaches
beyond the end. An array whose stored length is below its size is compressed by zlib; all arrays
together have at most ``_MAX_RATIO`` times the bytes that the file stores.
"""

import json
import math
import os
import sys
import zipfile
import zlib
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from vicinal.io._errors import ModelFileError

_DOCUMENT, _ARRAYS = "model.json", "arrays.bin"
_ENCRYPTED = 0x1
_ZIP_FILE = b"PK"
_MAX_RATIO = 50
_SMALL = 2**20  # bytes that any file may expand to
# Arrays from this size on are compressed if a part of them shrinks by a fifth.
_LEAST, _SAMPLE, _GAIN = 2**8, 2**15, 0.8
_PLAIN_KINDS = "biufcSUmM"


def write_archive(file: BinaryIO, document: dict[str, Any], arrays: list[np.ndarray]) -> None:
    """Write a document and its arrays, one array at a time."""
    if not _written(file, document, arrays, compress=True):
        file.seek(0)
        file.truncate()
        _written(file, document, arrays, compress=False)


def _written(
    file: BinaryIO, document: dict[str, Any], arrays: list[np.ndarray], *, compress: bool
) -> bool:
    """Write an archive; return whether the ratio of compression is one that can be read."""
    layouts, n_bytes = [], 0
    with zipfile.ZipFile(file, "w", compression=zipfile.ZIP_STORED) as archive:
        with archive.open(_ARRAYS, "w", force_zip64=True) as part:
            for array in arrays:
                content = _content(array)
                stored = _compressed(content) if compress else content
                part.write(stored)
                n_bytes += len(stored)
                layouts.append([*describe_array(array), len(stored)])
        archive.writestr(_DOCUMENT, json.dumps({**document, "arrays": layouts}, allow_nan=False))
    return sum(array.nbytes for array in arrays) <= _MAX_RATIO * n_bytes + _SMALL


def _content(array: np.ndarray) -> Any:
    ordered = array.T if describe_array(array)[2] == "F" else np.ascontiguousarray(array)
    return ordered.reshape(-1).view(np.uint8).data if array.size else b""


def _compressed(content: Any) -> Any:
    """Return compressed bytes, or the given ones if they would not become shorter."""
    middle = max(0, len(content) - _SAMPLE) // 2
    sample = content[middle : middle + _SAMPLE]
    if len(content) < _LEAST or len(zlib.compress(sample, 1)) > _GAIN * len(sample):
        return content
    shorter = zlib.compress(content)
    return shorter if len(shorter) < len(content) else content


def read_document(file: BinaryIO) -> dict[str, Any]:
    """Return the document of a file after a check of its checksum, without the arrays."""
    with _opened(file) as archive:
        return _document(archive)


def read_archive(file: BinaryIO) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return the document and the arrays of a file after a check of the checksums."""
    with _opened(file) as archive:
        document = _document(archive)
        layouts = [array_layout(entry) for entry in document["arrays"]]
        size = sum(dtype.itemsize * math.prod(shape) for dtype, shape, _, _ in layouts)
        stored = sum(length for *_, length in layouts)
        if stored != archive.getinfo(_ARRAYS).file_size:
            raise ModelFileError("the arrays have another length than the document declares.")
        if size > _MAX_RATIO * stored + _SMALL:
            raise ModelFileError(
                f"the arrays would need {size} bytes of memory, more than {_MAX_RATIO} times the "
                f"{stored} bytes in the file."
            )
        with archive.open(_ARRAYS) as part:
            arrays = [_array(part, *layout) for layout in layouts]
            # zipfile compares the checksum at the end.
            if part.read(1):
                raise ModelFileError("the arrays have another length than the document declares.")
        return document, arrays


def _array(
    part: Any, dtype: np.dtype, shape: tuple[int, ...], order: str, length: int
) -> np.ndarray:
    size = dtype.itemsize * math.prod(shape)
    # Not more than the file holds: the stored lengths add up to that of the part.
    content = np.empty(length, dtype=np.uint8)
    if length and part.readinto(content.data) != length:
        raise ModelFileError("the file is truncated; copy or save it again.")
    if length < size:
        stream = zlib.decompressobj()
        whole = bytearray(stream.decompress(content.data, size))  # writable, unlike bytes
        rest = stream.decompress(stream.unconsumed_tail, 1)
        if len(whole) != size or rest or not stream.eof:
            raise ModelFileError("an array has another length than the document declares.")
        content = np.frombuffer(whole, dtype=np.uint8)
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
    """Return the archive if it has the two parts of a model file, which zip does not compress."""
    begins = file.read(len(_ZIP_FILE))
    if not zipfile.is_zipfile(file):
        raise ModelFileError(
            "the file is truncated; copy or save it again."
            if begins == _ZIP_FILE
            else "not a model file (no zip archive); vicinal.io.save writes model files."
        )
    archive, file_size = zipfile.ZipFile(file), file.seek(0, os.SEEK_END)
    names = archive.namelist()
    if sorted(names) != sorted([_DOCUMENT, _ARRAYS]):
        raise ModelFileError(
            f"not a model file: it holds {names[:5]} instead of {_DOCUMENT!r} and {_ARRAYS!r}; "
            "vicinal.io.save writes model files."
        )
    for entry in archive.infolist():
        if entry.flag_bits & _ENCRYPTED or entry.compress_type != zipfile.ZIP_STORED:
            raise ModelFileError(f"the part {entry.filename!r} is compressed or encrypted.")
        if not entry.file_size == entry.compress_size <= file_size:
            raise ModelFileError(f"the part {entry.filename!r} is larger than the file.")
    return archive


# --- descriptions of arrays ---


def describe_array(array: np.ndarray) -> list:
    """Return dtype, shape and memory order of an array."""
    is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    return [dtype_text(array.dtype), list(array.shape), "F" if is_fortran else "C"]


def dtype_text(dtype: np.dtype) -> str:
    """Return the description of a dtype; raise if it cannot be saved."""
    if dtype.kind == "O":
        return "|O"
    if dtype.kind not in _PLAIN_KINDS or not dtype.isnative or dtype.char in "gG":
        raise ModelFileError(
            f"the model has an array of dtype {dtype}, which cannot be saved; use numbers of at "
            "most 64 bits, strings or dates in native byte order."
        )
    return dtype.str


def plain_dtype(text: str) -> np.dtype:
    """Return the dtype of a description, which must be of numbers, strings or dates."""
    if type(text) is not str or len(text) > 16 or "," in text:
        raise ModelFileError(f"the document has the invalid dtype {text!r}.")
    dtype = np.dtype(text)
    is_plain = dtype.kind in _PLAIN_KINDS + "O" and dtype.isnative and dtype.char not in "gG"
    if not is_plain or dtype.names or dtype.shape:
        raise ModelFileError(f"the document has the invalid dtype {text!r}.")
    return dtype


def array_layout(entry: Any) -> tuple[np.dtype, tuple[int, ...], str, int]:
    """Return dtype, shape, memory order and stored length of an array from the document."""
    text, shape, order, stored = entry
    dtype = plain_dtype(text)
    lengths: Any = read_shape(shape)
    size = dtype.itemsize * math.prod(lengths)
    is_empty_type = not dtype.itemsize and math.prod(lengths)
    is_plain = order in ("C", "F") and not dtype.hasobject and not is_empty_type
    if not is_plain or read_shape([stored])[0] > size:
        raise ModelFileError(f"the document has the invalid array {entry!r}.")
    return dtype, lengths, order, stored


def read_shape(shape: Sequence[Any]) -> tuple[int, ...]:
    """Return a shape; raise unless its lengths are whole numbers."""
    for length in shape:
        if type(length) is not int or length < 0:
            raise ModelFileError(f"the document has the invalid length {length!r}.")
    return tuple(shape)
