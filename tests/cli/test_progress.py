"""Long work is shown, short work is not."""

import threading

import pytest

pytest.importorskip("typer")

from vicinal.cli import _progress


def test_long_work_is_logged_without_a_terminal(monkeypatch):
    lines, seen = [], threading.Event()

    def log(text):
        lines.append(text)
        if len(lines) == 3:
            seen.set()

    monkeypatch.setattr(_progress, "log", log)
    monkeypatch.setattr(_progress, "_PAUSE", 0.0)
    monkeypatch.setattr(_progress, "_PAUSES", (0.0, 0.001))
    with _progress.working("counting"):
        assert seen.wait(60)
    assert lines[0] == "  0 s: counting"
    n_lines = len(lines)
    monkeypatch.setattr(_progress, "_PAUSE", 60.0)
    with _progress.working("counting"):
        pass
    assert len(lines) == n_lines
