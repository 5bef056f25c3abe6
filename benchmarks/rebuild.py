"""Build every page of docs/results again from stored cases, running no benchmark.

A page whose script has no stored cases yet is left as it is, and named.
"""

import os
import runpy
import sys
import time
from contextlib import redirect_stdout
from io import StringIO

os.environ["VICINAL_REBUILD"] = "1"

from _harness import CASES, ROOT, MissingCaseError, stored
from index import write_index

# Pages that are made of the cases of other pages.
BORROWERS = ("subspace_tables",)


def rebuild(script) -> str:
    """Return what came of one page: a line to print."""
    sys.argv = [str(script)]
    stored.cache_clear()  # what another page asked for is none of this one's
    printed = StringIO()
    try:
        with redirect_stdout(printed):
            runpy.run_path(str(script), run_name="__main__")
    except MissingCaseError as missing:
        return f"left as it is: {missing}"
    except SystemExit as refused:
        if refused.code:
            return f"left as it is: {refused.code}"
    return printed.getvalue().strip().splitlines()[-1]


def main() -> None:
    started = time.perf_counter()
    stores = [path.stem for path in CASES.glob("*.jsonl")]
    for script in sorted((ROOT / "benchmarks").glob("bench_*.py")):
        name = script.stem.removeprefix("bench_")
        if name in stores or name in BORROWERS:
            print(f"{name}: {rebuild(script)}", flush=True)
        else:
            print(f"{name}: left as it is, it has no stored cases", flush=True)
    write_index()
    print(f"index: wrote index.md\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
