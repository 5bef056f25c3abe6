"""Python, the terminal, the page and HTTP report the same contributions."""

import json
import re

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

pytest.importorskip("polars")
pytest.importorskip("starlette")
pytest.importorskip("typer")
import polars as pl
from starlette.testclient import TestClient

from vicinal.auto import AutoClassifier
from vicinal.cli._app import run
from vicinal.inspection import explain
from vicinal.io import load, save
from vicinal.serve import create_app


def test_contributions_agree_everywhere(tmp_path, capsys):
    rng = np.random.RandomState(0)
    age, city = rng.randint(18, 80, 90), rng.choice(["Rome", "Oslo"], 90)
    table = pl.DataFrame({"age": age, "city": city, "fee": rng.rand(90)})
    y = np.where(age + 20 * (city == "Rome") > 55, "yes", "no")
    path, rows, page = (tmp_path / name for name in ("m.vicinal", "rows.csv", "why.html"))
    fitted = AutoClassifier(["linear"], random_state=0).fit(table, y)
    save(fitted, path, metadata={"target": "paid"})
    table.write_csv(rows)
    model = load(path)
    found = explain(model, table[3], background=model.background(table[3]), target_name="paid")
    wanted = {name: part for name, _, part in found["columns"].rows}
    assert sum(map(abs, wanted.values())) > 0.1

    command = ["explain", str(path), str(rows), "--row", "3", "--json", "--out", str(page)]
    assert run(command) == 0
    shell = json.loads(capsys.readouterr().out)
    client = TestClient(create_app(model, target="paid"))
    http = client.post("/explain", json={"rows": table[3].to_dicts()}).json()
    assert shell["target"] == http["target"] == "paid"
    for reply in (shell, http):
        section = reply["sections"]["columns"]
        parts = {row["column"]: row["contribution"] for row in section["table"]}
        assert parts == pytest.approx(wanted, abs=1e-9)
        for key, section in reply["sections"].items():
            assert section["summary"] == found[key].summary
    for html in (page.read_text(), http["html"]):
        steps = re.findall(r'<td class="name">(\w+) = .*?data-value="([^"]+)"', html)
        assert {name: float(part) for name, part in steps} == pytest.approx(wanted, abs=1e-9)


def test_options_of_counterfactuals_are_those_of_explain():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 3))
    classes = LogisticRegression().fit(X, X[:, 0] + X[:, 1] > 0)
    client = TestClient(create_app(classes, table=X))

    def ask(**options):
        reply = client.post("/explain", json={"rows": X[:1].tolist(), "counterfactual": options})
        return reply.status_code, reply.json()

    options = {
        "fixed": ["x0"],
        "n_counterfactuals": 2,
        "ranges": {"x1": [-3, None]},
        "costs": {"x1": 9},
    }
    found = explain(classes, X[:1], background=X, **options)["counterfactual"].values
    status, reply = ask(**options)
    assert status == 200
    assert reply["sections"]["counterfactual"]["values"]["counterfactual"] == pytest.approx(
        found["counterfactual"]
    )
    for wrong, message in [
        ({"fixed": "x0"}, "'fixed' of 'counterfactual' must be a list"),
        ({"fixed": ["age"]}, "fixed names ['age']"),
        ({"steps": 3}, "must be an object with"),
        ({"n_counterfactuals": 11}, "at most 10"),
        ({"target": 7}, "must be one of the classes"),
    ]:
        status, reply = ask(**wrong)
        assert 400 <= status < 500
        assert message in reply["error"]
    numbers = LinearRegression().fit(X, 100 * X[:, 0])
    client = TestClient(create_app(numbers, table=X))
    status, reply = ask(target=[None, -80])
    values = reply["sections"]["counterfactual"]["values"]
    assert values["label"] <= -80
