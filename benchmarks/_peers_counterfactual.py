"""DiCE and NICE on the rows of the benchmarks of counterfactuals, in an environment of their own.

Called with the folder of the exchanged files: ``data.npz`` comes in, ``peers.json`` and
``peers.npz`` go out. The forest is fitted here again with the same seed and version. With
``constrained`` as second argument, ``train.csv``, ``queries.csv`` and ``limits.json`` come in.
"""

import json
import signal
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


class CodedForest:
    """A forest on frames: codes of the string columns first, then the numbers."""

    def __init__(self, X, y, strings):
        self.strings, self.numbers = strings, [name for name in X if name not in strings]
        self.known = {name: np.unique(X[name]).tolist() for name in strings}
        self.forest = RandomForestClassifier(50, random_state=0, n_jobs=1).fit(self.codes(X), y)
        self.classes_ = self.forest.classes_

    def codes(self, X):
        parts = [
            [float(self.known[name].index(v)) if v in self.known[name] else -1.0 for v in X[name]]
            for name in self.strings
        ]
        return np.column_stack([*parts, *(X[name].astype(float) for name in self.numbers)])

    def predict(self, X):
        return self.forest.predict(self.codes(X))

    def predict_proba(self, X):
        return self.forest.predict_proba(self.codes(X))


def constrained_dice(method, train, model, query, limits):
    """Return a counterfactual of one row within its limits, as a function of no arguments."""
    numbers = [name for name in query if name not in model.strings]
    data = dice_ml.Data(dataframe=train, continuous_features=numbers, outcome_name="label")
    wrapped = dice_ml.Model(model=model, backend="sklearn", model_type="classifier")
    explainer = dice_ml.Dice(data, wrapped, method=method)
    own = int(model.predict(query)[0])
    two = len(model.classes_) == 2
    other = model.predict_proba(query)[0].copy()
    other[list(model.classes_).index(own)] = -1.0

    def search():
        found = explainer.generate_counterfactuals(
            query,
            total_CFs=1,
            desired_class="opposite" if two else int(model.classes_[other.argmax()]),
            features_to_vary=[name for name in query if limits[name] is not None],
            permitted_range={k: v for k, v in limits.items() if v is not None},
            verbose=False,
            **({"random_seed": 0} if method == "random" else {}),
        )
        table = found.cf_examples_list[0].final_cfs_df
        return None if table is None or not len(table) else table[list(query)].iloc[0]

    return search


def constrained_nice(train, model, query, limits):
    """Return a counterfactual of NICE among rows without forbidden cells."""
    X = train.drop(columns="label").reset_index(drop=True)
    for name in X:
        allowed = limits[name]
        if allowed is None:
            ok = np.zeros(len(X), dtype=bool)
        elif name in model.strings:
            ok = X[name].isin(allowed).to_numpy()
        else:
            ok = X[name].between(*allowed).to_numpy()
        X[name] = np.where(ok, X[name], query[name].iloc[0])
    rows = model.codes(X)
    n = len(model.strings)
    explainer = NICE(
        X_train=rows,
        predict_fn=model.forest.predict_proba,
        y_train=model.forest.predict(rows),
        cat_feat=list(range(n)),
        num_feat=list(range(n, rows.shape[1])),
        distance_metric="HEOM",
        num_normalization="std",
        optimization="proximity",
        justified_cf=True,
    )

    def search():
        found = np.asarray(explainer.explain(model.codes(query)), dtype=float).ravel()
        cells = [model.known[name][int(found[k])] for k, name in enumerate(model.strings)]
        return pd.Series([*cells, *found[n:]], index=[*model.strings, *model.numbers])

    return search


def _stop(signum, frame):
    raise TimeoutError("5 processor seconds")


def constrained(folder):
    signal.signal(signal.SIGVTALRM, _stop)
    folder = Path(folder)
    train, Q = pd.read_csv(folder / "train.csv"), pd.read_csv(folder / "queries.csv")
    limits = json.loads((folder / "limits.json").read_text())
    X, y = train.drop(columns="label"), train["label"].to_numpy()
    model = CodedForest(X, y, [name for name in X if X[name].dtype == object])
    report = {"predicted": model.predict(Q).tolist()}
    for method in ("DiCE random", "DiCE genetic", "NICE"):
        points, seconds = [], []
        for i in range(len(Q)):
            given = (train, model, Q[i : i + 1], limits[i])
            point, started = None, time.process_time()
            try:
                if method == "NICE":
                    search = constrained_nice(*given)
                else:
                    search = constrained_dice(method.split()[1], *given)
                started = time.process_time()
                signal.setitimer(signal.ITIMER_VIRTUAL, 5.0)  # some searches do not end
                point = search()
            except Exception as error:  # the peer's own failure is a result
                print(method, "row", i, type(error).__name__, str(error)[:80])
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
            seconds.append(time.process_time() - started)
            if point is not None:
                point = {
                    name: str(v) if name in model.strings else float(v) for name, v in point.items()
                }
            points.append(point)
        report[method] = {"points": points, "seconds": seconds}
    (folder / "peers.json").write_text(json.dumps(report))


if __name__ == "__main__":
    constrained(sys.argv[1]) if sys.argv[2:] == ["constrained"] else main(sys.argv[1])
