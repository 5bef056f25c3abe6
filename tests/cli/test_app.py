"""The commands from the outside: what they print, what they write, how they end."""

import gc
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("polars")

import polars as pl
from tests.common.processes import posix
from tests.inspection.simulation import SimulatedWorkers

import vicinal
from vicinal._kernels.local._polynomials import ridge_equivalent_kernels, ridge_slopes
from vicinal._kernels.neighbors._nearest import listed_distances, nearest_rows
from vicinal.cli._app import run

SOURCE = str(Path(vicinal.__path__[0]).parent)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def table():
    rng = np.random.RandomState(0)
    n = 120
    age, city = rng.randint(18, 80, n), rng.choice(["Rome", "Oslo", "Bern"], n)
    rich = (age + 10 * (city == "Oslo") + rng.normal(0, 6, n)) > 52
    return pl.DataFrame({"age": age, "city": city, "income": np.where(rich, "high", "low")})


@pytest.fixture
def csv(table, tmp_path):
    table.write_csv(tmp_path / "people.csv")
    return tmp_path / "people.csv"


@pytest.fixture(scope="module")
def fitted_file(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    table.write_csv(folder / "people.csv")
    out = folder / "people.vicinal"
    arguments = ["--model", "space-partitioning", "--set", "n_regions=2", "--set", "n_init=2"]
    assert run(["fit", str(folder / "people.csv"), "-t", "income", *arguments, "-o", str(out)]) == 0
    return out


@pytest.fixture
def model(fitted_file, tmp_path):
    shutil.copy(fitted_file, tmp_path / "people.vicinal")
    return tmp_path / "people.vicinal"


# --- compare ---

QUICK = ["--models", "frequent,logistic", "--cv", "3", "--budget", "24h"]


def test_compare_prints_a_leaderboard_and_writes_the_report(csv, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert run(["compare", str(csv), "-t", "income", *QUICK, "--out", str(page)]) == 0
    stdout, stderr = capsys.readouterr()
    assert "120 rows, 2 columns; classification of 'income' (2 classes: low 71, high 49)" in stderr
    assert stdout.splitlines()[0].startswith("120 rows, 2 columns, 3-fold accuracy")
    assert stdout.splitlines()[2].split()[1:3] == ["logistic", "regression"]
    assert page.exists()


def test_compare_as_json_has_the_leaderboard_alone_on_standard_output(csv, tmp_path, capsys):
    arguments = ["compare", str(csv), "-t", "income", *QUICK, "--json", "--metric", "logloss"]
    assert run([*arguments, "--out", str(tmp_path / "page.html")]) == 0
    board = json.loads(capsys.readouterr().out)
    assert board["metric"] == "neg_log_loss"
    assert [model["name"] for model in board["models"]] == [
        "logistic regression",
        "most frequent class",
    ]
    assert len(board["models"][0]["fold_scores"]) == 3


def test_extreme_targets_are_noted_before_the_ranks(tmp_path, capsys):
    rng = np.random.RandomState(0)
    x = rng.rand(80)
    y = np.where(np.arange(80) == 9, 1e6, x + rng.rand(80))
    pl.DataFrame({"x": x, "y": y}).write_csv(tmp_path / "t.csv")
    out, best = str(tmp_path / "page.html"), str(tmp_path / "best.vicinal")
    arguments = ["compare", str(tmp_path / "t.csv"), "-t", "y", "--models", "mean,ridge"]
    assert run([*arguments, "--budget", "24h", "--cv", "2", "--out", out, "--save", best]) == 0
    stdout, stderr = capsys.readouterr()
    assert "More than 90 % of the variance of the target is in 1 of 80 rows" in stdout
    assert "unfinished" not in stderr
    assert "extreme targets decide the scores" in Path(out).read_text()


@pytest.mark.parametrize("data", ["diabetes"])
def test_without_a_table_an_embedded_set_is_used(data, tmp_path, capsys):
    arguments = ["compare", "--data", data, "--models", "mean,ridge", "--cv", "2"]
    arguments += ["--budget", "24h"]
    assert run([*arguments, "--out", str(tmp_path / "page.html")]) == 0
    assert "442 rows, 10 columns; regression on 'target'" in capsys.readouterr().err


# Folds are written until the fourth, before which the process kills itself.
KILLED = """
import os, signal, sys
from vicinal.cli._app import run
from vicinal.inspection.compare._folds import FoldCache

write = FoldCache.write

def until_killed(cache, *result):
    if len(list(cache.folder.glob("*.npz"))) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    write(cache, *result)

FoldCache.write = until_killed
run(sys.argv[1:])
"""


@posix
def test_killed_comparison_goes_on_and_loses_the_running_fold_only(csv, tmp_path, capsys):
    """Kill -9 after some folds: the finished ones are read back, bit for bit, the rest computed."""
    cache = tmp_path / "folds"
    arguments = ["compare", str(csv), "-t", "income", "--cv", "4", "--jobs", "1"]
    arguments += ["--models", "frequent,logistic", "--cache", str(cache), "--json"]
    arguments += ["--budget", "24h", "--out", str(tmp_path / "page.html")]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
    )
    assert killed.returncode == -signal.SIGKILL
    finished = {path.name: path.stat().st_mtime_ns for path in cache.glob("*.npz")}
    assert len(finished) == 3
    assert not (tmp_path / "page.html").exists()
    assert run(arguments) == 0
    board = json.loads(capsys.readouterr().out)
    assert [len(model["fold_scores"]) for model in board["models"]] == [4, 4]
    after = {path.name: path.stat().st_mtime_ns for path in cache.glob("*.npz")}
    assert len(after) == 8
    assert finished.items() <= after.items()


def test_what_is_unfinished_is_printed_before_a_model_is_named_or_saved(
    csv, tmp_path, monkeypatch, capsys
):
    costs = {"most frequent class": 0.1, "logistic regression": 0.2, "random forest": 10**6}
    SimulatedWorkers(monkeypatch, costs)
    saved = tmp_path / "best.vicinal"
    arguments = ["compare", str(csv), "-t", "income", "--models", "frequent,logistic,forest"]
    arguments += ["--fresh", "--budget", "45s", "--out", str(tmp_path / "page.html")]
    assert run([*arguments, "--save", str(saved)]) == 0
    stdout, stderr = capsys.readouterr()
    assert stdout.splitlines()[1].startswith("Unfinished: random forest (0 of 5 folds). Ranks")
    assert stdout.splitlines()[3].startswith(" 1  logistic regression")
    assert "logistic regression is the best of the ranked models" in stderr
    assert stderr.index("unfinished ones") < stderr.index("logistic regression saved")
    assert "Unfinished: random forest" in (tmp_path / "page.html").read_text()
    assert run([*arguments, "--json"]) == 0
    stdout, stderr = capsys.readouterr()
    assert json.loads(stdout)["unfinished"] == ["random forest"]
    assert "Unfinished: random forest" in stderr


# --- fit, predict, explain, info ---


def test_predictions_are_those_of_the_model_in_python(model, csv, table, tmp_path):
    from vicinal.io import load

    out = tmp_path / "predictions.csv"
    assert run(["predict", str(model), str(csv), "--proba", "--out", str(out)]) == 0
    predictions = pl.read_csv(out)
    assert predictions.columns == ["prediction", "P(high)", "P(low)"]
    fitted = load(model)
    assert predictions["prediction"].to_list() == fitted.predict(table).tolist()
    np.testing.assert_allclose(
        predictions.select("P(high)", "P(low)").to_numpy(), fitted.predict_proba(table), rtol=1e-12
    )


def test_dates_and_texts_survive_the_model_file(tmp_path, capsys):
    texts = ["dry red wine", "sweet white wine", "hot green tea", "iced black tea"]
    table = pl.DataFrame(
        {
            "note": [f"{texts[i % 4]} of box {i}" for i in range(80)],
            "day": pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 3, 20), eager=True),
            "price": np.linspace(1, 9, 80),
            "kind": ["wine" if i % 4 < 2 else "tea" for i in range(80)],
        }
    )
    csv, model = tmp_path / "drinks.csv", tmp_path / "drinks.vicinal"
    table.write_csv(csv)
    arguments = ["fit", str(csv), "-t", "kind", "-m", "logistic", "--out", str(model)]
    assert run(arguments) == 0
    printed = capsys.readouterr().err
    assert "free text as 10 latent columns: 'note'" in printed
    assert "dates as parts of the calendar and a count of days: 'day'" in printed
    assert run(["predict", str(model), str(csv)]) == 0
    predictions = capsys.readouterr().out.splitlines()[1:]
    assert np.mean(np.array(predictions) == table["kind"].to_numpy()) > 0.9


def test_labels_that_a_spreadsheet_would_run_are_written_as_text(tmp_path, capsys):
    labels = ["=cmd|'/C calc'!A0", "-1+1", "plain"]
    table = pl.DataFrame({"a": [0.0, 5.0, 10.0] * 8, "kind": labels * 8})
    table.write_csv(tmp_path / "rows.csv")
    csv, model, out = (str(tmp_path / name) for name in ("rows.csv", "m.vicinal", "out.csv"))
    assert run(["fit", csv, "-t", "kind", "-m", "tree", "--out", model]) == 0
    assert run(["predict", model, csv, "--proba", "--out", out]) == 0
    predictions = pl.read_csv(out)
    assert predictions["prediction"].to_list() == ["'" + labels[0], "'" + labels[1], labels[2]] * 8
    capsys.readouterr()
    assert run(["predict", model, csv]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("'=cmd")


def test_predictions_go_to_standard_output_without_a_file(model, csv, table, capsys):
    assert run(["predict", str(model), str(csv)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "prediction"
    assert len(lines) == 1 + table.height


def test_a_dash_is_standard_output(model, csv, table, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["predict", str(model), str(csv), "--out", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + table.height
    assert not Path("-").exists()


def test_json_arrays_are_tables(model, csv, table, tmp_path, monkeypatch, capsys):
    assert run(["predict", str(model), str(csv)]) == 0
    expected = capsys.readouterr().out
    rows, out = tmp_path / "rows.json", tmp_path / "predictions.json"
    rows.write_text(json.dumps(table.to_dicts(), indent=2))
    assert run(["predict", str(model), str(rows)]) == 0
    assert capsys.readouterr().out == expected
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b" \n" + rows.read_bytes())))
    assert run(["predict", str(model), "-", "--out", str(out)]) == 0
    assert [row["prediction"] for row in json.loads(out.read_text())] == expected.split()[1:]
    for text in ("[1, 2]", '[{"age": 1', '["age"]'):
        rows.write_text(text)
        capsys.readouterr()
        assert run(["predict", str(model), str(rows)]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_prediction_loads_what_the_file_names_alone(model, csv):
    code = (
        "import sys; from vicinal.cli._app import run\n"
        f"assert run(['predict', {str(model)!r}, {str(csv)!r}]) == 0\n"
        "print(*sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded = set(result.stdout.splitlines()[-1].split())
    assert "vicinal.partition" in loaded
    others = ("auto", "ensemble", "inspection", "metric", "report", "subspace", "io._to_onnx")
    assert not {"numba", *(f"vicinal.{name}" for name in others)} & loaded


def test_prediction_needs_the_columns_of_the_fit_but_not_the_target(model, table, tmp_path, capsys):
    table.drop("income").write_parquet(tmp_path / "new.parquet")
    assert run(["predict", str(model), str(tmp_path / "new.parquet")]) == 0
    capsys.readouterr()
    table.drop("age").write_csv(tmp_path / "narrow.csv")
    out = tmp_path / "predictions.csv"
    assert run(["predict", str(model), str(tmp_path / "narrow.csv"), "--out", str(out)]) == 2
    assert "lacks the column 'age'" in capsys.readouterr().err
    assert not out.exists()


def test_failed_prediction_leaves_the_old_file(model, csv, tmp_path, monkeypatch):
    out = tmp_path / "predictions.csv"
    out.write_text("old")

    def full_disk(*args):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", full_disk)
    assert run(["predict", str(model), str(csv), "--out", str(out)]) == 1
    assert out.read_text() == "old"
    assert not list(tmp_path.glob(".*"))


def test_explanation_names_columns_of_the_table(model, csv, tmp_path, capsys):
    page = tmp_path / "why.html"
    assert run(["explain", str(model), str(csv), "--row", "3", "--out", str(page)]) == 0
    text = capsys.readouterr().out
    assert "predicts" in text
    assert "city = Oslo" in text
    assert "Row 3 of" in page.read_text()
    assert page.read_text().count("<h3>") == text.count("\n---")
    assert text.startswith("SpacePartitioningClassifier predicts income = ")
    assert run(["explain", str(model), str(csv), "--row", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["row"]) == {"age", "city"}
    assert found["sections"]["counterfactual"]["title"] in text
    assert run(["explain", str(model), str(csv), "--row", "3", "--quick"]) == 0
    quick = capsys.readouterr().out
    assert "Counterfactual" not in quick
    parts = [part.rstrip() for part in text.split("\n\n")]
    assert all(part.rstrip() in parts for part in quick.split("\n\n"))
    assert run(["explain", str(model), str(csv), "--row", "3", "--fixed", "age", "--json"]) == 0
    change = json.loads(capsys.readouterr().out)["sections"]["counterfactual"]
    assert {line["column"] for line in change["table"]} <= {"city"}
    printed = found["prediction"]
    other = next(label for label in found["probabilities"] if label != printed)
    assert run(["explain", str(model), str(csv), "--row", "3", "--to", other, "--json"]) == 0
    change = json.loads(capsys.readouterr().out)["sections"]["counterfactual"]
    assert change["values"]["label"] == other
    assert run(["explain", str(model), str(csv), "--row", "3", "--fixed", "shoe"]) == 2
    assert "--fixed 'shoe': the model uses 'age', 'city'" in capsys.readouterr().err
    assert run(["explain", str(model), str(csv), "--row", "3", "--to", "never"]) == 2
    assert "--to 'never': the classes are" in capsys.readouterr().err
    assert run(["explain", str(model), str(csv), "--row", "120"]) == 2
    assert "rows 0 to 119" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--to", "low"], ["--fixed", "age"]])
def test_a_quick_explanation_refuses_what_it_would_ignore(option, model, csv, table, capsys):
    explain = ["explain", str(model), str(csv), "--row", "3"]
    assert run([*explain, "--quick", *option]) == 2
    assert "--quick skips the counterfactual" in capsys.readouterr().err
    table[:1].write_csv(csv)
    assert run(["explain", str(model), str(csv), "--row", "0", *option]) == 2
    assert "needs other rows to compare with" in capsys.readouterr().err


def test_a_quick_explanation_has_the_numbers_of_the_full_one(csv, table, tmp_path, capsys):
    from vicinal import AutoClassifier
    from vicinal.io import save

    auto = AutoClassifier(["constant", "linear"], random_state=0)
    save(auto.fit(table.drop("income"), table["income"]), tmp_path / "auto.vicinal")
    table.sort("age")[:40].write_csv(csv)  # not like the training rows
    found = []
    for option in ([], ["--quick"]):
        arguments = ["explain", str(tmp_path / "auto.vicinal"), str(csv), "--row", "3", "--json"]
        assert run([*arguments, *option]) == 0
        found.append(json.loads(capsys.readouterr().out))
    full, quick = found
    assert quick["probabilities"] == full["probabilities"]
    assert "counterfactual" in full["sections"]
    assert quick["sections"] == {key: full["sections"][key] for key in quick["sections"]}
    assert "columns" in quick["sections"]


def test_report_of_a_model_with_and_without_the_target(model, csv, table, tmp_path, capsys):
    page = tmp_path / "model.html"
    assert run(["report", str(model), str(csv), "--rows", "3", "--out", str(page)]) == 0
    assert "Calibration" in page.read_text()
    assert page.read_text().count('class="pick"') == 3
    seen = "the model was fitted to these rows"
    assert seen in page.read_text()
    assert "had not seen" not in page.read_text()
    table[:60].write_csv(tmp_path / "new.csv")
    arguments = ["report", str(model), str(tmp_path / "new.csv"), "--rows", "1"]
    assert run([*arguments, "--out", str(page)]) == 0
    assert seen not in page.read_text()
    table.drop("income").write_csv(tmp_path / "new.csv")
    arguments = ["report", str(model), str(tmp_path / "new.csv"), "--rows", "2"]
    assert run([*arguments, "--out", str(page)]) == 0
    assert "scores cannot be computed" in page.read_text()
    assert run([*arguments, "--out", str(page), "--target", "wage"]) == 2
    assert "no column 'wage'" in capsys.readouterr().err
    table.with_columns(income=pl.lit("middling")).write_csv(tmp_path / "new.csv")
    assert run([*arguments, "--out", str(page)]) == 2
    assert "unknown to the model: 'middling'" in capsys.readouterr().err


def test_warnings_of_the_library_are_notes_of_one_line_and_others_are_not(monkeypatch, capsys):
    import warnings

    import sklearn.linear_model
    from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning

    ours, theirs = vicinal.__file__, sklearn.linear_model.__file__

    def warn(*args, **kwargs):
        warnings.warn_explicit("take care\nof it", UserWarning, ours, 1)
        warnings.warn_explicit("ours stopped", ConvergenceWarning, ours, 2)
        warnings.warn_explicit("lbfgs failed to converge", ConvergenceWarning, theirs, 1)
        warnings.warn_explicit("X does not have valid feature names", UserWarning, theirs, 2)
        warnings.warn_explicit("Recall is ill-defined", UndefinedMetricWarning, ours, 3)
        return {}

    monkeypatch.setattr("vicinal.cli._models.compiling_steps", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run(["warmup"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "  note: take care of it",
        "  note: ours stopped",
        "  note: the fit stopped before it converged; raise its max_iter",
    ]


def test_info_prints_columns_and_target(model, capsys):
    assert run(["info", str(model)]) == 0
    text = capsys.readouterr().out
    for part in ("SpacePartitioningClassifier", "income", "city  String", "'high', 'low'"):
        assert part in text
    assert run(["info", str(model), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metadata"]["target"] == "income"


def test_the_address_is_printed_only_once_the_server_listens(model, monkeypatch, capsys):
    uvicorn = pytest.importorskip("uvicorn")
    pytest.importorskip("pandas")
    monkeypatch.delenv("VICINAL_TOKEN", raising=False)
    before = sys.getswitchinterval()
    capsys.readouterr()
    try:
        assert run(["serve", str(model), "--host", "0.0.0.0"]) == 2
        printed = capsys.readouterr().err
        assert "'0.0.0.0' is reachable from other computers, which needs a token" in printed
        assert "serves" not in printed
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            with pytest.raises(SystemExit):
                run(["serve", str(model), "--port", str(taken.getsockname()[1])])
        assert "serves" not in capsys.readouterr().err

        async def stop(server, counter):
            return True

        monkeypatch.setattr(uvicorn.Server, "on_tick", stop)
        assert run(["serve", str(model), "--port", "0"]) == 0
        assert f"http://127.0.0.1:0/ serves {model}" in capsys.readouterr().err
    finally:
        sys.setswitchinterval(before)
        gc.enable()


@pytest.mark.parametrize("command", ["predict", "info"])
def test_damaged_model_is_one_line_and_exit_code_2(command, model, csv, capsys):
    model.write_bytes(model.read_bytes()[:-40])
    table = [str(csv)] if command == "predict" else []
    assert run([command, str(model), *table]) == 2
    stderr = capsys.readouterr().err
    assert len(stderr.splitlines()) == 1
    assert "people.vicinal" in stderr


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("n_region=2", "no parameter 'n_region'"),
        ("n_regions", "key=value"),
        ("n_regions=-1", "cannot be fitted"),
    ],
)
def test_bad_settings_are_named(setting, expected, csv, tmp_path, capsys):
    out = tmp_path / "m.vicinal"
    arguments = ["fit", str(csv), "-t", "income", "-m", "space-partitioning", "--set", setting]
    assert run([*arguments, "--out", str(out)]) == 2
    assert expected in capsys.readouterr().err
    assert not out.exists()


# --- the rest ---


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_every_candidate_can_be_typed(task):
    from vicinal.cli._models import match, one_model
    from vicinal.inspection.candidates import candidate_models

    names = list(candidate_models(task))
    for name in names:
        assert match(name.lower().replace(" ", "-"), names) == name
    assert one_model("local", task, 0, ["n_neighbors=7"])[1].n_neighbors == 7
    forest = one_model("forest", task, 0, ["max_features=sqrt", "bootstrap=false"])[1]
    assert (forest.max_features, forest.bootstrap) == ("sqrt", False)


def test_the_shell_completes_commands():
    def completed(*words):
        code = "import sys; from vicinal.cli import main; sys.argv[0] = 'vicinal'; main()"
        result = subprocess.run(
            [sys.executable, "-c", code],
            env={
                **os.environ,
                "PYTHONPATH": SOURCE,
                "_VICINAL_COMPLETE": "complete_bash",
                "COMP_WORDS": " ".join(words),
                "COMP_CWORD": str(len(words) - 1),
            },
            capture_output=True,
            text=True,
        )
        return result.stdout.split()

    assert completed("vicinal", "pr") == ["predict"]
    assert completed("vicinal", "fit", "--mod") == ["--model"]


def test_warmup_compiles_what_larger_tables_need(capsys):
    assert run(["warmup"]) == 0
    out = capsys.readouterr().out
    assert "two classes" in out
    assert "stored in" in out
    for kernel in (ridge_equivalent_kernels, ridge_slopes, listed_distances, nearest_rows):
        assert kernel.signatures, kernel.__name__


def test_help_has_examples_for_every_command(capsys):
    for command in ("compare", "check", "fit", "predict", "explain", "export", "report", "info"):
        assert run([command, "--help"]) == 0
        assert f"  vicinal {command}" in capsys.readouterr().out
    assert run(["--version"]) == 0
    assert vicinal.__version__ in capsys.readouterr().out
    assert run([]) == 0
    assert "Usage: vicinal" in capsys.readouterr().out


def test_the_command_is_a_module_too():
    command = [sys.executable, "-m", "vicinal", "info", "nowhere.vicinal"]
    printed = subprocess.run(command, capture_output=True, text=True)
    assert printed.returncode == 2
    assert "the model 'nowhere.vicinal' does not exist" in printed.stderr


def test_without_its_extra_the_command_prints_what_to_install():
    code = (
        "import sys, importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'typer' else find(name, *a)\n"
        "from vicinal.cli import main; main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.strip().endswith("pip install 'vicinal[cli]'")


def test_the_table_of_serve_may_have_any_delimiter(model, table, tmp_path, monkeypatch):
    served = pytest.importorskip("vicinal.serve")
    pytest.importorskip("pandas")
    given = []
    monkeypatch.setattr(served, "serve", lambda model, table, **_: given.append(table))
    path = tmp_path / "people.txt"
    table.write_csv(path, separator="~")
    try:
        assert run(["serve", str(model), "--table", str(path), "--delimiter", "~"]) == 0
    finally:
        gc.enable()
    assert list(given[0].columns) == ["age", "city"]
