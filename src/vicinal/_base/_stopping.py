"""Work that stops when nobody waits for it: long loops call :func:`check_stopped`."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_stop: ContextVar[threading.Event | None] = ContextVar("stop", default=None)


class WorkStoppedError(Exception):
    """The result is not wanted any more."""


@contextmanager
def stopped_by(event: threading.Event) -> Iterator[None]:
    """Let the work of this block, in this thread, end soon after the event is set."""
    token = _stop.set(event)
    try:
        yield
    finally:
        _stop.reset(token)


def check_stopped() -> None:
    """Raise if the work of the enclosing :func:`stopped_by` is not wanted any more."""
    event = _stop.get()
    if event is not None and event.is_set():
        raise WorkStoppedError
