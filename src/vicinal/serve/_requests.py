"""Requests: limits, parsing of bodies, and worker threads."""

import asyncio
import csv
import io
import json
import math
import queue
import re
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from vicinal._base import counted
from vicinal._base._parallel import check_stopped, stopped_by

_CODE = re.compile(r"[+-]?0\d+|.*_.*")
_IDLE_SECONDS = 10.0  # after which a thread without work ends
_SHORT_SECONDS = 0.05


class RequestError(Exception):
    """A refused request: HTTP status, message, and seconds after which to retry."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after


class Limits(NamedTuple):
    """Largest size of a request."""

    max_bytes: int = 2**20
    max_rows: int = 100_000
    max_cells: int = 1_000_000

    def check(self, n_rows: int, n_cells: int) -> None:
        """Raise for more rows or cells."""
        if n_rows > self.max_rows:
            raise RequestError(
                413, f"the request has more than {self.max_rows} rows; send fewer at a time."
            )
        if n_cells > self.max_cells:
            raise RequestError(
                413, f"the request has more than {self.max_cells} cells; send fewer rows at a time."
            )


DEFAULT_LIMITS = Limits()


def read_json(body: bytes, limits: Limits) -> Any:
    """Return parsed JSON; bodies with too many values are refused before parsing."""
    limits.check(0, body.count(b","))
    try:
        text = body.decode()
        content = json.loads(text, parse_constant=_refuse_constant)
        if "\\u" in text:
            json.dumps(content, ensure_ascii=False).encode()  # ValueError for a lone surrogate
    except (ValueError, RecursionError):
        raise RequestError(400, "the body is not valid JSON in UTF-8.") from None
    return content


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not valid JSON")


def read_csv(body: bytes, columns: Sequence[str], limits: Limits) -> dict[str, list]:
    """Return some columns of a CSV text with a header; numeric cells become floats."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RequestError(400, "the CSV text is not valid UTF-8.") from None
    first = text.partition("\n")[0]
    delimiter = ";" if first.count(";") > first.count(",") else ","
    limits.check(0, text.count(delimiter))
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = next(rows, [])
        wanted = _positions(header, columns)
        found: list[list] = []
        for row in filter(None, rows):
            if len(row) != len(header):
                raise RequestError(
                    400,
                    f"row {len(found)} of the CSV text has {counted(len(row), 'cell')}, but the "
                    f"header has {len(header)}.",
                )
            found.append([_read_cell(row[j]) for j in wanted])
            check_stopped()
            limits.check(len(found), len(found) * len(header))
    except csv.Error as error:
        raise RequestError(400, f"the CSV text is not valid: {error}.") from None
    return {name: [row[j] for row in found] for j, name in enumerate(columns)}


def _positions(header: list[str], columns: Sequence[str]) -> list[int]:
    """Return the positions of columns in a header."""
    position = {name: j for j, name in enumerate(header)}
    if len(position) < len(header):
        twice = next(name for j, name in enumerate(header) if position[name] != j)
        raise RequestError(
            400, f"the CSV header has the column {twice!r} twice; names must be unique."
        )
    missing = [name for name in columns if name not in position]
    if missing:
        raise RequestError(400, f"the column {missing[0]!r} is missing in the CSV header.")
    return [position[name] for name in columns]


def _read_cell(cell: str) -> Any:
    """Return a cell as a float or a string; leading zeros or underscores make it a string."""
    if cell == "":
        return None
    if _CODE.fullmatch(cell):
        return cell
    try:
        number = float(cell)
    except ValueError:
        return cell
    return cell if math.isinf(number) else number


class Workers:
    """A few threads with a short queue; further requests are refused immediately.

    When a request is cancelled, by a timeout or because the client disconnected, its work leaves
    the queue or stops at the next :func:`~vicinal._base._parallel.check_stopped`.

    Parameters
    ----------
    n_threads : int
        Number of requests processed in parallel.
    n_waiting : int
        Number of further requests that may wait.
    """

    def __init__(self, n_threads: int, n_waiting: int) -> None:
        self._free = threading.Semaphore(n_threads + n_waiting)
        self._waiting: queue.SimpleQueue = queue.SimpleQueue()
        self._n_missing = n_threads  # threads that do not run
        self._n_idle = 0  # threads that run, less the requests that are queued or processed
        self._lock = threading.Lock()

    async def run(self, function: Callable[[], Any], gone: Callable[[], Coroutine]) -> Any:
        """Return the result of a function that runs in one of the threads.

        ``gone`` waits until the client disconnects, which stops the work.
        """
        if not self._free.acquire(blocking=False):
            raise RequestError(503, "the server is busy; try again later.", retry_after=1)
        future: Future = Future()
        future.add_done_callback(lambda _: self._free.release())
        stop = threading.Event()
        self._waiting.put((future, stop, function))
        with self._lock:
            is_needed = self._n_idle <= 0 < self._n_missing
            self._n_missing -= is_needed
            self._n_idle += is_needed - 1
        if is_needed:
            # A daemon, so that a long call of a model does not delay the exit.
            threading.Thread(target=self._work, daemon=True).start()
        result: Any = asyncio.wrap_future(future)
        waiting = [result]
        try:
            # Most requests end before it is worth knowing whether the client is still there.
            await asyncio.wait(waiting, timeout=_SHORT_SECONDS)
            if not result.done():
                waiting.append(asyncio.ensure_future(gone()))
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                raise RequestError(499, "the client disconnected.")
            return result.result()
        finally:
            stop.set()
            for part in waiting:
                part.cancel()

    def _work(self) -> None:
        """Process the queue until it is empty for a while."""
        while True:
            try:
                future, stop, function = self._waiting.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    is_idle = self._n_idle > 0
                    self._n_idle -= is_idle
                    self._n_missing += is_idle
                if is_idle:
                    return
                continue
            if future.set_running_or_notify_cancel():
                try:
                    with stopped_by(stop):
                        result = function()
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
                    del result
            del future, function
            with self._lock:
                self._n_idle += 1
