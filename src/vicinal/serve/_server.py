"""The server: one process, or several that share a socket."""

import gc
import logging
import multiprocessing
import signal
import sys
import time
from multiprocessing import connection
from typing import Any

import numpy as np

from vicinal._base import import_optional
from vicinal.serve._app import create_app
from vicinal.serve._observe import ACCESS, COUNTER_BYTES

_SWITCH_SECONDS = 5e-4
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(
    model: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    grace: float = 25.0,
    workers: int = 1,
    access_log: bool = True,
    **options: Any,
) -> None:
    """Serve a fitted model over HTTP until SIGTERM or Ctrl-C.

    After the signal new requests get status 503 and running ones are finished. A second signal
    stops them.

    Parameters
    ----------
    model : estimator
        Fitted classifier or regressor, or a pipeline that ends in one.
    host : str, default="127.0.0.1"
        Address to listen on. An address other than loopback needs a ``token``. Without a token,
        requests must use a loopback host name, which protects against requests of other web sites.
    port : int, default=8000
        Port to listen on.
    grace : float, default=25
        Seconds that running requests may take after a signal before they get status 503.
    workers : int, default=1
        Number of processes, each with a copy of the model. A script that passes more than one
        needs ``if __name__ == "__main__":``, as for `multiprocessing`.
    access_log : bool, default=True
        Whether to write one line of JSON for each request to the standard error.
    **options
        Further arguments of :func:`create_app`.
    """
    if host not in _LOOPBACK and not options.get("token"):
        raise ValueError(
            f"host={host!r} is reachable from other computers, which needs a token; pass "
            "token=..., and send it as 'Authorization: Bearer <token>'."
        )
    if workers < 1:
        raise ValueError(f"workers={workers!r} must be at least 1.")
    uvicorn = import_optional("uvicorn", needed_by="serve", extra="serve")
    if not options.get("token"):
        options = {"hosts": _LOOPBACK, **options}
    if workers == 1:
        _listen(model, options, grace, access_log, host=host, port=port)
        return
    socket = uvicorn.Config("", host=host, port=port, log_level="warning").bind_socket()
    context = multiprocessing.get_context("spawn")
    memory = context.RawArray("B", workers * COUNTER_BYTES)

    def start(worker: int) -> Any:
        given = (model, {**options, "counters": (memory, worker)}, grace, access_log, socket)
        process = context.Process(target=_listen, args=given)
        process.start()
        return process

    _supervise(start, memory, workers)


def _supervise(start: Any, memory: Any, n_workers: int) -> None:
    """Run worker processes until a signal; replace those that end, unless they never served."""
    n_signals, has_failed = 0, False
    processes: list[Any] = []

    def stop(sig: int, frame: Any) -> None:
        nonlocal n_signals
        n_signals += 1
        for process in processes:
            process.terminate()

    def launch(worker: int) -> Any:
        process = start(worker)
        if n_signals:  # it came meanwhile
            process.terminate()
        return process

    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, stop)
    for worker in range(n_workers):
        processes.append(launch(worker))
    while waiting := [part.sentinel for part in processes if part.is_alive() or not n_signals]:
        connection.wait(waiting)
        for worker, process in enumerate(processes):
            if process.is_alive() or n_signals:
                continue
            slot = memory[worker * COUNTER_BYTES : worker * COUNTER_BYTES + 8]
            if np.frombuffer(bytes(slot))[0] == process.pid:
                processes[worker] = launch(worker)
            else:
                has_failed = True
                stop(signal.SIGTERM, None)
    if has_failed:
        raise RuntimeError("a worker process ended before it could serve; see its error above.")


def _listen(
    model: Any, options: dict[str, Any], grace: float, access_log: bool, socket: Any = None, **at
) -> None:
    """Serve a model in this process until a signal, at an address or with a socket."""
    uvicorn = import_optional("uvicorn", needed_by="serve", extra="serve")
    app = create_app(model, **options)
    parent = None if socket is None else multiprocessing.parent_process()
    if access_log and not ACCESS.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        ACCESS.addHandler(handler)
        ACCESS.propagate = False
    ACCESS.setLevel(logging.INFO if access_log else logging.WARNING)

    class Server(uvicorn.Server):  # type: ignore[name-defined]
        n_signals, last = 0, -1.0

        def handle_exit(self, sig: int, frame: Any) -> None:
            # Ctrl-C reaches workers too, but their parent decides; a signal to the whole group
            # reaches them twice.
            now = time.monotonic()
            if parent is None or (sig != signal.SIGINT and now > self.last + 1.0):
                self.n_signals += 1
                self.last = now

        async def on_tick(self, counter: int) -> bool:
            if parent is not None and not parent.is_alive():
                self.n_signals = 2
            if self.n_signals:
                app.state.server.stop(grace if self.n_signals == 1 else 0.0)
            is_drained = self.n_signals > 0 and app.state.server.is_idle
            return await super().on_tick(counter) or is_drained

    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=5, **at
    )
    # Python lets a thread run for 5 ms before another one gets the interpreter; with several
    # threads at work a short request would wait several times as long.
    sys.setswitchinterval(_SWITCH_SECONDS)
    app.state.server.on_warm = _freeze
    Server(config).run(**({} if socket is None else {"sockets": [socket]}))


def _freeze() -> None:
    """Let garbage collections, which stop all threads, skip what exists by now."""
    gc.freeze()
    gc.enable()
