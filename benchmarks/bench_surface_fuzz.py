"""Does any small ugly problem raise, or give a NaN without a status?

Runs the checks of ``tests/surface/fuzz.py`` on problems drawn from consecutive seeds, on two cores.
The number may be given: ``python benchmarks/bench_surface_fuzz.py 10000``.
"""

import sys
import warnings
from collections import Counter

from joblib import Parallel, delayed

from _harness import ROOT, ResultsPage, timed
from vicinal.surface import SurfaceStatus

sys.path.insert(0, str(ROOT))
from tests.surface.fuzz import check_problem


def run_some(seeds):
    """Return the statuses met, and what failed: an exception, or a warning about numbers."""
    statuses, failures = Counter(), []
    warnings.simplefilter("error", RuntimeWarning)
    for seed in seeds:
        try:
            statuses.update(check_problem(seed).tolist())
        except Exception as error:  # counted, named and shown: that is the result
            failures.append(f"seed {seed}: {type(error).__name__}: {str(error)[:100]}")
    return statuses, failures


def run_all(count, size=100):
    chunks = [range(start, min(start + size, count)) for start in range(0, count, size)]
    found = Parallel(n_jobs=2, return_as="generator")(delayed(run_some)(c) for c in chunks)
    statuses, failures = Counter(), []
    for done, (seen, failed) in enumerate(found, start=1):
        statuses += seen
        failures += failed
        print(f"{done * size} problems, {len(failures)} failures", *failed, flush=True)
    return statuses, failures


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    page = ResultsPage(
        "surface_fuzz",
        "Decision surfaces of small ugly problems",
        "Two or three classes on 6-30 rows with duplicates, constant columns, lattices, tiny, huge "
        "or shifted units, one row against all others; eleven kinds of classifier; queries on "
        "rows, near rows and a thousand ranges away. Every projection, ray, distance and "
        "counterfactual must be finite or carry a status, and every counterfactual must have "
        "another label when predicted again.",
    )
    seconds, (statuses, failures) = timed(lambda: run_all(count))
    total = sum(statuses.values())
    page.table(
        ["status", "answers", "share"],
        [
            [SurfaceStatus(code).name, number, f"{number / total:.2%}"]
            for code, number in sorted(statuses.items())
        ],
        f"**{count} problems, {total} answers, {len(failures)} failures** ({seconds:.0f} s)",
    )
    for failure in failures[:20]:
        page.text(f"- {failure}")
    page.write()


if __name__ == "__main__":
    main()
