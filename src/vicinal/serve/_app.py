"""The routes of a served model."""

import asyncio
import base64
import json
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from vicinal._base import import_optional
from vicinal.serve import _inference_protocol as protocol
from vicinal.serve._errors import RequestError
from vicinal.serve._explorer import ServedExplorer
from vicinal.serve._served_model import ServedModel

MAX_BYTES = 16 * 2**20
MAX_SECONDS = 60.0


def create_app(
    model: Any,
    *,
    name: str = "model",
    table: Any = None,
    y: Any = None,
    token: str | None = None,
    hosts: Sequence[str] | None = None,
    max_bytes: int = MAX_BYTES,
    max_seconds: float = MAX_SECONDS,
) -> Any:
    """Return an ASGI application that answers for a fitted model.

    ``GET /`` is a page to play with the columns of a row; ``POST /predict``, ``POST /explain`` and
    ``POST /neighbors`` take JSON, ``{"rows": [{"age": 31, ...}, ...]}``, or CSV with a head;
    ``/predict?coverage=0.9&support=true`` adds intervals or sets of labels that hold the truth with
    this chance, and how usual each row is; ``GET /metadata`` and ``GET /healthz`` tell of the
    model; ``/v2/...`` is the Open Inference Protocol.

    Parameters
    ----------
    model : estimator
        Fitted classifier or regressor, or a pipeline that ends in one; in scikit-learn's
        ``FixedThresholdClassifier`` its threshold decides.
    name : str, default="model"
        What clients of the inference protocol call it.
    table : data frame or ndarray, default=None
        Rows like those of the training set: the page starts from them, and explanations compare
        with them.
    y : array-like of shape (n_samples,), default=None
        Their target, shown beside answers. For a model without intervals of its own it makes them,
        and they are honest if the model had not seen these rows.
    token : str, default=None
        Asked of every request but ``/healthz``, as ``Authorization: Bearer <token>``, or as the
        password that a browser asks for.
    hosts : sequence of str, default=None
        Names by which requests may call this server, without port; ``None`` for any.
    max_bytes : int, default=16 MiB
        Largest body of a request.
    max_seconds : float, default=60
        Longest time to an answer.

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
    applications = import_optional("starlette.applications", needed_by="create_app", extra="serve")
    routing = import_optional("starlette.routing", needed_by="create_app", extra="serve")
    server = _Server(ServedModel(model, name, table, y), token, hosts, max_bytes, max_seconds)
    v2 = f"/v2/models/{name}"
    plan = [
        ("/", "GET", server.explorer),
        ("/healthz", "GET", server.healthz),
        ("/metadata", "GET", server.metadata),
        ("/predict", "POST", server.predict),
        ("/explain", "POST", server.explain),
        ("/neighbors", "POST", server.neighbors),
        ("/v2", "GET", server.v2_server),
        ("/v2/health/live", "GET", server.v2_health),
        ("/v2/health/ready", "GET", server.v2_health),
        (v2, "GET", server.v2_model),
        (f"{v2}/ready", "GET", server.v2_health),
        (f"{v2}/versions/1", "GET", server.v2_model),
        (f"{v2}/versions/1/ready", "GET", server.v2_health),
        (f"{v2}/infer", "POST", server.v2_infer),
        (f"{v2}/versions/1/infer", "POST", server.v2_infer),
    ]
    routes = [
        routing.Route(path, server.guarded(handler), methods=[method])
        for path, method, handler in plan
    ]
    return applications.Starlette(routes=routes)


class _Server:
    """What the routes do."""

    def __init__(
        self,
        served: ServedModel,
        token: str | None,
        hosts: Sequence[str] | None,
        max_bytes: int,
        max_seconds: float,
    ) -> None:
        self.served = served
        self.token = token
        self.hosts = hosts
        self.max_bytes = max_bytes
        self.max_seconds = max_seconds
        self._responses = import_optional(
            "starlette.responses", needed_by="create_app", extra="serve"
        )
        self._threads = import_optional(
            "starlette.concurrency", needed_by="create_app", extra="serve"
        )

    def guarded(self, handler: Callable[[Any], Awaitable[Any]]) -> Callable:
        """Return the handler behind the token, with every failure as one line of JSON."""

        async def endpoint(request: Any) -> Any:
            try:
                self._check_host(request)
                if handler != self.healthz:
                    self._check_token(request)
                return await asyncio.wait_for(handler(request), self.max_seconds)
            except RequestError as error:
                return self._json({"error": error.message}, error.status)
            except TimeoutError:
                seconds = f"{self.max_seconds:g}"
                return self._json({"error": f"no answer within {seconds} seconds."}, 503)
            except Exception as error:
                # Its text may name files of this machine: the type is all that a client is told.
                return self._json({"error": f"the model failed: {type(error).__name__}."}, 500)

        return endpoint

    def _check_host(self, request: Any) -> None:
        # A name of another site may be made to lead here; its pages could then read the answers.
        name = request.url.hostname
        if self.hosts is not None and name not in self.hosts:
            known = ", ".join(self.hosts)
            raise RequestError(400, f"host {name!r} is not served here, only {known}.")

    def _check_token(self, request: Any) -> None:
        if self.token is None:
            return
        given = _given_token(request.headers.get("authorization", ""))
        if not secrets.compare_digest(given, self.token.encode()):
            raise RequestError(401, "send the header 'Authorization: Bearer <token>'.")

    def _json(self, content: Any, status: int = 200) -> Any:
        # A browser then asks for a password, the token, and sends it from the page too.
        headers = {"WWW-Authenticate": 'Basic realm="vicinal"'} if status == 401 else None
        return self._responses.JSONResponse(content, status_code=status, headers=headers)

    async def _body(self, request: Any) -> bytes:
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self.max_bytes:
                raise RequestError(413, f"a request may have {self.max_bytes} bytes at most.")
            parts.append(part)
        return b"".join(parts)

    async def _parsed(self, request: Any) -> Any:
        return _read_json(await self._body(request))

    async def _table(self, request: Any) -> Any:
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind == "text/csv":
            try:
                text = (await self._body(request)).decode("utf-8-sig")
            except UnicodeDecodeError:
                raise RequestError(400, "the CSV text is not UTF-8.") from None
            return self.served.from_csv(text)
        content = await self._parsed(request)
        rows = content.get("rows") if isinstance(content, dict) else content
        return self.served.table(rows)

    async def _in_thread(self, function: Callable, *arguments: Any) -> Any:
        return await self._threads.run_in_threadpool(function, *arguments)

    # --- routes ---

    async def healthz(self, request: Any) -> Any:
        """Tell that the server answers."""
        return self._json({"status": "ok"})

    async def metadata(self, request: Any) -> Any:
        """Tell what the model takes and gives."""
        return self._json(self.served.metadata())

    async def predict(self, request: Any) -> Any:
        """Answer rows."""
        coverage, support = _read_coverage(request), _read_flag(request, "support")
        table = await self._table(request)
        found = await self._in_thread(self.served.predictions, table, coverage, support)
        return self._json(found)

    async def explain(self, request: Any) -> Any:
        """Give the reasons of one row."""
        table = await self._table(request)
        return self._json(await self._in_thread(self.served.explanation, table))

    async def neighbors(self, request: Any) -> Any:
        """Give the rows of the table that are nearest to one."""
        table = await self._table(request)
        return self._json(await self._in_thread(self.served.neighbors, table))

    async def explorer(self, request: Any) -> Any:
        """Show the page."""
        page = await self._in_thread(ServedExplorer(self.served).html)
        return self._responses.HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})

    async def v2_server(self, request: Any) -> Any:
        """Tell which protocol is spoken."""
        from vicinal import __version__

        return self._json(
            {"name": "vicinal", "version": __version__, "extensions": ["binary_tensor_data"]}
        )

    async def v2_health(self, request: Any) -> Any:
        """Tell that the model is ready."""
        return self._json({"live": True, "ready": True, "name": self.served.name})

    async def v2_model(self, request: Any) -> Any:
        """Tell inputs and outputs."""
        return self._json(protocol.model_metadata(self.served))

    async def v2_infer(self, request: Any) -> Any:
        """Answer tensors."""
        body, tensors = await self._body(request), b""
        size = request.headers.get("inference-header-content-length")
        if size is not None:
            if not (size.isascii() and size.isdigit()) or int(size) > len(body):
                raise RequestError(400, "Inference-Header-Content-Length is no length of the JSON.")
            body, tensors = body[: int(size)], body[int(size) :]
        content = _read_json(body)
        return self._json(await self._in_thread(protocol.infer, self.served, content, tensors))


# The page brings all it needs: nothing is fetched from elsewhere.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:"
)


def _given_token(header: str) -> bytes:
    """Return the token of an Authorization header: after Bearer, or the password of Basic."""
    kind, _, value = header.partition(" ")
    if kind.lower() == "bearer":
        return value.encode()
    try:
        return base64.b64decode(value).partition(b":")[2] if kind.lower() == "basic" else b""
    except ValueError:
        return b""


def _read_coverage(request: Any) -> float | None:
    text = request.query_params.get("coverage")
    if text is None:
        return None
    try:
        coverage = float(text)
    except ValueError:
        coverage = 0.0
    if not 0.0 < coverage < 1.0:
        raise RequestError(400, "coverage must be a chance between 0 and 1, such as 0.9.")
    return coverage


def _read_flag(request: Any, name: str) -> bool:
    text = request.query_params.get(name, "false").lower()
    if text not in ("true", "false"):
        raise RequestError(400, f"{name} must be true or false.")
    return text == "true"


def _read_json(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise RequestError(400, "the body is not valid JSON.") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")
