"""Which neighbour search is fastest where, what does it miss, and how far is the hardware's limit?

This library's searches are compared with scikit-learn's, pynndescent and torch in turns, and the
memory of some is read in processes of their own.
"""

import json
import subprocess
import sys
import time

import numpy as np

from _harness import ResultsPage, processor_timed, reset_peak_memory, resident_mb

N_NEIGHBORS = 40
# Number of queries by number of rows: enough to time, few enough to wait for.
N_QUERIES = {20_000: 2_000, 100_000: 1_000, 1_000_000: 200}
DIMENSIONS = (2, 8, 16, 64)
HEADLINE = {"n": 20_000, "d": 16, "queries": 4_000, "k": 200}
GRAPH = "vicinal approximate"
METHODS = {
    "vicinal brute": "ours, blocked products",
    "vicinal tree": "ours, tree",
    "sklearn brute": "scikit-learn, brute",
    "sklearn kd_tree": "scikit-learn, kd-tree",
    "vicinal torch": "ours, torch on CPU",
    GRAPH: "pynndescent through ours",
}
MEASURED = ("vicinal brute", "sklearn brute", "vicinal torch")
COLUMNS = "µs per query", "µs of processor time", "recall"


def make_rows(n: int, d: int, queries: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.standard_normal((queries, d))


def make_search(method: str, k: int):
    """Return functions that fit and that ask."""
    from sklearn.neighbors import NearestNeighbors

    from vicinal.neighbors import NeighborSearch

    library, algorithm = method.split()
    if library == "sklearn":
        search = NearestNeighbors(n_neighbors=k, algorithm=algorithm, n_jobs=-1)
    elif algorithm == "torch":
        search = NeighborSearch(k)
    else:
        search = NeighborSearch(k, algorithm=algorithm, random_state=0)
    if algorithm != "torch":
        return search.fit, search.kneighbors
    import torch

    return lambda X: search.fit(torch.asarray(X)), lambda Q: search.kneighbors(torch.asarray(Q))


def memory_case(method: str) -> None:
    """Fit and ask in this process; print processor seconds and memory as JSON."""
    X, Q = make_rows(1_000_000, 16, 200)
    warm_fit, warm_ask = make_search(method, N_NEIGHBORS)
    warm_fit(X[:2_000])  # compilation and imports
    warm_ask(Q[:70])
    reset_peak_memory()
    before = resident_mb()
    fit, ask = make_search(method, N_NEIGHBORS)
    seconds, _ = processor_timed(lambda: fit(X))
    ask(Q)
    print(json.dumps([seconds, resident_mb("VmHWM") - before]))


def memory_of(method: str) -> list[float]:
    """Return what ``memory_case`` finds in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, "--memory", method]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def race(methods, n: int, d: int, queries: int, k: int, rounds: int) -> dict[str, tuple]:
    """Time several searches in turns, so that a busy machine slows all alike.

    Returns the least wall and processor time of each in microseconds per query, and its recall.
    """
    X, Q = make_rows(n, d, queries)
    asks, times, last = {}, {}, {}
    for method in methods:
        fit, ask = make_search(method, k)
        fit(X)
        ask(Q[:70])
        asks[method], times[method] = ask, []
    for _ in range(rounds):
        for method, ask in asks.items():
            wall, cpu = time.perf_counter(), time.process_time()
            last[method] = np.asarray(ask(Q)[0])
            times[method].append((time.perf_counter() - wall, time.process_time() - cpu))
    reach = last["vicinal brute"][:, -1:] * (1 + 1e-6)
    return {
        method: (
            *map(float, np.min(t, axis=0) / queries * 1e6),
            float((last[method] <= reach).mean()),
        )
        for method, t in times.items()
    }


def is_reasonable(method: str, n: int, d: int) -> bool:
    """Leave out what would take minutes and surprise nobody."""
    if method == "vicinal tree":
        return d <= 8
    if method == "sklearn kd_tree":
        return d <= 8 or n <= 20_000
    if method == "vicinal torch":
        return n <= 100_000
    if method == GRAPH:
        return n == 100_000 and d == 16
    return True


def product_time(n: int, d: int, n_threads: int) -> float:
    """Return processor microseconds per query of the float32 product alone, in the same blocks."""
    from vicinal._base import thread_map
    from vicinal._base._compat import threadpool_controller
    from vicinal._kernels.neighbors._nearest import QUERY_BLOCK, ROW_BLOCK

    rng = np.random.default_rng(0)
    rows = rng.standard_normal((min(n, 100_000), d + 1)).astype(np.float32)
    left = rng.standard_normal((QUERY_BLOCK, d + 1)).astype(np.float32)

    def multiply(_):
        out = np.empty((QUERY_BLOCK, ROW_BLOCK), np.float32)
        for first in range(0, len(rows) - ROW_BLOCK + 1, ROW_BLOCK):
            np.dot(left, rows[first : first + ROW_BLOCK].T, out=out)

    with threadpool_controller().limit(limits=1, user_api="blas"):
        spent = []
        for _ in range(5):
            started = time.process_time()
            thread_map(multiply, range(4 * n_threads))
            spent.append(time.process_time() - started)
    done = (len(rows) // ROW_BLOCK) * ROW_BLOCK
    return min(spent) / (4 * n_threads * QUERY_BLOCK) * n / done * 1e6


def write_headline(page: ResultsPage) -> None:
    found = page.case(
        ("headline",), lambda: race(("vicinal brute", "sklearn brute"), **HEADLINE, rounds=5)
    )
    ours, theirs = found["vicinal brute"], found["sklearn brute"]
    page.table(
        ("search", *COLUMNS),
        [(METHODS[method], *values) for method, values in found.items()],
        f"## The local model's case\n\n{HEADLINE['n']:,} rows, {HEADLINE['d']} features, "
        f"{HEADLINE['queries']:,} queries, {HEADLINE['k']} neighbours, in turns, least of 5. "
        f"scikit-learn's brute force takes {theirs[1] / ours[1]:.1f} times the processor time of "
        "ours.",
    )


def by_size(n: int, d: int) -> dict:
    """Return the race of a size, and the processor time of the product alone."""
    from vicinal._base import n_threads

    methods = [method for method in METHODS if is_reasonable(method, n, d)]
    return {
        "race": race(methods, n, d, N_QUERIES[n], N_NEIGHBORS, rounds=2),
        "product": product_time(n, d, n_threads(None)),
    }


def write_sizes(page: ResultsPage) -> None:
    table, limits = [], []
    for d in DIMENSIONS:
        for n in N_QUERIES:
            found = page.case(("size", d, n), lambda n=n, d=d: by_size(n, d))
            for method, values in found["race"].items():
                table.append((d, f"{n:,}", METHODS[method], *values))
            ask, floor = found["race"]["vicinal brute"][1], found["product"]
            # Rows are read once for each block of queries, products written and read.
            traffic = n * (4 * (d + 1) / 64 + 8) / ask / 1e3
            limits.append(
                (d, f"{n:,}", ask, floor, floor / ask, 2 * n * (d + 1) / ask / 1e3, traffic)
            )
    page.table(
        ("d", "rows", "search", *COLUMNS),
        table,
        f"## By dimension and size\n\n{N_NEIGHBORS} neighbours, in turns, least of 2. The "
        "kd-tree is left out beyond 20,000 rows where d > 8, torch beyond 100,000; pynndescent is "
        "run once, because its compilation takes minutes.",
    )
    memory = {m: page.case(("memory", m), lambda m=m: memory_of(m)) for m in MEASURED}
    page.table(
        ("search", "fit, processor s", "memory, MB"),
        [(METHODS[method], *values) for method, values in memory.items()],
        "## Memory\n\nWhat fit and search add to a process that holds 1,000,000 rows of 16 "
        "features (128 MB) and 200 queries.",
    )
    page.table(
        ("d", "rows", "µs of processor time", "product alone", "share", "Gflop/s", "cache GB/s"),
        limits,
        "## What bounds the blocked products\n\nPer core, in processor time. The product "
        "alone is the float32 matrix product in the same blocks: no exact search through "
        "products can be faster on this machine. Few features: the products must be written to "
        "and read from the cache once (last column); many: arithmetic.",
    )
    page.text(
        "Where the load stated above exceeds the number of cores, wall times are those of a shared "
        "machine; compare processor times then."
    )


def main() -> None:
    page = ResultsPage(
        "neighbors",
        "Neighbour search",
        "Time, recall and memory of this library's exact and approximate searches compared with "
        "scikit-learn's, pynndescent and torch, on standard normal rows and queries in "
        "float64, with all cores.",
        packages=("torch", "pynndescent"),
    )
    write_headline(page)
    write_sizes(page)
    page.write()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        memory_case(sys.argv[2])
    else:
        main()
