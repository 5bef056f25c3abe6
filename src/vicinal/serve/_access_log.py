"""Access log of the requests."""

import json
import logging
import time
from datetime import UTC, datetime
from typing import Any

ACCESS = logging.getLogger("vicinal.serve.access")


class AccessLog:
    """ASGI middleware that writes one line of JSON for each request to the log.

    Parameters
    ----------
    app : ASGI application
        Whose requests are logged.
    """

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Process a request and log it."""
        if scope["type"] != "http" or not ACCESS.isEnabledFor(logging.INFO):
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def observed_send(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self.app(scope, receive, observed_send)
        finally:
            line = {
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "ms": round(1e3 * (time.perf_counter() - started), 3),
                "rows": scope.get("n_rows", 0),
            }
            ACCESS.info(json.dumps(line))
