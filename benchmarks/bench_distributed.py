"""Does a table of many gigabytes cost a worker more than a block of it, and does a lost one matter?

A scheduler and workers as separate processes on loopback, one thread and 2 GB each; covtype written
ten times over to Parquet, every copy shaken a little. Each family is fitted with one and with two
workers, and once more while one of two workers is killed; ``--rows`` makes it small.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
from threadpoolctl import threadpool_limits

from _datasets import load_dataset
from _harness import Cases, ResultsPage, stored
from vicinal import distributed
from vicinal.auto import AutoClassifier
from vicinal.distributed._blocks import DaskBlocks
from vicinal.partition import SpacePartitioningClassifier
from vicinal.subspace import FeatureSpaceDecomposition, TruncatedRBFClassifier

FULL_ROWS = 5_810_120
RATE_ROWS = (300_000, 600_000)
BLOCK_ROWS = 100_000
MEMORY = 2_000_000_000
COLUMNS = [f"x{j}" for j in range(54)]
# What is fitted on the cluster unless said otherwise; one thread fits every family.
ON_CLUSTER = ("read", "partition")

# --- the table ------------------------------------------------------------------------------------


def covtype() -> tuple[np.ndarray, np.ndarray]:
    """Return covtype with columns scaled to [0, 1]."""
    data = load_dataset("covtype")
    X = np.asarray(data.X, dtype=np.float32)
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / np.where(high > low, high - low, 1.0), np.asarray(data.y)


def write_table(folder: Path, n_rows: int) -> None:
    """Write shaken copies of covtype as Parquet files of ``BLOCK_ROWS`` rows."""
    import pandas as pd

    X, y = covtype()
    folder.mkdir(parents=True)
    order = np.random.RandomState(0).permutation(len(X))
    for number, start in enumerate(range(0, n_rows, BLOCK_ROWS)):
        places = np.arange(start, min(start + BLOCK_ROWS, n_rows))
        rows = order[places % len(X)]
        noise = np.random.RandomState(number).standard_normal((len(rows), 10))
        block = X[rows]
        block[:, :10] += (1e-4 * noise).astype(np.float32)
        frame = pd.DataFrame(block, columns=COLUMNS).assign(kind=y[rows])
        frame.to_parquet(folder / f"part-{number:04d}.parquet", index=False)


def table_folder(n_rows: int) -> Path:
    """Return the folder of a table of so many rows, written once."""
    folder = Path(tempfile.gettempdir()) / "vicinal-benchmarks" / f"covtype-{n_rows}"
    if not folder.exists():
        draft = folder.with_suffix(".draft")
        shutil.rmtree(draft, ignore_errors=True)
        write_table(draft, n_rows)
        draft.replace(folder)
    return folder


def table_size(n_rows: int) -> float:
    """Return the gigabytes of the files of a table."""
    return sum(file.stat().st_size for file in table_folder(n_rows).iterdir()) / 2**30


def read_table(folder: Path):
    """Return features and labels as lazy frames."""
    import dask.dataframe as dd

    table = dd.read_parquet(folder)
    return table[COLUMNS], table["kind"]


# --- the cluster ----------------------------------------------------------------------------------


class Cluster:
    """A scheduler and workers as processes of their own, watched while they work."""

    def __init__(self, n_workers: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="vicinal-cluster-"))
        self.n_workers = n_workers
        self.peaks: dict[int, int] = {}
        self.processes: list[subprocess.Popen] = []

    def __enter__(self):
        from distributed import Client

        where = str(self.folder / "scheduler.json")
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
                    "--scheduler-file", where)  # fmt: skip
        for _ in range(self.n_workers):
            self._start("worker", "--scheduler-file", where, "--nthreads", "1", "--no-dashboard",
                        "--memory-limit", str(MEMORY), "--host", "127.0.0.1",
                        "--local-directory", str(self.folder))  # fmt: skip
        self.client = Client(scheduler_file=where, timeout=60)
        self.client.wait_for_workers(self.n_workers, timeout=120)
        self.client.run(_load)
        self.done = threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True)
        self.watcher.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.watcher.join()
        self.client.close()
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, *arguments: str) -> None:
        source = str(Path(__file__).resolve().parent.parent / "src")
        environment = {**os.environ, "PYTHONPATH": source, "PYTHONWARNINGS": "ignore"}
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            environment[name] = "1"
        command = [str(Path(sys.executable).parent / "dask"), *arguments]
        log = open(self.folder / f"{arguments[0]}-{len(self.processes)}.log", "w")
        with log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self.processes.append(process)

    def workers(self) -> list[psutil.Process]:
        """Return the processes that do the work: the largest child of every nanny."""
        found = []
        for process in self.processes[1:]:
            children = psutil.Process(process.pid).children(recursive=True)
            sizes = {child: _resident(child) for child in children}
            if sizes:
                found.append(max(sizes, key=sizes.__getitem__))
        return found

    def _watch(self) -> None:
        while not self.done.wait(0.5):
            for worker in self.workers():
                self.peaks[worker.pid] = max(self.peaks.get(worker.pid, 0), _peak(worker.pid))

    def processor(self) -> float:
        """Return the processor seconds of the workers so far."""
        return sum(sum(worker.cpu_times()[:2]) for worker in self.workers())

    def kill_one(self) -> None:
        """End a worker without warning."""
        os.kill(self.workers()[0].pid, signal.SIGKILL)


def _load() -> None:
    """Import the library, so that it is not timed."""
    import vicinal.distributed  # noqa: F401


def _peak(pid: int) -> int:
    """Return the largest resident size so far, as the kernel keeps it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line[:5] == "VmHWM"), 0)


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.NoSuchProcess:
        return 0


# --- what is fitted -------------------------------------------------------------------------------


def only_read(X, y):
    """Make every block and forget it: what one pass costs without arithmetic."""
    return DaskBlocks.of(X, y).total(len)


def partition(X, y):
    """A cascade of three discriminant regions, one start of k-means, one sweep."""
    model = SpacePartitioningClassifier(
        "lda", n_regions=3, n_init=1, max_iter=1, combine="best", random_state=0
    )
    return distributed.fit(model, X, y)


def subspace(X, y):
    """Two discriminant subspaces of ten directions, a truncated RBF ridge of order 2 on both."""
    parts = FeatureSpaceDecomposition(
        "discriminant", n_subspaces=2, subspace_size=10, random_state=0
    )
    parts = distributed.fit(parts, X, y)
    directions = X.map_partitions(_directions, parts)
    return parts, distributed.fit(TruncatedRBFClassifier(order=2), directions, y)


def _directions(frame, parts):
    import pandas as pd

    return pd.DataFrame(parts.transform(frame), columns=parts.get_feature_names_out())


def mixture(X, y):
    """Linear, quadratic and logistic members: chosen on a sample, then fitted to all rows."""
    return distributed.fit(AutoClassifier(["linear"], random_state=0), X, y)


def default_mixture(X, y):
    """The default families; those without a fit by blocks know the sample."""
    return distributed.fit(AutoClassifier(random_state=0), X, y)


FAMILIES = {"read": only_read, "partition": partition, "subspace": subspace}
MIXTURES = {"linear models": mixture, "default families": default_mixture}
# Passes that read the table, and numbers that a block sends home in the largest of them.
D, C, R, J = 54, 7, 3, 231
PASSES = {"read": 1, "partition": 3 + R, "subspace": 3 + 3}
SENT = {
    "read": 1,
    "partition": R * (C + C * D + D * D),
    "subspace": J * J + J * C,
}


def answers(model, X) -> np.ndarray:
    """Return the probabilities of some rows, by which two fits are compared."""
    import pandas as pd

    frame = pd.DataFrame(X, columns=COLUMNS)
    if isinstance(model, tuple):
        parts, model = model
        frame = _directions(frame, parts)
    return np.asarray(model.predict_proba(frame))


def run_case(n_rows: int, family: str, n_workers: int, kill_after: float | None = None) -> dict:
    """Fit on a fresh cluster; return time, peaks and some answers."""
    folder = table_folder(n_rows)
    with Cluster(n_workers) as cluster:
        only_read(*read_table(next(folder.glob("*.parquet"))))
        X, y = read_table(folder)
        if kill_after is not None:
            threading.Timer(kill_after, cluster.kill_one).start()
        started, used = time.perf_counter(), cluster.processor()
        model = (FAMILIES | MIXTURES)[family](X, y)
        found = {
            "seconds": time.perf_counter() - started,
            "processor": cluster.processor() - used,
            "peaks_mb": sorted(peak / 2**20 for peak in cluster.peaks.values()),
        }
    if family != "read":
        rows = covtype()[0][:: 581_012 // 200]
        found["answers"] = answers(model, rows).round(12).tolist()
    if family in MIXTURES:
        found["members"] = [[m.name, m.weight, m.n_rows] for m in model.estimators_]
        found["error"] = 100.0 * (1.0 - model.score_)
    return found


def letter_case(block_rows: int | None) -> dict:
    """Fit the default cascade of logistic regions to letter, in memory or by blocks of rows."""
    import dask.array as da

    data = load_dataset("letter")
    X, y = np.asarray(data.X_train, dtype=np.float64), data.y_train
    model = SpacePartitioningClassifier("logistic", random_state=0)
    started = time.process_time()
    if block_rows is None:
        model.fit(X, y)
    else:
        chunks = da.from_array(X, chunks=(block_rows, X.shape[1]))
        model = distributed.fit(model, chunks, da.from_array(y, chunks=block_rows))
    labels = model.predict(np.asarray(data.X_test, dtype=np.float64))
    return {
        "seconds": time.process_time() - started,
        "error": 100.0 * float(np.mean(labels != data.y_test)),
        "n_regions": int(model.n_regions_),
        "labels": labels.tolist(),
    }


def task_overhead() -> dict:
    """Return the processor seconds of the scheduler for a task that does nothing."""
    from dask import delayed

    with Cluster(1) as cluster:
        scheduler = psutil.Process(cluster.processes[0].pid)
        tasks = [delayed(int, pure=False)(i) for i in range(2000)]
        started = sum(scheduler.cpu_times()[:2])
        cluster.client.gather(cluster.client.compute(tasks))
        return {"seconds": (sum(scheduler.cpu_times()[:2]) - started) / len(tasks)}


# --- the page -------------------------------------------------------------------------------------


def measured(page: ResultsPage, store: Cases, n_rows: int, names: list) -> None:
    """Run what is missing and print the tables."""
    cases, rows, losses = {}, [], []
    for family in names:
        for n_workers in (1, 2):
            case = store.run(
                (n_rows, family, n_workers), lambda f=family, w=n_workers: run_case(n_rows, f, w)
            )
            cases[family, n_workers] = case
            peaks = ", ".join(f"{peak:.0f}" for peak in case["peaks_mb"])
            rows.append([family, n_workers, case["seconds"], case["processor"], peaks])
        if family == "read":
            continue
        whole = cases[family, 2]
        lost = store.run(
            (n_rows, family, "killed"),
            lambda f=family, s=whole["seconds"]: run_case(n_rows, f, 2, kill_after=0.4 * s),
        )
        gaps = [
            float(np.abs(np.subtract(lost["answers"], other["answers"])).max())
            for other in (whole, cases[family, 1])
        ]
        if max(gaps) > 1e-9:
            raise AssertionError(f"{family}: a lost worker changed the model by {max(gaps)}")
        losses.append(
            [family, lost["seconds"], sum(peak > 100 for peak in lost["peaks_mb"]), *gaps]
        )
    page.text("## Time and memory")
    page.table(
        ["fit", "workers", "seconds", "processor s of the workers", "peak MB of each"],
        rows,
        "Where the load stated above exceeds the number of cores, workers share what is left: "
        "wall time does not show whether two halve the time, and processor time alone compares.",
    )
    left = [name for name in FAMILIES if name not in names]
    if left:
        page.text(f"Not fitted on the cluster in this run: {', '.join(left)}; in one thread below.")
    page.text("## One of two workers killed")
    page.table(
        [
            "fit",
            "seconds",
            "worker processes seen",
            "difference from two workers",
            "difference from one worker",
        ],
        losses,
        "Largest difference of a probability over 200 rows, after kill -9 at two fifths of the "
        "time; the nanny starts a new process.",
    )


def mixtures(page: ResultsPage, store: Cases) -> None:
    """Fit mixtures by blocks, once while a worker dies."""
    n_rows, rows = RATE_ROWS[1], []
    for name in MIXTURES:
        whole = store.run((n_rows, name, 2), lambda f=name: run_case(n_rows, f, 2))
        lost = None
        if name == "linear models":
            lost = store.run(
                (n_rows, name, "killed"),
                lambda f=name, s=whole["seconds"]: run_case(n_rows, f, 2, kill_after=0.8 * s),
            )
        gap = "" if lost is None else np.abs(np.subtract(lost["answers"], whole["answers"])).max()
        if lost is not None and gap > 1e-9:
            raise AssertionError(f"{name}: a lost worker changed the mixture by {gap}")
        members = ", ".join(f"{m} {w:.2f} ({n:,} rows)" for m, w, n in whole["members"])
        peaks = ", ".join(f"{peak:.0f}" for peak in whole["peaks_mb"])
        rows.append([name, whole["seconds"], whole["processor"], peaks, whole["error"],
                     "" if lost is None else float(gap), members])  # fmt: skip
    page.text("## Mixtures")
    page.table(
        ["families", "seconds", "processor s of the workers", "peak MB of each",
         "estimated errors, %",
         "difference after a killed worker", "base models with weight, learned from"],
        rows,
        f"`AutoClassifier` of {n_rows:,} rows, two workers: chosen on a sample in the client's "
        "memory; base models that fit by blocks then learn from all rows. One worker was killed "
        "at four fifths of the time, while blocks were read again; the difference is as above.",
    )  # fmt: skip


def letter(page: ResultsPage, store: Cases) -> None:
    """Compare a cascade of logistic regions in memory and by blocks."""
    cases = {
        size: store.run(("letter", size or "memory"), lambda s=size: letter_case(s))
        for size in (None, 8000, 3000)
    }
    whole = np.array(cases[None]["labels"])
    page.text("## Logistic regions by sums over blocks")
    page.table(
        ["letter, 16,000 rows", "regions chosen", "errors, %", "labels that differ, %",
         "processor s"],
        [
            [f"blocks of {size:,}" if size else "in memory", case["n_regions"], case["error"],
             100.0 * float(np.mean(np.array(case["labels"]) != whole)), case["seconds"]]
            for size, case in cases.items()
        ],
        "The default cascade, its number of regions chosen; gradients and curvatures of blocks add "
        "up to those of the table.",
    )  # fmt: skip


def processor_time(family: str, n_rows: int) -> dict:
    """Return the processor seconds of a fit in this process and one thread."""
    import dask

    with dask.config.set(scheduler="synchronous"):
        X, y = read_table(table_folder(n_rows))
        only_read(X, y)  # imports, and files in the cache of the system
        started = time.process_time()
        FAMILIES[family](X, y)
        return {"seconds": time.process_time() - started}


def past_one_machine(page: ResultsPage, times: dict, reading: float, overhead: float) -> None:
    """Fit the cost model and say what a thousand million rows would take."""
    rates = {
        name: (large - small) / ((RATE_ROWS[1] - RATE_ROWS[0]) * PASSES[name])
        for name, (small, large) in times.items()
    }
    read = reading / D
    rows, far = [], []
    big_rows, big_columns, big_workers, big_block = 10**9, 100, 100, 250_000
    for family, each in rates.items():
        arithmetic = max(each - reading, 0.0)
        sent = 8 * SENT[family] / 2**20
        small, large = times[family]
        fixed = max(small - (large - small) * RATE_ROWS[0] / (RATE_ROWS[1] - RATE_ROWS[0]), 0.0)
        costs = fixed, 1e6 * read * D, 1e6 * arithmetic, sent
        rows.append([family, PASSES[family], *map(float, costs)])
        growth = 1.0 if family == "subspace" else (big_columns / D) ** 2
        one_pass = big_rows / big_workers * (read * big_columns + arithmetic * growth)
        n_blocks = big_rows / big_block
        waiting = 5 * n_blocks * overhead
        wider = sent if family == "subspace" else sent * (big_columns / D) ** 2
        far.append(
            [
                family,
                PASSES[family],
                float(one_pass),
                float(waiting),
                float((fixed + PASSES[family] * max(one_pass, waiting)) / 60),
                float(n_blocks * wider / 1024),
                float(big_block * big_columns * 8 * 3 / 2**30),
            ]
        )
    page.text(
        "## Past one machine\n\n"
        "A fit is a number of passes; a pass costs every worker its rows times (reading + "
        "arithmetic), and the scheduler about five tasks a block. Reading grows with the columns; "
        "the arithmetic of Gram matrices with their square, that of the truncated RBF ridge with "
        "the square of its monomials, kept as they are here. Sums are added eight at a time where "
        "they lie, so the client receives one matrix a pass however many rows there are."
    )
    page.table(
        [
            "fit",
            "passes",
            "once, s",
            "reading us/row and pass",
            "arithmetic us/row and pass",
            "MB sent by a block",
        ],
        rows,
        f"Processor time of one thread, a line through fits to {RATE_ROWS[0]:,} and "
        f"{RATE_ROWS[1]:,} rows. The scheduler needs {1e3 * overhead:.2f} ms of "
        "its processor a task.",
    )
    page.table(
        [
            "fit",
            "passes",
            "a pass, s",
            "scheduler a pass, s",
            "the fit, min",
            "GB sent a pass",
            "GB a worker",
        ],
        far,
        f"What {big_rows:.0e} rows x {big_columns} columns would take on {big_workers} such "
        f"workers, in blocks of {big_block:,} rows: a calculation, not a measurement. A pass takes "
        "the longer of the workers' and the scheduler's time.",
    )


def main() -> None:
    """Run the cases that are missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=FULL_ROWS)
    parser.add_argument(
        "--families",
        nargs="+",
        choices=list(FAMILIES),
        default=list(ON_CLUSTER),
        help="what is fitted on the cluster; rates of one thread are measured for all",
    )
    options = parser.parse_args()
    threadpool_limits(1)  # of this process; its environment tells a worker
    page = ResultsPage(
        "distributed",
        "Tables larger than the memory of one machine",
        "Does a table that no worker could hold cost a worker more than a few of its blocks, do "
        "two workers halve the time, and does the model survive the loss of one?",
        packages=("dask", "distributed", "pyarrow"),
    )
    store = stored("distributed")
    size = store.run((options.rows, "table"), lambda: table_size(options.rows))
    blocks = -(-options.rows // BLOCK_ROWS)
    page.text(
        f"covtype repeated to {options.rows:,} rows x {D} columns with tiny jitter, {blocks} "
        f"Parquet files, {size:.2f} GB compressed, {options.rows * D * 8 / 2**30:.2f} GB as the "
        "doubles that a fit in memory would hold. Scheduler and workers are processes of their own "
        "on loopback, one thread and 2 GB a worker."
    )
    measured(page, store, options.rows, options.families)
    mixtures(page, store)
    letter(page, store)
    overhead = store.run(("overhead",), task_overhead)["seconds"]
    times = {
        name: [
            store.run((n_rows, name, "one thread"), lambda f=name, n=n_rows: processor_time(f, n))[
                "seconds"
            ]
            for n_rows in RATE_ROWS
        ]
        for name in FAMILIES
        if name != "read"
    }
    key = options.rows, "read", "one thread"
    reading = store.run(key, lambda: processor_time("read", options.rows))["seconds"]
    past_one_machine(page, times, reading / options.rows, overhead)
    for name in options.families:
        if name != "read":
            small, large = times[name]
            slope = (large - small) / (RATE_ROWS[1] - RATE_ROWS[0])
            predicted = small + slope * (options.rows - RATE_ROWS[0])
            used = store.find(options.rows, name, 1)["processor"]
            page.text(
                f"Does the line hold? For {name} it predicts {predicted:.0f} s of one thread for "
                f"the whole table, and one worker, with what it sends and receives, used "
                f"{used:.0f} s: {used / predicted:.1f} times as much, so calculations of the last "
                "table are low by about as much."
            )
    if options.rows == FULL_ROWS:
        page.write()


if __name__ == "__main__":
    main()
