"""Is a frame with categories as good as an array of indicators in regression?

AutoRegressor and boosted symmetric trees on regression tables with categorical columns, given as a
frame with strings and as an array with an indicator of each category; five paired splits. No public
set of ours has both, so columns of few values become strings without an order (airfoil), or are cut
into categories (the others). Finished cases are stored (``--sets``, ``--seeds``).
"""

import argparse

import numpy as np
import pandas as pd
from sklearn.datasets import make_friedman1, make_friedman2, make_friedman3
from threadpoolctl import threadpool_limits

from _datasets import load_dataset
from _harness import ResultsPage, clocked, is_rebuilding, stored
from vicinal.auto import AutoRegressor
from vicinal.ensemble import ObliviousBoostingRegressor

N_TRAIN, N_TEST = 1000, 2000
SEEDS = tuple(range(400, 405))
# Columns that become categories, and into how many; None takes every value as one.
SETS = {
    "airfoil": {1: None, 2: None, 3: None},
    "grid_stability": {0: 4, 5: 8},
    "friedman1": {0: 6, 3: 12, 6: 3},
    "friedman2": {1: 10, 3: 5},
    "friedman3": {0: 8, 2: 4},
}
_SIMULATED = {
    "friedman1": lambda seed: make_friedman1(N_TRAIN + N_TEST, 8, noise=1.0, random_state=seed),
    "friedman2": lambda seed: make_friedman2(N_TRAIN + N_TEST, noise=125.0, random_state=seed),
    "friedman3": lambda seed: make_friedman3(N_TRAIN + N_TEST, noise=0.1, random_state=seed),
}
MODELS = {
    "AutoRegressor": lambda: AutoRegressor(n_jobs=1, random_state=0),
    "boosted symmetric trees": lambda: ObliviousBoostingRegressor(random_state=0),
}
CASES = stored("frames")


def table(name, seed):
    """Return a frame with strings, the same rows with indicators, and the target, shuffled."""
    rng = np.random.RandomState(seed)
    if name in _SIMULATED:
        X, y = _SIMULATED[name](seed)
    else:
        data = load_dataset(name)
        X, y = data["X"], data["y"]
        order = rng.permutation(len(y))[: N_TRAIN + N_TEST]
        X, y = X[order], y[order]
    columns, parts = {}, []
    for j, values in enumerate(X.T):
        if j not in SETS[name]:
            columns[f"x{j}"] = values
            parts.append(values[:, None])
            continue
        size = SETS[name][j]
        if size is not None:
            values = np.searchsorted(np.quantile(values, np.arange(1, size) / size), values)
        known, codes = np.unique(values, return_inverse=True)
        columns[f"x{j}"] = np.array([f"c{k}" for k in rng.permutation(len(known))])[codes]
        parts.append(np.eye(len(known))[codes])
    return pd.DataFrame(columns), np.concatenate(parts, axis=1), y


def case(label, name, seed):
    """Return the squared errors in units of the variance, with a frame and with an array."""
    frame, array, y = table(name, seed)
    n = min(N_TRAIN, int(0.7 * len(y)))
    found = {}
    for what, X in (("frame", frame.iloc), ("indicators", array)):
        with threadpool_limits(1):
            predicted = MODELS[label]().fit(X[:n], y[:n]).predict(X[n:])
        found[what] = float(np.mean((predicted - y[n:]) ** 2) / y[n:].var())
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--seeds", nargs="*", type=int, default=SEEDS)
    parser.add_argument("--page", action="store_true", help="write the page of what is stored")
    options = parser.parse_args()
    page = ResultsPage(
        "frames", "Frames with categories compared with indicators in regression",
        "Squared error in units of the variance on tables with categorical columns, given as a "
        "frame with strings and as an array with an indicator of each category. At most 1,000 "
        "training rows, mean of paired splits with seeds from 400 on; the difference has its "
        "standard error over splits. Positive differences are losses of the frame.",
    )  # fmt: skip
    if not (options.page or is_rebuilding()):
        for seed in options.seeds:
            for name in options.sets:
                for label in MODELS:
                    key = (label, name, seed)
                    page.case(key, clocked(lambda key=key: case(*key)))
        return
    for label in MODELS:
        rows = []
        for name in SETS:
            own = [CASES.find(label, name, s) for s in SEEDS if CASES.has(label, name, s)]
            if not own:
                continue
            frame, indicators = (
                np.array([one[what] for one in own]) for what in ("frame", "indicators")
            )
            d = frame - indicators
            error = d.std(ddof=1) / np.sqrt(len(d)) if len(d) > 1 else np.nan
            rows.append(
                (name, len(own), float(frame.mean()), float(indicators.mean()),
                 f"{d.mean():+.4f} ± {error:.4f}", float(np.exp(np.log(frame / indicators).mean())))
            )  # fmt: skip
        head = ("set", "splits", "frame", "indicators", "difference", "ratio")
        page.table(head, rows, f"{label}.")
    page.write()


if __name__ == "__main__":
    main()
