"""The layers of the package hold, and a wrong import is caught."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT_IMPORTS = Path(sys.executable).parent / "lint-imports"


def lint_imports(folder):
    if not LINT_IMPORTS.exists():
        pytest.skip("import-linter is not installed: pip install 'vicinal[test]'")
    return subprocess.run(
        [LINT_IMPORTS, "--no-cache"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(folder / "src")},
        check=False,
    )


@pytest.fixture
def copy_of_the_package(tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_imports_go_downward_only(copy_of_the_package):
    result = lint_imports(copy_of_the_package)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("file", "wrong_import"),
    [
        ("linear/__init__.py", "import vicinal.neighbors"),
        ("_kernels/_jit.py", "import vicinal.linear"),
        ("_kernels/_jit.py", "import sklearn"),
        ("_base/_blocks.py", "import vicinal.datasets"),
        ("linear/__init__.py", "import torch"),
        ("datasets/__init__.py", "import matplotlib"),
    ],
)
def test_a_wrong_import_is_caught(copy_of_the_package, file, wrong_import):
    path = copy_of_the_package / "src" / "vicinal" / file
    path.write_text(path.read_text() + f"\n{wrong_import}\n")
    result = lint_imports(copy_of_the_package)
    assert result.returncode != 0
    assert "BROKEN" in result.stdout
