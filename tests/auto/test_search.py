"""Trials of base models: samples, folds, groups and the time limit."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from tests.auto.tables import blobs, fitted, tried

from vicinal._base import HeldOut, _clock
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.auto import _encodings as auto_encodings
from vicinal.auto import _fit as auto_fit
from vicinal.auto import _settings as auto_settings
from vicinal.auto import _tables as auto_tables
from vicinal.auto._base_models import FAMILIES, Rules, Spec, TableShape, default_families
from vicinal.auto._scorers import ClassScorer, RegressionScorer
from vicinal.auto._search import (
    Search,
    Trial,
    TrialData,
    choose_pool,
    expected_gains,
    split_folds,
)


@pytest.fixture
def tried_on_few(monkeypatch):
    monkeypatch.setattr(auto_tables.Table, "rules", Rules(max_rows=150))


@pytest.mark.filterwarnings("ignore:too few rows of a class")
def test_base_models_are_tried_on_a_sample_and_fitted_to_all_rows(tried_on_few):
    X = np.random.RandomState(0).normal(size=(400, 3))
    y = (X[:, 0] * X[:, 1] > 0.0).astype(int)
    y[:4] = 7  # so rare that a split would lose it
    families = ["gradient", ("tree", DecisionTreeClassifier(max_depth=3, random_state=0))]
    model = AutoClassifier(families, random_state=0).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 7]
    assert 150 <= np.isfinite(model.held_out_[:, 0]).sum() <= 154
    assert "gradient metric (standardized)" in [base.name for base in model.estimators_]
    for base in model.estimators_:
        # Probabilities may differ by the temperature, which the trial has found.
        again = clone(base.estimator).set_params(**base.params).fit(X, y)
        assert_array_equal(base.estimator.predict(X), again.predict(X))


def test_regressors_are_tried_on_a_sample_and_fitted_to_all_rows(tried_on_few):
    X = np.random.RandomState(0).normal(size=(400, 3))
    y = X[:, 0] ** 2 + 0.1 * X[:, 1]
    model = AutoRegressor(["local"], random_state=0).fit(X, y)
    assert np.isfinite(model.held_out_).sum() == 150
    assert model.estimators_[0].estimator.neighbors(X[:1]).shape == (1, 400)
    # What was learned from 150 rows is the choice alone: with all rows the predictions are better.
    assert model.score(X, y) > model.score_


def test_nearly_unique_labels_are_warned_of_once():
    X = np.random.RandomState(0).normal(size=(60, 2))
    y = [f"id {max(k, 1)}" for k in range(60)]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        AutoClassifier(["local", "linear"], random_state=0).fit(X, y)
    # Older versions of scikit-learn do not warn.
    assert len([w for w in found if "unique classes" in str(w.message)]) == len(found) <= 1


def test_every_base_model_is_listed_with_its_loss_or_its_reason():
    class Broken(ClassifierMixin, BaseEstimator):
        def fit(self, X, y, sample_weight=None):
            raise RuntimeError("out of luck")

    X, y = blobs()
    families = [("good", LogisticRegression()), ("broken", Broken())]
    with pytest.warns(UserWarning, match="'broken' is skipped: RuntimeError: out of luck"):
        model = AutoClassifier(families, random_state=0).fit(X, y)
    by_name = {base.name: base for base in tried(model)}
    assert by_name["broken"].reason == "RuntimeError: out of luck"
    assert np.isfinite(by_name["good"].loss)
    assert by_name["good"].fit_time >= 0.0
    table = model.leaderboard()
    assert list(table["name"]) == ["good", "broken"]
    page = model._repr_html_()
    assert "out of luck" in page
    assert "held-out score" in page


def test_no_usable_base_model_is_an_error_with_the_reason():
    X, y = blobs()
    with pytest.raises(ValueError, match=r"No base model .* takes no sample_weight"):
        AutoClassifier([("near", KNeighborsClassifier())]).fit(
            X, y, sample_weight=np.arange(1, 121)
        )


def test_cv_results_hold_every_setting():
    model, _, _ = fitted()
    names = model.cv_results_["name"]
    assert len(names) == len(model.cv_results_["params"]) == len(model.cv_results_["loss"])
    best = {m.name: m for m in tried(model)}["ridge (standardized)"]
    own = model.cv_results_["loss"][names == "ridge (standardized)"]
    assert best.loss == pytest.approx(own.min())


def test_groups_are_held_out_together():
    # Every row has three copies: whoever sees a copy knows the label.
    rng = np.random.RandomState(0)
    X, y = np.repeat(rng.normal(size=(60, 3)), 4, axis=0), np.repeat(rng.randint(2, size=60), 4)
    groups = np.repeat(np.arange(60), 4)
    families = ["local", "linear", "gradient", ("tree", DecisionTreeClassifier())]
    with pytest.warns(UserWarning, match="the order of the rows predicts the target.*pass groups"):
        apart = AutoClassifier(families, random_state=0).fit(X, y)
    together = AutoClassifier(families, random_state=0).fit(X, y, groups=groups)
    assert apart.score_ > 0.95
    assert together.score_ < 0.7


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until a test moves it, in a list of one number."""
    seconds = [0.0]
    monkeypatch.setattr(_clock, "now", lambda: seconds[0])
    return seconds


@pytest.fixture
def slow(clock):
    """Return a tree whose fit takes half a second of the simulated clock."""

    class Slow(DecisionTreeClassifier):
        def fit(self, X, y, sample_weight=None):
            clock[0] += 0.5
            return super().fit(X, y, sample_weight)

    return Slow


def test_a_base_model_that_exceeds_the_time_limit_is_skipped(slow):
    X, y = blobs()
    families = [("quick", LogisticRegression()), ("slow", slow())]
    with pytest.warns(UserWarning, match="'slow' is skipped: .*would not fit"):
        model = AutoClassifier(families, max_fit_time=2.0, n_jobs=1, random_state=0).fit(X, y)
    assert model.estimators_[0].name == "quick"


def test_runs_that_are_averaged_take_the_time_of_as_many_folds(slow):
    class Averaged(slow):
        n_runs = 3

    X, y = blobs()
    folds, n_repeats = split_folds(len(y), y, None, 5, 0)
    options = {"folds": folds, "n_repeats": n_repeats, "judged": np.arange(len(y))}
    data = TrialData({"distance": X}, y, np.unique(y), **options)
    search = Search(data, ClassScorer(y[data.entries], np.ones(len(data.entries)), len(y)))
    search.run([Spec("slow", kind(), once=True) for kind in (slow, Averaged)], cuts=False)
    assert [(one.seconds, one.fit_seconds) for one in search.trials] == [(2.5, 0.5), (2.5, 1.5)]


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


def test_predictions_do_not_depend_on_n_jobs():
    X, y = blobs(n_rows=150)
    one = AutoClassifier(random_state=0, n_jobs=1).fit(X, y)
    two = AutoClassifier(random_state=0, n_jobs=2).fit(X, y)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-10)


def noisy_trials(n_rows, noises, seed=0):
    """Targets and trials of models with independent errors of some sizes."""
    rng = np.random.RandomState(seed)
    y = rng.normal(size=n_rows)
    scorer = RegressionScorer(y[:, None], np.ones(n_rows), np.ones(1))
    predictions = [(y + noise * rng.normal(size=n_rows))[None, :, None] for noise in noises]
    trials = [
        Trial(Spec(str(noise), None), [{}], own, scorer.losses(own))
        for noise, own in zip(noises, predictions, strict=True)
    ]
    return y, scorer, trials


def test_a_model_of_independent_errors_promises_to_reduce_the_loss():
    _, scorer, trials = noisy_trials(2000, [0.5, 0.5, 2.0])
    first = np.arange(400)
    firsts = [trial.predictions[:, first] for trial in trials]
    copy, independent, noisy = expected_gains(trials[:1], scorer, firsts)
    assert independent == pytest.approx(0.5, abs=0.1)  # a mean of two has half the variance
    assert noisy < 0.12
    assert copy == pytest.approx(0.0, abs=1e-12)


def test_first_folds_are_compared_after_the_same_calibration():
    codes = np.tile(np.arange(26), 40)
    cautious, sure = (np.eye(26)[codes] * p + (1.0 - p) / 26 for p in (0.5, 0.9))
    scorer = ClassScorer(codes, np.ones(len(codes)), len(codes))
    trials = [Trial(Spec("cautious", None), [{}], cautious[None], scorer.losses(cautious[None]))]
    wrong = np.roll(sure, 1, axis=1)
    gains = expected_gains(trials, scorer, [sure[None, :52], wrong[None, :52]])
    assert abs(gains[0]) < 0.05
    assert gains[1] < 0.0


@pytest.fixture
def prepared_trials(monkeypatch):
    """A search over models with given predictions, and the names of those predicted in turn."""
    y, scorer, trials = noisy_trials(500, [0.5, 0.5, 0.4, 2.0])
    folds = list(np.arange(500).reshape(5, 100))
    data = TrialData({}, y, None, folds=folds, judged=np.arange(500))
    names, calls = ["base", "independent", "best", "noise"], []

    def predict(search, spec, folds):
        calls.append((spec.name, len(folds)))
        rows = np.concatenate(folds)
        return HeldOut([{}], rows, trials[names.index(spec.name)].predictions[:, rows])

    monkeypatch.setattr(Search, "_predict_folds", predict)
    specs = [Spec(name, DecisionTreeClassifier(), once=True, seconds=1.0) for name in names]
    return Search(data, scorer), specs, calls


@pytest.mark.parametrize(("price", "is_skipped"), [(0.0, False), (0.1, False), (3.0, True)])
def test_models_whose_gain_is_below_the_price_of_their_time_are_skipped(
    prepared_trials, price, is_skipped
):
    search, specs, calls = prepared_trials
    search.price = price
    search.run(specs[:2], cuts=True)
    search.finish()
    assert [one.spec.name for one in search.judged()] == ["base", "independent"][: 2 - is_skipped]
    assert ("must reduce it by" in search.trials[1].reason) == is_skipped
    assert calls[-1] == ("independent", 1 if is_skipped else 4)


def test_trials_wait_after_their_first_fold_and_the_best_promise_goes_on(prepared_trials):
    search, specs, calls = prepared_trials
    search.run(specs, cuts=True)
    assert calls == [("base", 1), ("base", 4), ("independent", 1), ("best", 1), ("noise", 1)]
    assert [one.spec.name for one in search.judged()] == ["base"]
    assert list(search.tried) == ["base", "independent", "best", "noise"]
    search.finish()
    assert calls[5:7] == [("best", 4), ("independent", 4)]
    assert [one.reason for one in search.trials[:3]] == ["", "", ""]


def test_a_better_model_makes_a_similar_one_unpromising(prepared_trials):
    search, specs, calls = prepared_trials
    search.price = 0.05
    twin = replace(specs[2], seconds=2.0)
    search.run([*specs[:3], twin], cuts=True)
    search.finish()
    assert calls.count(("best", 4)) == 1
    assert "promises no gain" in search.trials[3].reason or "must" in search.trials[3].reason


def test_nothing_waits_within_a_time_limit(prepared_trials, clock):
    search, specs, calls = prepared_trials
    search.deadline = 1000.0
    search.run(specs[:3], cuts=True)
    assert [one.spec.name for one in search.judged()] == ["base", "independent", "best"]
    assert calls[2:4] == [("independent", 1), ("independent", 4)]


def test_a_first_fold_that_is_not_finite_ends_the_trial(prepared_trials, monkeypatch):
    search, specs, _ = prepared_trials
    search.run(specs[:1], cuts=True)
    broken = HeldOut([{}], np.arange(100), np.full((1, 100, 1), np.nan))
    monkeypatch.setattr(Search, "_predict_folds", lambda *_: broken)
    search.run(specs[1:2], cuts=True)
    assert search.trials[1].reason == "it predicted NaN or infinity"
    assert search.trials[1].first is None


@pytest.mark.parametrize(("price", "n_models"), [(0.0, 3), (0.5, 2), (2.0, 1)])
def test_models_that_hardly_reduce_the_loss_are_dropped(price, n_models):
    # Means of three, two and one of them have variances of about 0.09, 0.12 and 0.25.
    _, scorer, trials = noisy_trials(3000, [0.5, 0.5, 0.6])
    whole = np.arange(3000)
    pool = choose_pool(trials, scorer, whole, whole, np.full(3, price))
    assert (pool.weights > 0).sum() == n_models
    assert pool.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("limit", [4.0, 8.0, 20.0])
def test_fits_to_all_rows_are_within_the_time_limit(clock, limit):
    class Slow(DecisionTreeClassifier):
        def fit(self, X, y, sample_weight=None):
            clock[0] += 0.3
            return super().fit(X, y, sample_weight)

    X, y = blobs(1200)
    families = [(f"tree {depth}", Slow(max_depth=depth)) for depth in range(1, 9)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = AutoClassifier(families, max_fit_time=limit, n_jobs=1, random_state=0).fit(X, y)
    assert clock[0] <= 1.1 * limit
    assert np.isfinite(model.score_)
    assert np.isfinite(model.score_error_)


def test_forty_simulated_fits_keep_their_time_limit(clock, monkeypatch):
    rng = np.random.RandomState(0)
    folds = np.array_split(np.arange(50), 5)
    y = rng.normal(size=50)
    data = TrialData({}, y, None, folds=folds, judged=np.arange(50))
    scorer = RegressionScorer(y[:, None], np.ones(50), np.ones(1))
    shape = TableShape(3000, 12, 1, False, False, None, None, is_timed=True)
    excess = []
    machines, limits = np.exp(rng.normal(0.0, 0.7, 40)), rng.uniform(2.0, 40.0, 40)
    assert machines.max() > 3.0
    for machine, limit in zip(machines, limits, strict=True):
        # A machine that is faster or slower than the estimates, by factors that differ by model.
        costs = {}

        def spend(spec, n_folds, machine=machine, costs=costs):
            factor = costs.setdefault(spec.name, machine * np.exp(rng.normal(0.0, 0.3)))
            clock[0] += factor * max(spec.seconds, 0.05) * n_folds / 6.0

        def predict(search, spec, folds, spend=spend):
            spend(spec, len(folds) if spec.probe is not None or len(folds) > 1 else 1)
            rows = np.concatenate(folds)
            noisy = y[rows] + rng.normal(size=len(rows)) * rng.uniform(0.3, 1.0)
            return HeldOut([{}], rows, noisy[None, :, None])

        def fit(data, was_sampled, model, trial, candidate, spend=spend):
            spend(trial.spec, 1)
            model.predict_time = 0.0

        monkeypatch.setattr(Search, "_predict_folds", predict)
        monkeypatch.setattr(auto_fit, "_fit_to_all", fit)
        clock[0] = 0.0
        search = Search(data, scorer, deadline=auto_settings.search_deadline(limit))
        for family, reason in default_families(shape).items():
            if not reason:
                search.run(FAMILIES[family](shape, search.tried), cuts=True)
        search.finish()
        auto_fit._fit_pool(search, data, None)
        excess.append(clock[0] / limit)
    assert max(excess) <= 1.1
    assert np.median(excess) > 0.3  # the time is used


@pytest.mark.parametrize(
    ("limit", "needed", "dropped"),
    [
        (1.0, {"good", "slow"}, set()),
        (0.02, {"good"}, {"slow"}),
        (0.002, {"quick"}, {"slow", "good"}),
        (1e-9, set(), {"slow", "good", "quick"}),
    ],
)
def test_models_are_dropped_until_predictions_are_fast_enough(clock, limit, needed, dropped):
    class Timed(DecisionTreeClassifier):
        def __init__(self, max_depth=None, splitter="best", seconds=0.0, random_state=0):
            super().__init__(max_depth=max_depth, splitter=splitter, random_state=random_state)
            self.seconds = seconds

        def predict_proba(self, X):
            clock[0] += self.seconds * len(X)
            return super().predict_proba(X)

    rng = np.random.RandomState(0)
    X = rng.uniform(-1.0, 1.0, size=(1000, 2))
    y = (X[:, 0] + X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=1000) > 0.0).astype(int)
    families = [
        "constant",
        ("slow", Timed(6, "random", seconds=0.1)),
        ("good", Timed(6, seconds=0.01)),
        ("quick", Timed(1, seconds=0.001)),
    ]
    model = AutoClassifier(families, max_predict_time=limit, random_state=0).fit(X, y)
    assert needed <= {base.name for base in model.estimators_}
    reasons = {base.name: base.reason for base in model.skipped_}
    assert {name for name, why in reasons.items() if "max_predict_time" in why} == dropped
    assert sum(base.predict_time for base in model.estimators_) / 1000.0 <= limit
    assert model.weights_.sum() == pytest.approx(1.0)


def test_a_single_model_that_is_too_slow_is_warned_of():
    X, y = blobs()
    model = AutoClassifier(["constant"], max_predict_time=1e-12, random_state=0)
    with pytest.warns(UserWarning, match="max_predict_time=1e-12 is exceeded"):
        model.fit(X, y)


def test_encoding_counts_towards_the_time_limit(monkeypatch, clock):
    encode = auto_encodings.Encodings.fit_transform

    def slowly(encodings, *table):
        clock[0] += 0.3
        return encode(encodings, *table)

    monkeypatch.setattr(auto_encodings.Encodings, "fit_transform", slowly)
    X, y = load_iris(return_X_y=True)
    model = AutoClassifier(max_fit_time=0.2, random_state=0).fit(X, y)
    seen = [base.name for base in tried(model) if not base.reason]
    assert seen == ["ridge (standardized)"]
    assert model.score(X, y) > 0.8


def test_folds_are_stratified_for_rare_classes():
    codes = np.repeat([0, 1, 2], [50, 8, 1])
    folds, n_repeats = split_folds(59, codes, None, 5, 0)
    assert n_repeats == 2
    assert len(folds) == 10
    for split in (folds[:5], folds[5:]):
        assert sorted(np.concatenate(split)) == list(range(59))
        assert all((codes[fold] == 0).sum() == 10 for fold in split)
        assert all((codes[fold] == 1).sum() in (1, 2) for fold in split)


def test_folds_keep_groups_together():
    groups = np.repeat(np.arange(12), 5)
    for codes in (None, np.tile([0, 1], 30)):
        folds, _ = split_folds(60, codes, groups, 5, 0)
        assert all(len(np.unique(groups[fold])) * 5 == len(fold) for fold in folds)


def test_a_class_with_fewer_rows_than_folds_is_named():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(60, 3)), np.array(["well"] * 59 + ["sick"])
    model = AutoClassifier(families=["constant", "linear"], random_state=0)
    with pytest.warns(UserWarning, match="too few rows of a class for 5 folds: 'sick' has 1;"):
        model.fit(X, y)
    many = np.r_[np.zeros(40), np.arange(1, 11).repeat(2)].astype(int)
    with pytest.warns(UserWarning, match="1 has 2, 2 has 2, .* and 5 more classes"):
        model.fit(X, many)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, np.arange(60) % 12)
