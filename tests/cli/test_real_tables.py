"""From a file to an explained prediction: raw tables, and what used to stand in the way."""

import gzip
import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("polars")
pytest.importorskip("statsmodels")

import polars as pl
import statsmodels.datasets
from tests.inspection.simulation import SimulatedWorkers

from vicinal.cli._app import run

# Panels and years in order, and categories that only new rows have: notes on a terminal.
pytestmark = [
    pytest.mark.filterwarnings("ignore:the order of the rows predicts the target"),
    pytest.mark.filterwarnings("ignore:held-out errors depend on the order"),
    pytest.mark.filterwarnings("ignore:some values are unlike"),
]

RAW = Path(statsmodels.datasets.__file__).parent
# Tables as published: names of countries and firms, missing values, quarters, dates such as
# Jan-1-1995, blanks between columns, single quotes, a mark of the byte order, 8 to 257 rows.
TABLES = {
    "fertility/fertility.csv": "2010",
    "grunfeld/grunfeld.csv": "invest",
    "committee/committee.csv": "BILLS104",
    "cpunish/cpunish.csv": "EXECUTIONS",
    "statecrime/statecrime.csv": "violent",
    "scotland/scotvote.csv": "YES",
    "elnino/elnino.csv": "DEC",
    "danish_data/data.csv": "lrm",
    "longley/longley.csv": "TOTEMP",
    "spector/spector.csv": "GRADE",
    "elec_equip/elec_equip.csv": "STS.M.I7.W.TOVT.NS0016.4.000",
    "china_smoking/china_smoking.csv": "smoking_yes_cancer_yes",
    "stackloss/stackloss.csv": "STACKLOSS",
}


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def titanic_like(n=120, seed=0):
    """Passengers with names, tickets that are numbers or not, cabins and missing values."""
    rng = np.random.RandomState(seed)
    fare = rng.lognormal(3, 1, n).round(2)
    sex = rng.choice(["male", "female"], n)
    numbers = rng.randint(10_000, 10**6, n)
    return pl.DataFrame(
        {
            "PassengerId": np.arange(1, n + 1),
            "Name": [f"Mr. A{k} of the family B{k % 40}" for k in range(n)],
            "Sex": sex,
            "Ticket": [str(k) if rng.rand() < 0.85 else f"CA {k}" for k in numbers],
            "Fare": [f"${value:,.2f}" for value in fare],
            "Cabin": [f"C{k % 60}" if k % 4 == 0 else None for k in range(n)],
            "Survived": ((sex == "female") | (fare > 40)).astype(int),
        }
    )


@pytest.mark.parametrize("name", TABLES)
def test_raw_table_goes_from_file_to_explained_prediction(name, tmp_path, capsys):
    table, model, out = RAW / name, tmp_path / "m.vicinal", tmp_path / "predictions.csv"
    assert run(["fit", str(table), "--target", TABLES[name], "--out", str(model)]) == 0
    assert "on held-out rows: " in capsys.readouterr().err
    assert run(["predict", str(model), str(table), "--out", str(out)]) == 0
    predictions = pl.read_csv(out)["prediction"]
    assert len(predictions) >= 8
    assert predictions.null_count() == 0
    capsys.readouterr()
    assert run(["explain", str(model), str(table), "--row", "1"]) == 0
    assert "predicts" in capsys.readouterr().out


def test_what_was_decided_in_fit_is_kept_to_at_prediction(tmp_path, capsys):
    """Strings among numbers, new categories, a price without its sign: no error."""
    titanic_like(seed=0).write_csv(tmp_path / "tr.csv")
    strange = titanic_like(30, seed=1).with_columns(
        Ticket=pl.lit("CA 46022"), Fare=pl.lit("12"), Sex=pl.lit("unknown")
    )
    strange.write_csv(tmp_path / "te.csv")
    model = tmp_path / "m.vicinal"
    arguments = ["fit", str(tmp_path / "tr.csv"), "-t", "Survived", "-m", "logistic"]
    assert run([*arguments, "-o", str(model)]) == 0
    printed = capsys.readouterr().err
    assert "left out, an identifier: 'PassengerId'" in printed
    assert "strings that count as missing: 'Ticket'" in printed
    assert run(["predict", str(model), str(tmp_path / "te.csv"), "--key", "PassengerId"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "PassengerId,prediction"
    assert len(lines) == 31
    assert run(["explain", str(model), str(tmp_path / "te.csv"), "--row", "3"]) == 0


def test_small_table_is_compared_explained_and_kept(tmp_path, capsys, monkeypatch):
    """Sixteen rows: the half of a fold is explained by a model that has not seen it."""
    monkeypatch.setattr("vicinal.cli._training._EXPLAINED_ROWS", 12)
    page, best = tmp_path / "page.html", tmp_path / "best.vicinal"
    arguments = ["compare", str(RAW / "longley/longley.csv"), "-t", "TOTEMP", "--cv", "2"]
    arguments += ["--models", "mean,ridge", "--budget", "24h", "--save", str(best), "--json"]
    assert run([*arguments, "--out", str(page)]) == 0
    stdout, stderr = capsys.readouterr()
    assert json.loads(stdout)["models"][0]["name"] == "ridge"
    assert "computing the report of ridge" in stderr
    assert "ridge saved" in stderr
    assert page.read_text().count('class="pick"') == 8
    assert run(["predict", str(best), str(RAW / "longley/longley.csv")]) == 0


def test_compiling_is_done_once_and_outside_the_budget(capsys):
    from sklearn.dummy import DummyRegressor

    from vicinal import PrunedTreeRegressor
    from vicinal.cli._check_table import check_table
    from vicinal.cli._training import compile_models

    rng = np.random.RandomState(0)
    checked = check_table(pl.DataFrame({"x": rng.rand(60), "y": rng.rand(60)}), "y")
    models = {"mean": DummyRegressor(), "tree": PrunedTreeRegressor(cv=2)}
    assert compile_models(models, checked) > 0
    assert "compiling" in capsys.readouterr().err
    assert compile_models(models, checked) == 0
    assert compile_models({"mean": DummyRegressor()}, checked) == 0
    assert capsys.readouterr().err == ""


def test_what_large_tables_need_is_compiled_outside_the_budget(monkeypatch):
    from vicinal import PrunedTreeRegressor
    from vicinal.cli import _training
    from vicinal.cli._check_table import check_table

    steps = []
    monkeypatch.setattr(_training, "compiling_steps", lambda: {"search": lambda: steps.append(1)})
    rng = np.random.RandomState(0)
    for n_rows, expected in ((339, 0), (340, 1), (400, 1)):
        table = pl.DataFrame({"x": rng.rand(n_rows), "y": rng.rand(n_rows)})
        _training.compile_models({"tree": PrunedTreeRegressor(cv=3)}, check_table(table, "y"))
        assert len(steps) == expected


def test_the_budget_holds_up_to_the_page(tmp_path, monkeypatch):
    """A model that would take hours, and yet folds and page are given no more than the budget."""
    from sklearn.naive_bayes import GaussianNB

    from vicinal import report
    from vicinal.inspection import candidates

    given = []

    class Recorded(report.ModelReport):
        def __init__(self, *args, time_budget, **options):
            given.append(workers.clock.seconds + time_budget)
            super().__init__(*args, time_budget=time_budget, **options)

    workers = SimulatedWorkers(monkeypatch, {"bayes": 0.1, "slow": 10**6}, start=5, restart=5)
    models = {"bayes": GaussianNB(), "slow": GaussianNB(var_smoothing=0.1)}
    monkeypatch.setattr(candidates, "candidate_models", lambda task, random_state: dict(models))
    monkeypatch.setattr(report, "ModelReport", Recorded)
    assert run(["compare", "--budget", "45s", "--fresh", "--out", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").exists()
    assert workers.clock.seconds == 0.8 * 45
    assert workers.clock.seconds < given[0] <= 45


def test_the_page_uses_as_many_rows_as_its_time_allows():
    from vicinal.cli._training import _in_time

    rows = np.arange(0, 3000, 3)
    assert _in_time(rows, 1.0, 2.0, 0).tolist() == rows.tolist()
    half = _in_time(rows, 4.0, 2.0, 0)
    assert len(half) == 500
    assert np.isin(half, rows).all()
    assert (np.diff(half) > 0).all()
    assert len(_in_time(rows, 100.0, 2.0, 0)) == 200


@pytest.mark.parametrize("model", ["k-nearest-neighbours", "auto"])
def test_fit_notes_a_rare_class_and_prints_the_same_score_of_every_model(model, tmp_path, capsys):
    x = np.random.RandomState(0).rand(200)
    table = pl.DataFrame({"x": x, "y": ["yes" if value > 0.95 else "no" for value in x]})
    table.write_csv(tmp_path / "rare.csv")
    arguments = ["fit", str(tmp_path / "rare.csv"), "-t", "y", "-m", model, "--budget", "24h"]
    families = ["--set", "families=['constant', 'linear']"] if model == "auto" else []
    assert run([*arguments, *families, "-o", str(tmp_path / "m.vicinal")]) == 0
    printed = capsys.readouterr().err
    note = "of the rows: accuracy hardly depends on them (--metric roc_auc); `vicinal check` shows"
    assert printed.count(note) == 1
    assert "on held-out rows: accuracy 0.9" in printed
    assert run([*arguments, *families, "--metric", "auc", "-o", str(tmp_path / "m.vicinal")]) == 0
    printed = capsys.readouterr().err
    assert note not in printed
    assert re.search(r"on held-out rows: roc auc (1|0\.)", printed)


def test_rare_classes_change_the_score_with_a_note(capsys):
    from vicinal.cli._check_table import check_table
    from vicinal.cli._training import resolve_metric

    x = np.random.RandomState(0).rand(200)
    rare = check_table(pl.DataFrame({"x": x, "y": ["no"] * 190 + ["yes"] * 10}), "y")
    assert resolve_metric(None, rare) == "roc_auc"
    assert "'yes' is 5 % of the rows: the score is roc auc" in capsys.readouterr().err
    assert resolve_metric("accuracy", rare) == "accuracy"
    few = check_table(pl.DataFrame({"x": x[:60], "y": ["no"] * 57 + ["yes"] * 3}), "y")
    assert resolve_metric(None, few) is None  # some folds would hold one class
    assert "'yes' has 3 rows, fewer than folds" in capsys.readouterr().err
    even = check_table(pl.DataFrame({"x": x, "y": ["no", "yes"] * 100}), "y")
    assert resolve_metric(None, even) is None


def test_a_class_of_one_row_is_rejected_with_a_message(tmp_path, capsys):
    table = tmp_path / "table.csv"
    pl.DataFrame({"x": range(12), "y": ["no"] * 11 + ["yes"]}).write_csv(table)
    assert run(["compare", str(table), "-t", "y", "--out", str(tmp_path / "page.html")]) == 2
    assert "the class 'yes' of 'y' has a single row" in capsys.readouterr().err


# --- files --------------------------------------------------------------------------------------


def people(n=40):
    return pl.DataFrame(
        {
            "città": ["Zürich", "Genève"] * (n // 2),
            "zip": [f"0{k % 7}123" for k in range(n)],
            "price": [f"{k},5" for k in range(n)],
            "y": ["a", "b"] * (n // 2),
        }
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("packed", [False, True])
def test_encodings_and_packed_files(encoding, packed, tmp_path):
    from vicinal.cli._read_table import read_table

    data = people().write_csv(separator=";").encode(encoding)
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(data) if packed else data)
    assert read_table(path).equals(people())


def test_several_files_and_standard_input(tmp_path, monkeypatch):
    from vicinal.cli._read_table import read_table, read_tables

    people(20).write_csv(tmp_path / "a.csv")
    people(10).with_columns(new=pl.lit(3)).write_csv(tmp_path / "b.csv")
    both = read_tables([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert both.shape == (30, 5)
    assert both["new"].null_count() == 20

    class Stdin:
        buffer = io.BytesIO((tmp_path / "a.csv").read_bytes())

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert read_table(Path("-")).equals(people(20))
    (tmp_path / "broken.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(ValueError, match="cannot be unpacked"):
        read_table(tmp_path / "broken.csv.gz")


def test_blanks_before_quotes_and_numbers_of_rows(tmp_path):
    from vicinal.cli._read_table import read_table

    path = tmp_path / "t.csv"
    path.write_text(' day , sales\n1/2/2023, "$1,200"\n2/2/2023, "$80"\n')
    assert read_table(path).rows() == [("1/2/2023", "$1,200"), ("2/2/2023", "$80")]
    path.write_text("day,sales\n1,2\n3,4,5\n")
    with pytest.raises(ValueError, match="3 values in line 3 and 2 names in its header"):
        read_table(path)
    path.write_text(",age,city\n0,31,Rome\n1,40,Oslo\n")  # as pandas writes it
    assert read_table(path).columns == ["column_0", "age", "city"]  # the encoder leaves it out
    path.write_text('"","age","city"\n"1",31,"Rome"\n"2",40,"Oslo"\n')  # as R does
    assert read_table(path).columns == ["column_0", "age", "city"]
    path.write_text("word\nyes\nno\n")
    assert read_table(path).shape == (2, 1)


def test_groups_weights_and_columns_to_drop_by_comma(tmp_path, capsys):
    rng = np.random.RandomState(0)
    n = 90
    x = rng.rand(n)
    pl.DataFrame(
        {
            "x": x,
            "u": x,
            "v": x,
            "who": [f"p{k % 9}" for k in range(n)],
            "w": 1 + rng.rand(n),
            "y": np.where(x > 0.5, "up", "down"),
        }
    ).write_csv(tmp_path / "t.csv")
    model = tmp_path / "m.vicinal"
    arguments = ["fit", str(tmp_path / "t.csv"), "-t", "y", "-m", "logistic", "-o", str(model)]
    assert run([*arguments, "--drop", "u,v", "--group", "who", "--weight", "w"]) == 0
    printed = capsys.readouterr().err
    assert "90 rows, 1 column;" in printed
    assert re.search(r"on held-out rows: accuracy (1|0\.9)", printed)


def test_page_of_a_very_wide_table_has_the_leaderboard_alone(tmp_path, capsys):
    from sklearn.dummy import DummyRegressor

    from vicinal.cli._check_table import check_table
    from vicinal.cli._training import write_report
    from vicinal.inspection import compare

    rng = np.random.RandomState(0)
    table = pl.DataFrame({**{f"g{j}": rng.rand(20) for j in range(1001)}, "y": rng.rand(20)})
    checked = check_table(table, "y")
    models = {"mean": DummyRegressor()}
    board = compare(models, checked.X, checked.y, cv=2)
    page = write_report(board, models, checked, 0, 1, tmp_path / "page.html", 0.0, None, None)
    assert "Leaderboard" in page.read_text()
    assert "more than 1000 columns" in capsys.readouterr().err
