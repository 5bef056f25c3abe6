"""Does a GPU help where the table is on the host?

AutoClassifier and AutoRegressor with NumPy arrays on the processor alone (``device="cpu"``), with
tensors on the GPU, and with NumPy arrays and a GPU that computes the networks (``device="auto"``),
on numeric public sets of at most 1,000 training rows and six splits. Finished cases are stored;
several processes may share the sets (``--sets``, ``--seeds``).
"""

import argparse
import time
import warnings

import numpy as np

from _harness import ResultsPage, is_rebuilding, stored
from _losses import loss_of
from bench_auto import CLASSIFICATION, REGRESSION, split, task_of
from vicinal.auto import AutoClassifier, AutoRegressor

SETS = tuple(
    name
    for name in (*CLASSIFICATION, *REGRESSION)
    if name not in ("adult", "census_income", "isolet")
)
SEEDS = tuple(range(303, 309))
CPU, GPU, BOTH = "processor", "GPU (tensors)", "both"
CASES = stored("devices")


def case(label, name, seed):
    """Return the loss on test rows, wall seconds of the fit, and the weight of networks."""
    import torch

    rows, task = split(name, "1000", seed), task_of(name)
    X, X_test = rows.part("numbers")
    y, y_test = rows.table.y[rows.train], rows.table.y[rows.test]
    if label == GPU:
        X, X_test = (torch.as_tensor(part, device="cuda") for part in (X, X_test))
    kind = AutoClassifier if task == "classification" else AutoRegressor
    model = kind(device="cpu" if label == CPU else "auto", n_jobs=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - started
        predict = model.predict_proba if task == "classification" else model.predict
        found = predict(X_test)
    found = found.cpu().numpy() if label == GPU else found
    networks = ("neural neighbours", "pretrained neighbours")
    nets = sum(model.weight for model in model.estimators_ if model.name in networks)
    value = loss_of(found, getattr(model, "classes_", None), y_test)
    return value | {"seconds": seconds, "nets": nets}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--seeds", nargs="*", type=int, default=SEEDS)
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    page = ResultsPage(
        "devices", "AutoClassifier and AutoRegressor with a GPU and a table on the host",
        "Log loss, or squared error in units of the variance, on test rows, mean of six splits "
        "with at most 1,000 training rows, on one NVIDIA H200 and one thread of its host. "
        "\"Both\" fits trees and local models on the processor and networks on the GPU. Seconds "
        "are wall time, with other fits at the same time.",
        packages=("torch",),
    )  # fmt: skip
    if not (options.page or is_rebuilding()):
        for seed in options.seeds:
            for name in options.sets:
                for label in (CPU, GPU, BOTH):
                    page.case((label, name, seed), lambda key=(label, name, seed): case(*key))
        return
    labels, rows, logs, n_best = (CPU, GPU, BOTH), [], [], 0
    for name in SETS:
        if not all(CASES.has(label, name, seed) for label in labels for seed in SEEDS):
            continue
        found = [[CASES.find(label, name, seed) for seed in SEEDS] for label in labels]
        losses = [float(np.mean([one["loss"] for one in own])) for own in found]
        # Misclassified rows; squared errors in regression.
        errors = [np.mean([one.get("error", one["loss"]) for one in own]) for own in found]
        n_best += errors[2] <= min(errors[:2]) + 1e-12
        seconds = [float(np.mean([one["seconds"] for one in own])) for own in found]
        nets = float(np.mean([one["nets"] for one in found[2]]))
        rows.append((name, *losses, losses[2] / min(losses[:2]), f"{nets:.0%}", *seconds))
        logs.append(np.log(losses[2] / np.array(losses[:2])))
    ratios = np.exp(np.mean(logs, axis=0))
    best, near = (sum(row[4] <= limit for row in rows) for limit in (1.0, 1.02))
    page.text(
        f"With both, the loss is {ratios[0]:.3f} of that of the processor alone and "
        f"{ratios[1]:.3f} of that of tensors on the GPU (geometric means over {len(rows)} sets). "
        f"It is at most the lower of the two on {best} of {len(rows)} sets, and at most 2 % above "
        f"it on {near}. Errors (squared errors in regression) are at most the lower of the two on "
        f"{n_best} sets."
    )
    head = ("set", *labels, "both / better one", "weight of networks", *(f"{m}, s" for m in labels))
    page.table(head, rows)
    page.write()


if __name__ == "__main__":
    main()
