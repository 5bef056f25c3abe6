"""Measure the house: ``python tests/install/house.py [ROOT]`` prints what CONTRIBUTING.md shows."""

import ast
import io
import sys
import tokenize
from collections import Counter
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[2]
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
NEW_ROOMS = ("auto", "metric", "table", "serve", "_conformal")


def sources(root, part="src/vicinal"):
    """The Python files of a part of the tree, by path, as lists of lines."""
    return {path: path.read_text().splitlines() for path in sorted((root / part).rglob("*.py"))}


def n_lines(files):
    return sum(map(len, files.values()))


def n_code(files):
    """Lines that hold code: without docstrings, comments and blank lines."""
    total = 0
    for text in files.values():
        source = "\n".join(text) + "\n"
        held = set()
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type not in _NO_CODE:
                held.update(range(token.start[0], token.end[0] + 1))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
                held.difference_update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
        total += len(held)
    return total


def rooms(root):
    """Lines of every room, the largest first."""
    package = root / "src/vicinal"
    found: Counter = Counter()
    for path, text in sources(root).items():
        found[path.relative_to(package).parts[0]] += len(text)
    return found.most_common()


def functions(tree):
    """Every function of a module with its length, docstring not counted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            said = node.body[0] if ast.get_docstring(node) is not None else None
            length = node.end_lineno - node.lineno + 1
            yield node.name, length - (said.end_lineno - said.lineno + 1 if said else 0)


def longest_functions(files):
    """Names and lengths of the longest functions, the longest first."""
    found = chain.from_iterable(functions(ast.parse("\n".join(text))) for text in files.values())
    return sorted(found, key=lambda pair: -pair[1])


def floors(folder):
    """Number of floors of a folder: a file stands above all that it imports from the folder."""
    package = f"vicinal.{folder.name}"
    modules = {path.stem: ast.parse(path.read_text()) for path in folder.glob("*.py")}
    below = {
        name: {
            node.module.removeprefix(f"{package}.")
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}.")
        }
        for name, tree in modules.items()
        if name != "__init__"
    }
    height = {}

    def stand(name):
        if name not in height:
            height[name] = 0
            height[name] = 1 + max((stand(other) for other in below.get(name, ())), default=0)
        return height[name]

    return max(map(stand, below))


def repeated_lines(files, run=6):
    """Lines of code that stand in a run of ``run`` or more which the tree holds elsewhere, too."""
    runs, places = Counter(), {}
    for path, text in files.items():
        stripped = (line.strip() for line in text if len(line.strip()) > 3)
        code = [line for line in stripped if not line.startswith(("#", "from ", "import "))]
        places[path] = [tuple(code[i : i + run]) for i in range(len(code) - run + 1)]
        runs.update(places[path])
    repeated = 0
    for found in places.values():
        marked = set()
        for i, one in enumerate(found):
            if runs[one] > 1:
                marked.update(range(i, i + run))
        repeated += len(marked)
    return repeated


def methods(root, name="LocalClassifier"):
    """Our classes behind an estimator, how many are of its room, and the methods they define."""
    classes, rooms = {}, {}
    for path in (root / "src/vicinal").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                classes[node.name], rooms[node.name] = node, path.parent
    found, pending = [], [name]
    while pending:
        node = classes.get(pending.pop(0))
        if node is not None and node not in found:
            found.append(node)
            pending += [base.id for base in node.bases if isinstance(base, ast.Name)]
    names = {n.name for node in found for n in node.body if isinstance(n, ast.FunctionDef)}
    own = [node for node in found if rooms[node.name] == rooms[name]]
    return len(found), len(own), len(names)


def measure(root=ROOT):
    """Everything the table of CONTRIBUTING.md shows, by name."""
    files, tests = sources(root), sources(root, "tests")
    new = {path for room in NEW_ROOMS for path in files if f"/vicinal/{room}/" in path.as_posix()}
    kernels = sources(root, "src/vicinal/_kernels")
    local = root / "src/vicinal/local"
    longest = longest_functions(files)
    n_classes, n_own, n_methods = methods(root)
    return {
        "files of `local`": len(list(local.glob("*.py"))),
        "floors of `local`": floors(local),
        "classes of ours in `LocalClassifier`": n_classes,
        "of these in `local`": n_own,
        "methods they define": n_methods,
        "lines of `src`": n_lines(files),
        "without `auto`, `metric`, `table`, `serve`, `_rows`": n_lines(files)
        - n_lines({path: files[path] for path in new}),
        "lines in runs of six or more that stand twice": repeated_lines(files),
        "longest function, lines without docstring": longest[0][1],
        "functions of more than 60 such lines": sum(length > 60 for _, length in longest),
        "lines of code in `src`": n_code(files),
        "lines of tests per line of `src`": round(n_lines(tests) / n_lines(files), 2),
        "lines of code, tests per `src`": round(n_code(tests) / n_code(files), 2),
        "lines of tests per line of `_kernels`": round(
            n_lines(sources(root, "tests/kernels")) / n_lines(kernels), 2
        ),
    }


if __name__ == "__main__":
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    for what, value in measure(root).items():
        print(f"| {what} | {value:,} |")
    print(", ".join(f"{room} {lines:,}" for room, lines in rooms(root)))
