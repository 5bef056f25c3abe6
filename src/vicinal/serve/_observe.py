"""Access log and metrics of the requests."""

import json
import logging
import os
import time
from bisect import bisect_left
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

ACCESS = logging.getLogger("vicinal.serve.access")
_STATUSES = (200, 400, 401, 404, 405, 413, 422, 499, 500, 503)
_REJECTED = (413, 503)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
_OTHER = "other"  # paths that do not exist, so that clients cannot add lines to the metrics
# Bytes of shared memory for the counters of one process.
COUNTER_BYTES = 2**14


class Observer:
    """ASGI middleware that counts requests and writes one line of JSON for each to the log.

    Parameters
    ----------
    app : ASGI application
        Whose requests are observed.
    metrics : Metrics
        The counters.
    """

    def __init__(self, app: Any, metrics: "Metrics") -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Process a request and observe it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def observed_send(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        self.metrics.own["in_flight"] += 1
        try:
            await self.app(scope, receive, observed_send)
        finally:
            seconds, n_rows = time.perf_counter() - started, scope.get("n_rows", 0)
            self.metrics.count(scope["path"], status, seconds, n_rows)
            if ACCESS.isEnabledFor(logging.INFO):
                line = {
                    "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                    "ms": round(1e3 * seconds, 3),
                    "rows": n_rows,
                }
                ACCESS.info(json.dumps(line))


class Metrics:
    """Counters of this process, in memory that all worker processes share.

    Parameters
    ----------
    paths : list of str
        The paths that exist.
    memory : buffer, default=None
        ``COUNTER_BYTES`` bytes for each process; ``None`` for one process.
    worker : int, default=0
        Which process this is.
    """

    def __init__(self, paths: list[str], memory: Any = None, worker: int = 0) -> None:
        self.paths = [*paths, _OTHER]
        self._path = {path: k for k, path in enumerate(self.paths)}
        self._status = {status: k for k, status in enumerate(_STATUSES)}
        n = len(self.paths)
        layout = np.dtype([
            *[(name, "f8") for name in ("pid", "in_flight", "rows")],
            ("requests", "f8", (n, len(_STATUSES))),
            ("durations", "f8", (n, len(_SECONDS) + 1)),
            ("seconds", "f8", n),
        ])  # fmt: skip
        memory = bytearray(COUNTER_BYTES) if memory is None else memory
        starts = range(0, len(memory), COUNTER_BYTES)
        self.all = [np.frombuffer(memory, layout, 1, start)[0] for start in starts]
        self.own = self.all[worker]
        self.own["pid"], self.own["in_flight"] = os.getpid(), 0

    def _total(self, name: str) -> Any:
        return sum(part[name] for part in self.all)

    def count(self, path: str, status: int, seconds: float, n_rows: int) -> None:
        """Count a request that has ended."""
        at = self._path.get(path, len(self.paths) - 1)
        self.own["in_flight"] -= 1
        self.own["rows"] += n_rows
        self.own["requests"][at, self._status.get(status, self._status[500])] += 1
        self.own["durations"][at, bisect_left(_SECONDS, seconds)] += 1
        self.own["seconds"][at] += seconds

    def text(self) -> str:
        """Return the counters of all processes in the text format of Prometheus."""
        requests, durations, seconds = map(self._total, ("requests", "durations", "seconds"))
        labels = [f'path="{path}"' for path in self.paths]
        counts = {
            f'{{{labels[p]},status="{_STATUSES[s]}"}}': requests[p, s]
            for p, s in np.argwhere(requests).tolist()
        }
        buckets: dict[str, float] = {}
        for p in np.flatnonzero(seconds).tolist():
            ends = [*_SECONDS, "+Inf"]
            below = zip(ends, durations[p].cumsum().tolist(), strict=True)
            buckets |= {f'_bucket{{{labels[p]},le="{end}"}}': n for end, n in below}
            buckets[f"_sum{{{labels[p]}}}"] = seconds[p]
            buckets[f"_count{{{labels[p]}}}"] = durations[p].sum()
        rejected = requests[:, [self._status[status] for status in _REJECTED]].sum()
        families = [
            ("requests_total", "counter", "Requests.", counts),
            ("request_duration_seconds", "histogram", "Time of requests.", buckets),
            ("rows_total", "counter", "Rows of requests.", {"": self._total("rows")}),
            ("in_flight", "gauge", "Requests in progress.", {"": self._total("in_flight")}),
            ("rejected_total", "counter", "Requests above a limit: 413, 503.", {"": rejected}),
            ("resident_memory_bytes", "gauge", "Memory of all processes.", {"": self._memory()}),
        ]
        lines = []
        for name, kind, help_text, samples in families:
            lines += [f"# HELP vicinal_{name} {help_text}", f"# TYPE vicinal_{name} {kind}"]
            lines += [f"vicinal_{name}{key} {value:.10g}" for key, value in samples.items()]
        return "\n".join([*lines, ""])

    def _memory(self) -> int:
        """Return the resident memory of the processes, 0 where the system does not report it."""
        pages = 0
        for part in self.all:
            with suppress(OSError):
                pages += int(Path(f"/proc/{part['pid']:.0f}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") if pages else 0
