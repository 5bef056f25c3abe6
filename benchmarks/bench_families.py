"""What each model family adds to AutoClassifier and AutoRegressor, on the splits of the comparison.

The families of the default without one of them, and with one more, compared with the default on the
same five splits (seeds 100 to 104) with at most 1,000 training rows. The sets are those on which a
fit takes the least time. Cases are stored one by one (``--sets``, ``--models``, ``--seeds``).
"""

import argparse
import time
import warnings

import numpy as np

from _harness import ResultsPage, is_rebuilding, stored
from _losses import loss_of
from bench_auto import split, task_of, warm_up
from bench_comparison import SEEDS, interval
from vicinal.auto import AutoClassifier, AutoRegressor

N_ROWS = 1000
ALL = "all families"
FAMILIES = ("constant", "linear", "kernel", "local", "forest", "boosting", "pretrained")
LOCAL = ("local", "kernel")
NO_LOCAL = "without local and kernel"
MORE = "with gradient"
NAMES = {
    "linear": "linear, quadratic and logistic models",
    "kernel": "kernel ridge in the gradient metric",
    "local": "local models",
    "forest": "forests",
    "boosting": "boosted trees",
    "pretrained": "pretrained neighbours",
    NO_LOCAL: "local models and kernel ridge",
    MORE: "nothing, but with local models in the gradient metric",
}
# By the fit time of the default, shortest first, in turn of each task.
SETS = (
    "wine", "diabetes", "vertebral", "friedman1", "wbc_original", "puma32h", "wdbc", "friedman3",
    "banana", "grid_stability", "pendigits", "laser", "shuttle", "friedman2", "adult", "mortgage",
)  # fmt: skip
CASES = stored("families")


def labels_of() -> list[str]:
    """Return all families, then without each, without all that are local, and with one more."""
    return [ALL, *(f"without {family}" for family in FAMILIES[1:]), NO_LOCAL, MORE]


def families_of(label: str) -> list[str]:
    """Return the families of a label, in the order in which they are tried."""
    if label == MORE:
        return [*FAMILIES, "gradient"]
    removed = LOCAL if label == NO_LOCAL else (label.removeprefix("without "),)
    return [family for family in FAMILIES if family not in removed]


def judge(name: str, label: str, seed: int) -> dict:
    """Return loss and processor seconds of one ensemble on one split."""
    rows, task = split(name, str(N_ROWS), seed), task_of(name)
    y, y_test = rows.table.y[rows.train], rows.table.y[rows.test]
    if task == "regression":
        mean, scale = y.mean(), y.std()
        y, y_test = (y - mean) / scale, (y_test - mean) / scale
    kind = AutoClassifier if task == "classification" else AutoRegressor
    X, X_test = rows.part("given")
    warm_up(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.process_time()
        model = kind(families_of(label), n_jobs=1, random_state=0).fit(X, y)
        fit = time.process_time() - started
        predict = model.predict_proba if task == "classification" else model.predict
        predicted = predict(X_test)
    return {"fit": fit} | loss_of(predicted, getattr(model, "classes_", None), y_test)


def part_of(task: str) -> dict | None:
    """Return sets, losses and seconds (set, split, ensemble) of the sets with all cases."""
    labels, names = labels_of(), []
    for name in SETS:
        keys = [(name, label, seed) for label in labels for seed in SEEDS]
        if task_of(name) == task and all(CASES.has(*key) for key in keys):
            names.append(name)
    if not names:
        return None
    loss, fit = (
        np.array([[[CASES.find(n, m, s)[key] for m in labels] for s in SEEDS] for n in names])
        for key in ("loss", "fit")
    )
    return {"task": task, "labels": labels, "names": names, "loss": loss, "fit": fit}


def ratios(part: dict) -> dict[str, dict]:
    """Return loss and time without a family in ratio to all, and sets better and worse without."""
    found = {}
    for j, label in enumerate(part["labels"][1:], 1):
        difference = part["loss"][:, :, j] - part["loss"][:, :, 0]
        error = difference.std(axis=1, ddof=1) / np.sqrt(len(SEEDS))
        mean = difference.mean(axis=1)
        found[label] = {
            "loss": interval(np.log(part["loss"][:, :, j] / part["loss"][:, :, 0])),
            "fit": float(np.exp(np.log(part["fit"][:, :, j] / part["fit"][:, :, 0]).mean())),
            "higher": int((mean > error).sum()),
            "lower": int((mean < -error).sum()),
        }
    return found


def parts() -> list[dict]:
    """Return both tasks, as far as they have been run."""
    found = [part_of(task) for task in ("classification", "regression")]
    return [part for part in found if part]


def summary() -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the table: loss without each family in ratio to all of them."""
    found = {part["task"]: (part, ratios(part)) for part in parts()}
    header = ["without"]
    for task, (part, _) in found.items():
        shown = "log loss" if task == "classification" else "squared error"
        header += [f"{shown}, {len(part['names'])} sets", "fit time"]
    rows = []
    for label in labels_of()[1:]:
        row = [NAMES.get(label) or NAMES[label.removeprefix("without ")]]
        for _, of_task in found.values():
            value, low, high = of_task[label]["loss"]
            row += [f"{value:.2f} ({low:.2f} to {high:.2f})", f"{of_task[label]['fit']:.2f}"]
        rows.append(row)
    return header, rows


def finding() -> str:
    """Return what the families of local models add, and which family adds nothing."""
    texts = []
    for part in parts():
        value, low, high = ratios(part)[NO_LOCAL]["loss"]
        shown = "log loss" if part["task"] == "classification" else "squared error"
        texts.append(
            f"{value:.2f} times the {shown} on {len(part['names'])} {part['task']} sets (95 % "
            f"interval {low:.2f} to {high:.2f})"
        )
    return f"Without any local models the ensembles have {' and '.join(texts)}."


def sets_table(page: ResultsPage, part: dict) -> None:
    """Add the mean loss of every ensemble on every set."""
    shown = "log loss" if part["task"] == "classification" else "squared error / variance"
    found = ratios(part)
    rows = [
        [name, *(f"{v:.4f}" for v in loss.mean(axis=0))]
        for name, loss in zip(part["names"], part["loss"], strict=True)
    ]
    rows.append(["sets higher, lower without it", "-",
                 *(f"{r['higher']}, {r['lower']}" for r in found.values())])  # fmt: skip
    page.table(["set", *part["labels"]], rows, caption=f"**{part['task'].capitalize()}**, {shown}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    options = parser.parse_args([] if is_rebuilding() else None)
    if not is_rebuilding():
        for name in options.sets:
            for label in options.models or labels_of():
                for seed in options.seeds:
                    key = (name, label, seed)
                    CASES.run(key, lambda key=key: judge(*key))
    found = parts()
    n_sets = " and ".join(f"{len(part['names'])} {part['task']}" for part in found)
    page = ResultsPage(
        "families",
        "What each model family adds",
        "AutoClassifier and AutoRegressor without one of the model families that they try by "
        "default, or with one more, compared with the default. The five splits of each set (seeds "
        "100 to 104, at most 1,000 training rows) are those of the comparison with other libraries "
        f"and played no part in development. The {n_sets} sets are those with the shortest fits. "
        "Ratios above 1 mean that the change raises the loss; they are geometric means with "
        "bootstrap 95 % intervals over sets and splits. A set counts as higher or lower when the "
        "mean difference exceeds its standard error.",
    )
    page.text(finding())
    header, rows = summary()
    page.table(header, rows, caption="Loss and fit time in ratio to those with all families.")
    for part in found:
        sets_table(page, part)
    page.write()


if __name__ == "__main__":
    main()
