"""`vicinal explore`: a page that computes in the browser."""

import numpy as np
import pytest

pl = pytest.importorskip("polars")
run = pytest.importorskip("vicinal.cli._app").run


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.RandomState(0)
    age = rng.randint(18, 80, 80)
    city = rng.choice(["Rome", "Oslo"], 80)
    sure = np.where(age + 20 * (city == "Rome") > 55, "yes", "no")
    path = tmp_path_factory.mktemp("explore") / "people.csv"
    pl.DataFrame({"age": age, "city": city, "sure": sure}).write_csv(path)
    return path


def fit(table, model):
    path = table.with_name(f"{model}.vicinal".replace(" ", "-"))
    assert run(["fit", str(table), "-t", "sure", "--model", model, "--out", str(path)]) == 0
    return path


def test_a_page_is_written(table, tmp_path, capsys):
    model = fit(table, "logistic regression")
    page = tmp_path / "page.html"
    assert run(["explore", str(model), str(table), "--out", str(page)]) == 0
    assert f"explorer: {page}" in capsys.readouterr().err
    assert '"reach": 0.' in page.read_text()


def test_a_threshold_by_cost_decides(table, tmp_path, capsys):
    model, page = tmp_path / "costly.vicinal", tmp_path / "page.html"
    options = ["-m", "logistic regression", "--positive", "yes", "--cost", "20", "-o", str(model)]
    assert run(["fit", str(table), "-t", "sure", *options]) == 0
    assert run(["explore", str(model), str(table), "--out", str(page)]) == 0
    assert "the prediction is 'yes' from probability 0." in capsys.readouterr().err
    assert '"threshold": {"code": 1, "value": 0.' in page.read_text()


def test_rows_without_a_target_are_left_out(table, tmp_path):
    model, page = fit(table, "logistic regression"), tmp_path / "page.html"
    holes, frame = tmp_path / "holes.csv", pl.read_csv(table)
    frame.with_columns(pl.when(pl.int_range(80) > 5).then("sure")).write_csv(holes)
    assert run(["explore", str(model), str(holes), "--out", str(page)]) == 0


def test_other_models_are_copied(table, tmp_path, monkeypatch):
    from vicinal.report import explorer

    for name, value in {"_COPIED_ROWS": 200, "_CHECKED_ROWS": 50, "_N_TREES": 60}.items():
        monkeypatch.setattr(explorer, name, value)
    model, page = fit(table, "random forest"), tmp_path / "page.html"
    assert run(["explore", str(model), str(table), "--out", str(page)]) == 0
    assert "RandomForestClassifier. Change the columns" in page.read_text()
    assert "This page computes a copy of the model" in page.read_text()
