"""From how many rows on does a tree beat the comparison with every row, column by column?"""

import sys

import numpy as np

from _harness import ResultsPage, processor_timed
from vicinal.neighbors import NeighborSearch

DIMENSIONS = range(2, 11)
N_QUERIES = {3_000: 2_000, 10_000: 2_000, 30_000: 2_000, 100_000: 1_000, 1_000_000: 100}
# Neighbours, and the most rows that are searched for so many.
NEIGHBORS = {40: 1_000_000, 160: 100_000}


def make_rows(kind, n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    if kind == "clustered":
        # Thirty groups of unlike size: real tables are seldom one cloud.
        centers = np.random.default_rng(7).normal(0, 4, size=(30, d))
        X = 0.5 * X + centers[rng.integers(0, 30, size=n)]
    return X


def compare(kind, n, d, k):
    """Return processor microseconds a query of both searches, taken in turns."""
    X, Q = make_rows(kind, n, d, 0), make_rows(kind, N_QUERIES[n], d, 1)
    searches = [NeighborSearch(k, algorithm=a).fit(X) for a in ("tree", "brute")]
    for search in searches:
        search.kneighbors(Q[:70])  # compilation
    times = [np.inf, np.inf]
    for _ in range(3):
        for i, search in enumerate(searches):
            times[i] = min(times[i], processor_timed(lambda s=search: s.kneighbors(Q))[0])
    chosen = NeighborSearch(k).fit(X).algorithm_
    return [1e6 * t / len(Q) for t in times], chosen


def main(kinds):
    page = ResultsPage(
        "neighbors_tree",
        "k-d tree compared with brute force",
        "Processor time of exact Euclidean search by scikit-learn's kd-tree (with our order of "
        "ties) and by our blocked products, all threads together, in turns, least of three; the "
        'ratio is tree over products, and "auto" what the library takes.',
    )
    worst = []
    for kind in kinds:
        for k, most in NEIGHBORS.items():
            rows = []
            for d in DIMENSIONS:
                for n in (n for n in N_QUERIES if n <= most):
                    case = (kind, n, d, k)
                    (tree, brute), chosen = page.case(case, lambda c=case: compare(*c))
                    worst.append(max(1.0, (tree if chosen == "tree" else brute) / min(tree, brute)))
                    rows.append(
                        [d, f"{n:,}", f"{tree:.1f}", f"{brute:.1f}", f"{tree / brute:.2f}", chosen]
                    )
            page.table(
                ["columns", "rows", "tree, us", "products, us", "ratio", "auto"],
                rows,
                caption=f"{kind} rows, {k} neighbours.",
            )
    page.text(
        f'The choice of "auto" costs {100 * (np.mean(worst) - 1):.0f} % more than the better of '
        f"the two on average over these cases, and {max(worst):.1f} times as much at worst."
    )
    page.write()


if __name__ == "__main__":
    main(["normal"] if "--quick" in sys.argv else ["normal", "clustered"])
