"""AutoClassifier and AutoRegressor compared with other libraries on new splits of public sets.

Protocol. Every set is split at random five times with seeds 100 to 104, which played no part in
development (smaller seeds did; the page names two exceptions): at most 1,000 or 5,000 training
rows, at most 4,000 test rows, the same for all models. Every model has its defaults and one
thread. A model that fails is shown as failed. Statistics are log loss and squared error, which no
single row decides, and shares of sets won; intervals are bootstraps over sets and splits. CatBoost
and XGBoost run in the Python named by VICINAL_PEERS, xRFM and EBM in that named by
VICINAL_PEERS_SLOW, at most 300 s each. Cases are stored one by one (``--rows``, ``--sets``,
``--models``, ``--seeds``).
"""

import argparse
import os
import pickle
import time
import warnings

import numpy as np

from _harness import ResultsPage, is_rebuilding, stored
from _losses import loss_of
from _pages import RESULTS
from bench_auto import (
    CLASSIFICATION,
    PEERS,
    REGRESSION,
    STOPPED,
    peer_predictions,
    single,
    split,
    task_of,
    warm_up,
)
from vicinal.auto import AutoClassifier, AutoRegressor

OURS = "vicinal"
FAST = "vicinal (fast)"
HERE = ("LightGBM", "hist. boosting", "random forest", "extra trees", "linear")
MODELS = (OURS, FAST, "CatBoost", "LightGBM", "XGBoost", *HERE[1:])
# Models of the tables as soon as they have run all splits.
FURTHER = ("stacking", "xRFM", "EBM")
SEEDS = tuple(range(100, 105))
ROWS = (1000, 5000)
# Sets with ten splits.
CLOSE_SETS, MORE_SEEDS = ("adult", "census_income"), tuple(range(100, 110))
CASES = stored("comparison")


# --- one case -----------------------------------------------------------------------------------


def judge(name: str, n_rows: int, label: str, seed: int) -> dict:
    """Return loss, error, processor seconds and file size of one model on one split."""
    if any((CASES.find(name, n_rows, label, s) or {}).get("reason") == STOPPED for s in SEEDS):
        return {"error": None, "reason": STOPPED}
    rows, task = split(name, str(n_rows), seed), task_of(name)
    y, y_test = rows.table.y[rows.train], rows.table.y[rows.test]
    if task == "regression":
        mean, scale = y.mean(), y.std()
        y, y_test = (y - mean) / scale, (y_test - mean) / scale
    if label in PEERS:
        predicted, found = peer_predictions(label, task, rows, y)
        if predicted is None:
            return found
        predicted = found.pop("probabilities", predicted)
        classes = None if task == "regression" else np.unique(y)
    else:
        predicted, classes, found = fit_here(label, task, rows, y)
    return found | loss_of(predicted, classes, y_test)


def fit_here(label: str, task: str, rows, y):
    """Fit a model of this environment; return its predictions, classes and costs."""
    X, X_test = rows.part("given" if label in (OURS, FAST, "LightGBM") else "numbers")
    if label in (OURS, FAST):
        kind = AutoClassifier if task == "classification" else AutoRegressor
        warm_up(kind)
        preset = "fast" if label == FAST else "default"
        model = kind(preset=preset, n_jobs=1, random_state=0)
    else:
        model = single(task, 100)[label]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.process_time()
        model.fit(X, y)
        fitted = time.process_time()
        predict = model.predict_proba if task == "classification" else model.predict
        predicted = predict(X_test)
        found = {"fit": fitted - started, "predict": time.process_time() - fitted}
    if label in (OURS, FAST):
        found["score"], found["score error"] = model.score_, model.score_error_
    else:
        found["file"] = len(pickle.dumps(model))
    return predicted, getattr(model, "classes_", None), found


# --- statistics ---------------------------------------------------------------------------------


def losses(n_rows: int, task: str, labels) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return sets, losses and fit seconds (set, split, model) of the splits all models ran."""
    names, loss, fit = [], [], []
    for name in REGRESSION if task == "regression" else CLASSIFICATION:
        if all(CASES.has(name, n_rows, label, seed) for label in labels for seed in SEEDS):
            found = [[CASES.find(name, n_rows, label, s) for label in labels] for s in SEEDS]
            names.append(name)
            loss.append([[c.get("loss", np.nan) for c in case] for case in found])
            fit.append([[c.get("fit", np.nan) for c in case] for case in found])
    return names, np.array(loss), np.array(fit)


def interval(values: np.ndarray, draws: int = 2000) -> tuple[float, float, float]:
    """Return a geometric mean over sets (of means over splits) and its bootstrap 95 % interval.

    ``values`` are logarithms of ratios (set, split); sets, then splits within sets, are resampled.
    """
    rng = np.random.RandomState(0)
    n_sets, n_splits = values.shape
    sets = rng.randint(n_sets, size=(draws, n_sets))
    splits = rng.randint(n_splits, size=(draws, n_sets, n_splits))
    means = values[sets[:, :, None], splits].mean(axis=(1, 2))
    low, high = np.percentile(means, [2.5, 97.5])
    return tuple(float(np.exp(v)) for v in (values.mean(), low, high))


def ranks(loss: np.ndarray) -> np.ndarray:
    """Return ranks along the last axis, ties shared, failed models last."""
    filled = np.where(np.isnan(loss), 1e300, loss)
    below = (filled[..., None, :] < filled[..., :, None] - 1e-12).sum(axis=-1)
    same = (np.abs(filled[..., None, :] - filled[..., :, None]) <= 1e-12).sum(axis=-1)
    return below + (np.maximum(same, 1) + 1) / 2.0


def wins(loss: np.ndarray, labels, other: str) -> tuple[int, int, int]:
    """Return on how many sets ours has the lower loss beyond one standard error, ties, losses."""
    difference = loss[:, :, labels.index(OURS)] - loss[:, :, labels.index(other)]
    error = difference.std(axis=1, ddof=1) / np.sqrt(difference.shape[1])
    mean = difference.mean(axis=1)
    return int((mean < -error).sum()), int((abs(mean) <= error).sum()), int((mean > error).sum())


# --- page ---------------------------------------------------------------------------------------


def part_of(n_rows: int, task: str) -> dict | None:
    """Return losses, ratios to ours, ranks and seconds of the models that ran all splits."""
    labels = [m for m in MODELS if any(CASES.has(n, n_rows, m, SEEDS[-1]) for n in _sets(task))]
    names, loss, fit = losses(n_rows, task, labels)
    if not names or OURS not in labels:
        return None
    further = [
        m for m in FURTHER if all(CASES.has(n, n_rows, m, s) for n in names for s in SEEDS)
    ]  # fmt: skip
    if further:
        labels = [*labels, *further]
        names, loss, fit = losses(n_rows, task, labels)
    ratio = np.log(loss / loss[:, :, [labels.index(OURS)]])
    rank = ranks(loss).mean(axis=(0, 1))
    summary = {}
    for j, label in enumerate(labels):
        ran = np.isfinite(ratio[:, :, j]).all(axis=1)
        summary[label] = {
            "ratio": interval(ratio[ran, :, j]),
            "seconds": float(np.exp(np.nanmean(np.log(fit[:, :, j])))),
            "rank": float(rank[j]),
            "failed": int((~ran).sum()),
            "sets": wins(loss, labels, label),
        }
    return {"task": task, "rows": n_rows, "names": names, "labels": labels, "loss": loss,
            "summary": summary}  # fmt: skip


def parts_at(n_rows: int) -> list[dict]:
    """Return both tasks at a number of rows, as far as they have been run."""
    found = [part_of(n_rows, task) for task in ("classification", "regression")]
    return [part for part in found if part]


def sentences(found) -> list[str]:
    """Return the findings in words, one sentence per task, and where ours loses at any size."""
    found_lines = []
    for part in found:
        peers = {m: s for m, s in part["summary"].items() if not m.startswith(OURS)}
        best = min(peers, key=lambda m: peers[m]["rank"])
        ours, other = part["summary"][OURS], peers[best]
        value, low, high = other["ratio"]
        won, tied, lost = other["sets"]
        shown = "log loss" if part["task"] == "classification" else "squared error"
        model = "AutoClassifier" if part["task"] == "classification" else "AutoRegressor"
        found_lines.append(
            f"On {len(part['names'])} {part['task']} sets with at most {part['rows']:,} training "
            f"rows and five new splits each, `{model}` has the mean rank {ours['rank']:.1f} of "
            f"{len(part['labels'])} models; {best}, the next best library, has rank "
            f"{other['rank']:.1f} and {value:.2f} times its {shown} (95 % interval {low:.2f} to "
            f"{high:.2f}; {won} sets won, {lost} lost, {tied} undecided), and `{model}` takes "
            f"{ours['seconds'] / other['seconds']:.1f} times the processor time of {best}."
        )
    both = [*found, *parts_at(ROWS[1])]
    lost = [
        f"{name} ({peer}{', 5,000 rows' if part['rows'] == ROWS[1] else ''})"
        for part in both
        for name, peer in _beaten(part)
    ]
    n_tables = sum(len(part["names"]) for part in both)
    found_lines.append(
        f"In {len(lost)} of {n_tables} comparisons (a set with at most 1,000 or 5,000 rows) "
        f"another library has a lower loss beyond one standard error: {', '.join(lost) or 'none'}."
    )
    return found_lines


def _beaten(part) -> list[tuple[str, str]]:
    """Return the sets on which some other library is better beyond one standard error."""
    labels, loss = part["labels"], part["loss"]
    found = []
    for name, values in zip(part["names"], loss, strict=True):
        worst = {}
        for j, label in enumerate(labels):
            if label.startswith(OURS) or not np.isfinite(values[:, j]).all():
                continue
            gain = values[:, labels.index(OURS)] - values[:, j]
            if gain.mean() > gain.std(ddof=1) / np.sqrt(len(gain)):
                worst[label] = gain.mean()
        if worst:
            found.append((name, max(worst, key=worst.get)))
    return found


def section(page: ResultsPage, part: dict) -> None:
    """Add the table of one task and number of rows."""
    labels, summary = part["labels"], part["summary"]
    shown = "squared error / variance" if part["task"] == "regression" else "log loss"
    table = [
        [name, *(f"{v:.4f}" if np.isfinite(v) else "failed" for v in row.mean(axis=0))]
        for name, row in zip(part["names"], part["loss"], strict=True)
    ]
    ratios = ["{:.3f} ({:.3f} to {:.3f})".format(*summary[m]["ratio"]) for m in labels[1:]]
    table.append(["ratio to vicinal (95 % interval)", "1", *ratios])
    table.append(["mean rank", *(f"{summary[m]['rank']:.2f}" for m in labels)])
    won = ["{}, {}, {}".format(*summary[m]["sets"]) for m in labels[1:]]
    table.append(["sets won, tied, lost by vicinal", "-", *won])
    table.append(["fit, processor seconds", *(f"{summary[m]['seconds']:.2f}" for m in labels)])
    failed = failures(part)
    if failed:
        table.append(["sets failed", "-", *(summary[m]["failed"] for m in labels[1:])])
    page.text(f"## {part['task'].capitalize()}, at most {part['rows']:,} training rows")
    page.table(
        ["set", *labels],
        table,
        caption=f"Mean {shown} of {len(SEEDS)} splits. Ratios and seconds are geometric means.",
    )
    if failed:
        page.text(
            "Failed on at least one split, last in ranks and left out of ratios: "
            f"{'; '.join(failed)}."
        )


def failures(part: dict) -> list[str]:
    """Return model, sets and reasons of the fits without a result."""
    found = {}
    for name in part["names"]:
        for label in part["labels"]:
            for seed in SEEDS:
                reason = CASES.find(name, part["rows"], label, seed).get("reason")
                if reason:
                    found.setdefault((label, reason), {})[name] = None
    return [f"{label} on {', '.join(names)} ({why})" for (label, why), names in found.items()]


def closest(page, other: str) -> None:
    """Add ten splits of the sets that another library came closest to winning, or won."""
    rows = []
    for name in CLOSE_SETS:
        for n_rows in ROWS:
            pairs = [
                [CASES.find(name, n_rows, label, seed)["loss"] for label in (OURS, other)]
                for seed in MORE_SEEDS
                if all(CASES.has(name, n_rows, label, seed) for label in (OURS, other))
            ]
            if len(pairs) < 2:
                continue
            mine, theirs = np.array(pairs).T
            difference = mine - theirs
            error = difference.std(ddof=1) / np.sqrt(len(pairs))
            rows.append(
                (name, n_rows, len(pairs), float(mine.mean()), float(theirs.mean()),
                 f"{difference.mean():+.4f} ± {error:.4f}")
            )  # fmt: skip
    page.text(f"## More splits of sets that {other} nearly wins or wins")
    page.table(
        ("set", "training rows", "splits", OURS, other, "difference"),
        rows,
        caption="Mean log loss; the difference has its standard error. Positive ones are losses.",
    )


def _sets(task):
    return REGRESSION if task == "regression" else CLASSIFICATION


def draw_cost(found) -> None:
    """Plot the loss ratio over fit seconds, one mark per library with its interval."""
    import matplotlib.pyplot as plt

    models = [*MODELS, *FURTHER]
    below = 0.27 * np.ceil(max(len(part["labels"]) for part in found) / 3)
    figure, axes = plt.subplots(
        len(found), 1, figsize=(6.6, 3.6 * len(found) + below), squeeze=False
    )
    colors = dict(zip(models, (*(f"C{k}" for k in range(10)), "navy", "black"), strict=True))
    shapes = dict(zip(models, "**osD^vPXp<>", strict=True))
    for axis, part in zip(axes[:, 0], found, strict=True):
        for label in models:
            if label not in part["labels"]:
                continue
            value, low, high = part["summary"][label]["ratio"]
            is_ours = label.startswith(OURS)
            axis.errorbar(
                part["summary"][label]["seconds"], value, [[value - low], [high - value]],
                fmt=shapes[label], ms=14 if is_ours else 8, color=colors[label], elinewidth=1.2,
                label=label, zorder=3 if is_ours else 2,
            )  # fmt: skip
        axis.set(xscale="log", yscale="log", xlabel="fit, processor seconds (left: faster)")
        shown = "log loss" if part["task"] == "classification" else "squared error"
        axis.set_ylabel(f"{shown} / that of vicinal\n(lower: better)")
        low, high = axis.get_ylim()
        ticks = (0.9, 1, 1.1, 1.25, 1.5, 2, 3) if high < 4 else (1, 1.5, 2, 3, 5, 10)
        axis.set_yticks([t for t in ticks if low < t < high])
        axis.get_xaxis().set_major_formatter("{x:g}")
        axis.get_yaxis().set_major_formatter("{x:g}")
        axis.minorticks_off()
        axis.axhline(1.0, color="0.8", zorder=0)
        axis.set_title(f"{part['task']}, at most {part['rows']:,} rows, {len(part['names'])} sets")
    figure.tight_layout(rect=(0, below / figure.get_figheight(), 1, 1))
    figure.legend(*axes[0, 0].get_legend_handles_labels(), ncol=3, loc="lower center")
    figure.savefig(RESULTS / "figures" / "comparison_cost.png", dpi=96)
    plt.close(figure)


def draw_sets(found, other: str) -> None:
    """Plot the loss ratio of every set to another library and to the best other one."""
    import matplotlib.pyplot as plt

    n_sets = [len(part["names"]) for part in found]
    figure, axes = plt.subplots(
        len(found), 1, figsize=(6.6, 0.25 * sum(n_sets) + 1.3 * len(found)), squeeze=False,
        height_ratios=n_sets,
    )  # fmt: skip
    for axis, part in zip(axes[:, 0], found, strict=True):
        labels, loss = part["labels"], part["loss"]
        mine = loss[:, :, labels.index(OURS)]
        theirs = loss[:, :, labels.index(other)]
        peers = [j for j, m in enumerate(labels) if not m.startswith(OURS)]
        best = np.nanmin(loss[:, :, peers].mean(axis=1), axis=1)
        ratio = np.log(mine / theirs)
        error = ratio.std(axis=1, ddof=1) / np.sqrt(ratio.shape[1])
        difference = mine - theirs
        limit = difference.std(axis=1, ddof=1) / np.sqrt(ratio.shape[1])
        is_lost = difference.mean(axis=1) > limit
        order = np.argsort(-ratio.mean(axis=1))
        mean, bars = np.exp(ratio.mean(axis=1)), np.exp(error)
        for which, color, note in ((~is_lost, "C0", ""), (is_lost, "C3", ", which is better")):
            at = np.flatnonzero(which[order])
            i = order[at]
            axis.errorbar(
                mean[i], at, xerr=[mean[i] - mean[i] / bars[i], mean[i] * bars[i] - mean[i]],
                fmt="o", color=color, label=f"to {other}{note}" if len(i) else None,
            )  # fmt: skip
        at = np.arange(len(order))
        axis.plot((mine.mean(axis=1) / best)[order], at, "k|", ms=11, label="to the best other")
        axis.set_yticks(at, [part["names"][i] for i in order])
        axis.axvline(1.0, color="0.7", zorder=0)
        axis.set(xscale="log", xlabel="loss of vicinal / loss of the other (left: vicinal better)")
        axis.set_xlim(right=max(1.15, axis.get_xlim()[1]))
        ticks = [t for t in (0.2, 0.3, 0.5, 0.7, 1, 1.2, 1.5, 2) if t > axis.get_xlim()[0]]
        axis.set_xticks([t for t in ticks if t < axis.get_xlim()[1]])
        axis.get_xaxis().set_major_formatter("{x:g}")
        axis.minorticks_off()
        axis.set_title(f"{part['task']}, at most {part['rows']:,} rows")
        axis.legend(loc="lower left", fontsize=9)
    figure.tight_layout()
    figure.savefig(RESULTS / "figures" / "comparison_sets.png", dpi=100)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=int, default=[1000])
    parser.add_argument("--sets", nargs="+", default=[*CLASSIFICATION, *REGRESSION])
    parser.add_argument("--models", nargs="+", default=list(MODELS), help="also stacking xRFM EBM")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    options = parser.parse_args()
    page = ResultsPage(
        "comparison",
        "Accuracy and fit time on new splits",
        "All models have their defaults and one thread and see the same rows. The splits (seeds "
        "100 to 104) played no part in development; smaller seeds did. There are two exceptions: "
        "they showed that kernel ridge failed on tables of many columns, which was mended on "
        'other splits, and they were known when the families of `preset="fast"` in '
        "classification were chosen. Strings are given as they are to vicinal, LightGBM, "
        "CatBoost, XGBoost, xRFM and EBM, and as indicator columns to "
        "the others. A set is won or lost when the mean difference of its five splits exceeds its "
        "standard error. Intervals are bootstraps over sets and splits. isolet (617 columns, 26 "
        "classes) is not among the sets because CatBoost takes more than 300 s for one split. A "
        "model that takes longer than that for one split counts as failed on all five.",
        packages=("lightgbm",),
    )
    if not is_rebuilding():
        for seed in options.seeds:
            for n_rows in options.rows:
                for name in options.sets:
                    for label in options.models:
                        if label in PEERS and PEERS[label] not in os.environ:
                            continue
                        key = (name, n_rows, label, seed)
                        page.case(key, lambda key=key: judge(*key))
    first = parts_at(ROWS[0])
    if first:
        page.text("![loss by data set](figures/comparison_sets.png)")
        if not is_rebuilding():
            draw_cost(first)
            draw_sets(first, "CatBoost")
    for part in [*first, *parts_at(ROWS[1])]:
        section(page, part)
    closest(page, "CatBoost")
    page.write()


if __name__ == "__main__":
    main()
