"""Splitters and splits in time: what each model sees, what is scored, and when order matters."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit, TimeSeriesSplit
from sklearn.neighbors import KNeighborsRegressor

from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.auto._fit import depends_on_order
from vicinal.inspection import compare

N = 60
FOLDS = np.arange(N) % 4 - 1  # a fourth of the rows is never held out
PAIRS = [(np.arange(20), np.arange(25, 40)), (np.arange(10, 40), np.arange(40, 60))]


class Spy(RegressorMixin, BaseEstimator):
    """Predicts 0 and records the first column of the rows of every fit and prediction."""

    calls: list = []

    def fit(self, X, y):
        self.rows_ = set(X[:, 0])
        self.calls.append((self.rows_, X.shape[1], []))
        return self

    def predict(self, X):
        next(call for call in self.calls if call[0] is self.rows_)[2].extend(X[:, 0])
        return np.zeros(len(X))


@pytest.fixture
def calls():
    """Rows of every fit but the last one, the number of columns, and the rows predicted."""
    Spy.calls = []
    return Spy.calls


def fit_spy(cv, X=None, **options):
    X = np.c_[np.arange(N, dtype=float), np.ones(N)] if X is None else X
    y = np.random.RandomState(0).normal(size=N)
    groups = options.pop("groups", None)
    return AutoRegressor([("spy", Spy())], cv=cv, **options).fit(X, y, groups=groups), y


@pytest.mark.parametrize(
    "cv",
    [KFold(3), GroupKFold(3), TimeSeriesSplit(4, gap=3), PredefinedSplit(FOLDS), PAIRS],
    ids=lambda cv: type(cv).__name__,
)
def test_splits_are_followed_exactly(cv, calls):
    groups = np.repeat(np.arange(12), 5) if isinstance(cv, GroupKFold) else None
    fit_spy(cv, groups=groups)
    pairs = PAIRS if cv is PAIRS else cv.split(np.zeros((N, 1)), None, groups)
    assert [(rows, set(new)) for rows, _, new in calls[:-1]] == [
        (set(train), set(test)) for train, test in pairs
    ]
    assert len(calls[-1][0]) == N


def test_time_splits_show_only_the_past(calls):
    model, _ = fit_spy("time")
    assert [(max(rows) < min(new), len(rows)) for rows, _, new in calls[:-1]] == [
        (True, 10 * k) for k in range(1, 6)
    ]
    # The first block is never held out; the next one has no earlier prediction to choose by.
    assert_array_equal(np.isfinite(model.held_out_), np.arange(N) >= 20)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_time_column_orders_the_rows(kind, calls):
    frames = pytest.importorskip(kind)
    days = np.random.RandomState(1).permutation(np.repeat(np.arange(20), 3))
    dates = np.datetime64("2024-01-01") + days.astype("timedelta64[D]")
    # A category that appears late has no column before.
    colors = np.where(days > 12, "late", np.where(days % 2, "red", "blue"))
    X = frames.DataFrame({"day": days.astype(float), "date": dates, "color": colors})
    fit_spy("time", X, time_column="date")
    past = calls[:-1]
    assert [max(rows) < min(new) for rows, _, new in past] == [True] * 5
    # Rows of the same day are not split: all earlier days are learned from.
    assert [max(rows) for rows, _, _ in past] == [min(new) - 1 for _, _, new in past]
    assert past[0][1] < past[-1][1]


def test_groups_are_not_split_in_time(calls):
    groups = np.arange(N) // 4
    fit_spy("time", groups=groups)
    assert [len(rows) for rows, _, _ in calls[:-1]] == [8, 20, 28, 40, 48]
    for rows, _, new in calls[:-1]:
        assert not set(groups[np.array(list(rows), int)]) & set(groups[np.array(new, int)])


def test_the_pooled_loss_and_the_score_are_of_held_out_rows():
    X, y = np.zeros((N, 1)), np.random.RandomState(0).normal(size=N)
    model = AutoRegressor([("mean", DummyRegressor())], cv="time").fit(X, y)
    means = np.concatenate([np.full(10, y[:start].mean()) for start in range(10, N, 10)])
    errors = (y[10:] - means) ** 2 / y.var()
    assert_allclose(model.estimators_[0].loss, errors.mean())
    assert_allclose(model.score_, 1.0 - errors[10:].mean())


def test_a_class_seen_late_is_predicted_after_it_is_seen():
    X = np.random.RandomState(0).normal(size=(240, 2))
    y = np.where((np.arange(240) > 50) & (X[:, 0] > 0.0), "b", "a")
    families = ["constant", ("logistic", LogisticRegression())]
    model = AutoClassifier(families, cv="time", random_state=0).fit(X, y)
    assert model.score_ > 0.65


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cv": 5, "time_column": 0}, "needs cv='time'"),
        ({"cv": "time", "time_column": "day"}, "must be an index"),
        ({"cv": [PAIRS[0]]}, "no split whose training rows were predicted"),
        ({"cv": [PAIRS[0], (np.arange(30), np.arange(29, 40))]}, "no row may be in both"),
        ({"cv": GroupKFold(3)}, "groups"),
        ({"cv": "date"}, "'cv' parameter"),
    ],
)
def test_invalid_splits_are_refused_before_any_work(options, message, calls):
    with pytest.raises(ValueError, match=message):
        fit_spy(**options)
    assert not calls


# --- the order of the rows ------------------------------------------------------------------------


def series(n_rows, seed=0):
    """A level that forgets its past in about 20 rows, and a column that always helps."""
    rng = np.random.RandomState(seed)
    level = np.zeros(n_rows)
    for t in range(1, n_rows):
        level[t] = 0.95 * level[t - 1] + np.sqrt(1.0 - 0.95**2) * rng.normal()
    helps = rng.normal(size=n_rows)
    return np.c_[np.arange(n_rows), 0.5 * helps], 2.0 * level + helps + 0.3 * rng.normal(
        size=n_rows
    )


FAMILIES = ["constant", ("line", LinearRegression()), ("near", KNeighborsRegressor(3))]


def later(model, X, y):
    ends = model.predict_interval(X, coverage=0.9)
    return model.score(X, y), np.mean((ends[:, 0] <= y) & (y <= ends[:, 1]))


def test_random_folds_of_a_series_are_too_optimistic_and_warn():
    X, y = series(1200)
    with pytest.warns(UserWarning, match=r'order of the rows predicts.*use cv="time"'):
        model = AutoRegressor(FAMILIES, random_state=0).fit(X[:600], y[:600])
    score, coverage = later(model, X[600:], y[600:])
    assert model.score_ > score + 0.4
    assert coverage < 0.75


def test_splits_in_time_estimate_later_rows():
    X, y = series(1200)
    model = AutoRegressor(FAMILIES, cv="time", random_state=0).fit(X[:600], y[:600])
    score, coverage = later(model, X[600:], y[600:])
    assert abs(model.score_ - score) < 0.2
    assert coverage > 0.85


def test_errors_that_drift_are_warned_of():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 2))
    y = 4.0 * X[:, 0] + np.linspace(-1.0, 1.0, 300) + 0.3 * rng.normal(size=300)
    with pytest.warns(UserWarning, match="held-out errors depend on the order"):
        AutoRegressor([("line", LinearRegression())], random_state=0).fit(X, y)


@pytest.mark.parametrize("groups", [None, np.arange(300) // 3])
def test_classes_that_come_in_runs_are_warned_of_without_groups(groups, recwarn):
    y = np.repeat(np.random.RandomState(0).randint(2, size=100), 3)
    model = AutoClassifier(["constant"]).fit(np.zeros((300, 1)), y, groups=groups)
    assert [str(one.message)[:34] for one in recwarn] == ["the order of the rows predicts the"] * (
        groups is None
    )
    assert model.score_ > 0.3


def test_random_order_and_rows_sorted_by_the_target_are_not_warned_of():
    rng = np.random.RandomState(0)
    assert not any(depends_on_order(rng.normal(size=(100, 3)), 0.0) for _ in range(300))
    for y in (np.repeat([0, 2, 1], 50), np.sort(rng.normal(size=150))):
        auto = AutoRegressor if y.dtype.kind == "f" else AutoClassifier
        auto(["constant"]).fit(np.zeros((150, 1)), y)


def test_compare_splits_in_time_and_so_do_its_auto_models():
    pandas = pytest.importorskip("pandas")
    X, y = series(120)
    days = np.random.RandomState(2).permutation(120)
    X = pandas.DataFrame({"day": days, "x": X[days, 1]})
    models = {"auto": AutoRegressor(["constant"]), "line": LinearRegression()}
    board = compare(models, X, y[days], cv="time", time_column="day")
    auto, line = sorted(board.entries, key=lambda entry: entry.name)
    assert not auto.error
    assert len(line.scores) == 5
    for entry in board.entries:
        train, test = board.fold_of(entry)
        assert days[train].max() < days[test].min()
    with pytest.raises(ValueError, match="needs cv='time'"):
        compare(models, X, y, time_column="day")
