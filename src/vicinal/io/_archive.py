"""The archive of a model file: a JSON document and the bytes of all arrays.

Arrays follow one another in the order of the document, so that none overlaps another or reaches
beyond the end. An array whose stored length is below its size is compressed by zlib, and if it is
``"shuffled"``, the first bytes of all items come before the second ones. A number in place of a
description is that of an earlier array that is equal. The document and all arrays together have at
most ``_MAX_RATIO`` times the bytes that the file stores for each.
"""

import hashlib
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
# Arrays from this size on are compressed if a part of them shrinks by a twentieth.
_LEAST, _SAMPLE, _GAIN = 2**8, 2**15, 0.95
_SHUFFLED = "shuffled"
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
    layouts: list[Any] = []
    n_bytes, known = 0, dict[Any, int]()
    with zipfile.ZipFile(file, "w", compression=zipfile.ZIP_STORED) as archive:
        with archive.open(_ARRAYS, "w", force_zip64=True) as part:
            for i, array in enumerate(arrays):
                content, layout = _content(array), describe_array(array)
                first = known.setdefault((str(layout), hashlib.sha256(content).digest()), i)
                if first < i:
                    layouts.append(first)
                    continue
                stored: Any = content
                way: list[str] = []
                if compress:
                    stored, way = _compressed(content, array.dtype.itemsize)
                part.write(stored)
                n_bytes += len(stored)
                layouts.append([*layout, len(stored), *way])
        text = json.dumps({**document, "arrays": layouts}, allow_nan=False)
        archive.writestr(_DOCUMENT, text, zipfile.ZIP_DEFLATED if compress else None)
        entry = archive.getinfo(_DOCUMENT)
    return (
        sum(array.nbytes for array in arrays) <= _MAX_RATIO * n_bytes + _SMALL
        and entry.file_size <= _MAX_RATIO * entry.compress_size + _SMALL
    )


def _content(array: np.ndarray) -> Any:
    ordered = array.T if describe_array(array)[2] == "F" else np.ascontiguousarray(array)
    return ordered.reshape(-1).view(np.uint8).data if array.size else b""


def _compressed(content: Any, size: int) -> tuple[Any, list[str]]:
    """Return compressed bytes and whether they are shuffled, or those given if no longer."""
    if len(content) < _LEAST:
        return content, []
    middle, most = len(content) // size // 2, max(1, _SAMPLE // size // 2)
    sample = content[max(0, middle - most) * size : (middle + most) * size]
    plain, shuffled = (len(zlib.compress(part, 1)) for part in (sample, _shuffled(sample, size)))
    if min(plain, shuffled) > _GAIN * len(sample):
        return content, []
    way = [_SHUFFLED] if len(sample) / _MAX_RATIO < shuffled < plain else []
    shorter = zlib.compress(_shuffled(content, size) if way else content)
    return (shorter, way) if len(shorter) < len(content) else (content, [])


def _shuffled(content: Any, size: int) -> bytes:
    """Return the first bytes of all items of a size, then the second ones, and so on."""
    return np.frombuffer(content, np.uint8).reshape(-1, size).T.tobytes()


def read_document(file: BinaryIO) -> dict[str, Any]:
    """Return the document of a file after a check of its checksum, without the arrays."""
    with _opened(file) as archive:
        return _document(archive)


def read_archive(file: BinaryIO) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return the document and the arrays of a file after a check of the checksums."""
    with _opened(file) as archive:
        document = _document(archive)
        entries = document["arrays"]
        # Of equal arrays, the first is stored.
        firsts = [_first(i, entries) for i in range(len(entries))]
        layouts = [array_layout(entries[first]) for first in firsts]
        size = sum(dtype.itemsize * math.prod(shape) for dtype, shape, *_ in layouts)
        stored = sum(layouts[i][3] for i in set(firsts))
        if stored != archive.getinfo(_ARRAYS).file_size:
            raise ModelFileError("the arrays have another length than the document declares.")
        if size > _MAX_RATIO * stored + _SMALL:
            raise ModelFileError(
                f"the arrays would need {size} bytes of memory, more than {_MAX_RATIO} times the "
                f"{stored} bytes in the file."
            )
        with archive.open(_ARRAYS) as part:
            arrays: list[np.ndarray] = []
            for i, first in enumerate(firsts):
                arrays.append(_array(part, layouts[i]) if first == i else arrays[first].copy("K"))
            # zipfile compares the checksum at the end.
            if part.read(1):
                raise ModelFileError("the arrays have another length than the document declares.")
        return document, arrays


def _array(part: Any, layout: tuple) -> np.ndarray:
    dtype, shape, order, length, way = layout
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
        if way:
            content = content.reshape(dtype.itemsize, -1).T.ravel()
    array = content.view(dtype) if content.size else np.empty(0, dtype)
    # Not every byte is a valid Boolean or character.
    if dtype.kind == "b":
        array = content != 0
    elif dtype.kind == "U" and content.size and array.view(np.uint32).max() > sys.maxunicode:
        raise ModelFileError("a string array holds invalid characters.")
    return array.reshape(shape, order=order)


def _document(archive: zipfile.ZipFile) -> dict[str, Any]:
    document = json.loads(archive.read(_DOCUMENT))
    if not isinstance(document, dict):
        raise ModelFileError("the document is not a dictionary.")
    return document


def _opened(file: BinaryIO) -> zipfile.ZipFile:
    """Return the archive if it has the two parts of a model file, compressed at most so much."""
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
        is_stored = entry.compress_type == zipfile.ZIP_STORED
        is_deflated = entry.filename == _DOCUMENT and entry.compress_type == zipfile.ZIP_DEFLATED
        if entry.flag_bits & _ENCRYPTED or not (is_stored or is_deflated):
            raise ModelFileError(f"the part {entry.filename!r} is compressed or encrypted.")
        most = _MAX_RATIO * entry.compress_size + _SMALL if is_deflated else entry.compress_size
        if entry.file_size > most or entry.compress_size > file_size:
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


def _first(i: int, entries: list) -> int:
    """Return the number of the stored array that array i is equal to, i if it is stored."""
    first = i if isinstance(entries[i], list) else entries[i]
    if type(first) is not int or not 0 <= first <= i or not isinstance(entries[first], list):
        raise ModelFileError(f"the document has the invalid array {entries[i]!r}.")
    return first


def array_layout(entry: Any) -> tuple[np.dtype, tuple[int, ...], str, int, list[str]]:
    """Return dtype, shape, memory order, stored length and way of an array from the document."""
    text, shape, order, stored, *way = entry
    dtype = plain_dtype(text)
    lengths: Any = read_shape(shape)
    size = dtype.itemsize * math.prod(lengths)
    is_empty_type = not dtype.itemsize and math.prod(lengths)
    is_plain = order in ("C", "F") and not dtype.hasobject and not is_empty_type
    if not is_plain or read_shape([stored])[0] > size or way not in ([], [_SHUFFLED]):
        raise ModelFileError(f"the document has the invalid array {entry!r}.")
    return dtype, lengths, order, stored, way


def read_shape(shape: Sequence[Any]) -> tuple[int, ...]:
    """Return a shape; raise unless its lengths are whole numbers."""
    for length in shape:
        if type(length) is not int or length < 0:
            raise ModelFileError(f"the document has the invalid length {length!r}.")
    return tuple(shape)
