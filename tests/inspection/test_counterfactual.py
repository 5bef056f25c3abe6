import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from vicinal.inspection import explain
from vicinal.local import LocalClassifier
from vicinal.table import TableEncoder

X, LABELS = make_classification(120, 4, n_informative=3, n_redundant=0, random_state=0)
NAMES = np.array(["no", "yes"])[LABELS]


def test_distance_to_a_line_is_signed_and_in_deviations():
    model = LogisticRegression().fit(X, NAMES)
    for row in X[:5]:
        section = explain(model, row, background=X)["counterfactual"]
        # The row joins the background, which changes the deviations a little.
        scale = np.vstack([X, row]).std(axis=0)
        score = model.decision_function(row[None])[0]
        expected = score / np.linalg.norm(model.coef_[0] * scale)
        assert_allclose(section.values["distance"], expected, rtol=1e-4)


@pytest.mark.parametrize(
    "model",
    [LogisticRegression(), DecisionTreeClassifier(max_depth=3), LinearSVC()],
    ids=lambda model: type(model).__name__,
)
def test_the_counterfactual_has_another_prediction(model):
    model.fit(X, NAMES)
    for row in X[:5]:
        found = explain(model, row, background=X)
        section = found["counterfactual"]
        point = np.array([list(section.values["counterfactual"].values())])
        assert model.predict(point)[0] == section.values["label"] != found.prediction
        for name, before, after, step in section.rows:
            j = int(name[1:])
            assert before == row[j]
            assert after == point[0, j]
            assert np.sign(step) == np.sign(after - before)
        n_changed = len(section.rows)
        assert n_changed == int((point[0] != row).sum())
        assert section.values["counterfactual_distance"] <= 1.3 * abs(section.values["distance"])
        json.dumps(found.to_dict(), allow_nan=False)


@pytest.fixture(scope="module")
def people():
    rng = np.random.RandomState(0)
    frame = pd.DataFrame(
        {
            "age": rng.randint(20, 80, 150),
            "job": pd.Categorical(rng.choice(["cook", "smith", "clerk"], 150)),
            "city": rng.choice(["A", "B"], 150),
            "club": rng.rand(150) > 0.5,
        }
    )
    y = np.where(frame["job"] == "cook", "rich", "poor")
    encoder = make_column_transformer(
        (OneHotEncoder(), ["job", "city"]), remainder=StandardScaler()
    )
    return frame, y, make_pipeline(encoder, LogisticRegression())


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_categories_are_exchanged_whole(people, kind):
    frame, y, model = people
    table = frame if kind == "pandas" else pl.from_pandas(frame)
    model.fit(table, y)
    i = int(np.flatnonzero(y == "poor")[0])
    section = explain(model, table[i : i + 1], background=table)["counterfactual"]
    assert section.values["label"] == "rich"
    changed = {line[0]: line[2] for line in section.rows}
    assert changed["job"] == "cook"
    assert set(changed) == {"job"}
    assert_allclose(section.values["distance"], 1.0)
    assert section.values["counterfactual"]["age"] == frame["age"].iloc[i]


def test_names_and_prose_are_not_exchanged():
    rng = np.random.RandomState(0)
    frame = pd.DataFrame({"name": [f"n{i}" for i in range(120)], "size": rng.normal(size=120)})
    y = np.where(frame["size"] > 0, "big", "small")
    encoder = make_column_transformer((OneHotEncoder(), ["name"]), remainder="passthrough")
    model = make_pipeline(encoder, LogisticRegression(C=10.0)).fit(frame, y)
    section = explain(model, frame.iloc[[0]], background=frame)["counterfactual"]
    assert [line[0] for line in section.rows] == ["size"]


@pytest.mark.parametrize("kind", ["array", "pandas", "polars"])
def test_missing_values_stay_missing(kind):
    rows = X.copy()
    rows[5:10, 0] = np.nan
    names = [f"x{j}" for j in range(4)]
    table = rows if kind == "array" else pd.DataFrame(rows, columns=names)
    if kind == "polars":
        table = pl.DataFrame(rows, schema=names, nan_to_null=True)
    model = make_pipeline(SimpleImputer(), LogisticRegression()).fit(table, NAMES)
    for i in (5, 0):
        found = explain(model, table[i : i + 1], background=table)
        section = found["counterfactual"]
        assert section.values["label"] != found.prediction
        assert "x0" not in {line[0] for line in section.rows} or i == 0
        point = np.array([list(section.values["counterfactual"].values())], dtype=float)
        assert np.isnan(point[0, 0]) == (i == 5)
        if kind == "array":
            assert model.predict(point)[0] == section.values["label"]
        json.dumps(found.to_dict(), allow_nan=False)


def test_a_constant_prediction_is_reported():
    model = DummyClassifier().fit(X, NAMES)
    section = explain(model, X[0], background=X)["counterfactual"]
    assert section.values == {"found": False, "distance": None}
    assert "No counterfactual was found" in section.summary


def test_regressors_have_no_surface():
    assert "surface" not in explain(Ridge().fit(X, LABELS), X[0], background=X)


@pytest.fixture(scope="module")
def loans():
    rng = np.random.RandomState(1)
    frame = pd.DataFrame(
        {
            "income": rng.normal(40.0, 10.0, 200),
            "children": rng.randint(0, 5, 200),
            "job": rng.choice(["cook", "smith", "clerk"], 200),
            "age": rng.randint(20, 70, 200).astype(float),
        }
    )
    score = frame["income"] / 10 - frame["children"] + (frame["job"] == "cook") + frame["age"] / 50
    y = np.where(score > score.median(), "yes", "no")
    encoder = make_column_transformer((OneHotEncoder(), ["job"]), remainder=StandardScaler())
    return frame, make_pipeline(encoder, LogisticRegression()).fit(frame, y)


def test_numbers_in_strings_change():
    table = pd.DataFrame({"price": [f"{1000 + 10 * i},50 €" for i in range(60)], "b": [1, 2] * 30})
    model = make_pipeline(TableEncoder(), LogisticRegression()).fit(table, np.arange(60) > 40)
    section = explain(model, table[:1], background=table)["counterfactual"]
    assert [row[:2] for row in section.rows] == [("price", 1000.5)]
    assert model.predict(pd.DataFrame([section.values["counterfactual"]])).tolist() == [True]


def test_whole_numbers_stay_whole_and_values_within_those_seen(loans):
    frame, model = loans
    for i in range(8):
        section = explain(model, frame.iloc[[i]], background=frame)["counterfactual"]
        new = section.values["counterfactual"]
        assert isinstance(new["children"], int)
        assert isinstance(new["age"], int)
        assert new["job"] in set(frame["job"])
        for name in ("income", "children", "age"):
            assert frame[name].min() <= new[name] <= frame[name].max()
        again = pd.DataFrame([new])[list(frame.columns)]
        assert (
            model.predict(again)[0] == section.values["label"] != model.predict(frame[i : i + 1])[0]
        )


def test_some_columns_must_not_change(loans):
    frame, model = loans
    for i in range(4):
        row = frame.iloc[[i]]
        free = explain(model, row, background=frame)["counterfactual"]
        held = explain(model, row, background=frame, fixed=["income", "job"])["counterfactual"]
        changed = {line[0] for line in held.rows}
        assert changed <= {"children", "age"}
        lengths = [part.values["counterfactual_distance"] for part in (free, held)]
        assert lengths[0] <= 1.25 * lengths[1] + 1e-9
    with pytest.raises(ValueError, match=r"fixed names \['salary'\]"):
        explain(model, row, background=frame, fixed=["salary"])
    none = explain(model, row, background=frame, fixed=list(frame.columns))["counterfactual"]
    assert none.summary.startswith("No counterfactual was found")


def test_a_wanted_prediction_is_reached():
    X3, labels = make_classification(
        150, 4, n_informative=3, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=2
    )
    names = np.array(["a", "b", "c"])[labels]
    model = LogisticRegression().fit(X3, names)
    predicted = model.predict(X3[:1])[0]
    for label in "abc":
        section = explain(model, X3[0], background=X3, target=label)["counterfactual"]
        if label == predicted:
            assert section.summary == f"The prediction is already {label}."
            continue
        point = np.array([list(section.values["counterfactual"].values())])
        assert model.predict(point)[0] == section.values["label"] == label
    with pytest.raises(ValueError, match="target='d' must be one of the classes"):
        explain(model, X3[0], background=X3, target="d")
    with pytest.raises(ValueError, match="target='b' needs a counterfactual.*background"):
        explain(model, X3[0], target="b")


def test_support_is_small_far_away():
    model = LogisticRegression().fit(X, NAMES)
    usual = explain(model, X[0], background=X)["novelty"]
    far = explain(model, X[0] + 50.0, background=X)["novelty"]
    assert_allclose(far.values["typicality"], 1 / 121)
    assert usual.values["typicality"] > 0.2
    assert "the row is novel" in far.summary


def test_training_rows_are_shown_with_their_values(loans):
    frame, _ = loans
    rows = frame[["income", "children", "age"]]
    y = np.where(rows["income"] > 40, "yes", "no")
    model = LocalClassifier(n_neighbors=20, metric="standardized").fit(rows, y)
    found = explain(model, rows.iloc[[0]], X_train=rows)
    section, best = found["neighbors"], [row[0] for row in found["columns"].rows]
    assert section.columns == ("training row", "target", *best, "distance", "weight")
    assert best[0] == "income"
    for row in section.rows:
        assert row[2:-2] == tuple(rows.iloc[row[0]][best])


# --- constraints ---


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.statistical)])
def test_constraints_hold_on_random_queries(seed):
    """Every counterfactual obeys random constraints and has the wanted prediction."""
    rng = np.random.RandomState(seed)
    frame = pd.DataFrame(
        {
            "age": rng.randint(18, 80, 200),
            "income": rng.lognormal(3, 0.6, 200),
            "rooms": rng.randint(1, 8, 200),
            "job": rng.choice(["cook", "smith", "baker"], 200),
            "town": rng.choice(["Oslo", "Rome"], 200),
        }
    )
    score = frame["age"] / 20 + np.log(frame["income"]) + (frame["job"] == "cook")
    is_number = seed % 2 == 0
    y = score if is_number else np.where(score > score.median(), "yes", "no")
    forest = RandomForestRegressor if is_number else RandomForestClassifier
    encoder = make_column_transformer((OneHotEncoder(), ["job", "town"]), remainder="passthrough")
    model = make_pipeline(encoder, forest(5, random_state=0)).fit(frame, y)
    n_found = 0
    for i in range(8):
        options = {
            "fixed": ["rooms"] if rng.rand() < 0.5 else [],
            "increase": ["income"] if rng.rand() < 0.5 else [],
            "decrease": ["age"] if rng.rand() < 0.5 else [],
            "ranges": {"age": (25, 60)} if rng.rand() < 0.5 else {},
            "categories": {"job": ["baker"]} if rng.rand() < 0.5 else {},
        }
        target = (float(np.quantile(score, 0.7)), None) if is_number else None
        row = frame.iloc[[i]]
        found = explain(
            model, row, background=frame[50:], target=target, n_counterfactuals=2, **options
        )
        values = found["counterfactual"].values
        for point in [values.get("counterfactual"), *values.get("alternatives", [])]:
            if point is None:
                continue
            n_found += 1
            _check_constraints(row.iloc[0], point, options)
            predicted = model.predict(pd.DataFrame([point]))[0]
            assert predicted >= target[0] if is_number else predicted != found.prediction
    assert n_found > 2


def _check_constraints(row, point, options):
    changed = {name for name in point if point[name] != row[name]}
    assert changed
    assert not changed & set(options["fixed"])
    if options["increase"]:
        assert point["income"] >= row["income"]
    if options["decrease"]:
        assert point["age"] <= row["age"]
    if options["ranges"] and "age" in changed:
        assert 25 <= point["age"] <= 60
    if options["categories"] and "job" in changed:
        assert point["job"] == "baker"
    assert isinstance(point["age"], int)
    assert isinstance(point["rooms"], int)


def test_costs_move_changes_to_other_columns(loans):
    frame, model = loans
    row = frame.iloc[[0]]
    free = explain(model, row, background=frame)["counterfactual"]
    assert "children" in {line[0] for line in free.rows}
    section = explain(model, row, background=frame, costs={"children": 50.0})["counterfactual"]
    assert "children" not in {line[0] for line in section.rows}
    assert "times the costs of the columns" in section.summary
    # The length is that of the same changes, each times its cost.
    cheap = explain(model, row, background=frame, costs=dict.fromkeys(frame, 0.5))["counterfactual"]
    assert_allclose(
        cheap.values["counterfactual_distance"], 0.5 * free.values["counterfactual_distance"]
    )


def test_numbers_take_allowed_values(loans):
    frame, model = loans
    options = {"fixed": ["income", "age"], "categories": {"children": [0, 4, 2.5]}}
    changed = []
    for i in range(8):
        row = frame.iloc[[i]]
        section = explain(model, row, background=frame, **options)["counterfactual"]
        changed += [line[2] for line in section.rows if line[0] == "children"]
    assert changed
    assert set(changed) <= {0, 4}  # the column holds integers
    with pytest.raises(ValueError, match="'job' holds categories"):
        explain(model, row, background=frame, increase=["job"])


def test_a_category_is_not_changed_to_a_missing_value():
    rng = np.random.RandomState(0)
    jobs = pd.Series(rng.choice(["cook", "smith", "clerk"], 120)).where(rng.rand(120) > 0.3, None)
    frame = pd.DataFrame({"job": jobs, "size": rng.normal(size=120)})
    y = np.where(jobs.isna() | (frame["size"] > 0.5), "yes", "no")
    encoder = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
    model = make_pipeline(encoder, DecisionTreeClassifier(random_state=0)).fit(frame, y)
    row = frame[y == "no"].iloc[[0]]
    section = explain(model, row, background=frame, target="yes")["counterfactual"]
    assert [line[0] for line in section.rows] == ["size"]


def test_alternatives_change_other_columns():
    model = LogisticRegression().fit(X, NAMES)
    values = explain(model, X[0], background=X, n_counterfactuals=3)["counterfactual"].values
    first, *others = [values["counterfactual"], *values["alternatives"]]
    assert others
    changed = {name for j, name in enumerate(first) if first[name] != X[0, j]}
    for other in others:
        mine = {name for j, name in enumerate(other) if other[name] != X[0, j]}
        assert len(mine & changed) <= len(mine) / 2


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"ranges": {"x0": (3, 1)}}, r"ranges\['x0'\]=\(3, 1\) must be a pair"),
        ({"ranges": {"z": (1, 3)}}, r"ranges names \['z'\]"),
        ({"increase": ["z"]}, r"increase names \['z'\]"),
        ({"n_counterfactuals": 0}, "must be at least 1"),
        ({"costs": {"z": 1.0}}, r"costs names \['z'\]"),
        ({"costs": {"x0": 0}}, r"costs\['x0'\]=0 must be a positive number"),
        ({"target": "maybe"}, "must be one of the classes"),
    ],
)
def test_wrong_constraints_are_errors(option, message):
    model = LogisticRegression().fit(X, NAMES)
    with pytest.raises(ValueError, match=message):
        explain(model, X[0], background=X, **option)


def test_a_regressor_needs_a_range():
    model = LinearRegression().fit(X, LABELS)
    assert "counterfactual" not in explain(model, X[0], background=X)
    with pytest.raises(ValueError, match="must be a pair"):
        explain(model, X[0], background=X, target=4.0)
    here = model.predict(X[:1])[0]
    section = explain(model, X[0], background=X, target=(here + 0.2, here + 0.3))["counterfactual"]
    point = np.array([list(section.values["counterfactual"].values())])
    assert here + 0.2 <= model.predict(point)[0] <= here + 0.3
    section = explain(model, X[0], background=X, target=(None, here + 1))["counterfactual"]
    assert section.summary.startswith("The prediction is already at most")
