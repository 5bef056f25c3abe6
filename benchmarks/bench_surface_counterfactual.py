"""How near, how often and how fast are counterfactuals, compared with DiCE and NICE?

The peers pin old packages and run in an environment of their own:

    python3.11 -m venv peers && peers/bin/pip install dice-ml NICEx
    VICINAL_PEERS=peers/bin/python python benchmarks/bench_surface_counterfactual.py

"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from _datasets import load_dataset
from _harness import ResultsPage
from _harness import processor_timed as timed
from vicinal.surface import DecisionSurface

N_QUERIES = 30
ROWS = {"random": 4, "genetic": 8, "NICE": N_QUERIES}


def breast_cancer():
    data = load_breast_cancer()
    X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    names = [name.replace(" ", "_") for name in data.feature_names]
    return X, data.target, names, []


def adult():
    data = load_dataset("adult")
    X, y = np.asarray(data.X_train, dtype=float), np.asarray(data.y_train)
    kept = np.random.RandomState(0).permutation(len(X))[:3000]
    X, y = X[kept], np.unique(y[kept], return_inverse=True)[1]
    categorical = np.flatnonzero(data.categorical_features).tolist()
    numeric = [j for j in range(X.shape[1]) if j not in categorical]
    X[:, numeric] = (X[:, numeric] - X[:, numeric].mean(axis=0)) / X[:, numeric].std(axis=0)
    for j in categorical:
        X[:, j] = np.unique(X[:, j], return_inverse=True)[1]
    return X, y, [f"x{j}" for j in range(X.shape[1])], categorical


def distance(points, Q, categorical):
    """L2 on standardised numbers, one for each changed category."""
    part = points - Q
    part[:, categorical] = (points != Q)[:, categorical]
    return np.linalg.norm(part, axis=1)


def run_peers(python, folder, X, y, Q, names, categorical):
    np.savez(
        folder / "data.npz", X=X, y=y, Q=Q, rows=json.dumps(ROWS), names=np.array(names),
        categorical=np.array(categorical, dtype=int),
    )  # fmt: skip
    script = Path(__file__).with_name("_peers_counterfactual.py")
    subprocess.run([python, str(script), str(folder)], check=True)
    report = json.loads((folder / "peers.json").read_text())
    stored = np.load(folder / "peers.npz")
    points = {name.replace("_", " "): stored[name] for name in stored.files}
    return points, report


def line(name, points, seconds, Q, forest, categorical):
    """One row of the table: success, distance, changed columns, time."""
    Q = Q[: len(points)]
    found = ~np.isnan(points).any(axis=1)
    flipped = np.zeros(len(Q), dtype=bool)
    if found.any():
        flipped[found] = forest.predict(points[found]) != forest.predict(Q[found])
    good = distance(points[flipped].copy(), Q[flipped], categorical)
    changed = (np.abs(points[flipped] - Q[flipped]) > 1e-9).sum(axis=1)
    return [
        name, len(Q), f"{flipped.mean():.0%}",
        float(np.median(good)) if len(good) else "-",
        float(np.mean(changed)) if len(good) else "-", seconds,
    ]  # fmt: skip


def case(problem):
    """Return the rows of a table and what else was found."""
    X, y, names, categorical = problem()
    X, Q, y, _ = train_test_split(X, y, test_size=N_QUERIES, random_state=0, stratify=y)
    forest = RandomForestClassifier(100, random_state=0, n_jobs=1).fit(X, y)
    DecisionSurface(forest, random_state=0).fit(X[:300]).counterfactual(Q[:1])  # compilation
    fit, surface = timed(lambda: DecisionSurface(forest, random_state=0).fit(X))
    rows, ours = [], {}

    def ask(queries, **options):
        return surface.counterfactual(queries, categorical=categorical or None, **options)

    for name, options in (
        ("vicinal", {}),
        ("vicinal, sparsity=0.3", {"sparsity": 0.3}),
        ("vicinal, plausibility=0.9", {"plausibility": 0.9}),
    ):
        seconds, found = timed(lambda o=options: ask(Q, **o))
        ours[name] = np.where(found.found[:, None], found.points, np.nan)
        rows.append(line(name, ours[name], seconds / len(Q), Q, forest, categorical))
    alone = [timed(lambda i=i: ask(Q[i : i + 1]))[0] for i in range(ROWS["genetic"])]
    with tempfile.TemporaryDirectory() as folder:
        peers, report = run_peers(
            os.environ["VICINAL_PEERS"], Path(folder), X, y, Q, names, categorical
        )
    for name, points in peers.items():
        rows.append(line(name, points, report["seconds"][name], Q, forest, categorical))
        own = ours["vicinal"][: len(points)]
        label = f"  vicinal on the same {len(points)}"
        rows.append(line(label, own, rows[0][-1], Q, forest, categorical))
    return {
        "rows": rows,
        "shape": X.shape,
        "fit": fit,
        "alone": float(np.median(alone)),
        "agree": float(np.mean(np.array(report["predicted"]) == forest.predict(Q))),
    }


def main():
    page = ResultsPage(
        "surface_counterfactual",
        "Counterfactuals compared with DiCE and NICE",
        "A forest of 100 trees; for rows it was not fitted to, the nearest row with another "
        "prediction. Distance is L2 on standardised columns plus one for every changed category. "
        "Ours explains all rows in one call, and its time per row is that of the batch; one row "
        "alone is below the table. The peers work row by row. dice-ml 0.11 and NICEx 0.2.3 ran "
        "in an environment of their own with the same scikit-learn. Times are processor seconds.",
    )
    for title, problem in (("breast cancer", breast_cancer), ("adult, 3000 rows", adult)):
        found = page.case((title,), lambda p=problem: case(p))
        page.table(
            ["method", "rows", "flipped", "median distance", "columns changed", "s per row"],
            found["rows"],
            f"**{title}** ({found['shape'][0]} rows, {found['shape'][1]} columns)",
        )
        page.text(
            f"Fit of the surface {found['fit']:.2f} s; one row alone {found['alone']:.3f} s "
            f"(median of {ROWS['genetic']}). Predictions of the forest in both environments agree "
            f"on {found['agree']:.0%} of rows."
        )
    page.text(
        f"DiCE was given {ROWS['random']} and {ROWS['genetic']} rows to keep the run short; it is "
        "compared with ours on the same rows."
    )
    page.write()


if __name__ == "__main__":
    main()
