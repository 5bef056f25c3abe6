"""How many requests does a server take from 1, 8 and 64 clients, and does its memory grow?"""

import json
import os
import selectors
import socket
import sys
import tempfile
import time
from pathlib import Path

import joblib
import numpy as np
from sklearn.datasets import load_breast_cancer

from _harness import ResultsPage
from bench_serve import PEER, Server, ours, processor_seconds
from vicinal import AnchoredLocalClassifier
from vicinal.io import save

N_CLIENTS = (1, 8, 64)
N_REQUESTS, N_ROUNDS, WARM = 20_000, 10, 300
OURS = "vicinal serve"


class Client:
    """A lasting connection that sends one request after another."""

    def __init__(self, port):
        self.line = socket.create_connection(("127.0.0.1", port))
        self.line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request, row):
        """Send a request."""
        self.row, self.received, self.started = row, b"", time.perf_counter()
        self.line.sendall(request)

    def body(self):
        """Receive what has come; return the body once it is complete, ``None`` for an error."""
        self.received += self.line.recv(2**16)
        head, _, body = self.received.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        size = next((int(s.split(b":")[1]) for s in lines if s.startswith(b"content-length")), None)
        if size is None or len(body) < size:
            return b""
        return body if b" 200 " in lines[0] else None


def requests_of(X):
    """Return the bytes of a request for each row."""
    bodies = [json.dumps({"rows": [row]}).encode() for row in X.tolist()]
    head = "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return [f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body for body in bodies]


def under_load(port, requests, expected, n_clients, n_requests):
    """Send requests from several clients; return the seconds of each, of all, and the errors."""
    taken, n_sent, n_errors = [], 0, 0
    started = time.perf_counter()
    with selectors.DefaultSelector() as waiting:
        for _ in range(n_clients):
            client = Client(port)
            waiting.register(client.line, selectors.EVENT_READ, client)
            client.send(requests[n_sent % len(requests)], n_sent % len(requests))
            n_sent += 1
        while len(taken) < n_requests:
            for key, _ in waiting.select():
                client = key.data
                body = client.body()
                if body == b"":
                    continue
                taken.append(time.perf_counter() - client.started)
                found = None if body is None else json.loads(body)["probabilities"][0]
                n_errors += found is None or not np.allclose(found, expected[client.row])
                if n_sent < n_requests:
                    client.send(requests[n_sent % len(requests)], n_sent % len(requests))
                    n_sent += 1
        seconds = time.perf_counter() - started
        for key in list(waiting.get_map().values()):
            key.data.line.close()
    return taken, seconds, n_errors


def resident_mb(process):
    """Return the resident size of a process, from Linux."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measured(plan, requests, expected, n_clients):
    """Load all servers in turn, round after round; return one row for each."""
    servers = {name: Server(command) for name, command in plan.items()}
    found = {name: {"taken": [], "seconds": 0.0, "errors": 0} for name in plan}
    try:
        for name, server in servers.items():
            under_load(server.port, requests, expected, n_clients, WARM)
            found[name]["before_mb"] = resident_mb(server.process.pid)
            found[name]["cpu"] = -processor_seconds(server.process.pid)
        for _ in range(N_ROUNDS):
            for name, server in servers.items():
                taken, seconds, errors = under_load(
                    server.port, requests, expected, n_clients, N_REQUESTS // N_ROUNDS
                )
                found[name]["taken"] += taken
                found[name]["seconds"] += seconds
                found[name]["errors"] += errors
        for name, server in servers.items():
            found[name]["after_mb"] = resident_mb(server.process.pid)
            found[name]["cpu"] += processor_seconds(server.process.pid)
    finally:
        for server in servers.values():
            server.stop()
    for part in found.values():
        middle, tail = np.quantile(part.pop("taken"), [0.5, 0.99])
        part |= {"p50_ms": 1e3 * middle, "p99_ms": 1e3 * tail, "errors": int(part["errors"])}
        part["per_second"] = N_REQUESTS / part["seconds"]
        part["cpu_ms"] = 1e3 * part.pop("cpu") / N_REQUESTS
    return found


def main():
    page = ResultsPage(
        "load",
        "Throughput, latency and memory over 20,000 requests",
        f"1, 8 and 64 clients send {N_REQUESTS:,} requests of one row over lasting connections "
        "(breast cancer, 30 columns, AnchoredLocalClassifier with 64 anchors): `vicinal serve` as "
        "it starts, with access log and metrics, compared with FastAPI and uvicorn without a log. "
        "Both load the same model and run one process. An error is any response that is not 200 "
        "with the model's own probabilities. The servers take turns of "
        f"{N_REQUESTS // N_ROUNDS:,} requests, so that other work on the machine slows both alike. "
        "The clients share the machine and one process. Processor time is that of the server. "
        "Memory is the resident size of the server after a warm-up and after all requests.",
        packages=("starlette", "uvicorn", "fastapi", "joblib"),
    )
    X, y = load_breast_cancer(return_X_y=True)
    model = AnchoredLocalClassifier(64, n_neighbors=40, random_state=0).fit(X, y)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path, pickled = Path(folder) / "anchored.vicinal", Path(folder) / "anchored.joblib"
        save(model, path)
        joblib.dump(model, pickled)
        peer = str(Path(__file__).with_name("bench_serve.py"))
        plan = {OURS: ours(path), PEER: [peer, "--peer", str(pickled)]}
        expected, requests = model.predict_proba(X), requests_of(X)
        for n_clients in N_CLIENTS:
            case = page.case(
                ("load", n_clients), lambda n=n_clients: measured(plan, requests, expected, n)
            )
            for name, found in case.items():
                rows.append(
                    [
                        n_clients,
                        name,
                        f"{found['per_second']:.0f}",
                        f"{found['p50_ms']:.2f}",
                        f"{found['p99_ms']:.2f}",
                        f"{found['cpu_ms']:.2f}",
                        found["errors"],
                        f"{found['before_mb']:.0f}",
                        f"{found['after_mb']:.0f}",
                    ]
                )
    page.table(
        ["clients", "server", "per second", "p50, ms", "p99, ms", "processor time, ms", "errors",
         "memory before, MB", "memory after, MB"],
        rows,
    )  # fmt: skip
    page.write()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
