"""Which base models are tried, and with which settings."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.auto.tables import blobs, fitted, tried

from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.auto._base_models import (
    FAMILIES,
    PRICES,
    TableShape,
    _statistics,
    boosting,
    default_families,
)
from vicinal.auto._linear import LinearClassifier
from vicinal.auto._search import sample_judged
from vicinal.auto._settings import resolve
from vicinal.auto._tables import read_table


@pytest.mark.parametrize("is_classification", [True, False])
def test_families_too_slow_for_many_rows_are_named(is_classification):
    shape = TableShape(10**6, 54, 2, is_classification, False, None, 1)
    left = {kind: reason for kind, reason in default_families(shape).items() if "rows" in reason}
    assert list(left) == ["kernel"]


def test_classifiers_without_probabilities_can_be_base_models():
    X, y = blobs()
    model = AutoClassifier([("ridge", RidgeClassifier())], random_state=0).fit(X, y)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X), RidgeClassifier().fit(X, y).predict(X))


def test_one_regressor_predicts_as_it_does_alone():
    X, y = load_diabetes(return_X_y=True)
    model = AutoRegressor([("ridge", Ridge())], random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), Ridge().fit(X, y).predict(X))


def test_estimators_and_model_families_can_be_combined():
    model, _, _ = fitted(families=["linear", ("forest", RandomForestClassifier(20))])
    assert {"ridge (standardized)", "forest"} <= {base.name for base in tried(model)}


@pytest.mark.parametrize(
    ("families", "message"),
    [
        ([], "families is empty"),
        (["local", "trees"], "model families among"),
        ([LogisticRegression()], "pairs"),
    ],
)
def test_bad_base_models_are_refused(families, message):
    X, y = blobs()
    with pytest.raises(ValueError, match=message):
        AutoClassifier(families).fit(X, y)


def test_families_not_tried_on_such_a_table_are_named():
    with pytest.raises(ValueError, match=r"no model of families=\['boosting'\] is tried"):
        AutoClassifier(["boosting"]).fit(*blobs(40))


@pytest.mark.parametrize("has_categories", [True, False])
@pytest.mark.parametrize("is_classification", [True, False])
def test_boosted_trees_are_symmetric_up_to_some_rows(is_classification, has_categories):
    mask = np.arange(4) < has_categories
    shape = TableShape(9000, 4, 1 + is_classification, is_classification, False, mask, None)
    first, *others = boosting(shape, {})
    np.testing.assert_array_equal(first.estimator.categorical_features, mask)
    names = [first.name, *(spec.name for spec in others)]
    both = ["boosted symmetric trees", "gradient boosting (target statistics)"]
    assert names == both[: 1 + mask[0]]
    names = [spec.name for spec in boosting(replace(shape, n_rows=40_000), {})]
    assert names == ["gradient boosting", "gradient boosting (target statistics)"][: 1 + mask[0]]


@pytest.mark.parametrize(("n_rows", "n_bins"), [(5000, 128), (5001, 254)])
def test_numbers_of_many_rows_are_predicted_with_fine_bins(n_rows, n_bins):
    (spec,) = boosting(TableShape(n_rows, 4, 1, False, False, None, None), {})
    assert spec.estimator.max_bins == n_bins


@pytest.mark.parametrize(("n_columns", "n_classes"), [(784, 10), (64, 10), (784, 2)])
def test_wide_tables_of_several_classes_are_not_boosted(n_columns, n_classes):
    shape = TableShape(6000, n_columns, n_classes, True, False, None, None)
    (spec,) = boosting(shape, {})
    assert bool(spec.reason) == (n_columns == 784 and n_classes == 10)


def test_boosting_selects_its_rounds_by_the_folds_of_the_search():
    rng = np.random.RandomState(0)
    X = rng.randn(300, 4)
    y = (X[:, 0] > 0) + 2.0 * rng.randn(300)
    model = AutoRegressor(["boosting"], random_state=0).fit(X, y)
    (base,) = model.estimators_
    assert base.params["n_estimators"] == base.estimator.n_iter_ < 100  # mostly noise
    assert base.estimator.validation_score_ is None  # no second search


def _informative_categories(n_rows, n_classes, seed=0):
    """Return a frame whose target depends on categories, some of them missing."""
    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(seed)
    code = rng.randint(12, size=n_rows)
    X = pd.DataFrame({f"x{j}": rng.randn(n_rows) for j in range(3)})
    letters = np.array(list("abcdefghijkl"), dtype=object)[code]
    X["category"] = np.where(rng.rand(n_rows) < 0.05, None, letters)
    return X, (code * 7 % 12 + (rng.rand(n_rows) < 0.1)) % n_classes


@pytest.mark.parametrize("n_classes", [2, 3])
def test_categories_are_boosted(n_classes):
    X, y = _informative_categories(220, n_classes)
    model = AutoClassifier(["constant", "boosting"], unseen="ignore", random_state=0)
    model.fit(X, y)
    weights = {base.name: base.weight for base in tried(model)}
    assert sum(weight for name, weight in weights.items() if "boost" in name) > 0.9
    proba = model.predict_proba(X.assign(category="never seen"))
    assert np.isfinite(proba).all()


def test_target_statistics_of_a_row_exclude_its_own_target():
    rng = np.random.RandomState(0)
    codes = np.repeat(np.arange(60), 5).astype(float)
    y = rng.randint(2, size=300)  # random, so that any relation is a leak
    shape = TableShape(300, 1, 2, True, False, np.array([True]), None)
    given = _statistics(shape).fit_transform(codes[:, None], y)
    assert abs(np.corrcoef(given[:, 0], y)[0, 1]) < 0.2


@pytest.mark.parametrize(("n_rows", "n_specs"), [(199, 0), (200, 2), (2000, 1)])
def test_boosting_is_skipped_for_few_labelled_rows(n_rows, n_specs):
    shape = TableShape(n_rows, 4, 2, True, False, None, None)
    assert len(list(boosting(shape, {"random forest neighbours": 0.1}))) == n_specs


@pytest.mark.parametrize(("n_columns", "share"), [(9, 1.0), (10, 0.3)])
@pytest.mark.parametrize("is_classification", [True, False])
def test_splits_of_many_columns_sample_some(n_columns, share, is_classification):
    shape = TableShape(
        40_000, n_columns, 1 + is_classification, is_classification, False, None, None
    )
    (spec,) = boosting(shape, {})
    # Where few columns matter, regression would lose by it.
    assert spec.estimator.max_features == (share if is_classification else 1.0)


def test_boosting_is_tried_first_under_a_time_limit():
    table = TableShape(1000, 4, 3, True, False, None, None)
    assert list(default_families(replace(table, is_timed=True)))[:2] == ["constant", "boosting"]
    patient = list(default_families(table))
    assert patient.index("boosting") > patient.index("forest")
    assert set(default_families(replace(table, is_timed=True))) == set(patient)


def test_presets_try_more_families_the_more_time_they_have():
    shape = TableShape(1000, 4, 1, False, False, None, None)
    tried = {}
    for preset in PRICES:
        families = default_families(replace(shape, preset=preset))
        tried[preset] = {family for family, reason in families.items() if not reason}
    assert tried["fast"] < tried["default"] < tried["best"]
    regression = default_families(replace(shape, preset="fast", is_classification=False))
    assert "neural" in tried["best"]
    assert PRICES["fast"] > PRICES["default"] > PRICES["best"] > 0.0
    assert not regression["boosting"]
    assert not regression["kernel"]
    assert regression["forest"]
    classes = replace(shape, preset="fast", is_classification=True, n_outputs=2)
    assert not default_families(classes)["forest"]
    mixed = default_families(replace(classes, categorical=np.array([False, True])))
    assert {name for name, reason in mixed.items() if not reason} == {
        "constant", "linear", "boosting"
    }  # fmt: skip


@pytest.mark.parametrize("is_classification", [True, False])
def test_the_fast_preset_boosts_one_run_of_one_kind_of_trees(is_classification):
    shape = TableShape(1500, 4, 2, is_classification, False, None, None, preset="fast")
    shape = replace(shape, n_outputs=1 + is_classification)
    (spec,) = boosting(shape, {})
    assert spec.estimator.n_runs == 1
    assert spec.estimator.bootstrap is True
    assert spec.estimator.depth != "auto"
    assert spec.seconds < next(boosting(replace(shape, preset="default"), {})).seconds


@pytest.mark.parametrize("is_classification", [True, False])
def test_the_fast_preset_fits_kernel_ridge_once(is_classification):
    shape = TableShape(1000, 4, 2, is_classification, False, None, None, preset="fast")
    (spec,) = FAMILIES["kernel"](shape, {})
    assert spec.whole
    rng = np.random.RandomState(0)
    X = rng.normal(size=(1000, 4))
    y = (X[:, 0] > 0.0).astype(np.int64) if is_classification else X[:, 0] ** 2
    found = spec.estimator.held_out(X, y, folds=np.array_split(np.arange(1000), 3))
    known = found.fitted(0)
    left_out = known.loo_proba_ if is_classification else known.loo_prediction_[:, None]
    np.testing.assert_allclose(found.predictions[0], left_out)


def test_the_fast_preset_has_three_folds_and_judges_fewer_rows():
    X, y = blobs()
    for preset, n_folds in (("fast", 3), ("default", 5)):
        model = AutoClassifier(preset=preset)
        data = read_table(model, X, y, None, None, "classification")
        assert resolve(model, X, y, None, data).cv == n_folds
    assert len(sample_judged(4000, 4, 0, "fast")) == 2000
    assert len(sample_judged(4000, 4, 0)) == 4000


@pytest.mark.parametrize(
    "family", ["local", "forest", "boosting", "gradient", "kernel", "pretrained"]
)
def test_models_take_longer_on_longer_tables(family):
    shape = TableShape(500, 8, 1, False, False, None, None)
    tried = {"local linear (standardized)": 0.1}
    few = next(FAMILIES[family](shape, tried)).seconds
    assert 0.0 < few < next(FAMILIES[family](replace(shape, n_rows=1000), tried)).seconds


def test_models_that_kernel_ridge_replaces_are_not_tried():
    shape = TableShape(500, 8, 1, False, False, None, None)
    lead = {"kernel ridge (gradient metric)": 0.1, "local linear (standardized)": 0.2}
    assert len(list(FAMILIES["local"](shape, lead))) == 1
    assert len(list(FAMILIES["local"](shape, lead | {"local linear (standardized)": 0.11}))) > 1


@pytest.mark.parametrize("is_classification", [True, False])
def test_local_models_in_the_gradient_metric_are_tried_where_kernel_ridge_is_not(
    is_classification,
):
    few = TableShape(500, 8, 2, is_classification, False, None, None)
    families = default_families(few)
    assert not families["kernel"]
    assert "kernel ridge learns" in families["gradient"]
    assert not default_families(replace(few, n_rows=6000))["gradient"]
    assert not default_families(replace(few, preset="best"))["gradient"]
    # Kernel ridge cannot obey constraints.
    assert not default_families(replace(few, monotonic=np.ones(8)))["gradient"]


def test_kernel_ridge_is_tried_up_to_some_rows_with_or_without_a_time_limit():
    table = TableShape(5000, 5, 1, False, False, None, None)
    losses = {"local linear (standardized)": 0.1}
    for is_timed in (False, True):
        few = replace(table, is_timed=is_timed)
        assert not default_families(few)["kernel"]
        assert len(list(FAMILIES["kernel"](few, losses))) == 1
        many = replace(few, n_rows=5001)
        assert "tried on at most 5,000" in default_families(many)["kernel"]
        assert not list(FAMILIES["kernel"](many, losses))


def test_pipelines_can_be_base_models():
    X, y = blobs()
    base = make_pipeline(StandardScaler(), LogisticRegression())
    model = AutoClassifier([("line", base)], random_state=0)
    model.fit(X, y, sample_weight=np.linspace(1.0, 2.0, 120))
    assert clone(model).get_params()["families"][0][0] == "line"
    assert isinstance(DummyRegressor(), BaseEstimator)


def test_a_discriminant_with_little_shrinkage_equals_scikit_learns():
    X, y = load_iris(return_X_y=True)
    ours = LinearClassifier("lda", alpha=1e-9).fit(X, y).predict_proba(X)
    known = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(ours, known, atol=1e-6)


def test_gradient_metrics_start_from_the_best_coordinates():
    # Classes differ along the widest axis of many columns; made equal, the others drown it.
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(200, 120)), rng.randint(3, size=200)
    X[:, 0] += 2.0 * y
    X[:, 0] *= 30.0
    model = AutoClassifier(["local", "gradient"], random_state=0).fit(X, y)
    losses = {base.name: base.loss for base in tried(model)}
    assert losses["local linear (columns as given)"] < losses["local linear (standardized)"]
    assert losses["gradient metric (columns as given)"] <= (
        1.1 * losses["local linear (columns as given)"]
    )


@pytest.mark.parametrize("kind", [AutoClassifier, AutoRegressor])
def test_pretrained_neighbours_are_part_of_the_ensemble_where_named(kind):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(120, 3))
    y = np.sign(X[:, 0] * X[:, 1]) if kind is AutoClassifier else X[:, 0] * X[:, 1]
    model = kind(["constant", "pretrained"], random_state=0).fit(X, y)
    assert "pretrained neighbours" in [base.name for base in model.estimators_]
    assert model.score(X, y) > 0.7


def test_pretrained_neighbours_pay_for_slow_predictions_of_single_rows():
    shape = TableShape(1000, 5, 2, True, False, None, None)
    (spec,) = FAMILIES["pretrained"](shape, {})
    (best,) = FAMILIES["pretrained"](replace(shape, preset="best"), {})
    assert spec.price == 10.0 * best.price
    assert spec.estimator.n_passes < best.estimator.n_passes
    assert spec.seconds < best.seconds
    assert default_families(shape)["pretrained"] == ""
    assert "preset='fast'" in default_families(replace(shape, preset="fast"))["pretrained"]
    assert not list(FAMILIES["pretrained"](replace(shape, n_rows=2000), {}))


@pytest.mark.parametrize(("device", "found", "is_tried"), [
    ("auto", None, False), ("auto", "cpu", True), ("cpu", "cpu", False),
])  # fmt: skip
def test_networks_are_tried_where_a_gpu_trains_them(monkeypatch, device, found, is_tried):
    monkeypatch.setattr("vicinal._base._arrays.gpu", lambda: found)  # the CPU stands for one
    X, y = blobs(40)
    model = AutoClassifier(device=device)
    settings = resolve(model, X, y, None, read_table(model, X, y, None, None, "classification"))
    shape = TableShape(1000, 4, 3, True, False, None, None, device=settings.device)
    assert (default_families(shape)["neural"] == "") == is_tried
    (spec,) = FAMILIES["pretrained"](shape, {})
    assert spec.estimator.device == ("auto" if is_tried else None)
    assert (spec.seconds == 0.0) == is_tried
    (spec,) = FAMILIES["neural"](shape, {})
    assert spec.estimator.device == (found if is_tried else None)
    many = default_families(replace(shape, n_rows=100_000))["neural"]
    assert many
    assert ("minutes; name it" in many) == is_tried
