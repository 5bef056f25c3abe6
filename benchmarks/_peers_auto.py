"""A model of another library in its own environment: one model, one table, one JSON line.

``python _peers_auto.py MODEL TASK TABLE`` reads the arrays that ``bench_auto.py`` wrote,
fits, answers the test rows and writes the answers beside the table. It imports nothing of ours:
its Python need not have the library.
"""

import json
import os
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

warnings.simplefilter("ignore")
N_THREADS = int(os.environ.get("VICINAL_THREADS", "1"))


def catboost(task, is_category):
    from catboost import CatBoostClassifier, CatBoostRegressor

    kind = CatBoostClassifier if task == "classification" else CatBoostRegressor
    words = [f"c{j}" for j in np.flatnonzero(is_category)]
    return kind(
        verbose=False, allow_writing_files=False, thread_count=N_THREADS, cat_features=words
    )


def xgboost(task, is_category):
    from xgboost import XGBClassifier, XGBRegressor

    kind = XGBClassifier if task == "classification" else XGBRegressor
    return kind(n_jobs=N_THREADS, enable_categorical=True)


def ebm(task, is_category):
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    kinds = {"classification": ExplainableBoostingClassifier}
    return kinds.get(task, ExplainableBoostingRegressor)(n_jobs=1)


def xrfm(task, is_category):
    from pytabkit import XRFM_D_Classifier, XRFM_D_Regressor

    kind = XRFM_D_Classifier if task == "classification" else XRFM_D_Regressor
    return kind(device="cpu", random_state=0, verbosity=0, n_threads=1)


MODELS = {
    "CatBoost": ("catboost", catboost),
    "XGBoost": ("xgboost-cpu", xgboost),
    "EBM": ("interpret-core", ebm),
    "xRFM": ("xrfm", xrfm),
}


def frames(X, X_test, is_category):
    """Return both parts with categories marked as such, the same levels in both."""
    import pandas as pd

    found = pd.DataFrame(np.vstack([X, X_test]), columns=[f"c{j}" for j in range(X.shape[1])])
    for j in np.flatnonzero(is_category):
        found[f"c{j}"] = found[f"c{j}"].astype(int).astype(str).astype("category")
    return found[: len(X)], found[len(X) :]


def used():
    """Return processor seconds of this process and of its finished children."""
    return sum(os.times()[:4])


def resident_mb(field):
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith(field)) / 1024


def main():
    name, task, table = sys.argv[1:]
    data = np.load(table)
    package, make = MODELS[name]
    X, X_test, is_category = (data[key] for key in ("X", "X_test", "is_category"))
    if is_category.any():
        X, X_test = frames(X, X_test, is_category)
    y = data["y"]
    model = make(task, is_category)
    before = resident_mb("VmRSS")
    started, wall = used(), time.perf_counter()
    model.fit(X, y)
    fitted, fitted_wall = used(), time.perf_counter()
    if task == "classification" and hasattr(model, "predict_proba"):
        probabilities = model.predict_proba(X_test)
        np.save(Path(table).with_suffix(".probabilities.npy"), probabilities)
        answers = probabilities.argmax(axis=1)  # classes are codes from zero
    else:
        answers = np.asarray(model.predict(X_test)).ravel()
    found = {
        "fit": fitted - started,
        "wall": fitted_wall - wall,
        "predict": used() - fitted,
        "memory": resident_mb("VmHWM") - before,
        "version": version(package),
    }
    np.save(Path(table).with_suffix(".answers.npy"), answers)
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
