"""Coverage by group, abstention and costs."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from vicinal import LocalClassifier
from vicinal._conformal._held_out_rows import confidence_limit
from vicinal._conformal._intervals import GroupRows
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.table import TableEncoder
from vicinal.uncertainty import ConformalClassifier, ConformalRegressor

_LINE = [("line", LinearRegression())]


def people(n, seed=0):
    """Return rows of three groups; errors of the second are large and of nearly equal size."""
    rng = np.random.RandomState(seed)
    age, sex = rng.uniform(20, 60, size=n), rng.choice(["f", "m", "x"], n, p=[0.7, 0.297, 0.003])
    noise = rng.normal(size=n)
    noise = np.where(sex == "m", 4 * np.sign(noise) + 0.3 * rng.normal(size=n), noise)
    return pd.DataFrame({"age": age, "sex": sex}), age / 10 + noise


def covered(ends, y):
    return (ends[:, 0] <= y) & (y <= ends[:, 1])


@pytest.fixture(scope="module")
def table():
    return people(1500)


@pytest.fixture(scope="module")
def model(table):
    line = make_pipeline(TableEncoder(), LinearRegression())
    return ConformalRegressor(line, random_state=0).fit(*table)


@pytest.mark.parametrize("by", ["sex", 1, ["sex"]])
def test_intervals_cover_in_each_group(model, by):
    X, y = people(6000, seed=1)
    X, y = X[X.sex != "x"], y[X.sex != "x"]
    found = covered(model.predict_interval(X, 0.9, by=by), y)
    for sex in "fm":
        rows = (X.sex == sex).to_numpy()
        # The quantile of n held-out rows is off by their own standard error, too.
        error = np.sqrt(0.09 / rows.sum() + 0.09 / (1500 * rows.mean()))
        assert abs(found[rows].mean() - 0.9) < 2.5 * error


def test_a_column_of_numbers_is_split_at_its_quintiles():
    known, new = np.arange(100.0)[:, None], np.array([[-5.0], [19.0], [50.0], [1e9]])
    groups = GroupRows(known, new, None)
    np.testing.assert_array_equal(groups.codes, np.arange(100) // 20)
    np.testing.assert_array_equal(groups.queries, [0, 0, 2, 4])


def test_small_and_unknown_groups_get_the_interval_of_all_rows(model):
    X = people(4, seed=1)[0].assign(sex=["f", "m", "x", "f"])
    with pytest.warns(UserWarning, match="1 of 4 rows are of groups .* 0.99: sex='x'"):
        ends = model.predict_interval(X, 0.99, by="sex")
    np.testing.assert_allclose(ends[2], model.predict_interval(X, 0.99)[2])


def test_label_sets_cover_in_each_group(table):
    X, y = table
    codes = np.column_stack([X["age"], X["sex"] == "m"])
    model = ConformalClassifier(LogisticRegression(C=1e-3)).fit(codes, y > 4)
    fresh, values = people(6000, seed=1)
    queries = np.column_stack([fresh["age"], fresh["sex"] == "m"])
    sets = model.predict_set(queries, 0.8, method="threshold", by=1)
    found = sets[np.arange(6000), (values > 4).astype(int)]
    for group in (0, 1):
        rows = queries[:, 1] == group
        assert abs(found[rows].mean() - 0.8) < 2.5 * np.sqrt(0.16 / rows.sum() * (1 + 4))


def test_groups_of_auto_models_are_columns_of_the_table(table):
    X, y = table[0][table[0].sex != "x"], table[1][table[0].sex != "x"]
    model = AutoRegressor(_LINE, random_state=0).fit(X[:300], y[:300])
    ends = model.predict_interval(X[300:600], 0.8, by="sex")
    assert abs(covered(ends, y[300:600]).mean() - 0.8) < 0.1
    with pytest.raises(ValueError, match="by='height' is not a column; choose from age, sex"):
        model.predict_interval(X, by="height")


def test_groups_need_columns_of_the_table_and_no_other_choice():
    X, y = np.random.RandomState(0).normal(size=(60, 2)), np.arange(60) % 2
    local = LocalClassifier(n_neighbors=20, alpha=1.0).fit(X, y)
    with pytest.raises(ValueError, match="wrap it in ConformalRegressor"):
        local.predict_set(X, by=0)
    with pytest.raises(ValueError, match="by and by_class cannot be combined"):
        local.predict_set(X, by=0, by_class=True)
    many = pd.DataFrame({"zip": [f"z{i % 40}" for i in range(90)], "a": np.arange(90) % 7})
    model = AutoRegressor(_LINE, random_state=0).fit(many, np.random.RandomState(0).normal(size=90))
    with pytest.raises(ValueError, match="by='zip' has too many categories"):
        model.predict_interval(many, by="zip")


def test_error_rate_of_predicted_rows_is_bounded():
    """In at most one of ten tables the true error rate is larger than promised."""
    rng = np.random.RandomState(0)
    grid = np.linspace(0, 1, 2001)
    true = 0.3 * (1 - grid) ** 2  # errors at each confidence, 10 % on average
    n_larger, shares = 0, []
    for _ in range(200):
        confidence = rng.uniform(size=400)
        wrong = rng.uniform(size=400) < 0.3 * (1 - confidence) ** 2
        limit = confidence_limit(confidence, wrong, 0.05)
        shares.append(np.mean(grid > limit))
        n_larger += np.isfinite(limit) and true[grid > limit].mean() > 0.05
    assert n_larger <= 20
    assert np.mean(shares) > 0.15  # at most 0.61 of the rows could be predicted


def test_rows_of_a_group_count_as_one():
    confidence, wrong = np.linspace(0, 1, 400), np.zeros(400, dtype=bool)
    assert confidence_limit(confidence, wrong, 0.05) == -np.inf
    assert confidence_limit(confidence, wrong, 0.05, groups=np.arange(400) // 10) == np.inf


def test_uncertain_rows_have_no_prediction(table):
    is_kept = (table[0].sex == "f").to_numpy()
    X, labels = table[0][["age"]][is_kept], np.where(table[1][is_kept] > 4, "tall", "small")
    model = ConformalClassifier(LogisticRegression(), random_state=0).fit(X, labels)
    fresh, values = people(4000, seed=1)
    fresh, values = fresh[fresh.sex == "f"], values[fresh.sex == "f"]
    found = model.predict(fresh[["age"]], abstain=0.1)
    is_given = np.array([label is not None for label in found])
    assert 0.1 < is_given.mean() < 0.95
    assert np.mean(found[is_given] != np.where(values > 4, "tall", "small")[is_given]) < 0.1
    assert (found[is_given] == model.predict(fresh[["age"]])[is_given]).all()
    with pytest.warns(UserWarning, match="No row is predicted: an error rate of 0.001"):
        assert set(model.predict(X[:5], abstain=0.001)) == {None}


def test_labels_of_least_cost(table):
    X, y = table[0][:200], table[1][:200]
    model = AutoClassifier([("bayes", GaussianNB())], random_state=0).fit(X, np.digitize(y, [3, 5]))
    costs = np.array([[0, 1, 2], [5, 0, 1], [20, 5, 0]])
    expected = (model.predict_proba(X) @ costs).argmin(axis=1)
    assert (model.predict(X, cost_matrix=costs) == expected).all()
    assert (model.predict(X, cost_matrix=1 - np.eye(3)) == model.predict(X)).all()
    with pytest.raises(ValueError, match="3 rows of true labels and 3 columns of predicted"):
        model.predict(X, cost_matrix=[[0, 1], [1, 0]])
