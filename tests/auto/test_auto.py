"""Mixtures of members by their held-out answers."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, make_blobs
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import recall_score, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from vicinal._base import HeldOut, _clock
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.auto import _encodings as auto_encodings
from vicinal.auto import _search as auto_search
from vicinal.auto._base_models import (
    FAMILIES,
    TableShape,
    _statistics,
    boosting,
    default_families,
)
from vicinal.auto._linear import LinearClassifier
from vicinal.auto._scorers import ClassScorer
from vicinal.auto._search import Search, Skipped, Trial, TrialData, split_folds
from vicinal.local import LocalClassifier

QUICK = ["constant", "local", "linear"]


def blobs(n_rows=120, seed=0, **settings):
    return make_blobs(n_rows, centers=3, cluster_std=3.0, random_state=seed, **settings)


def fitted(**settings):
    X, y = blobs()
    return AutoClassifier(**{"members": QUICK, "random_state": 0, **settings}).fit(X, y), X, y


# --- tables of many rows ------------------------------------------------------------------------


@pytest.fixture
def tried_on_few(monkeypatch):
    monkeypatch.setattr(auto_search, "_MAX_TABLE", 150)


@pytest.mark.filterwarnings("ignore:too few rows of a class")
def test_members_are_tried_on_some_rows_and_fitted_to_all(tried_on_few):
    X = np.random.RandomState(0).normal(size=(400, 3))
    y = (X[:, 0] * X[:, 1] > 0.0).astype(int)
    y[:4] = 7  # so rare that a draw would lose it
    members = ["gradient", ("tree", DecisionTreeClassifier(max_depth=3, random_state=0))]
    model = AutoClassifier(members, random_state=0).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 7]
    assert 150 <= np.isfinite(model.held_out_[:, 0]).sum() <= 154
    kept = [member for member in model.members_ if member.weight > 0.0]
    assert "standardized gradient" in [member.name for member in kept]
    for member in kept:
        # Probabilities may differ by the temperature, which the trial has found.
        again = clone(member.estimator).set_params(**member.params).fit(X, y)
        assert_array_equal(member.estimator.predict(X), again.predict(X))


def test_numbers_of_many_rows_are_fitted_to_all(tried_on_few):
    X = np.random.RandomState(0).normal(size=(400, 3))
    y = X[:, 0] ** 2 + 0.1 * X[:, 1]
    model = AutoRegressor(["local"], random_state=0).fit(X, y)
    assert np.isfinite(model.held_out_).sum() == 150
    assert model.members_[0].estimator.neighbors(X[:1]).shape == (1, 400)
    # What was learned from 150 rows is the choice alone: with all rows the answers are better.
    assert model.score(X, y) > model.score_


@pytest.mark.parametrize(
    ("is_classification", "names"), [(True, ["svm"]), (False, ["svm", "kernel"])]
)
def test_members_that_many_rows_are_too_much_for_are_named(is_classification, names):
    shape = TableShape(10**6, 54, 2, is_classification, False, None, 1)
    left = {kind: reason for kind, reason in default_families(shape).items() if "rows" in reason}
    assert list(left) == names


# --- what the mixture is --------------------------------------------------------------------------


def test_contributions_add_up_to_the_probabilities():
    model, X, _ = fitted(members="default")
    parts = model.contributions(X)
    assert parts.shape == (len(X), (model.weights_ > 0).sum(), 3)
    np.testing.assert_allclose(parts.sum(axis=1), model.predict_proba(X), atol=1e-12)
    np.testing.assert_allclose(
        parts.sum(axis=2), np.tile(model.weights_[model.weights_ > 0], (len(X), 1))
    )


def test_contributions_add_up_to_the_prediction():
    X, y = load_diabetes(return_X_y=True)
    model = AutoRegressor(QUICK, random_state=0).fit(X[:150], y[:150])
    np.testing.assert_allclose(
        model.contributions(X[150:])[..., 0].sum(axis=1), model.predict(X[150:]), rtol=1e-12
    )


def test_weights_are_few_of_sum_one_and_in_order():
    model, _, _ = fitted(members="default")
    weights = model.weights_
    assert weights.sum() == pytest.approx(1.0)
    assert (np.diff(weights) <= 0).all()
    assert 1 <= (weights > 0).sum() <= 6
    assert weights[weights > 0].min() >= 0.02


def test_a_member_that_knows_takes_the_weight_of_one_that_does_not():
    X, y = make_blobs(120, centers=3, random_state=0)
    members = [("blind", DummyClassifier()), ("wise", LogisticRegression())]
    model = AutoClassifier(members, random_state=0).fit(X, y)
    assert model.members_[0].name == "wise"
    assert model.weights_[0] == 1.0


def test_the_constant_answers_where_nothing_is_known():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(90, 4)), rng.permutation(np.repeat([0, 1, 2], 30))
    model = AutoClassifier(QUICK, random_state=0).fit(X, y)
    assert model.members_[0].name == "constant"
    assert model.weights_[0] == 1.0
    np.testing.assert_allclose(model.predict_proba(X), 1 / 3, atol=1e-6)


def test_held_out_answers_come_from_models_that_had_not_seen_the_row():
    # A tree grown to the end knows every row it has seen; of coin labels it knows no other.
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(200, 4)), rng.randint(2, size=200)
    model = AutoClassifier([("tree", DecisionTreeClassifier())], random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0
    assert abs(model.score_ - 0.5) < 4 * model.score_error_
    own = model.held_out_[np.arange(200), y]
    assert own.mean() < 0.6


def test_score_is_what_new_rows_get():
    X, y = load_breast_cancer(return_X_y=True)
    model = AutoClassifier(QUICK, random_state=0).fit(X[:350], y[:350])
    error = np.hypot(model.score_error_, np.sqrt(0.04 * 0.96 / 219))
    assert abs(model.score_ - model.score(X[350:], y[350:])) < 2.5 * error


def test_rows_all_answered_rightly_leave_a_doubt():
    X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 40, axis=0) + np.arange(80.0)[:, None] / 100
    model = AutoClassifier(["linear"], random_state=0).fit(X, np.repeat(["a", "b"], 40))
    assert model.score_ == pytest.approx(1.0)
    assert model.score_error_ == pytest.approx(1.5 / 80)


def test_labels_nearly_all_different_are_said_once():
    X = np.random.RandomState(0).normal(size=(60, 2))
    y = [f"id {max(k, 1)}" for k in range(60)]
    with pytest.warns(UserWarning, match="unique classes") as found:
        AutoClassifier(["local", "linear"], random_state=0).fit(X, y)
    assert len(found) == 1


def test_rows_of_a_group_are_one_witness():
    X, y = blobs(60)
    groups = np.repeat(np.arange(60), 4)
    once = AutoClassifier(["linear"], random_state=0).fit(X, y, groups=np.arange(60))
    X, y = np.repeat(X, 4, axis=0), np.repeat(y, 4)
    four = AutoClassifier(["linear"], random_state=0).fit(X, y, groups=groups)
    assert four.score_error_ == pytest.approx(once.score_error_, rel=0.3)


def test_everything_tried_is_named_with_its_loss_or_its_reason():
    class Broken(ClassifierMixin, BaseEstimator):
        def fit(self, X, y, sample_weight=None):
            raise RuntimeError("out of luck")

    X, y = blobs()
    members = [("good", LogisticRegression()), ("broken", Broken())]
    with pytest.warns(UserWarning, match="'broken' is skipped: RuntimeError: out of luck"):
        model = AutoClassifier(members, random_state=0).fit(X, y)
    by_name = {member.name: member for member in model.members_}
    assert by_name["broken"].reason == "RuntimeError: out of luck"
    assert np.isfinite(by_name["good"].loss)
    assert by_name["good"].fit_time >= 0.0
    table = model.leaderboard()
    assert list(table["name"]) == ["good", "broken"]
    page = model._repr_html_()
    assert "out of luck" in page
    assert "held-out score" in page


def test_no_member_at_all_is_an_error_that_says_why():
    X, y = blobs()
    with pytest.raises(ValueError, match=r"No base model .* takes no sample_weight"):
        AutoClassifier([("near", KNeighborsClassifier())]).fit(
            X, y, sample_weight=np.arange(1, 121)
        )


def test_cv_results_hold_every_setting():
    model, _, _ = fitted()
    names = model.cv_results_["member"]
    assert len(names) == len(model.cv_results_["params"]) == len(model.cv_results_["loss"])
    best = {m.name: m for m in model.members_}["standardized ridge"]
    own = model.cv_results_["loss"][names == "standardized ridge"]
    assert best.loss == pytest.approx(own.min())


def test_the_reasons_of_one_row_add_up():
    X, y = blobs()
    names = np.array(["oak", "fir", "elm"])[y]
    model = AutoClassifier(["local", "linear"], random_state=0).fit(X, names)
    section, neighbors = model.explain_row(X[:1])
    said = model.predict(X[:1])[0]
    assert section.columns == ("member", "prediction", "probability", "weight", "contribution")
    total = sum(row[4] for row in section.rows)
    assert total == pytest.approx(model.predict_proba(X[:1]).max(), abs=1e-12)
    assert section.summary.endswith(f"add up to the probability of {said}.")
    for _, _, probability, weight, part in section.rows:
        assert part == pytest.approx(weight * probability)
    assert all(names[row] == target for row, target, _ in neighbors.rows)
    shares = [weight for _, _, weight in neighbors.rows]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) <= neighbors.values["local_weight"] + 1e-12


@pytest.mark.parametrize(("n_neighbors", "is_wide"), [(8, False), (119, True)])
def test_a_neighbourhood_of_nearly_all_rows_is_called_so(n_neighbors, is_wide):
    X, y = blobs()
    local = LocalClassifier(n_neighbors=n_neighbors, alpha=1.0)
    section = AutoClassifier([("local", local)], random_state=0).fit(X, y).explain_row(X[:1])[1]
    assert f"listened to {len(section.rows)} of {len(y)} training rows" in section.summary
    assert ("hardly a neighbourhood" in section.summary) == is_wide


def test_neighbours_keep_their_place_in_the_table():
    X, y = blobs()
    names = np.array(["oak", "fir", "elm"])[y]
    weight = (np.arange(len(y)) >= 10).astype(float)
    model = AutoClassifier(["local"], random_state=0).fit(X, names, sample_weight=weight)
    rows = model.explain_row(X[:1])[1].rows
    assert rows[0][0] >= 10
    assert all(names[row] == target for row, target, _ in rows)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_neighbours_are_shown_as_they_were_written(kind, tmp_path):
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
def test_training_rows_come_back_as_the_table_was(kind):
    """What the mixture says of its own rows, given back, is what it said of the table."""
    import datetime

    lib = pytest.importorskip(kind)
    rng = np.random.RandomState(1)
    days = [datetime.datetime(2024, 1, 1, k % 24) + datetime.timedelta(days=k) for k in range(60)]
    columns = {
        "day": days,
        "wait": [datetime.timedelta(minutes=int(k)) for k in rng.randint(90, size=60)],
        "town": [None if k % 7 == 0 else f"town {k % 3}" for k in range(60)],
        "member": [None if k % 5 == 0 else bool(k % 2) for k in range(60)],
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
def test_nested_columns_are_left_out_and_explained_around(kind):
    from vicinal.inspection import explain

    lib = pytest.importorskip(kind)
    X, y = blobs()
    frame = lib.DataFrame({"a": X[:, 0], "tags": [[1, 2]] * len(y)})
    model = AutoClassifier(["local"], random_state=0).fit(frame, y)
    assert model.background(frame[:1]) is None
    assert explain(model, frame[:1])["neighbors"].rows


def test_objects_of_one_kind_are_targets():
    from decimal import Decimal

    X, y = blobs()
    truths = np.array(y == 1, dtype=object)
    model = AutoClassifier(["local"], random_state=0).fit(X, truths)
    assert model.classes_.dtype == bool
    prices = [Decimal(str(round(value, 2))) for value in X[:, 0]]
    assert AutoRegressor(["local"], random_state=0).fit(X, prices).score_ > 0.9


def test_reasons_of_several_targets():
    from vicinal.inspection import explain

    X, _ = blobs()
    model = AutoRegressor(["local"], random_state=0).fit(X, X[:, :2])
    assert "np.float64" not in str(explain(model, X[:1]))


def test_a_mixture_compares_with_its_own_rows():
    from vicinal.inspection import explain

    X, y = blobs()
    model = AutoClassifier(["local"], random_state=0).fit(X, y)
    own, given = explain(model, X[:1]), explain(model, X[:1], background=X)
    assert own["columns"].rows == given["columns"].rows
    # The least change takes a search, so it is told where somebody asks for it.
    keys = [section.key for section in explain(model, X[:1], target=y.max()).sections]
    assert "surface" in keys
    assert "surface" not in [section.key for section in own.sections]


def test_a_mixture_without_neighbours_compares_with_some_rows():
    from vicinal.inspection import explain

    X, y = blobs(500)
    model = AutoClassifier(["linear"], random_state=0).fit(X, y)
    assert len(model.background(X[:1])) == 200
    reasons = explain(model, X[:1], target=y.max())
    assert {"columns", "surface"} <= {section.key for section in reasons.sections}


def test_neighbours_in_learned_coordinates_are_heard_too():
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
    assert neighbors.summary == "No neighbourhood: global models answered."


# --- members --------------------------------------------------------------------------------------


def test_classifiers_without_probabilities_are_members_too():
    X, y = blobs()
    model = AutoClassifier([("ridge", RidgeClassifier())], random_state=0).fit(X, y)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X), RidgeClassifier().fit(X, y).predict(X))


def test_one_member_of_numbers_is_that_member():
    X, y = load_diabetes(return_X_y=True)
    model = AutoRegressor([("ridge", Ridge())], random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), Ridge().fit(X, y).predict(X))


def test_pairs_and_kinds_go_together():
    model, _, _ = fitted(members=["linear", ("forest", RandomForestClassifier(20))])
    assert {"standardized ridge", "forest"} <= {member.name for member in model.members_}


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], "members is empty"),
        (["local", "trees"], "model families among"),
        ([LogisticRegression()], "pairs"),
    ],
)
def test_bad_members_are_refused(members, message):
    X, y = blobs()
    with pytest.raises(ValueError, match=message):
        AutoClassifier(members).fit(X, y)


# --- weights, groups, time ------------------------------------------------------------------------


def test_class_weight_reaches_members_and_mixture():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] + rng.normal(size=400) > 2.0).astype(int)
    plain = AutoClassifier(QUICK, random_state=0).fit(X, y)
    even = AutoClassifier(QUICK, class_weight="balanced", random_state=0).fit(X, y)
    assert recall_score(y, even.predict(X)) > recall_score(y, plain.predict(X)) + 0.2
    for member in even.members_:
        if member.weight > 0:
            said = member.estimator.predict(X)
            assert recall_score(y, said) > 0.6, member.name


def test_a_class_of_no_weight_and_labels_as_objects():
    X, y = blobs(60)
    weights = {label: float(label > 0) for label in np.unique(y)}
    model = AutoClassifier(["linear"], class_weight=weights, random_state=0)
    model.fit(X, y.astype(object))
    assert model.classes_.dtype.kind == "i"
    assert 0.0 < model.score_ <= 1.0
    assert 0.0 < model.score_error_ < 0.2


def test_levels_of_a_group_do_not_tell_its_label():
    """Coin labels of groups, and a column that names the group."""
    pandas = pytest.importorskip("pandas")
    groups = np.repeat(np.arange(60), 4)
    y = np.random.RandomState(0).randint(0, 2, 60)[groups]
    X = pandas.DataFrame({"name": [f"n{k}" for k in groups], "x": np.arange(240.0) % 7})
    model = AutoClassifier(["linear"], random_state=0).fit(X, y, groups=groups)
    assert model.score_ < 0.7


def test_rows_of_a_group_are_held_out_together():
    # Every row has three copies: whoever sees a copy knows the label.
    rng = np.random.RandomState(0)
    X, y = np.repeat(rng.normal(size=(60, 3)), 4, axis=0), np.repeat(rng.randint(2, size=60), 4)
    groups = np.repeat(np.arange(60), 4)
    members = ["local", "linear", "gradient", ("tree", DecisionTreeClassifier())]
    apart = AutoClassifier(members, random_state=0).fit(X, y)
    together = AutoClassifier(members, random_state=0).fit(X, y, groups=groups)
    assert apart.score_ > 0.95
    assert together.score_ < 0.7


def test_weight_zero_is_the_row_removed_and_keeps_its_place():
    X, y = blobs()
    weight = np.ones(120)
    weight[::7] = 0.0
    model = AutoClassifier(QUICK, random_state=0).fit(X, y, sample_weight=weight)
    fewer = AutoClassifier(QUICK, random_state=0).fit(X[weight > 0], y[weight > 0])
    np.testing.assert_allclose(model.predict_proba(X), fewer.predict_proba(X))
    assert np.isnan(model.held_out_[::7]).all()
    assert np.isfinite(model.held_out_[1]).all()


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until a test moves it, in a list of one number."""
    seconds = [0.0]
    monkeypatch.setattr(_clock, "now", lambda: seconds[0])
    return seconds


def test_a_member_that_would_take_too_long_is_left_out(clock):
    class Slow(DecisionTreeClassifier):
        def fit(self, X, y, sample_weight=None):
            clock[0] += 0.5
            return super().fit(X, y, sample_weight)

    X, y = blobs()
    members = [("quick", LogisticRegression()), ("slow", Slow())]
    with pytest.warns(UserWarning, match="'slow' is skipped: .*would not fit"):
        model = AutoClassifier(members, max_fit_time=2.0, n_jobs=1, random_state=0).fit(X, y)
    assert model.members_[0].name == "quick"


def test_interruption_leaves_it_unfitted():
    class Interrupted(DecisionTreeClassifier):
        def fit(self, X, y, sample_weight=None):
            raise KeyboardInterrupt

    X, y = blobs()
    model = AutoClassifier([("a", LogisticRegression()), ("b", Interrupted())])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_progress_is_shown(capsys):
    fitted(verbose=1)
    assert "AutoClassifier" in "".join(capsys.readouterr())


def test_answers_do_not_depend_on_threads():
    X, y = blobs(n_rows=150)
    one = AutoClassifier(random_state=0, n_jobs=1).fit(X, y)
    two = AutoClassifier(random_state=0, n_jobs=2).fit(X, y)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-10)


# --- tables of every kind -------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:too few rows of a class")
@pytest.mark.parametrize("n_rows", [2, 3, 4, 6, 10, 20, 30])
def test_tables_of_few_rows_get_an_answer(n_rows):
    rng = np.random.RandomState(n_rows)
    X, y = rng.normal(size=(n_rows, 3)), np.arange(n_rows) % 2
    model = AutoClassifier(random_state=0).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    model = AutoRegressor(random_state=0).fit(X, X[:, 0] + y)
    assert np.isfinite(model.predict(X)).all()


def test_one_row_is_one_clear_error():
    with pytest.raises(ValueError, match="n_samples=1 cannot be both"):
        AutoRegressor().fit([[1.0, 2.0]], [1.0])


@pytest.mark.filterwarnings("ignore:too few rows of a class")
def test_a_class_of_one_row_is_known():
    X, y = blobs(n_rows=60)
    y = np.where(np.arange(60) == 7, 9, y)
    model = AutoClassifier(random_state=0).fit(X, y)
    assert model.predict_proba(X).shape == (60, 4)
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.filterwarnings("ignore:too few rows of a class")
def test_one_in_a_hundred():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 4))
    y = (np.arange(300) % 100 == 0).astype(int)
    model = AutoClassifier(QUICK, random_state=0).fit(X, y)
    assert 0.0 < model.predict_proba(X)[:, 1].mean() < 0.1


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_constant_columns_and_targets(task):
    rng = np.random.RandomState(0)
    X = np.hstack([rng.normal(size=(40, 2)), np.ones((40, 2))])
    if task == "classes":
        assert np.isfinite(
            AutoClassifier(random_state=0).fit(X, X[:, 0] > 0).predict_proba(X)
        ).all()
        model = AutoClassifier(random_state=0).fit(np.ones((40, 2)), np.arange(40) % 2)
        np.testing.assert_allclose(model.predict_proba(np.ones((1, 2))), 0.5, atol=1e-6)
    else:
        model = AutoRegressor(random_state=0).fit(X, np.full(40, 3.0))
        np.testing.assert_allclose(model.predict(X), 3.0)


def test_gaps_are_taken_as_they_are():
    X, y = load_iris(return_X_y=True)
    rng = np.random.RandomState(0)
    X = np.where(rng.uniform(size=X.shape) < 0.2, np.nan, X)
    X = np.hstack([X, np.full((150, 1), np.nan)])
    model = AutoClassifier(random_state=0).fit(X, y)
    assert model.score_ > 0.85
    assert np.isfinite(model.predict_proba(np.full((1, 5), np.nan))).all()


@pytest.mark.parametrize("members", [["linear"], ["local"]])
def test_a_gap_in_a_table_that_had_none_gets_the_median(members):
    X, y = load_iris(return_X_y=True)
    model = AutoClassifier(members, random_state=0).fit(X, y)
    gap, filled = X[:2].copy(), X[:2].copy()
    gap[0, 2], filled[0, 2] = np.nan, np.median(X[:, 2])
    np.testing.assert_array_equal(model.predict_proba(gap), model.predict_proba(filled))
    np.testing.assert_array_equal(model.support(gap), model.support(filled))


def test_kinds_that_no_such_table_is_tried_with_are_named():
    with pytest.raises(ValueError, match=r"members=\['boosting'\] is tried on such a table"):
        AutoClassifier(["boosting"]).fit(*blobs(40))


def test_sparse_rows_give_the_same_model():
    X, y = blobs()
    X = np.where(np.abs(X) < 1.0, 0.0, X)
    dense = AutoClassifier(QUICK, random_state=0).fit(X, y)
    thin = AutoClassifier(QUICK, random_state=0).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.predict_proba(sparse.csr_array(X)), dense.predict_proba(X))


def test_wide_sparse_rows_are_reduced_to_axes(monkeypatch):
    monkeypatch.setattr("vicinal.auto._encodings._MAX_DENSE", 1000)
    X = sparse.random(100, 300, density=0.05, random_state=0, format="csr")
    y = np.asarray(X[:, :20].sum(axis=1)).ravel()
    model = AutoRegressor(QUICK, random_state=0).fit(X, y)
    assert model.predict(X).shape == (100,)


def test_more_columns_than_rows():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 300))
    y = np.repeat([0, 1], 30)
    X[y == 1, :5] += 2.0
    model = AutoClassifier(["constant", "local", "forest", "linear"], random_state=0).fit(X, y)
    assert model.score_ > 0.8
    assert {member.name: member for member in model.members_}["forest"].loss < np.log(2)


def test_torch_tensors_give_the_same_answers_as_tensors():
    torch = pytest.importorskip("torch")
    X, y = blobs()
    plain = AutoClassifier(QUICK, random_state=0).fit(X, y)
    model = AutoClassifier(QUICK, random_state=0).fit(torch.asarray(X), torch.asarray(y))
    proba = model.predict_proba(torch.asarray(X))
    assert torch.is_tensor(proba)
    np.testing.assert_array_equal(proba.numpy(), plain.predict_proba(X))


def test_first_folds_are_compared_after_the_same_calibration():
    codes = np.tile(np.arange(26), 40)
    timid, sure = (np.eye(26)[codes] * p + (1.0 - p) / 26 for p in (0.5, 0.9))
    scorer = ClassScorer(codes, np.ones(len(codes)), len(codes))
    data = TrialData({}, codes, np.arange(26), judged=codes)
    options = {"deadline": np.inf, "n_jobs": 1, "on_device": False, "random_state": 0}
    search = Search(data, scorer, **options)
    search.trials = [Trial(None, [{}], timid[None], scorer.losses(timid[None]))]
    search.tried = {"timid": 1.0}
    search._check_lead(HeldOut([{}], np.arange(52), sure[None, :52]), 1.1)
    wrong = np.roll(sure, 1, axis=1)
    with pytest.raises(Skipped, match="its first fold lost"):
        search._check_lead(HeldOut([{}], np.arange(52), wrong[None, :52]), 1.1)


def test_members_that_are_always_right_are_not_made_surer():
    codes = np.tile([0, 1, 2], 20)
    right = np.eye(3)[codes] * 0.9 + 0.1 / 3
    scorer = ClassScorer(codes, np.ones(len(codes)), len(codes))
    slope = scorer.slopes(right[None])[0]
    losses = [
        scorer.pool_loss(scorer.calibrated(right, slope * b)[None], np.ones(1))
        for b in scorer.sharpness
    ]
    assert np.argmin(losses) < len(losses) - 1


@pytest.mark.parametrize(
    ("n_rows", "n_classes", "has_levels", "leaves"),
    [(599, 2, False, 8), (600, 2, False, 16), (2000, 7, False, 8), (9000, 2, True, 8),
     (20_000, 2, True, 16), (20_000, 2, False, None)],
)  # fmt: skip
def test_trees_are_larger_where_every_class_has_many_rows(n_rows, n_classes, has_levels, leaves):
    levels = np.arange(4) < (1 if has_levels else 0)
    shape = TableShape(n_rows, 4, n_classes, True, False, levels, None)
    spec = next(boosting(shape, {}))
    (setting,) = spec.grid
    assert setting.get("max_leaf_nodes") == leaves
    # Folds of a table just beyond the rows that are slow are not: they have to stop as well.
    assert setting.get("early_stopping", False) == (n_rows > 10_000 and has_levels)


def test_boosting_of_noisy_steps_prefers_small_trees_and_a_slow_rate():
    rng = np.random.RandomState(0)
    X = rng.randn(400, 4)
    y = (X[:, 0] > 0) + 2.0 * rng.randn(400)
    model = AutoRegressor(["boosting"], random_state=0).fit(X, y)
    (member,) = [member for member in model.members_ if member.name == "boosted trees"]
    assert member.estimator.max_leaf_nodes == member.params["max_leaf_nodes"] == 8
    losses = model.cv_results_["loss"]
    assert len(losses) == 2
    assert losses[1] < losses[0]


def _levels_that_matter(n_rows, n_classes, seed=0):
    """Return a frame whose target depends on levels, some of them missing."""
    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(seed)
    level = rng.randint(12, size=n_rows)
    X = pd.DataFrame({f"x{j}": rng.randn(n_rows) for j in range(3)})
    words = np.array(list("abcdefghijkl"), dtype=object)[level]
    X["word"] = np.where(rng.rand(n_rows) < 0.05, None, words)
    return X, (level * 7 % 12 + (rng.rand(n_rows) < 0.1)) % n_classes


@pytest.mark.parametrize("n_classes", [2, 3])
def test_levels_are_boosted_as_they_are_and_by_statistics(n_classes):
    X, y = _levels_that_matter(220, n_classes)
    model = AutoClassifier(["constant", "boosting"], random_state=0).fit(X, y)
    tried = {member.name: member for member in model.members_}
    assert {"boosted trees", "boosted trees of statistics"} <= set(tried)
    weights = [tried[name].weight for name in tried if name.startswith("boosted")]
    assert sum(weights) > 0.9
    proba = model.predict_proba(X.assign(word="never seen"))
    assert np.isfinite(proba).all()


def test_statistics_of_levels_do_not_see_a_rows_own_target():
    rng = np.random.RandomState(0)
    levels = np.repeat(np.arange(60), 5).astype(float)
    y = rng.randint(2, size=300)  # of coins, so that any relation was told
    shape = TableShape(300, 1, 2, True, False, np.array([True]), None)
    given = _statistics(shape).fit_transform(levels[:, None], y)
    assert abs(np.corrcoef(given[:, 0], y)[0, 1]) < 0.2


@pytest.mark.parametrize(("n_rows", "n_specs"), [(199, 0), (200, 1)])
def test_labels_of_few_rows_are_not_boosted(n_rows, n_specs):
    shape = TableShape(n_rows, 4, 2, True, False, None, None)
    assert len(list(boosting(shape, {"forest": 0.1}))) == n_specs


@pytest.mark.parametrize(("n_columns", "share"), [(9, 1.0), (10, 0.3)])
@pytest.mark.parametrize("is_classification", [True, False])
@pytest.mark.parametrize("n_rows", [500, 20_000])
def test_splits_of_many_columns_draw_some(n_columns, share, is_classification, n_rows):
    shape = TableShape(
        n_rows, n_columns, 1 + is_classification, is_classification, False, None, None
    )
    (spec,) = boosting(shape, {"forest": 0.1})
    shares = [setting.get("max_features", 1.0) for setting in spec.grid]
    if is_classification:
        assert shares == [share]
    else:  # all columns at the usual pace, or some slowly; many rows are given all
        assert shares == [1.0, share][: len(shares)]
        assert len(shares) == (2 if n_rows <= 10_000 else 1)


def test_boosting_finds_two_columns_among_many_that_tell_nothing():
    rng = np.random.RandomState(0)
    X = rng.randn(600, 30)
    y = np.sign(X[:, 0]) * np.abs(X[:, 1]) + 0.1 * rng.randn(600)
    model = AutoRegressor(["boosting"], random_state=0).fit(X, y)
    (member,) = [member for member in model.members_ if member.name == "boosted trees"]
    assert member.estimator.max_features == 1.0
    all_columns, drawn = model.cv_results_["loss"]
    assert all_columns < 0.5 * drawn


def test_boosting_goes_first_where_time_may_end():
    table = TableShape(1000, 4, 3, True, False, None, None)
    assert list(default_families(replace(table, is_timed=True)))[:2] == ["constant", "boosting"]
    patient = list(default_families(table))
    assert patient.index("boosting") > patient.index("forest")
    assert set(default_families(replace(table, is_timed=True))) == set(patient)


def test_time_counts_from_before_the_table_is_encoded(monkeypatch, clock):
    encode = auto_encodings.Encodings.fit_transform

    def slowly(forms, *table):
        clock[0] += 0.3
        return encode(forms, *table)

    monkeypatch.setattr(auto_encodings.Encodings, "fit_transform", slowly)
    X, y = load_iris(return_X_y=True)
    model = AutoClassifier(max_fit_time=0.2, random_state=0).fit(X, y)
    seen = [member.name for member in model.members_ if not member.reason]
    assert seen == ["constant"]


@pytest.mark.parametrize(("smooth", "n_specs"), [(0.9, 1), (1.2, 1), (1.3, 0)])
def test_kernel_ridge_is_tried_where_smooth_models_are_near_to_trees(smooth, n_specs):
    shape = TableShape(1000, 4, 1, False, False, None, None)
    tried = {"constant": 9.0, "standardized gradient": smooth, "forest": 2.0, "boosted trees": 1.0}
    assert len(list(FAMILIES["kernel"](shape, tried))) == n_specs


def test_kernel_ridge_of_many_rows_is_left_out_where_time_is_limited():
    table = TableShape(3000, 5, 1, False, False, None, None)
    assert not default_families(table)["kernel"]
    reason = default_families(replace(table, is_timed=True))["kernel"]
    assert "2,000 of them where time is limited" in reason
    tried = {"standardized": 0.1}
    assert len(list(FAMILIES["kernel"](table, tried))) == 1
    assert not list(FAMILIES["kernel"](replace(table, is_timed=True), tried))


@pytest.fixture
def tensors_count_as_device(monkeypatch):
    """Send tensors of the CPU the way that tensors of a GPU take."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(auto_encodings, "is_on_device", torch.is_tensor)
    return torch.asarray


DEVICE_QUICK = ["constant", "local"]


def test_rows_of_a_device_are_answered_by_members_that_run_there(tensors_count_as_device):
    to_device = tensors_count_as_device
    X, y = blobs()
    host = AutoClassifier([("standardized", LocalClassifier())], random_state=0).fit(X, y)
    model = AutoClassifier([("standardized", LocalClassifier())], random_state=0)
    model.fit(to_device(X), to_device(y))
    proba = model.predict_proba(to_device(X))
    np.testing.assert_allclose(proba.numpy(), host.predict_proba(X), atol=1e-8)
    assert model.predict(to_device(X)).dtype == to_device(y).dtype
    assert model.support(to_device(X)).shape == (len(X),)
    with pytest.raises(TypeError, match="convert X"):
        model.predict(X)


def test_kinds_that_do_not_run_on_a_device_are_named(tensors_count_as_device):
    to_device = tensors_count_as_device
    X, y = blobs()
    model = AutoClassifier(random_state=0, max_fit_time=1e-3).fit(to_device(X), y)
    reasons = {member.name: member.reason for member in model.members_}
    assert "NumPy" in reasons["forest"]
    assert "NumPy" in reasons["boosting"]
    assert {"standardized", "euclidean"} <= set(reasons)


def test_weights_reach_members_on_a_device(tensors_count_as_device):
    to_device = tensors_count_as_device
    X, y = blobs()
    weight = np.ones(len(y))
    weight[::3] = 2.0
    weighted = AutoRegressor(DEVICE_QUICK, random_state=0).fit(to_device(X), y, weight)
    assert np.isfinite(weighted.predict(to_device(X)).numpy()).all()
    zero = np.where(np.arange(len(y)) < 10, 0.0, weight)
    left = AutoRegressor(DEVICE_QUICK, random_state=0).fit(to_device(X), y, zero)
    short = AutoRegressor(DEVICE_QUICK, random_state=0).fit(to_device(X[10:]), y[10:], zero[10:])
    np.testing.assert_array_equal(left.predict(to_device(X)), short.predict(to_device(X)))


def test_gaps_on_a_device_are_refused(tensors_count_as_device):
    X, y = blobs()
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity"):
        AutoClassifier(DEVICE_QUICK).fit(tensors_count_as_device(X), y)


def test_several_targets():
    X, y = load_diabetes(return_X_y=True)
    Y = np.column_stack([y, 1000.0 * X[:, 0]])[:120]
    model = AutoRegressor([*QUICK, ("tree", DecisionTreeRegressor(max_depth=3))], random_state=0)
    model.fit(X[:120], Y)
    assert model.predict(X).shape == (len(X), 2)
    assert model.held_out_.shape == (120, 2)


def test_pipelines_are_members():
    X, y = blobs()
    member = make_pipeline(StandardScaler(), LogisticRegression())
    model = AutoClassifier([("line", member)], random_state=0)
    model.fit(X, y, sample_weight=np.linspace(1.0, 2.0, 120))
    assert clone(model).get_params()["members"][0][0] == "line"
    assert isinstance(DummyRegressor(), BaseEstimator)


# --- folds ----------------------------------------------------------------------------------------


def test_folds_hold_classes_in_proportion_however_rare():
    codes = np.repeat([0, 1, 2], [50, 8, 1])
    folds, n_draws = split_folds(59, codes, None, 5, 0)
    assert n_draws == 2
    assert len(folds) == 10
    for draw in (folds[:5], folds[5:]):
        assert sorted(np.concatenate(draw)) == list(range(59))
        assert all((codes[fold] == 0).sum() == 10 for fold in draw)
        assert all((codes[fold] == 1).sum() in (1, 2) for fold in draw)


def test_folds_keep_groups_whole():
    groups = np.repeat(np.arange(12), 5)
    for codes in (None, np.tile([0, 1], 30)):
        folds, _ = split_folds(60, codes, groups, 5, 0)
        assert all(len(np.unique(groups[fold])) * 5 == len(fold) for fold in folds)


def test_a_discriminant_of_little_shrinkage_is_that_of_scikit_learn():
    X, y = load_iris(return_X_y=True)
    ours = LinearClassifier("lda", alpha=1e-9).fit(X, y).predict_proba(X)
    known = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(ours, known, atol=1e-6)


def test_slopes_start_from_the_coordinates_that_suit_best():
    # Classes differ along the widest axis of many columns; made equal, the others drown it.
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(200, 120)), rng.randint(3, size=200)
    X[:, 0] += 2.0 * y
    X[:, 0] *= 30.0
    model = AutoClassifier(["local", "gradient"], random_state=0).fit(X, y)
    losses = {member.name: member.loss for member in model.members_}
    assert losses["euclidean"] < losses["standardized"]
    assert losses["euclidean gradient"] <= 1.1 * losses["euclidean"]


# --- frames ---------------------------------------------------------------------------------------


def mixed_frame(pandas, n_rows=160, seed=0):
    rng = np.random.RandomState(seed)
    town = rng.choice(["Aix", "Bonn", "Cork"], n_rows)
    area = np.where(rng.uniform(size=n_rows) < 0.1, np.nan, rng.uniform(20, 200, n_rows))
    frame = pandas.DataFrame(
        {
            "town": town,
            "area": area,
            "sold": pandas.Timestamp("2020-01-01")
            + pandas.to_timedelta(rng.randint(900, size=n_rows), "D"),
            "tax": [f"{value:.1f} %" for value in rng.uniform(0, 9, n_rows)],
        }
    )
    price = (
        3.0 * np.nan_to_num(area, nan=100.0) + 100.0 * (town == "Bonn") + rng.normal(size=n_rows)
    )
    return frame, price


def test_frames_are_taken_as_they_are():
    pandas = pytest.importorskip("pandas")
    frame, price = mixed_frame(pandas)
    number = AutoRegressor(["local", "linear", "boosting"], random_state=0).fit(frame, price)
    assert number.score_ > 0.9
    assert list(number.feature_names_in_) == list(frame.columns)
    label = np.where(price > np.median(price), "dear", "cheap")
    model = AutoClassifier(["local", "linear"], random_state=0).fit(frame[:120], label[:120])
    assert model.score(frame[120:], label[120:]) > 0.8
    unseen = frame[:3].assign(town="Delft", area=np.nan)
    np.testing.assert_allclose(model.contributions(unseen).sum(axis=(1, 2)), 1.0)


def test_a_frame_of_numbers_is_its_array():
    pandas = pytest.importorskip("pandas")
    X, y = blobs()
    frame = pandas.DataFrame(X, columns=["a", "b"])
    plain = AutoClassifier(QUICK, random_state=0).fit(X, y).predict_proba(X)
    named = AutoClassifier(QUICK, random_state=0).fit(frame, y).predict_proba(frame)
    np.testing.assert_array_equal(named, plain)


def test_keys_in_a_frame_of_numbers_have_no_order():
    pandas = pytest.importorskip("pandas")
    X, y = blobs()
    frame = pandas.DataFrame(X, columns=["a", "b"])
    row_id = np.random.RandomState(0).permutation(len(y))
    plain = AutoClassifier(["linear"], random_state=0).fit(frame, y)
    keyed = AutoClassifier(["linear"], random_state=0).fit(frame.assign(row_id=row_id), y)
    answers = [
        model.predict_proba(frame.assign(row_id=-1)[list(model.feature_names_in_)])
        for model in (plain, keyed)
    ]
    np.testing.assert_allclose(*answers)


def test_rows_of_weight_zero_leave_a_frame():
    pandas = pytest.importorskip("pandas")
    frame, price = mixed_frame(pandas)
    weight = (np.arange(len(price)) % 4 > 0).astype(float)
    model = AutoRegressor(["linear"], random_state=0).fit(frame, price, sample_weight=weight)
    assert np.isnan(model.held_out_[::4]).all()


@pytest.mark.parametrize("kind", ["boolean", "Int64", "string", "category"])
def test_labels_of_frames_keep_their_type(kind):
    pandas = pytest.importorskip("pandas")
    X, y = blobs(60)
    labels = {"boolean": y > 0, "string": np.array(["so so", "good", "no"])[y]}.get(kind, y)
    model = AutoClassifier(["linear"], random_state=0).fit(X, pandas.Series(labels, dtype=kind))
    np.testing.assert_array_equal(model.classes_, np.unique(labels))
    assert np.asarray(model.classes_).dtype.kind in {"boolean": "b", "string": "OU"}.get(kind, "i")


def test_what_is_wrong_with_a_frame_is_said():
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame, price = mixed_frame(pandas)
    labels = np.where(price > np.median(price), "dear", "cheap").astype(object)
    classifier, regressor = AutoClassifier(["linear"]), AutoRegressor(["linear"])
    with pytest.raises(ValueError, match="2 columns named 'a'"):
        classifier.fit(frame.iloc[:, :2].set_axis(["a", "a"], axis=1), labels)
    with pytest.raises(TypeError, match=r"pyarrow.*to_pandas"):
        classifier.fit(arrow.Table.from_pandas(frame), labels)
    with pytest.raises(ValueError, match="X reaches"):
        regressor.fit(frame.assign(area=1e298 * frame.area), price)
    with pytest.raises(ValueError, match="y must be numbers here: use a classifier"):
        regressor.fit(frame, labels)
    labels[7] = None
    for table in (frame, frame[["area"]]):
        with pytest.raises(ValueError, match=r"no label in 1 row.*row 7"):
            classifier.fit(table, pandas.Series(labels))
    with pytest.raises(ValueError, match="X holds the target: its column 'price' is y"):
        regressor.fit(frame.assign(price=price), pandas.Series(price, name="price"))


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_columns_of_a_mixed_frame_are_found_by_name(kind):
    frame, price = mixed_frame(pytest.importorskip("pandas"))
    if kind == "polars":
        frame = pytest.importorskip(kind).from_pandas(frame)
    model = AutoRegressor(["linear"], random_state=0).fit(frame, price)
    turned = frame[list(frame.columns)[::-1]]
    more = turned.assign(more=1) if kind == "pandas" else turned.with_row_index("more")
    np.testing.assert_array_equal(model.predict(more), model.predict(frame))
    with pytest.raises(ValueError, match="now missing"):
        model.predict(frame[list(frame.columns)[1:]])


# --- what the held-out answers know about one row -------------------------------------------------


@pytest.fixture(scope="module")
def noisy_line():
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(900, 1))
    y = 2.0 * X[:, 0] + (0.1 + X[:, 0]) * rng.normal(size=900)
    return AutoRegressor(["local", "linear"], random_state=0).fit(X[:500], y[:500]), X, y


def test_intervals_cover_and_follow_the_noise(noisy_line):
    model, X, y = noisy_line
    low, high = model.predict_interval(X[500:], coverage=0.8).T
    inside = (low <= y[500:]) & (y[500:] <= high)
    assert abs(inside.mean() - 0.8) < 4 * np.sqrt(0.16 / 400)
    quiet, noisy = np.diff(model.predict_interval([[0.05], [0.95]])).ravel()
    assert noisy > 3 * quiet


def test_support_is_small_far_away_only(noisy_line):
    model, X, _ = noisy_line
    assert model.support([[9.0]])[0] < 0.01
    assert 0.4 < model.support(X[500:]).mean() < 0.6


def test_the_scale_of_errors_is_that_of_the_intervals(noisy_line):
    model, X, _ = noisy_line
    scale = model.held_out_scale()
    assert scale.shape == (500,)
    assert np.corrcoef(scale, X[:500, 0])[0, 1] > 0.9


def test_sets_of_labels_cover():
    X, y = blobs(600)
    model = AutoClassifier(QUICK, random_state=0).fit(X[:300], y[:300])
    sets = model.predict_set(X[300:], coverage=0.9, method="threshold")
    covered = sets[np.arange(300), y[300:]].mean()
    assert abs(covered - 0.9) < 4 * np.sqrt(0.09 / 300)


def test_class_weights_do_not_count_as_rows_in_sets():
    X, y = blobs(300)
    plain, weighted = (
        AutoClassifier([("line", LogisticRegression())], class_weight=factors, random_state=0)
        .fit(X, y)
        .predict_set(X, 0.9)
        for factors in (None, {0: 1e-6, 1: 1e-6, 2: 1e-6})
    )
    np.testing.assert_array_equal(plain, weighted)


def test_rows_without_an_answer_are_not_calibrated_on():
    X, y = load_diabetes(return_X_y=True)
    weight = np.ones(len(y))
    weight[::4] = 0.0
    model = AutoRegressor([("line", Ridge())], random_state=0).fit(X, y, sample_weight=weight)
    assert np.isfinite(model.predict_interval(X)).all()
    assert np.isnan(model.held_out_scale()[::4]).all()
    # Shares instead of counts: the new row does not outweigh all others.
    shares = AutoRegressor([("line", Ridge())], random_state=0)
    shares.fit(X, y, sample_weight=np.full(len(y), 1e-3))
    assert np.isfinite(shares.predict_interval(X)).all()


def test_a_rare_class_is_told_apart():
    """Log losses of 20 rows are in doubt where the order of the answers is not."""
    rng = np.random.RandomState(1)
    X = rng.normal(size=(600, 4))
    y = rng.rand(600) < 1 / (1 + np.exp(4.2 - 1.2 * X[:, 0]))
    model = AutoClassifier(["constant", "linear"], random_state=0).fit(X, y)
    assert roc_auc_score(y, model.predict_proba(X)[:, 1]) > 0.7
    shuffled = AutoClassifier(["constant", "linear"], random_state=0).fit(X, rng.permutation(y))
    assert shuffled.members_[0].name == "constant"


def test_evidence_is_the_slope_of_the_likelihood():
    rng = np.random.RandomState(0)
    codes = rng.randint(3, size=80)
    answers = rng.dirichlet(np.ones(3), size=80)
    scorer = ClassScorer(codes, rng.rand(80), 80)
    shares = np.bincount(codes, scorer.share)

    def likelihood(w):
        mixed = (1 - w) * shares + w * answers
        return scorer.share @ np.log(mixed[np.arange(80), codes])

    slope = (likelihood(1e-6) - likelihood(-1e-6)) / 2e-6
    error = np.sqrt(scorer.share**2 @ ((answers / shares - 1) ** 2 @ shares))
    assert scorer.evidence(answers, np.arange(80)) == pytest.approx(slope / error, rel=1e-5)
    # A row that was answered twice is one row.
    twice = ClassScorer(np.tile(codes, 2), np.tile(scorer.share, 2), 80)
    again = twice.evidence(np.tile(answers, (2, 1)), np.tile(np.arange(80), 2))
    assert again == pytest.approx(scorer.evidence(answers, np.arange(80)))


def test_a_class_rarer_than_the_folds_is_named():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(60, 3)), np.array(["well"] * 59 + ["sick"])
    model = AutoClassifier(members=["constant", "linear"], random_state=0)
    with pytest.warns(UserWarning, match="too few rows of a class for 5 folds: 'sick' has 1;"):
        model.fit(X, y)
    many = np.r_[np.zeros(40), np.arange(1, 11).repeat(2)].astype(int)
    with pytest.warns(UserWarning, match="1 has 2, 2 has 2, .* and 5 more classes"):
        model.fit(X, many)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, np.arange(60) % 12)
