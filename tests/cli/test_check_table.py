import re
from datetime import date

import numpy as np
import pytest

pytest.importorskip("polars")

import polars as pl

from vicinal.cli._check_table import check_table
from vicinal.cli._show import InputError


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b"] * 30, "classification"),
        ([True, False] * 30, "classification"),
        ([0, 1, 2] * 20, "classification"),
        ([0.0, 1.0] * 30, "classification"),
        ([0.5, 1.5] * 30, "regression"),
        (list(range(60)), "regression"),
        (list(range(15)) * 20, "regression"),  # such as days
        (np.linspace(0, 1, 60).tolist(), "regression"),
    ],
)
def test_task_is_guessed_from_the_target(values, task):
    checked = check_table(pl.DataFrame({"x": range(len(values)), "y": values}), "y")
    assert checked.task == task


@pytest.mark.parametrize(("n_values", "other"), [(5, "regression"), (15, "classification")])
def test_few_whole_numbers_may_be_meant_otherwise(n_values, other):
    table = pl.DataFrame({"x": range(300), "y": np.arange(300) % n_values})
    notes = check_table(table, "y").notes
    assert f"'y' holds few whole numbers; --task {other} if that is meant" in notes
    assert not any("--task" in note for note in check_table(table, "y", task=other).notes)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("Labl", "did you mean 'label'?"), ("LABEL", "did you mean 'label'?"), ("q", "it has 'x', ")],
)
def test_the_error_for_an_unknown_column_has_the_most_similar_name(name, hint):
    table = pl.DataFrame({"x": range(60), "label": ["a", "b"] * 30})
    with pytest.raises(InputError, match=f"the table has no column '{name}'; {re.escape(hint)}"):
        check_table(table, name)


def test_task_can_be_given():
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


def test_decisions_are_noted_and_followed():
    table = pl.DataFrame(
        {
            "ref": [f"u{i}" for i in range(60)],
            "void": [None] * 60,
            "same": ["x"] * 60,
            "mixed": ["7"] * 30 + ["8"] * 29 + ["none of it"],
            "day": pl.date_range(date(2020, 1, 1), date(2020, 2, 29), eager=True),
            "y": ["a", "b"] * 30,
        }
    )
    checked = check_table(table, "y")
    assert checked.kinds == {"mixed": "number", "day": "date"}
    assert checked.X.columns == ["mixed", "day"]
    assert checked.notes == [
        "left out, an identifier: 'ref'",
        "left out, no value: 'void'",
        "left out, one value in all rows: 'same'",
        "numbers, and strings that count as missing: 'mixed' ('none of it')",
        "dates as parts of the calendar and a count of days: 'day'",
    ]
    encoder = checked.encoder()
    # Half of the rows, with other strings, are encoded as was decided from all of them.
    assert encoder.fit(checked.X[30:]).transform(checked.X[:5]).shape[0] == 5


def test_free_text_is_refused_when_strict():
    phrases = ["red wine dry", "white wine sweet", "green tea hot", "black tea iced"]
    texts = [f"{phrases[i % 4]} number {i}" for i in range(80)]
    table = pl.DataFrame({"note": texts, "y": ["wine" if i % 4 < 2 else "tea" for i in range(80)]})
    with pytest.raises(InputError, match="'note': free text"):
        check_table(table, "y", strict=True)
    assert check_table(table, "y").kinds == {"note": "text"}


def test_target_of_numbers_in_disguise():
    table = pl.DataFrame({"x": range(60), "y": [f"${1000 + 37 * i:,}.50" for i in range(60)]})
    checked = check_table(table, "y")
    assert checked.task == "regression"
    np.testing.assert_array_equal(checked.y[:2], [1000.5, 1037.5])


def test_drop_and_category_resolve_a_complaint():
    table = pl.DataFrame(
        {
            "void": [None] * 60,
            "code": ["1"] * 59 + ["A"],
            "zip": [1, 2, 3] * 20,
            "y": ["a", "b"] * 30,
        }
    )
    checked = check_table(table, "y", drop=["void"], category=["code", "zip"], strict=True)
    assert checked.kinds == {"code": "category", "zip": "category"}


def test_groups_weights_and_time():
    table = pl.DataFrame(
        {
            "day": pl.date_range(date(2020, 1, 1), date(2020, 2, 29), eager=True).reverse(),
            "who": ["ann", "bob", "eve"] * 20,
            "w": [1.0, 2.0] * 30,
            "x": range(60),
            "y": ["a", "b"] * 30,
        }
    )
    checked = check_table(table, "y", group="who", time="day", weight="w")
    assert checked.X.columns == ["day", "x"]
    assert checked.X["x"].to_list() == list(range(59, -1, -1))
    assert checked.weights.tolist() == [2.0, 1.0] * 30
    assert len(set(checked.groups)) == 3
    with pytest.raises(InputError, match="--weight 'who' must hold numbers"):
        check_table(table, "y", weight="who")
    with pytest.raises(InputError, match="--time-column 'who'"):
        check_table(table, "y", time="who")
    with pytest.raises(InputError, match="'y' is the target"):
        check_table(table, "y", group="y")


def test_rows_without_target_are_left_out_and_counted():
    table = pl.DataFrame({"x": range(60), "y": ["a", "b", None] * 20})
    checked = check_table(table, "y")
    assert checked.X.height == len(checked.y) == 40
    assert checked.notes == ["20 rows without 'y' left out"]
