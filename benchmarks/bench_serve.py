"""How fast does a served model answer one row at a time, and does it survive kill -9?"""

import asyncio
import http.client
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import joblib
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from _harness import MissingCaseError, ResultsPage
from vicinal import AnchoredLocalClassifier, LocalClassifier
from vicinal.io import save

N_CLIENTS = 8
SECONDS, N_ROUNDS = 60.0, 6
WARM = 50
TICK = 0.01
_LAGS = ("health_max_ms", "lag_ms", "own_lag_ms")
KILLED_AFTER = 5.0
PEER = "FastAPI and joblib"


def models():
    """Small models of one table; the forest is served by both sides."""
    return {
        "random forest": RandomForestClassifier(n_jobs=1, random_state=0),
        "LocalClassifier": LocalClassifier(n_neighbors=40, alpha=1.0),
        "AnchoredLocalClassifier": AnchoredLocalClassifier(64, n_neighbors=40, random_state=0),
    }


def peer(path, port):
    """Serve a pickled model as one would with FastAPI alone: a list of rows in, numbers out."""
    import fastapi
    import pydantic
    import uvicorn

    model = joblib.load(path)
    app = fastapi.FastAPI()

    class Request(pydantic.BaseModel):
        rows: list[list[float]]

    @app.get("/healthz")
    def healthz():
        return {"status": "ok"}

    def predict(request):
        proba = model.predict_proba(np.array(request.rows))
        chosen = model.classes_[proba.argmax(axis=1)]
        return {"predictions": chosen.tolist(), "probabilities": proba.tolist()}

    predict.__annotations__["request"] = Request
    app.post("/predict")(predict)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


class Server:
    """A process that is ready for requests, and the seconds from its start until then."""

    def __init__(self, arguments, port=None):
        self.arguments, self.port = arguments, port or free_port()
        started = time.perf_counter()
        command = [sys.executable, *arguments, str(self.port)]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        # The peer has no /readyz: 404.
        while self._status("/readyz") not in (200, 404):
            if self.process.poll() is not None:
                raise RuntimeError(f"{command} ended by itself")
            time.sleep(0.02)
        self.start_seconds = time.perf_counter() - started

    def _status(self, path):
        try:
            return ask(self.port, "GET", path)[0]
        except OSError:
            return None

    def stop(self, how=signal.SIGTERM):
        """Send a signal and wait for the end."""
        self.process.send_signal(how)
        return self.process.wait(30)


def free_port():
    """Return a port that nobody listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ask(port, method, path, body=None, connection=None):
    """Return status and content of one request."""
    line = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Content-Type": "application/json"} if body else {}
    line.request(method, path, body, headers)
    reply = line.getresponse()
    return reply.status, reply.read()


def ours(path):
    """Return the command of `vicinal serve`."""
    return ["-c", "from vicinal.cli import main; main()", "serve", str(path), "--port"]


def theirs(path):
    """Return the command of the peer."""
    return [__file__, "--peer", str(path)]


def under_load(port, X, expected, meanwhile):
    """Let clients request one row at a time while something goes on; return seconds and errors."""
    taken, errors = [[] for _ in range(N_CLIENTS)], [0] * N_CLIENTS
    bodies = [json.dumps({"rows": [row]}) for row in X.tolist()]
    done = threading.Event()

    def client(k):
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        at = k
        while not done.is_set():
            at = (at + N_CLIENTS) % len(bodies)
            started = time.perf_counter()
            try:
                status, content = ask(port, "POST", "/predict", bodies[at], line)
                right = status == 200 and np.allclose(
                    json.loads(content)["probabilities"][0], expected[at]
                )
                errors[k] += not right
            except (OSError, http.client.HTTPException):
                errors[k] += 1
                line.close()
                time.sleep(0.05)
            taken[k].append(time.perf_counter() - started)

    threads = [threading.Thread(target=client, args=(k,)) for k in range(N_CLIENTS)]
    for thread in threads:
        thread.start()
    meanwhile()
    done.set()
    for thread in threads:
        thread.join()
    return np.concatenate(taken), sum(errors)


def measured(plan, X):
    """Ask all servers in turn, some seconds each and round after round: one load for all."""
    servers = {key: Server(command) for key, (command, _) in plan.items()}
    taken, errors = {key: [] for key in plan}, dict.fromkeys(plan, 0)
    try:
        for server in servers.values():
            for row in X[:WARM].tolist():
                ask(server.port, "POST", "/predict", json.dumps({"rows": [row]}))
        for _ in range(N_ROUNDS):
            for key, server in servers.items():
                seconds, failed = under_load(
                    server.port, X, plan[key][1], lambda: time.sleep(SECONDS / N_ROUNDS)
                )
                taken[key].append(seconds)
                errors[key] += failed
        peaks = {key: peak_mb(server.process.pid) for key, server in servers.items()}
    finally:
        stopped = {key: server.stop() for key, server in servers.items()}
    return [
        {
            "server": key[0],
            "model": key[1],
            **summary(np.concatenate(taken[key])),
            "errors": int(errors[key]),
            "peak_mb": peaks[key],
            "start_s": servers[key].start_seconds,
            "stopped": stopped[key] in (0, -signal.SIGTERM),
        }
        for key in plan
    ]


def summary(taken):
    """Return how many requests there were, and how long they took."""
    middle, tail = np.quantile(taken, [0.5, 0.99])
    return {
        "requests": len(taken),
        "per_second": len(taken) / SECONDS,
        "p50_ms": 1e3 * middle,
        "p99_ms": 1e3 * tail,
    }


def peak_mb(process):
    """Return the largest resident size of a process so far, from Linux."""
    status = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


def killed(command, X, expected):
    """Kill the server while clients ask, start it again, and compare its answers."""
    server, found = Server(command), {}

    def kill_and_start():
        time.sleep(KILLED_AFTER)
        server.stop(signal.SIGKILL)
        started = time.perf_counter()
        found["again"] = Server(command, server.port)
        found["down"] = time.perf_counter() - started
        time.sleep(KILLED_AFTER)

    _, failed = under_load(server.port, X, expected, kill_and_start)
    again = found["again"]
    body = json.dumps({"rows": X.tolist()})
    said = json.loads(ask(again.port, "POST", "/predict", body)[1])["probabilities"]
    again.stop()
    return {
        "down_s": found["down"],
        "failed": int(failed),
        "same": bool(np.array_equal(said, expected)),
    }


def watched(log, *arguments):
    """Run the command ``vicinal`` and write the longest lags of its event loop to a file.

    The lag is how much later than planned a task of the loop runs. What the loop's thread waited
    for a core meanwhile (Linux counts it) is the load of the machine, not work of the server.
    """
    import uvicorn

    from vicinal.cli import main as command

    log = Path(log)
    waited = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")

    async def watch():
        while True:
            before, started = waited.read_text(), time.perf_counter()
            await asyncio.sleep(TICK)
            lag = 1e3 * (time.perf_counter() - started - TICK)
            core = 1e-6 * (int(waited.read_text().split()[1]) - int(before.split()[1]))
            found = {"lag_ms": lag, "own_lag_ms": max(0.0, lag - core)}
            known = json.loads(log.read_text()) if log.exists() else dict.fromkeys(found, -1.0)
            if any(found[name] > known[name] for name in found):
                log.write_text(json.dumps({name: max(found[name], known[name]) for name in found}))

    startup = uvicorn.Server.startup

    async def watched_startup(server, *given, **named):
        await startup(server, *given, **named)
        server.watch = asyncio.ensure_future(watch())

    uvicorn.Server.startup = watched_startup
    sys.argv = ["vicinal", *arguments]
    command()


class Attack:
    """Requests that a server must survive, sent by several clients at a time.

    Parameters
    ----------
    path, body, kind : str, bytes, str
        The request.
    n_clients, n_times : int
        How many clients send it, and how often each.
    leave : bool
        Whether clients go away without waiting for the response.
    """

    def __init__(self, path, body, kind, n_clients, n_times=1, leave=False):
        self.path, self.body, self.kind = path, body, kind
        self.n_clients, self.n_times, self.leave = n_clients, n_times, leave

    def statuses(self, port):
        """Send all requests; return how often each status came back."""
        found = Counter()

        def client():
            for _ in range(self.n_times):
                line = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
                try:
                    line.request("POST", self.path, self.body, {"Content-Type": self.kind})
                    if self.leave:
                        time.sleep(0.5)
                        found["left"] += 1
                    else:
                        found[str(line.getresponse().status)] += 1
                except OSError:
                    found["closed"] += 1
                line.close()

        threads = [threading.Thread(target=client) for _ in range(self.n_clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return dict(found)


def attacks(frame):
    """Return what is tried: bodies too large, large bodies, and explanations."""
    header = ",".join(frame.columns) + "\n"
    text = frame.to_csv(index=False, header=False)
    rows = {"rows": frame.iloc[:1].to_dict("records")}
    one = json.dumps(rows).encode()
    many = json.dumps({"rows": frame.to_numpy().tolist() * 24}).encode()[: 2**20]
    json_body = many[: many.rindex(b"], [")] + b"]]}"
    csv_body = (header + text * 40).encode()[: 2**20]
    csv_body = csv_body[: csv_body.rindex(b"\n")]
    too_large = (header + text * 160).encode()[: 2**24]
    return {
        "CSV of 16 MB": Attack("/predict", too_large, "text/csv", 4, 4),
        "CSV of 1 MB": Attack("/predict", csv_body, "text/csv", 4),
        "JSON of 1 MB": Attack("/predict", json_body, "application/json", 4),
        "50 explanations": Attack("/explain", one, "application/json", 50),
        "50 explanations, clients leave": Attack(
            "/explain", one, "application/json", 50, leave=True
        ),
    }


class Watch:
    """Latencies of one request, repeated every 20 ms by a process of its own.

    Threads of the attacking process would wait for its interpreter lock.
    """

    def __init__(self, port, *request):
        context = multiprocessing.get_context("fork")
        self.done, self.found = context.Event(), context.SimpleQueue()
        self.process = context.Process(target=self._run, args=(port, *request))
        self.process.start()

    def _run(self, port, *request):
        taken, failed = [], 0
        while not taken or not self.done.wait(0.02):
            started = time.perf_counter()
            failed += ask(port, *request)[0] != 200
            taken.append(1e3 * (time.perf_counter() - started))
        self.found.put({"ms": taken, "failed": failed})

    def stop(self):
        """Return the latencies in ms, and how many requests failed."""
        self.done.set()
        found = self.found.get()
        self.process.join()
        return found


def attacked(command, attack, one):
    """Attack a server; return latencies of /healthz and of one-row predictions meanwhile."""
    server = Server(command)
    ask(server.port, "POST", "/predict", one)
    before = peak_mb(server.process.pid)
    watches = [Watch(server.port, "GET", "/healthz"), Watch(server.port, "POST", "/predict", one)]
    started = time.perf_counter()
    statuses = attack.statuses(server.port)
    seconds = time.perf_counter() - started
    health, predict = (watch.stop() for watch in watches)
    time.sleep(1.0)
    used = processor_seconds(server.process.pid)
    time.sleep(2.0)
    used = processor_seconds(server.process.pid) - used
    found = {
        "statuses": statuses,
        "seconds": seconds,
        "health_p50_ms": float(np.median(health["ms"])),
        "health_max_ms": max(health["ms"]),
        "predict_p50_ms": float(np.median(predict["ms"])),
        "predict_max_ms": max(predict["ms"]),
        "failed": health["failed"] + predict["failed"],
        "growth_mb": peak_mb(server.process.pid) - before,
        "busy_after": used / 2.0,
    }
    server.stop()
    return found


def processor_seconds(process):
    """Return the processor time of a process so far, from Linux."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def lagging(command, attack, one):
    """Attack a server; return the longest wait for /healthz and lags of the event loop."""
    log = Path(command[2])
    server = Server(command)
    ask(server.port, "POST", "/predict", one)
    log.unlink()  # lags of the start do not count
    watch = Watch(server.port, "GET", "/healthz")
    attack.statuses(server.port)
    found = {"health_max_ms": max(watch.stop()["ms"]), **json.loads(log.read_text())}
    server.stop()
    return found


def attacked_model(folder):
    """Save a model and its table; return arguments of `serve`, a request and the attacks."""
    data = load_breast_cancer(as_frame=True)
    path, table = Path(folder) / "attacked.vicinal", Path(folder) / "attacked.csv"
    save(LocalClassifier(n_neighbors=40, alpha=1.0).fit(data.data, data.target), path)
    data.data.to_csv(table, index=False)
    one = json.dumps({"rows": data.data.iloc[:1].to_dict("records")})
    return ["serve", str(path), "--table", str(table), "--port"], one, attacks(data.data)


def lag_table(page, folder):
    """Add the lag of the event loop under attack; nothing where it was never measured."""
    arguments, one, tried = attacked_model(folder)
    command = [__file__, "--watched", str(Path(folder) / "lag.json"), *arguments]
    rows = []
    for name, attack in tried.items():
        try:
            found = page.case(("lag", name), lambda a=attack: lagging(command, a, one))
        except MissingCaseError:
            return
        rows.append([name, *(f"{found[key]:.0f}" for key in _LAGS)])
    page.text(
        "Longest wait for `/healthz` under the same attacks, longest lag of the server's event "
        "loop (how much later than planned a task of it runs), and that lag without the time that "
        "its thread waited for a core, which is load of the machine."
    )
    page.table(["attack", "/healthz, ms", "lag, ms", "lag without waits for a core, ms"], rows)


def attack_table(page, folder):
    """Add what attacks do to the latency and memory of a server."""
    arguments, one, tried = attacked_model(folder)
    command = [*ours("")[:2], *arguments]
    rows = []
    for name, attack in tried.items():
        found = page.case(("attack", name), lambda a=attack: attacked(command, a, one))
        statuses = ", ".join(f"{n} x {s}" for s, n in sorted(found["statuses"].items()))
        rows.append(
            [
                name,
                statuses,
                f"{found['seconds']:.1f}",
                f"{found['health_p50_ms']:.0f}",
                f"{found['health_max_ms']:.0f}",
                f"{found['predict_p50_ms']:.0f}",
                f"{found['predict_max_ms']:.0f}",
                found["failed"],
                f"{found['growth_mb']:.0f}",
                f"{found['busy_after']:.2f}",
            ]
        )
    page.text(
        "Attacks on `vicinal serve` (LocalClassifier, breast cancer with its table). Meanwhile "
        "one client requests `/healthz` and another the prediction of one row, every 20 ms. "
        "Failed "
        "are those of their requests that did not get status 200. The target is `/healthz` below "
        "100 ms throughout on a quiet machine. Busy after: cores in use from 1 s to 3 s after the "
        "last client had its response or left; 0 means that abandoned work has stopped."
    )
    page.table(
        ["attack", "responses", "seconds", "/healthz p50, ms", "max, ms", "/predict p50, ms",
         "max, ms", "failed", "memory growth, MB", "busy after, cores"],
        rows,
    )  # fmt: skip


def main():
    if sys.argv[1:2] == ["--peer"]:
        peer(sys.argv[2], int(sys.argv[3]))
        return
    if sys.argv[1:2] == ["--watched"]:
        watched(*sys.argv[2:])
        return
    page = ResultsPage(
        "serve",
        "A served model under load",
        f"{N_CLIENTS} clients on the same machine request one row at a time over lasting "
        f"connections for {SECONDS:.0f} s (breast cancer, 30 columns): `vicinal serve` compared "
        "with plain FastAPI with a pickled forest. An error is any response that is not 200 with "
        "the "
        "model's own probabilities. Both sides run one process of uvicorn. The servers take turns "
        f"of {SECONDS / N_ROUNDS:.0f} s, so that the load of the machine falls on all alike; the "
        "clients run on the same machine, so requests per second compare servers and are no limit.",
        packages=("starlette", "uvicorn", "fastapi", "joblib"),
    )
    X, y = load_breast_cancer(return_X_y=True)
    if sys.argv[1:] == ["lag"]:
        with tempfile.TemporaryDirectory() as folder:
            lag_table(page, folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        plan = {}
        for name, model in models().items():
            model.fit(X, y)
            path = Path(folder) / f"{name.replace(' ', '-')}.vicinal"
            save(model, path)
            plan["vicinal serve", name] = ours(path), model.predict_proba(X)
            if name == "random forest":
                pickled = Path(folder) / "forest.joblib"
                joblib.dump(model, pickled)
                plan[PEER, name] = theirs(pickled), model.predict_proba(X)
        rows = [
            [
                found["server"],
                found["model"],
                f"{found['requests']:,}",
                f"{found['per_second']:.0f}",
                f"{found['p50_ms']:.1f}",
                f"{found['p99_ms']:.1f}",
                found["errors"],
                f"{found['peak_mb']:.0f}",
                f"{found['start_s']:.1f}",
            ]
            for found in page.case(("load",), lambda: measured(plan, X))
        ]
        page.table(
            ["server", "model", "requests", "per second", "p50, ms", "p99, ms", "errors",
             "peak, MB", "start, s"],
            rows,
        )  # fmt: skip
        command, expected = plan["vicinal serve", "LocalClassifier"]
        found = page.case(("kill",), lambda: killed(command, X, expected))
        attack_table(page, folder)
        lag_table(page, folder)
    same = "the same to the last bit" if found["same"] else "NOT the same"
    page.text(
        f"`kill -9` of `vicinal serve` (LocalClassifier) after {KILLED_AFTER:.0f} s under the same "
        f"load, and a start right after it: {found['down_s']:.1f} s to the next response; "
        f"{found['failed']} requests failed in between, and the clients went on by themselves. All "
        f"{len(X)} responses after it are {same}; nothing is kept between requests, so nothing was "
        "lost."
    )
    page.write()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
