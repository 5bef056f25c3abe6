"""Upper layers use public names of other subpackages: no private attribute, no private module."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "vicinal"
SUBPACKAGES = ["auto", "inspection", "io", "distributed", "report", "serve", "cli"]

# Foundations that are private to the package, not to a subpackage.
SHARED = {"_base", "_kernels", "_conformal"}
# Underscored names that are public API: of named tuples, notebooks, os, Dask and scikit-learn.
PUBLIC_BY_CONVENTION = {
    "_asdict",
    "_exit",
    "_fields",
    "_make",
    "_parameter_constraints",
    "_meta_nonempty",
    "_replace",
    "_repr_html_",
}
# Protocols between layers, private by name: device of the training rows, held-out predictions,
# ONNX, search of auto.
PROTOCOLS = {
    "_columns",
    "_encodings",
    "_fits_each_fold",
    "_graph_parts",
    "_held_out_rows",
    "_labels_on_device",
    "_model",
    "_net_arrays",
    "_prior",
    "_reference",
    "_score_limit",
    "_tree_arrays",
}
# Fitted models of scikit-learn have state of private names only, which files and graphs must hold.
STATE_OF_OTHERS = ("io/_foreign.py", "io/_onnx/_trees.py")


def is_private(name):
    known = PUBLIC_BY_CONVENTION | PROTOCOLS
    return name.startswith("_") and not name.startswith("__") and name not in known


def is_own(value):
    """Return whether an object is the one whose class is being written."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in {"super", "type"}
    return isinstance(value, ast.Name) and value.id in {"self", "cls"}


def private_module(module, subpackage):
    """Return whether a dotted name leads through a private part of somewhere else."""
    parts = module.split(".")
    if parts[0] == "vicinal" and parts[1:2] and parts[1] in SHARED | {subpackage}:
        return False
    return any(is_private(part) for part in parts)


def defined_in(tree):
    """Return the names of functions and methods that a file defines."""
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def offences(source, subpackage):
    """List the private names that a file of a subpackage uses of others."""
    tree, found = ast.parse(source), []
    own_names = defined_in(tree)
    for node in ast.walk(tree):
        names = []
        if (
            isinstance(node, ast.Attribute)
            and is_private(node.attr)
            and not is_own(node.value)
            and node.attr not in own_names
        ):
            names = [ast.unparse(node)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if private_module(alias.name, subpackage)]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name for name in full if private_module(name, subpackage)]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"getattr", "hasattr", "setattr", "delattr"}
            and isinstance(node.args[1], ast.Constant)
            and is_private(node.args[1].value)
            and not is_own(node.args[0])
        ):
            names = [ast.unparse(node)]
        found += [f"line {node.lineno}: {name}" for name in names]
    return found


@pytest.mark.parametrize("subpackage", SUBPACKAGES)
def test_upper_layers_use_public_names_only(subpackage):
    found = {
        str(path.relative_to(PACKAGE)): offences(path.read_text(), subpackage)
        for path in sorted((PACKAGE / subpackage).rglob("*.py"))
    }
    for name in STATE_OF_OTHERS:
        found.pop(name, None)
    assert not {name: lines for name, lines in found.items() if lines}


@pytest.mark.parametrize(
    "line",
    [
        "model._data",
        "model.inner[0]._data.rows",
        "getattr(model, '_stack', None)",
        "hasattr(model, '_stack')",
        "from vicinal.local._search import NeighborIndex",
        "from vicinal.local import _search",
        "import vicinal.local._search",
        "from sklearn.utils._param_validation import Interval",
    ],
)
def test_a_private_name_is_caught(line):
    assert len(offences(line, "inspection")) == 1


@pytest.mark.parametrize(
    "line",
    [
        "self._data",
        "super()._data",
        "getattr(self, '_data')",
        "def _steps(path): ...\nlist(map(Walker._steps, paths))",
        "model.neighbors(X)",
        "entry._replace(name='a')",
        "getattr(model, '_fits_each_fold', False)",
        "from vicinal.inspection.compare._folds import score",
        "from vicinal._base._compat import rows_of",
        "from vicinal.local import LocalClassifier",
        "from . import _folds",
    ],
)
def test_own_and_public_names_are_free(line):
    assert not offences(line, "inspection")
