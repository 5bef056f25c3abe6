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

from _harness import ResultsPage, peak_memory_gb, stored
from _partition import load_split
from vicinal.partition import SpacePartitioningClassifier

STARTS, SWEEPS, REGIONS = 15, 15, 5
# Functions whose own and called time is shown, by what they do.
PARTS = {
    "region models": "_fit_region",
    "scoring all samples in all regions": "losses",
    "gates": "_fit_gate",
    "routing": "reroute",
    "first assignment": "first_regions",
}


def cascade(learner: str, n_init: int = STARTS) -> SpacePartitioningClassifier:
    return SpacePartitioningClassifier(
        learner,
        n_regions=REGIONS,
        n_init=n_init,
        max_iter=SWEEPS,
        random_state=0,
    )


def compare_with_forest() -> dict:
    """Return fit and prediction times beside those of a forest, all in one run."""
    X, y, X_test, y_test = load_split("letter")
    cascade("lda", 1).fit(X[:500], y[:500])
    cascade("perceptron", 1).fit(X[:500], y[:500])
    cascade("logistic", 1).fit(X[:500], y[:500])
    forest = RandomForestClassifier(500, random_state=0)
    fits = {"random forest (500)": forest}
    for learner, n_init in (("lda", STARTS), ("perceptron", 3), ("logistic", 3)):
        fits[f"{n_init} starts of {SWEEPS} {learner} sweeps"] = cascade(learner, n_init)
    rows, peer = [], None
    for label, model in fits.items():
        wall, used = time.perf_counter(), time.process_time()
        model.fit(X, y)
        wall, used = time.perf_counter() - wall, time.process_time() - used
        peer = used if peer is None else peer
        query = time.process_time()
        score = model.score(X_test, y_test)
        query = time.process_time() - query
        rows.append([label, wall, used, used / peer, query, 100 * (1 - score)])
    return {"rows": rows}


def profile() -> dict:
    """Return the share of each part of a fit."""
    X, y, _, _ = load_split("letter")
    rows = []
    for learner in ("lda", "perceptron", "logistic"):
        cascade(learner, 1).fit(X[:500], y[:500])
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
        started = time.process_time()
        SpacePartitioningClassifier(
            learner, n_regions=REGIONS, n_init=1, max_iter=5, random_state=0
        ).fit(X, y)
        times.append(time.process_time() - started)
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
        [
            "model",
            "fit, wall (s)",
            "fit, processor (s)",
            "of the forest's",
            "predict 4000, processor (s)",
            "test error (%)",
        ],
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
        "Growth with the number of rows (processor time): 10 features, 5 classes, 5 regions, one "
        "start of 5 sweeps.",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default=",".join(TABLES))
    arguments = parser.parse_args()
    store = stored("partition_speed")
    for part in arguments.parts.split(","):
        store.run((part,), TABLES[part][0])
    page = ResultsPage(
        "partition_speed",
        "Speed of the partition classifier",
        "Fit time against scikit-learn's random forest of 500 trees in the same run, the parts of "
        "a sweep, and growth with the number of rows. One thread each.",
    )
    for part, (_, header, caption) in TABLES.items():
        found = store.find(part)
        if found:
            page.table(header, found["rows"], caption)
    page.text(
        "Work grows linearly with the rows. Between 10^5 and 10^6 of them the table outgrows the "
        "caches (8 and 80 MB), which the perceptron, visiting rows in random order, feels most."
    )
    page.write()


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].isdigit():
        scaling_case(int(sys.argv[1]))
    else:
        main()
