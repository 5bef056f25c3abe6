"""What operators see: access log, readiness, first requests."""

import json
import logging
import threading

import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

pytest.importorskip("starlette")
from starlette.testclient import TestClient

from vicinal.serve import _served_model, create_app, serve
from vicinal.serve._access_log import ACCESS
from vicinal.serve._requests import Limits
from vicinal.serve._served_model import ServedModel

ROWS = {"rows": [[5.1, 3.5, 1.4, 0.2], [6.0, 3.0, 5.0, 1.8]]}


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return LogisticRegression(max_iter=500).fit(X, y), X


def test_every_request_is_one_line_of_json(iris, caplog):
    caplog.set_level(logging.INFO, ACCESS.name)
    client = TestClient(create_app(iris[0]))
    client.post("/predict?coverage=2", json=ROWS)
    client.post("/predict", json=ROWS)
    client.get("/a%0Ab")
    lines = [json.loads(message) for message in caplog.messages]
    assert [(line["path"], line["status"], line["rows"]) for line in lines] == [
        ("/predict", 400, 0),
        ("/predict", 200, 2),
        ("/a\nb", 404, 0),
    ]
    assert all(line["ms"] >= 0 and line["method"] in ("GET", "POST") for line in lines)
    assert not any("\n" in message for message in caplog.messages)


@pytest.mark.parametrize("access_log", [True, False])
def test_a_flag_turns_the_log_off(iris, monkeypatch, capsys, access_log):
    uvicorn = pytest.importorskip("uvicorn")
    monkeypatch.setattr(ACCESS, "handlers", [])
    apps = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda server: apps.append(server.config.app))
    serve(iris[0], access_log=access_log)
    try:
        TestClient(apps[0], base_url="http://localhost").post("/predict", json=ROWS)
    finally:
        ACCESS.setLevel(logging.NOTSET)
        ACCESS.propagate = True
    error = capsys.readouterr().err
    assert bool(error) == access_log
    assert not access_log or json.loads(error)["rows"] == 2


def test_a_block_and_an_explanation_come_before_the_first_request(iris, monkeypatch):
    """They import modules and load compiled functions, for which requests once waited 0.3 s."""
    done = []
    for name in ("predictions", "neighbors"):
        monkeypatch.setattr(ServedModel, name, lambda served, rows: done.append(len(rows)))
    explain = _served_model.explain
    monkeypatch.setattr(_served_model, "explain", lambda *a, **k: done.append("explained"))
    ServedModel(iris[0], "model", iris[1][:7]).warm_up()
    assert done == [100, 1, 1, "explained"]
    monkeypatch.setattr(_served_model, "explain", lambda *a, **k: done.append(explain(*a, **k)))
    ServedModel(iris[0], "model", limits=Limits(max_rows=1)).warm_up()
    assert done[-1].prediction in iris[0].classes_


def test_the_server_is_ready_after_a_first_prediction(iris):
    """Before it, only liveness is reported; waits for events, not for the clock."""
    go, model, X = threading.Event(), *iris

    class Slow(LogisticRegression):
        def predict_proba(self, X):
            assert go.wait(60)
            return super().predict_proba(X)

    slow = Slow(max_iter=500).fit(X, model.predict(X))
    with TestClient(create_app(slow, table=X)) as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503
        go.set()
        while client.get("/readyz").status_code != 200:
            pass
