"""Progress of long work, and leaderboards, by rich."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
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
            key = (entry.name, len(entry.scores))
            finished = len(entry.scores) == board.n_folds or entry.error or entry.note
            if finished and key not in self.seen:
                self.seen.add(key)
                score = f"{board.sign * entry.mean:.4f}" if len(entry.scores) else ""
                note = entry.error or entry.note
                log(f"  {self._clock()}  {entry.name}  {score}  {note}".rstrip())

    def _clock(self) -> str:
        return f"{_clock.now() - self.started:5.0f} s"

    def _render(self) -> Any:
        left = f"{_clock.now() - self.started:.0f} of at most {self.budget:.0f} s"
        if self.board is None:
            return Text(f"comparing {self.n_models} models, {left}", style="dim")
        table = leaderboard(self.board)
        table.caption = f"comparing {self.n_models} models, {left}"
        return table


def leaderboard(board: Any) -> Table:
    """Return a rich table of a comparison."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    headers = ("", "model", board.metric_label, "± se", "folds", "fit s", "predict s", "")
    for header in headers:
        table.add_column(header, justify="left" if header in ("model", "") else "right")
    for rank, entry in zip(board.ranks, board.entries, strict=True):
        if not len(entry.scores):
            reason = f"failed: {entry.error}" if entry.error else entry.note
            table.add_row("-", Text(entry.name, "dim"), *[""] * 5, Text(reason, "yellow"))
            continue
        se = "" if entry.standard_error != entry.standard_error else f"{entry.standard_error:.4f}"
        table.add_row(
            str(rank or "-"),
            Text(entry.name, "bold" if rank == 1 else ""),
            Text(f"{board.sign * entry.mean:.4f}", "bold green" if rank == 1 else ""),
            se,
            f"{len(entry.scores)}/{board.n_folds}",
            f"{entry.fit_seconds:.2f}",
            f"{entry.predict_seconds:.3f}",
            Text(entry.note, "yellow"),
        )
    return table


def print_leaderboard(board: Any) -> None:
    """Print a comparison on standard output; without colours and boxes where it is piped."""
    console = Console()
    if console.is_terminal:
        if board.warning:
            console.print(Text(board.warning, "yellow"))
        console.print(leaderboard(board))
    else:
        print(board)
