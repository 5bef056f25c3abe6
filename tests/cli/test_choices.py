"""Options of predictions: positive class, costs of errors, intervals, typicality, ONNX graph."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("polars")

import polars as pl

from vicinal.cli._app import run
from vicinal.cli._stored_model import known_target
from vicinal.cli._threshold import Threshold
from vicinal.io import load


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Claims, a fifth of them fraud, with numbers, missing values, strings, dates and a price."""
    rng = np.random.RandomState(0)
    n = 240
    amount = rng.lognormal(5, 1, n)
    fraud = rng.rand(n) < 1 / (1 + np.exp(5.5 - 0.02 * amount))
    table = pl.DataFrame(
        {
            "amount": [f"${value:,.2f}" for value in amount],
            "age": [None if k % 11 == 0 else int(k) for k in rng.randint(18, 80, n)],
            "town": [None if k % 13 == 0 else ["Bern", "Oslo", "Rome"][k % 3] for k in range(n)],
            "day": pl.date_range(pl.date(2023, 12, 1), pl.date(2024, 7, 27), eager=True),
            "fraud": np.where(fraud, "yes", "no"),
            "paid": amount * (1 + 0.1 * rng.rand(n)),
        }
    )
    folder = tmp_path_factory.mktemp("claims")
    table.write_csv(folder / "claims.csv")
    return folder


# The same base models however busy the machine is.
LOCAL = ["--set", "families=['constant', 'local', 'linear']", "--budget", "24h"]


def fit(folder, name, *arguments):
    model = folder / f"{name}.vicinal"
    assert run(["fit", str(folder / "claims.csv"), "-o", str(model), *arguments]) == 0
    return model


@pytest.fixture(scope="module")
def costly(folder):
    return fit(
        folder, "costly", "-t", "fraud", "--drop", "paid", "-m", "logistic", "--cost", "10",
        "--positive", "yes",
    )  # fmt: skip


# --- a class and what mistakes cost -------------------------------------------------------------


def price(t, shares, truth, cost, weights):
    shown = shares >= t
    return np.sum(weights * (shown & ~truth)) + cost * np.sum(weights * (~shown & truth))


@pytest.mark.parametrize("cost", [0.2, 1.0, 7.0])
@pytest.mark.parametrize("power", [1, 2])
def test_threshold_follows_the_cost_of_an_error(cost, power):
    rng = np.random.RandomState(0)
    shares = rng.rand(20_000)
    truth = rng.rand(20_000) < shares**power
    found = Threshold.choose(shares, truth, "yes", cost, None).value
    assert found == pytest.approx((1 / (1 + cost)) ** (1 / power), abs=0.05)


def test_small_tables_do_not_choose_by_luck():
    ours, least = [], []
    wide = np.linspace(0.0005, 0.9995, 1000)
    for seed in range(40):
        rng = np.random.RandomState(seed)
        shares = rng.rand(200)
        truth = rng.rand(200) < shares
        cuts = np.append(shares, 1.1)
        cheap = cuts[np.argmin([price(t, shares, truth, 8.0, 1.0) for t in cuts])]
        # What the prediction costs on average, as the shares are true.
        for found, t in (
            (ours, Threshold.choose(shares, truth, "yes", 8.0, None).value),
            (least, cheap),
        ):
            found.append(np.mean(np.where(wide >= t, 1 - wide, 8.0 * wide)))
    best = np.mean(np.minimum(1 - wide, 8.0 * wide))
    assert np.mean(ours) - best < 0.75 * (np.mean(least) - best)


def test_threshold_of_least_cost_is_taken_where_it_saves_for_sure():
    rng = np.random.RandomState(0)
    # Of three values the chances are in no order: no sigmoid has their shape.
    shares = rng.choice([0.1, 0.5, 0.9], 3000)
    chance = np.select([shares == 0.1, shares == 0.5], [0.4, 0.05], 0.6)
    truth = rng.rand(3000) < chance
    found = Threshold.choose(shares, truth, "yes", 1.0, None).value
    assert price(found, shares, truth, 1.0, 1.0) == min(
        price(t, shares, truth, 1.0, 1.0) for t in (0.0, 0.3, 0.7, 1.1)
    )


def test_threshold_of_a_row_of_weight_two_is_that_of_two_rows():
    rng = np.random.RandomState(0)
    shares = rng.rand(60).round(1)  # with ties
    truth = rng.rand(60) < shares**2
    weights = 1 + rng.randint(3, size=60)
    for cost in (0.2, 1.0, 7.0):
        counted = Threshold.choose(shares, truth, "yes", cost, weights)
        rows = np.repeat(np.arange(60), weights)
        repeated = Threshold.choose(shares[rows], truth[rows], "yes", cost, None)
        assert counted.value == pytest.approx(repeated.value, rel=1e-6)


def test_threshold_of_uninformative_shares():
    apart = Threshold.choose(np.array([0.1, 0.9]), np.array([False, True]), "a", 1.0, None)
    assert apart.value == pytest.approx(0.5)
    # Nothing is known of the class, and it does not justify an alarm: never, not only from 0.55 on.
    assert Threshold.choose(np.full(9, 0.1), np.arange(9) < 1, "a", 4.0, None).value == 0.2


def test_cost_moves_the_threshold_and_the_model_keeps_it(costly, folder, tmp_path, capsys):
    from vicinal.io import load

    capsys.readouterr()
    table = pl.read_csv(folder / "claims.csv")
    assert run(["info", str(costly)]) == 0
    shown = capsys.readouterr().out
    assert "threshold 'yes' from probability 0." in shown
    assert "a false negative costs 10 false positives" in shown
    out = tmp_path / "predictions.csv"
    assert run(["predict", str(costly), str(folder / "claims.csv"), "--proba", "-o", str(out)]) == 0
    assert "the prediction is 'yes' from probability" in capsys.readouterr().err
    predictions = pl.read_csv(out)
    plain = load(costly).predict(table)
    overlooked = (table["fraud"] == "yes") & (predictions["prediction"] == "no")
    assert overlooked.sum() < np.sum((table["fraud"].to_numpy() == "yes") & (plain == "no"))
    least = predictions.filter(pl.col("prediction") == "yes")["P(yes)"].min()
    most = predictions.filter(pl.col("prediction") == "no")["P(yes)"].max()
    assert most < least < 0.5
    assert run(["explain", str(costly), str(folder / "claims.csv"), "--row", "3", "--quick"]) == 0
    shown = capsys.readouterr()
    assert "the prediction is 'yes' from probability" in shown.err
    assert f"predicts fraud = {predictions['prediction'][3]} " in shown.out
    page = tmp_path / "page.html"
    table = str(folder / "claims.csv")
    assert run(["report", str(costly), table, "--rows", "1", "--out", str(page)]) == 0
    assert "The model predicts <b>yes</b> from probability 0." in page.read_text()


def test_threshold_of_an_ensemble_is_chosen_on_its_held_out_predictions(folder, capsys):
    model = fit(folder, "auto", "-t", "fraud", "--drop", "paid,day", "--cost", "5", *LOCAL)
    shown = capsys.readouterr().err
    assert "'yes' from probability" in shown  # the rarer class
    assert "per held-out row" in shown
    assert "on held-out rows: accuracy" in shown
    assert run(["explain", str(model), str(folder / "claims.csv"), "--row", "3"]) == 0
    shown = capsys.readouterr().out
    best = re.search(r"column +value +contribution\n +(\S+) ", shown).group(1)
    assert shown.count("Neighbours") == 1
    assert re.search(rf"training row +target +{best}\b.* weight", shown)


def test_a_time_column_and_a_metric_reach_the_ensemble(folder, capsys):
    options = ["-t", "fraud", "--drop", "paid", "--metric", "auc", "--time-column", "day"]
    families = ["--set", "families=['constant', 'linear']", "--budget", "24h"]
    model = load(fit(folder, "ordered", *options, *families))
    assert "on held-out rows: roc auc 0." in capsys.readouterr().err
    assert (model.cv, model.time_column, model.scoring) == ("time", "day", "roc_auc")
    assert np.isnan(model.held_out_[:, 0]).sum() == 80  # two blocks of six


def test_a_preset_reaches_the_ensemble(folder):
    model = load(fit(folder, "preset", "-t", "fraud", "--drop", "paid", "--preset", "fast"))
    assert model.preset == "fast"


def test_a_model_that_predicts_a_constant_is_named(tmp_path, capsys):
    rng = np.random.RandomState(0)
    labels = rng.permutation(["no"] * 150 + ["yes"] * 50)
    pl.DataFrame({"x": rng.normal(size=200), "y": labels}).write_csv(tmp_path / "noise.csv")
    options = ["-t", "y", "--preset", "fast", "-o", str(tmp_path / "m.vicinal")]
    assert run(["fit", str(tmp_path / "noise.csv"), *options]) == 0
    assert "; no model is better than a constant, so all predict" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--preset", "fast", "-m", "local"], "no parameter 'preset'"),
        (["--cv", "3", "--time-column", "day"], "leave out --cv"),
        (["--cv", "never"], "or time"),
        (["--metric", "auc", "--positive", "no"], "is about yes, not no"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(options, message, folder, capsys):
    arguments = ["fit", str(folder / "claims.csv"), "-t", "fraud", "-o", str(folder / "no.vicinal")]
    assert run([*arguments, *options]) == 2
    assert message in capsys.readouterr().err


def test_scores_are_about_the_class_that_is_named(folder, tmp_path, capsys):
    from vicinal.inspection import compare

    arguments = ["compare", str(folder / "claims.csv"), "-t", "fraud", "--models", "logistic,mean"]
    arguments = [*arguments[:-1], "logistic,frequent", "--drop", "paid", "--metric", "recall"]
    arguments += ["--cv", "2", "--json", "--out", str(tmp_path / "page.html"), "--budget", "24h"]
    best = tmp_path / "best.vicinal"
    assert run([*arguments, "--positive", "yes", "--cost", "10", "--save", str(best)]) == 0
    stdout, stderr = capsys.readouterr()
    scores = {model["name"]: model["score"] for model in json.loads(stdout)["models"]}
    assert scores["most frequent class"] == 0.0
    assert 0.0 < scores["logistic regression"] < 1.0
    assert "'yes' from probability" in stderr
    assert run(["predict", str(best), str(folder / "claims.csv")]) == 0
    assert "the prediction is 'yes'" in capsys.readouterr().err
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import average_precision_score, make_scorer
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    rng = np.random.RandomState(0)
    X = rng.randn(80, 2)
    y = np.where(X[:, 0] + rng.randn(80) > 1, "a", "b")
    for positive in "ab":
        folds = StratifiedKFold(3)
        board = compare(
            {"m": LogisticRegression()}, X, y, cv=folds, metric="average_precision",
            positive=positive,
        )  # fmt: skip
        scorer = make_scorer(
            average_precision_score, response_method="predict_proba", pos_label=positive
        )
        expected = cross_val_score(LogisticRegression(), X, y, cv=folds, scoring=scorer)
        np.testing.assert_allclose(board.entries[0].scores, expected)
    with pytest.raises(ValueError, match="positive='c' must be one of two classes"):
        compare({"m": LogisticRegression()}, X, y, positive="c")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-t", "fraud", "--positive", "maybe"], "--positive 'maybe': the target has 'no', 'yes'"),
        (["-t", "paid", "--cost", "3"], "--cost: the target 'paid' is a number"),
        (["-t", "town", "--cost", "3"], "--cost is for two classes; the target 'town' has 3"),
        (["-t", "fraud", "--cost", "-1"], "--cost -1 must be above 0"),
        (["-t", "fraud", "--preset", "quick"], "'--preset': 'quick' is not one of 'fast', "),
    ],
)
def test_bad_choices_are_one_line(arguments, expected, folder, tmp_path, capsys):
    out = str(tmp_path / "m.vicinal")
    assert run(["fit", str(folder / "claims.csv"), "-o", out, *arguments]) == 2
    assert expected in capsys.readouterr().err


# --- limits and typicality ----------------------------------------------------------------------


def test_limits_and_typicality_are_columns_of_the_output(folder, tmp_path, capsys):
    model = fit(folder, "paid", "-t", "paid", "--drop", "day,fraud", *LOCAL)
    out = tmp_path / "predictions.csv"
    arguments = ["predict", str(model), str(folder / "claims.csv"), "-o", str(out)]
    assert run([*arguments, "--interval", "0.8", "--typicality"]) == 0
    predictions = pl.read_csv(out)
    assert predictions.columns == ["prediction", "lower", "upper", "typicality"]
    truth = pl.read_csv(folder / "claims.csv")["paid"]
    assert ((predictions["lower"] <= truth) & (truth <= predictions["upper"])).mean() > 0.6
    assert predictions["typicality"].is_between(0, 1).all()
    assert run([*arguments, "--interval", "90"]) == 2
    assert "--interval 90 must be a probability between 0 and 1" in capsys.readouterr().err


def test_prediction_sets(folder, costly, capsys):
    model = fit(folder, "sets", "-t", "town", "--drop", "day,paid", *LOCAL)
    capsys.readouterr()
    assert run(["predict", str(model), str(folder / "claims.csv"), "--interval", "0.9"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "prediction,prediction_set"
    # No column distinguishes the towns, so nearly every set has nearly all of them.
    assert np.mean([line.count("|") == 2 for line in lines[1:]]) > 0.5
    assert run(["predict", str(costly), str(folder / "claims.csv"), "--interval", "0.9"]) == 2
    assert "LogisticRegression has no predict_set; a model of `vicinal fit" in (
        capsys.readouterr().err
    )


def test_unseen_values_are_noted_or_refused(costly, folder, tmp_path, capsys):
    table = pl.read_csv(folder / "claims.csv").head(3)
    table.with_columns(town=pl.lit("Qo'noS")).write_csv(tmp_path / "new.csv")
    arguments = ["predict", str(costly), str(tmp_path / "new.csv")]
    line = "'town': 3 unseen categories such as"
    assert run([*arguments, "--proba"]) == 0
    assert capsys.readouterr().err.count(line) == 1
    assert run([*arguments, "--strict"]) == 2
    assert line in capsys.readouterr().err
    assert run(["predict", str(costly), str(folder / "claims.csv"), "--strict"]) == 0


# --- a graph ------------------------------------------------------------------------------------


def test_exported_graph_takes_the_columns_and_agrees(costly, folder, tmp_path, capsys):
    runtime = pytest.importorskip("onnxruntime")
    from vicinal.io import load

    capsys.readouterr()
    graph, table = tmp_path / "m.onnx", folder / "claims.csv"
    assert run(["export", str(costly), str(graph), "--table", str(table)]) == 0
    shown = capsys.readouterr().err
    assert "graph with the inputs 'amount', 'age', 'town', 'day'" in shown
    assert "it agrees with the model on 240 rows" in shown
    assert "the graph gives probabilities; 'yes' from" in shown
    fitted, rows = load(costly), pl.read_csv(table, try_parse_dates=True)
    strange = rows[:4].with_columns(town=pl.Series(["Paris", None, "Oslo", "Rome"]))
    feeds = {name: values[:, None] for name, values in fitted[0].plain_columns(strange).items()}
    session = runtime.InferenceSession(str(graph), providers=["CPUExecutionProvider"])
    _, proba = session.run(None, feeds)
    fitted[0].set_params(unseen="ignore")
    np.testing.assert_allclose(proba, fitted.predict_proba(strange), atol=1e-6)


def test_a_part_without_a_graph_is_named(folder, tmp_path, capsys):
    model = ["--model", "local", "--set", "metric=manhattan", "--budget", "24h"]
    auto = fit(folder, "auto2", "-t", "fraud", "--drop", "day,paid", *model)
    assert run(["export", str(auto), str(tmp_path / "m.onnx")]) == 2
    assert "with metric='manhattan' cannot be exported" in capsys.readouterr().err
    assert run(["export", str(auto), str(tmp_path / "m.txt")]) == 2
    assert "must end in .onnx" in capsys.readouterr().err
    assert not (tmp_path / "m.onnx").exists()


# --- files through the command as it is installed -----------------------------------------------


def test_the_installed_command_reads_files_of_every_kind(folder, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    table = pl.read_csv(folder / "claims.csv", try_parse_dates=True).drop("paid")
    table = table.with_columns(town=pl.col("town").str.replace("Bern", "Zürich"))
    latin, sheet = tmp_path / "latin.csv", tmp_path / "sheet.xlsx"
    latin.write_bytes(table[:120].write_csv(separator=";").encode("cp1252"))
    book = openpyxl.Workbook()
    book.active.append(table.columns)
    for row in table[120:].iter_rows():
        book.active.append(row)
    book.save(sheet)

    def vicinal(*arguments, data=None):
        code = "from vicinal.cli import main; main()"
        return subprocess.run(
            [sys.executable, "-c", code, *arguments], input=data, capture_output=True, check=False
        )

    model = str(tmp_path / "m.vicinal")
    made = vicinal("fit", str(latin), str(sheet), "-t", "fraud", "-m", "tree", "-o", model)
    assert made.returncode == 0, made.stderr.decode()
    assert b"latin.csv and 1 more: 240 rows" in made.stderr
    packed = table.write_csv().encode("utf-16")
    result = vicinal("predict", model, "-", "--keep", "town", data=packed)
    assert result.returncode == 0, result.stderr.decode()
    lines = result.stdout.decode().splitlines()
    assert lines[0] == "town,prediction"
    assert len(lines) == 241
    assert any(line.startswith("Zürich,") for line in lines)
    broken = tmp_path / "broken.xlsx"
    broken.write_bytes(b"PK no book")
    refused = vicinal("predict", model, str(broken))
    assert refused.returncode == 2
    assert b"is no Excel file" in refused.stderr


def test_the_mean_cost_counts_weights():
    """It is what the threshold was chosen by."""
    shares = np.array([[0.9, 0.1], [0.2, 0.8]])
    y, classes = np.array(["yes", "yes"]), np.array(["no", "yes"])
    cost = Threshold("yes", 0.5, 4.0).mean_cost(shares, y, classes, np.array([1.0, 3.0]))
    assert cost == 1.0


def test_classes_read_from_strings_are_read_again():
    """Ratings such as '3 stars' are numbers to the model, and to what follows."""
    column = pl.Series("rating", [f"{k} stars" for k in (1, 2, 3)])
    assert known_target(column, np.array([1.0, 2.0, 3.0])).tolist() == [1.0, 2.0, 3.0]
