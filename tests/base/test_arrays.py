import numpy as np
import pytest

from vicinal._base import (
    as_numpy,
    check_same_library,
    computing_device,
    exponentials,
    fill_entries,
    is_array_api,
    kth_smallest,
    namespace,
    validate_array_api,
)


class _Model:
    """The least that validation needs of an estimator."""


def test_numpy_is_not_a_device_array(to_array):
    assert not is_array_api(np.zeros(2))
    assert not is_array_api([0.0])
    assert is_array_api(to_array(np.zeros(2)))


def test_round_trip_keeps_values_and_type(to_array):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    back = as_numpy(to_array(x))
    assert back.dtype == np.float32
    np.testing.assert_array_equal(back, x)


def test_none_is_skipped_by_namespace(to_array):
    x = to_array(np.zeros(2))
    assert namespace(None, x) is namespace(x)


def test_another_library_at_predict_is_an_error(to_array):
    with pytest.raises(TypeError, match="convert X to the library"):
        check_same_library(to_array(np.zeros((2, 2))), np.zeros((2, 2)))


def test_a_device_that_torch_does_not_have_is_an_error():
    pytest.importorskip("torch")
    assert computing_device(None, None) is None
    assert computing_device(None, "cpu") == "cpu"
    with pytest.raises(ValueError, match="no device='gpu' here; use 'auto' or 'cpu'"):
        computing_device(None, "gpu")


def test_another_device_is_an_error():
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"device meta.*device|on device meta"):
        check_same_library(torch.zeros(2), torch.zeros(2, device="meta"))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(3), "Expected a 2D array, got 1D"),
        (np.zeros((0, 3)), "at least 1 row"),
        (np.array([[np.nan, 0.0]]), "NaN or infinity"),
        (np.array([[np.inf, 0.0]]), "NaN or infinity"),
    ],
)
def test_bad_tensors_are_refused(to_array, X, message):
    with pytest.raises(ValueError, match=message):
        validate_array_api(_Model(), to_array(X), reset=True)


def test_width_is_learned_and_checked(to_array):
    model = _Model()
    validate_array_api(model, to_array(np.zeros((2, 3))), reset=True)
    assert model.n_features_in_ == 3
    with pytest.raises(ValueError, match="X has 2 features, but _Model is expecting 3"):
        validate_array_api(model, to_array(np.zeros((2, 2))), reset=False)


def test_integers_become_floats_and_float32_stays(to_array):
    assert "float64" in str(
        validate_array_api(_Model(), to_array(np.ones((2, 2), int)), reset=True).dtype
    )
    X = to_array(np.ones((2, 2), np.float32))
    assert validate_array_api(_Model(), X, reset=True).dtype == X.dtype


@pytest.mark.parametrize("is_numpy", [True, False])
def test_functions_that_libraries_spell_differently(to_array, is_numpy):
    asarray = np.asarray if is_numpy else to_array
    values = np.array([[3.0, 1.0, 2.0], [5.0, 5.0, 4.0]])
    np.testing.assert_array_equal(as_numpy(kth_smallest(asarray(values), 1)), [1.0, 4.0])
    np.testing.assert_array_equal(as_numpy(kth_smallest(asarray(values), 2)), [2.0, 5.0])
    np.testing.assert_allclose(as_numpy(exponentials(asarray(values.copy()))), np.exp(values))
    filled = fill_entries(asarray(values.copy()), asarray(np.array([2, 0])), -1.0)
    np.testing.assert_array_equal(as_numpy(filled), [[3, 1, -1], [-1, 5, 4]])
