"""Progress of long work: silent by default, a rich progress bar or plain lines otherwise."""

import sys
import threading
import time


class Progress:
    """Show the progress of a loop of known length.

    Parameters
    ----------
    total : int
        Number of steps.
    label : str
        What is being done, shown before the count.
    verbose : int, default=0
        0 is silent.

    Examples
    --------
    >>> from vicinal._base import Progress
    >>> with Progress(3, "fitting starts") as progress:
    ...     for _ in range(3):
    ...         progress.advance()
    >>> progress.done
    3
    """

    def __init__(self, total: int, label: str, *, verbose: int = 0) -> None:
        self.total = total
        self.label = label
        self.verbose = verbose
        self.done = 0
        self._lock = threading.Lock()

    def __enter__(self) -> "Progress":
        self._printer = _choose_printer(self.total, self.label) if self.verbose else None
        return self

    def __exit__(self, *error: object) -> None:
        if self._printer:
            self._printer.close()

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Count ``steps`` as done and show ``note``."""
        with self._lock:
            self.done += steps
            if self._printer:
                self._printer.show(self.done, note)


class _PlainLines:
    """About ten lines per loop, at most two per second; for log files."""

    def __init__(self, total: int, label: str) -> None:
        self.total, self.label = total, label
        self.started = self.last = time.perf_counter()

    def show(self, done: int, note: str) -> None:
        now = time.perf_counter()
        is_tenth = done * 10 // max(1, self.total) > (done - 1) * 10 // max(1, self.total)
        if done < self.total and not (is_tenth and now - self.last > 0.5):
            return
        self.last = now
        line = f"[{self.label}] {done}/{self.total}  {now - self.started:.1f} s  {note}"
        print(line.rstrip(), file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


class _RichBar:
    def __init__(self, total: int, label: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self.bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
        )
        self.task = self.bar.add_task(label, total=total, note="")
        self.bar.start()

    def show(self, done: int, note: str) -> None:
        self.bar.update(self.task, completed=done, note=note)

    def close(self) -> None:
        self.bar.stop()


def _choose_printer(total: int, label: str) -> _PlainLines | _RichBar:
    """Use rich on a terminal, if it is installed; a log file gets plain lines."""
    if not sys.stderr.isatty():
        return _PlainLines(total, label)
    try:
        return _RichBar(total, label)
    except ImportError:
        return _PlainLines(total, label)
