"""Values that no training row has are reported, refused, or count as novel."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from vicinal import BootstrapEnsembleClassifier, LocalClassifier
from vicinal._base._wrappers import call_method
from vicinal.auto import AutoClassifier
from vicinal.inspection import explain
from vicinal.table import TableEncoder
from vicinal.table._columns import OneHotColumn
from vicinal.uncertainty import ConformalClassifier

ODD = {
    "gender": ("Klingon", "'gender': 1 unseen category such as 'Klingon'"),
    "town": ("Atlantis", "'town': 1 unseen category such as 'Atlantis'"),
    "age": ("old", "'age': 1 value that is not a number such as 'old'"),
    "fare": (np.inf, "'fare': 1 infinite number such as 'inf'"),
    "born": ("soon", "'born': 1 value that is not a date such as 'soon'"),
    "likes": ("tea;gagh", "'likes': 1 unseen category such as 'tea;gagh'"),
    "pulse": ("high", "'pulse': 1 value that is not a number such as 'high'"),
}


@pytest.fixture(scope="module")
def people():
    rng = np.random.RandomState(0)
    n = 120
    drinks = ["tea", "milk", "tea;milk", "beer;tea", "beer"]
    return pd.DataFrame(
        {
            "gender": rng.choice(["male", "female"], n, p=[0.6, 0.4]),
            "town": [f"t{i % 30}" for i in range(n)],
            "age": rng.choice(np.r_[np.arange(20, 60), np.nan], n),
            "fare": rng.normal(size=n),
            "born": [f"19{50 + i % 40}-0{1 + i % 9}-11" for i in range(n)],
            "likes": rng.choice(drinks, n),
            "pulse": [f"{rng.randint(100, 180)}/{rng.randint(60, 100)}" for _ in range(n)],
        }
    )


@pytest.fixture(scope="module")
def y(people):
    return np.where(people["fare"] + (people["gender"] == "male") > 0.5, "yes", "no")


@pytest.fixture(scope="module")
def model(people, y):
    return AutoClassifier([("bayes", GaussianNB())], random_state=0).fit(people, y)


def changed(people, **cells):
    """Return a few rows, the first with other values."""
    X = people[:3].astype(object)
    for name, value in cells.items():
        X.loc[0, name] = value
    return X


@pytest.mark.parametrize("encoding", ["distance", "tree"])
@pytest.mark.parametrize("name", ODD)
def test_values_that_no_training_row_has_are_named(people, y, encoding, name):
    kinds = {"likes": "choices"}
    encoder = TableEncoder(encoding, kinds=kinds).fit(people, y)
    value, line = ODD[name]
    assert [str(found) for found in encoder.unseen_values(changed(people, **{name: value}))] == [
        line
    ]
    assert encoder.unseen_values(people) == []


def test_missing_values_are_named_where_training_rows_have_none(people, y):
    encoder = TableEncoder().fit(people, y)
    found = encoder.unseen_values(changed(people, age=None, fare=None, gender=None))
    problem = "1 missing value where training rows have none"
    assert [str(part) for part in found] == [f"'gender': {problem}", f"'fare': {problem}"]


def test_another_type_is_named(people, y):
    encoder = TableEncoder().fit(people, y)
    table = people.assign(fare=pd.Timestamp("2020-01-01"))
    found = encoder.unseen_values(table)
    assert [(part.column, part.problem) for part in found] == [("fare", "values of another type")]
    assert str(encoder.unseen_values(table[:1])[0]).startswith("'fare': 1 value of another type")


def test_values_are_known_though_they_are_encoded_by_rule():
    """Rare categories without a column, and strings among numbers, are no news."""
    X = pd.DataFrame({"city": [f"c{i % 40}" for i in range(80)], "n": ["3", "4", "5", "?x"] * 20})
    X["n"] = [*map(str, range(70)), *["none yet"] * 10]
    encoder = TableEncoder(max_categories=5).fit(X)
    assert encoder.kinds_ == {"city": "category", "n": "number"}
    assert encoder.unseen_values(X) == []
    new = pd.DataFrame({"city": ["c39", "d"], "n": ["none yet", "soon"]})
    assert [part.example for part in encoder.unseen_values(new)] == ["d", "soon"]


def test_one_warning_per_call(people, model):
    X = changed(people, gender="Klingon", age="old", fare=None)
    line = "'gender': 1 unseen .* 'age': 1 value that is not a number .* 'fare': 1 missing"
    for call in (model.predict, model.predict_proba, model.predict_set, model.contributions):
        with pytest.warns(UserWarning, match=line) as caught:
            call(X)
        assert len(caught) == 1
    with pytest.warns(UserWarning, match=line) as caught:
        explain(model, X[:1])
    assert len(caught) == 1
    polars = pl.from_pandas(people[:3]).with_columns(gender=pl.lit("Klingon"))
    with pytest.warns(UserWarning, match="'gender': 3 unseen categories"):
        model.predict(polars)


def test_unseen_values_can_be_refused_or_ignored(people, y, model):
    X = changed(people, gender="Klingon")
    strict = make_pipeline(TableEncoder(unseen="error"), GaussianNB())
    strict.fit(people, y).predict(people)
    with pytest.raises(ValueError, match="'gender': 1 unseen category such as 'Klingon'"):
        strict.predict(X)
    try:
        model.set_params(unseen="error")
        with pytest.raises(ValueError, match="Klingon"):
            model.predict_proba(X)
        model.set_params(unseen="ignore")
        model.predict_proba(X)
    finally:
        model.set_params(unseen="warn")


def test_a_klingon_is_novel(people, y, model):
    usual = model.typicality(people)
    X = changed(people, gender="Klingon")
    assert model.typicality(X)[0] < usual.min() + 1e-12
    np.testing.assert_allclose(model.typicality(X)[1:], usual[1:3])
    pipe = make_pipeline(TableEncoder(unseen="ignore"), LocalClassifier(n_neighbors=40, alpha=1.0))
    pipe.fit(people, y)
    assert call_method(pipe, "typicality", X)[0] <= call_method(pipe, "typicality", people).min()
    assert explain(pipe, X[:1])["novelty"].values["typicality"] < 0.01
    conformal = ConformalClassifier(pipe, cv=2)
    assert conformal.fit(people, y).typicality(X)[0] < 0.01


def test_a_value_of_its_own_is_as_typical_as_training_rows_that_have_one():
    rng = np.random.RandomState(0)
    ticket = rng.randint(150, size=200)
    X = pd.DataFrame({"ticket": [f"t{t}" for t in ticket], "a": rng.normal(size=200)})
    n_single = (np.bincount(ticket) == 1).sum()
    found = (
        TableEncoder(kinds={"ticket": "category"})
        .fit(X, X["a"])
        .unseen_values(pd.DataFrame({"ticket": ["t999"], "a": [0.0]}))
    )
    assert found[0].typicality == pytest.approx((n_single + 1) / 201)


def test_arrays_report_missing_values_where_there_were_none():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(80, 3)), np.arange(80) % 2
    X[::7, 0] = np.nan
    model = AutoClassifier([("bayes", GaussianNB())], random_state=0).fit(X, y)
    new = np.where(np.arange(3) == np.arange(3)[:, None], np.nan, X[1:4])
    with pytest.warns(UserWarning, match="'x1': 1 missing .*; 'x2': 1 missing"):
        model.predict(new)
    assert (model.typicality(new)[1:] == 1 / 81).all()


def test_held_out_rows_and_bootstrap_samples_are_not_reported(people, y):
    """Folds lack rare categories, which is no fault of the rows."""
    X = people.assign(gender=["Vulcan", *people["gender"][1:]])
    pipe = make_pipeline(TableEncoder(), GaussianNB())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ConformalClassifier(pipe, cv=3, random_state=0).fit(X, y)
        bag = BootstrapEnsembleClassifier(pipe, n_estimators=3, random_state=0).fit(X, y)
        bag.predict(X)
    with pytest.warns(UserWarning, match="Klingon") as caught:
        bag.predict(changed(X, gender="Klingon"))
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="Vulcan"):
        cross_val_predict(pipe, X, y, cv=3)


def test_a_column_that_is_fitted_again_looks_up_its_new_categories():
    column = OneHotColumn()
    column.fit_encode(np.array(list("aabbcc"), dtype=object))
    values = np.array(list("xyzzyx"), dtype=object)
    expected = OneHotColumn().fit(values).encode(values)
    np.testing.assert_array_equal(column.fit_encode(values), expected)
    assert expected.any()
