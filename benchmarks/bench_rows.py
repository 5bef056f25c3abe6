"""Do intervals and sets cover, where, how wide, and are wrong labels found?

Peers (MAPIE, crepes, cleanlab) run in an environment of their own: name its Python in the
environment variable ``VICINAL_PEERS``. Without it only our own cases are run.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.ensemble import IsolationForest, RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import StandardScaler

from _harness import ROOT, ResultsPage
from vicinal._rows import Place, Support
from vicinal.datasets import load_dataset
from vicinal.inspection import label_issues
from vicinal.inspection._label_issues import margins
from vicinal.uncertainty import ConformalClassifier, ConformalRegressor

COVERAGES = (0.8, 0.9, 0.95)
REGRESSION = ("diabetes", "laser", "mortgage", "airfoil", "puma32h", "grid_stability", "friedman1")
CLASSIFICATION = ("wine", "vertebral", "wdbc", "banana", "spambase", "satimage", "letter", "adult")
NOISY = ("wdbc", "vertebral", "banana", "satimage", "optdigits", "pendigits")
# Rows of the first kind are learned, those of the second are strangers: a class left out.
STRANGERS = ("satimage", "pendigits", "optdigits", "wine", "letter", "vertebral")
MAX_ROWS = 1000


def table(name):
    """Return all rows of a set."""
    if name == "diabetes":
        return load_diabetes(return_X_y=True)
    if name == "friedman1":
        return make_friedman1(4000, n_features=10, noise=1.0, random_state=0)
    data = load_dataset(name)
    if "X_train" in data:
        X, y = np.vstack([data.X_train, data.X_test]), np.r_[data.y_train, data.y_test]
    else:
        X, y = data.X, data.y
    return np.asarray(X, dtype=float), np.asarray(y)


def split(name, seed):
    X, y = table(name)
    stratify = y if name in CLASSIFICATION else None
    A, B, a, b = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=stratify)
    return A[:MAX_ROWS], a[:MAX_ROWS], B[:5000], b[:5000]


def forest(task):
    make = RandomForestRegressor if task == "regression" else RandomForestClassifier
    return make(100, min_samples_leaf=3, random_state=0)


def peers(**arrays):
    """Return what the peers say, None where they are not at hand."""
    python = os.environ.get("VICINAL_PEERS")
    if not python:
        return None
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "data.npz", **arrays)
        script = ROOT / "benchmarks" / "_peers_rows.py"
        subprocess.run([python, str(script), folder], check=True)
        return json.loads((Path(folder) / "peers.json").read_text())


def interval_case(X, y, Q, truth, seed, noise=None):
    started = time.perf_counter()
    forest("regression").fit(X, y)
    fit = time.perf_counter() - started
    started = time.perf_counter()
    model = ConformalRegressor(forest("regression"), random_state=seed).fit(X, y)
    ends = [model.predict_interval(Q, coverage) for coverage in COVERAGES]
    ours = {
        "seconds": time.perf_counter() - started,
        "fit": fit,
        "covered": [((e[:, 0] <= truth) & (truth <= e[:, 1])).astype(int) for e in ends],
        "width": [float(np.mean(e[:, 1] - e[:, 0])) for e in ends],
    }
    found = {"vicinal": ours}
    found.update(peers(X=X, y=y, Q=Q, truth=truth, coverages=COVERAGES) or {})
    parts = [slice(None)] if noise is None else np.array_split(np.argsort(noise), 5)
    for entry in found.values():
        covered = np.asarray(entry.pop("covered"))
        entry["coverage"] = [[float(row[part].mean()) for part in parts] for row in covered]
        entry["width"] = [width / float(np.std(truth)) for width in entry["width"]]
    return found


def simulated(seed):
    rng = np.random.RandomState(seed)

    def draw(n):
        X = rng.uniform(size=(n, 3))
        noise = 0.26 + 1.78 * X[:, 0]
        return X, np.sin(5 * X[:, 0]) + X[:, 1] + noise * rng.normal(size=n), noise

    X, y, _ = draw(1000)
    Q, truth, noise = draw(5000)
    return interval_case(X, y, Q, truth, seed, noise)


def set_case(name, seed):
    X, y, Q, truth = split(name, seed)
    model = ConformalClassifier(forest("classification"), random_state=seed).fit(X, y)
    kept = np.isin(truth, model.classes_)
    codes = np.searchsorted(model.classes_, truth[kept])
    found = {}
    for method in ("adaptive", "threshold"):
        sets = [model.predict_set(Q[kept], coverage, method=method) for coverage in COVERAGES]
        found[method] = {
            "coverage": [float(s[np.arange(len(codes)), codes].mean()) for s in sets],
            "size": [float(s.sum(axis=1).mean()) for s in sets],
        }
    return found


def flip(y, share, kind, proba, rng):
    """Return labels of which a share is wrong: any other one, or the most probable other one."""
    classes, codes = np.unique(y, return_inverse=True)
    wrong = rng.choice(len(y), round(share * len(y)), replace=False)
    given = codes.copy()
    if kind == "uniform":
        given[wrong] = (codes[wrong] + rng.randint(1, len(classes), len(wrong))) % len(classes)
    else:
        given[wrong] = margins(proba, codes)[1][wrong]
    return given, np.isin(np.arange(len(y)), wrong)


def label_case(name, share, kind):
    X, y = table(name)
    rng = np.random.RandomState(0)
    if len(y) > MAX_ROWS:
        rows = rng.permutation(len(y))[:MAX_ROWS]
        X, y = X[rows], y[rows]
    clean = cross_val_predict(forest("classification"), X, y, cv=5, method="predict_proba")
    given, wrong = flip(y, share, kind, clean, rng)
    proba = cross_val_predict(forest("classification"), X, given, cv=5, method="predict_proba")
    found = label_issues(proba, given)
    result = {
        "precision": average_precision_score(wrong, -margins(proba, given)[0]),
        "counted": found.values["expected"],
        "wrong": int(wrong.sum()),
    }
    said = peers(proba=proba, labels=given)
    if said is not None:
        scores, count = said
        result["cleanlab"] = average_precision_score(wrong, -np.asarray(scores))
        result["cleanlab counted"] = count
    return result


def stranger_case(name):
    """Area under the curve of telling a class that was left out from rows of the others."""
    X, y = table(name)
    classes, counts = np.unique(y, return_counts=True)
    left_out = classes[np.argsort(counts)[0]]
    known = np.flatnonzero(y != left_out)
    known = np.random.RandomState(0).permutation(known)
    fit, same = known[: min(2000, len(known) // 2)], known[len(known) // 2 :][:1000]
    other = np.flatnonzero(y == left_out)[:1000]
    Q = np.vstack([X[same], X[other]])
    strange = np.r_[np.zeros(len(same)), np.ones(len(other))]
    scaler = StandardScaler().fit(X[fit])
    lof = LocalOutlierFactor(novelty=True).fit(scaler.transform(X[fit]))
    trees = IsolationForest(random_state=0).fit(X[fit])
    return {
        "support": roc_auc_score(strange, -Support(Place(X[fit]))(Q)),
        "LocalOutlierFactor": roc_auc_score(strange, -lof.score_samples(scaler.transform(Q))),
        "IsolationForest": roc_auc_score(strange, -trees.score_samples(Q)),
    }


def interval_table(page, seeds):
    labels = {
        "vicinal": "vicinal",
        "mapie_cv": "MAPIE CV+",
        "mapie_normalized": "MAPIE normalised",
        "crepes_normalized": "crepes normalised",
    }
    rows, ratios = [], {}
    for name in REGRESSION:
        found = [
            page.case((name, seed), lambda n=name, s=seed: interval_case(*split(n, s), s))
            for seed in seeds
        ]
        for key, label in labels.items():
            if key not in found[0]:
                continue
            coverage = np.mean([[part[0] for part in f[key]["coverage"]] for f in found], axis=0)
            width = np.mean([f[key]["width"] for f in found], axis=0)
            seconds = np.mean([f[key]["seconds"] for f in found])
            rows.append(
                [name if key == "vicinal" else "", label]
                + [f"{c:.3f} ({w:.2f})" for c, w in zip(coverage, width, strict=True)]
                + [f"{seconds:.1f}"]
            )
            ratios.setdefault(key, []).append(
                width[1] / np.mean([f["vicinal"]["width"][1] for f in found])
            )
    page.table(
        ["set", "method", *(f"{c:g}: coverage (width)" for c in COVERAGES), "seconds"],
        rows,
        "## Intervals\n\nMean coverage and mean width, in deviations of the target, of "
        f"{len(seeds)} splits; a forest of 100 trees, at most {MAX_ROWS} training rows. Seconds of "
        "fit, calibration and prediction of three coverages.",
    )
    for key in list(labels)[1:]:
        if key in ratios:
            mean = np.exp(np.mean(np.log(ratios[key])))
            page.text(
                f"Width of {labels[key]} over ours at 0.9, geometric mean of sets: {mean:.3f}."
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    seeds = range(parser.parse_args().splits)
    page = ResultsPage(
        "rows",
        "What held-out answers know about one row",
        "Do intervals and sets of labels cover as often as asked, everywhere, and how wide are "
        "they beside those of other libraries around the same model; is support small on "
        "strangers; are wrong labels found and counted?",
    )
    interval_table(page, seeds)
    found = [page.case(("simulated", seed), lambda s=seed: simulated(s)) for seed in seeds]
    fifths = {key: np.mean([f[key]["coverage"][1] for f in found], axis=0) for key in found[0]}
    page.table(
        ["method", *(f"fifth {k + 1}" for k in range(5)), "width"],
        [
            [
                key,
                *(f"{c:.3f}" for c in part),
                f"{np.mean([f[key]['width'][1] for f in found]):.3f}",
            ]
            for key, part in fifths.items()
        ],
        "## Where the noise runs from 0.26 to 2.04\n\nCoverage at 0.9 by fifths of the true noise, "
        "weakest first. Bar: within 4 points in each.",
    )
    rows = []
    for name in CLASSIFICATION:
        found = [page.case((name, seed), lambda n=name, s=seed: set_case(n, s)) for seed in seeds]
        for method in ("adaptive", "threshold"):
            coverage = np.mean([f[method]["coverage"] for f in found], axis=0)
            size = np.mean([f[method]["size"] for f in found], axis=0)
            rows.append(
                [name if method == "adaptive" else "", method]
                + [f"{c:.3f} ({s:.2f})" for c, s in zip(coverage, size, strict=True)]
            )
    page.table(
        ["set", "method", *(f"{c:g}: coverage (size)" for c in COVERAGES)],
        rows,
        "## Sets of labels\n\nMean coverage and mean number of labels.",
    )
    rows = [
        [
            name,
            *(
                f"{value:.3f}"
                for value in page.case(("stranger", name), lambda n=name: stranger_case(n)).values()
            ),
        ]
        for name in STRANGERS
    ]
    page.table(
        ["rarest class left out of", "support", "LocalOutlierFactor", "IsolationForest"],
        rows,
        "## Support\n\nArea under the curve of telling a class that was never seen from new rows "
        "of the others.",
    )
    rows = []
    for name in NOISY:
        for kind in ("uniform", "nearest"):
            for share in (0.05, 0.1, 0.2):
                found = page.case(
                    (name, kind, share), lambda n=name, s=share, k=kind: label_case(n, s, k)
                )
                rows.append(
                    [
                        name,
                        kind,
                        f"{share:.0%}",
                        f"{found['precision']:.3f}",
                        f"{found['cleanlab']:.3f}" if "cleanlab" in found else "-",
                        f"{found['counted']:.0f} of {found['wrong']}",
                        found.get("cleanlab counted", "-"),
                    ]
                )
    page.table(
        ["set", "kind", "wrong", "ours", "cleanlab", "counted by us", "by cleanlab"],
        rows,
        "## Wrong labels\n\nAverage precision of finding flipped labels from the same held-out "
        "probabilities (a forest, five folds), and how many were counted.",
    )
    page.write()


if __name__ == "__main__":
    main()
