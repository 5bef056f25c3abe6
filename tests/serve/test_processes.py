"""Several processes that serve one model through one socket."""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")
pytestmark = [
    pytest.mark.statistical,
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs Linux"),
]

SCRIPT = """
import sys
from sklearn.linear_model import LinearRegression
from vicinal.serve import serve
if __name__ == "__main__":
    model = LinearRegression().fit([[0.0], [1.0]], [0.0, 2.0])
    serve(model, port=int(sys.argv[1]), workers=2)
"""


def fetch(url, body=None):
    with urllib.request.urlopen(url, body, timeout=60) as reply:
        return reply.read().decode()


def worker_pids(pid):
    """Return the processes that were spawned by another one to serve."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    commands = {child: Path(f"/proc/{child}/cmdline").read_text() for child in children}
    return [child for child, command in commands.items() if "spawn_main" in command]


def test_two_processes_serve_one_model_and_stop_together(tmp_path):
    script = tmp_path / "served.py"
    script.write_text(SCRIPT)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path / "log"
    with log.open("w") as stream:
        server = subprocess.Popen([sys.executable, str(script), str(port)], stderr=stream)
    base, body = f"http://127.0.0.1:{port}", json.dumps({"rows": [[3.0]]}).encode()
    try:
        while True:
            assert server.poll() is None, log.read_text()
            try:
                fetch(f"{base}/readyz")
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        workers = worker_pids(server.pid)
        assert len(workers) == 2
        for _ in range(20):
            assert json.loads(fetch(f"{base}/predict", body))["predictions"] == pytest.approx([6.0])
        # Every process reports the counters of all.
        counts = {
            line for _ in range(8) for line in fetch(f"{base}/metrics").splitlines()
            if "requests_total" in line and "/predict" in line
        }  # fmt: skip
        assert counts == {'vicinal_requests_total{path="/predict",status="200"} 20'}
        server.terminate()
        assert server.wait(60) == 0
        assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    finally:
        server.kill()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert sum(line["path"] == "/predict" for line in lines) == 20
