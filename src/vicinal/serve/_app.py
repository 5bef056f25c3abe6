"""Routes of a served model."""

import asyncio
import base64
import json
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlsplit

from joblib import cpu_count

from vicinal._base import import_optional
from vicinal._base._compat import num_samples
from vicinal.serve._access_log import AccessLog
from vicinal.serve._requests import DEFAULT_LIMITS, Limits, RequestError, Workers
from vicinal.serve._served_model import ServedModel

_MAX_SECONDS = 60.0
# One encoder for all responses; JSONResponse makes one for each.
_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
# Memory for the bodies of all requests, in multiples of the largest body.
_MAX_BODIES = 16
# Values of a list that are encoded at a time.
_ENCODED = 5000
# Bodies with more bytes have workers of their own.
_LARGE = 2**16


def create_app(
    model: Any,
    *,
    name: str = "model",
    target: str | None = None,
    table: Any = None,
    y: Any = None,
    token: str | None = None,
    hosts: Sequence[str] | None = None,
    max_bytes: int = DEFAULT_LIMITS.max_bytes,
    max_rows: int = DEFAULT_LIMITS.max_rows,
    max_seconds: float = _MAX_SECONDS,
    strict: bool = False,
) -> Any:
    """Return an ASGI application that serves a fitted model.

    ``GET /`` is an interactive page. ``POST /predict``, ``POST /explain`` and ``POST /neighbors``
    take JSON, ``{"rows": [{"age": 31, ...}, ...]}``, or CSV with a header; ``GET /metadata``
    describes the columns. The logger ``vicinal.serve.access`` gets one line of JSON for each
    request, at level INFO.

    Parameters
    ----------
    model : estimator
        Fitted classifier or regressor, or a pipeline that ends in one; scikit-learn's
        ``FixedThresholdClassifier`` sets a decision threshold.
    name : str, default="model"
        Name of the model, shown on the page.
    target : str, default=None
        Name of the target, shown with every prediction.
    table : data frame or ndarray, default=None
        Rows like the training rows: the page starts from them, and explanations compare the query
        with them. By default they are training rows that the model stores, as ``AutoClassifier``
        and ``AutoRegressor`` do.
    y : array-like of shape (n_samples,), default=None
        Targets of ``table``, shown with predictions. They also give intervals to a model without
        own ones, which are valid if the model was not fitted to these rows.
    token : str, default=None
        Required by every request except ``/healthz`` and ``/readyz``: ``Authorization: Bearer
        <token>``, or the password in the dialog of a browser. Printable ASCII characters without
        spaces.
    hosts : sequence of str, default=None
        Accepted host names of requests, without port; ``None`` for any.
    max_bytes : int, default=1 MiB
        Largest body of a request.
    max_rows : int, default=100000
        Largest number of rows of a request, which may have at most 1,000,000 cells.
    max_seconds : float, default=60
        Time limit of a request; longer work is stopped.
    strict : bool, default=False
        Whether rows with values that no training row has, such as unseen categories, are refused
        with status 422. Otherwise the response lists them as ``warnings``.

    Returns
    -------
    starlette.applications.Starlette
        The application.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from starlette.testclient import TestClient
    >>> from vicinal.local import LocalClassifier
    >>> from vicinal.serve import create_app
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LocalClassifier(n_neighbors=40, alpha=1.0, metric="euclidean").fit(X, y)
    >>> client = TestClient(create_app(model))
    >>> client.post("/predict", json={"rows": X[[0, 140]].tolist()}).json()["predictions"]
    [0, 2]
    """
    applications, routing, middleware = map(_starlette, ("applications", "routing", "middleware"))
    if token is not None and not re.fullmatch("[!-~]+", token):
        raise ValueError(
            "token must consist of printable ASCII characters without spaces, because clients "
            "encode others differently; choose another token."
        )
    served = ServedModel(
        model, name, table, y, Limits(max_bytes, max_rows), target=target, strict=strict
    )
    server = _Server(served, token, hosts, max_seconds)
    plan = [
        ("/predict", "POST", server.predict),
        ("/explain", "POST", server.explain),
        ("/neighbors", "POST", server.neighbors),
        ("/metadata", "GET", server.metadata),
        ("/healthz", "GET", server.healthz),
        ("/readyz", "GET", server.readyz),
        ("/", "GET", server.explorer),
    ]
    routes = [
        routing.Route(path, server.guarded(handler), methods=[method])
        for path, method, handler in plan
    ]
    server.routes = ", ".join(f"{method} {path}" for path, method, _ in plan)
    app = applications.Starlette(
        routes=routes,
        middleware=[middleware.Middleware(AccessLog)],
        exception_handlers=dict.fromkeys((404, 405), server.no_route),
        lifespan=server.lifespan,
    )
    app.state.server = server
    return app


def _starlette(module: str) -> Any:
    return import_optional(f"starlette.{module}", needed_by="create_app", extra="serve")


class _Server:
    """Handlers of the routes."""

    def __init__(
        self,
        served: ServedModel,
        token: str | None,
        hosts: Sequence[str] | None,
        max_seconds: float,
    ) -> None:
        self.served = served
        self.token = token
        self.hosts = hosts
        self.max_seconds = max_seconds
        # Predictions of a few rows do not wait for large requests or explanations.
        self.predictions = Workers(max(4, cpu_count()), 64)
        self.large = Workers(max(1, cpu_count() // 2), 8)
        self.explanations = Workers(max(1, cpu_count() // 2), 4)
        self.routes: str
        self.is_stopping, self.is_warm = False, True
        self.on_warm: Callable[[], Any] = lambda: None
        self._running: set[asyncio.Timeout] = set()
        self._n_bytes = 0
        self._responses = _starlette("responses")

    def stop(self, seconds: float) -> None:
        """Refuse new requests, and end running ones after some seconds."""
        self.is_stopping = True
        end = asyncio.get_running_loop().time() + seconds
        for limit in self._running:
            limit.reschedule(min(end, limit.when() or end))

    @asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncIterator[None]:
        """Predict and explain rows after the start; the server is ready then."""
        self.is_warm = False

        async def warm_up() -> None:
            await self.predictions.run(self.served.warm_up, asyncio.Event().wait)
            self.on_warm()
            self.is_warm = True

        task = asyncio.create_task(warm_up())
        yield
        task.cancel()

    @property
    def is_idle(self) -> bool:
        """Whether no request is running."""
        return not self._running

    def guarded(self, handler: Callable[[Any], Awaitable[Any]]) -> Callable:
        """Return a handler that checks the token and reports every error as JSON."""
        is_health = handler in (self.healthz, self.readyz)

        async def endpoint(request: Any) -> Any:
            limit = asyncio.timeout(self.max_seconds)
            try:
                if self.is_stopping and handler != self.healthz:
                    raise RequestError(503, "the server is shutting down.", retry_after=1)
                self._check_host(request)
                if not is_health:
                    self._check_token(request)
                async with limit:
                    self._running.add(limit)
                    return await handler(request)
            except RequestError as error:
                return self._failure(error)
            except TimeoutError:
                limit_text = "the shutdown of the server"
                if not self.is_stopping:
                    limit_text = f"the limit of {self.max_seconds:g} seconds"
                message = f"the request was stopped at {limit_text}; send fewer rows or try again."
                return self._failure(RequestError(503, message, retry_after=1))
            except Exception as error:
                # Its text may contain paths of the server, so only the type is sent.
                name = type(error).__name__
                return self._failure(RequestError(500, f"the model failed: {name}."))
            finally:
                self._running.discard(limit)
                self._n_bytes -= request.scope.pop("n_bytes", 0)

        return endpoint

    def _check_host(self, request: Any) -> None:
        # Protects against DNS rebinding by other sites.
        if self.hosts is None:
            return
        name = _host_name(request.headers.get("host", ""))
        if name not in self.hosts:
            known = ", ".join(self.hosts)
            raise RequestError(400, f"the host is {name!r}, but must be one of {known}.")

    def _check_token(self, request: Any) -> None:
        if self.token is None:
            return
        given = _given_token(request.headers.get("authorization", ""))
        if not secrets.compare_digest(given, self.token.encode()):
            raise RequestError(
                401, "the token is missing or wrong; send 'Authorization: Bearer <token>'."
            )

    def _failure(self, error: RequestError) -> Any:
        headers = {}
        if error.status == 401:
            # Browsers then request the token as a password.
            headers["WWW-Authenticate"] = 'Basic realm="vicinal"'
        if error.retry_after is not None:
            headers["Retry-After"] = str(error.retry_after)
        return self._responses.JSONResponse(
            {"error": error.message}, status_code=error.status, headers=headers
        )

    def _json(self, content: Any) -> Any:
        return self._responses.Response(_encoded(content), media_type="application/json")

    async def _body(self, request: Any) -> bytes:
        max_bytes = self.served.limits.max_bytes
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > max_bytes:
                raise RequestError(
                    413, f"the body has more than {max_bytes} bytes; send fewer rows at a time."
                )
            self._n_bytes += len(part)
            request.scope["n_bytes"] = size
            if self._n_bytes > _MAX_BODIES * max_bytes:
                raise RequestError(503, "the server is busy; try again later.", retry_after=1)
            parts.append(part)
        return b"".join(parts)

    async def _of_table(
        self, request: Any, function: Callable[[Any], Any], workers: Workers | None = None
    ) -> Any:
        """Return the response that a function computes from the rows of the request."""
        body = await self._body(request)

        def computed() -> Any:
            table, request.scope["options"] = self.served.request(body, _is_csv(request))
            request.scope["n_rows"] = num_samples(table)
            return self._json(function(table))

        usual = self.predictions if len(body) <= _LARGE else self.large
        return await (workers or usual).run(computed, partial(_gone, request))

    # --- routes ---

    async def no_route(self, request: Any, error: Any) -> Any:
        """Report a path or method that does not exist."""
        given = f"{request.method} {request.url.path}"
        content = {"error": f"{given} does not exist; the routes are {self.routes}."}
        return self._responses.JSONResponse(content, error.status_code, headers=error.headers)

    async def healthz(self, request: Any) -> Any:
        """Report that the process is alive, also while it shuts down."""
        return self._json({"status": "ok", "live": True})

    async def readyz(self, request: Any) -> Any:
        """Report whether the server takes requests: 503 while it starts or shuts down."""
        if not self.is_warm:
            raise RequestError(503, "the model is not ready yet.", retry_after=1)
        return self._json({"status": "ok", "ready": True, "name": self.served.name})

    async def metadata(self, request: Any) -> Any:
        """Return the inputs and outputs of the model."""
        return self._json(self.served.metadata())

    async def predict(self, request: Any) -> Any:
        """Predict rows."""
        options = _read_options(request.query_params)
        return await self._of_table(request, partial(self.served.predictions, **options))

    async def explain(self, request: Any) -> Any:
        """Explain the prediction of the first row."""

        def explained(table: Any) -> dict[str, Any]:
            return self.served.explanation(table, request.scope["options"].get("counterfactual"))

        return await self._of_table(request, explained, self.explanations)

    async def neighbors(self, request: Any) -> Any:
        """Return the rows of the table that are nearest to the first row."""
        return await self._of_table(request, self.served.neighbors)

    async def explorer(self, request: Any) -> Any:
        """Return the interactive page."""
        html = await self.predictions.run(self.served.page().html, partial(_gone, request))
        return self._responses.HTMLResponse(html, headers={"Content-Security-Policy": _POLICY})


# The page loads nothing from other sites.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; frame-ancestors 'none'"
)


@lru_cache(64)
def _host_name(header: str) -> str | None:
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None


def _is_csv(request: Any) -> bool:
    kind = request.headers.get("content-type", "").split(";")[0]
    return kind.strip().lower() == "text/csv"


async def _gone(request: Any) -> None:
    """Wait until the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _given_token(header: str) -> bytes:
    """Return the token of an Authorization header, Bearer or Basic (its password)."""
    kind, _, value = header.partition(" ")
    if kind.lower() == "bearer":
        return value.encode()
    try:
        return base64.b64decode(value).partition(b":")[2] if kind.lower() == "basic" else b""
    except ValueError:
        return b""


def _read_options(given: Any) -> dict[str, Any]:
    """Return the options of predictions, from the query of an address."""
    for name in given:
        if name not in ("coverage", "typicality"):
            raise RequestError(
                400, f"the option {name!r} does not exist; use coverage or typicality."
            )
    found: dict[str, Any] = {}
    if "coverage" in given:
        try:
            found["coverage"] = float(given["coverage"])
        except ValueError:
            found["coverage"] = 0.0
        if not 0.0 < found["coverage"] < 1.0:
            raise RequestError(400, "coverage must be a probability between 0 and 1, such as 0.9.")
    text = given.get("typicality", "false").lower()
    if text not in ("true", "false"):
        raise RequestError(400, "typicality must be true or false.")
    return found | ({"typicality": True} if text == "true" else {})


def _encoded(value: Any) -> str:
    """Return JSON text; long lists in parts, since the encoder lets no other thread run."""
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        parts = (f"{_ENCODE(name)}:{_encoded(part)}" for name, part in value.items())
        return f"{{{','.join(parts)}}}"
    if not isinstance(value, list) or not value:
        return _ENCODE(value)
    if isinstance(value[0], dict):
        return f"[{','.join(map(_encoded, value))}]"
    n = max(1, _ENCODED // (len(value[0]) + 1 if isinstance(value[0], list) else 1))
    return f"[{','.join(_ENCODE(value[i : i + n])[1:-1] for i in range(0, len(value), n))}]"
