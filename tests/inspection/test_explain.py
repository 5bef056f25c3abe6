import json
import warnings
from html.parser import HTMLParser

import matplotlib
import matplotlib.pyplot
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import is_classifier, is_regressor
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from tests.common.instances import all_instances
from tests.versions import needs_sklearn

from vicinal._base._explanation import ExplanationSection, plain, show_change
from vicinal.ensemble import (
    BayesianModelAveragingClassifier,
    BayesianModelAveragingRegressor,
    BootstrapEnsembleClassifier,
    FunctionalGradientBoostingClassifier,
    FunctionalGradientBoostingRegressor,
    PrunedTreeClassifier,
    RealAdaBoostClassifier,
)
from vicinal.inspection import explain
from vicinal.inspection.explain._columns import MixedRows, columns_behind
from vicinal.inspection.explain._contributions import column_contributions
from vicinal.inspection.results import Explanation
from vicinal.linear import WhiteningTransformer
from vicinal.local import (
    AnchoredLocalClassifier,
    AnchoredLocalRegressor,
    LocalClassifier,
    LocalRegressor,
)
from vicinal.partition import SpacePartitioningClassifier, SpacePartitioningRegressor
from vicinal.subspace import SubspaceFusionClassifier, TruncatedRBFRegressor
from vicinal.surface import SurfaceCalibratedClassifier
from vicinal.table import TableEncoder
from vicinal.uncertainty import LocallyAdaptiveClassifier

matplotlib.use("Agg")

X, LABELS = make_classification(
    90, 5, n_informative=4, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0
)
NAMES = np.array(["a", "b", "c"])[LABELS]
TARGET = X @ [1.0, -2.0, 0.5, 0.0, 1.0] + LABELS
TWO = LABELS > 0


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    matplotlib.pyplot.close("all")


def column(section, name):
    at = section.columns.index(name)
    return [row[at] for row in section.rows]


def by_name(section, name):
    return dict(zip(column(section, section.columns[0]), column(section, name), strict=True))


PREDICTORS = [model for model in all_instances() if hasattr(model, "predict")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", PREDICTORS, ids=lambda model: type(model).__name__)
def test_every_model_gives_an_explanation_in_every_format(model):
    y = TARGET if is_regressor(model) else np.where(TWO, "yes", "no")
    model.fit(X, y if is_classifier(model) or is_regressor(model) else LABELS)
    found = explain(model, X[3], background=X)
    assert found.prediction == model.predict(X[3:4])[0]
    if is_classifier(model) or is_regressor(model):
        assert found.sections[0].key in ("columns", "interval", "set")
    for section in found.sections:
        assert section.summary
        assert all(len(row) == len(section.columns) for row in section.rows)
    assert found.headline() in found.text()
    again = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert list(again["sections"]) == [section.key for section in found.sections] == list(found)
    assert all(key in found for key in found)
    assert "no such section" not in found
    assert again["row"]["x0"] == X[3, 0]
    assert found.to_html().count("<section") == len(found.sections)
    found.plot()
    if hasattr(model, "predict_proba") and is_classifier(model):
        assert_allclose(list(found.probabilities.values()), model.predict_proba(X[3:4])[0])
    own = model.explain_row(X[3:4])
    alone = explain(model, X[3])
    for mine in own:
        part = alone[mine.key]
        kept = [part.columns.index(name) for name in mine.columns]  # values of neighbours are more
        assert part.summary.endswith(mine.summary)
        assert plain(part.values | mine.values) == plain(part.values)
        assert plain(mine.rows) == plain([tuple(row[j] for j in kept) for row in part.rows])
    with pytest.raises(ValueError, match=r"X has shape \(2, 5\), but explain_row takes one row"):
        model.explain_row(X[:2])


@pytest.mark.parametrize("model", PREDICTORS, ids=lambda model: type(model).__name__)
def test_models_fitted_on_frames_predict_frames(model):
    y = TARGET if is_regressor(model) else np.where(TWO, "yes", "no")
    frame = pd.DataFrame(X, columns=list("vwxyz"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(frame, y if is_classifier(model) or is_regressor(model) else LABELS)
    found = explain(model, frame.iloc[[3]])
    assert found.to_dict() == explain(model, X[3]).to_dict()
    assert list(found.row) == list("vwxyz")


# --- numbers: partition ---


@pytest.mark.parametrize("scale", [True, False])
def test_contributions_of_a_region_add_up_to_the_margin(scale):
    model = SpacePartitioningClassifier(
        n_regions=2, n_init=1, combine="best", scale=scale, random_state=0
    ).fit(X, NAMES)
    for row in X[:10]:
        found = explain(model, row)
        region = found["region"].values["region"]
        assert region == model.apply(row[None])[0]
        part = model.region_estimators_[region]
        z = row[None] if model.scaler_ is None else model.scaler_.transform(row[None])
        scores = np.sort(part.decision_function(z)[0])
        section = found["coefficients"]
        total = sum(column(section, "contribution")) + section.values["intercept"]
        assert_allclose(total, scores[-1] - scores[-2], rtol=1e-6)
        assert section.values["chosen"] == found.prediction


def test_regions_of_one_class_have_no_coefficients():
    model = SpacePartitioningClassifier(n_regions=2, n_init=1, combine="best", random_state=0)
    model.fit(X, NAMES)
    row = X[model.apply(X) == 0][0]
    region = model.restarts_[0].regions[0]
    region.coef_[:], region.intercept_[:] = 0.0, [-np.inf, 0.0, -np.inf]
    found = explain(model, row)
    assert found["coefficients"].summary == "All training rows of region 0 are b."
    json.dumps(found.to_dict(), allow_nan=False)


def test_coefficients_are_per_unit_of_the_columns():
    model = SpacePartitioningRegressor(n_regions=2, n_init=1, combine="best", random_state=0)
    model.fit(X, TARGET)
    row = X[:1]
    found = by_name(explain(model, row)["coefficients"], "coefficient")
    for j in range(5):
        moved = row.copy()
        moved[0, j] += 1e-6
        slope = (model.predict(moved) - model.predict(row))[0] / 1e-6
        assert_allclose(found[f"x{j}"], slope, rtol=1e-4, atol=1e-6)


def test_path_lists_every_gate_up_to_the_region():
    model = SpacePartitioningClassifier(n_regions=3, n_init=1, combine="best", random_state=0)
    model.fit(X, NAMES)
    for row in X[:20]:
        section = explain(model, row)["region"]
        scores, region = model.decision_path(row[None])[0], section.values["region"]
        shown = [part for part in section.rows if part[0].startswith("gate")]
        assert len(shown) == min(region + 1, len(scores))
        assert [part[2] == "passed on" for part in shown] == [s > 0 for s in scores[: len(shown)]]


# --- numbers: local ---


def test_neighbours_carry_the_weights_of_the_model():
    model = LocalClassifier(n_neighbors=20, metric="standardized").fit(X, NAMES)
    section = explain(model, X[7])["neighbors"]
    weights = model.neighbors(X[7:8]).toarray()[0]
    shown = by_name(section, "weight")
    assert_allclose(
        [shown[i] for i in np.flatnonzero(weights)], weights[weights > 0] / weights.sum()
    )
    assert section.values["effective_sample_size"] == model.effective_sample_size(X[7:8])[0]
    targets = by_name(section, "target")
    assert all(NAMES[row] == target for row, target in targets.items())
    assert_allclose(sum(section.values["class_shares"].values()), 1.0)
    distances = np.linalg.norm((X - X[7]) / X.std(axis=0), axis=1)
    assert_allclose(
        [by_name(section, "distance")[i] for i in shown], [distances[i] for i in shown], atol=1e-12
    )


@pytest.mark.parametrize("metric", ["euclidean", "standardized", StandardScaler(), "manhattan"])
def test_local_contributions_are_slopes_times_the_way_from_the_neighbours(metric):
    model = LocalRegressor(n_neighbors=30, metric=metric, degree=1, alpha=0.01).fit(X, TARGET)
    section = explain(model, X[4])["coefficients"]
    weights = model.neighbors(X[4:5]).toarray()[0]
    centre = weights @ X / weights.sum()
    slopes = model.local_coef(X[4:5])[0]
    shown = by_name(section, "contribution")
    assert_allclose([shown[f"x{j}"] for j in range(5)], slopes * (X[4] - centre), atol=1e-8)


def test_slopes_are_those_of_the_predicted_class():
    model = LocalClassifier(n_neighbors=40, metric="euclidean", alpha=0.1).fit(X, TWO)
    for row in X[:10]:
        found = explain(model, row)
        if "coefficients" not in found:
            continue
        shown = by_name(found["coefficients"], "coefficient")
        sign = 1.0 if found.prediction else -1.0
        slopes = sign * model.local_coef(row[None])[0]
        assert_allclose([shown[f"x{j}"] for j in range(5)], slopes, rtol=1e-9)


@pytest.mark.parametrize("metric", ["forest", "ranked"])
def test_other_neighbourhoods(metric):
    model = LocalRegressor(metric=metric, n_neighbors="auto", random_state=0).fit(X, TARGET)
    found = explain(model, X[3])
    weights = model.neighbors(X[3:4]).toarray()[0]
    shown = by_name(found["neighbors"], "weight")
    assert_allclose([shown[i] for i in shown], weights[list(shown)] / weights.sum())
    assert np.isfinite(column(found["coefficients"], "contribution")).all()


def test_anchors_show_each_stored_model():
    model = AnchoredLocalRegressor(10, n_neighbors=30, metric="euclidean", random_state=0)
    model.fit(X, TARGET)
    found = explain(model, X[3])
    section = found["anchors"]
    assert section.title == "Anchors"
    assert section.values["n_anchors"] == len(model.anchors_.centers)
    mean = np.dot(column(section, "weight"), column(section, "prediction"))
    assert_allclose(mean, found.prediction)
    classifier = AnchoredLocalClassifier(10, n_neighbors=30, metric="euclidean", random_state=0)
    found = explain(classifier.fit(X, NAMES), X[3])
    assert set(column(found["anchors"], "prediction")) <= set("abc")
    assert "coefficients" in found


def test_location_columns_have_no_slope():
    model = LocalRegressor(n_neighbors=30, location_columns=[0, 1]).fit(X, TARGET)
    shown = by_name(explain(model, X[0])["coefficients"], "coefficient")
    assert shown["x0"] == shown["x1"] == 0.0
    assert shown["x2"] != 0.0


def test_black_boxes_around_a_row_have_neighbours_only():
    model = LocalRegressor(DecisionTreeClassifier(max_depth=1), n_neighbors=20).fit(X, LABELS)
    keys = [section.key for section in explain(model, X[0]).sections]
    assert keys == ["neighbors", "novelty"]


# --- numbers: the other families ---


def test_components_and_voters_give_the_prediction():
    model = LocallyAdaptiveClassifier(2, tol=1e-3, random_state=0).fit(X, NAMES)
    found = explain(model, X[5])
    shares = found["components"].values["responsibilities"]
    assert_allclose(sum(shares), 1.0)
    leader = found["components"].values["leader"]
    stretch = by_name(found["metric"], "stretch")
    squares = (model.metrics_**2).sum(axis=1).reshape(model.n_splits_, 2, 5)[:, leader]
    assert_allclose([stretch[f"x{j}"] for j in range(5)], np.sqrt(squares.mean(axis=0)))
    voters = found["neighbors"]
    votes = dict.fromkeys(model.classes_, 0.0)
    for label, _, weight in voters.rows:
        votes[label] += weight
    alone = by_name(found["components"], "probability")[f"component {leader}"]
    assert_allclose(max(votes.values()), alone, atol=0.02)


def test_votes_are_those_of_the_subspaces():
    model = SubspaceFusionClassifier(["random"], LogisticRegression(), n_subspaces=3, cv=2)
    model.set_params(random_state=0).fit(X, NAMES)
    section = explain(model, X[2])["votes"]
    predicted = model.predict_subspaces(X[2:3])[0]
    assert by_name(section, "vote") == dict(zip(model.subspace_names_, predicted, strict=True))
    assert sum(section.values["votes"].values()) == len(predicted)


def test_slopes_of_a_polynomial_are_its_derivatives():
    model = TruncatedRBFRegressor(order=2).fit(X, TARGET)
    shown = by_name(explain(model, X[0])["coefficients"], "coefficient")
    for j in range(5):
        away = np.eye(5)[j] * 1e-4
        slope = (model.predict((X[0] + away)[None]) - model.predict((X[0] - away)[None]))[0] / 2e-4
        assert_allclose(shown[f"x{j}"], slope, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_calibrated_distances_are_shown_for_every_surface(n_classes):
    y = TWO if n_classes == 2 else NAMES
    model = SurfaceCalibratedClassifier(LogisticRegression(), random_state=0)
    section = explain(model.fit(X, y), X[0])["distances"]
    distance, probability = by_name(section, "distance"), by_name(section, "probability")
    assert len(section.rows) == len(model.surfaces_)
    if n_classes == 2:
        assert_allclose(distance["True or False"], model.surfaces_[0].distance(X[:1])[0])
        assert_allclose(probability["True or False"], model.predict_proba(X[:1])[0, 1])
    else:
        parts = np.array([probability[f"{label} or the rest"] for label in "abc"])
        assert_allclose(parts / parts.sum(), model.predict_proba(X[:1])[0])


def test_weights_of_averaged_models():
    models = [("bayes", GaussianNB()), ("tree", DecisionTreeClassifier(max_depth=2))]
    model = BayesianModelAveragingClassifier(models, random_state=0).fit(X, NAMES)
    found = explain(model, X[0])
    section = found["base_models"]
    assert_allclose(sum(column(section, "weight")), 1.0)
    assert_allclose(sum(column(section, "contribution")), found.probabilities[found.prediction])
    predicted = model.named_estimators_["bayes"].predict_proba(X[:1])[0]
    assert by_name(section, "prediction")["bayes"] == model.classes_[predicted.argmax()]
    at = model.classes_.tolist().index(found.prediction)
    assert_allclose(by_name(section, "probability")["bayes"], predicted[at])


def test_averaged_numbers_add_up():
    models = [("ridge", Ridge()), ("tree", DecisionTreeRegressor(max_depth=2))]
    model = BayesianModelAveragingRegressor(models, random_state=0).fit(X, TARGET)
    found = explain(model, X[0])
    assert_allclose(sum(column(found["base_models"], "contribution")), found.prediction)


@pytest.mark.parametrize("y", [TWO, NAMES, TARGET], ids=["two", "three", "regression"])
def test_rounds_of_boosting_add_up_to_the_score(y):
    kind = (
        FunctionalGradientBoostingRegressor if y is TARGET else FunctionalGradientBoostingClassifier
    )
    model = kind(n_estimators=5, random_state=0).fit(X, y)
    found = explain(model, X[1])
    section = found["base_models"]
    total = section.values["start"] + sum(column(section, "contribution"))
    assert_allclose(total, section.values["score"])
    if y is TARGET:
        expected = model.predict(X[1:2])[0]
    elif y is TWO:
        expected = model.decision_function(X[1:2])[0] * (1 if found.prediction else -1)
    else:
        expected = model.decision_function(X[1:2])[0].max()
    assert_allclose(total, expected)


def test_rounds_of_adaboost_add_up_to_the_score():
    model = RealAdaBoostClassifier(n_estimators=5, random_state=0).fit(X, NAMES)
    section = explain(model, X[1])["base_models"]
    expected = model.decision_function(X[1:2])[0].max()
    assert_allclose(sum(column(section, "contribution")), expected)


def test_votes_of_the_bootstrap():
    model = BootstrapEnsembleClassifier(n_estimators=7, random_state=0).fit(X, NAMES)
    section = explain(model, X[1])["base_models"]
    assert sum(section.values["votes"].values()) == 7


@pytest.mark.parametrize("kind", [PrunedTreeClassifier, DecisionTreeClassifier])
def test_questions_of_a_tree_are_true_of_the_row(kind):
    model = kind(random_state=0, min_samples_leaf=5).fit(X, NAMES)
    for row in X[:10]:
        section = explain(model, row)["path"]
        for question, value, _ in section.rows:
            name, sign, threshold = question.split()
            assert value == row[int(name[1:])]
            assert (value <= float(threshold)) == (sign == "<=") or np.isclose(
                value, float(threshold), rtol=1e-3
            )
        assert section.values["leaf"] == model.apply(row[None])[0]


def test_linear_models_of_scikit_learn_add_up():
    section = explain(Ridge().fit(X, TARGET), X[0])["coefficients"]
    total = section.values["intercept"] + sum(column(section, "contribution"))
    assert_allclose(total, Ridge().fit(X, TARGET).predict(X[:1])[0])
    model = LogisticRegression().fit(X, NAMES)
    section = explain(model, X[0])["coefficients"]
    scores = np.sort(model.decision_function(X[:1])[0])
    total = section.values["intercept"] + sum(column(section, "contribution"))
    assert_allclose(total, scores[-1] - scores[-2])


def test_nearest_neighbours_of_scikit_learn():
    section = explain(KNeighborsClassifier(3).fit(X, NAMES), X[0])["neighbors"]
    assert column(section, "training row")[0] == 0
    assert column(section, "target")[0] == NAMES[0]


def test_a_column_that_decides_nothing_has_no_effect():
    y = X[:, 0] > 0
    model = DecisionTreeClassifier(max_depth=1).fit(X, y)
    section = explain(model, X[0], background=X)["columns"]
    effect = by_name(section, "contribution")
    assert effect["x1"] == effect["x4"] == 0.0
    expected = 1.0 - np.mean(y[np.unique(np.linspace(0, 89, 60).round().astype(int))] == y[0])
    assert_allclose(effect["x0"], expected)


def test_contributions_to_a_linear_model_are_those_of_its_coefficients():
    model = LinearRegression().fit(X, TARGET)
    section = explain(model, X[0], background=X[:60])["columns"]
    effect = by_name(section, "contribution")
    assert_allclose(section.values["baseline"], model.predict(X[:60]).mean())
    expected = model.coef_ * (X[0] - X[:60].mean(axis=0))
    assert_allclose([effect[f"x{j}"] for j in range(5)], expected, atol=1e-10)


@pytest.mark.parametrize("kind", [
    "array", "frame", "sparse", "objects",
    pytest.param("polars", marks=needs_sklearn("1.7", "ColumnTransformer of polars frames")),
])  # fmt: skip
def test_contributions_of_columns_add_up_to_the_prediction(kind):
    table = np.where(X > 0.5, X, 0.0)
    if kind in ("frame", "polars", "objects"):
        table = pd.DataFrame(table, columns=list("vwxyz"))
        table["z"] = pd.Categorical(np.where(X[:, 4] > 0, "up", None))
        if kind == "polars":
            table = pl.from_pandas(table)
        if kind == "objects":
            table = table.to_numpy()
    elif kind == "sparse":
        table = sparse.csr_matrix(table)
    model = GradientBoostingClassifier(n_estimators=10, random_state=0)
    if kind in ("frame", "polars", "objects"):
        encoder = OneHotEncoder(handle_unknown="ignore")
        column_4 = [4] if kind == "objects" else ["z"]
        model = make_pipeline(
            make_column_transformer((encoder, column_4), remainder="passthrough"), model
        )
    model.fit(table, NAMES)
    for i in (0, 7):
        found = explain(model, table[i : i + 1], background=table)
        section = found["columns"]
        total = section.values["baseline"] + sum(column(section, "contribution"))
        assert_allclose(total, found.probabilities[found.prediction])
        assert_allclose(section.values["prediction"], total)


def test_contributions_share_what_two_columns_do_together():
    def product(rows):
        return rows[:, :1] * rows[:, 1:2]

    here, reference, parts, errors, n_others = column_contributions(product, X[:1, :2], X[1:11, :2])
    x, b = X[0, :2], X[1:11, :2]
    assert n_others == 10
    assert_allclose([here[0], reference[0]], [x[0] * x[1], np.mean(b[:, 0] * b[:, 1])])
    each = np.stack([(x - b)[:, j] * (x + b)[:, 1 - j] / 2 for j in (0, 1)])
    assert_allclose(parts[:, 0], each.mean(axis=1))
    assert_allclose(errors[:, 0], each.std(axis=1, ddof=1) / np.sqrt(10))


def test_wide_tables_are_compared_with_fewer_rows():
    rows = np.random.RandomState(0).normal(size=(40, 900))
    n_rows = []

    def output(table):
        n_rows.append(len(table))
        return table[:, :3].sum(axis=1, keepdims=True)

    here, reference, parts, _, n_others = column_contributions(output, rows[:1], rows[1:])
    assert n_others == 8
    assert max(n_rows) < 6000
    assert_allclose(parts.sum(axis=0), here - reference)
    assert not parts[3:].any()


# --- names ---


@pytest.fixture(scope="module")
def people():
    rng = np.random.RandomState(0)
    frame = pd.DataFrame(
        {
            "age": rng.randint(20, 80, 120).astype(float),
            "job": rng.choice(["cook", "smith"], 120),
            "job_kind": rng.choice(["old", "new"], 120),
            "hours": rng.normal(40, 5, 120),
        }
    )
    y = np.where(frame["age"] + 20 * (frame["job"] == "cook") > 60, "rich", "poor")
    encoder = make_column_transformer(
        (OneHotEncoder(), ["job", "job_kind"]),
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
        remainder="passthrough",
    )
    model = make_pipeline(
        encoder, SpacePartitioningClassifier(n_regions=2, n_init=1, random_state=0)
    )
    return frame, y, model.fit(frame, y)


def test_encoded_columns_are_led_back_to_the_table(people):
    frame, _, model = people
    section = explain(model, frame.iloc[3:4])["coefficients"]
    assert by_name(section, "computed from") == {
        "job_cook": "job",
        "job_smith": "job",
        "job_kind_new": "job_kind",
        "job_kind_old": "job_kind",
        "age": "age",
        "hours": "hours",
    }
    assert by_name(section, "value")["job_cook"] == frame["job"].iloc[3]
    assert by_name(section, "value")["age"] == frame["age"].iloc[3]
    by_source = section.values["by source"]
    assert set(by_source) == {"age", "job", "job_kind", "hours"}
    assert_allclose(sum(by_source.values()), sum(column(section, "contribution")))


def test_coefficients_behind_a_scaler_are_in_units_of_the_table():
    plain = Ridge(alpha=1e-9).fit(X * [1.0, 10.0, 100.0, 1.0, 1.0], TARGET)
    scaled = make_pipeline(StandardScaler(), Ridge(alpha=1e-9))
    scaled.fit(X * [1.0, 10.0, 100.0, 1.0, 1.0], TARGET)
    row = X[0] * [1.0, 10.0, 100.0, 1.0, 1.0]
    shown = by_name(explain(scaled, row)["coefficients"], "coefficient")
    expected = by_name(explain(plain, row)["coefficients"], "coefficient")
    assert_allclose([shown[name] for name in expected], list(expected.values()), rtol=1e-6)


@pytest.mark.parametrize("form", ["frame", "series", "mapping", "polars"])
def test_rows_come_in_many_forms(people, form):
    frame, y, model = people
    expected = explain(model, frame.iloc[3:4]).to_dict()
    if form == "polars":
        table = pl.from_pandas(frame)
        model = make_pipeline(
            make_column_transformer((OneHotEncoder(), ["job"]), remainder="drop"),
            LogisticRegression(),
        ).fit(table, y)
        found = explain(model, table[3], background=table)
        assert by_name(found["columns"], "contribution")["age"] == 0.0
        assert found.row["age"] == frame["age"].iloc[3]
        return
    row = {"frame": frame.iloc[3:4], "series": frame.iloc[3], "mapping": dict(frame.iloc[3])}[form]
    assert explain(model, row).to_dict() == expected


def test_effects_are_shown_for_the_columns_of_the_table(people):
    frame, _, model = people
    section = explain(model, frame.iloc[3:4], background=frame)["columns"]
    assert set(column(section, "column")) == set(frame.columns)


def test_transformers_that_mix_columns_name_no_source():
    model = make_pipeline(StandardScaler(), PCA(2), LogisticRegression()).fit(X, TWO)
    found = explain(model, X[0])
    assert column(found["coefficients"], "computed from") == ["several columns"] * 2
    assert found.row["x4"] == X[0, 4]


def test_sources_through_selection_union_and_named_steps():
    names = [f"x{j}" for j in range(5)]

    def sources(step):
        return columns_behind([step], X[:1], names, step.transform(X[:1])).sources

    union = FeatureUnion([("first", StandardScaler()), ("second", MinMaxScaler())]).fit(X)
    assert sources(union) == names + names
    best = SelectKBest(k=2).fit(X, LABELS)
    assert sources(best) == [names[j] for j in np.flatnonzero(best.get_support())]
    inner = FeatureUnion([("scaled", StandardScaler())])
    chosen = ColumnTransformer(
        [("mask", inner, [False, True, False, False, True]), ("drop", "drop", [0])],
        remainder="passthrough",
    ).fit(X)
    assert sources(chosen) == ["x1", "x4", "x2", "x3"]
    sliced = ColumnTransformer([("part", StandardScaler(), slice(1, 3))]).fit(X)
    assert sources(sliced) == ["x1", "x2"]


def test_columns_that_keep_their_names_but_are_mixed_have_no_source():
    model = make_pipeline(WhiteningTransformer(), LogisticRegression()).fit(X, TWO)
    section = explain(model, X[0])["coefficients"]
    # The triangular factor leaves the first column alone.
    sources = by_name(section, "computed from")
    assert sources.pop("x0") == "x0"
    assert set(sources.values()) == {"several columns"}


def test_names_may_be_given():
    model = LocalClassifier(n_neighbors=20, metric="euclidean").fit(X, NAMES)
    found = explain(model, X[0], feature_names=list("vwxyz"))
    assert list(found.row) == list("vwxyz")
    assert set(column(found["coefficients"], "column")) == set("vwxyz")
    with pytest.raises(ValueError, match="feature_names has 2 entries, but the row has 5 columns"):
        explain(model, X[0], feature_names=["v", "w"])


def test_the_best_of_a_search_is_explained():
    search = GridSearchCV(LocalClassifier(metric="euclidean"), {"n_neighbors": [20]}, cv=2).fit(
        X, NAMES
    )
    assert explain(search, X[0])["neighbors"].values["n_neighbors"] == 20


def test_sparse_rows():
    rows = sparse.csr_matrix(np.where(X > 0, X, 0.0))
    model = SpacePartitioningClassifier(n_regions=2, n_init=1, random_state=0).fit(rows, NAMES)
    found = explain(model, rows[3], background=rows)
    assert found.row["x0"] == rows[3, 0]
    assert {"region", "coefficients", "columns"} <= {part.key for part in found.sections}


# --- forms ---


class Collector(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text.append(data)


def test_names_and_labels_are_escaped():
    evil = "<script>alert(1)</script>"
    model = LocalClassifier(n_neighbors=20, metric="euclidean").fit(
        X, np.where(TWO, evil, '"><img src=x onerror=y>')
    )
    page = Collector()
    page.feed(explain(model, X[0], feature_names=[evil, "b", "c", "d", "e"]).to_html(20))
    assert not {"script", "img"} & set(page.tags)
    assert evil in page.text


def test_tables_are_cut_with_a_note():
    model = LocalClassifier(n_neighbors=20, metric="euclidean").fit(X, NAMES)
    assert "... and 17 more" in explain(model, X[0]).text(max_rows=3)
    assert "and 17 more" in explain(model, X[0]).to_html(max_rows=3)


def test_style_can_be_left_out():
    model = LocalClassifier(n_neighbors=20, metric="euclidean").fit(X, NAMES)
    found = explain(model, X[0])
    assert "<style>" in found.to_html()
    assert "<style>" not in found.to_html(style=False)
    assert found._repr_html_() == found.to_html()


def test_bars_are_the_numbers_of_the_section():
    model = LocalClassifier(n_neighbors=20, metric="euclidean").fit(X, NAMES)
    found = explain(model, X[0], feature_names=["$a_1$", "b", "c", "d", "e"])
    assert found.plot() is found
    widths = [bar.get_width() for bar in found.bars_]
    assert_allclose(widths, column(found["coefficients"], "contribution"))
    found.figure_.canvas.draw()
    assert any("$a_1$" in label.get_text() for label in found.ax_.get_yticklabels())
    found.plot(section="neighbors", max_rows=4)
    assert len(found.bars_) == 4
    found = explain(model, X[0], background=X)
    values = found["columns"].values
    bars = found.plot(max_rows=3).bars_
    assert len(bars) == 4  # the last one is the sum of the other columns
    assert_allclose(bars[0].get_x(), values["baseline"])
    assert_allclose(bars[-1].get_x() + bars[-1].get_width(), values["prediction"])


def test_sections_are_found_by_name():
    found = Explanation("Model", 1.0, None, {"x": 1.0}, [ExplanationSection("a", "A", "predicted")])
    assert "a" in found
    assert "b" not in found
    assert found["a"].summary == "predicted"
    with pytest.raises(KeyError, match="this explanation has 'a'"):
        found["b"]
    with pytest.raises(ValueError, match="the explanation of Model has no section with bars"):
        found.plot()
    with pytest.raises(ValueError, match="'a' has no bars"):
        found.plot(section="a")
    assert repr(found) == "<Explanation of Model: 1.0; a>"


def test_numbers_that_are_not_finite_become_null():
    section = ExplanationSection("a", "A", "predicted", ("x",), [(np.nan,)], None, {"y": np.inf})
    assert section.to_dict()["table"] == [{"x": None}]
    assert section.to_dict()["values"] == {"y": None}


# --- errors ---


def test_unfitted_models_and_transformers_have_nothing_to_explain():
    with pytest.raises(NotFittedError):
        explain(LocalClassifier(), X[0])
    with pytest.raises(ValueError, match="StandardScaler has no predict"):
        explain(StandardScaler().fit(X), X[0])


def test_one_row_at_a_time():
    model = RandomForestClassifier(n_estimators=2).fit(X, NAMES)
    with pytest.raises(ValueError, match="needs background"):
        explain(model, X[:2])


def test_coefficients_of_levels_and_of_numbers_in_strings_are_per_unit(rng):
    table = pl.DataFrame(
        {
            "city": rng.choice(["Rome", "Oslo", "Bern"], 90),
            "price": [f"{value:,.2f} EUR" for value in rng.uniform(1e3, 9e3, 90)],
        }
    )
    model = make_pipeline(TableEncoder(), StandardScaler(), LinearRegression())
    model.fit(table, rng.normal(size=90))
    row = pl.DataFrame({"city": ["Rome"], "price": ["2,000.00 EUR"]})
    found = explain(model, row)["coefficients"]
    slope = {line[0]: line[found.columns.index("coefficient")] for line in found.rows}
    (before,) = model.predict(row)
    (moved,) = model.predict(row.with_columns(city=pl.lit("Oslo")))
    assert slope["city = Oslo"] - slope["city = Rome"] == pytest.approx(moved - before)
    (dearer,) = model.predict(row.with_columns(price=pl.lit("2,100.00 EUR")))
    assert slope["price"] == pytest.approx((dearer - before) / 100)


class CountingScaler(StandardScaler):
    """Remembers how many rows it got."""

    def transform(self, X):
        self.n_rows = getattr(self, "n_rows", 0) + X.shape[0]
        return super().transform(X)


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, pl.DataFrame, sparse.csr_matrix])
def test_rates_behind_an_encoder_need_few_rows(make):
    X = np.random.RandomState(0).normal(size=(60, 50)) * np.arange(1, 51)
    table = make(X)
    if make is pd.DataFrame:
        table.columns = [f"c{j}" for j in range(50)]
    scaler = CountingScaler(with_mean=False).fit(table)
    names = (
        [f"c{j}" for j in range(50)] if make is np.asarray else list(scaler.get_feature_names_out())
    )
    seen = scaler.transform(table[:1])
    scaler.n_rows = 0
    found = columns_behind([scaler], table[:1], names, seen)
    assert_allclose(found.rates, 1.0 / scaler.scale_)
    # One row with all columns moved, twice, and two for each of six binary digits.
    assert scaler.n_rows == 14


def test_columns_that_are_mixed_have_no_source():
    X = np.random.RandomState(0).normal(size=(60, 5))
    mixing = FunctionTransformer(
        lambda X: X @ (np.eye(5) + np.eye(5, k=1)), feature_names_out="one-to-one"
    ).fit(X)
    found = columns_behind([mixing], X[:1], list("abcde"), mixing.transform(X[:1]))
    assert found.sources == ["a", None, None, None, None]


def test_changes_are_shown_with_sign_and_thousands():
    shown = [show_change(value) for value in (-668614.2, 1234.0, 80.7, -0.06, 0.0)]
    assert shown == ["-668,614", "+1,234", "+80.7", "-0.06", "+0"]


@pytest.mark.parametrize("kind", [float, object])
def test_rows_differ_where_values_do_and_missing_values_are_equal(kind):
    row = np.array([[1.0, np.nan, np.nan, 2.0]], dtype=kind)
    others = np.array([[1.0, np.nan, 0.0, 3.0], [0.0, 5.0, np.nan, 2.0]], dtype=kind)
    expected = [[False, False, True, True], [True, True, False, False]]
    assert_array_equal(MixedRows(row, others).differs(), expected)
    frames = [pd.DataFrame(part, columns=list("abcd")) for part in (row, others)]
    assert_array_equal(MixedRows(*frames).differs(), expected)
