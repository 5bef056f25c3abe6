"""What benchmarks share: timing, peak memory, results that are kept, and pages of results."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
KEPT = ROOT / "benchmarks" / ".cache"


def timed(function: Callable[[], Any], *, repeat: int = 1) -> tuple[float, Any]:
    """Return the least wall time of ``repeat`` calls, and the last result."""
    best, result = float("inf"), None
    for _ in range(repeat):
        started = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - started)
    return best, result


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


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _versions(packages: Iterable[str]) -> str:
    found = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


class Kept:
    """Results of finished cases, a line each in a file, so that a run may be done in pieces.

    Several processes may add cases at a time. Delete the file, or lines of it, to begin again.
    """

    def __init__(self, name: str) -> None:
        self.path = KEPT / f"{name}.jsonl"
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.known = {tuple(entry["key"]): entry["value"] for entry in map(json.loads, lines)}

    def find(self, *key: Any) -> Any:
        """Return the result of a case, None if it was not run."""
        return self.known.get(key)

    def by_name(self) -> dict[str, Any]:
        """Return the results of the cases whose key is one name."""
        return {key[0]: value for key, value in self.known.items() if len(key) == 1}

    def keep(self, key: tuple, value: Any) -> Any:
        """Keep the result of a case, and return it as it will be read again."""
        line = json.dumps({"key": key, "value": value}, default=float)
        KEPT.mkdir(exist_ok=True)
        with self.path.open("a") as file:
            file.write(line + "\n")
        self.known[key] = json.loads(line)["value"]
        return self.known[key]

    def run(self, key: tuple, case: Callable[[], Any]) -> Any:
        """Return the result of a case that was kept, running it first if there is none."""
        if key not in self.known:
            started = time.perf_counter()
            self.keep(key, case())
            print(*key, f"{time.perf_counter() - started:.1f} s", flush=True)
        return self.known[key]


class ResultsPage:
    """A page of ``docs/results``, printed to the terminal as it grows and written at the end.

    Parameters
    ----------
    name : str
        File name without its ending.
    title : str
        Heading of the page.
    question : str
        What the benchmark wants to know, in a sentence or two.
    packages : sequence of str, default=()
        Peers whose versions are stated beside those of numpy, scipy, scikit-learn and numba.
    """

    def __init__(self, name: str, title: str, question: str, packages: Sequence[str] = ()) -> None:
        self.path = RESULTS / f"{name}.md"
        peers = ("numpy", "scipy", "scikit-learn", "numba", *packages)
        command = " ".join(
            ["python", *(os.path.relpath(a, ROOT) if Path(a).exists() else a for a in sys.argv)]
        )
        self._parts = [
            f"# {title}",
            question,
            f"- command: `{command}`\n- machine: {machine()}\n- versions: {_versions(peers)}\n"
            f"- commit: {_commit()}",
        ]

    def text(self, paragraph: str) -> None:
        """Add a paragraph (or any Markdown)."""
        self._parts.append(paragraph)
        print(paragraph, flush=True)

    def table(
        self, header: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = ""
    ) -> None:
        """Add a table; floats are shown with four significant digits."""
        lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
        lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
        self.text("\n".join(([caption, ""] if caption else []) + lines))

    def write(self) -> None:
        """Write the page whole."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".tmp")
        draft.write_text("\n\n".join(self._parts) + "\n")
        draft.replace(self.path)
        print(f"wrote {self.path.relative_to(ROOT)}", flush=True)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
