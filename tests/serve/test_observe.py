"""What operators see: access log, metrics, OpenAPI, readiness, worker processes."""

import json
import logging
import os
import re
import signal
import threading

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

pytest.importorskip("starlette")
from starlette.testclient import TestClient

from vicinal.serve import _served_model, _server, create_app, serve
from vicinal.serve._observe import ACCESS, COUNTER_BYTES, Metrics
from vicinal.serve._requests import Limits
from vicinal.serve._served_model import ServedModel
from vicinal.table import TableEncoder

ROWS = {"rows": [[5.1, 3.5, 1.4, 0.2], [6.0, 3.0, 5.0, 1.8]]}


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return LogisticRegression(max_iter=500).fit(X, y), X


@pytest.fixture(scope="module")
def people():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(
        {
            "age": np.arange(20, 60),
            "height": np.linspace(1.5, 2.0, 40),
            "city": ["Rome", "Oslo"] * 20,
            "member": [True, False, False, True] * 10,
        }
    )
    y = np.where(table["age"] > 40, "old", "young")
    return make_pipeline(TableEncoder(), LogisticRegression()).fit(table, y), table


def samples(text):
    """Return the values of a text in Prometheus' format; every other line is a comment."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("# "):
            name, value = re.fullmatch(r"(\w+(?:\{[^}]*\})?) (\S+)", line).groups()
            found[name] = float(value)
    return found


def test_metrics_count_requests_rows_and_rejections(iris):
    client = TestClient(create_app(iris[0], max_rows=2))
    for rows in (ROWS, {"rows": ROWS["rows"] * 2}, {}):
        client.post("/predict", json=rows)
    client.get("/no/such/path")
    reply = client.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = samples(reply.text)
    for status in (200, 413, 400):
        assert found[f'vicinal_requests_total{{path="/predict",status="{status}"}}'] == 1
    assert found['vicinal_requests_total{path="other",status="404"}'] == 1
    assert found["vicinal_rows_total"] == 2
    assert found["vicinal_rejected_total"] == 1
    assert found["vicinal_in_flight"] == 1  # the request for the metrics
    assert found["vicinal_resident_memory_bytes"] > 2**20 or not os.path.isdir("/proc")
    counts = [n for key, n in found.items() if '_bucket{path="/predict"' in key]
    assert counts == sorted(counts)
    assert counts[-1] == found['vicinal_request_duration_seconds_count{path="/predict"}'] == 3


def test_processes_share_their_counters():
    memory = bytearray(2 * COUNTER_BYTES)
    first, second = (Metrics(["/predict"], memory, worker) for worker in (0, 1))
    for metrics in (first, second, second):
        metrics.own["in_flight"] += 1
        metrics.count("/predict", 200, 0.01, 3)
    assert first.text() == second.text()
    assert samples(first.text())['vicinal_requests_total{path="/predict",status="200"}'] == 3
    assert samples(first.text())["vicinal_rows_total"] == 9


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
        for path in ("/readyz", "/v2/health/ready", "/v2/models/model/ready"):
            assert client.get(path).status_code == 503
        assert client.get("/v2/health/live").status_code == 200
        go.set()
        while client.get("/readyz").status_code != 200:
            pass


# --- OpenAPI ---


def references(value):
    if isinstance(value, dict):
        yield from ([value["$ref"]] if "$ref" in value else [])
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from references(part)


def matches(value, schema, schemas):
    """Whether a value is valid for the keywords that the document uses."""
    if "$ref" in schema:
        return matches(value, schemas[schema["$ref"].rsplit("/", 1)[1]], schemas)
    if "anyOf" in schema:
        return any(matches(value, part, schemas) for part in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    kinds = {
        "object": dict, "array": list, "string": str, "number": (int, float), "integer": int,
        "boolean": bool, "null": type(None),
    }  # fmt: skip
    wanted = np.atleast_1d(schema.get("type", [])).tolist()
    if wanted and not any(isinstance(value, kinds[kind]) for kind in wanted):
        return False
    if isinstance(value, list):
        return all(matches(part, schema.get("items", {}), schemas) for part in value)
    if isinstance(value, dict):
        return set(schema.get("required", [])) <= value.keys() and all(
            matches(value[name], part, schemas)
            for name, part in schema.get("properties", {}).items()
            if name in value
        )
    return True


def test_the_document_describes_every_route_and_its_bodies(people):
    model, table = people
    app = create_app(model, name="people", table=table)
    client = TestClient(app)
    found = client.get("/openapi.json").json()
    assert found["openapi"].startswith("3.1")
    assert {route.path for route in app.routes} == found["paths"].keys()
    schemas = found["components"]["schemas"]
    assert {ref.rsplit("/", 1)[1] for ref in references(found)} <= schemas.keys()
    operations = [part for path in found["paths"].values() for part in path.values()]
    assert len({part["operationId"] for part in operations}) == len(operations)
    row = schemas["Row"]["anyOf"][0]["properties"]
    assert {name: cell["type"][0] for name, cell in row.items()} == {
        "age": "number", "height": "number", "city": "string", "member": "boolean",
    }  # fmt: skip
    assert schemas["Prediction"]["properties"]["predictions"]["items"]["enum"] == ["old", "young"]
    for path in ("/predict", "/explain", "/neighbors"):
        operation = found["paths"][path]["post"]
        content = operation["requestBody"]["content"]["application/json"]
        assert matches(content["example"], content["schema"], schemas)
        assert not matches({"rows": [{"age": "x"}]}, content["schema"], schemas)
        reply = client.post(path, json=content["example"])
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        assert matches(reply.json(), schema, schemas)
    wrong = client.post("/predict", json={})
    error = found["paths"]["/predict"]["post"]["responses"]["default"]
    assert error["content"]["application/json"]["schema"]["$ref"].endswith("/Error")
    assert matches(wrong.json(), schemas["Error"], schemas)


def test_tokens_are_part_of_the_document(iris):
    client = TestClient(create_app(iris[0], token="s3cret"))
    assert client.get("/docs").status_code == 401
    found = client.get("/openapi.json", auth=("", "s3cret")).json()
    assert found["security"] == [{"token": []}]
    assert found["paths"]["/healthz"]["get"]["security"] == []


def test_the_page_of_the_routes_loads_nothing(people):
    client = TestClient(create_app(people[0], table=people[1]))
    reply = client.get("/docs")
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    for reference in ("http:", "https:", " src=", "@import", "url("):
        assert reference not in reply.text
    assert "<code>/v2/models/model/infer</code>" in reply.text


def test_types_of_the_inference_protocol(people, iris):
    found = TestClient(create_app(people[0], table=people[1])).get("/v2/models/model").json()
    assert {entry["name"]: entry["datatype"] for entry in found["inputs"]} == {
        "age": "INT64", "height": "FP64", "city": "BYTES", "member": "BOOL",
    }  # fmt: skip
    without_table = TestClient(create_app(people[0])).get("/v2/models/model").json()
    assert [entry["datatype"] for entry in without_table["inputs"][:3]] == ["FP64", "FP64", "BYTES"]
    arrays = TestClient(create_app(iris[0])).get("/v2/models/model").json()
    assert {entry["datatype"] for entry in arrays["inputs"]} == {"FP64"}


# --- several processes ---


class Process:
    """A worker process of a test, which ends when the test says so."""

    def __init__(self, pid):
        self.pid, (self.sentinel, self._end) = pid, os.pipe()
        self.alive, self.n_terminated = True, 0

    def is_alive(self):
        """Return the state; a process that was told to end does so right after it was asked."""
        was_alive = self.alive
        if was_alive and self.n_terminated:
            self.end()
        return was_alive

    def end(self):
        self.alive = False
        os.close(self._end)

    def terminate(self):
        self.n_terminated += 1


@pytest.mark.parametrize("has_started", [True, False])
def test_workers_that_end_are_replaced_unless_they_never_started(monkeypatch, has_started):
    memory, started = bytearray(2 * COUNTER_BYTES), []
    handlers = {}
    monkeypatch.setattr(_server.signal, "signal", handlers.__setitem__)

    def start(worker):
        process = Process(100 + len(started))
        started.append(process)
        if has_started or len(started) < 3:
            Metrics([], memory, worker).own["pid"] = process.pid
        if len(started) == 2 or (len(started) == 3 and not has_started):
            process.end()
        elif len(started) == 3:
            handlers[signal.SIGTERM](signal.SIGTERM, None)
        return process

    if has_started:
        _server._supervise(start, memory, 2)
    else:
        with pytest.raises(RuntimeError, match="ended before it could serve"):
            _server._supervise(start, memory, 2)
    assert len(started) == 3
    assert started[0].n_terminated == 1
    assert not any(process.is_alive() for process in started)
