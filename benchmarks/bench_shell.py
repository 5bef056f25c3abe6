"""From a CSV file to an explained prediction on adult, with a kill -9 on the way: does it hold?"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from _harness import ROOT, ResultsPage
from vicinal.datasets import load_dataset

BUDGET = 300
KILLED_AFTER = 12  # finished folds


def write_tables(folder):
    adult = load_dataset("adult", as_frame=True)
    for part, X, y in (
        ("train", adult.X_train, adult.y_train),
        ("test", adult.X_test, adult.y_test),
    ):
        columns = {name: X[name].tolist() for name in X.columns}
        income = np.asarray(adult.target_names)[np.asarray(y, dtype=int)]
        pl.DataFrame({**columns, "income": income}).write_csv(folder / f"adult_{part}.csv")


def shell(*arguments, **options):
    code = "import sys; from vicinal.cli import main; sys.argv[0] = 'vicinal'; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finished(process):
    started = time.monotonic()
    stdout, stderr = process.communicate()
    if process.returncode:
        raise RuntimeError(stderr)
    return stdout, time.monotonic() - started


def killed_and_resumed(page, folder):
    cache = folder / "folds"
    arguments = [
        "compare",
        folder / "adult_train.csv",
        "--target",
        "income",
        "--budget",
        f"{BUDGET}s",
    ]
    arguments += ["--cache", cache, "--out", folder / "report.html", "--json"]
    started = time.monotonic()
    process = shell(*arguments)
    while len(list(cache.glob("*.npz"))) < KILLED_AFTER:
        if process.poll() is not None:
            raise RuntimeError(process.stderr.read())
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    first = time.monotonic() - started
    kept = {path.name: path.read_bytes() for path in cache.glob("*.npz")}
    stdout, second = finished(shell(*arguments))
    board = json.loads(stdout)
    n_files = len(list(cache.glob("*.npz")))
    same = all((cache / name).read_bytes() == content for name, content in kept.items())
    page.text("## `vicinal compare`, killed and started again")
    page.text(
        f"Killed with signal 9 after {first:.0f} s, when {len(kept)} folds were on disk. The same "
        f"command again took {second:.0f} s, report included (budget {BUDGET} s), and had "
        f"{n_files} folds at the end; the folds from before the kill are "
        f"{'unchanged, byte for byte' if same else 'NOT the same'}."
    )
    page.table(
        ["model", "accuracy", "± se", "folds", "fit s", "predict s", "note"],
        [
            [
                model["name"],
                "" if model["score"] is None else f"{model['score']:.4f}",
                "" if model["standard_error"] is None else f"{model['standard_error']:.4f}",
                len(model["fold_scores"]),
                "" if model["fit_seconds"] is None else f"{model['fit_seconds']:.1f}",
                "" if model["predict_seconds"] is None else f"{model['predict_seconds']:.1f}",
                model["error"] or model["note"],
            ]
            for model in board["models"]
        ],
    )


def fit_predict_explain(page, folder):
    model, answers = folder / "adult.vicinal", folder / "answers.csv"
    rows = []
    steps = {
        "fit": ["fit", folder / "adult_train.csv", "-t", "income", "-m", "space-partitioning"],
        "predict": ["predict", model, folder / "adult_test.csv", "--proba", "--out", answers],
        "explain": ["explain", model, folder / "adult_test.csv", "--row", "2"],
        "report": ["report", model, folder / "adult_test.csv", "--out", folder / "model.html"],
        "info": ["info", model],
    }
    steps["fit"] += ["--out", model]
    said = {}
    for name, arguments in steps.items():
        said[name], seconds = finished(shell(*arguments))
        rows.append([f"`vicinal {name}`", f"{seconds:.1f}"])
    page.text("## The other commands")
    page.table(["command", "seconds, start of Python included"], rows)
    truth = pl.read_csv(folder / "adult_test.csv")["income"]
    right = (pl.read_csv(answers)["prediction"] == truth).mean()
    page.text(
        f"Accuracy of the answers on the {len(truth):,} published test rows: {right:.4f}. "
        f"The model file has {model.stat().st_size / 1e6:.2f} MB, the report "
        f"{(folder / 'model.html').stat().st_size / 1e6:.2f} MB."
    )
    text = re.sub(r"\n{3,}", "\n\n", said["explain"].strip())
    page.text(f"What `vicinal explain` says of test row 2:\n\n```text\n{text}\n```")


def fill(page):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder)
        killed_and_resumed(page, folder)
        fit_predict_explain(page, folder)
        kept = os.environ.get("VICINAL_KEEP_REPORTS")
        if kept:
            for page_file in folder.glob("*.html"):
                shutil.copy(page_file, kept)


def main():
    page = ResultsPage(
        "shell",
        "From a table to an explained prediction",
        "adult, 32,561 training and 16,281 test rows with texts and numbers, written to CSV: does "
        "the command line compare, resume after a kill, fit, predict and explain, and how long "
        "does it take? The machine was shared with other work.",
        packages=("polars", "lightgbm"),
    )
    page.section("page", fill)
    page.write()


if __name__ == "__main__":
    main()
