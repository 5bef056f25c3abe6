"""Threads that do the work of requests, and stop it when nobody waits for it."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from vicinal._base._stopping import stopped_by
from vicinal.serve._reading import RequestError


class Workers:
    """A few threads with a short queue; what does not fit is refused at once.

    Work whose request was cancelled, by a timeout or because the client went away, leaves the queue
    or stops at its next :func:`~vicinal._base._stopping.check_stopped`. It counts until then.

    Parameters
    ----------
    n_threads : int
        How many requests are worked on at a time.
    n_waiting : int
        How many more may wait.
    """

    def __init__(self, n_threads: int, n_waiting: int) -> None:
        self._free = threading.Semaphore(n_threads + n_waiting)
        self._waiting: deque[tuple[Future, threading.Event, Callable]] = deque()
        self._idle = n_threads
        self._lock = threading.Lock()

    async def run(self, function: Callable[[], Any], gone: Callable[[], Coroutine]) -> Any:
        """Return what a function returns in one of the threads.

        ``gone`` waits until the client goes away; the work then ends too.
        """
        if not self._free.acquire(blocking=False):
            raise RequestError(503, "the server is busy; try again later.", retry_after=1)
        future: Future = Future()
        future.add_done_callback(lambda _: self._free.release())
        stop = threading.Event()
        with self._lock:
            self._waiting.append((future, stop, function))
            is_needed = self._idle > 0
            self._idle -= is_needed
        if is_needed:
            # Not waited for when the process ends: a model may be in a long call.
            threading.Thread(target=self._work, daemon=True).start()
        result, left = asyncio.wrap_future(future), asyncio.ensure_future(gone())
        try:
            await asyncio.wait([result, left], return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                raise RequestError(499, "the client went away.")
            return result.result()
        finally:
            stop.set()
            result.cancel()
            left.cancel()

    def _work(self) -> None:
        """Work until nothing waits."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._idle += 1
                    return
                future, stop, function = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                with stopped_by(stop):
                    result = function()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
