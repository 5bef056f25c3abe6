"""How accurate are neural neighbours, how long do they train, and how far is that from the limit?

``--part accuracy`` on the published splits and random 70/30 splits, ``--part time`` at the sizes of
the aims beside RandomForest(500) and the rate of float32 products, ``--part growth`` from 1,000
rows up, ``--part folds`` other settings on folds of training rows; ``--device cpu`` or ``cuda``
says where (on a CPU, seconds are of the processor). Finished cases are kept; without arguments the
page is written.
"""

import argparse
import time
from functools import partial

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

from _datasets import load_dataset
from _harness import ResultsPage, clocked, resident_mb
from vicinal.metric import NeuralNeighborsClassifier, NeuralNeighborsRegressor
from vicinal.metric._training import N_FREQUENCIES, N_PER_FEATURE, training_plan

CLASSES = {"letter": 1.3, "satimage": 8.2, "spambase": 4.3, "pendigits": None, "optdigits": None}
NUMBERS = {"grid_stability": 2.6, "airfoil": 4.6, "puma32h": None, "laser": None, "mortgage": None}
SEEDS = range(3)
# What the defaults were chosen against, on folds of training rows.
SETTINGS = {
    "defaults": {},
    "no periodic features": {"periodic": False},
    "periodic features in every net": {"periodic": True},
    "stopping after 16 epochs": {"n_iter_no_change": 16},
    "one net": {"n_estimators": 1},
    "eight nets": {"n_estimators": 8},
    "512 voters": {"n_voters": 512},
}
FOLDED = ("spambase", "satimage", "letter", "grid_stability", "airfoil")
TIMED = {"cpu": ("5,000 x 20",), "cuda": ("5,000 x 20", "letter")}
GROWTH = {"cpu": (1_000, 5_000, 20_000, 50_000), "cuda": (1_000, 10_000, 50_000, 200_000, 500_000)}


def put(array, device):
    if device == "cpu":
        return array
    import torch

    return torch.as_tensor(np.asarray(array, dtype=np.float32), device=device)


def numpy_of(array):
    return array.cpu().numpy() if hasattr(array, "cpu") else np.asarray(array)


def classify(name, seed, device):
    data = load_dataset(name)
    model = NeuralNeighborsClassifier(random_state=seed)
    started = time.perf_counter()
    model.fit(put(np.asarray(data.X_train, dtype=np.float32), device), data.y_train)
    fitted = time.perf_counter()
    said = numpy_of(model.predict(put(np.asarray(data.X_test, dtype=np.float32), device)))
    return {
        "error": 100.0 * float(np.mean(said != data.y_test)),
        "fit": fitted - started,
        "predict": time.perf_counter() - fitted,
        "epochs": model.n_iter_,
    }


def regress(name, seed, device):
    data = load_dataset(name)
    order = np.random.RandomState(seed).permutation(len(data.y))
    cut = int(0.7 * len(order))
    train, test = order[:cut], order[cut:]
    X, y = np.asarray(data.X, dtype=np.float32), np.asarray(data.y, dtype=np.float32)
    model = NeuralNeighborsRegressor(random_state=seed)
    started = time.perf_counter()
    model.fit(put(X[train], device), put(y[train], device))
    fitted = time.perf_counter()
    said = numpy_of(model.predict(put(X[test], device)))
    return {
        "error": 100.0 * float(np.mean((said - y[test]) ** 2) / np.var(y[test])),
        "fit": fitted - started,
        "predict": time.perf_counter() - fitted,
        "epochs": model.n_iter_,
    }


def folds(name, setting, seed, device):
    """Return the errors in % of one setting on three folds of training rows."""
    data = load_dataset(name)
    if name in CLASSES:
        X, y, kind = data.X_train, data.y_train, NeuralNeighborsClassifier
    else:
        X, _, y, _ = train_test_split(data.X, data.y, train_size=0.7, random_state=seed)
        kind = NeuralNeighborsRegressor
    X, y = np.asarray(X, dtype=np.float32), np.asarray(y)
    splitter = StratifiedKFold if name in CLASSES else KFold
    errors = []
    for train, test in splitter(3, shuffle=True, random_state=seed).split(X, y):
        model = kind(random_state=seed, **SETTINGS[setting])
        model.fit(put(X[train], device), y[train])
        said = numpy_of(model.predict(put(X[test], device)))
        wrong = said != y[test] if name in CLASSES else (said - y[test]) ** 2 / np.var(y[test])
        errors.append(100.0 * float(np.mean(wrong)))
    return {"errors": errors}


def clock(device):
    """Return seconds: of the processor on a CPU, which others use too, else of the clock."""
    return time.process_time() if device == "cpu" else time.perf_counter()


def product_rate(device):
    """Return float32 operations a second of a matrix product of the shape of the votes."""
    rng = np.random.RandomState(0)
    A, B = (
        put(rng.normal(size=shape).astype(np.float32), device)
        for shape in ((4096, 128), (128, 4096))
    )
    best = np.inf
    for _ in range(20):
        started = clock(device)
        C = A @ B
        if device != "cpu":
            float(C[0, 0])
        best = min(best, clock(device) - started)
    return 2.0 * 4096 * 4096 * 128 / best


def step_operations(d, batch, window, m=128, hidden=128):
    """Operations that one step of one net needs: forward, and twice that backward."""
    width = 2 * N_FREQUENCIES + 1
    net = 2 * d * width * N_PER_FEATURE + 2 * d * N_PER_FEATURE * m + 4 * m * hidden
    return 3 * (window * net + 2 * batch * window * m)


def limit(X, epochs, device):
    """Return the seconds that the products of so many epochs need at the measured rate."""
    plan = training_plan(NeuralNeighborsClassifier(), len(X))
    steps = max(8, round((len(X) - plan.n_held_out) / plan.batch_size))
    needed = epochs * steps * step_operations(X.shape[1], plan.batch_size, plan.n_window)
    return needed / product_rate(device)


def timed_fit(model, X, y, device):
    X = put(np.asarray(X, dtype=np.float32), device)
    if device != "cpu":
        model.fit(X, y)  # capture and caches
    started, wall = clock(device), time.perf_counter()
    model.fit(X, y)
    seconds, wall = clock(device) - started, time.perf_counter() - wall
    epochs = sum(len(net["loss_curve"]) for net in model.nets_)
    return {
        "seconds": seconds,
        "wall": wall,
        "epochs": epochs,
        "per_epoch": seconds / epochs,
        "bound": limit(X, epochs, device),
    }


def timed_table(name):
    if name == "letter":
        data = load_dataset("letter")
        return data.X_train, data.y_train
    return make_classification(5_000, 20, n_informative=10, n_classes=3, random_state=0)


def forest_seconds(X, y, device):
    forest = RandomForestClassifier(500, n_jobs=-1, random_state=0)
    started = clock(device)
    forest.fit(X, y)
    return clock(device) - started


def times(name, device):
    """Return the seconds of our fit and of a forest of 500 trees on one table."""
    X, y = timed_table(name)
    found = timed_fit(NeuralNeighborsClassifier(random_state=0), X, y, device)
    return found | {"forest": forest_seconds(X, y, device)}


def letter_limit(epochs):
    """Return what letter needs at least on a CPU, and the seconds of a forest there."""
    X, y = timed_table("letter")
    bound, forest = limit(X, epochs, "cpu"), forest_seconds(X, y, "cpu")
    return {"epochs": epochs, "bound": bound, "forest": forest}


def growth(n, device):
    X, y = make_classification(n, 20, n_informative=10, n_classes=3, random_state=0)
    model = NeuralNeighborsClassifier(max_iter=4, n_voters=4096, batch_size=1024, random_state=0)
    X = put(X.astype(np.float32), device)
    model.set_params(max_iter=1).fit(X, y)
    started = clock(device)
    model.set_params(max_iter=5).fit(X, y)
    return {"per_epoch": (clock(device) - started) / 5, "resident_mb": resident_mb()}


def accuracy_part(page, device, only):
    rows = []
    for names, ask in ((NUMBERS, regress), (CLASSES, classify)):
        for name, aim in names.items():
            if only and name not in only:
                continue
            found = [
                page.case(("accuracy", name, s, device), clocked(partial(ask, name, s, device)))
                for s in SEEDS
            ]
            errors = [case["error"] for case in found]
            fit = np.median([case["fit"] for case in found])
            rows.append((name, np.mean(errors), np.std(errors), aim or "", fit))
    page.table(("set", "error %", "spread", "aim", "fit s"), rows, "Three seeds, defaults.")


def time_part(page, device):
    found = {
        name: page.case(("time", name, device), partial(times, name, device))
        for name in TIMED[device]
    }
    page.table(
        ("table", "s", "epochs of all nets", "s per epoch", "limit s", "RandomForest(500) s"),
        [
            (name, c["seconds"], c["epochs"], c["per_epoch"], c["bound"], c["forest"])
            for name, c in found.items()
        ],
        "The limit is the operations of the products at the measured float32 rate.",
    )
    if device == "cpu":
        walls = ", ".join(f"{name} {c['wall']:.0f} s" for name, c in found.items())
        page.text(f"By the clock, on all cores: {walls}.")


def letter_part(page):
    """Say why letter is not run on a CPU."""
    epochs = page.case(("time", "letter", "cuda"), partial(times, "letter", "cuda"))["epochs"]
    found = page.case(("limit", "letter", "cpu"), partial(letter_limit, epochs))
    page.text(
        f"Letter was not run there: the products of {found['epochs']} epochs, as many as it took "
        f"on the GPU, need {found['bound']:.0f} s at the measured rate, "
        f"{found['bound'] / found['forest']:.0f} times the {found['forest']:.1f} s of "
        f"RandomForest(500)."
    )


def growth_part(page, device):
    found = {
        n: page.case(("growth", n, device), partial(growth, n, device)) for n in GROWTH[device]
    }
    page.table(
        ("rows", "s per epoch, four nets", "resident MB"),
        [(n, c["per_epoch"], c["resident_mb"]) for n, c in found.items()],
    )


def folds_part(page, device, only):
    rows = []
    for name in only or FOLDED:
        for setting in SETTINGS:
            found = [
                page.case(("folds", name, setting, s), partial(folds, name, setting, s, device))
                for s in SEEDS
            ]
            errors = np.concatenate([case["errors"] for case in found])
            if setting == "defaults":
                usual = errors
            gap = errors - usual  # of the same folds
            deviation = gap.std(ddof=1) / np.sqrt(len(gap)) if setting != "defaults" else ""
            rows.append((name, setting, errors.mean(), gap.mean(), deviation))
    page.table(
        ("set", "setting", "error %", "compared with the defaults", "its standard error"),
        rows,
        "Three times three folds of the training rows (seven tenths of the rows of tables without "
        "a published split): what the defaults rest on.",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["accuracy", "time", "growth", "folds"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    page = ResultsPage("neural_neighbors", "Neural neighbours", __doc__.partition("\n")[0])
    if options.part == "accuracy":
        accuracy_part(page, options.device, options.only)
    elif options.part == "time":
        time_part(page, options.device)
        if options.device == "cpu":
            letter_part(page)
    elif options.part == "folds":
        folds_part(page, options.device, options.only)
    elif options.part:
        growth_part(page, options.device)
    else:
        page.text("## On one NVIDIA H200")
        accuracy_part(page, "cuda", None)
        time_part(page, "cuda")
        growth_part(page, "cuda")
        folds_part(page, "cuda", None)
        page.text("## On a CPU\n\nSeconds are of the processor, all threads together.")
        time_part(page, "cpu")
        letter_part(page)
        growth_part(page, "cpu")
        page.write()


if __name__ == "__main__":
    main()
