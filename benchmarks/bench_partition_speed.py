"""How fast is a partition fit against a random forest, does it grow linearly, what bounds it?

Usage: python benchmarks/bench_partition_speed.py [--parts forest,profile,scaling]
"""

import argparse
import cProfile
import pstats
import subprocess
import sys
import time

from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from _harness import ResultsPage, peak_memory_gb, timed
from _partition import Store, load_split
from vicinal.partition import SpacePartitioningClassifier

STARTS, SWEEPS, REGIONS = 15, 15, 5
# Functions whose own and called time is shown, by what they do.
PARTS = {
    "region models": "_update_models",
    "of it scoring all samples in all regions": "linear_errors",
    "gates": "_update_gates",
    "routing": "route",
    "first assignment": "first_assignment",
}


def cascade(learner: str, n_init: int = STARTS, n_jobs: int = 1) -> SpacePartitioningClassifier:
    return SpacePartitioningClassifier(
        learner,
        n_regions=REGIONS,
        n_init=n_init,
        max_iter=SWEEPS,
        n_jobs=n_jobs,
        random_state=0,
    )


def compare_with_forest() -> dict:
    """Return fit and prediction times beside those of a forest, all in one run."""
    X, y, X_test, y_test = load_split("letter")
    cascade("lda", 1).fit(X[:500], y[:500])
    cascade("perceptron", 1).fit(X[:500], y[:500])
    cascade("logistic", 1).fit(X[:500], y[:500])
    rows = []
    for n_jobs in (1, 2):
        forest = RandomForestClassifier(500, n_jobs=n_jobs, random_state=0)
        peer_time, _ = timed(lambda f=forest: f.fit(X, y), repeat=2 if n_jobs == 1 else 1)
        peer_query, score = timed(lambda f=forest: f.score(X_test, y_test), repeat=2)
        rows.append(["random forest (500)", n_jobs, peer_time, 1.0, peer_query, 100 * (1 - score)])
        for learner, n_init in (("lda", STARTS), ("perceptron", STARTS), ("logistic", 3)):
            if learner != "lda" and n_jobs == 2:
                continue
            model = cascade(learner, n_init, n_jobs)
            fit_time, _ = timed(lambda m=model: m.fit(X, y), repeat=2 if learner == "lda" else 1)
            query, score = timed(lambda m=model: m.score(X_test, y_test), repeat=3)
            rows.append(
                [
                    f"{n_init} starts of {SWEEPS} {learner} sweeps",
                    n_jobs,
                    fit_time,
                    fit_time / peer_time,
                    query,
                    100 * (1 - score),
                ]
            )
    return {"rows": rows}


def profile() -> dict:
    """Return the share of each part of a fit."""
    X, y, _, _ = load_split("letter")
    rows = []
    for learner in ("lda", "perceptron", "logistic"):
        model = cascade(learner, 2)
        profiler = cProfile.Profile(time.process_time)
        profiler.runcall(model.fit, X, y)
        stats = pstats.Stats(profiler)
        total = stats.total_tt
        spent = dict.fromkeys(PARTS, 0.0)
        for (_, _, function), (_, _, _, cumulative, _) in stats.stats.items():
            for label, wanted in PARTS.items():
                if function == wanted:
                    spent[label] += cumulative
        sweeps = sum(cascade.n_iter for cascade in model.restarts_)
        rows.append(
            [
                learner,
                1e3 * total / sweeps,
                *(f"{100 * spent[label] / total:.0f} %" for label in PARTS),
            ]
        )
    return {"rows": rows}


def scaling_case(n_rows: int) -> None:
    X, y = make_classification(
        n_rows,
        n_features=10,
        n_informative=8,
        n_classes=5,
        n_clusters_per_class=3,
        random_state=0,
    )
    cascade("lda", 1).fit(X[:500], y[:500])
    cascade("perceptron", 1).fit(X[:500], y[:500])
    before = peak_memory_gb()
    times = []
    for learner in ("lda", "perceptron"):
        started = time.perf_counter()
        SpacePartitioningClassifier(learner, n_init=1, max_iter=5, random_state=0).fit(X, y)
        times.append(time.perf_counter() - started)
    print(*times, peak_memory_gb() - before, X.nbytes / 2**30)


def scaling() -> dict:
    """Return times and memory for growing numbers of rows, each in a process of its own."""
    rows = []
    for n_rows in (10_000, 100_000, 1_000_000):
        command = [sys.executable, __file__, str(n_rows)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        lda, perceptron, extra, size = map(float, done.stdout.split())
        rows.append(
            [n_rows, lda, 1e6 * lda / n_rows, perceptron, 1e6 * perceptron / n_rows, extra / size]
        )
    return {"rows": rows}


TABLES = {
    "forest": (
        compare_with_forest,
        ["model", "n_jobs", "fit (s)", "of the forest's", "predict 4000 (s)", "test error (%)"],
        f"Letter, 16000 rows, 16 features, 26 classes, {REGIONS} regions, starts averaged; all in "
        "one run.",
    ),
    "profile": (
        profile,
        ["learner", "ms a sweep", *PARTS],
        "Where the processor time of a fit goes (letter, under the profiler).",
    ),
    "scaling": (
        scaling,
        [
            "rows",
            "LDA (s)",
            "µs a row",
            "perceptron (s)",
            "µs a row",
            "memory beyond the data, in sizes of X",
        ],
        "Growth with the number of rows: 10 features, 5 classes, 5 regions, one start of 5 sweeps.",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default=",".join(TABLES))
    arguments = parser.parse_args()
    store = Store("partition_speed")
    for part in arguments.parts.split(","):
        store.run((part,), TABLES[part][0])
    page = ResultsPage(
        "partition_speed",
        "Speed of the partition classifier",
        "Fit time against scikit-learn's random forest of 500 trees in the same run, the parts of "
        "a sweep, and growth with the number of rows. The machine was shared with other work: "
        "compare the ratios, not the seconds.",
    )
    for part, (_, header, caption) in TABLES.items():
        found = store.get(part)
        if found:
            page.table(header, found["rows"], caption)
    page.write()


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].isdigit():
        scaling_case(int(sys.argv[1]))
    else:
        main()
