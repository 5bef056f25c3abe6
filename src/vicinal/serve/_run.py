"""Listen until stopped."""

from typing import Any

from vicinal._base import import_optional
from vicinal.serve._app import create_app

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(
    model: Any, *, host: str = "127.0.0.1", port: int = 8000, grace: float = 25.0, **options: Any
) -> None:
    """Serve a fitted model over HTTP until SIGTERM or Ctrl-C.

    Then new requests get status 503, and running ones are finished. A second signal does not wait
    for them.

    Parameters
    ----------
    model : estimator
        Fitted classifier or regressor, or a pipeline that ends in one.
    host : str, default="127.0.0.1"
        Address to listen at. Any other than loopback needs a ``token``. Without one, requests must
        name a loopback address, so that no page of another site can ask through a browser here.
    port : int, default=8000
        Port to listen at.
    grace : float, default=25
        Seconds that running requests may take after a signal; then they get status 503.
    **options
        Further arguments of :func:`create_app`.
    """
    if host not in _LOOPBACK and not options.get("token"):
        raise ValueError(
            f"host={host!r} can be reached from other machines, so a token is needed: pass "
            "token=..., and send it as 'Authorization: Bearer <token>'."
        )
    uvicorn = import_optional("uvicorn", needed_by="serve", extra="serve")
    if not options.get("token"):
        options = {"hosts": _LOOPBACK, **options}
    app = create_app(model, **options)

    class Server(uvicorn.Server):  # type: ignore[name-defined]
        n_signals = 0

        def handle_exit(self, sig: int, frame: Any) -> None:
            self.n_signals += 1

        async def on_tick(self, counter: int) -> bool:
            if self.n_signals:
                app.state.server.stop(grace if self.n_signals == 1 else 0.0)
            is_drained = self.n_signals > 0 and app.state.server.is_idle
            return await super().on_tick(counter) or is_drained

    config = uvicorn.Config(
        app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=5
    )
    Server(config).run()
