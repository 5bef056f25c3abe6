"""Does any small ugly problem raise, or give a NaN without a status?

Runs the checks of ``tests/surface/fuzz.py`` on problems drawn from consecutive seeds. The number
may be given: ``python benchmarks/bench_surface_fuzz.py 10000``. Finished hundreds are kept, so that
an interrupted run goes on where it stopped.
"""

import sys
import time
import warnings
from collections import Counter

from _harness import ROOT, ResultsPage, stored
from vicinal.surface import SurfaceStatus

sys.path.insert(0, str(ROOT))
from tests.surface.fuzz import check_problem

_SIZE = 100


def run_some(start):
    """Return the statuses met, and what failed: an exception, or a warning about numbers."""
    statuses, failures = Counter(), []
    began = time.process_time()
    warnings.simplefilter("error", RuntimeWarning)
    for seed in range(start, start + _SIZE):
        try:
            statuses.update(check_problem(seed).tolist())
        except Exception as error:  # counted, named and shown: that is the result
            failures.append(f"seed {seed}: {type(error).__name__}: {str(error)[:100]}")
    return {
        "statuses": statuses,
        "failures": failures,
        "seconds": time.process_time() - began,
    }


def run_all(count):
    """Return one part per hundred problems, known ones first."""
    kept = stored("surface_fuzz")
    return [kept.run((s,), lambda s=s: run_some(s)) for s in range(0, count, _SIZE)]


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    page = ResultsPage(
        "surface_fuzz",
        "Decision surfaces of small ugly problems",
        "Two or three classes on 6-30 rows with duplicates, constant columns, lattices, tiny, huge "
        "or shifted units, one row against all others; ten kinds of classifier; queries on "
        "rows, near rows and a thousand ranges away. Every projection, ray, distance and "
        "counterfactual must be finite or carry a status, and every counterfactual must have "
        "another label when predicted again.",
    )
    parts = run_all(count)
    statuses, failures = Counter(), []
    for part in parts:
        statuses.update({int(code): number for code, number in part["statuses"].items()})
        failures += part["failures"]
    seconds = sum(part["seconds"] for part in parts)
    total = sum(statuses.values())
    page.table(
        ["status", "answers", "share"],
        [
            [SurfaceStatus(code).name, number, f"{number / total:.2%}"]
            for code, number in sorted(statuses.items())
        ],
        f"**{count} problems, {total} answers, {len(failures)} failures** "
        f"({seconds / 60:.0f} minutes of processor time)",
    )
    for failure in failures[:20]:
        page.text(f"- {failure}")
    page.write()


if __name__ == "__main__":
    main()
