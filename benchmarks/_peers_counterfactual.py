"""DiCE and NICE on the rows of ``bench_surface_counterfactual.py``, in an environment of their own.

Called with the folder of the exchanged files: ``data.npz`` comes in, ``peers.json`` and
``peers.npz`` go out. The forest is fitted here again with the same seed and version.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import dice_ml
import numpy as np
import pandas as pd
from nice import NICE
from sklearn.ensemble import RandomForestClassifier

warnings.filterwarnings("ignore")


def dice(method, X, y, Q, names, categorical, model):
    """Return counterfactuals (NaN where none) and seconds per row."""
    numeric = [name for j, name in enumerate(names) if j not in categorical]
    frame = pd.DataFrame(X, columns=names)
    query = pd.DataFrame(Q, columns=names)
    for j in categorical:
        frame[names[j]] = frame[names[j]].astype(int).astype(str)
        query[names[j]] = query[names[j]].astype(int).astype(str)
    data = dice_ml.Data(
        dataframe=frame.assign(label=y), continuous_features=numeric, outcome_name="label"
    )
    wrapped = dice_ml.Model(model=model, backend="sklearn", model_type="classifier")
    explainer = dice_ml.Dice(data, wrapped, method=method)
    out, seconds = np.full(Q.shape, np.nan), []
    options = {"random_seed": 0} if method == "random" else {}
    for i in range(len(Q)):
        started = time.process_time()
        try:
            found = (
                explainer.generate_counterfactuals(
                    query[i : i + 1],
                    total_CFs=1,
                    desired_class="opposite",
                    verbose=False,
                    **options,
                )
                .cf_examples_list[0]
                .final_cfs_df
            )
            if found is not None and len(found):
                out[i] = found[names].astype(float).to_numpy()[0]
        except Exception as error:  # the peer's own failure is a result, not the benchmark's
            print("row", i, type(error).__name__, str(error)[:80])
        seconds.append(time.process_time() - started)
    return out, float(np.mean(seconds))


def nice(X, y, Q, categorical, model):
    """Return counterfactuals and seconds per row."""
    numeric = [j for j in range(X.shape[1]) if j not in categorical]
    explainer = NICE(
        X_train=X,
        predict_fn=model.predict_proba,
        y_train=y,
        cat_feat=list(categorical),
        num_feat=numeric,
        distance_metric="HEOM",
        num_normalization="std",
        optimization="proximity",
        justified_cf=True,
    )
    out, seconds = np.full(Q.shape, np.nan), []
    for i in range(len(Q)):
        started = time.process_time()
        try:
            out[i] = np.asarray(explainer.explain(Q[i : i + 1]), dtype=float).ravel()
        except Exception as error:
            print("row", i, type(error).__name__, str(error)[:80])
        seconds.append(time.process_time() - started)
    return out, float(np.mean(seconds))


class OnFrames:
    """A forest that reads the frames DiCE makes, where categories are strings."""

    def __init__(self, forest):
        self.forest = forest
        self.classes_ = forest.classes_

    def predict(self, X):
        return self.forest.predict(np.asarray(X, dtype=float))

    def predict_proba(self, X):
        return self.forest.predict_proba(np.asarray(X, dtype=float))


def main(folder):
    folder = Path(folder)
    data = np.load(folder / "data.npz")
    X, y, Q, rows = data["X"], data["y"], data["Q"], json.loads(str(data["rows"]))
    names, categorical = [str(n) for n in data["names"]], [int(j) for j in data["categorical"]]
    forest = RandomForestClassifier(100, random_state=0, n_jobs=1).fit(X, y)
    points, seconds = {}, {}
    for method in ("random", "genetic"):
        name = f"DiCE {method}"
        points[name], seconds[name] = dice(
            method, X, y, Q[: rows[method]], names, categorical, OnFrames(forest)
        )
    points["NICE"], seconds["NICE"] = nice(X, y, Q[: rows["NICE"]], categorical, forest)
    versions = {"dice-ml": dice_ml.__version__ if hasattr(dice_ml, "__version__") else "0.11"}
    report = {"seconds": seconds, "predicted": forest.predict(Q).tolist(), "versions": versions}
    (folder / "peers.json").write_text(json.dumps(report))
    np.savez(folder / "peers.npz", **{k.replace(" ", "_"): v for k, v in points.items()})


if __name__ == "__main__":
    main(sys.argv[1])
