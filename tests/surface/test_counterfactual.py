import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from vicinal.surface import DecisionSurface
from vicinal.surface._search import SurfaceStatus


@pytest.fixture(scope="module")
def cancer():
    data = load_breast_cancer()
    return StandardScaler().fit_transform(data.data)[:, :8], data.target


@pytest.fixture(scope="module", params=["smooth", "labels"])
def surface(request, cancer):
    X, y = cancer
    models = {
        "smooth": LogisticRegression(C=0.1),
        "labels": RandomForestClassifier(10, max_depth=5, random_state=0),
    }
    return DecisionSurface(models[request.param].fit(X, y), random_state=0).fit(X)


def test_every_counterfactual_has_the_other_label(surface, cancer):
    X = cancer[0][:60]
    changed = surface.counterfactual(X)
    assert changed.found.all()
    before, after = surface.estimator_.predict(X), surface.estimator_.predict(changed.points)
    assert (after != before).all()
    assert_array_equal(after, changed.labels)
    assert_allclose(np.linalg.norm(changed.changes, axis=1), changed.distances, atol=1e-9)
    # One step past the surface, not more.
    assert np.quantile(changed.distances / np.abs(surface.distance(X)), 0.9) < 1.02


def test_linear_counterfactual_is_the_foot_of_the_perpendicular(cancer):
    X, y = cancer
    model = LogisticRegression(C=0.1).fit(X, y)
    w, b = model.coef_[0], model.intercept_[0]
    changed = DecisionSurface(model, random_state=0).fit(X).counterfactual(X[:20])
    foot = X[:20] - ((X[:20] @ w + b) / (w @ w))[:, None] * w
    assert_allclose(changed.points, foot, atol=5e-3 * np.abs(foot - X[:20]).max())


def test_immutable_columns_stay_exactly_as_they_were(surface, cancer):
    X = cancer[0][:40]
    changed = surface.counterfactual(X, immutable=[0, 3])
    assert changed.found.mean() > 0.9
    assert_array_equal(changed.points[:, [0, 3]], X[:, [0, 3]])
    after = surface.estimator_.predict(changed.points[changed.found])
    assert (after != surface.estimator_.predict(X[changed.found])).all()
    free = surface.counterfactual(X)
    both = changed.found & free.found
    assert np.median(changed.distances[both] / free.distances[both]) > 0.99


def test_immutable_linear_solution_is_exact(cancer):
    X, y = cancer
    model = LogisticRegression(C=0.1).fit(X, y)
    surface = DecisionSurface(model, random_state=0).fit(X)
    changed = surface.counterfactual(X[:20], immutable=np.arange(8) < 4)
    w = np.r_[np.zeros(4), model.coef_[0][4:]]
    score = X[:20] @ model.coef_[0] + model.intercept_[0]
    assert_allclose(changed.distances, np.abs(score) / np.linalg.norm(w), rtol=5e-3)


def test_bounds_are_kept(surface, cancer):
    X = cancer[0][:40]
    low, high = cancer[0].min(axis=0), np.quantile(cancer[0], 0.9, axis=0)
    changed = surface.counterfactual(X, bounds=(low, high))
    assert (changed.points >= np.minimum(low, X) - 1e-12).all()
    assert (changed.points <= np.maximum(high, X) + 1e-12).all()
    assert changed.found.mean() > 0.9


def test_bounds_of_a_linear_model_give_the_constrained_optimum():
    X = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0], [3.0, 0.0], [-3.0, 0.0]])
    model = LogisticRegression(C=100.0).fit(X, [0, 0, 1, 1, 1, 0])
    model.coef_, model.intercept_ = np.array([[1.0, 1.0]]), np.array([-1.0])
    surface = DecisionSurface(model, random_state=0).fit(np.vstack([X, [[0.0, 2.0]]]))
    changed = surface.counterfactual([[0.0, 0.0]], bounds=(None, [np.nan, 0.2]))
    assert_allclose(changed.points, [[0.8, 0.2]], atol=5e-3)


def test_target_of_many_is_reached():
    X, y = load_iris(return_X_y=True)
    for model in (LogisticRegression(max_iter=1000), DecisionTreeClassifier(random_state=0)):
        surface = DecisionSurface(model, random_state=0).fit(X, y)
        changed = surface.counterfactual(X, target=2)
        assert changed.found.all()
        assert (surface.estimator_.predict(changed.points) == 2).all()
        already = surface.estimator_.predict(X) == 2
        assert_array_equal(changed.points[already], X[already])
        assert_array_equal(changed.distances[already], 0.0)
        assert (changed.distances[~already] > 0).all()


def test_sparsity_trades_distance_for_fewer_changes(surface, cancer):
    X = cancer[0][:40]
    dense, sparse = surface.counterfactual(X), surface.counterfactual(X, sparsity=0.5)
    sparsest = surface.counterfactual(X, sparsity=np.inf)
    assert (sparse.distances <= 1.51 * dense.distances).all()
    assert sparse.n_changed.mean() < dense.n_changed.mean()
    assert sparsest.n_changed.mean() <= sparse.n_changed.mean()
    for changed in (sparse, sparsest):
        after = surface.estimator_.predict(changed.points)
        assert (after != surface.estimator_.predict(X)).all()


def test_categories_take_values_that_were_seen():
    rng = np.random.RandomState(0)
    codes = rng.choice([0.0, 1.0, 5.0], size=300)
    X = np.column_stack([rng.normal(size=300), codes])
    y = (X[:, 0] + (codes == 5.0) * 3.0 > 1.5).astype(int)
    model = RandomForestClassifier(20, max_depth=5, random_state=0).fit(X, y)
    surface = DecisionSurface(model, random_state=0).fit(X)
    changed = surface.counterfactual(X, categorical=[1])
    assert changed.found.all()
    assert np.isin(changed.points[:, 1], [0.0, 1.0, 5.0]).all()
    assert (model.predict(changed.points) != model.predict(X)).all()
    moved = changed.points[:, 1] != X[:, 1]
    assert moved.any()
    assert (changed.distances[moved] >= 1.0 - 1e-9).all()
    held = surface.counterfactual(X, categorical=[1], immutable=[1])
    assert_array_equal(held.points[:, 1], X[:, 1])


def test_plausible_counterfactuals_stay_among_the_rows():
    X, y = make_moons(300, noise=0.1, random_state=0)
    model = SVC(gamma=2.0).fit(X, y)
    surface = DecisionSurface(model, random_state=0).fit(X)
    free, dense = surface.counterfactual(X[:40]), surface.counterfactual(X[:40], plausibility=0.9)
    search = NearestNeighbors(n_neighbors=6).fit(X)
    limit = np.quantile(search.kneighbors(X)[0][:, -1], 0.9)
    found = dense.found
    assert found.mean() > 0.9
    reach = search.kneighbors(dense.points[found], 5)[0][:, -1]
    assert (reach <= limit * (1 + 1e-9)).all()
    assert (dense.distances[found] >= free.distances[found] - 1e-6).all()
    assert (model.predict(dense.points[found]) != model.predict(X[:40][found])).all()


def test_nothing_to_find_is_reported(cancer):
    X, y = cancer
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    alone = X[model.predict(X) == 1]
    with pytest.warns(UserWarning, match="for every row"):
        surface = DecisionSurface(model, random_state=0).fit(alone)
    changed = surface.counterfactual(alone[:4])
    assert not changed.found.any()
    assert_array_equal(changed.points, alone[:4])
    assert np.isinf(changed.distances).all()
    assert_array_equal(changed.status, SurfaceStatus.NO_SURFACE)


def test_single_precision_points_are_checked_as_returned(cancer):
    X, y = cancer
    X = X.astype(np.float32)
    model = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, y)
    changed = DecisionSurface(model, random_state=0).fit(X).counterfactual(X)
    assert changed.points.dtype == np.float32
    assert (model.predict(changed.points) != model.predict(X)).all()


def test_columns_may_be_named(cancer):
    X, y = cancer
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    surface = DecisionSurface(LogisticRegression(C=0.1), random_state=0).fit(frame, y)
    changed = surface.counterfactual(frame[:5], immutable=["a", "d"])
    assert_array_equal(changed.points[:, [0, 3]], X[:5, [0, 3]])
    assert changed.feature_names == list("abcdefgh")
    with pytest.raises(ValueError, match=r"immutable names \['z'\]"):
        surface.counterfactual(frame[:5], immutable=["z"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"immutable": list(range(8))}, "every column"),
        ({"immutable": [8]}, "must name some of the 8 columns"),
        ({"bounds": (1.0, 0.0)}, "must not exceed"),
        ({"bounds": (0.0,)}, "pair"),
        ({"bounds": ([0.0, 1.0], None)}, "one for each of the 8"),
        ({"sparsity": -1.0}, "sparsity=-1.0"),
        ({"plausibility": 2.0}, "plausibility=2.0"),
        ({"target": 9}, "target=9"),
    ],
)
def test_conditions_that_make_no_sense_are_refused(surface, cancer, options, message):
    with pytest.raises(ValueError, match=message):
        surface.counterfactual(cancer[0][:3], **options)


def test_matrix_metrics_have_no_limits_of_columns(cancer):
    X, y = cancer
    model = LogisticRegression(C=0.1).fit(X, y)
    whitened = DecisionSurface(model, metric="mahalanobis", random_state=0).fit(X)
    assert whitened.counterfactual(X[:5]).found.all()
    with pytest.raises(ValueError, match="A matrix metric cannot be combined"):
        whitened.counterfactual(X[:5], bounds=(0.0, 1.0))
