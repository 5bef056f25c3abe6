"""What would mislead in a table: the command `check`, and one line each in `compare`."""

import json

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("polars")

import polars as pl

from vicinal.auto import AutoClassifier
from vicinal.cli._app import run
from vicinal.cli._check_table import check_table, warn
from vicinal.cli._training import fit_model


def people(n=160, seed=0):
    rng = np.random.RandomState(seed)
    age = rng.randint(18, 80, n)
    town = rng.choice(["Bern", "Oslo", "Rome"], n)
    outcome = np.where(age / 40 + (town == "Oslo") > 1.6, "yes", "no")
    return pl.DataFrame({"age": age + rng.rand(n), "town": town, "y": outcome})


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory):
    """A leak, an empty column, a constant, copies of rows, labels turned round, and other rows."""
    folder, clean = tmp_path_factory.mktemp("look"), people()
    score = (clean["y"] == "yes").cast(float) + 0.01 * pl.Series(np.arange(160) % 7)
    table = clean.with_columns(score=score, const=pl.lit("x"), empty=pl.lit(None, dtype=pl.String))
    pl.concat([table, table[:12]]).write_csv(folder / "people.csv")
    clean[:60].with_columns(age=pl.col("age") + 80).drop("y").write_csv(folder / "new.csv")
    return folder


def test_check_prints_what_it_found_and_writes_a_page(spoiled, tmp_path, capsys):
    page = tmp_path / "check.html"
    arguments = ["check", str(spoiled / "people.csv"), "-t", "y", "--out", str(page)]
    against = ["--against", str(spoiled / "new.csv")]
    assert run([*arguments, *against]) == 2
    assert "lacks 'score', 'const', 'empty'; leave out with --drop" in capsys.readouterr().err
    table = pl.read_csv(spoiled / "new.csv").with_columns(
        score=0.5, const=pl.lit("x"), empty=pl.lit(None)
    )
    table.write_csv(spoiled / "new.csv")
    assert run([*arguments, *against]) == 0
    stdout = capsys.readouterr().out
    for printed in ("12 of 172 rows repeat another", "'score' alone predicts", "most in 'age'"):
        assert printed in stdout
    assert "left out, one value in all rows" in stdout
    html = page.read_text()
    for title in ("Duplicate rows", "Columns that leak the target", "Drift of new rows"):
        assert f">{title}<" in html
    assert "Check of people.csv compared with new.csv" in html
    assert "http" not in html.replace("http-equiv", "")


def test_check_without_a_target_and_as_json(spoiled, tmp_path, capsys):
    arguments = ["check", str(spoiled / "people.csv"), "--out", str(tmp_path / "c.html"), "--json"]
    assert run([*arguments, "--drop", "score,const"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n_columns"] == 4
    assert found["found"] == ["repeats", "columns"]
    assert run([*arguments, "--target", "wage"]) == 2
    assert "no column 'wage'" in capsys.readouterr().err
    assert run([*arguments, "--drop", "wage"]) == 2
    assert "no column 'wage'" in capsys.readouterr().err


def test_compare_warns_in_one_line_each_and_names_the_command(spoiled, capsys):
    warn(check_table(pl.read_csv(spoiled / "people.csv"), "y"), 0)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "12 rows are duplicates" in lines[0]
    assert "'score' alone predicts nearly as well as all columns" in lines[1]
    assert all("`vicinal check` shows more" in line for line in lines)
    warn(check_table(people(), "y"), 0)
    assert capsys.readouterr().err == ""


def test_fit_warns_of_what_flatters_its_score(spoiled, tmp_path, capsys):
    out = str(tmp_path / "m.vicinal")
    assert run(["fit", str(spoiled / "people.csv"), "-t", "y", "-m", "logistic", "-o", out]) == 0
    printed = capsys.readouterr().err
    assert "12 rows are duplicates" in printed
    assert "'score' alone predicts nearly as well as all columns" in printed


def test_a_mixture_shows_how_far_it_is_at_a_terminal(monkeypatch, capsys):
    checked = check_table(people(), "y")
    fit_model("mixture", AutoClassifier(["constant"], random_state=0), checked)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    fitted = fit_model("mixture", AutoClassifier(["constant"], random_state=0), checked)
    assert "constant" in capsys.readouterr().err
    assert fitted.verbose == 0


def test_ids_that_rows_share_are_named(capsys):
    rows = people().with_columns(customer_id=pl.Series(np.arange(160) // 8))
    warn(check_table(rows, "y"), 0)
    assert "--group 'customer_id' holds out all rows of one together" in capsys.readouterr().err
    warn(check_table(rows, "y", group="customer_id"), 0)
    assert capsys.readouterr().err == ""


@pytest.mark.filterwarnings("ignore:the order of the rows predicts the target")  # by group
def test_rows_of_a_group_are_held_out_together_by_the_model_too():
    rng = np.random.RandomState(0)
    who = np.repeat(np.arange(20), 6)
    X = rng.normal(size=(20, 3))[who] + 0.05 * rng.normal(size=(120, 3))
    table = pl.DataFrame(X, schema=["a", "b", "c"]).with_columns(
        who=pl.Series(who), y=pl.Series(np.array(["no", "yes"])[rng.randint(0, 2, 20)[who]])
    )
    scores = [
        check_table(table, "y", **roles).fit(AutoClassifier(["local"], random_state=0))
        for roles in ({"drop": ["who"]}, {"group": "who"})
    ]
    assert scores[0].score_ > 0.95
    assert scores[1].score_ < 0.8


def test_labels_turned_round_are_named(tmp_path, capsys):
    table = people(300)
    odd = set(range(11, 300, 15))
    other = {"yes": "no", "no": "yes"}
    turned = [other[y] if k in odd else y for k, y in enumerate(table["y"])]
    table.with_columns(y=pl.Series(turned)).write_csv(tmp_path / "t.csv")
    out = str(tmp_path / "c.html")
    assert run(["check", str(tmp_path / "t.csv"), "-t", "y", "--out", out, "--json"]) == 0
    rows = [
        line["row"] for line in json.loads(capsys.readouterr().out)["findings"]["labels"]["table"]
    ]
    assert len(odd & set(rows)) >= 0.6 * len(odd)
    assert len(odd & set(rows)) >= 0.6 * len(rows)
