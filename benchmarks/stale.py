"""Which stored cases ran code that has changed since? A line for each page and commit.

The code of a case is its benchmark and every module of the library that this asks for, in a
program that it starts too, docstrings and comments aside; a benchmark that asks for none by name
drives the whole library. A page without a line is as good as run today. Cases of peers are listed
with the others, though no code of ours is theirs.
"""

import ast
import json
import re
import subprocess
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from _harness import CASES, ROOT, git

_ASKED = re.compile(r"from (vicinal[\w.]*|_\w+) import (\([^)]*\)|[^\n;]*)|import (vicinal[\w.]*)")
_PAGES_ALONE = "_harness"  # it writes pages and computes nothing


@cache
def code(text: str) -> str:
    """Return what a source does: its tree without docstrings and positions."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            del node.body[0]
    return ast.dump(tree)


def _home(module: str, name: str) -> str:
    """Return the module that holds a name which a package hands on."""
    thing = getattr(import_module(module), name, None)
    if isinstance(thing, ModuleType):
        return thing.__name__
    home = getattr(thing, "__module__", None)
    return home if str(home).startswith("vicinal") else module


def asked(text: str) -> set[str]:
    """Return the modules of the library, and helpers beside the benchmark, that a source names."""
    found = set()
    for module, names, whole in _ASKED.findall(text):
        if whole or module.startswith("_"):
            found.add(whole or module)
            continue
        for name in re.findall(r"\w+", re.sub(r" as \w+|#[^\n]*", "", names)):
            found.add(_home(module, name))
    return found - {_PAGES_ALONE}


def source_of(module: str) -> Path:
    """Return the file of a module of the library, or of a helper beside the benchmarks."""
    if module.startswith("_"):
        return ROOT / "benchmarks" / f"{module}.py"
    spec = find_spec(module)
    assert spec is not None, module
    return Path(str(spec.origin)).resolve()


def sources(script: Path) -> list[Path]:
    """Return the files whose code a benchmark runs, its own first."""
    found, waiting = [script], list(asked(script.read_text()))
    if not any(module.startswith("vicinal") for module in waiting):
        return [script, *sorted((ROOT / "src" / "vicinal").rglob("*.py"))]
    seen = set()
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            found.append(source_of(module))
            waiting += asked(found[-1].read_text())
    return found


@cache
def touched(commit: str) -> set[Path]:
    """Return the files whose code is not what it was at a commit."""
    listed = git("diff", "--name-only", "--no-renames", commit, "--", "src", "benchmarks")
    here = [name for name in listed.split() if name.endswith(".py") and (ROOT / name).exists()]
    return {ROOT / name for name in here if is_changed(commit, name)}


def is_changed(commit: str, name: str) -> bool:
    """Say whether a file does something else than at a commit."""
    try:
        then = git("show", f"{commit}:{name}")
    except subprocess.CalledProcessError:  # it was not there yet
        return True
    return code(then) != code((ROOT / name).read_text())


def commits(store: Path) -> list[str]:
    """Return the commits that the cases of a page name."""
    runs = (json.loads(line) for line in store.read_text().splitlines())
    return sorted({run["commit"] for run in runs if "run" in run})


def shown(changed: set[Path], most: int = 4) -> str:
    """Return the first few names of files, and how many more there are."""
    names = sorted(str(path.relative_to(ROOT)) for path in changed)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def main() -> None:
    for store in sorted(CASES.glob("*.jsonl")):
        files = sources(ROOT / "benchmarks" / f"bench_{store.stem}.py")
        for commit in commits(store):
            changed = touched(commit).intersection(files)
            if changed:
                parts = f"{len(changed)} of {len(files)} files"
                print(f"{store.stem}: {commit}: {parts}: {shown(changed)}", flush=True)


if __name__ == "__main__":
    main()
