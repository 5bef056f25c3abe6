"""The kernels stay small enough to read, and compiled functions are called as they are meant."""

import ast
from functools import cache
from pathlib import Path

import pytest

import vicinal

PACKAGE = Path(vicinal.__file__).parent
FILES = sorted((PACKAGE / "_kernels").rglob("*.py"))
MOST_ARGUMENTS = 10
MOST_BRANCHES = 20
_BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.While,
    ast.ExceptHandler,
    ast.comprehension,
    ast.match_case,
)
# Only compiled functions may call what these decorate: Python cannot call the first kind.
_INNER = {"inner_jit", "inline_jit"}
# These count no references to arrays.
_UNCOUNTED = {"inner_jit", "outer_jit"}


@cache
def nodes(path):
    return list(ast.walk(ast.parse(path.read_text())))


@cache
def functions(path):
    return [node for node in nodes(path) if isinstance(node, ast.FunctionDef)]


def complexity(function):
    """Count the ways through a function: one, and one more for each branch."""
    inside = list(ast.walk(function))
    branches = sum(isinstance(node, _BRANCHES) for node in inside)
    return 1 + branches + sum(len(n.values) - 1 for n in inside if isinstance(n, ast.BoolOp))


def decorators(function):
    return {node.id for node in function.decorator_list if isinstance(node, ast.Name)}


def test_complexity_counts_branches():
    source = (
        "def f(x):\n    for i in x:\n        if i and x or i:\n            return 1 if i else 2"
    )
    assert complexity(ast.parse(source).body[0]) == 6


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_functions_are_small(path):
    for function in functions(path):
        arguments = len(function.args.posonlyargs) + len(function.args.args)
        assert arguments <= MOST_ARGUMENTS, f"{function.name} has {arguments} arguments"
        assert complexity(function) <= MOST_BRANCHES, f"{function.name} has too many branches"


def called_names(node):
    calls = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
    return {function.id for function in calls if isinstance(function, ast.Name)}


def inner_functions(path):
    """Return the names in a file that stand for functions that Python cannot call."""
    names = {f.name for f in functions(path) if decorators(f) & _INNER}
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vicinal._kernels."):
            source = PACKAGE.parent.joinpath(*node.module.split(".")).with_suffix(".py")
            if source.exists():
                inner = {f.name for f in functions(source) if decorators(f) & _INNER}
                names |= inner & {alias.name for alias in node.names}
    return names


def test_python_never_calls_inner_functions():
    """Such a call would end the process, not raise."""
    assert "newton_fit" in inner_functions(PACKAGE / "_kernels" / "local" / "_classifiers.py")
    for path in PACKAGE.rglob("*.py"):
        inner = inner_functions(path)
        for function in functions(path) if inner else []:
            if not any(name.endswith("jit") for name in decorators(function)):
                assert not called_names(function) & inner, f"{path.name}: {function.name}"


def test_functions_that_count_no_references_make_no_tuples():
    """One that returned a tuple of arrays would have them freed while they are in use."""
    tuples = {node.name for path in FILES for node in nodes(path) if isinstance(node, ast.ClassDef)}
    assert "Fit" in tuples
    for path in FILES:
        for function in functions(path):
            if not decorators(function) & _UNCOUNTED:
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Return) and node.value is not None:
                    assert not called_names(node.value) & tuples, function.name
