"""Wrong labels, repeats, leaks and drift: planted ones are found, clean tables raise nothing."""

import datetime

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vicinal.inspection import check, drift, label_issues
from vicinal.inspection.checks import duplicate_rows, leaking_columns
from vicinal.inspection.checks._check import rare_classes
from vicinal.inspection.checks._profile import Target
from vicinal.inspection.checks._targets import label_odds
from vicinal.uncertainty import ConformalRegressor


def test_odds_by_hand():
    proba = np.array([[0.7, 0.2, 0.1], [0.0, 0.6, 0.4]])
    odds, best = label_odds(proba, np.array([0, 0]))
    # Two rows, and one more spread over three classes.
    assert_allclose(odds, [(0.4 + 1 / 3) / (1.4 + 1 / 3), (1.2 + 1 / 3) / (1 / 3)])
    assert_array_equal(best, [1, 1])


def people_table(n=240):
    """A table with a row counter, an id, a copy, a leak, mistyped categories and missing values."""
    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    age, city = rng.randint(18, 80, n), rng.choice(["Rome", "Oslo", "Bern"], n).astype(object)
    y = np.where(age / 40 + (city == "Oslo") > 1.6, "yes", "no")
    wrong = np.array([3, 50])
    y[wrong] = np.where(y[wrong] == "yes", "no", "yes")
    city[5] = "rome "
    frame = pd.DataFrame({"key": [f"K{i:05d}" for i in range(n)], "at": np.arange(n), "age": age})
    frame["months"], frame["city"], frame["one"] = 12 * age, city, "x"
    frame["fee"] = np.where(rng.rand(n) < 0.25, np.nan, rng.rand(n))
    return frame, y, wrong


@pytest.fixture(scope="module")
def people_check():
    frame, y, _ = people_table()
    return check(frame, y, target="paid")


def test_columns_have_a_profile(people_check):
    frame, _, _ = people_table()
    target, *columns = people_check.profile["rows"]
    assert (target["name"], target["is_target"]) == ("paid", True)
    by_name = {column["name"]: column for column in columns}
    assert list(by_name) == list(frame.columns)
    assert by_name["fee"]["missing"] == frame["fee"].isna().mean()
    assert by_name["age"]["relation"] > 0.2 > 0.1 > by_name["fee"]["relation"]
    assert sum(part["share"] for part in by_name["age"]["bars"][0]["parts"]) == pytest.approx(1)
    flags = {name: " ".join(column["flags"]) for name, column in by_name.items()}
    assert "identifier" in flags["key"]
    assert "counts the rows" in flags["at"]
    assert flags["months"] == "the same information as 'age'"
    assert flags["city"] == "unusual categories"
    assert "one value" in flags["one"]
    assert flags["age"] == flags["fee"] == ""
    assert people_check["categories"]["category"].tolist() == ["rome "]
    pairs = people_check.profile["correlations"]["pairs"]
    assert {pairs[0]["first"], pairs[0]["second"]} == {"age", "months"}
    assert_allclose(pairs[0]["value"], 1.0)
    (missing,) = people_check.profile["missing"]
    assert missing["name"] == "fee"
    assert_allclose(np.mean(missing["blocks"]), by_name["fee"]["missing"])
    for text in ("Columns:", "the same information as 'age'", "relation"):
        assert text in repr(people_check)


def test_findings_have_a_severity(people_check):
    found = people_check.to_dict()["findings"]
    assert found["columns"]["severity"] == found["categories"]["severity"] == "medium"
    assert people_check.severity("imbalance") == "none"
    X = np.column_stack([np.arange(60.0) % 7, np.arange(60.0) // 7])
    assert check(X[[*range(60), 0]], np.arange(61) == 60).severity("repeats") == "high"
    many = np.random.RandomState(0).normal(size=(200, 2))
    assert check(many[[*range(200), 0]], np.arange(201) == 200).severity("repeats") == "medium"


def test_a_relation_by_hand():
    target = Target(np.array([0, 0, 1, 1]), has_classes=True)
    # One row of the overall mean joins the other rows of a group.
    assert_allclose(target.group_means(np.array([0, 0, 1, 1]))[0], [0.75, 0.25])
    assert_allclose(target.explained(np.array([0, 0, 1, 1])), 1 - 0.25)
    assert target.explained(np.zeros(4, dtype=int)) == 0.0


def overlapping(seed, wrong, n=1000):
    """Return probabilities and labels of two classes that overlap, some labels exchanged."""
    rng = np.random.RandomState(seed)
    chance = norm.cdf(rng.normal(scale=2.0, size=n))
    y = (rng.uniform(size=n) < chance).astype(int)
    y[: int(wrong * n)] = 1 - y[: int(wrong * n)]
    # A model that is calibrated to the labels it was given knows about the wrong ones.
    chance = wrong + (1.0 - 2.0 * wrong) * chance
    return np.column_stack([1.0 - chance, chance]), y


def test_overlap_alone_raises_no_alarm_about_labels():
    alarms = [bool(label_issues(*overlapping(seed, 0.0))) for seed in range(40)]
    assert sum(alarms) <= 1


def test_wrong_labels_and_overlap_raise_one():
    found = [label_issues(*overlapping(seed, 0.05)) for seed in range(20)]
    assert sum(map(bool, found)) >= 13
    assert abs(np.mean([part.values["expected"] for part in found]) - 50) < 15


def test_labels_of_a_class_that_is_not_known_are_not_judged():
    rng = np.random.RandomState(0)
    y = (rng.uniform(size=300) < 0.1).astype(int)
    found = label_issues(np.tile([0.9, 0.1], (300, 1)), y)
    assert not found
    assert len(found) == 0
    assert "Most rows of 1 are predicted as another class" in str(found)


def test_flipped_labels_are_found_and_counted():
    X, y = load_breast_cancer(return_X_y=True)
    rng = np.random.RandomState(0)
    flipped = rng.choice(len(y), 57, replace=False)
    noisy = y.copy()
    noisy[flipped] = 1 - noisy[flipped]
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    proba = cross_val_predict(model, X, noisy, cv=5, method="predict_proba")
    found = label_issues(proba, noisy)
    assert abs(found.values["expected"] - 57) < 0.3 * 57
    assert np.isin(found["row"], flipped).mean() > 0.8


def test_good_labels_raise_little():
    X, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    proba = cross_val_predict(model, X, y, cv=5, method="predict_proba")
    found = label_issues(proba, y)
    assert not found
    assert found.values["expected"] < 0.02 * len(y)


def test_a_mistyped_target_is_found():
    X, y = load_diabetes(return_X_y=True)
    y = y.copy()
    y[11] *= 10.0
    model = ConformalRegressor(Ridge(), random_state=0).fit(X, y)
    assert label_issues(model, y)["row"].tolist() == [11]
    assert label_issues(model.held_out_, y)["row"][0] == 11


def test_label_issues_wants_a_column_for_each_label():
    with pytest.raises(ValueError, match="2 columns, y has 3 different labels"):
        label_issues(np.full((3, 2), 0.5), [0, 1, 2])


def test_repeats_exact_and_up_to_rounding():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(50, 3))
    X[7] = X[3]
    X[20] = X[3] * (1.0 + 1e-14)
    found = duplicate_rows(X, np.arange(50) % 2)
    assert found["rows"].tolist() == ["[3, 7, 20]"]
    assert found.values == {"n_repeats": 2, "n_conflicts": 1}


def test_repeats_in_a_frame_of_strings():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"a": ["x", "y", "x", None, None], "b": [1.0, 2.0, 1.0, np.nan, np.nan]})
    assert duplicate_rows(table)["rows"].tolist() == ["[0, 2]", "[3, 4]"]


def test_a_table_without_repeats():
    found = duplicate_rows(np.arange(10.0).reshape(5, 2))
    assert not found
    assert str(found) == "No row of 5 repeats another."


@pytest.mark.parametrize("labels", [True, False])
def test_a_planted_leak_is_found(labels):
    X, y = load_breast_cancer(return_X_y=True) if labels else load_diabetes(return_X_y=True)
    leak = np.random.RandomState(0).normal(scale=0.01 * y.std(), size=len(y)) + y
    found = leaking_columns(np.column_stack([X, leak]), y)
    assert found["column"].tolist() == [f"x{X.shape[1]}"]


def test_a_leak_is_found_in_a_table_wider_than_tall():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(80, 120))
    y = (X[:, 0] + rng.normal(size=80) > 0.0).astype(int)
    X[:, 100] = np.where(y == 1, -1.0, 1.0) * rng.uniform(0.5, 1.0, size=80) ** np.where(y, 1, -1)
    found = check(X, y)
    assert found.found == ["leaks"]
    assert found["leaks"]["column"].tolist() == ["x100"]


def test_clean_tables_leak_nothing():
    for seed in range(5):
        rng = np.random.RandomState(seed)
        X = rng.normal(size=(200, 4))
        y = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=200)
        assert not leaking_columns(X, y)
        assert not leaking_columns(X, y > 0.0)


def test_a_shifted_column_is_found_by_name():
    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    make = lambda shift: pd.DataFrame(  # noqa: E731
        {
            "height": rng.normal(size=300) + shift,
            "weight": rng.normal(size=300),
            "city": rng.choice(["Rome", "Oslo"], 300),
        }
    )
    found = drift(make(0.0), make(0.8))
    assert found["column"].tolist() == ["height"]
    assert found["auc"][0] > 0.6


def test_a_change_in_how_columns_go_together_is_seen():
    rng = np.random.RandomState(0)
    old = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], 500)
    new = rng.multivariate_normal([0, 0], [[1, -0.9], [-0.9, 1]], 500)
    found = drift(old, new)
    assert found
    assert len(found) == 0
    assert found.values["p_value"] < 1e-6
    assert "no single column does" in str(found)


def test_rows_of_the_same_kind_do_not_differ():
    for seed in range(8):
        rng = np.random.RandomState(seed)
        assert not drift(rng.normal(size=(150, 4)), rng.normal(size=(150, 4)))


@pytest.mark.parametrize("n_new", [1, 2, 4, 20])
def test_few_new_rows_are_compared_as_well_as_they_can_be(n_new):
    rng = np.random.RandomState(0)
    old, new = rng.normal(size=(30, 2)), rng.normal(size=(n_new, 2))
    assert not drift(old, new)
    assert check(old, against=new)["drift"].values["found"] is False
    found = drift(old, new + 100.0)
    assert found or n_new < 4
    assert ("a table has one row" in str(found)) == (n_new == 1)


def test_findings_print_themselves():
    found = duplicate_rows(np.zeros((3, 1)))
    assert "[0, 1, 2]" in str(found)
    assert "<table>" in found._repr_html_()


# --- all together ---


@pytest.fixture(scope="module")
def spoiled():
    """Return a check of a table with one of each fault."""
    pd = pytest.importorskip("pandas")
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:200, :4], np.where(y[:200] == 1, "benign", "malignant")
    table = pd.DataFrame(X, columns=["radius", "texture", "perimeter", "area"])
    table["code"] = np.where(y == "benign", 7.0, 3.0) + 0.01 * np.arange(200) / 200
    table["batch"] = 12
    table["site"] = ["A"] * 199 + ["B"]
    table.iloc[17] = table.iloc[4]
    y[17] = y[4]
    new = table.iloc[::3].assign(texture=table["texture"][::3] + 20.0)
    new.iloc[5] = table.iloc[9]
    return check(table, y, against=new)


def test_each_planted_fault_is_found(spoiled):
    found = spoiled
    assert found["repeats"]["rows"].tolist() == ["[4, 17]"]
    assert found["leaks"]["column"].tolist() == ["code"]
    assert found["columns"]["column"].tolist() == ["batch", "site"]
    assert found["drift"]["column"].tolist() == ["texture"]
    assert found["overlap"]["new row"].tolist() == [5]
    assert found["overlap"]["training row"].tolist() == [9]
    assert "imbalance" not in found.found


def test_a_check_prints_itself_in_three_forms(spoiled):
    found = spoiled
    assert "Nothing found: " in repr(found)
    assert "'code' alone predicts" in repr(found)
    assert found._repr_html_().count("<h4>") == len(found.findings)
    frame = found.to_frame()
    assert list(frame.columns) == ["check", "subject", "detail"]
    assert set(frame["check"]) == {name for name in found.found if len(found[name])}
    assert found.to_dict()["findings"]["leaks"]["table"][0]["column"] == "code"


def test_identifiers_and_missing_values_are_named():
    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    table = pd.DataFrame({"a": rng.normal(size=50), "key": [f"k{i}" for i in range(50)]})
    table["gone"] = [1.0, 2.0] * 10 + [None] * 30
    issues = check(table)["columns"]
    assert issues["column"].tolist() == ["key", "gone"]
    assert issues["issue"].tolist() == ["left out, an identifier", "most values missing"]


def test_row_numbers_and_ids_are_named_and_not_compared():
    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    table = pd.DataFrame({"column_0": np.arange(1, 61), "a": rng.normal(size=60)})
    table["Individual ID"] = [f"SSC {i:05d} p {i % 3}" for i in range(60)]
    table.loc[30:, "a"] = table.loc[:29, "a"].to_numpy()  # each row twice
    new = pd.DataFrame({"a": table["a"]})
    found = check(table, against=new)
    assert found["columns"]["column"].tolist() == ["column_0", "Individual ID"]
    issues = ["left out, it counts the rows", "left out, an identifier"]
    assert found["columns"]["issue"].tolist() == issues
    assert "30 " in found["repeats"].summary
    assert not found["drift"]
    assert len(found["overlap"]) == 60


def test_a_wrong_label_and_a_mistyped_target_are_found_by_check():
    X, y = load_breast_cancer(return_X_y=True)
    y = y[:300].copy()
    y[0] = 1 - y[0]
    assert 0 in check(X[:300], y)["labels"]["row"]
    X, y = load_diabetes(return_X_y=True)
    y = y.copy()
    y[11] *= 10.0
    assert check(X, y)["labels"]["row"].tolist() == [11]


def test_a_clean_table_raises_nothing():
    for seed in range(3):
        rng = np.random.RandomState(seed)
        X = rng.normal(size=(300, 3))
        y = X[:, 0] + 0.5 * rng.normal(size=300)
        assert not check(X[:200], y[:200], against=X[200:])


def test_rare_classes_are_named():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(200, 2))
    few = check(X, np.r_[np.zeros(195, dtype=int), np.ones(5, dtype=int)])["imbalance"]
    assert few["label"].tolist() == [1]


def test_coded_missing_values_are_named():
    X = np.random.RandomState(0).rand(50, 2)
    X[:3, 1] = -9999
    found = check(X)["columns"]
    assert found["column"].tolist() == ["x1"]
    assert "may code missing values as numbers" in found.summary


def test_a_class_that_may_be_mistyped_is_named():
    names = ["setosa"] * 90 + ["virginica"] * 90 + ["Setosa", "virginca", "none", "virginica2"]
    found = rare_classes(np.array(names, dtype=object))
    suggested = dict(zip(found["label"].tolist(), found["mistyped?"].tolist(), strict=True))
    assert suggested == {"Setosa": "setosa", "virginca": "virginica", "none": "", "virginica2": ""}
    assert "mistyped?" not in str(rare_classes(np.array(["no"] * 50 + ["yes"])))


def test_a_table_without_targets_is_checked_for_the_rest():
    assert list(check(np.arange(20.0).reshape(10, 2)).findings) == [
        "repeats",
        "columns",
        "categories",
    ]


def test_a_task_is_one_of_two():
    with pytest.raises(ValueError, match="task='clustering'"):
        check(np.eye(3), [0, 1, 0], task="clustering")


def test_targets_of_a_check():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(40, 2))
    names = np.where(X[:, 0] > 0, "yes", "no").astype(object)
    names[3] = None
    with pytest.raises(ValueError, match="y has 1 missing label"):
        check(X, names)
    with pytest.raises(ValueError, match="y has 2 columns"):
        check(X, X)
    assert not check(X, np.array(X[:, 0] > 0, dtype=object))["labels"]


def test_a_row_apart_is_not_judged_but_one_among_others_is():
    """Far from all rows the prediction is an extrapolation that no row confirms."""
    rng = np.random.RandomState(0)
    x = np.append(np.sort(rng.uniform(0, 3, 120)), 6.0)
    y = np.sin(2.0 * x) + 0.02 * rng.normal(size=121)
    assert not check(x[:, None], y)["labels"]
    y[60] += 1.0
    assert check(x[:, None], y)["labels"]["row"].tolist() == [60]


def test_many_levels_of_few_rows_are_no_wrong_labels():
    pandas = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    user, item = rng.randint(200, size=700), rng.randint(80, size=700)
    odds = rng.normal(0, 1.5, 200)[user] + rng.normal(0, 1, 80)[item]
    y = rng.rand(700) < 1 / (1 + np.exp(-odds))
    frame = pandas.DataFrame({"user": user, "item": item}).astype(str).add_prefix("its ")
    frame = frame.apply(lambda column: "u" + column)
    assert not check(frame, y)["labels"]


def test_the_range_of_dates_follows_the_calendar():
    pandas = pytest.importorskip("pandas")
    days = pandas.date_range("2021-01-30", periods=50, freq="9D").strftime("%d.%m.%Y")
    (_, column) = check(pandas.DataFrame({"day": days}), np.arange(50) % 2).profile["rows"]
    assert column["summary"] == f"{days[0]} to {days[-1]}"


def test_repeats_among_numbers_strings_and_dates():
    """No array of NumPy holds them all."""
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    days = [datetime.date(2020, 1, 1), None, datetime.date(2020, 1, 2), None]
    table = {"a": [1.5, 2.0, 1.5, 2.0], "b": ["x", "y", "x", "y"], "day": days}
    for frame in (polars.DataFrame(table), pandas.DataFrame(table)):
        assert duplicate_rows(frame)["rows"].tolist() == ["[1, 3]"]
