"""Graphs agree with the models they were made from, far outside the training rows too."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import make_scorer, mean_pinball_loss
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.svm import SVR, LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import vicinal
from vicinal._base._compat import target_encoder
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.ensemble import (
    BayesianModelAveragingClassifier,
    BayesianModelAveragingRegressor,
    BootstrapEnsembleClassifier,
    BootstrapEnsembleRegressor,
    FunctionalGradientBoostingClassifier,
    FunctionalGradientBoostingRegressor,
    ObliviousBoostingClassifier,
    ObliviousBoostingRegressor,
    PrunedTreeClassifier,
    PrunedTreeRegressor,
    RealAdaBoostClassifier,
)
from vicinal.io import OnnxExportError, to_onnx
from vicinal.io._to_onnx import check_graph, feeds
from vicinal.linear import AveragedPerceptron, WeightedLDA, WhiteningTransformer
from vicinal.local import (
    AnchoredLocalClassifier,
    AnchoredLocalRegressor,
    LocalClassifier,
    LocalRegressor,
    LoessRegressor,
    NadarayaWatsonRegressor,
)
from vicinal.partition import (
    SpacePartitioningClassifier,
    SpacePartitioningRegressor,
    SurrogatePartitionClassifier,
)
from vicinal.surface import DecisionSurface, SurfaceCalibratedClassifier
from vicinal.uncertainty import LocallyAdaptiveClassifier

pytest.importorskip("skl2onnx")
runtime = pytest.importorskip("onnxruntime")

X, CODES = make_classification(
    150, 5, n_informative=4, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0
)
NAMES = np.array(["a", "b", "c"])[CODES]
TWO = np.array(["no", "yes"])[(CODES > 0).astype(int)]
TARGET = X @ [1.0, -2.0, 0.5, 0.0, 1.0] + CODES
FAR = np.vstack([X, 5.0 * X[:40], np.zeros((1, 5))])


def run(graph, rows, encoder=None):
    session = runtime.InferenceSession(graph.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds(graph, rows, encoder)), strict=True))


def agrees(model, rows=FAR, tol=1e-10):
    graph = to_onnx(model, rows, tol=tol)
    encoder = getattr(model, "encoders_", {}).get("tree")
    found = run(graph, rows, encoder)
    if "label" in found:
        assert np.array_equal(
            found["label"].astype(str), np.asarray(model.predict(rows)).astype(str)
        )
    return graph


def partition(**parameters):
    defaults = {"n_regions": 3, "n_init": 2, "random_state": 0}
    return SpacePartitioningClassifier(**{**defaults, **parameters})


CLASSIFIERS = {
    "partition": partition(),
    "one region": partition(n_regions=1),
    "partition, best start": partition(combine="best"),
    "partition, unscaled": partition(scale=False),
    "partition, lda": partition(region_estimator="lda"),
    "partition, perceptron": partition(region_estimator="perceptron"),
    "partition, soft": partition(gating="soft", max_iter=30),
    "partition of trees": partition(region_estimator=DecisionTreeClassifier(max_depth=2)),
    "partition by trees": partition(reject_estimator=DecisionTreeClassifier(max_depth=2)),
    "partition of naive Bayes": partition(region_estimator=GaussianNB(), n_init=1),
    "partition of forests": partition(
        region_estimator=RandomForestClassifier(3, max_depth=2), reject_estimator="lda", n_init=1
    ),
    "symmetric trees": ObliviousBoostingClassifier(20, cv=None, random_state=0),
    "pruned tree": PrunedTreeClassifier(cv=3, random_state=0),
    "boosted trees": FunctionalGradientBoostingClassifier(n_estimators=6, random_state=0),
    "boosted lines": FunctionalGradientBoostingClassifier(LinearRegression(), n_estimators=4),
    "boosted, corrective": FunctionalGradientBoostingClassifier(
        n_estimators=5, coefficients="corrective", alpha=0.1, random_state=0
    ),
    "adaboost": RealAdaBoostClassifier(n_estimators=5, random_state=0),
    "adaboost of lines": RealAdaBoostClassifier(LogisticRegression(), n_estimators=3),
    "bootstrap": BootstrapEnsembleClassifier(n_estimators=5, random_state=0),
    "bootstrap of voters": BootstrapEnsembleClassifier(
        RidgeClassifier(), n_estimators=3, random_state=0
    ),
    "averaging": BayesianModelAveragingClassifier(
        [("tree", DecisionTreeClassifier(max_depth=3)), ("lda", WeightedLDA())], random_state=0
    ),
    "lda": WeightedLDA(),
    "perceptron": AveragedPerceptron(random_state=0),
    "linear machine": LinearSVC(),
    "forest": RandomForestClassifier(4, random_state=0),
    "dummy": DummyClassifier(),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("y", [TWO, NAMES], ids=["two", "three"])
@pytest.mark.parametrize("model", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_classifiers_agree_with_their_graphs(model, y):
    # Parts that skl2onnx writes may be in single precision inside.
    tol = 1e-5 if isinstance(getattr(model, "region_estimator", None), GaussianNB) else 1e-10
    agrees(model.fit(X, y), tol=tol)


REGRESSORS = {
    "partition": SpacePartitioningRegressor(n_regions=3, n_init=2, random_state=0),
    "partition of trees": SpacePartitioningRegressor(
        DecisionTreeRegressor(max_depth=2), n_regions=2, n_init=1, random_state=0
    ),
    "partition of lassos": SpacePartitioningRegressor(
        Lasso(0.01), n_regions=2, n_init=1, random_state=0
    ),
    "symmetric trees": ObliviousBoostingRegressor(20, cv=None, random_state=0),
    "pruned tree": PrunedTreeRegressor(cv=3, random_state=0),
    "boosting": FunctionalGradientBoostingRegressor(n_estimators=6, random_state=0),
    "boosted forests": FunctionalGradientBoostingRegressor(
        ExtraTreesRegressor(2, max_depth=2), n_estimators=2, random_state=0
    ),
    "bootstrap": BootstrapEnsembleRegressor(n_estimators=5, random_state=0),
    "averaging": BayesianModelAveragingRegressor(
        [("ridge", Ridge()), ("tree", DecisionTreeRegressor(max_depth=3))], random_state=0
    ),
    "dummy": DummyRegressor(),
}


@pytest.mark.parametrize("model", REGRESSORS.values(), ids=REGRESSORS)
def test_regressors_agree_with_their_graphs(model):
    agrees(model.fit(X, TARGET))


def mixed_rows():
    """Return rows with missing values and two columns of categories, and queries with new ones."""
    rows = np.column_stack([X, np.arange(len(X)) % 4, 3.0 * (np.arange(len(X)) % 3)])
    rows[::5, 0] = rows[::7, 5] = np.nan
    queries = rows.copy()
    queries[::4, 5], queries[::9, 6], queries[::6, 1] = 9.0, np.nan, np.nan
    return rows, queries


IS_CATEGORY = np.arange(7) > 4
BOOSTED = {
    "symmetric trees": (ObliviousBoostingClassifier, ObliviousBoostingRegressor, {"cv": None}),
    "histograms": (HistGradientBoostingClassifier, HistGradientBoostingRegressor, {}),
}


@pytest.mark.parametrize("y", [TWO, NAMES, TARGET], ids=["two", "three", "target"])
@pytest.mark.parametrize("kind", BOOSTED)
def test_boosting_knows_missing_values_and_categories(kind, y):
    *kinds, settings = BOOSTED[kind]
    rows, queries = mixed_rows()
    model = kinds[y is TARGET](max_iter=8) if kind == "histograms" else kinds[y is TARGET](8)
    model.set_params(categorical_features=IS_CATEGORY, random_state=0, **settings)
    agrees(model.fit(rows, y + 2.0 * (rows[:, 5] == 1) if y is TARGET else y), queries)


@pytest.mark.filterwarnings(r"ignore:\s*The format of the columns of the 'remainder':FutureWarning")
@pytest.mark.parametrize("y", [TWO, NAMES, TARGET], ids=["two", "three", "target"])
def test_statistics_of_categories_and_imputed_rows(y):
    rows, queries = mixed_rows()
    boosting = HistGradientBoostingRegressor if y is TARGET else HistGradientBoostingClassifier
    encoder = target_encoder("auto", 3)
    statistics = ColumnTransformer([("categories", encoder, IS_CATEGORY)], remainder="passthrough")
    agrees(make_pipeline(statistics, boosting(max_iter=4)).fit(rows, y), queries)
    filled = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    linear = Ridge() if y is TARGET else LogisticRegression()
    agrees(
        make_pipeline(filled, StandardScaler(), PolynomialFeatures(2), linear).fit(rows, y), rows
    )


def test_counts_are_exponentials():
    y = np.random.RandomState(0).poisson(np.exp(0.3 * X[:, 0]))
    model = FunctionalGradientBoostingRegressor(loss="poisson", n_estimators=5, random_state=0)
    agrees(model.fit(X, y))


def test_exponential_loss_has_half_the_log_odds():
    model = FunctionalGradientBoostingClassifier(loss="exponential", n_estimators=5, random_state=0)
    agrees(model.fit(X, TWO))


def test_the_surrogate_cascade():
    agrees(SurrogatePartitionClassifier(n_init=2, random_state=0).fit(X, TWO))


def test_regions_without_a_class_predict_zero():
    y = np.where(X[:, 0] > 1.5, "c", np.where(X[:, 1] > 0, "a", "b"))
    for region in ("logistic", DecisionTreeClassifier(max_depth=2), GaussianNB()):
        model = partition(region_estimator=region, n_regions=4, n_init=1).fit(X, y)
        regions = model.region_estimators_
        assert any(
            not np.isfinite(getattr(r, "intercept_", [0.0])).all() or len(r.classes_) < 3
            for r in regions
        )
        agrees(model, tol=1e-5 if isinstance(region, GaussianNB) else 1e-10)


def test_thresholds_are_compared_as_scikit_learn_does():
    rows = np.linspace(0.0, 1.0, 500)[:, None] ** 3
    tree = DecisionTreeRegressor().fit(rows, np.arange(500))
    agrees(tree, rows)
    # Rows right on a threshold, and a rounding away from it.
    edges = tree.tree_.threshold[tree.tree_.feature == 0][:, None]
    agrees(tree, np.vstack([edges, np.nextafter(edges, 1.0), np.nextafter(edges, 0.0)]))


def test_single_precision_models_agree_on_double_rows():
    model = partition().fit(X.astype(np.float32), NAMES)
    agrees(model, tol=1e-6)


@pytest.mark.parametrize(
    "labels", [CODES > 0, CODES - 1, CODES.astype(float), NAMES.astype(object)],
    ids=["bool", "negative", "float", "object"],
)  # fmt: skip
def test_labels_of_every_kind(labels):
    found = run(to_onnx(partition(n_init=1).fit(X, labels)), X)
    expected = partition(n_init=1).fit(X, labels).predict(X)
    assert found["label"].tolist() == expected.tolist()


# --- anchored local models ---


def anchored(**parameters):
    defaults = {"anchors": 12, "n_neighbors": 30, "metric": "euclidean", "random_state": 0}
    return AnchoredLocalClassifier(**{**defaults, **parameters})


ANCHORED = {
    "plain": anchored(),
    "one": anchored(anchors=1),
    "two": anchored(anchors=2),
    "standardized": anchored(metric="standardized"),
    "within class": anchored(metric="within_class"),
    "ranked": anchored(metric="ranked"),
    "transformed": anchored(metric=StandardScaler()),
    "logistic": anchored(loss="log_loss"),
    "uncalibrated": anchored(calibration=None),
    "uncalibrated, logistic": anchored(loss="log_loss", calibration=None),
    "located": anchored(location_columns=[0, 1]),
    "automatic": AnchoredLocalClassifier(12, random_state=0),
}


@pytest.mark.parametrize("y", [TWO, NAMES], ids=["two", "three"])
@pytest.mark.parametrize("model", ANCHORED.values(), ids=ANCHORED)
def test_anchored_classifiers_agree_with_their_graphs(model, y):
    agrees(model.fit(X, y))


@pytest.mark.parametrize(
    "parameters", [{}, {"location_columns": [0, 1]}, {"degree": 2}], ids=["plain", "located", "2"]
)
def test_anchored_regressors_agree_with_their_graphs(parameters):
    model = AnchoredLocalRegressor(12, n_neighbors=30, random_state=0, **parameters)
    agrees(model.fit(X, TARGET))


def test_anchors_in_other_metrics_are_refused():
    refused(anchored(metric="manhattan").fit(X, NAMES), "Euclidean distance")


# --- a model around every row ---

TIES = np.round(np.abs(X[:, :3]))
COUNTS = np.arange(len(X)) % 3 + 1.0
LOCAL = {
    "standardized": {},
    "few": {"n_neighbors": 10, "alpha": 0.03},
    "all": {"n_neighbors": len(X), "alpha": 0.1},
    "ranked": {"metric": "ranked"},
    "gradient": {"metric": "gradient"},
    "random forest": {"metric": "forest", "alpha": 0.1},
    "extra trees": {"metric": "extra_forest", "alpha": 0.1},
    "constant": {"degree": 0, "n_neighbors": 10},
    "quadratic": {"degree": 2, "n_neighbors": 40, "alpha": 0.1},
    "balanced": {"class_weight": "balanced", "n_neighbors": 20},
    "epanechnikov": {"kernel": "epanechnikov", "alpha_scale": "absolute", "n_neighbors": 20},
    "triangular": {"kernel": "triangular", "calibration": None, "n_neighbors": 20},
    "located": {"location_columns": [0, 1], "n_neighbors": 30},
}


@pytest.mark.parametrize("settings", LOCAL.values(), ids=LOCAL)
def test_local_classifiers_agree_with_their_graphs(settings):
    agrees(LocalClassifier(**({"alpha": 0.3, "random_state": 0} | settings)).fit(X, NAMES))


@pytest.mark.parametrize("weight", [COUNTS, COUNTS / 7], ids=["counts", "shares"])
def test_local_regressors_with_weights_agree_with_their_graphs(weight):
    agrees(LocalRegressor(n_neighbors=20, alpha=0.1).fit(X, TARGET, sample_weight=weight))
    agrees(NadarayaWatsonRegressor(n_neighbors=9, kernel="bisquare").fit(X, TARGET))


def test_rows_at_equal_distances_count_as_in_the_model():
    model = LocalRegressor(n_neighbors=12, alpha=0.1, metric="euclidean", degree=1)
    agrees(model.fit(TIES, TARGET), np.vstack([TIES, TIES + 0.5, [[9.0, 0.0, 0.0]]]))


# --- pipelines ---


@pytest.mark.parametrize(
    "steps",
    [
        (StandardScaler(),),
        (MinMaxScaler(), PCA(3)),
        (WhiteningTransformer(),),
        (StandardScaler(), SelectKBest(k=3)),
    ],
    ids=["scaler", "pca", "whitening", "selection"],
)
def test_pipelines_agree_with_their_graphs(steps):
    agrees(make_pipeline(*steps, partition(n_init=1)).fit(X, NAMES), tol=1e-9)


def test_frames_of_mixed_columns_have_an_input_for_each():
    rng = np.random.RandomState(0)
    frame = pd.DataFrame(
        {"size": X[:, 0], "kind": rng.choice(["u", "v"], 150), "age": rng.randint(20, 60, 150)}
    )
    encoder = make_column_transformer(
        (OneHotEncoder(), ["kind"]), (StandardScaler(), ["size", "age"])
    )
    model = make_pipeline(encoder, partition(n_init=1)).fit(frame, NAMES)
    graph = agrees(model, frame)
    assert [entry.name for entry in graph.graph.input] == ["size", "kind", "age"]


def test_searches_export_their_best_model():
    search = GridSearchCV(PrunedTreeClassifier(cv=3, random_state=0), {"rule": ["min"]}, cv=2)
    agrees(search.fit(X, NAMES))


def test_transformers_give_features():
    found = run(to_onnx(WhiteningTransformer().fit(X), X), X)
    np.testing.assert_allclose(found["features"], WhiteningTransformer().fit_transform(X))


def test_models_of_scikit_learn_go_to_skl2onnx():
    agrees(GradientBoostingClassifier(n_estimators=3).fit(X, NAMES), tol=1e-5)
    agrees(KNeighborsClassifier().fit(X, NAMES), X, tol=1e-5)


# --- the file ---


def test_graphs_are_written_whole_and_stamped(tmp_path):
    path = tmp_path / "model.onnx"
    graph = to_onnx(partition(n_init=1).fit(X, NAMES), path=path)
    assert path.read_bytes() == graph.SerializeToString()
    session = runtime.InferenceSession(str(path))
    stamp = session.get_modelmeta().custom_metadata_map
    assert stamp == {
        "model": "SpacePartitioningClassifier",
        "vicinal_version": vicinal.__version__,
    }
    assert {part.domain: part.version for part in graph.opset_import} == {"": 18, "ai.onnx.ml": 3}


# --- refusals ---


def refused(model, match, rows=None):
    with pytest.raises(OnnxExportError, match=match):
        to_onnx(model, rows)


def test_local_models_outside_the_rules_are_refused():
    fixed = {"n_neighbors": 20, "alpha": 1.0, "calibration": None}
    refused(LocalClassifier(**fixed, loss="log_loss").fit(X, TWO), "loss='log_loss'")
    refused(LocalClassifier(**fixed, metric="manhattan").fit(X, TWO), "metric='manhattan'")
    radius = {**fixed, "n_neighbors": "auto", "bandwidth": 2.0}
    refused(LocalClassifier(**radius).fit(X, TWO), "bandwidth=2")
    refused(LoessRegressor(span=0.5, degree=1).fit(X, TARGET), "of LoessRegressor cannot")
    refused(LocallyAdaptiveClassifier(1, tol=1e-2).fit(X, NAMES), "vicinal.io.save")


def test_surfaces_are_refused():
    model = SurfaceCalibratedClassifier(LogisticRegression(), cv=2, random_state=0).fit(X, TWO)
    refused(model, "of SurfaceCalibratedClassifier cannot be exported")
    refused(DecisionSurface(LogisticRegression().fit(X, TWO)).fit(X), "neither a classifier")


def test_parts_without_probabilities_are_named():
    model = partition(region_estimator=LinearSVC(), n_regions=2, n_init=1).fit(X, NAMES)
    refused(model, "has no predict_proba")


class Stranger(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self

    def predict(self, X):
        return np.repeat(self.classes_[:1], len(X))

    def predict_proba(self, X):
        return np.tile(np.eye(len(self.classes_))[:1], (len(X), 1))


def test_unknown_classes_are_refused_with_the_error_of_skl2onnx():
    refused(Stranger().fit(X, NAMES), "Stranger cannot be exported by skl2onnx")
    model = make_pipeline(FunctionTransformer(np.cbrt), LogisticRegression()).fit(X, NAMES)
    refused(model, "FunctionTransformer")


def test_thresholds_are_refused():
    model = FixedThresholdClassifier(LogisticRegression(), threshold=0.9).fit(X, TWO)
    refused(make_pipeline(StandardScaler(), model).fit(X, TWO), "has a decision threshold")


def test_losses_of_the_user_are_code():
    class Loss:
        has_curvature = True

        def value(self, y, score):
            return np.logaddexp(0.0, -(2 * y - 1) * score)

        def gradient(self, y, score):
            return 1 / (1 + np.exp(-score)) - y

        def hessian(self, y, score):
            p = 1 / (1 + np.exp(-score))
            return p * (1 - p)

        def constant(self, y, weight):
            return 0.0

    model = FunctionalGradientBoostingClassifier(loss=Loss(), n_estimators=3, random_state=0)
    refused(model.fit(X, TWO), "cannot be exported")


def test_graphs_that_differ_are_refused():
    model = partition(n_init=1).fit(X, NAMES)
    graph = to_onnx(model, X)
    other = partition(n_init=1, n_regions=2).fit(X, NAMES)
    with pytest.raises(OnnxExportError, match="differs from SpacePartitioningClassifier by"):
        check_graph(graph, other, X, 1e-5)


def test_unfitted_models_and_wrong_widths():
    with pytest.raises(NotFittedError):
        to_onnx(partition())
    refused(partition(n_init=1).fit(X, NAMES), "X has 4 columns, but the model expects 5", X[:, :4])


# --- ensembles of auto ---

FAMILIES = [
    "constant",
    "linear",
    "kernel",
    ("forest", RandomForestClassifier(5, random_state=0)),
    ("naive Bayes", GaussianNB()),
]


@pytest.mark.parametrize("y", [NAMES, TWO], ids=["three classes", "two classes"])
def test_ensembles_of_base_models_with_graphs(y):
    model = AutoClassifier(FAMILIES, random_state=0).fit(X, y)
    assert len(model.estimators_) > 1
    to_onnx(model, X + np.linspace(-2, 2, 5), tol=1e-5)


def test_ensembles_for_regression():
    svm = make_pipeline(StandardScaler(), SVR(C=10.0))
    # Means of small forests are better than one of them.
    forests = [(f"forest {k}", ExtraTreesRegressor(5, random_state=k)) for k in range(2)]
    model = AutoRegressor(["linear", ("svm", svm), *forests], random_state=0)
    model.fit(X, np.sign(X[:, 0]) + np.sin(3 * X[:, 1]))
    assert len(model.estimators_) > 1
    to_onnx(model, X + np.linspace(-2, 2, 5), tol=1e-5)


def test_ensembles_keep_predictions_near_the_targets():
    model = AutoRegressor(["linear"], random_state=0).fit(X, X[:, :2] ** 2)
    rows = 50.0 * X
    assert (model.predict(rows) == model.estimators_[0].limits[1]).any()
    to_onnx(model, rows, tol=1e-5)


def test_ensembles_for_a_quantile():
    upper = make_scorer(mean_pinball_loss, alpha=0.9, greater_is_better=False)
    model = AutoRegressor(["constant", "linear"], scoring=upper, random_state=0)
    model.fit(X, X[:, 0] + np.sin(7 * X[:, 1]))
    assert model.estimators_[0].offset > 0.1
    to_onnx(model, X + np.linspace(-2, 2, 5), tol=1e-5)


def test_ensembles_of_frames_declare_their_columns():
    frame = pd.DataFrame(X[:, :3].copy(), columns=list("abc"))
    frame["word"] = np.where(X[:, 3] > 0, "up", "down")
    frame.loc[::7, "a"] = np.nan
    model = AutoClassifier(["constant", "linear"], random_state=0).fit(frame, NAMES)
    graph = to_onnx(model, frame)
    assert [entry.name for entry in graph.graph.input] == ["a", "b", "c", "word"]


def test_base_models_without_a_graph_are_named_with_their_weight():
    families = [("lazy", LocalClassifier(n_neighbors=20, loss="log_loss")), ("naive", GaussianNB())]
    model = AutoClassifier(families, random_state=0).fit(X, NAMES)
    shown = f"'lazy' with {100 * model.weights_[0]:.0f} % of the weight .LocalClassifier with loss"
    assert model.estimators_[0].name == "lazy"
    refused(model, shown)


def test_a_default_classifier_of_mixed_columns_agrees_with_its_graph():
    words = np.array(["up", "down", "left", None], dtype=object)[np.arange(len(X)) % 4]
    frame = pd.DataFrame(X[:, :3].copy(), columns=list("abc")).assign(word=words)[:80]
    frame.loc[::7, "a"] = np.nan
    y = np.where(X[:80, 1] + (words[:80] == "up") > 0.3, "yes", "no")
    # Pretrained neighbours compute in single precision.
    found = agrees(AutoClassifier(random_state=0).fit(frame, y), frame, tol=1e-6)
    assert [entry.name for entry in found.graph.input] == ["a", "b", "c", "word"]


def test_a_default_regressor_of_missing_values_agrees_with_its_graph():
    rows = X[:80].copy()
    rows[::9, 2] = np.nan
    y = TARGET[:80] + np.sin(3 * X[:80, 0])
    agrees(AutoRegressor(random_state=0).fit(rows, y), rows, tol=1e-6)


@pytest.mark.filterwarnings("ignore:some values are unlike those of the training rows")
def test_symmetric_trees_of_categories_in_an_ensemble_agree_with_their_graph():
    """Categories that are missing, or that no training row has, too."""
    n, rng = 210, np.random.RandomState(0)
    city, kind = rng.choice(["Rome", "Oslo", "Lima"], n), rng.choice(["x", "y", None], n)
    frame = pd.DataFrame({"a": rng.normal(size=n), "city": city, "kind": kind})
    frame.loc[::7, "a"] = np.nan
    y = frame["a"].fillna(0) + 2 * (city == "Rome") * (kind == "x") + (city == "Lima")
    model = AutoClassifier(["boosting"], random_state=0).fit(frame, np.where(y > 0.5, "yes", "no"))
    trees = [base for base in model.estimators_ if base.name == "boosted symmetric trees"]
    assert trees[0].estimator.categories_
    frame.loc[:4, ["city", "kind"]] = "Paris", None
    agrees(model, frame)
