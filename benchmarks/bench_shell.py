"""From a CSV file to predictions on adult: minutes, errors and lines typed, against two peers.

The Python of an environment with AutoGluon is named in the environment variable VICINAL_AUTOGLUON;
without it the page has no line for it and says so. ``--parts budget`` asks whether budgets hold,
for which the machine must be quiet; the page has whatever parts were run.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import numpy as np
import polars as pl

from _datasets import load_dataset
from _harness import ROOT, ResultsPage, is_rebuilding, stored

BUDGET = 120  # seconds that a tool is told to plan with
SHORT = 60  # the budget that must hold

COMMANDS = f"""
vicinal fit adult_train.csv --target income --budget {BUDGET}s --out adult.vicinal
vicinal predict adult.vicinal adult_test.csv --proba --out predictions.csv
"""

LIGHTGBM = """
import lightgbm, pandas
train, test = (pandas.read_csv(f"adult_{part}.csv") for part in ("train", "test"))
X, y = train.drop(columns="income"), train["income"]
strings = X.select_dtypes(exclude="number").columns
X[strings], test[strings] = X[strings].astype("category"), test[strings].astype("category")
model = lightgbm.LGBMClassifier(verbosity=-1).fit(X, y)
predictions = pandas.DataFrame(model.predict_proba(test[X.columns]), columns=model.classes_)
predictions.to_csv("predictions.csv", index=False)
"""

AUTOGLUON = f"""
from autogluon.tabular import TabularPredictor
model = TabularPredictor("income").fit("adult_train.csv", time_limit={BUDGET})
model.predict_proba("adult_test.csv").to_csv("predictions.csv", index=False)
"""


# --- running things -----------------------------------------------------------------------------


def write_adult(folder):
    adult = load_dataset("adult", as_frame=True)
    for part, X, y in (
        ("train", adult.X_train, adult.y_train),
        ("test", adult.X_test, adult.y_test),
    ):
        columns = {name: X[name].tolist() for name in X.columns}
        income = np.asarray(adult.target_names)[np.asarray(y, dtype=int)]
        pl.DataFrame({**columns, "income": income}).write_csv(folder / f"adult_{part}.csv")


def write_wide(folder):
    """300 rows of 5,000 columns, five of which matter."""
    rng = np.random.RandomState(0)
    X = rng.randn(300, 5000).round(4)
    y = np.where(X[:, :5].sum(axis=1) + 0.5 * rng.randn(300) > 0, "a", "b")
    pl.DataFrame({**{f"g{j}": X[:, j] for j in range(5000)}, "y": y}).write_csv(folder / "wide.csv")


def timed_run(command, folder, **environment):
    """Run a command in a folder; return what it printed, wall and processor seconds."""
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    found = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if found.returncode:
        raise RuntimeError(found.stderr[-2000:])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return found, wall, cpu


def vicinal(*arguments):
    code = "import sys; from vicinal.cli import main; sys.argv[0] = 'vicinal'; main()"
    return [sys.executable, "-c", code, *arguments]


# --- adult beside the others --------------------------------------------------------------------


def typed(text):
    return [line for line in text.strip().splitlines() if line.strip()]


def judged(folder, wall, cpu, text):
    """Return error and log loss of the answers on the published test rows."""
    answers = pl.read_csv(folder / "predictions.csv")
    rich = answers[next(name for name in answers.columns if ">50K" in name)].to_numpy()
    truth = (pl.read_csv(folder / "adult_test.csv")["income"] == ">50K").to_numpy()
    share = np.clip(np.where(truth, rich, 1 - rich), 1e-15, 1)
    return {
        "wall": wall,
        "cpu": cpu,
        "error": 100 * float(np.mean((rich > 0.5) != truth)),
        "log_loss": float(-np.mean(np.log(share))),
        "lines": len(typed(text)),
    }


def our_case(folder):
    warm_up(folder)
    wall = cpu = 0.0
    said = ""
    for line in typed(COMMANDS):
        found, seconds, used = timed_run(vicinal(*line.split()[1:]), folder)
        wall, cpu, said = wall + seconds, cpu + used, said + found.stderr
    return {**judged(folder, wall, cpu, COMMANDS), "said": said}


def warm_up(folder):
    """Compile what a first call after an installation compiles."""
    pl.read_csv(folder / "adult_train.csv").head(3000).write_csv(folder / "few.csv")
    arguments = "fit few.csv --target income --budget 60s --out few.vicinal".split()
    timed_run(vicinal(*arguments), folder)
    timed_run(vicinal("predict", "few.vicinal", "few.csv", "--out", "few_predictions.csv"), folder)


def script_case(folder, python, text):
    (folder / "script.py").write_text(text)
    _, wall, cpu = timed_run([python, "script.py"], folder, PYTHONPATH="")
    return judged(folder, wall, cpu, text)


def autogluon_case(folder, python):
    ask = "from importlib.metadata import version; print(version('autogluon.tabular'))"
    asked = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    return {**script_case(folder, python, AUTOGLUON), "version": asked.stdout.strip()}


def adult_part(page, folder):
    rows = {"vicinal": page.case(("adult", "vicinal"), lambda: our_case(folder))}
    rows["LightGBM"] = page.case(
        ("adult", "LightGBM"), lambda: script_case(folder, sys.executable, LIGHTGBM)
    )
    python = os.environ.get("VICINAL_AUTOGLUON")
    if python or stored("shell").find("adult", "AutoGluon"):
        case = page.case(("adult", "AutoGluon"), lambda: autogluon_case(folder, python))
        rows[f"AutoGluon {case['version']}"] = case
    page.text("## adult, from file to predictions")
    page.text(
        "32,561 training and 16,281 test rows with strings, numbers and missing values, in CSV "
        "files. The two "
        f"that plan have {BUDGET} seconds. Start of Python and reading included; minutes of "
        "processor time count all cores and processes, after a first run that compiled."
    )
    page.table(
        ["", "lines typed", "test error %", "log loss", "minutes", "processor minutes"],
        [
            [
                name,
                case["lines"],
                f"{case['error']:.2f}",
                f"{case['log_loss']:.4f}",
                f"{case['wall'] / 60:.2f}",
                f"{case['cpu'] / 60:.2f}",
            ]
            for name, case in rows.items()
        ],
    )
    if len(rows) < 3:
        page.text("AutoGluon was not asked: no environment with it was named.")
    for name, text in (("vicinal", COMMANDS), ("LightGBM", LIGHTGBM), ("AutoGluon", AUTOGLUON)):
        kind = (
            "console" if name == "vicinal" else "text"
        )  # as short as it is, not as it is formatted
        page.text(f"What is typed, {name}:\n\n```{kind}\n{textwrap.dedent(text).strip()}\n```")


# --- the other commands -------------------------------------------------------------------------


def commands_case(folder):
    model = "adult.vicinal"
    test = "adult_test.csv"
    steps = {
        "check": ["check", "adult_train.csv", "--target", "income", "--out", "check.html"],
        "fit": ["fit", "adult_train.csv", "-t", "income", "-m", "space-partitioning", "-o", model],
        "predict": ["predict", model, test, "--proba", "--out", "predictions.csv"],
        "explain": ["explain", model, test, "--row", "2"],
        "export": ["export", model, "adult.onnx", "--table", test],
        "info": ["info", model],
    }
    rows, said = [], ""
    for name, arguments in steps.items():
        found, wall, cpu = timed_run(vicinal(*arguments), folder)
        rows.append([f"`vicinal {name}`", f"{wall:.1f}", f"{cpu:.1f}"])
        said = found.stdout if name == "explain" else said
    return {"rows": rows, "explained": re.sub(r"\n{3,}", "\n\n", said.strip())}


def commands_part(page, folder):
    found = page.case(("commands",), lambda: commands_case(folder))
    page.text("## One region model, command by command")
    page.table(["command", "seconds, start of Python included", "processor s"], found["rows"])
    page.text(f"`vicinal explain` for test row 2:\n\n```text\n{found['explained']}\n```")


# --- the budget ---------------------------------------------------------------------------------


def budget_case(folder, arguments):
    page, cache = folder / "report.html", folder / "cache"
    command = ["compare", *arguments, "--budget", f"{SHORT}s", "--fresh", "--json", "--out", page]
    found, wall, cpu = timed_run(vicinal(*command), folder, XDG_CACHE_HOME=str(cache))
    models = json.loads(found.stdout)["models"]
    compiled = re.search(r"compiled in (\d+) s", found.stderr)
    flagship = next(model for model in models if model["name"].startswith("Auto"))
    return {
        "wall": wall,
        "cpu": cpu,
        "compile": float(compiled[1]) if compiled else 0.0,
        "complete": sum(model["rank"] is not None for model in models),
        "models": len(models),
        "flagship": len(flagship["fold_scores"]),
    }


def budget_part(page, folder):
    tables = {
        "breast cancer, first run": [],
        "breast cancer": [],
        "diabetes": ["--data", "diabetes"],
        "300 x 5,000": ["wide.csv", "--target", "y"],
        "adult": ["adult_train.csv", "--target", "income"],
    }
    rows = []
    for name, arguments in tables.items():
        case = page.case(("budget", name), lambda a=arguments: budget_case(folder, a))
        rows.append(
            [
                name,
                f"{case['wall'] - case['compile']:.0f}",
                f"{case['compile']:.0f}",
                f"{case['cpu']:.0f}",
                f"{case['complete']} of {case['models']}",
                f"{case['flagship']} of 5",
            ]
        )
    page.text(f"## `vicinal compare --budget {SHORT}s`")
    page.text(
        "Seconds from the first byte of Python to the finished page. Compiling, once after an "
        "installation, is not part of the budget."
    )
    header = [
        "table",
        "seconds",
        "and to compile",
        "processor s",
        "models with all folds",
        "folds of the mixture",
    ]
    page.table(header, rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["adult", "commands"])
    wanted = () if is_rebuilding() else parser.parse_args().parts
    page = ResultsPage(
        "shell",
        "The command line: from a file to an explained prediction",
        "How long does it take, how accurate are the predictions, and how much is typed, from a "
        "file to predictions? Does the budget of a comparison hold? Minutes depend on the load of "
        "the machine, "
        "which is stated; processor minutes do so less.",
        packages=("polars", "lightgbm"),
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not is_rebuilding():
            write_adult(folder)
            write_wide(folder)
        for part, write in PARTS.items():
            if part in wanted or stored("shell").find(*FIRST[part]):
                write(page, folder)
    page.write()


PARTS = {"adult": adult_part, "commands": commands_part, "budget": budget_part}
FIRST = {
    "adult": ("adult", "vicinal"),
    "commands": ("commands",),
    "budget": ("budget", "breast cancer, first run"),
}


if __name__ == "__main__":
    main()
