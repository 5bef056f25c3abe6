"""Loss by time limit, compared with CatBoost and LightGBM, and how well limits are kept.

Every model has one thread and sees the same rows, at most 5,000, on the five splits of the
comparison. AutoClassifier and AutoRegressor are fitted with each ``max_fit_time`` and without one.
Seconds are of the wall, on a machine without other work. CatBoost runs in the Python named by
VICINAL_PEERS. A longer run may have more ``--sets``.
"""

import argparse
import time
import warnings

import numpy as np

from _harness import ResultsPage, is_rebuilding, stored
from _losses import loss_of
from _pages import RESULTS
from bench_auto import peer_predictions, single, split, task_of, warm_up
from bench_comparison import SEEDS, interval
from vicinal.auto import AutoClassifier, AutoRegressor

SETS = ("adult", "spambase", "grid_stability", "airfoil")
LIMITS = (2, 5, 10, 30, None)
PEERS = ("LightGBM", "CatBoost")
ROWS = "5000"
CASES = stored("anytime")


def measure(name: str, model, seed: int) -> dict:
    """Return loss and seconds of a fit: of a peer, or of ours with a limit."""
    rows, task = split(name, ROWS, seed), task_of(name)
    y, y_test = rows.table.y[rows.train], rows.table.y[rows.test]
    if task == "regression":
        mean, scale = y.mean(), y.std()
        y, y_test = (y - mean) / scale, (y_test - mean) / scale
    if model == "CatBoost":
        predicted, found = peer_predictions(model, task, rows, y)
        if predicted is None:
            raise RuntimeError(f"CatBoost failed on {name}: {found['reason']}")
        predicted = found.pop("probabilities", predicted)
        return {"seconds": found["wall"]} | loss_of(
            predicted, None if task == "regression" else np.unique(y), y_test
        )
    kind = AutoClassifier if task == "classification" else AutoRegressor
    if model == "LightGBM":
        estimator = single(task, 100)[model]
    else:
        estimator = kind(max_fit_time=model, n_jobs=1, random_state=0)
        warm_up(kind)
    X, X_test = rows.part("given")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.perf_counter()
        estimator.fit(X, y)
        seconds = time.perf_counter() - started
        predict = estimator.predict if task == "regression" else estimator.predict_proba
        found = {"seconds": seconds} | loss_of(
            predict(X_test), getattr(estimator, "classes_", None), y_test
        )
    if model != "LightGBM":
        found |= {"score": estimator.score_, "score error": estimator.score_error_}
    return found


def label(model) -> str:
    """Return the name of a model in tables."""
    if isinstance(model, str):
        return model
    return "no limit" if model is None else f"{model} s"


def summary(task: str) -> tuple[list[str], list, np.ndarray, np.ndarray]:
    """Return sets, models, losses and seconds (set, split, model) of a task as far as run."""
    models = [*LIMITS, *PEERS]
    names = [
        name for name in SETS
        if task_of(name) == task and all(CASES.has(name, m, s) for m in models for s in SEEDS)
    ]  # fmt: skip
    loss, seconds = (
        np.array([[[CASES.find(n, m, s)[k] for m in models] for s in SEEDS] for n in names])
        for k in ("loss", "seconds")
    )
    return names, models, loss, seconds


def ratios(models: list, loss: np.ndarray) -> list[tuple[float, float, float]]:
    """Return the ratio of each model to CatBoost, with its interval."""
    ratio = np.log(loss / loss[:, :, [models.index("CatBoost")]])
    return [interval(ratio[:, :, j]) for j in range(len(models))]


def write(page: ResultsPage) -> None:
    """Add a table for each task, and how well the limits were kept."""
    over, fits = [], 0
    for task in ("classification", "regression"):
        names, models, loss, seconds = summary(task)
        if not names:
            continue
        mean, times = loss.mean(axis=1), np.exp(np.log(seconds).mean(axis=(0, 1)))
        rows = [
            (label(m), *mean[:, j], "{:.2f} ({:.2f} to {:.2f})".format(*ratio), float(times[j]))
            for j, (m, ratio) in enumerate(zip(models, ratios(models, loss), strict=True))
        ]
        page.text(f"## {task.capitalize()}")
        shown = "Log loss" if task == "classification" else "Squared error / variance"
        page.table(
            ("max_fit_time, or model", *names, "ratio to CatBoost (95 % interval)", "fit, s"),
            rows,
            caption=f"{shown}, mean of {len(SEEDS)} splits. Ratios, seconds: geometric means.",
        )
        for j, limit in enumerate(LIMITS[:-1]):
            over += list(seconds[:, :, j].ravel() / limit)
            fits += seconds[:, :, j].size
    if fits:
        page.text(
            f"Of {fits} fits with a limit, {sum(r <= 1.0 for r in over)} ended within it and "
            f"{sum(r <= 1.1 for r in over)} within 1.1 times the limit; the longest took "
            f"{max(over):.2f} times the limit. Each has an estimate of its error."
        )


def draw() -> None:
    """Plot the loss relative to CatBoost's over the seconds of the fit."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), constrained_layout=True)
    for axis, task in zip(axes, ("classification", "regression"), strict=True):
        names, models, loss, seconds = summary(task)
        if not names:
            continue
        ratio = [value for value, _, _ in ratios(models, loss)]
        time_s = np.exp(np.log(seconds).mean(axis=(0, 1)))
        n = len(LIMITS)
        axis.plot(time_s[:n], ratio[:n], "o-", label="vicinal, by max_fit_time")
        for j, mark in zip(range(n, len(models)), "sD", strict=True):
            axis.plot(time_s[j], ratio[j], mark, ms=8, label=models[j])
        axis.set(xscale="log", xlabel="fit, seconds (left: faster)", ylabel="loss / CatBoost's")
        axis.get_xaxis().set_major_formatter("{x:g}")
        axis.axhline(1.0, color="0.8", zorder=0)
        axis.set_title(f"{task}, at most {int(ROWS):,} rows, {len(names)} sets")
        axis.legend(fontsize=8)
    figure.savefig(RESULTS / "figures" / "anytime.png", dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    options = parser.parse_args([] if is_rebuilding() else None)
    page = ResultsPage(
        "anytime",
        "Loss by time limit",
        "`AutoClassifier` and `AutoRegressor` with `max_fit_time` on one thread of a quiet "
        "machine, compared with the defaults of CatBoost and LightGBM on the same rows: at most "
        f"5,000, {len(SEEDS)} splits of each set that played no part in development. Few sets, "
        "because every fit is repeated for each limit.",
        packages=("lightgbm",),
    )
    if not is_rebuilding():
        for seed in SEEDS:
            for name in options.sets:
                for model in (*LIMITS, *PEERS):
                    key = (name, model, seed)
                    page.case(key, lambda key=key: measure(*key))
        draw()
    page.text("![loss by time limit](figures/anytime.png)")
    write(page)
    page.write()


if __name__ == "__main__":
    main()
