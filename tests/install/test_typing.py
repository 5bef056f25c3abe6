"""The annotations of the public API reach users who check their code strictly."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPTIONS = ("--strict", "--ignore-missing-imports", "--follow-imports=silent", "--config-file=")


def mypy(path, folder):
    if find_spec("mypy") is None:
        pytest.skip("mypy is not installed: pip install 'vicinal[test]'")
    command = [sys.executable, "-m", "mypy", *OPTIONS, f"--cache-dir={folder / 'cache'}", path]
    return subprocess.run(command, cwd=ROOT / "src", capture_output=True, text=True, check=False)


def test_strict_checks_accept_a_usage_example_and_see_its_types(tmp_path):
    usage = (ROOT / "tests/install/usage.py").read_text()
    path = tmp_path / "usage.py"
    path.write_text(usage + "\n\nwrong: int = compare(None, None, None)\n")
    result = mypy(path, tmp_path)
    errors = [line for line in result.stdout.splitlines() if ": error: " in line]
    assert len(errors) == 1, result.stdout + result.stderr
    assert 'has type "Comparison"' in errors[0]
