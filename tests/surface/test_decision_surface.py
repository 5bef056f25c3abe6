import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial import cKDTree
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris, make_moons
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from vicinal.ensemble import PrunedTreeClassifier
from vicinal.local import LocalClassifier
from vicinal.surface import DecisionSurface
from vicinal.surface._search import SurfaceStatus


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(200, noise=0.06, random_state=0)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def noisy():
    X, y = make_moons(200, noise=0.25, random_state=0)
    return StandardScaler().fit_transform(X), y


def papers_machine(h):
    return LocalClassifier(
        LinearSVC(), bandwidth=h, kernel="gaussian", metric="euclidean", calibration=None, n_jobs=1
    )


@pytest.fixture(scope="module")
def surface(moons):
    X, y = moons
    return DecisionSurface(papers_machine(0.6).fit(X, y), random_state=0).fit(X)


# --- local models ---


@pytest.mark.parametrize(("h", "fits"), [(0.6, 8), (0.3, 10), (0.15, 16)])
def test_projection_changes_sign_within_the_tolerance_at_few_fits(moons, h, fits):
    X, y = moons
    model = papers_machine(h).fit(X, y)
    found = DecisionSurface(model, random_state=0).fit(X).project(X)
    step = 1e-6 * found.normals
    above = model.decision_function(found.points + step)
    below = model.decision_function(found.points - step)
    assert (above > 0).all()
    assert (below < 0).all()
    assert found.converged.all()
    assert found.n_evaluations.mean() <= fits


def test_orthogonal_projection_is_orthogonal_and_nearest(moons, surface):
    X, _ = moons
    model = surface.estimator_
    found = surface.orthogonal_projection(X)
    value, gradient = model.decision_function_and_gradient(found.points)
    size = np.linalg.norm(gradient, axis=1)
    assert np.abs(value / size).max() < 1e-6
    offset = found.points - X
    cosine = np.abs((offset * gradient).sum(axis=1)) / size / np.linalg.norm(offset, axis=1)
    assert cosine.min() > 1 - 1e-4
    assert found.n_evaluations.mean() <= 25
    assert np.isin(found.status, (SurfaceStatus.CONVERGED, SurfaceStatus.KINK)).all()
    # No point of many on the surface is nearer.
    rows = np.random.RandomState(1).uniform(X.min(axis=0), X.max(axis=0), size=(2000, 2))
    many = DecisionSurface(model, n_surface_points=2000, random_state=1).fit(rows).surface_points_
    assert len(many) > 200
    assert np.abs(model.decision_function(many)).max() < 1e-4
    near = cKDTree(many).query(X)[0]
    assert (np.abs(found.distances) <= near * 1.01).mean() >= 0.99
    assert_array_equal(found.distances > 0, model.predict(X) == 1)
    assert_allclose(np.abs(found.distances), np.linalg.norm(offset, axis=1), atol=1e-9)


def test_normals_point_to_the_positive_side(moons, surface):
    X, _ = moons
    normals = surface.normal(X[:20])
    points = surface.orthogonal_projection(X[:20]).points
    assert_allclose(np.linalg.norm(normals, axis=1), 1.0)
    assert (surface.estimator_.decision_function(points + 1e-3 * normals) > 0).all()


def test_ray_crosses_where_the_segment_does(surface):
    found = surface.along([[0.0, 2.0]], [0.0, -1.0])
    assert found.status[0] == SurfaceStatus.CONVERGED
    assert found.points[0, 0] == 0.0
    assert abs(surface.estimator_.decision_function(found.points)[0]) < 1e-5
    between = np.linspace(2.0, found.points[0, 1], 200)[:-1]
    side = surface.estimator_.predict(np.column_stack([np.zeros(199), between]))
    assert len(set(side)) == 1
    outside = surface.along([[0.0, 2.0]], [[0.0, 1.0]], max_distance=0.2)
    assert outside.status[0] == SurfaceStatus.NO_CROSSING
    assert np.isinf(outside.distances[0])


def test_every_local_solver_has_a_surface(noisy):
    X, y = noisy
    for loss in ("squared_error", "log_loss", "squared_hinge"):
        model = LocalClassifier(
            loss=loss, alpha=1.0, n_neighbors=30, metric="euclidean", calibration=None
        ).fit(X, y)
        found = DecisionSurface(model, random_state=0).fit(X).orthogonal_projection(X[:10])
        beyond = found.points + 1e-3 * np.sign(found.distances)[:, None] * -found.normals
        assert np.isfinite(found.distances).all()
        assert (model.predict(beyond) != model.predict(X[:10])).mean() >= 0.8


# --- any classifier ---


@pytest.mark.parametrize(
    "model",
    [LogisticRegression(), LinearDiscriminantAnalysis(), SVC(kernel="linear"), RidgeClassifier()],
    ids=lambda m: type(m).__name__,
)
def test_distance_to_linear_models_is_the_closed_form(noisy, model):
    X, y = noisy
    surface = DecisionSurface(model, random_state=0).fit(X, y)
    w, b = np.ravel(surface.estimator_.coef_), np.ravel(surface.estimator_.intercept_)
    expected = (X @ w + b) / np.linalg.norm(w)
    assert surface.oracle_ == "gradient"
    assert_allclose(surface.distance(X), expected, atol=1e-6)
    assert_allclose(surface.distance(X, method="first_order"), expected, atol=1e-9)
    assert_allclose(surface.normal(X[:3]), np.tile(w / np.linalg.norm(w), (3, 1)), atol=1e-6)


@pytest.mark.parametrize(
    ("model", "oracle"),
    [
        (SVC(), "gradient"),
        (SVC(kernel="poly", coef0=1.0), "gradient"),
        (MLPClassifier((16,), activation="tanh", max_iter=800, random_state=0), "gradient"),
        (make_pipeline(StandardScaler(), SVC()), "gradient"),
        (make_pipeline(PolynomialFeatures(2), LogisticRegression()), "differences"),
        (make_pipeline(MinMaxScaler(clip=True), LogisticRegression()), "differences"),
        (GaussianNB(), "differences"),
        (DecisionTreeClassifier(max_depth=5, random_state=0), "tree"),
        (RandomForestClassifier(15, random_state=0), "labels"),
        (KNeighborsClassifier(15), "labels"),
    ],
    ids=lambda m: m if isinstance(m, str) else type(m).__name__,
)
def test_distance_agrees_with_a_grid(noisy, model, oracle):
    X, y = noisy
    model = clone(model).fit(X, y)
    surface = DecisionSurface(model, random_state=0).fit(X)
    assert surface.oracle_ == oracle
    axis = np.linspace(-4, 4, 401)
    grid = np.column_stack([a.ravel() for a in np.meshgrid(axis, axis)])
    labels, own = model.predict(grid), model.predict(X[:60])
    trees = {c: cKDTree(grid[labels == c]) for c in (0, 1)}
    truth = np.array([trees[1 - c].query(x)[0] for c, x in zip(own, X[:60], strict=True)])
    found = surface.orthogonal_projection(X[:60])
    ratio = np.abs(found.distances) / (truth + 0.02)
    assert np.quantile(ratio, 0.95) <= 1.15
    # A forest has slivers thinner than the grid.
    assert np.quantile(np.abs(found.distances) - truth, 0.05) > -0.03
    assert_array_equal(found.distances > 0, own == 1)


def test_wrappers_are_looked_through(noisy):
    X, y = noisy
    search = GridSearchCV(SVC(), {"C": [0.5, 1.0]}, cv=2).fit(X, y)
    direct = DecisionSurface(search.best_estimator_, random_state=0).fit(X)
    wrapped = DecisionSurface(search, random_state=0).fit(X)
    assert wrapped.oracle_ == "gradient"
    assert_array_equal(wrapped.distance(X[:5]), direct.distance(X[:5]))


def test_single_trees_are_exact_whatever_their_wrapper(noisy):
    X, y = noisy
    tree = DecisionTreeClassifier(max_depth=6, random_state=0).fit(X, y)
    surface = DecisionSurface(tree, random_state=0).fit(X)
    assert surface.oracle_ == "tree"
    by_labels = DecisionSurface(tree, oracle="labels", random_state=0).fit(X)
    exact, found = np.abs(surface.distance(X[:50])), np.abs(by_labels.distance(X[:50]))
    assert (exact <= found * (1 + 1e-6) + 1e-6).all()
    pruned = PrunedTreeClassifier(cv=3, random_state=0).fit(X, y)
    assert DecisionSurface(pruned).fit(X).oracle_ == "tree"
    scaled = DecisionSurface(tree, metric=[4.0, 1.0], random_state=0).fit(X)
    offset = scaled.orthogonal_projection(X[:5]).points - X[:5]
    assert_allclose(
        np.abs(scaled.distance(X[:5])), np.sqrt(4 * offset[:, 0] ** 2 + offset[:, 1] ** 2)
    )


def test_classifier_with_a_gradient_of_its_own_is_followed():
    class Ball(ClassifierMixin, BaseEstimator):
        """Class 1 inside the unit ball."""

        classes_ = np.array([0, 1])

        def fit(self, X, y=None):
            self.fitted_ = True
            return self

        def decision_function(self, X):
            return 1.0 - (np.asarray(X) ** 2).sum(axis=1)

        def decision_function_and_gradient(self, X, weights_move=True):
            return self.decision_function(X), -2.0 * np.asarray(X)

        def predict(self, X):
            return (self.decision_function(X) > 0).astype(int)

    X = np.random.RandomState(0).normal(size=(60, 3))
    surface = DecisionSurface(Ball().fit(X), random_state=0).fit(X)
    assert surface.oracle_ == "gradient"
    assert_allclose(surface.distance(X), 1.0 - np.linalg.norm(X, axis=1), atol=1e-6)


# --- several classes ---


@pytest.mark.parametrize(
    "model",
    [LogisticRegression(max_iter=1000), GaussianNB(), DecisionTreeClassifier(random_state=0)],
    ids=lambda m: type(m).__name__,
)
def test_region_of_a_class_ends_where_another_rules(model):
    X, y = load_iris(return_X_y=True)
    model = clone(model).fit(X, y)
    surface = DecisionSurface(model, random_state=0).fit(X)
    found = surface.orthogonal_projection(X)
    own = model.predict(X)
    offset = found.points - X
    assert (model.predict(X + 1.001 * offset + 1e-6 * np.sign(offset)) != own).mean() > 0.98
    assert (model.predict(X + 0.98 * offset) == own).all()
    assert (found.distances >= 0).all()


def test_distance_to_a_label_is_signed():
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=1000).fit(X, y)
    surface = DecisionSurface(model, random_state=0).fit(X)
    to_last = surface.distance(X, label=2)
    assert_array_equal(to_last > 0, model.predict(X) == 2)
    beyond = surface.orthogonal_projection(X, label=2).points
    scores = model.decision_function(beyond)
    others = np.delete(scores, 2, axis=1).max(axis=1)
    assert np.median(np.abs(scores[:, 2] - others)) < 1e-4
    # Where class 2 is not adjacent, it is farther than the end of the own region.
    assert (np.abs(to_last) >= surface.distance(X) - 1e-5).all()


def test_pairs_of_linear_scores_have_the_closed_form():
    X, y = load_iris(return_X_y=True)
    model = LinearDiscriminantAnalysis().fit(X, y)
    distances = DecisionSurface(model, random_state=0).fit(X).distance(X)
    scores, W = model.decision_function(X), model.coef_
    own = scores.argmax(axis=1)
    differences = scores[np.arange(150), own][:, None] - scores
    lengths = np.linalg.norm(W[own][:, None] - W[None], axis=2)
    with np.errstate(invalid="ignore"):
        expected = np.nanmin(np.where(lengths > 0, differences / lengths, np.nan), axis=1)
    assert_allclose(distances, expected, atol=1e-5)


# --- metrics ---


def test_metrics_measure_their_distances(noisy):
    X, y = noisy
    X = X * [10.0, 0.1]
    model = LogisticRegression(C=100.0).fit(X, y)
    w, b = model.coef_[0], model.intercept_[0]
    matrices = {
        "standardized": np.diag(1 / X.var(axis=0)),
        "mahalanobis": np.linalg.inv(np.cov(X.T, bias=True)),
    }
    for metric, M in matrices.items():
        surface = DecisionSurface(model, metric=metric, random_state=0).fit(X)
        expected = (X @ w + b) / np.sqrt(w @ np.linalg.inv(M) @ w)
        assert_allclose(surface.distance(X), expected, rtol=1e-4, atol=1e-4)
    weighted = DecisionSurface(model, metric=np.diag([0.01, 100.0]), random_state=0).fit(X)
    by_vector = DecisionSurface(model, metric=[0.01, 100.0], random_state=0).fit(X)
    assert_allclose(weighted.distance(X), by_vector.distance(X), atol=1e-6)
    mad = DecisionSurface(model, metric="mad", random_state=0).fit(X)
    scale = 1.4826 * np.median(np.abs(X - np.median(X, axis=0)), axis=0)
    assert_allclose(mad.distance(X), (X @ w + b) / np.linalg.norm(w * scale), atol=1e-4)


def test_bad_metrics_are_refused(noisy):
    X, y = noisy
    model = RidgeClassifier().fit(X, y)
    with pytest.raises(ValueError, match="2 positive weights"):
        DecisionSurface(model, metric=[1.0, -1.0]).fit(X)
    with pytest.raises(ValueError, match="positive definite"):
        DecisionSurface(model, metric=[[1.0, 2.0], [2.0, 1.0]]).fit(X)


# --- corner cases ---


def test_one_prediction_for_all_rows_warns_and_measures_infinity(noisy):
    X, y = noisy
    model = LogisticRegression().fit(X, y)
    alone = X[model.predict(X) == 1]
    with pytest.warns(UserWarning, match="predicts .*1.* for every row"):
        surface = DecisionSurface(model, oracle="labels").fit(alone)
    found = surface.orthogonal_projection(alone[:3])
    assert_array_equal(found.status, SurfaceStatus.NO_SURFACE)
    assert_array_equal(found.distances, np.inf)
    assert_array_equal(found.points, alone[:3])
    # A row on the other side brings its own segment.
    other = X[model.predict(X) == 0][:2]
    assert np.isfinite(surface.distance(other)).all()


def test_row_on_the_surface_is_its_own_projection():
    X = np.array([[-1.0, 0.0], [1.0, 0.0], [-1.0, 1.0], [1.0, 1.0]])
    model = LogisticRegression().fit(X, [0, 1, 0, 1])
    surface = DecisionSurface(model).fit(X)
    on = surface.project([[0.7, 0.3]]).points
    found = surface.orthogonal_projection(on)
    assert found.status[0] == SurfaceStatus.ON_SURFACE
    assert abs(found.distances[0]) < 1e-5
    assert_allclose(found.points, on, atol=1e-5)


def test_points_outside_the_rows_are_marked(surface):
    found = surface.orthogonal_projection([[0.0, 0.0], [30.0, 30.0]])
    assert not found.extrapolated[0]
    assert np.isfinite(found.distances).all()
    surface_far = surface.along([[0.0, 0.0]], [0.0, 1.0])
    assert surface_far.extrapolated.shape == (1,)


def test_duplicates_of_both_labels_do_no_harm():
    rng = np.random.RandomState(0)
    X = np.repeat(rng.normal(size=(20, 2)), 2, axis=0)
    y = (X[:, 0] > 0).astype(int)
    y[::7] = 1 - y[::7]
    model = LocalClassifier(
        loss="squared_hinge", bandwidth=0.5, alpha=0.1, metric="euclidean", calibration=None
    ).fit(X, y)
    found = DecisionSurface(model, random_state=0).fit(X).orthogonal_projection(X)
    assert np.isfinite(found.points).all()


# --- interface ---


def test_unfitted_classifier_needs_labels(noisy):
    X, y = noisy
    with pytest.raises(ValueError, match="SVC is not fitted"):
        DecisionSurface(SVC()).fit(X)
    surface = DecisionSurface(SVC(), random_state=0)
    surface.fit(X, y)
    assert not hasattr(surface.estimator, "support_")
    fitted = SVC().fit(X, y)
    assert DecisionSurface(fitted).fit(X).estimator_ is fitted
    with pytest.raises(NotFittedError):
        DecisionSurface(fitted).distance(X)


def test_results_do_not_depend_on_other_rows(noisy):
    X, y = noisy
    for model in (RandomForestClassifier(10, random_state=0), SVC()):
        surface = DecisionSurface(model, random_state=0).fit(X, y)
        together = surface.distance(X[:12])
        assert_allclose(together[::-1], surface.distance(X[:12][::-1]), rtol=1e-6)
        assert_allclose(together[3:4], surface.distance(X[3:4]), rtol=1e-6)


@pytest.mark.parametrize("many", [0, 10_000])
def test_frames_keep_names_and_floats_keep_size(noisy, many, monkeypatch):
    monkeypatch.setattr("vicinal._base._forests._MANY_ROWS", many)  # forests predict more rows
    X, y = noisy
    frame = pd.DataFrame(X, columns=["a", "b"])
    for model in (SVC(), RandomForestClassifier(5, random_state=0), GaussianNB()):
        named = DecisionSurface(clone(model).fit(frame, y), random_state=0).fit(frame)
        plain = DecisionSurface(clone(model).fit(X, y), random_state=0).fit(X)
        assert_allclose(named.distance(frame[:6]), plain.distance(X[:6]), rtol=1e-9)
    single = DecisionSurface(SVC().fit(X, y), random_state=0).fit(X.astype(np.float32))
    assert single.distance(X[:3].astype(np.float32)).dtype == np.float32


def test_fitted_surfaces_pickle(noisy):
    X, y = noisy
    for model in (SVC(), GaussianNB(), RandomForestClassifier(5, random_state=0)):
        surface = DecisionSurface(model, random_state=0).fit(X, y)
        twin = pickle.loads(pickle.dumps(surface))
        assert_array_equal(twin.distance(X[:5]), surface.distance(X[:5]))


def test_wrong_questions_are_refused(noisy, surface):
    X, y = noisy
    forest = DecisionSurface(RandomForestClassifier(5, random_state=0)).fit(X, y)
    with pytest.raises(ValueError, match="has labels only"):
        forest.distance(X[:2], method="first_order")
    with pytest.raises(ValueError, match="method='nearest'"):
        surface.distance(X[:2], method="nearest")
    with pytest.raises(ValueError, match="not one of the classes"):
        surface.distance(X[:2], label=7)
    with pytest.raises(ValueError, match="zero vector"):
        surface.along(X[:2], [0.0, 0.0])
    with pytest.raises(ValueError, match="direction has shape"):
        surface.along(X[:2], [1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="max_distance=-1"):
        surface.along(X[:2], [1.0, 0.0], max_distance=-1)
    with pytest.raises(ValueError, match="closed form"):
        DecisionSurface(GaussianNB(), oracle="gradient").fit(X, y)
    with pytest.raises(ValueError, match="decision_function or predict_proba"):
        DecisionSurface(NoScores().fit(X), oracle="differences").fit(X)


class NoScores(ClassifierMixin, BaseEstimator):
    """A rule without scores."""

    classes_ = np.array(["no", "yes"])

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def predict(self, X):
        return self.classes_[(np.asarray(X)[:, 0] > 0.25).astype(int)]


def test_rules_without_scores_have_surfaces_too(noisy):
    X, _ = noisy
    surface = DecisionSurface(NoScores().fit(X), random_state=0).fit(X)
    assert surface.oracle_ == "labels"
    assert_allclose(surface.distance(X[:20]), X[:20, 0] - 0.25, atol=0.02)
    found = surface.along([[0.0, 0.0]], [1.0, 0.0])
    assert_allclose(found.points, [[0.25, 0.0]], atol=1e-4)
    assert_allclose(surface.surface_points_[:, 0], 0.25, atol=1e-4)
    normals = surface.normal(X[:5])
    assert (normals[:, 0] > 0.9).all()


def test_a_model_of_one_class_has_no_surface():
    X = np.random.RandomState(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match="was fitted to the class"):
        DecisionSurface(RidgeClassifier()).fit(X, np.zeros(20))
