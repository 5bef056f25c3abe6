from datetime import date

import numpy as np
import pytest
from sklearn.base import clone

pytest.importorskip("polars")

import polars as pl

from vicinal.cli._check_table import check_table
from vicinal.cli._errors import InputError
from vicinal.cli._table_encoder import TableEncoder


@pytest.fixture
def table():
    return pl.DataFrame(
        {
            "age": [30, None, 50, 41],
            "city": ["Rome", "Oslo", None, "Rome"],
            "member": [True, False, True, True],
            "day": [date(2020, 1, 1), date(2020, 1, 2), None, date(2021, 2, 3)],
        }
    )


def test_encoded_values_by_hand(table):
    encoder = TableEncoder().fit(table)
    encoded = dict(zip(encoder.get_feature_names_out(), encoder.transform(table).T, strict=True))
    np.testing.assert_array_equal(encoded["age"], [30, 41, 50, 41])
    np.testing.assert_array_equal(encoded["age missing"], [0, 1, 0, 0])
    np.testing.assert_array_equal(encoded["city = Rome"], [1, 0, 0, 1])
    np.testing.assert_array_equal(encoded["city = (missing)"], [0, 0, 1, 0])
    np.testing.assert_array_equal(encoded["member"], [1, 0, 1, 1])
    np.testing.assert_array_equal(encoded["day year"], [2020, 2020, 2020, 2021])
    np.testing.assert_array_equal(encoded["day weekday"], [3, 4, 3, 3])
    np.testing.assert_array_equal(np.diff(encoded["day days"])[:1], [1])
    np.testing.assert_array_equal(encoded["day missing"], [0, 0, 1, 0])


def test_two_levels_need_one_column():
    encoder = TableEncoder().fit(pl.DataFrame({"sex": ["m", "f", "m"]}))
    assert encoder.get_feature_names_out().tolist() == ["sex = m"]


def test_rare_and_unknown_levels_share_a_column():
    table = pl.DataFrame({"city": ["a"] * 5 + ["b"] * 4 + ["c", "d", "e"]})
    encoder = TableEncoder(max_levels=3).fit(table)
    assert encoder.get_feature_names_out().tolist() == ["city = a", "city = b", "city = (other)"]
    unseen = encoder.transform(pl.DataFrame({"city": ["b", "z"]}))
    np.testing.assert_array_equal(unseen, [[0, 1, 0], [0, 0, 1]])


def test_columns_are_found_by_name_and_extra_ones_ignored(table):
    encoder = TableEncoder().fit(table)
    shuffled = table.select("city", pl.lit(1).alias("new"), "day", "member", "age")
    np.testing.assert_array_equal(encoder.transform(shuffled), encoder.transform(table))


def test_pandas_frames_are_encoded_alike(table):
    pandas = pytest.importorskip("pandas")
    table = table.drop("day")
    frame = pandas.DataFrame(table.to_dict(as_series=False))
    encoder = TableEncoder().fit(table)
    np.testing.assert_array_equal(encoder.transform(frame), encoder.transform(table))


def test_missing_column_and_wrong_value_are_named(table):
    encoder = TableEncoder().fit(table)
    with pytest.raises(InputError, match="lacks the column 'age'.*it has 'city'"):
        encoder.transform(table.drop("age"))
    with pytest.raises(InputError, match="'age' holds numbers, but here also 'old'"):
        encoder.transform(table.with_columns(age=pl.Series(["1", "2", "old", None])))
    with pytest.raises(InputError, match="named columns"):
        encoder.transform(np.zeros((2, 4)))


def test_clone_and_refit_are_the_same(table):
    encoder = TableEncoder().fit(table)
    again = clone(encoder).fit(table)
    np.testing.assert_array_equal(encoder.transform(table), again.transform(table))


def test_free_text_becomes_latent_columns():
    pytest.importorskip("skrub")
    words = ["red wine dry", "white wine sweet", "green tea hot", "black tea iced"]
    texts = [f"{words[i % 4]} number {i}" for i in range(80)]
    table = pl.DataFrame({"note": texts, "y": ["wine" if i % 4 < 2 else "tea" for i in range(80)]})
    with pytest.raises(InputError, match="'note' has 80 different texts"):
        check_table(table, "y")
    checked = check_table(table, "y", repair=True)
    assert checked.kinds == {"note": "text"}
    encoder = checked.encoder().fit(checked.X)
    first = encoder.transform(checked.X)
    assert first.shape[1] == len(encoder.get_feature_names_out())
    assert np.isfinite(first).all()


# --- what a table is ---


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b"] * 30, "classification"),
        ([True, False] * 30, "classification"),
        ([0, 1, 2] * 20, "classification"),
        ([0.0, 1.0] * 30, "classification"),
        ([0.5, 1.5] * 30, "regression"),
        (list(range(60)), "regression"),
        (np.linspace(0, 1, 60).tolist(), "regression"),
    ],
)
def test_task_is_guessed_from_the_target(values, task):
    checked = check_table(pl.DataFrame({"x": range(60), "y": values}), "y")
    assert checked.task == task


def test_task_can_be_said():
    table = pl.DataFrame({"x": range(60), "y": [1, 2, 3] * 20})
    assert check_table(table, "y", task="regression").y.dtype == float
    with pytest.raises(InputError, match="no number to regress on"):
        check_table(
            table.with_columns(y=pl.lit("a"))
            .with_row_index("i")
            .with_columns(y=pl.when(pl.col("i") > 3).then(pl.lit("b")).otherwise(pl.col("y"))),
            "y",
            task="regression",
        )


def test_repair_tells_what_it_did():
    table = pl.DataFrame(
        {
            "id": [f"u{i}" for i in range(60)],
            "gap": [None] * 60,
            "same": ["x"] * 60,
            "mixed": ["7"] * 30 + ["8"] * 29 + ["none of it"],
            "day": pl.date_range(date(2020, 1, 1), date(2020, 2, 29), eager=True),
            "y": ["a", "b"] * 30,
        }
    )
    checked = check_table(table, "y", repair=True)
    assert checked.kinds == {"mixed": "number", "day": "date"}
    assert checked.X["mixed"].null_count() == 1
    assert [note.partition("'")[2].partition("'")[0] for note in checked.notes] == [
        "id",
        "gap",
        "same",
        "mixed",
        "day",
    ]


def test_drop_and_category_answer_a_complaint():
    table = pl.DataFrame(
        {
            "gap": [None] * 60,
            "code": ["1"] * 59 + ["A"],
            "zip": [1, 2, 3] * 20,
            "y": ["a", "b"] * 30,
        }
    )
    checked = check_table(table, "y", drop=("gap",), category=("code", "zip"))
    assert checked.kinds == {"code": "category", "zip": "category"}


def test_rows_without_target_are_left_out_and_counted():
    table = pl.DataFrame({"x": range(60), "y": ["a", "b", None] * 20})
    checked = check_table(table, "y")
    assert checked.X.height == len(checked.y) == 40
    assert checked.notes == ["20 rows without 'y' left out"]
