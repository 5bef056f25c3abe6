"""Do intervals and sets cover, where, how wide, and are wrong labels found?

Peers (MAPIE, crepes, cleanlab) run in an environment of their own: name its Python in the
environment variable ``VICINAL_PEERS``.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import stats
from sklearn.datasets import load_diabetes, make_blobs, make_friedman1, make_moons
from sklearn.ensemble import IsolationForest, RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import StandardScaler

from _datasets import load_dataset
from _harness import ROOT, ResultsPage
from vicinal._conformal import StandardizedRows, Typicality
from vicinal.inspection import check, label_issues
from vicinal.inspection.checks._targets import label_odds
from vicinal.local import LocalClassifier
from vicinal.uncertainty import ConformalClassifier, ConformalRegressor

COVERAGES = (0.8, 0.9, 0.95)
REGRESSION = ("diabetes", "laser", "mortgage", "airfoil", "puma32h", "grid_stability", "friedman1")
CLASSIFICATION = ("wine", "vertebral", "wdbc", "banana", "spambase", "satimage", "letter", "adult")
NOISY = ("wdbc", "vertebral", "banana", "satimage", "optdigits", "pendigits")
# Rows of the first kind are learned, those of the second are strangers: a class left out.
STRANGERS = ("satimage", "pendigits", "optdigits", "wine", "letter", "vertebral")
MAX_ROWS = 1000
N_SEEDS = 20
# Sets of few rows to test on (fewer than 150, about 300) are split so many times more often.
MORE = dict.fromkeys(("diabetes", "wine", "vertebral"), 4)
MORE |= dict.fromkeys(("laser", "mortgage"), 2)
N_DRAWS = 5
# Tables whose classes overlap, and those that are asked about them.
OVERLAPPING = ("a noisy border", "three normal clouds", "two moons", "five blobs")
SIZES = (400, 1000)
GAP_COLUMNS = [f"{c:g}: points above" for c in COVERAGES]
METHODS = {
    "vicinal": "vicinal",
    "mapie_cv": "MAPIE CV+",
    "mapie_normalized": "MAPIE normalised",
    "crepes_normalized": "crepes normalised",
}


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
    """Return what the peers say."""
    python = os.environ.get("VICINAL_PEERS")
    if not python:
        raise SystemExit("name the Python of the peers' environment in VICINAL_PEERS.")
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "data.npz", **arrays)
        script = ROOT / "benchmarks" / "_peers_rows.py"
        subprocess.run([python, str(script), folder], check=True)
        return json.loads((Path(folder) / "peers.json").read_text())


def interval_case(X, y, Q, truth, seed, noise=None, *, with_peers=False):
    started = time.process_time()
    forest("regression").fit(X, y)
    fit = time.process_time() - started
    started = time.process_time()
    model = ConformalRegressor(forest("regression"), random_state=seed).fit(X, y)
    fitted = time.process_time()
    ends = [model.predict_interval(Q, coverage) for coverage in COVERAGES]
    ours = {
        "seconds": time.process_time() - started,
        "fit": fit,
        "after fit": time.process_time() - fitted,
        "ends": [e.tolist() for e in ends],
    }
    found = {"vicinal": ours}
    if with_peers:
        found |= peers(X=X, y=y, Q=Q, coverages=COVERAGES)
    parts = [slice(None)] if noise is None else np.array_split(np.argsort(noise), 5)
    for entry in found.values():
        ends = np.array(entry.pop("ends"))
        middle, half = ends.mean(axis=2), 0.5 * np.diff(ends)[..., 0]
        ratio = np.abs(truth - middle) / half
        entry["coverage"] = [[float(np.mean(r[part] <= 1.0)) for part in parts] for r in ratio]
        width = 2.0 * half.mean(axis=1) / np.std(truth)
        entry["width"] = width.tolist()
        # Blown up or shrunk until they cover the test rows exactly as asked.
        factor = [np.quantile(r, c) for r, c in zip(ratio, COVERAGES, strict=True)]
        entry["equal width"] = (width * factor).tolist()
    return found


def simulated(seed, *, with_peers=False):
    rng = np.random.RandomState(seed)

    def draw(n):
        X = rng.uniform(size=(n, 3))
        noise = 0.26 + 1.78 * X[:, 0]
        return X, np.sin(5 * X[:, 0]) + X[:, 1] + noise * rng.normal(size=n), noise

    X, y, _ = draw(1000)
    Q, truth, noise = draw(5000)
    return interval_case(X, y, Q, truth, seed, noise, with_peers=with_peers)


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
        given[wrong] = label_odds(proba, codes)[1][wrong]
    return given, np.isin(np.arange(len(y)), wrong)


def some_rows(name, rng):
    """Return rows of a set, and its labels as integers."""
    X, y = table(name)
    y = np.unique(y, return_inverse=True)[1]
    rows = rng.permutation(len(y))[:MAX_ROWS] if len(y) > MAX_ROWS else slice(None)
    return X[rows], y[rows]


def noisy_labels(name, share, kind):
    """Return rows, labels of which some are exchanged, which, and a forest's held-out answers."""
    rng = np.random.RandomState(0)
    X, y = some_rows(name, rng)
    model = forest("classification")
    clean = None
    if kind == "nearest" or not share:
        clean = cross_val_predict(model, X, y, cv=5, method="predict_proba")
    if not share:
        return X, y, np.zeros(len(y), dtype=bool), clean
    given, wrong = flip(y, share, kind, clean, rng)
    return X, given, wrong, cross_val_predict(model, X, given, cv=5, method="predict_proba")


def label_case(name, share, kind):
    """Return how well wrong labels are ranked, and what cleanlab says of the same answers."""
    X, given, wrong, proba = noisy_labels(name, share, kind)
    result = {"precision": average_precision_score(wrong, label_odds(proba, given)[0])}
    scores, result["cleanlab counted"] = peers(proba=proba, labels=given)
    result["cleanlab"] = average_precision_score(wrong, -np.asarray(scores))
    # What `check` asks where no answers are handed to it.
    proba = LocalClassifier(alpha=1.0).fit(X, given).leave_one_out()
    result["local"] = average_precision_score(wrong, label_odds(proba, given)[0])
    return result


def count_case(name, share, kind):
    """Return how many labels are said to be wrong, and how many are."""
    _, given, wrong, proba = noisy_labels(name, share, kind)
    found = label_issues(proba, given)
    return {"alarm": bool(found), "wrong": int(wrong.sum()), **found.values}


def clean_labels_case(name):
    """Return what cleanlab says about labels that nobody exchanged."""
    _, y, _, proba = noisy_labels(name, 0.0, "uniform")
    return {"cleanlab": peers(proba=proba, labels=y)[1]}


def overlapping(kind, n, rng):
    """Draw a table whose classes overlap."""
    if kind == "two moons":
        return make_moons(n, noise=0.35, random_state=rng)
    if kind == "five blobs":
        return make_blobs(n, centers=5, n_features=4, cluster_std=2.5, random_state=rng)
    X = rng.normal(size=(n, 5))
    if kind == "a noisy border":
        return X, (X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * rng.normal(size=n) > 0).astype(int)
    y = rng.randint(3, size=n)
    X[:, 0] += 1.5 * (y == 1)
    X[:, 1] += 1.5 * (y == 2)
    return X, y


def alarm_case(kind, n, share):
    """Return in how many tables labels raise an alarm."""
    found = []
    for seed in range(N_SEEDS // 2 if share else N_SEEDS):
        rng = np.random.RandomState(seed)
        X, y = overlapping(kind, n, rng)
        given, _ = flip(y, share, "uniform", None, rng)
        proba = LocalClassifier(alpha=1.0).fit(X, given).leave_one_out()
        found.append(label_issues(proba, given))
    return {"alarms": sum(map(bool, found)), "tables": len(found)}


def uniform_case(name, seed):
    """Compare the support of new rows with a uniform law, both samples counted."""
    X, _, Q, _ = split(name, seed)
    found = Typicality(StandardizedRows(X))(Q)
    distance = stats.kstest(found, "uniform").statistic
    size = len(X) * len(Q) / (len(X) + len(Q))
    return {
        "distance": float(distance),
        "p": float(stats.kstwobign.sf(distance * np.sqrt(size))),
        "below": float(np.mean(found <= 0.05)),
    }


def planted_case(seed):
    """Return what a check finds in a clean table, and in one with each fault planted."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(600, 5))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * rng.normal(size=600)
    clean, new = X[:400], X[400:]
    spoiled, late = clean.copy(), new.copy()
    spoiled = np.column_stack([spoiled, y[:400] + 0.05 * rng.normal(size=400)])
    spoiled[10:15] = spoiled[20:25]
    late = np.column_stack([late, rng.permutation(spoiled[:, 5])[:200]])
    late[:, 3] += 1.0
    wrong = y[:400].copy()
    wrong[10:15] = wrong[20:25]
    wrong[7] += 20.0
    found = check(spoiled, wrong, against=late)
    return {
        "clean": check(clean, y[:400], against=new).found,
        "clean classes": check(clean, (y[:400] > 0).astype(int), against=new).found,
        "target": bool(7 in found["labels"]["row"]),
        "leak": bool("x5" in found["leaks"]["column"]),
        "repeats": found["repeats"].values["n_repeats"] == 5,
        "drift": found["drift"]["column"].tolist() == ["x3"],
    }


def stranger_case(name, seed):
    """Area under the curve of telling a class that was left out from rows of the others."""
    X, y = table(name)
    classes, counts = np.unique(y, return_counts=True)
    left_out = classes[np.argmin(counts)]
    known = np.flatnonzero(y != left_out)
    known = np.random.RandomState(seed).permutation(known)
    fit, same = known[: min(2000, len(known) // 2)], known[len(known) // 2 :][:1000]
    other = np.random.RandomState(seed).permutation(np.flatnonzero(y == left_out))[:1000]
    Q = np.vstack([X[same], X[other]])
    strange = np.r_[np.zeros(len(same)), np.ones(len(other))]
    scaler = StandardScaler().fit(X[fit])
    lof = LocalOutlierFactor(novelty=True).fit(scaler.transform(X[fit]))
    trees = IsolationForest(random_state=seed).fit(X[fit])
    return {
        "support": roc_auc_score(strange, -Typicality(StandardizedRows(X[fit]))(Q)),
        "LocalOutlierFactor": roc_auc_score(strange, -lof.score_samples(scaler.transform(Q))),
        "IsolationForest": roc_auc_score(strange, -trees.score_samples(Q)),
    }


# --- parts of the page ---


def more(name, seeds):
    return range(MORE.get(name, 1) * len(seeds))


class Gaps:
    """Distances of mean coverages from what was asked, with their standard errors over splits."""

    def __init__(self):
        self.sets = []

    def add(self, name, coverage):
        """Return the row of a set: splits, then gap and standard error, in points."""
        coverage = 100 * (np.asarray(coverage) - COVERAGES)
        gap, error = coverage.mean(axis=0), coverage.std(axis=0, ddof=1) / np.sqrt(len(coverage))
        self.sets.append((name, gap, error))
        return [len(coverage), *(f"{g:+.1f} ± {e:.1f}" for g, e in zip(gap, error, strict=True))]

    def summary(self):
        """Return how many sets keep the promise."""
        within = [name for name, gap, _ in self.sets if np.abs(gap).max() <= 1.5]
        near = [
            name
            for name, gap, error in self.sets
            if (np.abs(gap) <= np.maximum(1.5, 2 * error)).all()
        ]
        far = [missed(name, gap, error) for name, gap, error in self.sets if name not in within]
        ratios = np.abs(np.concatenate([gap / error for _, gap, error in self.sets]))
        beyond = f"; beyond it: {', '.join(far)}" if far else ""
        return (
            f"Within 1.5 points at all three levels on {len(within)} of {len(self.sets)} sets"
            f"{beyond}. With two standard errors allowed where these are larger: "
            f"{len(near)} of {len(self.sets)}. Of {len(ratios)} differences {sum(ratios > 2)} "
            "exceed two "
            f"standard errors ({0.05 * len(ratios):.0f} would by chance), the median difference is "
            f"{np.median(np.abs([gap for _, gap, _ in self.sets])):.1f} points."
        )


def missed(name, gap, error):
    """Say by how much a set misses the bar, and whether the splits leave a doubt about it."""
    at = np.abs(gap).argmax()
    sure = abs(gap[at]) > 1.5 + 2 * error[at]
    said = "beyond two standard errors" if sure else "the target is within two standard errors"
    return f"{name} ({gap[at]:+.2f} ± {error[at]:.2f} at {COVERAGES[at]:g}: {said})"


def interval_part(page, seeds):
    rows, gaps, costs = [], Gaps(), []
    for name in REGRESSION:
        found = [
            page.case((name, seed), lambda n=name, s=seed: interval_case(*split(n, s), s))[
                "vicinal"
            ]
            for seed in more(name, seeds)
        ]
        costs += [f["after fit"] / f["fit"] for f in found]
        width = np.mean([f["width"] for f in found], axis=0)
        said = gaps.add(name, [[part[0] for part in f["coverage"]] for f in found])
        rows.append([name, *said, *(f"{w:.2f}" for w in width)])
    page.table(
        ["set", "splits", *GAP_COLUMNS, *(f"{c:g}: width" for c in COVERAGES)],
        rows,
        "## Intervals\n\nHow many points the mean coverage lies above the nominal one, with its "
        "standard error over splits, and the mean width in deviations of the target; a forest of "
        f"100 trees, at most {MAX_ROWS} training rows.",
    )
    page.text(
        f"{gaps.summary()} Calibration and three predictions take {np.median(costs):.1f} times as "
        "long as one fit of the model (median of cases, processor seconds)."
    )


def peer_part(page, seeds):
    rows, ratios = [], {}
    for name in REGRESSION:
        found = [
            page.case(
                ("beside", name, seed),
                lambda n=name, s=seed: interval_case(*split(n, s), s, with_peers=True),
            )
            for seed in seeds
        ]
        ours = np.mean([f["vicinal"]["equal width"] for f in found], axis=0)
        for key, label in METHODS.items():
            coverage = np.mean([[part[0] for part in f[key]["coverage"]] for f in found], axis=0)
            width = np.mean([f[key]["equal width"] for f in found], axis=0)
            seconds = np.mean([f[key]["seconds"] for f in found])
            rows.append(
                [name if key == "vicinal" else "", label]
                + [f"{c:.3f} ({w:.3f})" for c, w in zip(coverage, width, strict=True)]
                + [f"{seconds:.1f}"]
            )
            each = [
                np.log(f[key]["equal width"]) - np.log(f["vicinal"]["equal width"]) for f in found
            ]
            error = np.std(each, axis=0, ddof=1) / np.sqrt(len(each))
            ratios.setdefault(key, {})[name] = width / ours, error
    page.table(
        [
            "set",
            "method",
            *(f"{c:g}: coverage (width at equal coverage)" for c in COVERAGES),
            "seconds",
        ],
        rows,
        f"## Compared with MAPIE and crepes\n\nThe same forest, {len(seeds)} splits. For equal "
        "coverage "
        "all intervals of a split are stretched by one factor until they cover its test rows "
        "exactly as often as nominal. Processor seconds of fit, calibration and prediction.",
    )
    page.table(
        [
            "width over ours, geometric mean of sets",
            *(f"{c:g}" for c in COVERAGES),
            "sets won",
            "narrower than ours, %",
        ],
        [
            [
                METHODS[key],
                *np.exp(np.mean([np.log(ratio) for ratio, _ in found.values()], axis=0)),
                *won_of(found),
            ]
            for key, found in ratios.items()
            if key != "vicinal"
        ],
        "At equal coverage. A set is won where our intervals are not wider "
        "at 0.9; of the others, by how much theirs are narrower, with the standard error over "
        "splits.",
    )


def won_of(found):
    lost = [
        f"{name} {100 * (1.0 - ratio[1]):.1f} ± {100 * error[1]:.1f}"
        for name, (ratio, error) in found.items()
        if ratio[1] < 1.0
    ]
    return f"{len(found) - len(lost)} of {len(found)}", ", ".join(lost) or "none"


def noise_part(page, seeds):
    found = [page.case(("simulated", seed), lambda s=seed: simulated(s)) for seed in seeds]
    page.table(
        ["coverage", *(f"fifth {k + 1}" for k in range(5)), "largest difference, points"],
        [
            [f"{c:g}", *(f"{part:.3f}" for part in fifths), f"{100 * abs(fifths - c).max():.1f}"]
            for c, fifths in zip(
                COVERAGES, np.mean([f["vicinal"]["coverage"] for f in found], axis=0), strict=True
            )
        ],
        "## Where the noise runs from 0.26 to 2.04\n\nCoverage by fifths of the true noise, "
        f"weakest first, mean of {len(seeds)} draws.",
    )


def peer_noise_part(page, seeds):
    found = [
        page.case(("beside", "simulated", seed), lambda s=seed: simulated(s, with_peers=True))
        for seed in seeds
    ]
    rows = []
    for key, label in METHODS.items():
        fifths = np.mean([f[key]["coverage"][1] for f in found], axis=0)
        width = np.mean([f[key]["equal width"][1] for f in found])
        gap = 100 * np.abs(fifths - 0.9).max()
        rows.append([label, *(f"{c:.3f}" for c in fifths), f"{gap:.1f}", f"{width:.3f}"])
    page.table(
        ["method", *(f"fifth {k + 1}" for k in range(5)), "largest difference, points", "width"],
        rows,
        f"The same at 0.9 compared with the others, {len(seeds)} draws; width at equal coverage.",
    )


def set_part(page, seeds):
    rows, gaps = [], {"threshold": Gaps(), "adaptive": Gaps()}
    for name in CLASSIFICATION:
        found = [
            page.case((name, seed), lambda n=name, s=seed: set_case(n, s))
            for seed in more(name, seeds)
        ]
        for method, kept in gaps.items():
            said = kept.add(name, [f[method]["coverage"] for f in found])
            size = np.mean([f[method]["size"] for f in found], axis=0)
            first = name if method == "threshold" else ""
            rows.append([first, method, *said, *(f"{s:.2f}" for s in size)])
    page.table(
        ["set", "method", "splits", *GAP_COLUMNS, *(f"{c:g}: labels" for c in COVERAGES)],
        rows,
        "## Sets of labels\n\nThe same, with the mean number of labels. Adaptive sets hold the "
        "most probable label, so they cover at least as often as the model is right: the bar of "
        "1.5 points is that of threshold sets.",
    )
    page.text(gaps["threshold"].summary())


def support_part(page, seeds):
    rows = []
    for name in (*REGRESSION, *CLASSIFICATION):
        found = [
            page.case(("uniform", name, seed), lambda n=name, s=seed: uniform_case(n, s))
            for seed in seeds
        ]
        rejected = sum(f["p"] < 0.05 for f in found)
        distance, below = (np.mean([f[key] for f in found]) for key in ("distance", "below"))
        rows.append([name, f"{distance:.3f}", f"{rejected} of {len(found)}", f"{below:.3f}"])
    page.table(
        ["set", "distance", "splits with p < 0.05", "share of support <= 0.05"],
        rows,
        "## Support\n\nTypicality of new rows compared with a uniform distribution: Kolmogorov "
        "and Smirnov's "
        "distance, mean of splits, and its p-value with both samples counted.",
    )
    rows, won = [], 0
    for name in STRANGERS:
        found = [
            page.case(("stranger", name, seed), lambda n=name, s=seed: stranger_case(n, s))
            for seed in range(N_DRAWS)
        ]
        areas = np.array([list(case.values()) for case in found])
        mean, error = areas.mean(axis=0), areas.std(axis=0, ddof=1) / np.sqrt(len(areas))
        won += mean[0] >= mean.max()
        rows.append([name, *(f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True))])
    page.table(
        ["rarest class left out of", "support", "LocalOutlierFactor", "IsolationForest"],
        rows,
        "Area under the curve for separating an unknown class from new rows of the others, "
        f"mean and standard error of {N_DRAWS} draws. "
        "The distance of typicality was chosen on iris, wbc_original, shuttle, covtype, isolet, "
        "spambase and yaleb.",
    )
    page.text(f"Support is best, or as good as the best, on {won} of {len(rows)} sets.")


def label_part(page):
    rows, kept = [], []
    for name in NOISY:
        for kind in ("uniform", "nearest"):
            for share in (0.05, 0.1, 0.2):
                ranked = page.case(
                    (name, kind, share), lambda n=name, s=share, k=kind: label_case(n, s, k)
                )
                found = ranked | page.case(
                    ("count", name, kind, share),
                    lambda n=name, s=share, k=kind: count_case(n, s, k),
                )
                kept.append((share, found))
                rows.append(
                    [name, kind, f"{share:.0%}"]
                    + [f"{found[key]:.3f}" for key in ("precision", "cleanlab", "local")]
                    + [f"{found['expected']} of {found['wrong']}", found["cleanlab counted"]]
                )
    page.table(
        ["set", "kind", "wrong", "ours", "cleanlab", "ours, local", "counted", "by cleanlab"],
        rows,
        "## Wrong labels\n\nAverage precision of finding flipped labels (uniform: to any other "
        "class; nearest: to the most probable other one) from the same held-out probabilities (a "
        "forest, five folds), and from those of the local model that `check` uses; how many were "
        "counted, from the forest's. That two counts are averaged was chosen on letter, spambase "
        "and wbc_original, with earlier counts of these sets in sight.",
    )
    even = sum(f["precision"] >= f["cleanlab"] - 1e-12 for _, f in kept)
    local = sum(f["local"] > f["cleanlab"] for _, f in kept)
    means = [np.mean([f[key] for _, f in kept]) for key in ("precision", "cleanlab", "local")]
    tenth = [f for share, f in kept if share == 0.1]
    close = counted_close(tenth, "expected")
    page.text(
        f"On the same probabilities ours is at least cleanlab's in {even} of {len(kept)} cases "
        f"(means {means[0]:.3f} and {means[1]:.3f}); with the local model it is above cleanlab "
        f"with a forest in {local} (mean {means[2]:.3f}). Counts at 10 % are within 30 % in "
        f"{close} of {len(tenth)} (cleanlab's in {counted_close(tenth, 'cleanlab counted')})."
    )
    clean = {
        name: page.case(("clean labels", name), lambda n=name: clean_labels_case(n))
        | page.case(("count", name, "clean", 0.0), lambda n=name: count_case(n, 0.0, "clean"))
        for name in NOISY
    }
    page.table(
        ["set as it is", "counted", "p-value", "alarm", "counted by cleanlab"],
        [
            [
                name,
                c["expected"],
                f"{c['p_value']:.2g}",
                "yes" if c["alarm"] else "no",
                c["cleanlab"],
            ]
            for name, c in clean.items()
        ],
        "The same sets with the labels they came with, right or not.",
    )


def counted_close(cases, key):
    return sum(abs(f[key] - f["wrong"]) <= 0.3 * f["wrong"] for f in cases)


def alarm_part(page):
    rows, clean = [], []
    for kind in OVERLAPPING:
        for n in SIZES:
            found = [
                page.case(
                    ("alarm", kind, n, share), lambda k=kind, m=n, s=share: alarm_case(k, m, s)
                )
                for share in (0.0, 0.05, 0.1)
            ]
            clean.append(found[0])
            said = [f"{f['alarms']} of {f['tables']}" for f in found]
            rows.append([kind, n, *said])
    page.table(
        ["classes", "rows", "none wrong", "5 % wrong", "10 % wrong"],
        rows,
        "## Alarms about labels of classes that overlap\n\nNumber of simulated tables in which "
        "the predictions of the local model raise an alarm. That every class has its own curve, "
        "and that a floor of "
        "1 % raises no alarm, was chosen on nine other kinds of tables of 150, 400 and 1,000 rows "
        "(two and ten clouds, three far apart, some that overlap and some that do not, a rare "
        "class, a checkerboard, rings, skewed columns, twenty columns; other seeds) and on "
        "predictions of forests for wbc_original, letter, spambase, shuttle and covtype.",
    )
    alarms, tables = (sum(case[key] for case in clean) for key in ("alarms", "tables"))
    page.text(f"Of {tables} tables without a wrong label {alarms} raise an alarm.")


def table_part(page):
    found = [
        page.case(("planted", seed), lambda s=seed: planted_case(s)) for seed in range(N_SEEDS)
    ]
    kinds = {
        "target": "a mistyped target",
        "leak": "a column that leaks",
        "repeats": "five repeated rows",
        "drift": "a shifted column, and no other",
    }
    clean = sum(not f["clean"] for f in found)
    silent = sum(not f["clean classes"] for f in found)
    raised = [name for f in found for name in (*f["clean"], *f["clean classes"])]
    page.table(
        ["planted", "found in"],
        [
            *(
                [label, f"{sum(f[key] for f in found)} of {N_SEEDS}"]
                for key, label in kinds.items()
            ),
            ["nothing, numbers as targets", f"silent in {clean} of {N_SEEDS}"],
            ["nothing, classes as targets", f"silent in {silent} of {N_SEEDS}"],
        ],
        f"## Tables\n\nWhat `check` finds in {N_SEEDS} simulated tables of 400 rows and 5 columns, "
        f"with 200 new rows. Alarms in clean tables: {', '.join(sorted(raised)) or 'none'}.",
    )


PARTS = {
    "intervals": interval_part,
    "noise": noise_part,
    "sets": set_part,
    "support": support_part,
    "alarms": lambda page, seeds: alarm_part(page),
    "tables": lambda page, seeds: table_part(page),
}
# These ask the peers.
PEER_PARTS = {
    "peers": peer_part,
    "peer noise": peer_noise_part,
    "labels": lambda page, seeds: label_part(page),
}
ORDER = (
    "intervals",
    "peers",
    "noise",
    "peer noise",
    "sets",
    "support",
    "labels",
    "alarms",
    "tables",
)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--peer-splits", type=int, default=3)
    parser.add_argument("--parts", nargs="*", choices=ORDER, help="run these, write no page")
    options = parser.parse_args()
    page = ResultsPage(
        "rows",
        "Intervals, label sets, novelty and wrong labels from held-out predictions",
        "Do intervals and label sets have their nominal coverage, and how wide are they compared "
        "with those of other libraries around the same model? Is the typicality of unknown "
        "classes low? Are wrong labels found?",
    )
    if options.parts is None:
        told = page.case(("peers",), lambda: peers(versions=True))
        page.text("Peers: " + ", ".join(f"{name} {number}" for name, number in told.items()) + ".")
    for name in options.parts or ORDER:
        splits = options.peer_splits if name in PEER_PARTS else options.splits
        (PARTS | PEER_PARTS)[name](page, range(splits))
    if options.parts is None:
        page.write()


if __name__ == "__main__":
    main()
