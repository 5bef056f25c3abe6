"""The server: one process with several threads."""

import gc
import logging
import sys
from collections.abc import Callable
from typing import Any

from vicinal._base import import_optional
from vicinal.serve._access_log import ACCESS
from vicinal.serve._app import create_app

_SWITCH_SECONDS = 5e-4
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(
    model: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    grace: float = 25.0,
    access_log: bool = True,
    on_start: Callable[[], Any] | None = None,
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
    access_log : bool, default=True
        Whether to write one line of JSON for each request to the standard error.
    on_start : callable, default=None
        Called without arguments when the server listens.
    **options
        Further arguments of :func:`create_app`.
    """
    if host not in _LOOPBACK and not options.get("token"):
        raise ValueError(
            f"host={host!r} is reachable from other computers, which needs a token "
            "(token=... or --token), sent as 'Authorization: Bearer <token>'."
        )
    uvicorn = import_optional("uvicorn", needed_by="serve", extra="serve")
    if not options.get("token"):
        options = {"hosts": _LOOPBACK, **options}
    app = create_app(model, **options)
    if access_log and not ACCESS.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        ACCESS.addHandler(handler)
        ACCESS.propagate = False
    ACCESS.setLevel(logging.INFO if access_log else logging.WARNING)

    class Server(uvicorn.Server):  # type: ignore[name-defined]
        n_signals = 0

        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started and on_start is not None:
                on_start()

        def handle_exit(self, sig: int, frame: Any) -> None:
            self.n_signals += 1

        async def on_tick(self, counter: int) -> bool:
            if self.n_signals:
                app.state.server.stop(grace if self.n_signals == 1 else 0.0)
            is_drained = self.n_signals > 0 and app.state.server.is_idle
            return await super().on_tick(counter) or is_drained

    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=5,
    )
    # Python lets a thread run for 5 ms before another one gets the interpreter; with several
    # threads at work a short request would wait several times as long.
    sys.setswitchinterval(_SWITCH_SECONDS)
    app.state.server.on_warm = _freeze
    Server(config).run()


def _freeze() -> None:
    """Let garbage collections, which stop all threads, skip what exists by now."""
    gc.freeze()
    gc.enable()
