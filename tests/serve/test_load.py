"""A server under load: what is too much is refused at once, and abandoned work stops.

Nothing here depends on the clock: work is held by events until the test lets it go.
"""

import asyncio
import http.client
import json
import signal
import socket
import threading
from contextlib import closing

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

pytest.importorskip("starlette")
from vicinal._base._parallel import WorkStoppedError
from vicinal.serve import _app, _server, create_app, serve
from vicinal.serve._requests import Workers
from vicinal.serve._served_model import ServedModel

WAIT = 300.0  # seconds after which an event that never comes fails the test
ROWS = json.dumps({"rows": [[5.1, 3.5, 1.4, 0.2]]}).encode()
HEADER = b"x0,x1,x2,x3\n"


class Held(LogisticRegression):
    """Predictions that wait until they are let go."""

    def hold(self):
        self.started_, self.go_ = threading.Event(), threading.Event()
        self.n_calls_ = 0
        return self

    def predict_proba(self, X):
        self.n_calls_ += 1
        self.started_.set()
        assert self.go_.wait(WAIT)
        return super().predict_proba(X)


@pytest.fixture
def held():
    X, y = load_iris(return_X_y=True)
    model = Held(max_iter=500).fit(X, y).hold()
    yield model
    model.go_.set()


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return LogisticRegression(max_iter=500).fit(X, y), X


async def call(app, method, path, parts=(ROWS,), kind="application/json", gone=None):
    """Return status, headers and content of a request in this event loop.

    An event among the parts of the body is waited for. The client goes away when ``gone`` is set.
    """
    headers = [(b"host", b"localhost"), (b"content-type", kind.encode())]
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(),
        "query_string": b"", "headers": headers, "scheme": "http", "server": ("localhost", 80),
        "http_version": "1.1", "root_path": "",
    }  # fmt: skip
    parts = iter([*parts, b""] if isinstance(parts, tuple | list) else parts)
    sent = []

    async def receive():
        part = next(parts, None)
        if isinstance(part, asyncio.Event):
            await part.wait()
            part = next(parts)
        if part is None:
            await (gone or asyncio.Event()).wait()
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part, "more_body": part != b""}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    content = json.loads(b"".join(message.get("body", b"") for message in sent[1:]))
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, content


async def until(event):
    assert await asyncio.to_thread(event.wait, WAIT)


def test_a_body_that_is_too_large_is_refused_before_it_is_read(iris):
    app = create_app(iris[0], max_bytes=100)
    n_read = 0

    def parts():
        nonlocal n_read
        for _ in range(1000):
            n_read += 1
            yield b" " * 30

    status, _, content = asyncio.run(call(app, "POST", "/predict", parts()))
    assert status == 413
    assert "more than 100 bytes" in content["error"]
    assert n_read == 4


def test_bodies_of_all_requests_together_are_limited(iris, monkeypatch):
    monkeypatch.setattr(_app, "_MAX_BODIES", 2)
    app = create_app(iris[0], max_bytes=100)

    async def main():
        done = asyncio.Event()
        body = [b" " * 99, done]
        waiting = [asyncio.create_task(call(app, "POST", "/predict", body)) for _ in range(2)]
        while app.state.server._n_bytes < 198:
            await asyncio.sleep(0)
        refused = await call(app, "POST", "/predict", [b" " * 99])
        done.set()
        await asyncio.gather(*waiting)
        return refused, await call(app, "POST", "/predict")

    refused, accepted = asyncio.run(main())
    assert refused[0] == 503
    assert refused[1]["retry-after"] == "1"
    assert accepted[0] == 200
    assert app.state.server._n_bytes == 0


def test_health_does_not_wait_for_a_body_that_is_parsed(iris, monkeypatch):
    started, go = threading.Event(), threading.Event()
    read = ServedModel.request

    def held_table(self, *given):
        started.set()
        assert go.wait(WAIT)
        return read(self, *given)

    monkeypatch.setattr(ServedModel, "request", held_table)
    app = create_app(iris[0])

    async def main():
        body = [HEADER, b"5.1,3.5,1.4,0.2\n"]
        predicted = asyncio.create_task(call(app, "POST", "/predict", body, "text/csv"))
        await until(started)
        health = await call(app, "GET", "/healthz", ())
        is_early = not predicted.done()
        go.set()
        return is_early, health, await predicted

    is_early, health, predicted = asyncio.run(main())
    assert is_early
    assert health[0] == predicted[0] == 200


def test_explanations_beyond_the_queue_are_refused_and_predictions_go_on(iris, monkeypatch):
    go = threading.Event()
    explanation = ServedModel.explanation

    def held_explanation(self, *given):
        assert go.wait(WAIT)
        return explanation(self, *given)

    monkeypatch.setattr(ServedModel, "explanation", held_explanation)
    app = create_app(iris[0], table=iris[1])
    app.state.server.explanations = Workers(2, 3)

    async def main():
        tasks = [asyncio.create_task(call(app, "POST", "/explain")) for _ in range(50)]
        while sum(task.done() for task in tasks) < 45:
            await asyncio.sleep(0)
        refused = [task.result() for task in tasks if task.done()]
        predicted = await call(app, "POST", "/predict")
        go.set()
        return refused, predicted, await asyncio.gather(*tasks)

    refused, predicted, replies = asyncio.run(main())
    assert predicted[0] == 200
    assert {status for status, _, _ in refused} == {503}
    assert {headers["retry-after"] for _, headers, _ in refused} == {"1"}
    assert sorted(status for status, _, _ in replies) == [200] * 5 + [503] * 45


@pytest.fixture
def outcomes(monkeypatch):
    """How explanations and predictions end, in the thread that computes them."""
    found, ended = [], threading.Event()

    def watched(method):
        def run(*given):
            try:
                result = method(*given)
            except Exception as error:
                found.append(type(error))
                raise
            else:
                found.append(None)
                return result
            finally:
                ended.set()

        return run

    for name in ("explanation", "predictions"):
        monkeypatch.setattr(ServedModel, name, watched(getattr(ServedModel, name)))
    return found, ended


@pytest.mark.parametrize("path", ["/explain", "/predict"])
@pytest.mark.parametrize("why", ["gone", "timeout"])
def test_work_that_nobody_waits_for_stops(held, outcomes, path, why):
    found, ended = outcomes
    X, _ = load_iris(return_X_y=True)
    app = create_app(held, table=X, max_seconds=WAIT)
    rows = np.repeat(X, 100, axis=0)  # of three blocks
    body = json.dumps({"rows": rows.tolist()}).encode()

    async def main():
        gone = asyncio.Event()
        task = asyncio.create_task(call(app, "POST", path, [body], gone=gone))
        await until(held.started_)
        if why == "gone":
            gone.set()
        else:
            (limit,) = app.state.server._running
            limit.reschedule(asyncio.get_running_loop().time())
        reply = await task
        held.go_.set()
        await until(ended)
        return reply

    reply = asyncio.run(main())
    assert reply[0] == (499 if why == "gone" else 503)
    assert found == [WorkStoppedError]
    assert held.n_calls_ <= 3  # a full explanation takes dozens


def test_few_rows_do_not_wait_for_many(iris, monkeypatch):
    go = threading.Event()
    predictions = ServedModel.predictions

    def held_predictions(self, table, *given):
        assert len(table) == 1 or go.wait(WAIT)
        return predictions(self, table, *given)

    monkeypatch.setattr(ServedModel, "predictions", held_predictions)
    app = create_app(iris[0])
    body = json.dumps({"rows": iris[1].tolist() * 20}).encode()

    async def main():
        tasks = [asyncio.create_task(call(app, "POST", "/predict", [body])) for _ in range(5)]
        while app.state.server._n_bytes < 5 * len(body):
            await asyncio.sleep(0)
        predicted = await call(app, "POST", "/predict")
        go.set()
        return predicted, await asyncio.gather(*tasks)

    predicted, replies = asyncio.run(main())
    assert predicted[0] == 200
    assert {reply[0] for reply in replies} == {200}


def test_a_request_that_left_the_queue_frees_its_slot(held):
    app = create_app(held)
    app.state.server.predictions = Workers(1, 1)

    async def main():
        gone = asyncio.Event()
        first = asyncio.create_task(call(app, "POST", "/predict"))
        await until(held.started_)
        second = asyncio.create_task(call(app, "POST", "/predict", gone=gone))
        while app.state.server.predictions._waiting.empty():
            await asyncio.sleep(0)
        refused = await call(app, "POST", "/predict")
        gone.set()
        left = await second
        third = asyncio.create_task(call(app, "POST", "/predict"))
        await asyncio.sleep(0)
        held.go_.set()
        return refused, left, await first, await third

    assert [reply[0] for reply in asyncio.run(main())] == [503, 499, 200, 200]


def _request(port, method, path, body=None):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)) as line:
        line.request(method, path, body)
        reply = line.getresponse()
        return reply.status, reply.headers, reply.read()


@pytest.fixture
def listening(held, monkeypatch):
    """Start ``serve`` in a thread; signals are given to its handler."""
    import uvicorn

    run = uvicorn.Server.run
    servers, threads = [], []
    monkeypatch.setattr(uvicorn.Server, "run", lambda server: servers.append(server))

    def start(**options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        serve(held, port=port, **options)
        thread = threading.Thread(target=run, args=(servers[-1],))
        thread.start()
        threads.append(thread)
        while True:
            try:
                if _request(port, "GET", "/healthz")[0] == 200:
                    return port, servers[-1], thread
            except OSError:
                assert thread.is_alive()

    yield start
    held.go_.set()
    for server, thread in zip(servers, threads, strict=True):
        server.should_exit = True
        thread.join(WAIT)


@pytest.mark.parametrize(("grace", "n_signals"), [(WAIT, 1), (0.0, 1), (WAIT, 2)])
def test_sigterm_finishes_running_requests_and_refuses_new_ones(held, listening, grace, n_signals):
    port, server, thread = listening(grace=grace)
    is_finished = grace > 0.0 and n_signals == 1
    replies = []
    client = threading.Thread(
        target=lambda: replies.append(_request(port, "POST", "/predict", ROWS))
    )
    client.start()
    assert held.started_.wait(WAIT)
    for _ in range(n_signals):
        server.handle_exit(signal.SIGTERM, None)
    if is_finished:
        while (refused := _request(port, "GET", "/readyz"))[0] == 200:
            pass
        assert refused[0] == 503
        assert _request(port, "GET", "/healthz")[0] == 200  # alive, but not ready
        assert refused[1]["Retry-After"] == "1"
        assert not replies
        held.go_.set()
    client.join(WAIT)
    assert replies[0][0] == (200 if is_finished else 503)
    thread.join(WAIT)
    assert not thread.is_alive()


def test_short_requests_may_interrupt_long_work(monkeypatch):
    """A full garbage collection of all imported objects once stopped every request for 0.4 s."""
    import uvicorn
    from starlette.testclient import TestClient

    intervals, found, apps = [], [], []
    monkeypatch.setattr(_server.sys, "setswitchinterval", intervals.append)
    monkeypatch.setattr(_server, "_freeze", lambda: found.append("frozen"))
    monkeypatch.setattr(uvicorn.Server, "run", lambda server: apps.append(server.config.app))
    serve(LogisticRegression().fit([[0.0], [1.0]], [0, 1]))
    assert intervals[-1] < 0.001
    apps[0].state.server.served.warm_up = lambda: found.append("warm")
    with TestClient(apps[0], base_url="http://localhost") as client:
        while client.get("/readyz").status_code != 200:
            pass
    assert found == ["warm", "frozen"]


def test_long_lists_are_encoded_in_parts(iris, monkeypatch):
    """The encoder lets no other thread run: 100,000 probabilities once took 0.1 s."""
    model, X = iris
    lengths = []
    encode = _app._ENCODE
    monkeypatch.setattr(_app, "_ENCODED", 40)
    monkeypatch.setattr(_app, "_ENCODE", lambda part: lengths.append(len(part)) or encode(part))
    parts = [json.dumps({"rows": X.tolist()}).encode()]
    _, _, content = asyncio.run(call(create_app(model), "POST", "/predict", parts))
    assert content["probabilities"] == model.predict_proba(X).tolist()
    assert content["classes"] == [0, 1, 2]
    assert max(lengths) == 40
