"""Every bad table gets one clear line and exit code 2, before any work."""

import io

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("polars")

import polars as pl

from vicinal.cli._app import run

N = 60


def frame(**columns):
    rng = np.random.RandomState(0)
    kept = {"age": rng.randint(20, 60, N), "city": rng.choice(["Rome", "Oslo", "Bern"], N)}
    return pl.DataFrame({**kept, "label": np.where(kept["age"] > 40, "old", "young"), **columns})


def csv_of(table):
    return table.write_csv().encode()


def wrong_delimiter():
    return csv_of(frame()).replace(b",", b"~")


CASES = {
    "missing target": (csv_of(frame().drop("label")), "no column 'label'"),
    "constant target": (csv_of(frame(label=["same"] * N)), "'label' is constant"),
    "target without values": (csv_of(frame(label=[None] * N)), "missing in every row"),
    "target of dates": (
        csv_of(frame(label=pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 2, 29), eager=True))),
        "'label' holds dates",
    ),
    "target that names rows": (csv_of(frame(label=[f"p{i}" for i in range(N)])), "identifier"),
    "all-missing column": (csv_of(frame(void=[None] * N)), "'void': left out, no value"),
    "duplicate names": (csv_of(frame()).replace(b"city", b"age", 1), "same name: 'age'"),
    "dates": (
        csv_of(frame(day=pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 2, 29), eager=True))),
        "'day': dates as parts of the calendar",
    ),
    "mixed types": (
        csv_of(frame(size=["7"] * (N - 1) + ["large"])),
        "'size': numbers, and strings",
    ),
    "infinities": (csv_of(frame(size=[1.5] * (N - 1) + [float("inf")])), "'size': infinities"),
    "empty file": (b"", "is empty"),
    "blank file": (b"\n\n  \n", "is empty"),
    "header alone": (b"age,label\n", "no rows"),
    "wrong delimiter": (wrong_delimiter(), "reads as one column"),
    "binary": (b"a,b\n1,\x00\x01\n", "binary"),
    "ragged lines": (
        csv_of(frame()) + b"1,2,3,4,5\n",
        "5 values in line 62 and 3 names in its header",
    ),
    "one row": (csv_of(frame().head(1)), "has 1 row"),
    "target alone": (csv_of(frame().select("label", pl.lit(1).alias("one"))), "no column is left"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("command", ["compare", "fit"])
def test_bad_table_is_one_line_and_exit_code_2(case, command, tmp_path, capsys):
    if command == "fit" and case == "one row":
        case = "constant target"
    content, expected = CASES[case]
    table = tmp_path / "table.csv"
    table.write_bytes(content)
    out = tmp_path / "out.html"
    assert run([command, str(table), "--target", "label", "--strict", "--out", str(out)]) == 2
    stdout, stderr = capsys.readouterr()
    assert stdout == ""
    assert len(stderr.splitlines()) == 1
    assert stderr.startswith("vicinal: ")
    assert expected in stderr
    assert sorted(tmp_path.iterdir()) == [table]


def test_hundred_thousand_levels_are_named(tmp_path, capsys):
    rows = 100_000
    table = tmp_path / "wide.csv"
    pl.DataFrame(
        {
            "user": [f"u{i:06d}" for i in range(rows)],
            "age": np.arange(rows) % 70,
            "label": np.where(np.arange(rows) % 70 > 30, "old", "young"),
        }
    ).write_csv(table)
    assert run(["compare", str(table), "--target", "label", "--strict"]) == 2
    assert "'user': left out, an identifier" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["table.parquet", "table.arrow", "table.jsonl"])
def test_garbage_in_a_binary_table_is_one_line(name, tmp_path, capsys):
    table = tmp_path / name
    table.write_bytes(b"this is no table\n\x01\x02")
    assert run(["fit", str(table), "--target", "label", "--out", str(tmp_path / "m")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_nested_columns_are_refused(tmp_path, capsys):
    table = tmp_path / "table.jsonl"
    lines = [f'{{"tags": [1, 2], "age": {i}, "label": "{i % 2}x"}}' for i in range(N)]
    table.write_text("\n".join(lines))
    assert run(["compare", str(table), "--target", "label", "--strict"]) == 2
    assert "'tags': left out, nested values" in capsys.readouterr().err


def test_several_problems_are_counted(tmp_path, capsys):
    table = tmp_path / "table.csv"
    frame(void=[None] * N, hole=[None] * N).write_csv(table)
    assert run(["compare", str(table), "--target", "label", "--strict"]) == 2
    assert "(and 1 more column)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["compare", "no.csv", "--target", "label"], "does not exist"),
        (["compare", __file__], "--target"),
        (["compare", ".", "--target", "x"], "is a folder"),
        (["compare", "--out", "no/page.html"], "the folder 'no' does not exist"),
        (["compare", "--budget", "soon"], "90s, 5m or 1h"),
        (["compare", "--metric", "zzz"], "'zzz' is unknown; choose from 'auc', "),
        (["compare", "--metric", "acc"], "'acc' is unknown; did you mean 'accuracy'?"),
        (["compare", "--metric", "Acuracy"], "'Acuracy' is unknown; did you mean 'accuracy'?"),
        (["compare", "--models", "magic"], "no model is called 'magic'; choose from"),
        (["compare", "--models", "loca-l,randm-forest"], "did you mean 'random forest'?"),
        (["compare", "--models", "LokalClassifier"], "did you mean 'LocalClassifier'?"),
        (["compare", "--models", "boost"], "could be"),
        (["compare", "--cv", "1"], "folds"),
        (["predict", "no.vicinal", "no.csv"], "'no.vicinal' does not exist"),
        (["juggle"], "No such command"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(
    arguments, expected, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    stderr = capsys.readouterr().err
    assert expected in stderr.splitlines()[-1]
    assert "Traceback" not in stderr


def test_unexpected_errors_are_one_line_and_debug_shows_the_trace(monkeypatch, capsys):
    def broken(*args, **kwargs):
        raise RuntimeError("the floor is lava\nand hot")

    monkeypatch.setattr("vicinal.cli._training.parse_seconds", broken)
    assert run(["compare"]) == 1
    assert capsys.readouterr().err == (
        "vicinal: RuntimeError: the floor is lava (--debug shows where)\n"
    )
    with pytest.raises(RuntimeError, match="lava"):
        run(["compare", "--debug"])


def test_interruption_has_its_own_code(monkeypatch, capsys):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("vicinal.cli._training.parse_seconds", interrupted)
    assert run(["compare"]) == 130
    assert capsys.readouterr().err.strip() == "vicinal: interrupted"


def test_every_kind_of_file_is_read_alike(tmp_path):
    from vicinal.cli._read_table import read_table, write_table

    table = frame(price=np.linspace(0.5, 9.5, N))
    expected = table.with_columns(pl.col("age").cast(pl.Int64))
    for name in ("t.csv", "t.tsv", "t.parquet", "t.arrow", "t.jsonl"):
        write_table(table, tmp_path / name)
        read = read_table(tmp_path / name)
        assert read.columns == expected.columns
        assert read.equals(expected), name
    for delimiter in ";|\t":
        path = tmp_path / "other.csv"
        path.write_text(table.write_csv(separator=delimiter))
        assert read_table(path).equals(expected)
    stream = io.BytesIO()
    table.write_ipc_stream(stream)
    (tmp_path / "stream.arrow").write_bytes(stream.getvalue())
    assert read_table(tmp_path / "stream.arrow").equals(expected)


def test_usual_marks_of_missing_values_are_missing(tmp_path):
    from vicinal.cli._read_table import read_table

    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,x\n?,NA\nnan,\n2.5, y \n")
    assert read_table(path).to_dict(as_series=False) == {
        "a": [1.0, None, None, 2.5],
        "b": ["x", None, None, "y"],
    }
