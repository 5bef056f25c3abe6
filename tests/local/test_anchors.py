import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import make_blobs, make_moons
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import FunctionTransformer

from vicinal.local import (
    AnchoredLocalClassifier,
    AnchoredLocalRegressor,
    LocalClassifier,
    LocalRegressor,
)
from vicinal.local._anchor_search import AnchorModels, choose_centers
from vicinal.local._neighborhoods import Localizer, NeighborIndex
from vicinal.local._rows import Coordinates
from vicinal.uncertainty import ResponsibilityMixture, uncertainty_map

CLASSIFIER = {"n_neighbors": 20, "alpha": 1.0, "metric": "euclidean", "random_state": 0}
REGRESSOR = {
    "n_neighbors": 20,
    "degree": 1,
    "alpha": 0.1,
    "metric": "euclidean",
    "random_state": 0,
}


@pytest.fixture(scope="module")
def waves():
    rng = np.random.RandomState(0)
    X = rng.uniform(-2, 2, size=(600, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.05 * rng.normal(size=600)


@pytest.fixture(scope="module")
def moons():
    return make_moons(600, noise=0.25, random_state=0)


def blended(anchors, coords, design):
    """The formula in the docstring of ``AnchorModels``, query by query."""
    out = []
    for p, z in zip(coords, design, strict=True):
        distance = np.sqrt(((anchors.centers - p) ** 2).sum(axis=1))
        h = np.sort(distance)[anchors.n_blended]
        v = np.maximum(1 - (distance / h) ** 3, 0) ** 3
        planes = anchors.values + np.einsum("jcp,jp->jc", anchors.slopes, z - anchors.origins)
        out.append(v @ planes / v.sum())
    return np.array(out)


# --- blending -------------------------------------------------------------------------------------


def test_blend_of_two_planes_by_hand():
    anchors = AnchorModels(
        centers=np.array([[0.0], [1.0], [3.0]]),
        origins=np.array([[0.0], [1.0], [3.0]]),
        values=np.array([[1.0], [2.0], [50.0]]),
        slopes=np.array([[[1.0]], [[-2.0]], [[0.0]]]),
        n_blended=2,
    )
    q = np.array([[0.5]])
    found = Localizer(NeighborIndex(anchors.centers), anchors.rule).neighborhoods(q)
    # Equal distances, hence equal weights: (1 + 0.5) and (2 + 1) meet in the middle.
    assert_allclose(anchors.predict(q, found), [[2.25]], rtol=1e-14)
    assert_allclose(anchors.blended_slopes(found), [[[-0.5]]], rtol=1e-14)


def test_prediction_is_the_documented_formula(waves):
    X, y = waves
    model = AnchoredLocalRegressor(30, **REGRESSOR).fit(X[:500], y[:500])
    assert_allclose(
        model.predict(X[500:]), blended(model.anchors_, X[500:], X[500:])[:, 0], rtol=1e-10
    )


def test_formula_holds_in_the_coordinates_of_a_metric(moons):
    X, y = moons
    X = X * [1.0, 50.0]
    model = AnchoredLocalClassifier(30, **{**CLASSIFIER, "metric": "within_class"}).fit(X, y)
    coords = model.coordinates_(X[:50])
    scores = blended(model.anchors_, coords, coords)
    assert_allclose(model.decision_function(X[:50]), 2 * scores[:, 1] - 1, rtol=1e-9, atol=1e-12)


def test_planes_reproduce_a_linear_target_everywhere():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 3))
    Y = X @ rng.normal(size=(3, 2)) + [1.0, -2.0]
    model = AnchoredLocalRegressor(12, **{**REGRESSOR, "n_neighbors": 30, "alpha": 0.0})
    far = 5 * rng.normal(size=(20, 3))
    truth = LinearRegression().fit(X, Y)
    assert_allclose(model.fit(X, Y).predict(far), truth.predict(far), rtol=1e-9)
    assert_allclose(model.local_coef(far), np.tile(truth.coef_, (20, 1, 1)), rtol=1e-8)


def test_prediction_is_continuous(waves):
    X, y = waves
    model = AnchoredLocalRegressor(40, **REGRESSOR).fit(X, y)
    ends = ([-1.5, -1.5], [1.5, 1.2])
    jumps = [np.abs(np.diff(model.predict(np.linspace(*ends, n)))).max() for n in (10**4, 10**5)]
    assert jumps[1] < 0.2 * jumps[0]


def test_location_columns_give_distances_and_other_columns_slopes():
    rng = np.random.RandomState(0)
    coords, x = rng.uniform(size=(800, 2)), 10 + rng.normal(size=(800, 1))
    slope = 1 + coords[:, 0] + 2 * coords[:, 1]
    X, y = np.hstack([coords, x]), slope * x[:, 0]
    settings = {"location_columns": [0, 1], "n_neighbors": 40, "degree": 1, "alpha": 0.01}
    model = AnchoredLocalRegressor(40, random_state=0, **settings).fit(X, y)
    lazy = LocalRegressor(**settings).fit(X, y)
    assert model.anchors_.centers.shape == (40, 2)
    assert model.anchors_.slopes.shape == (40, 1, 1)
    errors = [np.abs(m.local_coef(X)[:, 2] - slope).mean() for m in (model, lazy)]
    assert errors[0] < errors[1] < 0.2
    assert_array_equal(model.local_coef(X)[:, :2], 0.0)
    assert model.score(X, y) > 0.99


# --- how good, how many ---------------------------------------------------------------------------


def test_error_is_near_that_of_the_lazy_model(waves):
    X, y = waves
    lazy = LocalRegressor(**REGRESSOR).fit(X[:450], y[:450]).score(X[450:], y[450:])
    stored = AnchoredLocalRegressor(60, **REGRESSOR).fit(X[:450], y[:450]).score(X[450:], y[450:])
    assert stored > lazy - 0.01 > 0.9


def test_refits_learn_what_the_blend_leaves_over(waves):
    X, y = waves
    model = AnchoredLocalRegressor(20, **{**REGRESSOR, "n_neighbors": 60, "alpha": 3.0})
    path = model.fit(X, y).anchor_selection_
    best = [path["loss"][path["n_refits"] == i].min() for i in (0, 3)]
    assert best[1] < 0.7 * best[0]


@pytest.mark.statistical
def test_auto_needs_few_anchors_for_a_plane():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(900, 2))
    y = X @ [1.0, 2.0] + 0.5 * rng.normal(size=900)
    settings = {**REGRESSOR, "n_neighbors": 60, "alpha": 0.0}
    model = AnchoredLocalRegressor("auto", **settings).fit(X, y)
    assert len(model.anchors_.centers) == 64
    assert set(np.unique(model.anchor_selection_["n_anchors"])) == {64, 256}


def test_auto_takes_more_anchors_for_a_rough_target():
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 3, size=(1500, 2))
    y = np.sin(4 * X[:, 0]) * np.cos(4 * X[:, 1])
    model = AnchoredLocalRegressor("auto", **{**REGRESSOR, "n_neighbors": 10}).fit(X, y)
    assert len(model.anchors_.centers) > 64


def test_anchors_gather_where_classes_mix():
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, size=(2000, 2))
    y = (X[:, 0] + 0.2 * rng.normal(size=2000) > 0).astype(np.int64)
    centers = choose_centers(40, X, NeighborIndex(X), Coordinates(), y, None, 0)
    plain = choose_centers(40, X, NeighborIndex(X), Coordinates(), None, None, 0)
    mixed = [np.mean(np.abs(c[:, 0]) < 0.3) for c in (centers, plain)]
    assert mixed[0] > 1.5 * mixed[1] > 0.3


def test_rows_replace_means_in_nonlinear_coordinates():
    rng = np.random.RandomState(0)
    X = rng.uniform(0.1, 1, size=(200, 2))
    logs = Coordinates(transformer=FunctionTransformer(np.log).fit(X))
    centers = choose_centers(10, X, NeighborIndex(logs(X)), logs, None, None, 0)
    assert all(np.any(np.all(X == c, axis=1)) for c in centers)


def test_repeated_rows_give_fewer_anchors():
    X = np.repeat(np.arange(6.0)[:, None], 20, axis=0)
    model = AnchoredLocalRegressor(10, **{**REGRESSOR, "n_neighbors": 5, "degree": 0})
    assert len(model.fit(X, X[:, 0]).anchors_.centers) == 6


# --- classification -------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "squared_hinge"])
def test_every_loss_can_be_stored(moons, loss):
    X, y = moons
    names = np.array(["left", "right"])[y]
    lazy = LocalClassifier(loss=loss, **CLASSIFIER).fit(X[:400], names[:400])
    stored = AnchoredLocalClassifier(40, loss=loss, **CLASSIFIER).fit(X[:400], names[:400])
    assert stored.score(X[400:], names[400:]) > lazy.score(X[400:], names[400:]) - 0.03
    proba = stored.predict_proba(X[400:])
    assert_allclose(proba.sum(axis=1), 1.0)
    assert_array_equal(stored.classes_[proba.argmax(axis=1)], stored.predict(X[400:]))
    assert stored.local_coef(X[400:]).shape == (200, 2)


def test_temperature_belongs_to_the_anchored_scores():
    X, y = make_blobs(900, centers=4, cluster_std=3.0, random_state=1)
    model = AnchoredLocalClassifier(20, **CLASSIFIER).fit(X[:600], y[:600])
    proba = model.predict_proba(X[600:])
    confidence, right = proba.max(axis=1), proba.argmax(axis=1) == y[600:]
    assert abs(confidence.mean() - right.mean()) < 0.06
    assert (
        AnchoredLocalClassifier(20, calibration=None, **CLASSIFIER).fit(X, y).temperature_ is None
    )


def test_a_class_that_no_anchor_sees_keeps_its_column():
    X = np.vstack([np.zeros((3, 2)) - 9, make_blobs(100, centers=2, random_state=0)[0]])
    y = np.r_[[2] * 3, make_blobs(100, centers=2, random_state=0)[1]]
    centers = X[3:].mean(axis=0, keepdims=True)
    model = AnchoredLocalClassifier(centers, n_neighbors=10, alpha=1.0, metric="euclidean").fit(
        X, y
    )
    assert model.decision_function(X).shape == (103, 3)


def test_neighbors_are_anchors(moons):
    X, y = moons
    model = AnchoredLocalClassifier(40, **CLASSIFIER).fit(X, y)
    weights = model.neighbors(X[:7])
    assert weights.shape == (7, 40)
    assert np.all(np.diff(weights.indptr) <= model.anchors_.n_blended)
    assert np.all(model.effective_sample_size(X[:7]) <= model.anchors_.n_blended)


def test_groups_are_held_out_together():
    rng = np.random.RandomState(0)
    X = np.repeat(rng.normal(size=(150, 3)), 4, axis=0) + 1e-3 * rng.normal(size=(600, 3))
    y = np.repeat(rng.randint(2, size=150), 4)
    groups = np.repeat(np.arange(150), 4)
    model = AnchoredLocalClassifier(150, **{**CLASSIFIER, "n_neighbors": 6})
    flattered = model.fit(X, y).anchor_selection_["loss"].min()
    honest = model.fit(X, y, groups=groups).anchor_selection_["loss"].min()
    assert flattered < 0.25
    assert honest > 0.4


def test_groups_of_the_rows_sampled_for_the_selection_are_held_out_whole(monkeypatch):
    """Of a large table some rows are held out: those of their groups that are not may not help."""
    monkeypatch.setattr("vicinal.local._anchor_search.MAX_ROWS", 100)
    rng = np.random.RandomState(0)
    X = np.repeat(rng.normal(size=(150, 3)), 4, axis=0) + 1e-3 * rng.normal(size=(600, 3))
    y = np.repeat(rng.randint(2, size=150), 4)
    model = AnchoredLocalClassifier(150, **{**CLASSIFIER, "n_neighbors": 6})
    model.fit(X, y, groups=np.repeat(np.arange(150), 4))
    assert model.anchor_selection_["loss"].min() > 0.4


def test_one_group_cannot_be_held_out(waves):
    X, y = waves
    with pytest.raises(ValueError, match="one group only.*or groups=None"):
        AnchoredLocalRegressor(4, **REGRESSOR).fit(X, y, groups=np.zeros(len(y)))


def test_metric_of_slopes_is_learned_without_the_rows_it_is_judged_by():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 12))
    y = rng.randint(2, size=300)
    model = AnchoredLocalClassifier(20, **{**CLASSIFIER, "metric": "gradient"}).fit(X, y)
    assert abs(model.anchor_selection_["loss"].min() - 0.5) < 0.1
    assert model.temperature_ > 0.3


# --- what is kept ---------------------------------------------------------------------------------


def test_stored_model_does_not_grow_with_the_rows(waves):
    X, y = waves
    sizes = []
    for times in (1, 4):
        jitter = 1e-6 * np.random.RandomState(0).normal(size=(len(X) * times, 2))
        model = AnchoredLocalRegressor(30, **REGRESSOR)
        model.fit(np.tile(X, (times, 1)) + jitter, np.tile(y, times))
        sizes.append(len(pickle.dumps(model)))
    assert sizes[1] < 1.05 * sizes[0]
    restored = pickle.loads(pickle.dumps(model))
    assert_array_equal(restored.predict(X), model.predict(X))


def test_float32_stays_float32(waves):
    X, y = waves
    model = AnchoredLocalRegressor(30, **REGRESSOR).fit(X.astype(np.float32), y)
    assert model.predict(X.astype(np.float32)).dtype == np.float32


def test_what_needs_the_rows_is_not_offered(waves):
    X, y = waves
    model = AnchoredLocalRegressor(30, **REGRESSOR).fit(X, y)
    for name in ("leave_one_out", "statistics", "equivalent_kernel"):
        assert not hasattr(model, name)


def test_impossible_anchors_are_refused(waves):
    X, y = waves
    with pytest.raises(ValueError, match="anchors=601 exceeds the 600 samples"):
        AnchoredLocalRegressor(601, **REGRESSOR).fit(X, y)
    with pytest.raises(ValueError, match="anchors has 3 columns, but X has 2"):
        AnchoredLocalRegressor(np.zeros((4, 3)), **REGRESSOR).fit(X, y)
    with pytest.raises(TypeError, match="takes dense NumPy arrays"):
        AnchoredLocalRegressor(5, **REGRESSOR).fit(sparse.csr_matrix(X), y)
    with pytest.raises(ValueError, match="has no distances"):
        AnchoredLocalRegressor(5, metric="forest").fit(X, y)
    with pytest.raises(ValueError, match="anchors"):
        AnchoredLocalRegressor(np.full((2, 2), np.nan), **REGRESSOR).fit(X, y)


# --- centres handed in ----------------------------------------------------------------------------


def test_centres_may_come_from_an_uncertainty_map(moons):
    X, y = moons
    uncertainty = uncertainty_map(X, y, n_neighbors=20)
    mixture = ResponsibilityMixture(30, random_state=0).fit(X, sample_weight=uncertainty)
    model = AnchoredLocalClassifier(mixture.means_, **CLASSIFIER).fit(X[:400], y[:400])
    assert_allclose(np.sort(model.anchors_.centers, axis=0), np.sort(mixture.means_, axis=0))
    lazy = LocalClassifier(**CLASSIFIER).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > lazy.score(X[400:], y[400:]) - 0.03


def test_heavy_rows_do_not_need_more_anchors_than_rows():
    X = np.random.RandomState(0).normal(size=(40, 2))
    model = AnchoredLocalRegressor(random_state=0).fit(X, X[:, 0], np.arange(1, 41))
    assert len(model.anchors_.centers) <= 40
