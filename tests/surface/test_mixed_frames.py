"""Decision surfaces of classifiers of data frames with categories."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from vicinal.io import load, save
from vicinal.surface import DecisionSurface, SurfaceCalibratedClassifier

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

CATEGORIES = ["sex", "port", "alone"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.RandomState(0)
    n = 160
    frame = pd.DataFrame(
        {
            "age": rng.uniform(18.0, 80.0, n),
            "sex": rng.choice(["male", "female"], n),
            "fare": rng.lognormal(3.0, 0.7, n),
            "port": pd.Categorical(rng.choice(["C", "Q", "S"], n)),
            "alone": rng.rand(n) < 0.5,
        }
    )
    score = 2.0 * (frame["sex"] == "female") + 0.05 * (frame["fare"] - 20.0) - 0.03 * frame["age"]
    return frame, np.where(score > 0.0, "yes", "no")


def classifier():
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), CATEGORIES),
        (StandardScaler(), ["age", "fare"]),
    )
    return make_pipeline(encoder, LogisticRegression())


@pytest.fixture(scope="module")
def surface(table):
    return DecisionSurface(classifier(), metric="standardized", random_state=0).fit(*table)


def test_counterfactuals_are_rows_of_the_table_with_the_wanted_label(table, surface):
    frame, _ = table
    found = surface.counterfactual(frame[:40], sparsity=0.3)
    assert found.found.all()
    assert_array_equal(surface.estimator_.predict(found.points), found.labels)
    assert (found.labels != surface.estimator_.predict(frame[:40])).all()
    assert list(found.points.columns) == list(frame.columns)
    for name in CATEGORIES:
        assert set(found.points[name]) <= set(frame[name])
    changed = (found.points != frame[:40].reset_index(drop=True)).to_numpy()
    assert_array_equal(found.n_changed, changed.sum(axis=1))
    is_number = np.array([name not in CATEGORIES for name in frame.columns])
    assert np.isnan(found.changes[:, ~is_number][changed[:, ~is_number]]).all()
    scale = frame.to_numpy()[:, is_number].astype(float).std(axis=0)
    squares = np.where(is_number, np.nan_to_num(found.changes), changed) ** 2
    squares[:, is_number] /= scale**2
    assert_allclose(found.distances, np.sqrt(squares.sum(axis=1)), rtol=1e-9)


def test_held_categories_leave_the_distance_of_the_linear_model(table, surface):
    # In the plane of age and fare the model is linear, and its distance is known.
    frame, _ = table
    found = surface.counterfactual(frame[:30], immutable=CATEGORIES)
    logistic = surface.estimator_[-1]
    slope = logistic.coef_[0, -2:]
    exact = np.abs(surface.estimator_.decision_function(frame[:30])) / np.linalg.norm(slope)
    assert found.found.all()
    assert (found.distances >= exact * (1.0 - 1e-6)).all()
    assert np.median(found.distances / exact) < 1.02
    for name in CATEGORIES:
        assert list(found.points[name]) == list(frame[name][:30])


def test_distances_points_and_normals(table, surface):
    frame, _ = table
    found = surface.orthogonal_projection(frame[:30])
    side = np.where(surface.estimator_.predict(frame[:30]) == surface.classes_[1], 1.0, -1.0)
    assert_array_equal(np.sign(found.distances), side)
    assert_array_equal(surface.distance(frame[:30]), found.distances)
    is_category = np.isin(frame.columns, CATEGORIES)
    assert not found.normals[:, is_category].any()
    assert surface.oracle_ == "labels"
    assert list(surface.surface_points_.columns) == list(frame.columns)
    nearer = np.abs(found.distances) <= np.abs(surface.project(frame[:30]).distances) + 1e-6
    assert nearer.all()


def test_a_ray_changes_numbers_only(table, surface):
    frame, _ = table
    found = surface.along(frame[:10], [0.0, 0.0, 1.0, 0.0, 0.0], max_distance=50.0)
    reached = np.flatnonzero(np.isfinite(found.distances))
    assert len(reached)
    points = found.points.iloc[reached]
    assert_allclose(surface.estimator_.decision_function(points), 0.0, atol=1e-4)
    with pytest.raises(ValueError, match="direction changes a column of categories"):
        surface.along(frame[:10], [0.0, 1.0, 1.0, 0.0, 0.0])


def test_polars_gives_the_same_answers(table, surface):
    frame, y = table
    other = pl.from_pandas(frame.astype({"port": str}))
    model = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(), CATEGORIES), (StandardScaler(), ["age", "fare"])
        ).set_output(transform="default"),
        LogisticRegression(),
    )
    found = DecisionSurface(model, metric="standardized", random_state=0).fit(other, y)
    assert_allclose(found.distance(other[:10]), surface.distance(frame[:10]), rtol=1e-9)
    assert isinstance(found.counterfactual(other[:3]).points, pl.DataFrame)


def test_unseen_categories_are_kept_and_missing_numbers_named(table, surface):
    frame, y = table
    new = frame[:4].assign(sex="unknown")
    found = surface.counterfactual(new, immutable=["sex"])
    assert list(found.points["sex"]) == ["unknown"] * 4
    with pytest.raises(ValueError, match="Row 2 misses the number 'age'"):
        surface.distance(frame[:4].assign(age=[20.0, 30.0, None, 40.0]))
    with pytest.raises(ValueError, match="'age' held numbers in fit, and now holds 'old'"):
        surface.distance(frame[:4].assign(age="old"))
    with pytest.raises(ValueError, match="oracle='gradient' needs columns of numbers"):
        DecisionSurface(classifier(), oracle="gradient").fit(frame, y)
    with pytest.raises(ValueError, match="matrix metric needs columns of numbers"):
        DecisionSurface(classifier(), metric="mahalanobis").fit(frame, y)


def test_rows_that_miss_a_number_only_fit_the_classifier(table, surface):
    frame, _ = table
    gaps = pd.concat([frame, frame[:5].assign(age=np.nan)], ignore_index=True)
    found = DecisionSurface(surface.estimator_, metric="standardized", random_state=0).fit(gaps)
    assert_array_equal(found.distance(frame[:10]), surface.distance(frame[:10]))
    some = np.arange(len(frame)) < 50
    never = frame.assign(age=frame["age"].where(some), fare=frame["fare"].where(~some))
    with pytest.raises(ValueError, match="Every row misses a number, most often in column 'age'"):
        DecisionSurface(surface.estimator_).fit(never)


def test_a_missing_category_is_a_category(table):
    frame, y = table
    frame = frame.assign(sex=frame["sex"].where(np.arange(len(frame)) % 7 > 0, None))
    surface = DecisionSurface(classifier(), random_state=0).fit(frame, y)
    found = surface.counterfactual(frame[:8], immutable=["sex"])
    assert_array_equal(found.points["sex"].isna(), frame["sex"][:8].isna())


def test_surface_of_a_frame_is_saved(table, surface, tmp_path):
    frame, _ = table
    again = load(save(surface, tmp_path / "surface.vicinal"))
    assert_array_equal(again.distance(frame[:6]), surface.distance(frame[:6]))


def test_calibrated_classifier_of_a_frame(table):
    frame, y = table
    frame = frame.assign(sex=frame["sex"].where(frame.index != 5, "other"))  # in one fold only
    model = SurfaceCalibratedClassifier(classifier(), cv=3, random_state=0).fit(frame, y)
    proba = model.predict_proba(frame)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert np.mean(model.predict(frame) == y) > 0.85
