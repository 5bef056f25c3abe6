"""What do things cost: the first minute, a fit, one row, a file, a busy machine, more rows?

Seconds are of the processor, all threads together, unless they are called wall seconds; every case
is a process of its own. ``--rows`` names the sizes of the growth (10^5 takes minutes).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _harness import ResultsPage

# What every child begins with: named tables, and a clock that counts from its start.
HEAD = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np

def table(name):
    from sklearn import datasets
    if name.isdigit():
        return datasets.make_classification(
            int(name), 54, n_informative=12, n_clusters_per_class=4, random_state=0
        )
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return X, y

def clock(function, repeat=1):
    taken = []
    for _ in range(repeat):
        start = time.process_time()
        function()
        taken.append(time.process_time() - start)
    return min(taken)

def model(y, **settings):
    from vicinal.auto import AutoClassifier, AutoRegressor
    kind = AutoRegressor if len(np.unique(y)) > 100 else AutoClassifier
    return kind(random_state=0, **settings)
"""
FIRST = """
start = time.process_time()
import sklearn.ensemble
sklearn_import = time.process_time() - start
import vicinal.auto
ours = time.process_time() - start - sklearn_import
X, y = table(sys.argv[1])
first = clock(lambda: model(y).fit(X, y))
steady = clock(lambda: model(y).fit(X, y))
found = {"sklearn": sklearn_import, "import": ours, "first": first, "steady": steady,
         "process": time.process_time(), "numba": "numba" in sys.modules}
print(json.dumps(found))
"""
FIT = """
X, y = table(sys.argv[1])
clock(lambda: model(y).fit(X, y))  # loads what is compiled
start, wall = time.process_time(), time.perf_counter()
fitted = model(y).fit(X, y)
found = {"cpu": time.process_time() - start, "wall": time.perf_counter() - wall,
         "score": fitted.score_}
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
kind = RandomForestRegressor if len(np.unique(y)) > 100 else RandomForestClassifier
found["forest"] = clock(lambda: kind(500, random_state=0, n_jobs=2).fit(X, y))
try:
    import catboost
except ImportError:
    pass
else:
    kind = catboost.CatBoostRegressor if len(np.unique(y)) > 100 else catboost.CatBoostClassifier
    found["catboost"] = clock(lambda: kind(verbose=0, thread_count=2, random_seed=0).fit(X, y))
print(json.dumps(found))
"""
ONE_ROW = """
import tempfile
from pathlib import Path
import joblib
from sklearn.ensemble import RandomForestClassifier
from vicinal.inspection import explain
from vicinal.io import load, save
from vicinal.surface import DecisionSurface
X, y = table(sys.argv[1])
fitted = model(y).fit(X, y)
row = X[:1]
forest = RandomForestClassifier(100, random_state=0).fit(X, y)
surface = DecisionSurface(forest).fit(X)
folder = Path(tempfile.mkdtemp())
asked = {
    "predict": lambda: fitted.predict(row),
    "explain": lambda: explain(fitted, row[0]),
    "counterfactual of 100 trees": lambda: surface.counterfactual(row),
    "save": lambda: save(fitted, folder / "model.vicinal"),
    "joblib.dump": lambda: joblib.dump(fitted, folder / "model.joblib"),
    "load": lambda: load(folder / "model.vicinal"),
    "joblib.load": lambda: joblib.load(folder / "model.joblib"),
}
found = {}
for name, ask in asked.items():
    ask()
    found[name] = clock(ask, 5)
for name in ("vicinal", "joblib"):
    found[f"{name} MiB"] = (folder / f"model.{name}").stat().st_size / 2**20
print(json.dumps(found))
"""
GROWTH = """
import resource
X, y = table(sys.argv[1])
start, wall = time.process_time(), time.perf_counter()
fitted = model(y).fit(X, y)
found = {"fit": time.process_time() - start, "wall": time.perf_counter() - wall}
found["predict"] = clock(lambda: fitted.predict(X[:1000]))
found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps(found))
"""
SPIN = "while True: pass"


def child(code: str, *arguments: str, **environment: str) -> dict:
    """Run code in a process of its own and return what it prints last."""
    command = [sys.executable, "-c", HEAD + code, *arguments]
    settings = {**os.environ, **environment}
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def first_minute(name: str) -> dict:
    """Return the costs of a first process without compiled functions, and of the next one."""
    with tempfile.TemporaryDirectory() as folder:
        cold = child(FIRST, name, NUMBA_CACHE_DIR=folder)
        return {"cold": cold, "warm": child(FIRST, name, NUMBA_CACHE_DIR=folder)}


def shell_row() -> dict:
    """Return the processor seconds of ``vicinal predict`` of one row, the model on disk."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code = "X, y = table('wine')\nimport pandas\nframe = pandas.DataFrame(X).assign(y=y)\n"
        code += "frame.columns = [*map('c{}'.format, range(13)), 'y']\n"
        code += f"frame.to_csv('{folder}/wine.csv', index=False)\n"
        code += f"frame[:1].to_csv('{folder}/one.csv', index=False)\nprint('{{}}')"
        child(code)
        command = [sys.executable, "-c", "from vicinal.cli import main; main()"]
        out = ["--out", str(folder / "m.vicinal")]
        run = [*command, "fit", str(folder / "wine.csv"), "-t", "y", *out]
        subprocess.run(run, check=True, capture_output=True)
        run = [*command, "predict", str(folder / "m.vicinal"), str(folder / "one.csv")]
        taken = []
        for _ in range(3):
            before = os.times()
            subprocess.run(run, check=True, capture_output=True)
            after = os.times()
            taken.append(sum(after[2:4]) - sum(before[2:4]))
        return {"seconds": min(taken[1:])}


def beside_spinning(name: str) -> dict:
    """Return the wall seconds of a fit alone and beside two processes that never rest."""
    alone = child(FIT, name)["wall"]
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(2)]
    try:
        time.sleep(1.0)
        return {"alone": alone, "beside": child(FIT, name)["wall"]}
    finally:
        for process in spinning:
            process.kill()


def start_section(page: ResultsPage) -> None:
    rows = []
    for name in ("wine", "breast_cancer", "diabetes"):
        found = page.case(("first", name), lambda name=name: first_minute(name))
        for state, one in found.items():
            shown = [one[key] for key in ("sklearn", "import", "first", "process", "steady")]
            rows.append([name, state, *shown, "yes" if one["numba"] else "no"])
    head = ["table", "compiled functions", "import sklearn", "import vicinal.auto", "first fit"]
    page.text("## The first minute")
    page.table([*head, "whole process, two fits", "second fit", "numba loaded"], rows)


def fit_section(page: ResultsPage) -> None:
    rows = []
    for name in ("wine", "breast_cancer", "diabetes", "digits"):
        one = page.case(("fit", name), lambda name=name: child(FIT, name))
        rows.append([name, one["cpu"], one["wall"], one["forest"], one.get("catboost", "")])
    head = ["table", "seconds", "wall seconds", "500 trees of scikit-learn", "CatBoost"]
    page.text("## A fit of the default mixture, nothing left to compile or load")
    page.table(head, rows)


def row_section(page: ResultsPage) -> None:
    rows = []
    for name in ("wine", "breast_cancer"):
        one = page.case(("one row", name), lambda name=name: child(ONE_ROW, name))
        rows += [
            [name, what, value if "MiB" in what else 1e3 * value] for what, value in one.items()
        ]
    page.text("## One row, and a file")
    page.table(["table", "what", "milliseconds (files: MiB)"], rows)
    shell = page.case(("shell",), shell_row)
    page.text(f"`vicinal predict` of one row, a process of its own: {shell['seconds']:.2f} s.")


def busy_section(page: ResultsPage) -> None:
    name = "breast_cancer"
    one = page.case(("busy", name), lambda: beside_spinning(name))
    page.text("## A busy machine")
    page.text(
        f"The fit of {name} takes {one['alone']:.1f} wall seconds alone and {one['beside']:.1f} "
        f"beside two processes that never rest, {one['beside'] / one['alone']:.1f} times as long."
    )


def growth_section(page: ResultsPage, sizes: list[int]) -> None:
    rows = []
    for n in sizes:
        one = page.case(("growth", n), lambda n=n: child(GROWTH, str(n)))
        rows.append([n, one["fit"], one["wall"], 1e3 * one["predict"], one["memory"]])
    page.text("## More rows, 54 columns, two classes")
    head = ["rows", "fit, seconds", "wall seconds", "1,000 predictions, ms", "peak memory, GiB"]
    page.table(head, rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 3000, 10_000])
    sizes = parser.parse_args().rows
    page = ResultsPage(
        "costs",
        "What things cost",
        "The first minute in a new environment, a fit, one row, a model file, a busy machine, more "
        "rows. Seconds are of the processor, all threads together, unless they are called wall "
        "seconds.",
        packages=("catboost", "pandas", "joblib"),
    )
    start_section(page)
    fit_section(page)
    row_section(page)
    busy_section(page)
    growth_section(page, sizes)
    page.write()


if __name__ == "__main__":
    main()
