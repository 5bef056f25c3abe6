"""What do the first minute, single rows, explanations, commands and more rows cost?

The part ``compared`` has single rows of LightGBM in the same process. Seconds are of the
processor, all threads together, unless called wall seconds; every case is a process of its own.
``--parts`` names what is run; the page has whatever was. ``--rows`` names the sizes of the growth
(10^6 takes minutes).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from _harness import ResultsPage, is_rebuilding, processor_timed, stored, timed
from bench_comparison import SEEDS

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
# A function is compiled with those it calls, so that only the outermost are listed.
COMPILED = """
from numba.core import event
begun, taken = [], {}

class Listener(event.Listener):
    def on_start(self, compiled):
        begun.append(time.process_time())

    def on_end(self, compiled):
        seconds = time.process_time() - begun.pop()
        name = compiled.data["dispatcher"].py_func.__name__
        if not begun:
            taken[name] = taken.get(name, 0.0) + seconds

X, y = table(sys.argv[1])
with event.install_listener("numba:compile", Listener()):
    model(y).fit(X, y)
print(json.dumps(taken))
"""
GROWTH = """
import resource
X, y = table(str(int(sys.argv[1]) + 1000))
X, y, Q, truth = X[:-1000], y[:-1000], X[-1000:], y[-1000:]
start, wall = time.process_time(), time.perf_counter()
fitted = model(y).fit(X, y)
found = {"fit": time.process_time() - start, "wall": time.perf_counter() - wall}
found["predict"] = clock(lambda: found.update(error=100 * (1 - fitted.score(Q, truth))))
found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
found["members"] = [base.name for base in fitted.estimators_]
print(json.dumps(found))
"""
# Processor seconds of a fit and errors in % on test rows, with one thread each.
WIDE = """
import sys
from _datasets import load_dataset
from lightgbm import LGBMClassifier
from vicinal import AutoClassifier
if sys.argv[1] == "simulated":
    from sklearn.datasets import make_classification
    X, y = make_classification(8000, 784, n_informative=40, n_classes=10, random_state=0)
    X, y, Q, truth = X[:6000], y[:6000], X[6000:], y[6000:]
else:
    X, Q, y, truth = load_dataset(sys.argv[1], return_X_y=True)
model(y, families=["linear"]).fit(X[:200, :5], y[:200])
found = {"rows": len(X), "columns": X.shape[1]}
for name, kind in (("ours", AutoClassifier), ("LightGBM", LGBMClassifier)):
    quiet = {"verbosity": -1} if name == "LightGBM" else {}
    fitted = kind(random_state=0, n_jobs=1, **quiet)
    found[name] = clock(lambda: fitted.fit(X, y)), 100 * float(np.mean(fitted.predict(Q) != truth))
print(json.dumps(found))
"""
SPIN = "while True: pass"
# Both models get the table as it was given: an array, or a frame with categories.
COMPARED = """
import json, sys
from bench_costs import compare_with_lightgbm
print(json.dumps(compare_with_lightgbm(*sys.argv[1:])))
"""
COMPARED_SETS = (
    ("wdbc", "1000"), ("satimage", "1000"), ("satimage", "5000"), ("adult", "1000"),
    ("adult", "5000"), ("airfoil", "1000"), ("grid_stability", "5000"),
)  # fmt: skip
N_LOOPS = 8
THREADS = """
import json, sys
from bench_costs import fit_with_threads
print(json.dumps(fit_with_threads(*sys.argv[1:])))
"""
THREADS_SETS = ("wdbc", "pendigits", "adult", "diabetes", "airfoil")
LIBRARIES = ("vicinal", "LightGBM", "CatBoost")


def child(code: str, *arguments: str, python: str = sys.executable, **environment: str) -> dict:
    """Run code in a process of its own and return what it prints last."""
    command = [python, "-c", code, *arguments]
    settings = {**installed(), **environment}
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def installed() -> dict[str, str]:
    """Return the environment, in which modules stay compiled as those of a package installed do."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def first_minute(name: str) -> dict:
    """Return the costs of a first process without compiled functions, and of the next one."""
    with tempfile.TemporaryDirectory() as folder:
        cold = child(HEAD + FIRST, name, NUMBA_CACHE_DIR=folder)
        return {"cold": cold, "warm": child(HEAD + FIRST, name, NUMBA_CACHE_DIR=folder)}


def compiled_functions(name: str) -> dict:
    """Return the seconds that each function takes to be compiled in a first fit."""
    with tempfile.TemporaryDirectory() as folder:
        return child(HEAD + COMPILED, name, NUMBA_CACHE_DIR=folder)


def _seconds_of(command: list[str], check: bool = True, cwd: str | None = None) -> float:
    before = os.times()
    subprocess.run(command, env=installed(), check=check, capture_output=True, cwd=cwd)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def compare_with_lightgbm(name: str, part: str) -> dict:
    """Return the costs of both models, fitted to the same rows: [ours, LightGBM] of each."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    from bench_auto import ours, split, task_of
    from vicinal.io import load, save

    rows, task = split(name, part, 0), task_of(name)
    X, Q = rows.part("given")
    y = rows.table.y[rows.train]
    peer = LGBMClassifier if task == "classification" else LGBMRegressor
    models = [ours(task).fit(X, y), peer(n_jobs=1, verbose=-1, random_state=0).fit(X, y)]
    one = Q[:1]

    def row() -> list[float]:
        calls = [[timed(lambda m=m: m.predict(one))[0] for _ in range(30)] for m in models]
        return [float(np.median(times)) for times in calls]

    row()
    found = {"rows": len(y), "columns": X.shape[1], "row": row()}
    loops = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(N_LOOPS)]
    try:
        time.sleep(1.0)
        found["busy"] = row()
    finally:
        for loop in loops:
            loop.kill()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.vicinal"
        save(models[0], path)
        found["load"] = processor_timed(lambda: load(path), repeat=5)[0]
    found["explain"] = explain_seconds(models[0], one)
    return found


def explain_seconds(model, row, repeat: int = 3, **options) -> float:
    """Return the least seconds of an explanation of a row."""
    from vicinal.inspection import explain

    row = row if hasattr(row, "columns") else row[0]
    explain(model, row, **options)
    return processor_timed(lambda: explain(model, row, **options), repeat=repeat)[0]


def counterfactual_seconds() -> dict:
    """Return the seconds of explanations with counterfactuals, of numbers and of mixed columns."""
    import pandas as pd
    from sklearn.datasets import load_breast_cancer, make_classification

    from bench_auto import ours

    X, y = load_breast_cancer(return_X_y=True)
    model = ours("classification").fit(X, y)
    found = {"breast_cancer, one": explain_seconds(model, X[:1], 2, X_train=X)}
    numbers, y = make_classification(1000, 20, n_informative=8, random_state=0)
    frame = pd.DataFrame({f"x{j}": column for j, column in enumerate(numbers.T)})
    for j in range(8):
        frame[f"x{j}"] = pd.qcut(frame[f"x{j}"], 3 + j % 3, labels=list("abcde"[: 3 + j % 3]))
    model = ours("classification").fit(frame, y)
    options = {"X_train": frame, "n_counterfactuals": 3}
    found["1,000 x 20 mixed, three"] = explain_seconds(model, frame[:1], 2, **options)
    return found


def command_seconds() -> dict:
    """Return the processor seconds of commands that load no model."""
    commands = {
        "vicinal --help": ["--help"],
        "vicinal info": ["info", "model.vicinal"],
        "predict, no table": ["predict", "model.vicinal", "none.csv"],
        "compare, no table": ["compare", "none.csv", "--target", "y"],
    }
    with tempfile.TemporaryDirectory() as folder:
        code = "from vicinal.io import save\nX, y = table('wine')\nfrom pathlib import Path\n"
        code += f"save(model(y).fit(X, y), Path('{folder}/model.vicinal'))\nprint('{{}}')"
        child(HEAD + code)
        run = [sys.executable, "-c", "from vicinal.cli import main; main()"]
        return {
            name: min(_seconds_of([*run, *arguments], cwd=folder, check=False) for _ in range(3))
            for name, arguments in commands.items()
        }


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


def compile_section(page: ResultsPage) -> None:
    name = "breast_cancer"
    found = page.case(("compiled", name), lambda: compiled_functions(name))
    page.text(f"## What the first fit of {name} compiles, once in an environment")
    rows = sorted(found.items(), key=lambda one: -one[1])
    page.table(["function, with those it calls", "seconds"], [*rows, ["all", sum(found.values())]])


def compared_section(page: ResultsPage) -> None:
    head = ["table", "one row, ms", "LightGBM", "one row, busy, ms", "LightGBM, busy"]
    head += ["load, s", "explain, s"]
    lines = []
    for name, part in COMPARED_SETS:
        one = page.case(("compared", name, part), lambda n=name, p=part: _compared(n, p))
        costs = [*one["row"], *one["busy"]]
        line = [f"{name}, {one['rows']:,} x {one['columns']}", *(1e3 * cost for cost in costs)]
        lines.append([*line, one["load"], one["explain"]])
    page.text(
        "## Single rows compared with LightGBM, and explanations\n\nPredictions of one row in wall "
        f"milliseconds (median of 30 calls), on a quiet machine and while {N_LOOPS} other "
        "processes compute; loading a model file and one explanation in processor seconds. Each "
        "table is given to both models as it is: an array, or a frame with categories."
    )
    page.table(head, lines)
    found = page.case(("counterfactuals",), counterfactual_seconds)
    commands = page.case(("commands",), command_seconds)
    lines = [[f"explanation with counterfactuals: {name}", s] for name, s in found.items()]
    page.table(["what", "seconds"], [*lines, *([f"`{n}`", s] for n, s in commands.items())])


def _compared(name: str, part: str) -> dict:
    return child(COMPARED, name, part, PYTHONPATH=_modules())


def _modules() -> str:
    """Return a search path with the modules of the benchmarks."""
    return os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])


def fit_with_threads(name: str, seed: str, n_threads: str) -> dict:
    """Return the wall seconds of a fit of every library, at most 1,000 rows."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    from bench_auto import ours, peer_predictions, split, task_of, warm_up

    rows, task, n_jobs = split(name, "1000", int(seed)), task_of(name), int(n_threads)
    X, _ = rows.part("given")
    y = rows.table.y[rows.train]
    mine = ours(task).set_params(n_jobs=n_jobs)
    warm_up(type(mine))
    light = LGBMClassifier if task == "classification" else LGBMRegressor
    found = {}
    for label, one in (("vicinal", mine), ("LightGBM", light(n_jobs=n_jobs, verbose=-1))):
        start = time.perf_counter()
        one.fit(X, y)
        found[label] = time.perf_counter() - start
    _, costs = peer_predictions("CatBoost", task, rows, y)
    return found | {"CatBoost": costs["wall"]}


def threads_section(page: ResultsPage) -> None:
    """Add wall seconds of fits with one and two threads, means of five splits."""
    variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VICINAL_THREADS")

    def case(name: str, seed: int, n: str) -> dict:
        settings = dict.fromkeys(variables, n) | {"PYTHONPATH": _modules()}
        return child(THREADS, name, str(seed), n, **settings)

    lines, logs = [], []
    for name in THREADS_SETS:
        splits = [
            [page.case(("threads", name, s, n), partial(case, name, s, n)) for n in ("1", "2")]
            for s in SEEDS
        ]
        mean = [np.mean([[one[m] for one in pair] for pair in splits], axis=0) for m in LIBRARIES]
        logs.append(np.log(np.array(mean)))
        lines.append([name, *(seconds for pair in mean for seconds in pair)])
    one, two = np.exp(np.mean([log[0] - log[2] for log in logs], axis=0))
    gain = np.exp(np.mean([log[:, 0] - log[:, 1] for log in logs], axis=0))
    head = [f"{label}, {n}" for label in LIBRARIES for n in ("1 thread", "2")]
    page.text(
        "## One and two threads\n\nWall seconds of a fit to at most 1,000 rows, means of five "
        "splits. The two processors of the machine are two threads of one core, so two threads "
        "can hardly halve the time. A fit of vicinal takes "
        f"{one:.2f} times as long as one of CatBoost with one thread and {two:.2f} times with two; "
        f"two threads make vicinal {gain[0]:.2f}, LightGBM {gain[1]:.2f} and CatBoost "
        f"{gain[2]:.2f} times as fast (geometric means)."
    )
    page.table(["table", *head], lines)


def wide_section(page: ResultsPage) -> None:
    rows = []
    for name in ("simulated", "isolet"):
        one = page.case(
            ("wide", name), lambda name=name: child(HEAD + WIDE, name, PYTHONPATH=_modules())
        )
        (ours, error), (theirs, their_error) = one["ours"], one["LightGBM"]
        shape = f"{name}, {one['rows']:,} x {one['columns']}"
        rows.append([shape, ours, theirs, f"{ours / theirs:.2f}", error, their_error])
    page.text("## Wide tables\n\nFits with one thread, and errors on test rows.")
    page.table(["table", "fit, s", "LightGBM, s", "ratio", "error, %", "LightGBM, %"], rows)


def growth_section(page: ResultsPage, sizes: Sequence[int]) -> None:
    rows, found = [], {}
    for n in sizes:
        one = page.case(("growth", n), lambda n=n: child(HEAD + GROWTH, str(n)))
        found[n] = one
        costs = [one["fit"], one["wall"], 1e3 * one["predict"], one["memory"]]
        rows.append([f"{n:,}", f"{one['error']:.1f}", *costs, ", ".join(one["members"])])
    page.text("## More rows, 54 columns, two classes")
    head = ["rows", "errors, %", "fit, seconds", "wall seconds", "1,000 predictions, ms"]
    page.table([*head, "peak memory, GiB", "base models with weight"], rows)
    if {FEW, MANY} <= found.keys():
        powers = {
            key: np.log10(found[MANY][key] / found[FEW][key])
            for key in ("fit", "predict", "memory")
        }
        page.text(
            f"From {FEW:,} to {MANY:,} rows fits take the rows to the power {powers['fit']:.2f}, "
            f"predictions {powers['predict']:.2f}, memory {powers['memory']:.2f}."
        )


PARTS = {
    "start": start_section,
    "compile": compile_section,
    "compared": compared_section,
    "threads": threads_section,
    "wide": wide_section,
    "growth": growth_section,
}
# The first case of each part, which tells whether it was run.
FIRST_CASES = {
    "start": ("first", "wine"),
    "compile": ("compiled", "breast_cancer"),
    "compared": ("compared", *COMPARED_SETS[0]),
    "threads": ("threads", THREADS_SETS[0], SEEDS[0], "1"),
    "wide": ("wide", "simulated"),
    "growth": ("growth", 1000),
}
SIZES = (1000, 10_000, 100_000, 1_000_000)
# The growth between these is put in one number; a power of ten apart.
FEW, MANY = 100_000, 1_000_000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES)
    given = parser.parse_args()
    wanted = () if is_rebuilding() else given.parts
    page = ResultsPage(
        "costs",
        "Start-up, explanations and memory by number of rows",
        "`AutoClassifier` and `AutoRegressor` in a new environment, for single rows, and on large "
        "tables. Seconds are of the processor, all threads together, unless they are called wall "
        "seconds.",
        packages=("pandas", "lightgbm"),
    )
    cases = stored("costs")
    known = [n for n in SIZES if cases.has("growth", n)]
    sizes = sorted({*known, *(given.rows if "growth" in wanted else ())})
    for part, write in PARTS.items():
        if part in wanted or cases.has(*FIRST_CASES[part]):
            write(page, sizes) if part == "growth" else write(page)
    page.write()


if __name__ == "__main__":
    main()
