"""AutoGluon on many tables at once, one core each, in an environment that need not have vicinal.

``python _peers_autogluon.py FOLDER CORES SECONDS`` reads ``FOLDER/jobs.json``, a list of (table,
minutes), and the tables that ``bench_autogluon.py --tables FOLDER`` wrote. No job is begun that
cannot end within SECONDS. Every result is a line of ``FOLDER/results.jsonl``.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

_OVERHEAD = 45  # seconds of imports and predictions beside the time limit of a fit


def fit_one(table: Path, minutes: float, core: int) -> dict:
    """Fit on one core within the time limit; return the loss on test rows and the costs."""
    os.sched_setaffinity(0, {core})
    warnings.simplefilter("ignore")
    from autogluon.tabular import TabularPredictor

    from _losses import loss_of
    from _peers_auto import frames, used

    data = np.load(table)
    X, X_test = frames(data["X"], data["X_test"], data["is_category"])
    y, is_regression = data["y"], bool(data["is_regression"])
    started, wall = used(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        predictor = TabularPredictor(
            "target",
            path=folder,
            verbosity=0,
            eval_metric="mean_squared_error" if is_regression else "log_loss",
        ).fit(
            X.assign(target=y),
            presets="best_quality",
            time_limit=60.0 * minutes,
            num_cpus=1,
            num_gpus=0,
        )
        fitted, fitted_wall = used(), time.perf_counter()
        if is_regression:
            predicted, classes = predictor.predict(X_test).to_numpy(), None
        else:
            table_of = predictor.predict_proba(X_test)
            predicted, classes = table_of.to_numpy(), table_of.columns.to_numpy()
        found = {
            "fit": fitted - started,
            "wall": fitted_wall - wall,
            "predict": used() - fitted,
            "models": len(predictor.model_names()),
            "version": version("autogluon.tabular"),
            "machine": processor(),
        }
    return found | loss_of(predicted, classes, data["y_test"])


def processor() -> str:
    """Return the name of the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))


def run_all(folder: Path, n_cores: int, seconds: float) -> None:
    """Run the jobs, longest first, one per core."""
    jobs = sorted(json.loads((folder / "jobs.json").read_text()), key=lambda job: -job[1])
    started, running = time.monotonic(), {}
    environment = {**os.environ, **dict.fromkeys(_THREADS, "1")}
    with (folder / "results.jsonl").open("a") as results:
        while jobs or running:
            for core in set(range(n_cores)) - set(running):
                left = seconds - (time.monotonic() - started) - _OVERHEAD
                name, minutes = next((j for j in jobs if 60.0 * j[1] < left), (None, None))
                if name is None:
                    break
                jobs.remove([name, minutes])
                command = [sys.executable, __file__, f"{folder / name}.npz", minutes, core]
                with (folder / f"{name}-{minutes}.log").open("w") as log:
                    running[core] = name, minutes, subprocess.Popen(
                        [str(word) for word in command], env=environment, text=True,
                        stdout=subprocess.PIPE, stderr=log,
                    )  # fmt: skip
            if not running:
                break
            for core, (name, minutes, job) in list(running.items()):
                if job.poll() is not None:
                    lines = job.stdout.read().strip().splitlines()
                    found = {"reason": f"exit status {job.returncode}"}
                    if job.returncode == 0:
                        found = json.loads(lines[-1])
                    results.write(json.dumps([name, minutes, found]) + "\n")
                    results.flush()
                    del running[core]
            time.sleep(0.2)


_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

if __name__ == "__main__":
    first, second, third = sys.argv[1:]
    if first.endswith(".npz"):
        print("\n" + json.dumps(fit_one(Path(first), float(second), int(third))))
    else:
        run_all(Path(first), int(second), float(third))
