"""Predictions of base models without validation equal those of the models themselves."""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from vicinal._base import aligned_predictions
from vicinal._base._compat import target_encoder
from vicinal.auto._base_models import NormalScores
from vicinal.auto._linear import LinearClassifier
from vicinal.auto._predict import base_predictions


def table(n_classes, n_rows=400):
    """Return rows of two columns of codes and two of numbers, some missing, and labels."""
    rng = np.random.RandomState(0)
    codes = rng.randint(5, size=(n_rows, 2)).astype(float)
    X = np.column_stack([codes, rng.randn(n_rows, 2)])
    score = codes[:, 0] % 3 + X[:, 2] + 0.3 * rng.randn(n_rows)
    y = np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))
    X[rng.rand(n_rows, 4) < 0.1] = np.nan
    return X, y


def held_equal(model, X, classes):
    method = "predict" if classes is None else "predict_proba"
    for rows in (X, X[:1], X[:0:-7]):
        expected = aligned_predictions(model, rows, method, classes)
        np.testing.assert_allclose(base_predictions(model, rows, classes), expected, rtol=1e-13)


@pytest.mark.parametrize("n_classes", [2, 3, None])
@pytest.mark.parametrize("is_native", [False, True])
def test_boosting_of_statistics_of_categories(n_classes, is_native):
    X, y = table(n_classes or 2)
    is_category = np.array([True, True, False, False])
    target_type = {2: "binary", 3: "multiclass", None: "continuous"}[n_classes]
    classes = None if n_classes is None else np.unique(y)
    if n_classes is None:
        y = np.nan_to_num(X[:, 2]) + y
    kind = HistGradientBoostingRegressor if n_classes is None else HistGradientBoostingClassifier
    model = kind(max_iter=20, categorical_features=is_category if is_native else None)
    if not is_native:
        encoder = target_encoder(target_type, 3)
        columns = [("categories", encoder, is_category)]
        model = make_pipeline(ColumnTransformer(columns, remainder="passthrough"), model)
    model.fit(X[::2], y[::2])
    queries = np.vstack([X, [[7.0, 2.5, 0.0, np.nan]]])  # categories that no row has
    held_equal(model, queries, classes)


@pytest.mark.parametrize("scaler", [StandardScaler(), StandardScaler(with_mean=False)])
def test_pipelines_of_scalers(scaler):
    X, y = table(3)
    X = np.nan_to_num(X)
    for steps in ([scaler], [NormalScores(), PolynomialFeatures(2)], [PCA(3)], ["passthrough"]):
        model = make_pipeline(*steps, LinearClassifier()).fit(X, y)
        held_equal(model, X, np.unique(y))


def test_refitted_boosting_predicts_by_its_new_trees():
    X, y = table(2)
    model = HistGradientBoostingClassifier(max_iter=5, categorical_features=None)
    for labels in (y, 1 - y):
        held_equal(model.fit(X, labels), X, np.unique(y))
