"""Progress of long work, by rich."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from vicinal._base import _clock
from vicinal.cli._show import log

# Seconds before the first line about work that takes long, and between further ones.
_PAUSE, _PAUSES = 2.0, (8.0, 20.0, 30.0)


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show work of more than two seconds: a clock on a terminal, log lines without one."""
    done, started = threading.Event(), _clock.now()

    def show() -> None:
        if done.wait(_PAUSE):
            return
        console = Console(stderr=True)
        if console.is_terminal:
            with Bar(
                SpinnerColumn(),
                TextColumn(text),
                TimeElapsedColumn(),
                console=console,
                transient=True,
                redirect_stdout=False,  # the result may go to a pipe
                redirect_stderr=False,
            ) as bar:
                bar.add_task("", total=None)
                done.wait()
            return
        for pause in chain(_PAUSES, repeat(_PAUSES[-1])):
            log(f"  {_clock.now() - started:.0f} s: {text}")
            if done.wait(pause):
                return

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class LiveBoard:
    """The leaderboard while it grows; plain lines where standard error is no terminal."""

    def __init__(self, n_models: int, budget: float, quiet: bool = False) -> None:
        self.n_models, self.budget, self.quiet = n_models, budget, quiet
        self.started = _clock.now()
        self.board: Any = None
        self.seen: set[tuple[str, int]] = set()
        console = Console(stderr=True)
        self.live = None
        if console.is_terminal and not quiet:
            self.live = Live(console=console, transient=True, get_renderable=self._render)

    def __enter__(self) -> "LiveBoard":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.live:
            self.live.stop()

    def __call__(self, board: Any) -> None:
        """Take the leaderboard after a fold."""
        self.board = board
        if self.live or self.quiet:
            return
        for entry in board.entries:
            key, note = (entry.name, len(entry.scores)), entry.error or entry.note
            if (len(entry.scores) == board.n_folds or note) and key not in self.seen:
                self.seen.add(key)
                score = f"{board.sign * entry.mean:.4f}" if len(entry.scores) else ""
                seconds = _clock.now() - self.started
                log(f"  {seconds:5.0f} s  {entry.name}  {score}  {note}".rstrip())

    def _render(self) -> Any:
        passed = f"{_clock.now() - self.started:.0f} of at most {self.budget:.0f} s"
        text = f"comparing {self.n_models} models, {passed}"
        return Text(text if self.board is None else f"{self.board}\n{text}", no_wrap=True)
