"""How do time and memory of local models grow with rows and queries?"""

import argparse
import subprocess
import sys

import numpy as np

from _harness import ResultsPage, peak_memory_gb
from _harness import processor_timed as timed
from vicinal.local import LocalClassifier

N_FEATURES = 16


def problem(n, seed):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, N_FEATURES))
    y = (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] > 0).astype(np.int64)
    return X, y


def case(n_rows, n_queries):
    """Print fit time, predict time and peak memory of one case, measured in its own process."""
    X, y = problem(n_rows, 0)
    Q, truth = problem(n_queries, 1)
    model = LocalClassifier(n_neighbors=40, alpha=1.0, metric="euclidean", calibration=None)
    warm = problem(500, 2)
    LocalClassifier(n_neighbors=40, alpha=1.0, metric="euclidean").fit(*warm).predict(warm[0])
    fit_time, _ = timed(lambda: model.fit(X, y))
    predict_time, labels = timed(lambda: model.predict(Q))
    error = np.mean(labels != truth)
    print(f"RESULT {fit_time} {predict_time} {peak_memory_gb()} {error}")


def run(n_rows, n_queries):
    command = [sys.executable, __file__, str(n_rows), str(n_queries)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    line = next(line for line in out.splitlines() if line.startswith("RESULT"))
    return [float(value) for value in line.split()[1:]]


def main(shrink):
    page = ResultsPage(
        "local_scaling",
        "Local models by number of rows and queries",
        f"Local ridge, k = 40, {N_FEATURES} columns, float64, exact brute-force search, each case "
        "in a process of its own (memory includes Python and every library, some 0.25 GB). Seconds "
        "are processor time, of all threads together.",
    )
    cases = [
        (10_000, 1_000),
        (10_000, 10_000),
        (10_000, 100_000),
        (100_000, 1_000),
        (100_000, 10_000),
        (1_000_000, 1_000),
        # 10^10 and 10^11 distances: a minute on two idle cores.
        (1_000_000, 10_000),
        (1_000_000, 100_000),
    ]
    rows = []
    for n_rows, n_queries in cases:
        size = n_rows // shrink, n_queries // shrink
        fit_time, predict_time, memory, error = page.case(size, lambda s=size: run(*s))
        rows.append(
            [
                f"{size[0]:,}",
                f"{size[1]:,}",
                f"{fit_time:.2f}",
                f"{predict_time:.2f}",
                f"{1e9 * predict_time / size[0] / size[1]:.2f}",
                f"{memory:.2f}",
                f"{100 * error:.2f}",
            ]
        )
    page.table(
        ["rows", "queries", "fit, s", "predict, s", "ns a pair", "peak memory, GB", "error, %"],
        rows,
    )
    page.text(
        "Where the time per (row, query) pair is level, time is linear in rows and in queries; for "
        "few rows the fixed cost of a fit shows. Memory beyond the rows themselves is bounded by "
        "scikit-learn's `working_memory` and by the blocks of the search."
    )
    page.text(
        f"The memory is {rows[-1][5]} GB for {rows[-1][0]} rows and {rows[-1][1]} queries. "
        "Queries are taken in blocks of at most 8,192, so that more of them cost their own 128 "
        "bytes each and nothing else."
    )
    page.write()


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1].isdigit():
        case(int(sys.argv[1]), int(sys.argv[2]))
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--shrink", type=int, default=1, help="divide every size, to try it")
        main(parser.parse_args().shrink)
