"""Parts of the page against numbers made by hand, by scikit-learn, or known beforehand."""

import numpy as np
import pytest
from sklearn import metrics
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from tests.versions import needs_sklearn

from vicinal._base._held_out import OutOfFold
from vicinal._base._tables import column_values
from vicinal.inspection.checks._profile import EncodedTable, profile
from vicinal.report._held_out import effects, held_out_predictions, importance, row_losses
from vicinal.report._page import Axis
from vicinal.report._quality import calibration, coverage, ranking, residuals, thresholds, wilson
from vicinal.report._table import segments, with_column
from vicinal.table import TableEncoder

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

NO_END = 1e9


@pytest.fixture
def people(rng):
    """A table of all kinds: the target follows age and city, not height."""
    n = 240
    table = pd.DataFrame(
        {
            "age": rng.randint(18, 80, n),
            "city": pd.Categorical(rng.choice(["Rome", "Oslo", "Lima"], n)),
            "height": rng.normal(170, 8, n),
        }
    )
    table.loc[::9, "height"] = np.nan
    y = np.where(table["age"] + 30 * (table["city"] == "Rome") > 60, "yes", "no")
    return table, y


# --- axes ---


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([0, 1], ["0", "0.25", "0.5", "0.75", "1"]),
        ([25, 346], ["100", "200", "300"]),
        ([-0.03, 0.05], ["-0.02", "0", "0.02", "0.04"]),
        ([49_000, 51_000], ["49,000", "49,500", "50,000", "50,500", "51,000"]),
        ([3, 3], ["2.5", "2.75", "3", "3.25", "3.5"]),
        ([], ["0", "0.25", "0.5", "0.75", "1"]),
    ],
)
def test_ticks_are_round(values, texts):
    assert [tick["text"] for tick in Axis(values, "x").as_dict()["ticks"]] == texts


def test_positions_follow_the_values_and_stay_in_the_plot():
    axis = Axis([], "x", low=10, high=20)
    assert axis.at([10, 15, 20, 99, -99]) == [0, 0.5, 1, 1, 0]


# --- columns of tables of any kind ---


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, lambda table: table.to_numpy()])
def test_a_column_is_exchanged_and_nothing_else(people, kind):
    table = kind(people[0])
    index = np.roll(np.arange(240), 7)
    changed = with_column(table, 1, table, index)
    assert column_values(changed, 1) == list(np.array(column_values(table, 1))[index])
    for j in (0, 2):
        assert column_values(changed, j) == column_values(table, j)


def test_exchanged_categories_stay_categories(people):
    changed = with_column(people[0], 1, people[0], np.zeros(240, dtype=int))
    assert changed["city"].dtype == people[0]["city"].dtype


# --- calibration and decisions ---


def test_intervals_of_shares_are_those_of_scipy():
    from scipy.stats import binomtest

    for right, count in [(0, 5), (3, 11), (200, 200)]:
        exact = binomtest(right, count).proportion_ci(0.95, "wilson")
        np.testing.assert_allclose(wilson(right / count, count), exact, atol=1e-4)


def test_calibration_has_no_points_where_there_are_no_rows():
    p = np.repeat([0.05, 0.95], [30, 10])
    y = np.repeat([0, 1, 1], [29, 1, 10])
    found = calibration(y, np.column_stack([1 - p, p]), np.array([0, 1]), 1)
    assert [(point["bin"], point["count"]) for point in found["points"]] == [(0, 30), (9, 10)]
    assert all(point["low"] < point["observed"] <= point["high"] for point in found["points"])
    other = calibration(y, np.column_stack([1 - p, p]), np.array([0, 1]), 0)
    assert other["of"] == "P(0)"
    assert other["points"][0]["observed"] == 0.0


def test_curves_are_those_of_scikit_learn(rng):
    y = rng.randint(2, size=200)
    p = np.clip(0.5 + 0.3 * (y - 0.5) + 0.2 * rng.normal(size=200), 0, 1)
    found = ranking(y, np.column_stack([1 - p, p]), np.array([0, 1]), 1)
    (curve,) = found["curves"]
    assert curve["auc"] == pytest.approx(metrics.roc_auc_score(y, p))
    assert curve["average_precision"] == pytest.approx(metrics.average_precision_score(y, p))
    for points in (curve["roc"], curve["precision_recall"]):
        assert np.all(np.diff([x for x, _ in points]) >= 0)
    assert ranking(np.zeros(9, dtype=int), np.full((9, 2), 0.5), np.array([0, 1]), 1) is None


def test_many_classes_have_a_curve_each(rng):
    y = rng.randint(3, size=90)
    proba = rng.dirichlet(np.ones(3), 90)
    found = ranking(y, proba, np.arange(3), 1)
    assert sorted(curve["label"] for curve in found["curves"]) == ["0", "1", "2"]
    assert thresholds(y, proba, np.arange(3), 1) is None


def test_thresholds_count_as_scikit_learn_does(rng):
    y = np.where(rng.rand(300) < 0.2, "bad", "good")
    p = np.where(y == "bad", rng.beta(4, 3, 300), rng.beta(2, 6, 300))
    found = thresholds(y, np.column_stack([p, 1 - p]), np.array(["bad", "good"]), 0)
    assert (found["positive"], found["negative"]) == ("bad", "good")
    for point in found["points"][::17]:
        predicted = np.where(p >= point["threshold"], "bad", "good")
        matrix = metrics.confusion_matrix(y, predicted, labels=["good", "bad"])
        keys = ("true_negative", "false_positive", "false_negative", "true_positive")
        counts = [point[key] for key in keys]
        assert matrix.ravel().tolist() == counts
        assert point["f1"] == pytest.approx(metrics.f1_score(y, predicted, pos_label="bad"))
    table = {row["name"]: row for row in found["table"]}
    assert table["0.5"]["threshold"] == 0.5
    assert table["best F1"]["f1"] == max(point["f1"] for point in found["points"])
    wrong = [point["false_positive"] + point["false_negative"] for point in found["points"]]
    best = table["highest accuracy"]
    assert best["false_positive"] + best["false_negative"] == min(wrong)


# --- numbers ---


def test_residuals_by_hand():
    y, prediction = np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0])
    found = residuals(y, prediction, np.arange(3))
    assert found["bias"] == pytest.approx(1 / 3)
    assert [point["x"] for point in found["points"]] == pytest.approx([0, 2 / 3, 1 / 3], abs=1e-4)
    assert [point["y"] for point in found["points"]] == pytest.approx([0, 1 / 3, 1], abs=1e-4)
    assert sum(bar["count"] for bar in found["bars"]) == 3


def test_intervals_hold_what_they_promise(rng):
    y = rng.normal(size=2000)
    found = coverage(y, np.zeros(2000), np.random.RandomState(0))
    for row in found["levels"]:
        assert row["low"] <= row["level"] <= row["high"]
    assert found["levels"][2]["reach"] == pytest.approx(1.645, abs=0.12)
    assert coverage(y[:20], np.zeros(20), np.random.RandomState(0)) is None


# --- columns ---


class OnlyFirst(RegressorMixin, BaseEstimator):
    """Predicts three times the first column."""

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return 3.0 * np.asarray(X)[:, 0]


def test_importance_is_the_rise_of_the_loss(rng):
    X = rng.normal(size=(400, 3))
    y = 3 * X[:, 0]
    held_out = held_out_predictions(OnlyFirst().fit(X, y), X, None, None)
    found = importance(held_out, X, y, np.random.RandomState(0), NO_END)
    first, *others = found["rows"]
    assert first["name"] == "x0"
    # E|3 (a - b)| for independent normal a and b is 3 * 2 / sqrt(pi)
    assert first["rise"] == pytest.approx(6 / np.sqrt(np.pi), abs=5 * first["error"])
    assert [row["rise"] for row in others] == [0, 0]
    assert [row["shown"][0] for row in others] == [
        "0.000",
        "0.000",
    ]  # as many decimals as the first
    assert found["loss"] == 0.0
    assert (found["unit"], found["n_left"]) == ("mean absolute error", 0)


def test_importance_of_unused_columns_is_left_out(rng):
    X = rng.normal(size=(100, 2))
    model = LinearRegression().fit(X, np.zeros(100))
    held_out = held_out_predictions(model, X, None, None)
    assert importance(held_out, X, rng.normal(size=100), np.random.RandomState(0), NO_END) is None


def test_importance_is_by_column_of_the_table_and_keeps_to_its_time(people):
    X, y = people
    model = make_pipeline(TableEncoder(), LogisticRegression(max_iter=2000)).fit(X[::2], y[::2])
    held_out = held_out_predictions(model, X, None, np.arange(1, 240, 2))
    rows = X.iloc[1::2]
    found = importance(held_out, rows, y[1::2], np.random.RandomState(0), NO_END)
    assert {row["name"] for row in found["rows"]} == {"age", "city", "height"}
    assert [row["name"] for row in found["rows"] if row["is_clear"]] == ["age", "city"]
    hurried = importance(held_out, rows, y[1::2], np.random.RandomState(0), 0.0)
    assert hurried is None


def test_effect_of_a_linear_model_is_its_slope(rng):
    X = rng.uniform(-1, 1, size=(300, 2))
    y = 2 * X[:, 0] - X[:, 1]
    held_out = held_out_predictions(LinearRegression().fit(X, y), X, None, None)
    found = effects(held_out, X, [0], 1, NO_END)
    (part,) = found["columns"]
    (line,) = part["lines"]
    low, high = line["points"][0], line["points"][-1]
    reach = np.quantile(X[:, 0], 0.98) - np.quantile(X[:, 0], 0.02)
    assert high["mean"] - low["mean"] == pytest.approx(2 * reach, rel=0.02)
    # All rows move alike, so the bands have no width.
    assert all(point["p90"] - point["p10"] < 1e-9 for point in line["points"])
    assert high["y_mean"] > low["y_mean"]


def test_effects_of_levels_and_of_numbers(people):
    X, y = people
    model = make_pipeline(TableEncoder(), LogisticRegression(max_iter=2000)).fit(X, y)
    held_out = held_out_predictions(model, X, None, None)
    found = effects(held_out, X, [0, 1], 1, NO_END)
    age, city = found["columns"]
    assert found["y"]["label"] == "P(yes)"
    assert age["lines"][0]["points"][0]["mean"] < age["lines"][0]["points"][-1]["mean"]
    heights = dict(zip(city["labels"], city["lines"][0]["points"], strict=True))
    assert max(heights, key=lambda level: heights[level]["mean"]) == "Rome"
    assert all(p["low"] <= p["mean"] <= p["high"] for p in heights.values())


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas])
def test_numbers_in_strings_and_dates_are_used_in_order(rng, kind):
    price = rng.uniform(100, 9000, 120)
    days = rng.randint(0, 2000, 120)
    table = kind(
        pd.DataFrame(
            {
                "price": [f"€ {value:,.2f}" for value in price],
                "since": (np.datetime64("2019-01-01") + days).astype(str),
            }
        )
    )
    model = make_pipeline(TableEncoder(), LinearRegression()).fit(table, price - 3.0 * days)
    held_out = held_out_predictions(model, table, None, None)
    dear, late = effects(held_out, table, [0, 1], 1, NO_END)["columns"]
    assert dear["labels"] is None
    assert dear["lines"][0]["points"][0]["mean"] < dear["lines"][0]["points"][-1]["mean"]
    assert late["labels"] == sorted(late["labels"])
    assert late["lines"][0]["points"][0]["mean"] > late["lines"][0]["points"][-1]["mean"]


# --- segments and profile ---


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas])
def test_segments_find_where_errors_are(rng, kind):
    n = 600
    table = pd.DataFrame({"age": rng.randint(18, 80, n), "city": rng.choice(["Rome", "Oslo"], n)})
    wrong = rng.rand(n) < np.where((table["age"] > 50) & (table["city"] == "Rome"), 0.7, 0.05)
    found = segments(EncodedTable(kind(table)), wrong.astype(float), True, np.random.RandomState(0))
    worst = found["rows"][0]
    predicted = " and ".join(worst["conditions"])
    assert "city = Rome" in predicted or "city is not Oslo" in predicted
    assert "age" in predicted
    assert worst["low"] < 0.7 < worst["high"] + 0.1
    assert sum(row["count"] for row in found["rows"]) == found["n_rows"] == 300


def test_no_segment_stands_out_of_noise(rng):
    table = EncodedTable(rng.normal(size=(400, 3)))
    found = [
        segments(table, (rng.rand(400) < 0.2).astype(float), True, np.random.RandomState(seed))
        for seed in range(10)
    ]
    assert sum(part is None for part in found) >= 8


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas])
def test_profile_by_hand(people, kind):
    table, y = people
    found = profile(kind(table), EncodedTable(kind(table)), y, "outcome")
    target, age, city, height = found["rows"]
    assert (target["name"], target["is_target"], target["kind"]) == ("outcome", True, "category")
    assert age["n_distinct"] == table["age"].nunique()
    assert (city["kind"], city["n_distinct"]) == ("category", 3)
    assert height["n_missing"] == 27
    assert height["summary"].startswith(f"{table['height'].min():.4g} to ")
    assert found["n_missing"] == 27


# --- predictions ---


class Sure(ClassifierMixin, BaseEstimator):
    """Labels without probabilities."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.classes_[(np.asarray(X)[:, 0] > 0).astype(int)]


def test_losses_of_models_without_probabilities(rng):
    X = rng.normal(size=(60, 1))
    y = np.where(X[:, 0] > 0.3, "b", "a")
    held_out = held_out_predictions(Sure().fit(X, y), X, None, None)
    losses, name = row_losses(held_out.predictions, y)
    assert name == "error rate"
    assert losses.mean() == np.mean((X[:, 0] > 0) != (y == "b"))


@needs_sklearn("1.7", "Brier score of several classes")
def test_losses_are_the_brier_score_of_scikit_learn(rng):
    X = rng.normal(size=(90, 2))
    for n_classes in (2, 3):
        y = rng.randint(n_classes, size=90)
        held_out = held_out_predictions(LogisticRegression().fit(X, y), X, None, None)
        losses, name = row_losses(held_out.predictions, y)
        proba = held_out.predictions.proba[:, 1] if n_classes == 2 else held_out.predictions.proba
        assert name == "Brier score"
        assert losses.mean() == pytest.approx(metrics.brier_score_loss(y, proba))


def test_a_class_that_the_model_does_not_know_has_probability_zero(rng):
    X, y = rng.normal(size=(40, 2)), np.repeat([0, 1], 20)
    model = LogisticRegression().fit(X, y)
    predictions = OutOfFold(np.arange(40), y, np.full((40, 3), 1 / 3), np.arange(3))
    held_out = held_out_predictions(model, X, predictions, np.arange(5))
    np.testing.assert_array_equal(held_out.predictions.proba[:5, 2], 0.0)
    np.testing.assert_array_equal(held_out.predictions.proba[5:, 2], 1 / 3)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.123456, "0.1235"),
        (1234, "1234"),
        (12345, "12,345"),
        (7.5e7, "75,000,000"),
        (np.float64(0.5), "0.5"),
        (float("nan"), ""),
        (True, "True"),
        ("word", "word"),
    ],
)
def test_one_number_format_for_texts_and_pages(value, expected):
    from vicinal._base._explanation import show
    from vicinal.report._page import number

    assert number(value) == expected
    if expected:
        assert show(value) == expected


def test_ticks_of_large_numbers_are_short():
    texts = [tick["text"] for tick in Axis([0, 1.2e8], "price").as_dict()["ticks"]]
    assert texts == ["0", "50M", "100M"]
