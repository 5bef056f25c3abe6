"""Does boosting of local models keep up with boosted trees, and at what cost?"""

import time

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from _datasets import load_dataset
from _harness import ResultsPage
from vicinal.ensemble import (
    FunctionalGradientBoostingClassifier,
    FunctionalGradientBoostingRegressor,
)
from vicinal.local import LocalRegressor

ROUNDS = 8
CLASSIFICATION = ("adult", "spambase", "satimage")


def problem(name):
    """Training and test rows, all of them; categories as indicators."""
    data = load_dataset(name)
    if "X_train" in data:
        X, y = np.asarray(data.X_train, float), np.asarray(data.y_train)
        X_test, y_test = np.asarray(data.X_test, float), np.asarray(data.y_test)
    else:
        X, X_test, y, y_test = train_test_split(
            np.asarray(data.X, float), np.asarray(data.y), test_size=0.3, random_state=0
        )
    if name == "adult":
        encoder = make_column_transformer(
            (
                OneHotEncoder(min_frequency=0.02, handle_unknown="infrequent_if_exist"),
                list(data.categorical_features),
            ),
            remainder="passthrough",
            sparse_threshold=0.0,
        )
        X, X_test = encoder.fit_transform(X), encoder.transform(X_test)
    return X, X_test, y, y_test


def boosted(cls, learner, **options):
    return cls(
        learner,
        n_estimators=ROUNDS,
        learning_rate=0.5,
        n_iter_no_change=3,
        random_state=0,
        **options,
    )


LABELS = (
    "boosted local ridge",
    "one round of local ridge",
    "boosted ridge",
    "boosted trees (ours)",
    "histogram boosting",
    "LightGBM",
)


def local(n_neighbors):
    return LocalRegressor(
        degree=1, n_neighbors=n_neighbors, alpha=1.0, metric="standardized", n_jobs=1
    )


def choose_local(cls, X, y):
    """Take the neighbourhood whose held-out training rows have the least loss."""
    models = [boosted(cls, local(k)).fit(X, y) for k in (60, 200)]
    return min(models, key=lambda m: min(m.validation_score_, default=np.inf))


def models_for(is_classifier, X, y):
    """Name the functions that fit each model."""
    from lightgbm import LGBMClassifier, LGBMRegressor  # not needed to build the page again

    cls = (
        FunctionalGradientBoostingClassifier
        if is_classifier
        else FunctionalGradientBoostingRegressor
    )
    histogram = HistGradientBoostingClassifier if is_classifier else HistGradientBoostingRegressor
    lightgbm = LGBMClassifier if is_classifier else LGBMRegressor
    ridge = make_pipeline(StandardScaler(), Ridge(10.0))
    once = {"n_estimators": 1, "learning_rate": 1.0, "random_state": 0}
    fits = (
        lambda: choose_local(cls, X, y),
        lambda: cls(local(60), **once).fit(X, y),
        lambda: boosted(cls, ridge).fit(X, y),
        lambda: cls(random_state=0).fit(X, y),
        lambda: histogram(random_state=0).fit(X, y),
        lambda: lightgbm(verbose=-1, n_jobs=1, random_state=0).fit(X, y),
    )
    return dict(zip(LABELS, fits, strict=True))


def case(name, label):
    """Return error, rounds and processor seconds of a model on a set."""
    X, X_test, y, y_test = problem(name)
    is_classifier = name in CLASSIFICATION
    if not is_classifier:
        y, y_test = (y - y.mean()) / y.std(), (y_test - y.mean()) / y.std()
    fit = models_for(is_classifier, X, y)[label]
    started = time.process_time()
    model = fit()
    predicted = model.predict(X_test)
    seconds = time.process_time() - started
    error = (
        100.0 * np.mean(predicted != y_test)
        if is_classifier
        else np.mean((predicted - y_test) ** 2)
    )
    return [error, getattr(model, "n_iter_", "-"), seconds]


def main():
    page = ResultsPage(
        "ensemble_local",
        "Boosted local models compared with boosted trees",
        "Error (misclassification in %, or squared error over the variance of the target) and CPU "
        "seconds of fit and prediction, one thread; all rows, published splits or a random three "
        "tenths for the test, categories of adult one-hot. The local "
        "learner is `LocalRegressor`, a ridge regression around "
        "each query, with its neighbourhood (60 or 200 rows) and rounds chosen on held-out "
        "training rows; histogram boosting and LightGBM run with their defaults.",
        packages=("lightgbm",),
    )
    rows = [
        (name, label, *page.case((name, label), lambda c=(name, label): case(*c)))
        for name in (*CLASSIFICATION, "airfoil", "puma32h")
        for label in LABELS
    ]
    page.table(("set", "model", "error", "rounds", "CPU s"), rows)
    page.write()


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
