"""What do things cost: the first minute, a fit, one row, a file, a busy machine, more rows?

The part ``compared`` has predictions, files and explanations with LightGBM in the same process.

Seconds are of the processor, all threads together, unless they are called wall seconds; every case
is a process of its own. ``--parts`` names what is run; the page has whatever was. ``--rows`` names
the sizes of the growth (10^6 takes minutes). The Python of an environment with CatBoost, such as
AutoGluon's, is named in the environment variable VICINAL_AUTOGLUON; without it there is no peer.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from _harness import ResultsPage, is_rebuilding, processor_timed, stored, timed

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
N_LOOPS, N_ROWS = 8, 10_000
# Both read the same files, fit the same rows and answer the same others.
ADULT = """
import time, json, sys, pandas
train, test = (pandas.read_csv(f"{sys.argv[1]}/{part}.csv") for part in ("train", "test"))
X, y, Q, truth = train.drop(columns="y"), train["y"], test.drop(columns="y"), test["y"]
"""
OURS_ON_ADULT = """
from vicinal.auto import AutoClassifier
AutoClassifier(random_state=0).fit(X[:1500], y[:1500]).predict(Q[:500])  # loads what is compiled
asked = AutoClassifier(random_state=0)
"""
CATBOOST_ON_ADULT = """
import catboost
words = list(X.select_dtypes(exclude="number").columns)
X[words], Q[words] = X[words].fillna("missing"), Q[words].fillna("missing")
asked = catboost.CatBoostClassifier(
    cat_features=words, thread_count=2, verbose=0, random_seed=0, allow_writing_files=False
)
"""
JUDGED = """
start, wall = time.process_time(), time.perf_counter()
asked.fit(X, y)
found = {"fit": time.process_time() - start, "wall": time.perf_counter() - wall}
start = time.process_time()
found["error"] = 100 * float((asked.predict(Q) != truth).mean())
found["predict"] = time.process_time() - start
print(json.dumps(found))
"""
ADULT_ROWS, ADULT_TEST_ROWS = 5000, 16_281


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


def shell_row() -> dict:
    """Return the processor seconds of ``vicinal predict`` of one row, the model on disk."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code = "X, y = table('wine')\nimport pandas\nframe = pandas.DataFrame(X).assign(y=y)\n"
        code += "frame.columns = [*map('c{}'.format, range(13)), 'y']\n"
        code += f"frame.to_csv('{folder}/wine.csv', index=False)\n"
        code += f"frame[:1].to_csv('{folder}/one.csv', index=False)\nprint('{{}}')"
        child(HEAD + code)
        command = [sys.executable, "-c", "from vicinal.cli import main; main()"]
        out = ["--out", str(folder / "m.vicinal")]
        run = [*command, "fit", str(folder / "wine.csv"), "-t", "y", *out]
        subprocess.run(run, env=installed(), check=True, capture_output=True)
        run = [*command, "predict", str(folder / "m.vicinal"), str(folder / "one.csv")]
        taken = []
        for _ in range(3):
            taken.append(_seconds_of(run))
        imports = [sys.executable, "-c", "import sklearn.ensemble, polars, typer"]
        return {"seconds": min(taken[1:]), "imports": min(_seconds_of(imports) for _ in range(2))}


def _seconds_of(command: list[str], check: bool = True, cwd: str | None = None) -> float:
    before = os.times()
    subprocess.run(command, env=installed(), check=check, capture_output=True, cwd=cwd)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def write_adult(folder: Path) -> None:
    """Write training rows drawn from adult, and its published test rows."""
    from _datasets import load_dataset

    adult = load_dataset("adult", as_frame=True)
    rows = np.random.RandomState(0).permutation(len(adult.y_train))[:ADULT_ROWS]
    adult.X_train.assign(y=adult.y_train).iloc[rows].to_csv(folder / "train.csv", index=False)
    adult.X_test.assign(y=adult.y_test).to_csv(folder / "test.csv", index=False)


def on_adult(code: str, python: str = sys.executable) -> dict:
    """Return seconds and errors of one model on adult."""
    with tempfile.TemporaryDirectory() as folder:
        write_adult(Path(folder))
        return child(ADULT + code + JUDGED, folder, python=python)


def beside_spinning(name: str) -> dict:
    """Return the wall seconds of a fit alone and next to two busy processes."""
    alone = child(HEAD + FIT, name)["wall"]
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(2)]
    try:
        time.sleep(1.0)
        return {"alone": alone, "beside": child(HEAD + FIT, name)["wall"]}
    finally:
        for process in spinning:
            process.kill()


def compare_with_lightgbm(name: str, part: str) -> dict:
    """Return the costs of both models, fitted to the same rows: [ours, LightGBM] of each."""
    import pickle

    from lightgbm import LGBMClassifier, LGBMRegressor

    from bench_auto import ours, split, task_of
    from vicinal.io import load, save

    rows, task = split(name, part, 0), task_of(name)
    X, Q = rows.part("given")
    y = rows.table.y[rows.train]
    peer = LGBMClassifier if task == "classification" else LGBMRegressor
    models = [ours(task).fit(X, y), peer(n_jobs=1, verbose=-1, random_state=0).fit(X, y)]
    one, many = Q[:1], (Q.iloc if hasattr(Q, "iloc") else Q)[np.arange(N_ROWS) % len(Q)]

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
    found["many"] = [processor_timed(lambda m=m: m.predict(many), repeat=3)[0] for m in models]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.vicinal"
        save(models[0], path)
        found["file"] = [path.stat().st_size, len(pickle.dumps(models[1]))]
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
    if stored("costs").has("first", name):
        fits = page.case(("first", name), lambda: first_minute(name))
        cold, warm = (fits[state]["first"] for state in ("cold", "warm"))
        page.text(
            f"Without compiling that fit takes {warm:.1f} s. A thread that compiles in the "
            f"background could hide no more than these of the {cold:.1f} s, and only behind base "
            "models that need nothing compiled. Local models need it and come first, since "
            "their losses decide which others are tried."
        )


def fit_section(page: ResultsPage) -> None:
    rows = []
    for name in ("wine", "breast_cancer", "diabetes", "digits"):
        one = page.case(("fit", name), lambda name=name: child(HEAD + FIT, name))
        rows.append([name, one["cpu"], one["wall"], one["forest"]])
    head = ["table", "seconds", "wall seconds", "500 trees of scikit-learn"]
    page.text("## A fit of the default mixture, nothing left to compile or load")
    page.table(head, rows)


def row_section(page: ResultsPage) -> None:
    rows = []
    for name in ("wine", "breast_cancer"):
        one = page.case(("one row", name), lambda name=name: child(HEAD + ONE_ROW, name))
        rows += [
            [name, what, value if "MiB" in what else 1e3 * value] for what, value in one.items()
        ]
    page.text("## One row, and a file")
    page.table(["table", "what", "milliseconds (files: MiB)"], rows)
    shell = page.case(("shell",), shell_row)
    page.text(
        f"`vicinal predict` of one row, a process of its own: {shell['seconds']:.2f} s. Importing "
        f"scikit-learn, polars and typer alone takes {shell['imports']:.2f} s of it."
    )


def adult_section(page: ResultsPage) -> None:
    found = {"AutoClassifier": page.case(("adult", "ours"), lambda: on_adult(OURS_ON_ADULT))}
    python = os.environ.get("VICINAL_AUTOGLUON")
    if python or stored("costs").has("adult", "CatBoost"):
        found["CatBoost"] = page.case(
            ("adult", "CatBoost"), lambda: on_adult(CATBOOST_ON_ADULT, python)
        )
    page.text(
        f"## adult, {ADULT_ROWS:,} training rows with strings and missing values, "
        f"{ADULT_TEST_ROWS:,} others"
    )
    rows = [
        [name, f"{one['error']:.2f}", one["fit"], one["wall"], one["predict"]]
        for name, one in found.items()
    ]
    page.table(["model", "errors, %", "fit, seconds", "wall seconds", "predict, seconds"], rows)
    share = found["AutoClassifier"]["error"] / 100.0
    page.text(
        "Of so many rows an error has a standard error of "
        f"{100.0 * np.sqrt(share * (1.0 - share) / ADULT_TEST_ROWS):.2f} points."
    )


def busy_section(page: ResultsPage) -> None:
    name = "breast_cancer"
    one = page.case(("busy", name), lambda: beside_spinning(name))
    page.text("## A busy machine")
    page.text(
        f"The fit of {name} takes {one['alone']:.1f} wall seconds alone and {one['beside']:.1f} "
        f"next to two busy processes, {one['beside'] / one['alone']:.1f} times as long."
    )


def compared_section(page: ResultsPage) -> None:
    head = ["table", "one row, ms", "LightGBM", f"beside {N_LOOPS} loops", "LightGBM"]
    head += [f"{N_ROWS:,} rows, s", "LightGBM", "file, MB", "LightGBM", "load, s", "explain, s"]
    lines = []
    for name, part in COMPARED_SETS:
        one = page.case(("compared", name, part), lambda n=name, p=part: _compared(n, p))
        costs = [*one["row"], *one["busy"]]
        line = [f"{name}, {one['rows']:,} x {one['columns']}", *(1e3 * cost for cost in costs)]
        files = [size / 1e6 for size in one["file"]]
        lines.append([*line, *one["many"], *files, one["load"], one["explain"]])
    page.text("## One row, many rows, files and explanations compared with LightGBM")
    page.table(head, lines)
    page.text(
        "Single rows in wall milliseconds (median of 30 calls), alone and beside processes that "
        "compute without end; all else in processor seconds. Each table is given to both models "
        "as it is: an array, or a frame with categories."
    )
    found = page.case(("counterfactuals",), counterfactual_seconds)
    commands = page.case(("commands",), command_seconds)
    lines = [[f"explanation with counterfactuals: {name}", s] for name, s in found.items()]
    page.table(["what", "seconds"], [*lines, *([f"`{n}`", s] for n, s in commands.items())])


def _compared(name: str, part: str) -> dict:
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return child(COMPARED, name, part, PYTHONPATH=path)


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
    "fit": fit_section,
    "adult": adult_section,
    "row": row_section,
    "busy": busy_section,
    "compared": compared_section,
    "growth": growth_section,
}
# The first case of each part, which tells whether it was run.
FIRST_CASES = {
    "start": ("first", "wine"),
    "compile": ("compiled", "breast_cancer"),
    "fit": ("fit", "wine"),
    "adult": ("adult", "ours"),
    "row": ("one row", "wine"),
    "busy": ("busy", "breast_cancer"),
    "compared": ("compared", *COMPARED_SETS[0]),
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
        "Time, memory and file size of AutoClassifier",
        "The first minute in a new environment, a fit, one row, a model file, a busy machine, more "
        "rows. Seconds are of the processor, all threads together, unless they are called wall "
        "seconds.",
        packages=("pandas", "joblib", "lightgbm"),
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
