"""Numbers are stored in the smallest type that holds them, and come back as they were."""

import io

import numpy as np
import pytest

from vicinal.io._archive import narrow, read_archive, write_archive


@pytest.mark.parametrize(
    ("array", "stored"),
    [
        (np.arange(100), "int8"),
        (np.array([-129, 5]), "int16"),
        (np.array([2**40]), "int64"),
        (np.array([0.5, np.nan, -0.0, np.inf]), "float16"),
        (np.array([1e30, 0.0]).astype(np.float32).astype(float), "float32"),
        (np.array([0.1]), "float64"),
        (np.array([0.1], dtype=np.float32), "float32"),
        (np.array([[1.0, 2.0], [3.0, 4.0]], order="F"), "float16"),
        (np.zeros((0, 3)), "float64"),
        (np.array([True, False]), "bool"),
    ],
)
def test_arrays_are_stored_narrow_and_read_as_they_were(array, stored):
    assert narrow(array).dtype == stored
    file = io.BytesIO()
    write_archive(file, {}, [array])
    file.seek(0)
    (found,) = read_archive(file)[1]
    assert found.dtype == array.dtype
    assert found.flags.f_contiguous == array.flags.f_contiguous
    np.testing.assert_array_equal(found, array)
    if array.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(found), np.signbit(array))
