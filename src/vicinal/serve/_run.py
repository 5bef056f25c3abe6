"""Listen until stopped."""

from typing import Any

from vicinal._base import import_optional
from vicinal.serve._app import create_app

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(model: Any, *, host: str = "127.0.0.1", port: int = 8000, **options: Any) -> None:
    """Serve a fitted model over HTTP until interrupted; requests under way are answered first.

    Parameters
    ----------
    model : estimator
        Fitted classifier or regressor, or a pipeline that ends in one.
    host : str, default="127.0.0.1"
        Address to listen at. Any other than loopback needs a ``token``. Without one, requests must
        name a loopback address, so that no page of another site can ask through a browser here.
    port : int, default=8000
        Port to listen at.
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
    uvicorn.run(app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=10)
