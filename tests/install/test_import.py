"""What `import vicinal` costs and what it leaves alone; each case in its own interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.common.discovery import public_estimators

import vicinal

SOURCE = str(Path(vicinal.__path__[0]).parent)
HEAVY = ("torch", "dask", "matplotlib", "polars", "pandas", "skrub", "jinja2", "typer", "rich")


def run(code, **environment):
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCE, **environment},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_import_loads_no_heavy_package():
    loaded = run("import vicinal, sys; print(*sys.modules)").split()
    assert not set(HEAVY) & set(loaded)
    assert not any(name.startswith(("numba", "llvmlite")) for name in loaded)


def test_import_loads_fewer_modules_than_scikit_learn():
    ours, theirs = (
        len(run(f"import {name}, sys; print(*sys.modules)").split())
        for name in ("vicinal", "sklearn")
    )
    assert ours < theirs


def test_public_names_are_reachable_and_listed():
    for name in vicinal.__all__:
        assert getattr(vicinal, name) is not None
        assert name in dir(vicinal)


FAMILIES = (
    "auto",
    "ensemble",
    "local",
    "metric",
    "partition",
    "pretrained",
    "subspace",
    "surface",
    "uncertainty",
)


def test_every_estimator_of_a_family_is_reachable_at_the_top():
    family_of = {
        name: cls.__module__.split(".")[1]
        for name, cls in public_estimators().items()
        if cls.__module__.split(".")[1] in FAMILIES
    }
    assert vicinal._ESTIMATORS == family_of


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'LocalClasifier'"):
        vicinal.LocalClasifier  # noqa: B018


# A finder that hides optional packages, as if only the core dependencies were installed.
BARE = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hide())
"""
OPTIONAL = (
    *HEAVY,
    *("pyarrow", "onnx", "skl2onnx", "onnxruntime"),
    *("pynndescent", "distributed", "lightgbm"),
)


def test_every_public_package_imports_with_the_core_alone():
    code = BARE.format(hidden=OPTIONAL) + (
        "import vicinal\n"
        "from tests.common.discovery import public_packages\n"
        "print(*(package.__name__ for package in public_packages()))"
    )
    root = str(Path(__file__).parents[2])
    imported = run(code, PYTHONPATH=os.pathsep.join([SOURCE, root])).split()
    assert "vicinal.linear" in imported
