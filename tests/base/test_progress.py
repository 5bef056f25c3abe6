import builtins

import pytest

from vicinal._base import Progress
from vicinal._base._progress import _choose_printer, _PlainLines, _RichBar


def test_last_step_is_always_printed(capsys):
    with Progress(25, "starts", verbose=1) as progress:
        for _ in range(25):
            progress.advance(note="error 0.1")
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("[starts] 25/25")
    assert lines[-1].endswith("error 0.1")
    assert len(lines) <= 11


def test_rich_on_a_terminal(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    printer = _choose_printer(3, "starts")
    printer.show(1, "note")
    printer.close()
    assert isinstance(printer, _RichBar)


def test_plain_lines_without_rich(monkeypatch):
    real_import = builtins.__import__

    def no_rich(name, *args, **kwargs):
        if name.startswith("rich"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(builtins, "__import__", no_rich)
    assert isinstance(_choose_printer(3, "starts"), _PlainLines)
