"""Which neighbour search is fastest where, what does it miss, and how far is the hardware's limit?

``python benchmarks/bench_neighbors.py`` compares this library's searches with scikit-learn's,
pynndescent and torch in turns, and reads the memory of some in processes of their own.
``--device cuda`` runs the search on torch tensors on the GPU and writes a page of its own.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from _harness import ResultsPage, reset_peak_memory, resident_mb, timed

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


def run_case(method: str, n: int, d: int, queries: int, k: int, reference: str) -> None:
    """Time one case in this process and print what was found as JSON."""
    X, Q = make_rows(n, d, queries)
    warm_fit, warm_ask = make_search(method, k)
    warm_fit(X[:2_000])  # compilation and imports
    warm_ask(Q[:70])
    reset_peak_memory()
    before = resident_mb()
    fit, ask = make_search(method, k)
    fit_time, _ = timed(lambda: fit(X))
    ask_time, (distances, _) = timed(lambda: ask(Q), repeat=3 if n <= 100_000 else 2)
    distances = np.asarray(distances)
    if method == "vicinal brute":
        np.save(reference, distances[:, -1])
        recall = 1.0
    else:
        recall = float(np.mean(distances <= np.load(reference)[:, None] * (1 + 1e-6)))
    print(
        json.dumps(
            {
                "fit": fit_time,
                "ask": ask_time / queries * 1e6,
                "recall": recall,
                "memory": resident_mb("VmHWM") - before,
            }
        )
    )


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


def in_own_process(**case) -> dict:
    arguments = [f"--{name}={value}" for name, value in case.items()]
    done = subprocess.run(
        [sys.executable, __file__, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{case} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def is_reasonable(method: str, n: int, d: int) -> bool:
    """Leave out what would take minutes and surprise nobody."""
    if method == "vicinal tree":
        return d <= 8
    if method == "sklearn kd_tree":
        return d <= 8 or n <= 20_000
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


def compare(page: ResultsPage, folder: Path, approximate: bool) -> None:
    from vicinal._base import n_threads

    case = {"n": HEADLINE["n"], "d": HEADLINE["d"], "queries": HEADLINE["queries"]}
    found = race(("vicinal brute", "sklearn brute"), **case, k=HEADLINE["k"], rounds=7)
    ours, theirs = found["vicinal brute"], found["sklearn brute"]
    columns = "µs per query", "µs of processor time", "recall"
    page.table(
        ("search", *columns),
        [(METHODS[method], *values) for method, values in found.items()],
        f"## The local model's case\n\n{case['n']:,} rows, {case['d']} features, "
        f"{case['queries']:,} queries, {HEADLINE['k']} neighbours, in turns, least of 7. "
        f"scikit-learn's brute force takes {theirs[0] / ours[0]:.1f} times as long as ours "
        f"({theirs[1] / ours[1]:.1f} times the processor time).",
    )
    table, limits = [], []
    for d in DIMENSIONS:
        for n, queries in N_QUERIES.items():
            methods = [m for m in METHODS if is_reasonable(m, n, d) and (approximate or m != GRAPH)]
            found = race(methods, n, d, queries, N_NEIGHBORS, rounds=2)
            for method, values in found.items():
                table.append((d, f"{n:,}", METHODS[method], *values))
                print(table[-1], flush=True)
            ask = found["vicinal brute"][1]
            floor = product_time(n, d, n_threads(None))
            # Rows are read once for each block of queries, products written and read.
            traffic = n * (4 * (d + 1) / 64 + 8) / ask / 1e3
            limits.append(
                (d, f"{n:,}", ask, floor, floor / ask, 2 * n * (d + 1) / ask / 1e3, traffic)
            )
    page.table(
        ("d", "rows", "search", *columns),
        table,
        f"## By dimension and size\n\n{N_NEIGHBORS} neighbours, in turns, least of 2. The "
        "kd-tree is left out beyond 20,000 rows where d > 8; pynndescent is run once, unless left "
        "out by `--without-approximate`, because its compilation takes minutes.",
    )
    memory = []
    for method in ("vicinal brute", "sklearn brute", "vicinal torch"):
        found = in_own_process(
            method=method, n=1_000_000, d=16, queries=200, k=N_NEIGHBORS, reference=folder / "m.npy"
        )
        memory.append((METHODS[method], found["fit"], found["memory"]))
    page.table(
        ("search", "fit, s", "memory, MB"),
        memory,
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


def on_device(page: ResultsPage, device: str) -> None:
    """Time the search on torch tensors where they are."""
    import torch

    from vicinal.neighbors import NeighborSearch

    page.text(f"On {torch.cuda.get_device_name(device)}.")
    rows = []
    for n, queries, k in ((20_000, 65_536, 200), (100_000, 65_536, 40), (1_000_000, 16_384, 40)):
        for d in DIMENSIONS:
            for dtype in ("float32", "float64"):
                X, Q = make_rows(n, d, queries)
                exact = NeighborSearch(k).fit(X.astype(dtype)).kneighbors(Q[:256].astype(dtype))
                X = torch.asarray(X, dtype=getattr(torch, dtype), device=device)
                Q = torch.asarray(Q, dtype=X.dtype, device=device)
                search = NeighborSearch(k).fit(X)
                search.kneighbors(Q[:1_000])
                torch.cuda.reset_peak_memory_stats(device)

                def ask(search=search, Q=Q):
                    found = search.kneighbors(Q)
                    torch.cuda.synchronize(device)
                    return found

                def multiply(X=X, Q=Q):
                    for start in range(0, len(Q), 2_048):
                        Q[start : start + 2_048] @ X.T
                    torch.cuda.synchronize(device)

                seconds, (distances, _) = timed(ask, repeat=3)
                memory = torch.cuda.max_memory_allocated(device) / 2**30
                multiply()
                product, _ = timed(multiply, repeat=3)
                last = torch.asarray(exact[0][:, -1:], device=device)
                recall = float((distances[:256] <= last * (1 + 1e-6)).float().mean())
                micro = 1e6 / queries
                times = seconds * micro, product * micro
                rows.append((dtype, d, f"{n:,}", f"{queries:,}", k, *times, recall, memory))
                print(rows[-1], flush=True)
    page.table(
        ("dtype", "d", "rows", "queries", "k", "µs per query", "product alone", "recall", "GB"),
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", help="torch device, such as cuda")
    parser.add_argument("--without-approximate", action="store_true", help="leave out pynndescent")
    parser.add_argument("--method", help=argparse.SUPPRESS)
    parser.add_argument("--reference", help=argparse.SUPPRESS)
    for name in ("n", "d", "queries", "k"):
        parser.add_argument(f"--{name}", type=int, help=argparse.SUPPRESS)
    given = vars(parser.parse_args())
    device, without = given.pop("device"), given.pop("without_approximate")
    if given["method"]:
        run_case(**given)
    elif device:
        page = ResultsPage(
            "neighbors_" + device.partition(":")[0],
            "Neighbour search on a GPU",
            "Time of exact search on torch tensors on a GPU, float32 and float64, against the "
            "matrix product alone; recall against the compiled search on the CPU for 256 of the "
            "queries.",
            packages=("torch",),
        )
        page.section("page", on_device, device)
        page.write()
    else:
        page = ResultsPage(
            "neighbors",
            "Neighbour search",
            "Time, recall and memory of this library's exact and approximate searches beside "
            "scikit-learn's, pynndescent and torch, on standard normal rows and queries in "
            "float64, with all cores.",
            packages=("torch", "pynndescent"),
        )
        with tempfile.TemporaryDirectory() as folder:
            page.section("page", compare, Path(folder), not without)
        page.write()


if __name__ == "__main__":
    main()
