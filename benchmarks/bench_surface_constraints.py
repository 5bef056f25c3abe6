"""Do counterfactuals obey every constraint, and how do they compare with DiCE and NICE under them?

Random constraints on random rows: fixed columns, columns that may only increase or decrease,
ranges, allowed categories, costs; integers must stay integers. The peers run as for
``bench_surface_counterfactual.py``:

    python3.11 -m venv peers && peers/bin/pip install dice-ml NICEx
    VICINAL_PEERS=peers/bin/python python benchmarks/bench_surface_constraints.py

"""

import json
import os
import subprocess
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from _datasets import load_dataset
from _harness import MissingCaseError, ResultsPage
from _harness import processor_timed as timed
from vicinal import AnchoredLocalClassifier
from vicinal.inspection.explain._counterfactual import Constraints, counterfactual_section
from vicinal.table import TableEncoder

N_TRAIN, N_QUERIES, N_COMPARED = 600, 84, 60
KINDS = ("prediction", "fixed", "increase", "decrease", "range", "category", "integer")


def adult():
    data = load_dataset("adult", as_frame=True)
    return data.X_train, data.y_train


def census_income():
    """The numbers and every sixth of the categorical columns."""
    data = load_dataset("census_income", as_frame=True)
    is_number = np.array([pd.api.types.is_numeric_dtype(t) for t in data.X_train.dtypes])
    kept = is_number | (np.cumsum(~is_number) % 6 == 0)
    return data.X_train.loc[:, kept], data.y_train


def covtype():
    """Cover types, with the wilderness area and the soil as categories again."""
    data = load_dataset("covtype")
    X, y = np.asarray(data.X), np.asarray(data.y)
    names = [str(name) for name in data.feature_names[:10]]
    frame = pd.DataFrame(X[:, :10].astype(int), columns=names)
    frame["area"], frame["soil"] = X[:, 10:14].argmax(axis=1), X[:, 14:].argmax(axis=1)
    frame = frame.astype({"area": str, "soil": str})
    return frame, pd.Series(y)


TABLES = {"adult": adult, "census income": census_income, "cover type": covtype}


def sampled(table):
    """Return training rows, labels and queries; categories are strings that sort by their codes."""
    X, y = TABLES[table]()
    kept = np.random.RandomState(0).permutation(len(X))[: N_TRAIN + N_QUERIES]
    X, y = X.iloc[kept].reset_index(drop=True), np.asarray(y)[kept]
    for name in X.columns:
        if not pd.api.types.is_numeric_dtype(X[name]):
            codes = np.unique(X[name].astype(str), return_inverse=True)[1]
            X[name] = [f"c{code:03d}" for code in codes]
    y = np.unique(y, return_inverse=True)[1]
    return X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:].reset_index(drop=True)


def models():
    strings = make_column_selector(dtype_exclude="number")
    one_hot = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), strings), remainder=StandardScaler()
    )
    yield "logistic regression", make_pipeline(one_hot, LogisticRegression(max_iter=500))
    yield "random forest", forest()
    yield (
        "boosted trees",
        make_pipeline(TableEncoder(), HistGradientBoostingClassifier(max_iter=50)),
    )
    local = AnchoredLocalClassifier(random_state=0)
    yield "anchored local models", make_pipeline(TableEncoder(), local)


def forest():
    """Return a forest on codes of categories; the peers fit the same one."""
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    encoder = make_column_transformer(
        (codes, make_column_selector(dtype_exclude="number")), remainder="passthrough"
    )
    return make_pipeline(encoder, RandomForestClassifier(50, random_state=0, n_jobs=1))


def random_constraints(rng, row, X):
    """Return constraints of one query, each kind in about half of the queries."""
    numbers = [name for name in X if pd.api.types.is_numeric_dtype(X[name])]
    others = [name for name in X if name not in numbers]

    def some(names, share):
        return [name for name in names if rng.rand() < share]

    fixed = some(X.columns, rng.choice([0.0, 0.2, 0.5]))
    increase = some(numbers, rng.choice([0.0, 0.3]))
    ranges = {}
    for name in some(numbers, rng.choice([0.0, 0.4])):
        ends = np.sort(rng.choice(X[name].to_numpy(), 2)).tolist()
        ranges[name] = tuple(end if rng.rand() < 0.8 else None for end in ends)
    categories = {
        name: rng.choice(X[name].unique(), rng.randint(1, 4)).tolist()
        for name in some(others, rng.choice([0.0, 0.5]))
    }
    return {
        "fixed": fixed,
        "increase": increase,
        "decrease": [name for name in some(numbers, 0.2) if name not in increase],
        "ranges": ranges,
        "categories": categories,
        "costs": {name: float(rng.choice([0.5, 3.0])) for name in some(X.columns, 0.2)},
        "n_counterfactuals": int(rng.randint(1, 4)),
    }


def violated(row, point, given, X, model, prediction):
    """Return the kinds of constraints that a counterfactual does not obey."""
    changed = [name for name in X if point[name] != row[name]]
    found = []
    table = pd.DataFrame([point])[list(X.columns)].astype(X.dtypes.to_dict())
    if not changed or model.predict(table)[0] == prediction:
        found.append("prediction")
    for name in changed:
        value = point[name]
        low, high = given["ranges"].get(name, (None, None))
        if pd.api.types.is_numeric_dtype(X[name]):
            low = min(X[name].min(), row[name]) if low is None else low
            high = max(X[name].max(), row[name]) if high is None else high
            is_whole = (X[name] == X[name].round()).all()
            broken = {
                "increase": name in given["increase"] and value < row[name],
                "decrease": name in given["decrease"] and value > row[name],
                "range": not low <= value <= high,
                "integer": is_whole and value != round(value),
            }
        else:
            allowed = given["categories"].get(name, X[name].unique())
            broken = {"category": value not in allowed}
        broken["fixed"] = name in given["fixed"]
        found += [kind for kind, is_broken in broken.items() if is_broken]
    return found


def searched(model, X, query, given):
    """Return processor seconds, the prediction and the counterfactuals of one row."""
    prediction = model.predict(query)[0]
    constraints = Constraints(**given)
    constraints.check(model, list(X.columns))
    seconds, section = timed(
        lambda: counterfactual_section(model, query, list(X.columns), prediction, X, constraints)
    )
    values = section.values
    points = [values["counterfactual"], *values["alternatives"]] if values["found"] else []
    return seconds, prediction, points


def constraint_case(table, name):
    """Return how many counterfactuals of one model on one table violate which constraints."""
    X, y, Q = sampled(table)
    model = dict(models())[name].fit(X, y)
    rng = np.random.RandomState(1)
    counts, n_found, n_points, times = dict.fromkeys(KINDS, 0), 0, 0, []
    for i in range(len(Q)):
        given = random_constraints(rng, Q.iloc[i], X)
        seconds, prediction, points = searched(model, X, Q.iloc[[i]], given)
        times.append(seconds)
        n_found += bool(points)
        n_points += len(points)
        for point in points:
            for kind in violated(Q.iloc[i], point, given, X, model, prediction):
                counts[kind] += 1
    return {
        "queries": len(Q), "found": n_found, "counterfactuals": n_points, "violations": counts,
        "seconds": float(np.median(times)),
    }  # fmt: skip


def permitted(row, given, X):
    """Return for each column the interval or the values that it may take, ``None`` if fixed."""
    found = {}
    for name in X.columns:
        if name in given["fixed"]:
            found[name] = None
        elif not pd.api.types.is_numeric_dtype(X[name]):
            allowed = given["categories"].get(name, X[name].unique().tolist())
            found[name] = sorted({*allowed, row[name]})
        else:
            low, high = given["ranges"].get(name, (None, None))
            low = min(X[name].min(), row[name]) if low is None else low
            high = max(X[name].max(), row[name]) if high is None else high
            low = max(low, row[name]) if name in given["increase"] else low
            high = min(high, row[name]) if name in given["decrease"] else high
            found[name] = [float(low), float(high)] if low <= high else None
    return found


def distances(points, Q, X):
    """L2 on standardised numbers, one for each changed category; infinite without a point."""
    found = np.full(len(Q), np.inf)
    numbers = [name for name in X if pd.api.types.is_numeric_dtype(X[name])]
    spread = X[numbers].std(ddof=0).replace(0.0, 1.0)
    for i, point in enumerate(points):
        if point is not None:
            steps = [(point[name] - Q[name].iloc[i]) / spread[name] for name in numbers]
            others = sum(point[name] != Q[name].iloc[i] for name in X if name not in numbers)
            found[i] = np.sqrt(np.sum(np.square(steps)) + others)
    return found


def peer_case(table):
    """Compare distance, success and time on the same rows, constraints and forest."""
    X, y, Q = sampled(table)
    Q, rng, model = Q[:N_COMPARED], np.random.RandomState(2), forest().fit(X, y)
    given = [random_constraints(rng, Q.iloc[i], X) for i in range(len(Q))]
    for one in given:
        one["costs"], one["n_counterfactuals"] = {}, 1
    ours, times = [], []
    for i, one in enumerate(given):
        seconds, _, points = searched(model, X, Q.iloc[[i]], one)
        ours.append(points[0] if points else None)
        times.append(seconds)
    with tempfile.TemporaryDirectory() as folder:
        limits = [permitted(Q.iloc[i], one, X) for i, one in enumerate(given)]
        (Path(folder) / "limits.json").write_text(json.dumps(limits))
        X.assign(label=y).to_csv(Path(folder) / "train.csv", index=False)
        Q.to_csv(Path(folder) / "queries.csv", index=False)
        script = Path(__file__).with_name("_peers_counterfactual.py")
        command = [os.environ["VICINAL_PEERS"], str(script), folder, "constrained"]
        subprocess.run(command, check=True)
        report = json.loads((Path(folder) / "peers.json").read_text())
    agree = float(np.mean(np.array(report.pop("predicted")) == model.predict(Q)))
    report = {"vicinal": {"points": ours, "seconds": times}, **report}
    reach = {name: distances(part["points"], Q, X) for name, part in report.items()}
    rows = []
    for name, part in report.items():
        broken = [
            bool(point is not None
                 and violated(Q.iloc[i], point, given[i], X, model, model.predict(Q.iloc[[i]])[0]))
            for i, point in enumerate(part["points"])
        ]  # fmt: skip
        good = np.isfinite(reach[name]) & ~np.array(broken)
        both = good & np.isfinite(reach["vicinal"])
        pair = [float(np.median(reach[k][both])) if both.any() else "-" for k in (name, "vicinal")]
        rows.append([
            name, len(Q), int(good.sum()), int(np.sum(broken)), *pair, int(both.sum()),
            float(np.median(part["seconds"])),
        ])  # fmt: skip
    return {"rows": rows, "agree": agree}


def add_peers(page):
    found = page.case(("peers", "adult"), lambda: peer_case("adult"))
    page.table(
        ["method", "rows", "valid", "invalid", "median distance", "vicinal on the same rows",
         "rows of both", "median s per row"],
        found["rows"],
        "**adult**: a forest of 50 trees, the same rows and constraints, one row at a time",
    )  # fmt: skip
    page.text(
        "Distance is L2 on standardised numbers plus one for every changed category. Valid "
        "counterfactuals change the prediction and obey all constraints. DiCE has constraints of "
        "its own. NICE has none: it was given training rows in which every cell that must not be "
        "used is replaced by the cell of the query; the time of this preparation is not counted. A "
        "peer that needs more than 5 processor seconds for a row is stopped."
    )


def main():
    warnings.filterwarnings("ignore", "some values are unlike", UserWarning)
    page = ResultsPage(
        "surface_constraints",
        "Counterfactuals under constraints",
        "Random rows with random constraints: fixed columns, only increase or decrease, ranges, "
        "allowed categories, costs, up to three alternatives. Each counterfactual is checked "
        "against every constraint and predicted again. "
        f"{N_TRAIN} training rows; processor seconds of one row at a time.",
    )
    rows = []
    for table in TABLES:
        for name, _ in models():
            found = page.case((table, name), lambda t=table, n=name: constraint_case(t, n))
            broken = sum(found["violations"].values())
            rows.append([
                table, name, found["queries"], found["found"], found["counterfactuals"], broken,
                found["seconds"],
            ])  # fmt: skip
    total = [sum(row[k] for row in rows) for k in (2, 4, 5)]
    page.text(
        f"**{total[2]} violations in {total[1]:,} counterfactuals of {total[0]:,} queries.** A "
        "query without a counterfactual has constraints that leave no other prediction, or the "
        "search missed it."
    )
    head = ["table", "model", "queries", "with a counterfactual", "counterfactuals", "violations"]
    page.table([*head, "median s per row"], rows)
    with suppress(MissingCaseError):  # a page is built again without the peers if they never ran
        add_peers(page)
    page.write()


if __name__ == "__main__":
    main()
