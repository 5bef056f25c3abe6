"""Commands printed in the guide and in the README can be typed as they are."""

import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("polars")

from typer.main import get_command

from vicinal.cli._app import app

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"^(?:\$ )?vicinal (?P<rest>[a-z-].*)$", flags=re.MULTILINE)
COMMANDS = [
    match["rest"]
    for page in (ROOT / "README.md", ROOT / "docs" / "guide" / "shell.md")
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), flags=re.DOTALL)
    for match in LINE.finditer(block)
]


@pytest.mark.parametrize("line", sorted(set(COMMANDS)))
def test_printed_command_parses(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in re.findall(
        r"\w+\.(?:csv(?:\.gz)?|vicinal)", line
    ):  # commands look for their files first
        Path(path).touch()
    name, *arguments = shlex.split(line, comments=True)
    command = get_command(app).commands[name]
    assert command.make_context(name, arguments).params is not None


def test_the_pages_print_every_command():
    printed = {line.split()[0] for line in COMMANDS}
    assert printed >= {"compare", "fit", "predict", "explain", "report", "info"}
