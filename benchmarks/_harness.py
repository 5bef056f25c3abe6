"""What benchmarks share: timing, peak memory, stored cases, and pages built from them.

A page of ``docs/results`` is a function of stored cases: ``ResultsPage.case`` runs what is not
stored yet and remembers it in ``benchmarks/cases`` with commit, versions, machine, load and
seconds, so a run may be done in pieces, by several processes, and the page built again anywhere
without running anything (``make results``). While sources are uncommitted, cases go to a folder
that git ignores and no page is written: a number must name the commit it speaks for.
"""

import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import sha1
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from _pages import ROOT, write_section

CASES = Path(os.environ.get("VICINAL_CASES", ROOT / "benchmarks" / "cases"))
DRAFTS = ROOT / "benchmarks" / ".cache"
# What a number depends on. The cases themselves and the pages made of them do not count.
_SOURCES = ("src", "benchmarks", "tests", "pyproject.toml", ":!benchmarks/cases")
_CORE = ("numpy", "scipy", "scikit-learn", "numba")
# Work spread over processes: which of them had which sets is told by no reader's question.
_SPREAD = re.compile(r"(--(?:sets|seeds))(?: (?!--)\S+)+")


class MissingCaseError(LookupError):
    """A page was to be rebuilt, but one of its cases was never run."""


def timed(
    function: Callable[[], Any], *, repeat: int = 1, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, Any]:
    """Return the least time of ``repeat`` calls by ``clock`` (the wall's), and the last result."""
    best, result = float("inf"), None
    for _ in range(repeat):
        started = clock()
        result = function()
        best = min(best, clock() - started)
    return best, result


def processor_timed(function: Callable[[], Any], *, repeat: int = 1) -> tuple[float, Any]:
    """Return the least processor time of ``repeat`` calls, all threads together, and the result.

    What a busy machine changes little; a peer of one thread is compared with work, not with cores.
    """
    return timed(function, repeat=repeat, clock=time.process_time)


def resident_mb(field: str = "VmRSS") -> float:
    """Return ``VmRSS`` (now) or ``VmHWM`` (peak) of this process, from Linux."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith(field)) / 1024


def reset_peak_memory() -> None:
    """Let the peak of this process start now; without it a child begins with its parent's peak."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_memory_gb() -> float:
    """Return the largest resident size of this process so far; run a case in its own process."""
    return resident_mb("VmHWM") / 1024


def machine() -> str:
    """Describe the processor and the number of cores this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{model}, {cores} cores"


def git(*arguments: str) -> str:
    """Return what git says about the project; an error where it refuses."""
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@cache
def commit() -> str:
    """Return the commit of the sources, followed by ``-dirty`` if they differ from it.

    A machine without git states it in the environment variable ``VICINAL_COMMIT``.
    """
    stated = os.environ.get("VICINAL_COMMIT")
    if stated:
        return stated
    try:
        changed = git("status", "--porcelain", "--", *_SOURCES)
        return git("rev-parse", "--short=7", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown-dirty"


def versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """Return the versions of Python, of the core and of those ``packages`` that are installed."""
    found = {"Python": platform.python_version()}
    for package in (*_CORE, *packages):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def is_rebuilding() -> bool:
    """Return whether pages are built from stored cases alone (``make results``)."""
    return bool(os.environ.get("VICINAL_REBUILD"))


class Cases:
    """Results of finished cases, one JSON line each, in a file that several processes may extend.

    A line ``{"run": id, ...}`` describes circumstances that many cases share (commit, versions,
    machine, command); a line ``{"key": ..., "value": ..., "in": id, ...}`` is a case. To begin
    again, delete the file, or lines of it.

    Parameters
    ----------
    name : str
        File name without its ending.

    Attributes
    ----------
    packages : set of str
        Peers whose versions belong to the circumstances.
    used : dict
        The cases that were asked for, by key: what a page is made of.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.packages: set[str] = set()
        self.used: dict[tuple, dict] = {}
        self._runs: dict[str, dict] = {}
        self._known: dict[tuple, dict] = {}
        stores = [CASES] if is_rebuilding() or not _is_draft() else [CASES, DRAFTS]
        for folder in stores:
            self._read(folder / f"{name}.jsonl")

    def _read(self, path: Path) -> None:
        for line in path.read_text().splitlines() if path.exists() else ():
            entry = json.loads(line)
            if "run" in entry:
                self._runs[entry["run"]] = entry
            else:
                self._known[_frozen(entry["key"])] = entry

    def find(self, *key: Any) -> Any:
        """Return the result of a case, None if it was not run."""
        entry = self._known.get(_frozen(key))
        if entry is None:
            return None
        self.used[_frozen(key)] = entry
        return entry["value"]

    def has(self, *key: Any) -> bool:
        """Return whether a case was run, without making it part of a page."""
        return _frozen(key) in self._known

    def by_name(self) -> dict[str, Any]:
        """Return the results of the cases whose key is one name."""
        return {key[0]: self.find(*key) for key in list(self._known) if len(key) == 1}

    def keep(self, key: tuple, value: Any, seconds: float | None = None) -> Any:
        """Keep the result of a case, and return it as it will be read again."""
        run = self._this_run()
        entry = {"key": key, "value": value, "in": run["run"], "load": _load()}
        if seconds is not None:
            entry["s"] = round(seconds, 2)
        lines = [] if run["run"] in self._runs else [run]
        self._runs[run["run"]] = run
        folder = DRAFTS if _is_draft() else CASES
        folder.mkdir(exist_ok=True)
        text = "".join(_line(part) + "\n" for part in (*lines, entry))
        with (folder / f"{self.name}.jsonl").open("a") as file:
            file.write(text)
        self._known[_frozen(key)] = json.loads(_line(entry))
        return self.find(*key)

    def run(self, key: tuple, case: Callable[[], Any]) -> Any:
        """Return the stored result of a case, running it first if there is none."""
        if _frozen(key) not in self._known:
            if is_rebuilding():
                raise MissingCaseError(f"{self.name}: the case {key} was never run.")
            started = time.perf_counter()
            value = case()
            seconds = time.perf_counter() - started
            self.keep(key, value, seconds)
            print(*key, f"{seconds:.1f} s", flush=True)
        return self.find(*key)

    def _this_run(self) -> dict:
        circumstances = {
            "commit": commit(),
            "date": datetime.now(UTC).date().isoformat(),
            "machine": machine(),
            "versions": versions(sorted(self.packages)),
            "command": _command(),
        }
        name = sha1(json.dumps(circumstances, sort_keys=True).encode()).hexdigest()[:8]
        return {"run": name, **circumstances}

    def provenance(self) -> list[str]:
        """Return a line per commit and machine that fed the cases used so far."""
        groups: dict[tuple, list[dict]] = {}
        for entry in self.used.values():
            run = self._runs[entry["in"]]
            shown = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
            groups.setdefault((run["commit"], run["machine"], shown), []).append(entry)
        lines = []
        for (commit_name, machine_name, shown), entries in sorted(groups.items()):
            dates = sorted({self._runs[entry["in"]]["date"] for entry in entries})
            loads = [entry["load"] for entry in entries]
            seconds = sum(entry.get("s", 0.0) for entry in entries)
            lines.append(
                f"- commit {commit_name}: {len(entries)} cases, {seconds:.0f} s, "
                f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))}, load {min(loads):.1f} to "
                f"{max(loads):.1f}; {machine_name}; {shown}"
            )
        return lines

    def commands(self) -> list[str]:
        """Return the commands that ran the cases used so far, spread over sets and seeds or not."""
        runs = (self._runs[entry["in"]]["command"] for entry in self.used.values())
        return sorted({_SPREAD.sub(r"\1 ...", command) for command in runs})

    def commits(self) -> list[str]:
        """Return the commits of the cases used so far."""
        return sorted({self._runs[entry["in"]]["commit"] for entry in self.used.values()})


@cache
def stored(name: str) -> Cases:
    """Return the cases of a name, the same object to the page and to whoever runs them."""
    return Cases(name)


def clocked(case: Callable[[], dict]) -> Callable[[], dict]:
    """Return the case with the wall and processor seconds that it took in its result."""

    def run() -> dict:
        started, used = time.perf_counter(), time.process_time()
        found = case()
        found["wall"] = time.perf_counter() - started
        found["cpu"] = time.process_time() - used
        return found

    return run


class ResultsPage:
    """A page of ``docs/results``, printed to the terminal as it grows and written at the end.

    Parameters
    ----------
    name : str
        File name without its ending, of the page and of its cases.
    title : str
        Heading of the page.
    question : str
        What the benchmark wants to know, in a sentence or two.
    packages : sequence of str, default=()
        Peers whose versions are stated beside those of numpy, scipy, scikit-learn and numba.
    sources : sequence of str, default=()
        Names of the stores its numbers come from, if not from the page's own.
    """

    def __init__(
        self,
        name: str,
        title: str,
        question: str,
        packages: Sequence[str] = (),
        sources: Sequence[str] = (),
    ) -> None:
        self.name = name
        self._sources = [stored(source) for source in sources or (name,)]
        for cases in self._sources:
            cases.packages.update(packages)
        self._head = [f"# {title}", question]
        self._parts: list[str] = []

    def case(self, key: tuple, function: Callable[[], Any]) -> Any:
        """Return the result of ``function()``, stored under ``key``, as JSON gives it back."""
        return self._sources[0].run(key, function)

    def section(self, name: str, write: Callable[..., None], *arguments: Any) -> None:
        """Add what ``write(page, *arguments)`` writes, stored as one case: its paragraphs.

        For parts whose numbers are used nowhere else; a number that a summary needs is a case.
        """

        def recorded() -> list[str]:
            earlier, self._parts = self._parts, []
            try:
                write(self, *arguments)
                return self._parts
            finally:
                self._parts = earlier

        self._parts += self.case((name,), recorded)

    def text(self, paragraph: str) -> None:
        """Add a paragraph (or any Markdown)."""
        self._parts.append(paragraph)
        if not is_rebuilding():
            print(paragraph, flush=True)

    def table(
        self, header: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = ""
    ) -> None:
        """Add a table; floats are shown with four significant digits."""
        lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
        lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
        self.text("\n".join(([caption, ""] if caption else []) + lines))

    def markdown(self) -> str:
        """Return the page: title, question, findings, and a folded footer with the provenance."""
        commands = [f"- command: `{name}`" for name in self._gathered(Cases.commands)]
        origin = "\n".join([*commands, *self._gathered(Cases.provenance)])
        footer = (
            "<details><summary>Provenance: commands, commits, machines, versions</summary>"
            f"\n\n{origin}\n\n</details>"
        )
        return "\n\n".join([*self._head, *self._parts, footer]) + "\n"

    def _gathered(self, of: Callable[[Cases], list[str]]) -> list[str]:
        return [entry for cases in self._sources for entry in of(cases)]

    def write(self) -> None:
        """Write the page whole; refuse while its sources are not committed."""
        dirty = [name for name in self._gathered(Cases.commits) if name.endswith("-dirty")]
        if not self._gathered(Cases.commits):
            raise SystemExit(
                f"{self.name} is not written: none of its numbers is a stored case, so nobody "
                "could tell which commit it speaks for. Hand what is measured to `page.case`."
            )
        if dirty or (not is_rebuilding() and _is_draft()):
            raise SystemExit(
                f"{self.name} is not written: it would speak for uncommitted sources "
                f"({', '.join(dirty) or commit()}). Commit src and benchmarks, and run again."
            )
        print(f"wrote {write_section(self.name, self.markdown()).name}", flush=True)


def _is_draft() -> bool:
    return commit().endswith("-dirty")


def _load() -> float:
    """Return how many processes wanted a core during the last minute, this one among them."""
    return round(os.getloadavg()[0], 1)


def _command() -> str:
    shown = (os.path.relpath(a, ROOT) if Path(a).exists() else a for a in sys.argv)
    return shlex.join(["python", *shown])


def _frozen(key: Any) -> Any:
    return tuple(map(_frozen, key)) if isinstance(key, list | tuple) else key


def _line(entry: dict) -> str:
    return json.dumps(entry, default=float, separators=(",", ":"))


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
