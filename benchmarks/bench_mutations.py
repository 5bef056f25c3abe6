"""How many small errors in numerical modules do the tests find?

A mutant is a module with one operator, comparison or number changed. The tests of the module run
on it; a mutant that passes them all survives. ``python benchmarks/bench_mutations.py MODULE ...``
runs some modules only.
"""

import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from _harness import ROOT, MissingCaseError, ResultsPage

N_MUTANTS = 12
SECONDS = 240
KERNELS = "src/vicinal/_kernels"
# module -> its tests
MODULES = {
    "calibration/_conformal": ("kernels/calibration/test_conformal.py", "conformal/test_groups.py"),
    "calibration/_probabilities": ("kernels/calibration/test_probabilities.py",),
    "calibration/_label_noise": ("kernels/calibration/test_label_noise.py",),
    "cascade/_soft": ("kernels/cascade/test_soft.py",),
    "ensemble/_weights": ("kernels/ensemble/test_weights.py",),
    "linear/_covariance": ("kernels/linear/test_covariance.py",),
    "metric/_mixture": ("kernels/metric/test_mixture.py",),
    "metric/_uncertainty": ("kernels/metric/test_uncertainty.py",),
    "subspace/_truncated_rbf": ("kernels/subspace/test_truncated_rbf.py",),
    "surface/_roots": ("kernels/surface/test_surface.py",),
}
# Mutants that compute the same, or what no promise covers: (module, line, change) -> why.
EXPLAINED: dict[tuple[str, str], str] = {}
SWAPPED: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def sites(tree):
    """Return the nodes that can be changed, in the order of the file."""
    found = []
    for node in ast.walk(tree):
        operators = [
            *([node.op] if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) else []),
            *(node.ops if isinstance(node, ast.Compare) else []),
        ]
        is_number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
        if is_number or any(type(operator) in SWAPPED for operator in operators):
            found.append(node)
    return sorted(found, key=lambda node: (node.lineno, node.col_offset, node.end_col_offset))


def mutate(node):
    """Change a node; return what was changed."""
    before = ast.unparse(node)
    if isinstance(node, ast.Constant):
        node.value = node.value + 1 if type(node.value) is int else 2 * node.value or 1.0
    elif isinstance(node, ast.Compare):
        node.ops = [SWAPPED.get(type(op), type(op))() for op in node.ops]
    else:
        node.op = SWAPPED[type(node.op)]()
    return f"{before} -> {ast.unparse(node)}"


def mutant(module, number):
    """Return the source of a mutant, its line and what was changed."""
    tree = ast.parse((ROOT / KERNELS / f"{module}.py").read_text())
    order = list(range(len(sites(tree))))
    random.Random(module).shuffle(order)
    node = sites(tree)[order[number]]
    return node.lineno, mutate(node), ast.unparse(tree)


def case(module, number, folder):
    """Return whether the tests find a mutant; they run on a copy of the package."""
    line, change, source = mutant(module, number)
    path = folder / KERNELS / f"{module}.py"
    before = path.read_text()
    path.write_text(source)
    tests = [str(folder / "tests" / test) for test in MODULES[module]]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=SECONDS, check=False
        )
        killed = done.returncode == 1
        if done.returncode not in (0, 1):
            killed = True  # the module or its tests cannot be imported
    except subprocess.TimeoutExpired:
        killed = True
    finally:
        path.write_text(before)
    return {"line": line, "change": change, "killed": killed}


def copied(folder):
    """Copy package and tests; return the folder."""
    for part in ("src", "tests"):
        shutil.copytree(ROOT / part, folder / part, copy_function=shutil.copy2)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def main():
    chosen = sys.argv[1:] or list(MODULES)
    page = ResultsPage(
        "mutations",
        "Small errors that the tests find",
        f"{N_MUTANTS} mutants of each of ten numerical modules, drawn at random: one operator, "
        "comparison or number is changed, and the module's own tests run. A mutant that passes "
        "them survives.",
    )
    rows, survivors = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) if os.environ.get("VICINAL_REBUILD") else copied(Path(name))
        for module in chosen:
            try:
                found = [
                    page.case((module, k), lambda m=module, k=k: case(m, k, folder))
                    for k in range(N_MUTANTS)
                ]
            except MissingCaseError:
                continue
            left = [f for f in found if not f["killed"]]
            same = [f for f in left if (module, f["change"]) in EXPLAINED]
            rows.append([module, len(found), len(found) - len(left), len(same)])
            survivors += [
                [module, f["line"], f"`{f['change']}`", EXPLAINED.get((module, f["change"]), "")]
                for f in left
            ]
    if sys.argv[1:]:
        return
    total = [sum(row[k] for row in rows) for k in (1, 2, 3)]
    rows.append(["all", *total])
    page.table(["module", "mutants", "found", "survived, and explained below"], rows)
    if survivors:
        page.table(["module", "line", "change", "why no test finds it"], survivors)
    page.write()


if __name__ == "__main__":
    main()
