"""How near, how often and how fast are counterfactuals, beside DiCE and NICE?

The peers pin old packages and run in an environment of their own:

    python3.11 -m venv peers && peers/bin/pip install dice-ml NICEx
    VICINAL_PEERS=peers/bin/python python benchmarks/bench_surface_counterfactual.py

Without it, only our own rows are measured.
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

from _harness import ResultsPage, timed
from vicinal.datasets import load_dataset
from vicinal.surface import DecisionSurface

ROWS = {"random": 8, "genetic": 20, "NICE": 50}


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


def fill(page):
    python = os.environ.get("VICINAL_PEERS")
    for title, problem in (("breast cancer", breast_cancer), ("adult, 3000 rows", adult)):
        X, y, names, categorical = problem()
        X, Q, y, _ = train_test_split(X, y, test_size=50, random_state=0, stratify=y)
        forest = RandomForestClassifier(100, random_state=0, n_jobs=1).fit(X, y)
        fit_s, surface = timed(lambda f=forest, A=X: DecisionSurface(f, random_state=0).fit(A))
        rows, ours = [], {}
        for name, options in (
            ("vicinal", {}),
            ("vicinal, sparsity=0.3", {"sparsity": 0.3}),
            ("vicinal, plausibility=0.9", {"plausibility": 0.9}),
        ):
            seconds, found = timed(
                lambda s=surface, q=Q, o=options, c=categorical: s.counterfactual(
                    q, categorical=c or None, **o
                )
            )
            points = np.where(found.found[:, None], found.points, np.nan)
            ours[name] = points
            rows.append(line(name, points, seconds / len(Q), Q, forest, categorical))
        seconds, _ = timed(
            lambda s=surface, q=Q[:1], c=categorical: s.counterfactual(q, categorical=c or None)
        )
        note = f"fit of the surface {fit_s:.2f} s; one row alone {seconds:.2f} s."
        if python:
            with tempfile.TemporaryDirectory() as folder:
                peers, report = run_peers(python, Path(folder), X, y, Q, names, categorical)
            same = np.mean(np.array(report["predicted"]) == forest.predict(Q))
            note += f" Predictions of the forest in both environments agree on {same:.0%} of rows."
            for name, points in peers.items():
                seconds = report["seconds"][name]
                rows.append(line(name, points, seconds, Q, forest, categorical))
                k = len(points)
                rows.append(
                    line(f"  vicinal on the same {k}", ours["vicinal"][:k], rows[0][-1], Q, forest,
                         categorical)
                )  # fmt: skip
        page.table(
            ["method", "rows", "flipped", "median distance", "columns changed", "s per row"],
            rows,
            f"**{title}** ({len(X)} rows, {X.shape[1]} columns)",
        )
        page.text(note)
    page.text(
        "DiCE was given 8 and 20 rows to keep the run short; it is compared with ours on the "
        "same rows."
    )


def main():
    page = ResultsPage(
        "surface_counterfactual",
        "Counterfactuals beside DiCE and NICE",
        "A forest of 100 trees; for rows it was not fitted to, the nearest row with another "
        "prediction. Distance is L2 on standardised columns plus one for every changed category. "
        "Ours answers all rows in one call; its time per row is that of the batch (all rows "
        "advance together, so that one row alone costs as many calls of the forest; its time is "
        "below the table). dice-ml 0.11 and NICEx 0.2.3 ran in an environment of their own with "
        "the same scikit-learn. The machine was shared with other work; all methods ran one "
        "after another.",
    )
    page.section("page", fill)
    page.write()


if __name__ == "__main__":
    main()
