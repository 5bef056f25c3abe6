"""Cascades fitted from blocks of rows are the cascades of a fit in memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
import pandas as pd  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402

from vicinal import distributed  # noqa: E402
from vicinal.io import load, save  # noqa: E402
from vicinal.partition import (  # noqa: E402
    SpacePartitioningClassifier,
    SpacePartitioningRegressor,
)

pytestmark = pytest.mark.usefixtures("one_thread")
BLOCKS = (400, 130, 47)


@pytest.fixture(scope="module")
def table():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((400, 4)) * [1.0, 10.0, 0.1, 3.0] + [5.0, 0.0, 100.0, 2.0]
    y = np.where(
        X[:, 0] > 5, np.where(X[:, 1] > 0, "a", "b"), np.where(X[:, 3] > 2, "b", "c")
    ).astype(object)
    return X, y


def cut(size, *arrays):
    """Return arrays as Dask arrays of blocks of ``size`` rows."""
    return [da.from_array(a, chunks=(size, *(-1,) * (a.ndim - 1))) for a in arrays]


def discriminant(**options):
    given = {"n_regions": 3, "n_init": 2, "max_iter": 4, "random_state": 0, **options}
    return SpacePartitioningClassifier("lda", **given)


@pytest.mark.parametrize("size", BLOCKS)
def test_discriminant_cascade_equals_memory(table, size):
    X, y = table
    model = discriminant()
    memory, blocks = model.fit(X, y), distributed.fit(model, *cut(size, X, y))
    assert_allclose(blocks.predict_proba(X), memory.predict_proba(X), atol=1e-9)
    assert_array_equal(blocks.apply(X), memory.apply(X))
    assert_allclose(blocks.decision_path(X), memory.decision_path(X), atol=1e-9)
    assert blocks.n_iter_ == memory.n_iter_
    assert blocks.converged_ == memory.converged_
    for name, values in memory.training_history_.items():
        assert_allclose(blocks.training_history_[name], values, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"keep": "best", "combine": "best"},
        {"class_weight": "balanced"},
        {"class_weight": {"a": 3.0, "b": 1.0, "c": 0.5}},
        {"scale": False},
        {"n_regions": 1},
    ],
)
def test_parameters_mean_the_same(table, options):
    X, y = table
    model = discriminant(**options)
    memory, blocks = model.fit(X, y), distributed.fit(model, *cut(90, X, y))
    assert_allclose(blocks.predict_proba(X), memory.predict_proba(X), atol=1e-9)
    assert_allclose(blocks.start_errors_, memory.start_errors_, atol=1e-12)
    assert blocks.n_iter_ == memory.n_iter_
    assert blocks.converged_ == memory.converged_


def test_a_converged_start_stops_like_in_memory():
    rng = np.random.RandomState(0)
    corners = rng.choice([-1.0, 1.0], size=(200, 2))
    X, y = corners + 0.1 * rng.standard_normal(corners.shape), corners.prod(axis=1)
    model = discriminant(max_iter=20, n_regions=2, combine="best")
    memory, blocks = model.fit(X, y), distributed.fit(model, *cut(90, X, y))
    assert memory.converged_
    assert blocks.converged_
    assert blocks.n_iter_ == memory.n_iter_ < 20
    assert blocks.score(X, y) == 1.0


def test_block_sizes_change_nothing(table):
    X, y = table
    model = discriminant()
    proba = [distributed.fit(model, *cut(size, X, y)).predict_proba(X) for size in BLOCKS]
    assert_allclose(proba[1], proba[0], atol=1e-9)
    assert_allclose(proba[2], proba[0], atol=1e-9)


def test_first_centres_may_come_from_a_sample(table, monkeypatch):
    monkeypatch.setattr("vicinal.partition._blocks.SAMPLE_ROWS", 60)
    X, y = table
    models = [distributed.fit(discriminant(), *cut(size, X, y)) for size in BLOCKS]
    assert_allclose(models[1].predict_proba(X), models[0].predict_proba(X), atol=1e-9)
    assert models[0].score(X, y) > 0.8


def test_weights_equal_repetition(table):
    X, y = table
    weight = np.random.RandomState(1).randint(0, 3, size=len(X))
    again = np.repeat(np.arange(len(X)), weight)
    weighted = distributed.fit(
        discriminant(), *cut(90, X, y), sample_weight=cut(90, weight.astype(float))[0]
    )
    repeated = distributed.fit(discriminant(), *cut(90, X[again], y[again]))
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-9)


def test_frames_keep_names_and_the_model_is_ordinary(table, tmp_path):
    X, y = table
    frame = pd.DataFrame(X, columns=["age", "height", "mass", "dose"])
    rows = dd.from_pandas(frame.assign(kind=y.astype(str)), npartitions=3)
    model = distributed.fit(discriminant(combine="best"), rows[list(frame)], rows["kind"])
    assert_array_equal(model.feature_names_in_, list(frame))
    report = model.region_report(frame, y)
    assert report["n_samples"].sum() == len(X)
    save(model, tmp_path / "model.vicinal")
    again = load(tmp_path / "model.vicinal")
    assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))


@pytest.mark.parametrize("size", BLOCKS)
@pytest.mark.parametrize("scale", [True, False])
def test_ridge_cascade_equals_memory(table, size, scale):
    X, _ = table
    y = 2000 + np.abs(X[:, 0] - 5) + X[:, 1] * (X[:, 3] > 2)
    model = SpacePartitioningRegressor(
        reject_estimator="lda", n_regions=3, n_init=2, max_iter=4, scale=scale, random_state=0
    )
    memory, blocks = model.fit(X, y), distributed.fit(model, *cut(size, X, y))
    assert_allclose(blocks.predict(X), memory.predict(X), rtol=1e-9)
    assert_allclose(blocks.train_error_, memory.train_error_, rtol=1e-9)


def test_perceptrons_are_refused_with_a_remedy(table):
    X, y = table
    model = SpacePartitioningClassifier("perceptron", n_regions=3, n_init=2, random_state=0)
    with pytest.raises(ValueError, match="use 'lda' or 'logistic', or fit to a sample"):
        distributed.fit(model, *cut(130, X, y))


@pytest.mark.parametrize("size", [400, 110])
@pytest.mark.parametrize("options", [{}, {"class_weight": "balanced"}, {"n_regions": 6}])
def test_logistic_cascade_equals_memory(table, size, options):
    """Gradients and curvatures add over blocks, so that the steps of the minimisation do too."""
    X, y = table
    given = {"n_regions": 3, "n_init": 2, "max_iter": 2, "random_state": 0, **options}
    model = SpacePartitioningClassifier("logistic", **given)
    memory, blocks = model.fit(X, y), distributed.fit(model, *cut(size, X, y))
    assert_allclose(blocks.predict_proba(X), memory.predict_proba(X), atol=1e-9)
    assert_array_equal(blocks.apply(X), memory.apply(X))


def test_one_logistic_region_is_the_plain_estimator(table):
    X, y = table
    logistic = LogisticRegression(C=10.0, tol=1e-8, max_iter=1000)
    model = SpacePartitioningClassifier(logistic, n_regions=1, random_state=0)
    blocks = distributed.fit(model, *cut(130, X, y))
    assert_allclose(blocks.predict_proba(X), model.fit(X, y).predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("size", [400, 130])
def test_logistic_gates_of_a_regressor_equal_memory(table, size):
    X, _ = table
    y = np.abs(X[:, 0] - 5) + X[:, 1] * (X[:, 3] > 2)
    weight = np.linspace(0.5, 2.0, len(y))
    model = SpacePartitioningRegressor(n_regions=3, n_init=1, max_iter=2, random_state=0)
    memory = model.fit(X, y, weight)
    blocks = distributed.fit(model, *cut(size, X, y), sample_weight=cut(size, weight)[0])
    assert_allclose(blocks.predict(X), memory.predict(X), atol=1e-8)


@pytest.mark.parametrize("learner", ["lda", "logistic"])
def test_the_number_of_regions_is_chosen_as_in_memory(table, learner):
    X, y = table
    model = SpacePartitioningClassifier(learner, n_init=1, max_iter=1, random_state=0)
    memory, blocks = model.fit(X, y), distributed.fit(model, *cut(200, X, y))
    assert blocks.n_regions_ == memory.n_regions_ > 1
    assert blocks.n_regions_errors_ == pytest.approx(memory.n_regions_errors_)
    assert_allclose(blocks.predict_proba(X), memory.predict_proba(X), atol=1e-9)


def test_blocks_of_one_class_keep_every_class(table):
    X, y = table
    order = np.argsort(y.astype(str), kind="stable")
    model = distributed.fit(discriminant(), *cut(50, X[order], y[order]))
    assert_allclose(
        model.predict_proba(X), discriminant().fit(X[order], y[order]).predict_proba(X), atol=1e-9
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gating": "soft"}, "gating='soft'.*use gating='hard'"),
        ({"init": "random"}, "use init='kmeans'"),
    ],
)
def test_what_cannot_be_had_is_refused(table, options, message):
    with pytest.raises(ValueError, match=message):
        distributed.fit(discriminant(**options), *cut(90, *table))


def test_other_learners_are_refused(table):
    model = SpacePartitioningClassifier(DecisionTreeClassifier(), n_regions=2)
    with pytest.raises(ValueError, match="DecisionTreeClassifier.*'lda'"):
        distributed.fit(model, *cut(90, *table))


def test_bad_tables_are_refused(table):
    X, y = table
    broken = X.copy()
    broken[100, 2] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity"):
        distributed.fit(discriminant(), *cut(90, broken, y))
    with pytest.raises(ValueError, match="one class only"):
        distributed.fit(discriminant(), *cut(90, X, np.full(len(X), "a")))
    with pytest.raises(ValueError, match="requires y"):
        distributed.fit(discriminant(), cut(90, X)[0])
    with pytest.raises(ValueError, match="399 entries"):
        distributed.fit(discriminant(), *cut(90, X, y[:-1]))
    with pytest.raises(ValueError, match="n_init"):
        distributed.fit(discriminant(n_init=0), *cut(90, X, y))


def test_more_regions_than_rows_warn(table):
    X, y = table
    with pytest.warns(UserWarning, match="n_regions=9 exceeds the 8"):
        distributed.fit(discriminant(n_regions=9, n_init=1, max_iter=1), *cut(8, X[:8], y[:8]))
