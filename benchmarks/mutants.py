"""Which small changes of a numerical module does no test detect?

A mutant is the module with one change: another operator or comparison, another constant, a minimum
for a maximum, a lost sign or ``not``, a removed statement. The program samples mutants, runs the
tests of the module on each and prints those that pass all tests (survivors)::

    python benchmarks/mutants.py --module _conformal/_intervals.py --count 20 --seed 0

The sources are copied first and the copy is changed, so the working tree stays as it is. Compiled
functions are stored in a folder of the copy: a changed file is compiled again. A mutant that takes
longer than the limit counts as killed. ``--only 3,7`` runs these numbers of the sample again, for
instance with a new test, and ``--tests`` names other test files than those of the table below.
"""

import argparse
import ast
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
# The narrowest test files of each module; the first failure ends a run, so quick files come first.
TESTS = {
    "_conformal/_intervals.py": "tests/conformal/test_conformal.py tests/conformal/test_groups.py",
    "_kernels/calibration/_probabilities.py": "tests/kernels/calibration/test_probabilities.py",
    "_kernels/cascade/_hard.py": "tests/kernels/cascade/test_hard.py "
    "tests/kernels/cascade/test_device.py",
    "_kernels/ensemble/_oblivious.py": "tests/ensemble/test_oblivious.py",
    "_kernels/linear/_regression.py": "tests/kernels/linear/test_regression.py",
    "_kernels/local/_batched.py": "tests/kernels/local/test_batched.py "
    "tests/kernels/local/test_polynomials.py tests/local/test_device_arrays.py",
    "_kernels/local/_classifiers.py": "tests/kernels/local/test_classifiers.py "
    "tests/kernels/local/test_newton.py tests/local/test_local_gradient.py",
    "_kernels/neighbors/_nearest.py": "tests/kernels/neighbors/test_nearest.py",
    "subspace/_truncated_rbf.py": "tests/kernels/subspace/test_truncated_rbf.py "
    "tests/subspace/test_truncated_rbf.py tests/base/test_blocks.py",
    "surface/_search.py": "tests/surface/test_search.py tests/surface/test_counterfactual.py "
    "tests/surface/test_decision_surface.py",
    "uncertainty/_metric_learning.py": "tests/uncertainty/test_metric_learning.py "
    "tests/uncertainty/test_locally_adaptive_classifier.py",
}
_OPERATORS = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div],
    ast.Div: [ast.Mult],
    ast.FloorDiv: [ast.Mult],
    ast.Pow: [ast.Mult],
    ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd],
    ast.Lt: [ast.LtE, ast.Gt],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.Lt],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
    ast.And: [ast.Or],
    ast.Or: [ast.And],
}
_PAIRS = "min max, minimum maximum, argmin argmax, any all, zeros ones, floor ceil, fmin fmax"
_NAMES = {a: b for pair in _PAIRS.split(", ") for a, b in (pair.split(), pair.split()[::-1])}
# Parts of a source that compute nothing. Positions within f-strings are wrong before Python 3.12.
_SKIPPED = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert)
_SKIPPED_FIELDS = {"annotation", "returns", "decorator_list"}


class Mutant(NamedTuple):
    """A node of a source and the text that replaces it."""

    node: ast.stmt | ast.expr
    text: str

    def source(self, original: str) -> str:
        """Return the changed source."""
        lines = original.encode().splitlines(keepends=True)
        start = sum(map(len, lines[: self.node.lineno - 1])) + self.node.col_offset
        end = sum(map(len, lines[: self.node.end_lineno - 1])) + self.node.end_col_offset
        whole = b"".join(lines)
        return (whole[:start] + self.text.encode() + whole[end:]).decode()

    def __str__(self):
        was, now = (" ".join(text.split()) for text in (ast.unparse(self.node), self.text))
        return f"line {self.node.lineno}: {was[:90]}  ->  {now[:90]}"


def mutants(tree: ast.AST) -> Iterator[Mutant]:
    """Yield every mutant of a source."""
    for node in _nodes(tree):
        for changed in _changes(node):
            if isinstance(node, ast.expr):
                yield Mutant(node, f"({ast.unparse(changed)})")
            else:
                yield Mutant(node, ast.unparse(changed))


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            is_text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if isinstance(child, _SKIPPED) or field in _SKIPPED_FIELDS or is_text:
                continue
            if isinstance(child, ast.AST):
                yield from _nodes(child)


def _with(node: ast.AST, **fields) -> ast.AST:
    changed = copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that replace a node."""
    match node:
        case ast.BinOp() | ast.BoolOp() | ast.AugAssign():
            for other in _OPERATORS.get(type(node.op), ()):
                yield _with(node, op=other())
        case ast.Compare():
            for other in _OPERATORS[type(node.ops[0])]:
                yield _with(node, ops=[other(), *node.ops[1:]])
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert()):
            yield node.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int()):
            yield ast.Constant(0 if node.value == 1 else node.value + 1)
        case ast.Constant(value=float()):
            yield ast.Constant({0.0: 1.0, 1.0: 0.0}.get(node.value, 2.0 * node.value))
        case ast.Call(func=ast.Name(id=name)) if name in _NAMES:
            yield _with(node, func=_with(node.func, id=_NAMES[name]))
        case ast.Call(func=ast.Attribute(attr=name)) if name in _NAMES:
            yield _with(node, func=_with(node.func, attr=_NAMES[name]))
        case ast.IfExp():
            yield node.orelse
        case ast.If(orelse=[]):
            yield ast.Pass()
    is_store = isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name)
    if is_store or isinstance(node, ast.Expr | ast.AugAssign | ast.Continue | ast.Break):
        yield ast.Pass()


class Trial:
    """Tests of one module on a changed copy of the sources."""

    def __init__(self, folder: Path, module: str, tests: list[str]):
        shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
        self.file = folder / "src/vicinal" / module
        self.limit = 600.0
        source = folder / "src"
        self.environment = os.environ | {
            "PYTHONPATH": str(source),
            "NUMBA_CACHE_DIR": str(folder / "compiled"),
        }
        options = ["-x", "-q", "-p", "no:cacheprovider", "-o", f"pythonpath={source} . benchmarks"]
        self.command = [sys.executable, "-m", "pytest", *options, *tests]

    def run(self, text: str) -> tuple[str, float]:
        """Return the outcome with this text of the module, and the seconds it took."""
        self.file.write_text(text)
        Path(importlib.util.cache_from_source(self.file)).unlink(missing_ok=True)
        start = time.perf_counter()
        try:
            done = subprocess.run(
                self.command,
                cwd=ROOT,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=self.limit,
            )
        except subprocess.TimeoutExpired:
            return "timeout", self.limit
        if done.returncode in (3, 4, 5):  # pytest itself failed, or there were no tests
            raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
        return "killed" if done.returncode else "survived", time.perf_counter() - start


def outcomes(
    folder: Path,
    module: str,
    count: int,
    seed: int,
    tests: list[str] | None = None,
    only: list[int] | None = None,
) -> tuple[int, Iterator[tuple[int, Mutant, str, float]]]:
    """Return the number of mutants, and number, mutant, outcome and seconds of a sample of them."""
    original = (ROOT / "src/vicinal" / module).read_text()
    found = list(mutants(ast.parse(original)))
    sample = random.Random(seed).sample(found, min(count, len(found)))
    trial = Trial(folder, module, tests or TESTS[module].split())
    outcome, seconds = trial.run(original)
    if outcome != "survived":
        raise SystemExit("The tests fail on the unchanged module; repair them first.")
    trial.limit = 30.0 + 3.0 * seconds

    def run() -> Iterator[tuple[int, Mutant, str, float]]:
        for n in range(len(sample)) if only is None else only:
            yield n, sample[n], *trial.run(sample[n].source(original))

    return len(found), run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--module", required=True, help="path below src/vicinal")
    parser.add_argument("--count", type=int, default=20, help="mutants to sample")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--only", help="numbers of the sample to run, separated by commas")
    parser.add_argument("--tests", nargs="+", help="test files instead of those of the table")
    given = parser.parse_args()
    numbers = [int(n) for n in given.only.split(",")] if given.only else None
    counts = dict.fromkeys(["killed", "timeout", "survived"], 0)
    with tempfile.TemporaryDirectory() as folder:
        n_mutants, found = outcomes(
            Path(folder), given.module, given.count, given.seed, given.tests, numbers
        )
        print(f"{given.module}: {n_mutants} mutants", flush=True)
        for n, mutant, outcome, seconds in found:
            counts[outcome] += 1
            print(f"{n:3d} {outcome:8s} {seconds:5.1f} s  {mutant}", flush=True)
    print(", ".join(f"{count} {name}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
