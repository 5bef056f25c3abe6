"""Explanations of one prediction of an ensemble."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from tests.auto.tables import blobs

from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.local import LocalClassifier


def test_contributions_in_an_explanation_add_up():
    X, y = blobs()
    names = np.array(["oak", "fir", "elm"])[y]
    model = AutoClassifier(["local", "linear"], random_state=0).fit(X, names)
    section, neighbors = model.explain_row(X[:1])
    predicted = model.predict(X[:1])[0]
    assert section.columns == ("base model", "prediction", "probability", "weight", "contribution")
    total = sum(row[4] for row in section.rows)
    assert total == pytest.approx(model.predict_proba(X[:1]).max(), abs=1e-12)
    assert section.summary.endswith(f"add up to the probability of {predicted}.")
    for _, _, probability, weight, part in section.rows:
        assert part == pytest.approx(weight * probability)
    assert all(names[row] == target for row, target, _ in neighbors.rows)
    shares = [weight for _, _, weight in neighbors.rows]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) <= neighbors.values["local_weight"] + 1e-12


@pytest.mark.parametrize(("n_neighbors", "is_wide"), [(8, False), (119, True)])
def test_a_neighbourhood_of_nearly_all_rows_is_named_as_such(n_neighbors, is_wide):
    X, y = blobs()
    local = LocalClassifier(n_neighbors=n_neighbors, alpha=1.0)
    section = AutoClassifier([("local", local)], random_state=0).fit(X, y).explain_row(X[:1])[1]
    assert f"use {len(section.rows)} of {len(y)} training rows" in section.summary
    assert ("hardly a neighbourhood" in section.summary) == is_wide


def test_neighbours_keep_their_row_number_in_the_table():
    X, y = blobs()
    names = np.array(["oak", "fir", "elm"])[y]
    weight = (np.arange(len(y)) >= 10).astype(float)
    model = AutoClassifier(["local"], random_state=0).fit(X, names, sample_weight=weight)
    rows = model.explain_row(X[:1])[1].rows
    assert rows[0][0] >= 10
    assert all(names[row] == target for row, target, _ in rows)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_neighbours_are_shown_with_their_original_values(kind, tmp_path):
    from vicinal.inspection import explain
    from vicinal.io import load, save

    lib = pytest.importorskip(kind)
    rng = np.random.RandomState(0)
    towns = np.array(["Ulm", "Bonn", "Köln"])[rng.randint(3, size=120)].astype(object)
    pay = np.where(rng.rand(120) < 0.1, np.nan, 1000.0 * rng.randint(100, 900, size=120))
    y = np.where((towns == "Ulm") | (np.nan_to_num(pay) > 6e5), "yes", "no")
    towns[::9] = None
    frame = lib.DataFrame({"town": towns.tolist(), "pay": pay, "noise": rng.normal(size=120)})
    weight = (np.arange(120) >= 5).astype(float)
    model = AutoClassifier(["local"], random_state=0).fit(frame, y, sample_weight=weight)
    model = load(save(model, tmp_path / "model.vicinal"))
    row = frame.iloc[[3]] if kind == "pandas" else frame[3]
    section = explain(model, row)["neighbors"]
    assert set(section.columns[2:-1]) >= {"town", "pay"}
    for line in section.rows:
        cells = dict(zip(section.columns, line, strict=True))
        at = cells["training row"]
        assert at >= 5
        assert cells["town"] == towns[at]
        assert cells["pay"] is None if np.isnan(pay[at]) else cells["pay"] == pay[at]
        assert cells["pay"] is None or isinstance(cells["pay"], int)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_background_rows_equal_the_training_table(kind):
    """Background rows get the predictions of the same rows of the table."""
    import datetime

    lib = pytest.importorskip(kind)
    rng = np.random.RandomState(1)
    days = [datetime.datetime(2024, 1, 1, k % 24) + datetime.timedelta(days=k) for k in range(60)]
    columns = {
        "day": days,
        "wait": [datetime.timedelta(minutes=int(k)) for k in rng.randint(90, size=60)],
        "town": [None if k % 7 == 0 else f"town {k % 3}" for k in range(60)],
        "subscriber": [None if k % 5 == 0 else bool(k % 2) for k in range(60)],
        "count": [None if k % 11 == 0 else k for k in range(60)],
        "pay": rng.normal(size=60),
    }
    frame = lib.DataFrame(columns)
    if kind == "polars":
        frame = frame.drop("wait")
    else:
        frame = frame.astype({"town": "category", "count": "Int64"})
        frame["day"] = frame["day"].dt.tz_localize("Europe/Berlin")
    model = AutoRegressor(["local"], random_state=0).fit(frame, rng.normal(size=60))
    again = model.background(frame[:1])
    np.testing.assert_array_equal(model.contributions(again), model.contributions(frame))
    assert len(model.background(frame[:1], at_most=7)) == 7


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_nested_columns_are_dropped_from_explanations(kind):
    from vicinal.inspection import explain

    lib = pytest.importorskip(kind)
    X, y = blobs()
    frame = lib.DataFrame({"a": X[:, 0], "tags": [[1, 2]] * len(y)})
    model = AutoClassifier(["local"], random_state=0).fit(frame, y)
    assert model.background(frame[:1]) is None
    assert explain(model, frame[:1])["neighbors"].rows


def test_several_targets_are_explained_in_plain_numbers():
    from vicinal.inspection import explain

    X, _ = blobs()
    model = AutoRegressor(["local"], random_state=0).fit(X, X[:, :2])
    assert "np.float64" not in str(explain(model, X[:1]))


def test_explanations_compare_with_training_rows():
    from vicinal.inspection import explain

    X, y = blobs()
    model = AutoClassifier(["local"], random_state=0).fit(X, y)
    own, given = explain(model, X[:1]), explain(model, X[:1], background=X)
    assert own["columns"].rows == given["columns"].rows
    # A counterfactual takes a search, so it is computed only for a given target.
    keys = [section.key for section in explain(model, X[:1], target=y.max()).sections]
    assert "counterfactual" in keys
    assert "counterfactual" not in [section.key for section in own.sections]


def test_explanations_of_global_models_compare_with_a_sample():
    from vicinal.inspection import explain

    X, y = blobs(500)
    model = AutoClassifier(["linear"], random_state=0).fit(X, y)
    assert len(model.background(X[:1])) == 200
    explanation = explain(model, X[:1], target=y.max())
    assert {"columns", "counterfactual"} <= {section.key for section in explanation.sections}


def test_neighbours_in_learned_coordinates_are_listed():
    pytest.importorskip("torch")
    from vicinal.metric import NeuralNeighborsClassifier

    X, y = blobs()
    net = NeuralNeighborsClassifier(n_estimators=1, n_iter_no_change=1, tol=1.0, random_state=0)
    model = AutoClassifier([("net", net)], random_state=0).fit(X, y)
    neighbors = model.explain_row(X[:1])[1]
    shares = [weight for _, _, weight in neighbors.rows]
    assert sum(shares) == pytest.approx(1.0, abs=1e-5)
    assert all(y[row] == target for row, target, _ in neighbors.rows)


def test_global_models_have_no_neighbourhood():
    X, y = load_diabetes(return_X_y=True)
    model = AutoRegressor([("ridge", Ridge())], random_state=0).fit(X, y)
    section, neighbors = model.explain_row(X[:1])
    assert sum(row[3] for row in section.rows) == pytest.approx(model.predict(X[:1])[0])
    assert neighbors.summary == "No neighbourhood: all base models are global."


def test_dense_rows_are_explained_by_a_model_of_sparse_rows():
    X = np.eye(40)[:, :3] + np.eye(40)[:, 1:4]
    model = AutoClassifier(["linear"], random_state=0).fit(sparse.csr_matrix(X), np.arange(40) % 2)
    np.testing.assert_array_equal(model.background(X[:1]), X)
    assert sparse.issparse(model.background(sparse.csr_matrix(X[:1])))
