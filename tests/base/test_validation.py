import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from vicinal._base import (
    check_groups,
    check_magnitude,
    check_weights,
    encode_labels,
    is_ready,
    positive_rows,
)


def test_codes_point_into_sorted_classes():
    classes, codes = encode_labels(np.array(["b", "a", "b", "c"]))
    assert classes.tolist() == ["a", "b", "c"]
    assert codes.tolist() == [1, 0, 1, 2]


def test_one_class_is_refused_with_its_name():
    with pytest.raises(ValueError, match="one class only.*only_one"):
        encode_labels(np.array(["only_one", "only_one"]))


def test_continuous_labels_are_refused():
    with pytest.raises(ValueError, match="Unknown label type"):
        encode_labels(np.array([0.1, 0.2, 0.7]))


@pytest.mark.parametrize("labels", [np.array([0.0, np.nan, 1.0]), np.array(["a", None], object)])
def test_missing_labels_are_counted_without_a_warning(labels):
    with pytest.raises(ValueError, match=r"1 missing label\(s\), the first in row 1; drop"):
        encode_labels(labels)


def test_missing_weights_are_ones():
    np.testing.assert_array_equal(check_weights(None, np.zeros((3, 1))), np.ones(3))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -2.0, 1.0], r"negative values \(smallest .*-2"),
        ([0.0, 0.0, 0.0], "at least one non-zero"),
        ([1.0, np.nan, 1.0], "NaN"),
        ([1.0, 1.0], r"\(2,\).*\(3,\)"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        check_weights(np.array(weights), np.zeros((3, 1)))


def test_groups_need_an_entry_for_every_row():
    assert check_groups(None, 3) is None
    assert_array_equal(check_groups(["a", "a", "b"], 3), ["a", "a", "b"])
    with pytest.raises(ValueError, match=r"groups has shape \(2,\) for 3 rows"):
        check_groups([1, 2], 3)


def test_rows_without_weight_are_dropped_from_every_array():
    X, y = np.arange(6.0).reshape(3, 2), np.array(["a", "b", "c"])
    weights, rows, labels = positive_rows([2.0, 0.0, 1.0], X, y)
    assert_array_equal(weights, [2.0, 1.0])
    assert_array_equal(rows, X[[0, 2]])
    assert_array_equal(labels, ["a", "c"])


def test_rows_of_a_sparse_matrix_are_dropped_too():
    X = sparse.csr_matrix(np.eye(3))
    rows = positive_rows([0.0, 1.0, 3.0], X)[1]
    assert_array_equal(rows.toarray(), np.eye(3)[1:])


def test_no_row_of_positive_weight_is_an_error():
    with pytest.raises(ValueError, match="at least one"):
        positive_rows([0.0, 0.0], np.ones((2, 1)))


def test_queries_are_ready_only_as_validation_would_return_them():
    class Fitted:
        n_features_in_ = 2

    X = np.zeros((3, 2))
    assert is_ready(Fitted(), X, np.float64)
    named = Fitted()
    named.feature_names_in_ = np.array(["a", "b"])
    for estimator, queries in (
        (named, X),
        (Fitted(), X.astype(np.float32)),
        (Fitted(), X[:, :1]),
        (Fitted(), X[:0]),
        (Fitted(), X.T[:2].T[:, ::-1]),
        (Fitted(), X[0]),
        (Fitted(), X.tolist()),
        (Fitted(), np.full((3, 2), np.nan)),
    ):
        assert not is_ready(estimator, queries, np.float64)


@pytest.mark.parametrize("weight", [1e300, 1e16, 1e-300])
def test_weights_whose_sums_are_not_exact_are_refused(weight):
    with pytest.raises(ValueError, match=r"sample_weight sums to .*divide them by their mean"):
        check_weights(np.full(4, weight), np.zeros((4, 1)))


def test_common_weights_are_taken():
    for weight in (1e-9, 1000.0, 1e12):
        assert check_weights(np.full(4, weight), np.zeros((4, 1)))[0] == weight


@pytest.mark.parametrize(
    "values",
    [
        np.array([[1.0, -1e151]]),
        np.array([1e18], dtype=np.float32),
        sparse.csr_matrix([[0.0, 1e200]]),
        pd.DataFrame({"a": [1.0, 1e300]}),
    ],
    ids=["float64", "float32", "sparse", "frame"],
)
def test_numbers_whose_squares_overflow_are_refused(values):
    with pytest.raises(ValueError, match=r"X holds 1e\+\d+, but squares of float.*scale X first"):
        check_magnitude("X", values)


@pytest.mark.parametrize(
    "values",
    [np.array([1e149]), np.array([np.inf]), np.array([np.nan]), np.array(["a"]), [1e300], None,
     np.empty((0, 2)), pd.DataFrame({"a": ["x", 1e300]})],
    ids=str,
)  # fmt: skip
def test_everything_else_is_left_to_the_validation_of_the_estimator(values):
    check_magnitude("X", values)
