import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits, load_wine, make_classification, make_friedman1
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

from vicinal.subspace import (
    DivideConquerSVC,
    FeatureSpaceDecomposition,
    SubspaceFusionClassifier,
    SubspaceFusionRegressor,
    TruncatedRBFClassifier,
)


class Recorder(ClassifierMixin, BaseEstimator):
    """A fusion that remembers what it was given."""

    def fit(self, X, y):
        self.X_, self.y_, self.classes_ = X, y, np.unique(y)
        return self

    def predict(self, X):
        return self.classes_[(X[:, 0] > 0).astype(int)]


class OnlyLabels(ClassifierMixin, BaseEstimator):
    """A classifier without scores."""

    def fit(self, X, y):
        self.model_ = RidgeClassifier().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.fixture(scope="module")
def two_classes():
    return make_classification(600, n_features=12, n_informative=6, flip_y=0.1, random_state=0)


def _fuse(*arguments, **parameters):
    parameters = {"cv": 3, "n_subspaces": 2, "random_state": 0, **parameters}
    return SubspaceFusionClassifier(*arguments, **parameters)


@pytest.mark.statistical
def test_shuffled_labels_leave_nothing_in_the_training_scores(rng):
    """In-sample scores of 1-NN know every label; out of fold, supervised maps included, none."""
    X, y = rng.normal(size=(1500, 8)), rng.randint(2, size=1500)
    for cv, lowest, highest in ((5, 0.45, 0.55), ("in-sample", 0.99, 1.0)):
        model = _fuse(
            ["random", "principal", "discriminant", "cholesky", "approximate"],
            KNeighborsClassifier(1),
            Recorder(),
            cv=cv,
            n_subspaces=4,
        ).fit(X, y)
        R = model.fusion_estimator_.X_
        areas = [roc_auc_score(y, column) for column in R.T]
        assert len(areas) == 21
        assert min(areas) >= lowest
        assert max(areas) <= highest


def test_training_scores_are_standardised_and_out_of_fold(two_classes):
    X, y = two_classes
    folds = KFold(4)
    model = _fuse(["random"], RidgeClassifier(), Recorder(), cv=folds, include_full=False)
    R = model.fit(X, y).fusion_estimator_.X_
    assert_allclose(R.mean(axis=0), 0.0, atol=1e-12)
    assert_allclose(R.std(axis=0), 1.0)
    part = model.decompositions_[0]
    expected = np.empty(len(X))
    for train, test in folds.split(X):
        local = RidgeClassifier().fit(part.transform_subspace(X[train], 1), y[train])
        expected[test] = local.decision_function(part.transform_subspace(X[test], 1))
    assert_allclose(R[:, 1], (expected - expected.mean()) / expected.std(), atol=1e-10)


def test_prediction_is_the_fusion_of_refitted_local_models(two_classes):
    X, y = two_classes
    model = _fuse(["cholesky"], RidgeClassifier()).fit(X, y)
    assert model.subspace_names_ == ["cholesky 0", "cholesky 1", "all features"]
    raw = np.column_stack(
        [
            *(
                model.estimators_[i].decision_function(
                    model.decompositions_[0].transform_subspace(X, i)
                )
                for i in (0, 1)
            ),
            RidgeClassifier().fit(X, y).decision_function(X),
        ]
    )
    R = (raw - model.score_mean_) / model.score_scale_
    assert_allclose(model.transform(X), R, atol=1e-10)
    assert_allclose(model.predict_proba(X), model.fusion_estimator_.predict_proba(R), atol=1e-10)
    votes = model.predict_subspaces(X)
    assert_array_equal(votes, (raw > 0).astype(int))


def test_scores_come_out_as_a_named_frame(two_classes, wine):
    pytest.importorskip("pandas")
    model = _fuse(["random"], RidgeClassifier()).set_output(transform="pandas").fit(*two_classes)
    assert model.score(*two_classes) > 0.7
    assert list(model.transform(two_classes[0])) == ["random 0", "random 1", "all features"]
    names = _fuse(["random"], RidgeClassifier()).fit(*wine).get_feature_names_out()
    assert names[:4].tolist() == ["random 0, 0", "random 0, 1", "random 0, 2", "random 1, 0"]


@pytest.mark.parametrize(
    ("local", "method"),
    [
        (RidgeClassifier(), "decision_function"),
        (GaussianNB(), "predict_proba"),
        (OnlyLabels(), "predict"),
        (TruncatedRBFClassifier(), "decision_function"),
        (DivideConquerSVC(n_clusters=2), "decision_function"),
        (RandomForestClassifier(10), "predict_proba"),
    ],
    ids=lambda value: str(value).partition("(")[0],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_any_local_classifier_serves(wine, local, method, n_classes):
    X, y = wine
    X, y = X[y < n_classes], y[y < n_classes]
    model = _fuse(["random", "principal"], local).fit(X, y)
    assert model.stack_method_ == method
    assert model.transform(X).shape == (len(X), 5 if n_classes == 2 else 15)
    assert model.score(X, y) > 0.9
    votes = model.predict_subspaces(X)
    assert votes.shape == (len(X), 5)
    assert np.mean(votes == y[:, None]) > 0.85


@pytest.mark.parametrize(
    "fusion", [LogisticRegression(), LinearSVC(), RandomForestClassifier(10, random_state=0), None]
)
def test_any_fusion_classifier_serves(wine, fusion):
    X, y = wine
    names = np.array(["barbera", "barolo", "grignolino"])[y]
    model = _fuse(["random"], RidgeClassifier(), fusion).fit(X, names)
    assert model.score(X, names) > 0.9
    for method in ("predict_proba", "decision_function"):
        assert hasattr(model, method) == hasattr(model.fusion_estimator_, method)
    assert hasattr(model, "fit_blocks")


def test_local_learner_follows_the_data(two_classes, rng):
    X, y = two_classes
    assert isinstance(_fuse(["random"]).fit(X, y).estimators_[0], DivideConquerSVC)
    wide = rng.normal(size=(60, 501))
    labels = (wide[:, 0] > 0).astype(int)
    assert isinstance(_fuse(["random"]).fit(wide, labels).estimators_[0], LinearSVC)
    sparse = sp.csr_array(np.where(np.abs(X) < 1, 0.0, X))
    model = _fuse(["random", "approximate"]).fit(sparse, y)
    assert isinstance(model.estimators_[0], LinearSVC)
    assert model.score(sparse, y) > 0.7


def test_a_rare_class_turns_the_fusion_logistic(two_classes, wine):
    X, y = two_classes
    model = _fuse(["random"], RidgeClassifier())
    assert isinstance(model.fit(*wine).fusion_estimator_, TruncatedRBFClassifier)
    assert isinstance(model.fit(X, y).fusion_estimator_, TruncatedRBFClassifier)
    kept = (y == 0) | (np.cumsum(y) <= 60)
    assert isinstance(model.fit(X[kept], y[kept]).fusion_estimator_[-1], LogisticRegression)
    assert roc_auc_score(y, model.predict_proba(X)[:, 1]) > 0.8


def test_a_class_that_a_fold_lacks_does_not_shift_columns(wine):
    X, y = wine
    order = np.argsort(y, kind="stable")
    # Folds of sorted rows: each training part lacks most of one class, one lacks a class whole.
    folds = [(np.flatnonzero(y[order] != c), np.flatnonzero(y[order] == c)) for c in range(3)]
    model = _fuse(["random"], GaussianNB(), Recorder(), cv=folds, include_full=False)
    R = model.fit(X[order], y[order]).fusion_estimator_.X_
    assert np.isfinite(R).all()


def test_a_generator_of_random_numbers_fixes_the_result(two_classes):
    X, y = two_classes
    forest = RandomForestClassifier(5)
    first, second = (
        _fuse(["random"], forest, forest, random_state=np.random.RandomState(3)).fit(X, y)
        for _ in range(2)
    )
    assert_array_equal(first.predict_proba(X), second.predict_proba(X))


def test_decompositions_may_be_instances(two_classes):
    X, y = two_classes
    parts = FeatureSpaceDecomposition("cholesky", n_blocks=3, n_repeats=1)
    model = _fuse([parts, "random"], RidgeClassifier()).fit(X, y)
    assert model.subspace_names_[:4] == ["cholesky 0", "cholesky 1", "cholesky 2", "random 0"]
    assert not hasattr(parts, "groups_")


def test_weights_reach_local_models_and_fusion(two_classes):
    X, y = two_classes
    weights = np.where(y == 1, 20.0, 1.0)
    plain, weighted = (
        _fuse(["random"], RidgeClassifier()).fit(X, y, sample_weight=w).predict(X).mean()
        for w in (None, weights)
    )
    assert weighted > plain + 0.1
    pipeline = make_pipeline(FunctionTransformer(), RidgeClassifier())
    behind = _fuse(["random"], pipeline).fit(X, y, sample_weight=weights).predict(X).mean()
    assert behind == weighted
    with pytest.raises(ValueError, match="KNeighborsClassifier.*does not accept it"):
        _fuse(["random"], KNeighborsClassifier()).fit(X, y, sample_weight=weights)


def test_processes_give_the_same_model(two_classes):
    X, y = two_classes
    expected = _fuse(["cholesky"], RidgeClassifier()).fit(X, y).predict_proba(X)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        got = _fuse(["cholesky"], RidgeClassifier()).fit(X, y).predict_proba(X)
    assert_allclose(got, expected, atol=1e-12)


@pytest.mark.statistical
def test_fusion_of_blocks_beats_every_block():
    X, y = load_digits(return_X_y=True)
    X, y = X / 16.0, (y % 2)
    train, test = next(ShuffleSplit(1, random_state=0).split(X))
    model = _fuse(["cholesky"], n_subspaces=4, include_full=False).fit(X[train], y[train])
    fused = np.mean(model.predict(X[test]) != y[test])
    alone = np.mean(model.predict_subspaces(X[test]) != y[test][:, None], axis=0)
    assert fused < alone.min()


def test_wrong_settings_name_the_remedy(two_classes):
    X, y = two_classes
    cases = [
        ({"decompositions": "random"}, "must be an array-like. Got 'random'"),
        ({"decompositions": ["fourier"]}, "'fourier' is unknown; choose among"),
        ({"decompositions": [3]}, "holds 3"),
        ({"decompositions": [], "include_full": False}, "there is no local model"),
        ({"cv": ShuffleSplit(2)}, "partition of the rows"),
    ]
    for parameters, message in cases:
        model = _fuse(
            **{"decompositions": ["random"], "estimator": RidgeClassifier(), **parameters}
        )
        with pytest.raises(ValueError, match=message):
            model.fit(X, y)
    with pytest.raises(ValueError, match="cv=60 folds .* the largest has 48 .*lower cv"):
        _fuse(cv=60).fit(X[:50], np.r_[np.repeat("common", 48), np.repeat("rare", 2)])


def test_class_rarer_than_the_folds_is_learned_from_the_folds_that_have_it(two_classes):
    X = two_classes[0][:50].copy()
    y = np.r_[np.repeat("common", 48), np.repeat("rare", 2)]
    X[-2:] += 20.0
    with pytest.warns(UserWarning, match="least populated class"):
        model = _fuse(cv=5).fit(X, y)
    assert (model.predict(X) == y).all()


def test_regression_fuses_predictions():
    X, y = make_friedman1(600, noise=0.5, random_state=0)
    model = SubspaceFusionRegressor(random_state=0).fit(X[:400], y[:400])
    fused = model.score(X[400:], y[400:])
    alone = model.predict_subspaces(X[400:])
    residual = ((alone - y[400:, None]) ** 2).mean(axis=0) / y[400:].var()
    assert fused > 0.9
    assert 1 - fused < residual.min()
    assert model.estimators_[-1].predict(X).shape == (600,)
    sparse = sp.csr_array(X[:400])
    assert isinstance(
        SubspaceFusionRegressor(["random"]).fit(sparse, y[:400]).estimators_[0], Ridge
    )


def test_regression_refuses_discriminants():
    X, y = make_friedman1(60, random_state=0)
    with pytest.raises(ValueError, match="'discriminant' needs classes"):
        SubspaceFusionRegressor(["discriminant"]).fit(X, y)
