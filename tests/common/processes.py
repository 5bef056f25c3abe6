"""Modules of the tests that run in processes of their own."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
posix = pytest.mark.skipif(
    os.name != "posix", reason="needs POSIX signals, links or file modes, which Windows lacks"
)


def module(name, *arguments, **variables):
    """Return what `subprocess` needs to run ``python -m tests.name arguments``."""
    return {
        "args": [sys.executable, "-W", "ignore", "-m", f"tests.{name}", *map(str, arguments)],
        "cwd": ROOT,
        "env": {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **variables},
    }
