from datetime import date

import numpy as np
import pytest

pytest.importorskip("polars")

import polars as pl

from vicinal.cli._check_table import check_table
from vicinal.cli._errors import InputError


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
