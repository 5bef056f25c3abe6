"""Intervals and sets around any model."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes, load_iris, make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import KFold, ShuffleSplit, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from vicinal.uncertainty import ConformalClassifier, ConformalRegressor


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


def test_held_out_predictions_are_those_of_cross_validation(diabetes):
    X, y = diabetes
    folds = KFold(4, shuffle=True, random_state=3)
    model = ConformalRegressor(Ridge(), cv=folds).fit(X, y)
    assert_allclose(model.held_out_, cross_val_predict(Ridge(), X, y, cv=folds))


def test_the_model_is_fitted_to_all_rows(diabetes):
    X, y = diabetes
    model = ConformalRegressor(Ridge()).fit(X, y)
    assert_allclose(model.predict(X), Ridge().fit(X, y).predict(X))


def test_a_frozen_model_is_kept_and_calibrated(diabetes):
    X, y = diabetes
    fitted = Ridge().fit(X[:200], y[:200])
    model = ConformalRegressor(FrozenEstimator(fitted)).fit(X[200:], y[200:])
    assert_allclose(model.held_out_, fitted.predict(X[200:]))
    ends = model.predict_interval(X[:200])
    assert (ends[:, 0] < fitted.predict(X[:200])).all()


def test_two_targets(diabetes):
    X, y = diabetes
    Y = np.column_stack([y, -2.0 * y])
    both = ConformalRegressor(Ridge(), random_state=0).fit(X, Y)
    ends = both.predict_interval(X[:3], 0.8)
    assert ends.shape == (3, 2, 2)
    # The second target is the first, mirrored and twice as wide.
    assert_allclose(ends[:, 1, 1] - ends[:, 1, 0], 2.0 * (ends[:, 0, 1] - ends[:, 0, 0]), rtol=0.3)


def test_more_coverage_is_wider(diabetes):
    X, y = diabetes
    model = ConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
    widths = [np.diff(model.predict_interval(X, c)).mean() for c in (0.5, 0.8, 0.95)]
    assert widths == sorted(widths)


def test_names_reach_a_pipeline(diabetes):
    pd = pytest.importorskip("pandas")
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    assert isinstance(X, pd.DataFrame)
    inner = make_pipeline(make_column_transformer((StandardScaler(), ["bmi", "bp"])), Ridge())
    model = ConformalRegressor(inner, random_state=0).fit(X, y)
    assert model.predict_interval(X.iloc[:2]).shape == (2, 2)
    assert_array_equal(model.feature_names_in_, X.columns)


def test_every_row_must_be_held_out_once(diabetes):
    X, y = diabetes
    with pytest.raises(ValueError, match="must hold every row out exactly once"):
        ConformalRegressor(Ridge(), cv=ShuffleSplit(3)).fit(X, y)


@pytest.mark.parametrize("coverage", [0.0, 1.0, 1.5])
def test_coverage_is_a_chance(diabetes, coverage):
    X, y = diabetes
    model = ConformalRegressor(Ridge()).fit(X, y)
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        model.predict_interval(X[:1], coverage)


def test_weights_need_a_model_that_takes_them(diabetes):
    from sklearn.neighbors import KNeighborsRegressor

    X, y = diabetes
    with pytest.raises(ValueError, match="does not accept it"):
        ConformalRegressor(KNeighborsRegressor()).fit(X, y, sample_weight=np.ones(len(y)))


def test_groups_are_held_out_together(diabetes):
    X, y = diabetes
    groups = np.arange(len(y)) // 2
    doubled = np.repeat(X[::2], 2, axis=0)[: len(y)]
    with pytest.raises(ValueError, match="one group only"):
        ConformalRegressor(Ridge()).fit(doubled, y, groups=np.zeros(len(y)))
    model = ConformalRegressor(Ridge(alpha=1e-6)).fit(doubled, y, groups=groups)
    assert_array_equal(model.held_out_[::2], model.held_out_[1::2])


def test_sets_need_probabilities():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="predict_proba"):
        ConformalClassifier(LinearSVC()).fit(X, y)


@pytest.mark.parametrize("method", ["adaptive", "threshold"])
def test_sets_cover(method):
    X, y = make_classification(
        6000, 6, n_informative=4, n_classes=3, n_clusters_per_class=1, flip_y=0.1, random_state=0
    )
    model = ConformalClassifier(LogisticRegression(), random_state=0).fit(X[:2000], y[:2000])
    accuracy = model.score(X[2000:], y[2000:])
    for coverage in (0.8, 0.95):
        sets = model.predict_set(X[2000:], coverage, method=method)
        # Adaptive sets hold the most probable label, whatever the coverage.
        expected = max(coverage, accuracy) if method == "adaptive" else coverage
        assert abs(sets[np.arange(4000), y[2000:]].mean() - expected) < 0.025


def test_adaptive_sets_of_an_easy_table_are_single_labels():
    X, y = load_iris(return_X_y=True)
    model = ConformalClassifier(LogisticRegression(max_iter=500), random_state=0).fit(X, y)
    assert (model.predict_set(X, 0.8).sum(axis=1) == 1).all()
    assert (model.predict_set(X, 0.8, method="threshold").sum(axis=1) == 0).any()


def test_sets_by_class_cover_the_rare_one():
    X, y = make_classification(8000, 5, weights=[0.93], flip_y=0.02, random_state=0)
    model = ConformalClassifier(LogisticRegression(), random_state=0).fit(X[:4000], y[:4000])
    rare = y[4000:] == 1
    plain = model.predict_set(X[4000:], 0.9, method="threshold")[rare, 1].mean()
    by_class = model.predict_set(X[4000:], 0.9, method="threshold", by_class=True)[rare, 1].mean()
    assert plain < 0.85
    assert abs(by_class - 0.9) < 0.05


def test_local_sets_and_classes_exclude_each_other():
    X, y = load_iris(return_X_y=True)
    model = ConformalClassifier(LogisticRegression(max_iter=500)).fit(X, y)
    with pytest.raises(ValueError, match="use one of them"):
        model.predict_set(X, by_class=True, local=True)
    with pytest.raises(ValueError, match="method='best'"):
        model.predict_set(X, method="best")


def test_far_rows_have_no_support(diabetes):
    X, y = diabetes
    model = ConformalRegressor(Ridge()).fit(X, y)
    assert model.typicality(X[:1] + 100.0)[0] < 0.01


def test_a_table_of_strings_and_missing_values():
    pd = pytest.importorskip("pandas")
    from vicinal.table import TableEncoder

    rng = np.random.RandomState(0)
    n = 300
    city = rng.choice(["Rome", "Oslo", "Bonn"], n)
    table = pd.DataFrame({"city": city, "size": rng.normal(size=n)})
    table.loc[::17, "size"] = np.nan
    y = table["size"].fillna(0.0) + (city == "Rome") * 2.0 * rng.normal(size=n)
    inner = make_pipeline(TableEncoder(), Ridge())
    model = ConformalRegressor(inner, random_state=0).fit(table, y)
    width = np.diff(model.predict_interval(table)).ravel()
    assert width[city == "Rome"].mean() > 2.0 * width[city == "Oslo"].mean()
    assert model.typicality(table.iloc[:2]).shape == (2,)


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_a_model_that_predicts_nan_is_named():
    """GaussianNB predicts NaN for columns whose variance vanishes, and for rows far away."""
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"GaussianNB\(\) predicts nan .* Scale X first"):
        ConformalClassifier(GaussianNB()).fit(1e-300 * X, y)
    model = ConformalClassifier(GaussianNB(), random_state=0).fit(X, y)
    for method in (model.predict_proba, model.predict, model.predict_set):
        with pytest.raises(ValueError, match="X holds 1e"):
            method(np.full((1, 4), 1e300))
