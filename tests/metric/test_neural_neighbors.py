"""Neural neighbours: what they learn, explanations and invariants."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier

from vicinal.local import LocalRegressor
from vicinal.metric import NeuralNeighborsClassifier, NeuralNeighborsRegressor
from vicinal.metric._training import train_nets

SMALL = {"n_estimators": 2, "n_components": 16, "n_hidden": 32, "random_state": 0}
# For what does not depend on how well the nets are trained.
QUICK = {**SMALL, "n_iter_no_change": 2, "tol": 1e-2}


def waves(n, seed=0):
    X = np.random.RandomState(seed).uniform(-1, 1, (n, 5))
    return X, np.sin(6 * X[:, 0]) * X[:, 1]


@pytest.fixture(scope="module")
def regressor():
    X, y = waves(400)
    return NeuralNeighborsRegressor(**SMALL).fit(X, y)


@pytest.fixture(scope="module")
def classifier():
    X, y = waves(400)
    return NeuralNeighborsClassifier(**SMALL).fit(X, np.where(y > 0, "up", "down"))


def test_near_rows_of_the_map_predict_what_near_rows_of_the_table_do_not(classifier):
    X, y = waves(400)
    Q, z = waves(500, seed=1)
    plain = KNeighborsClassifier(10).fit(X, y > 0).score(Q, z > 0)
    learned = classifier.score(Q, np.where(z > 0, "up", "down"))
    assert learned > plain + 0.05
    assert learned > 0.9


def test_the_target_is_followed(regressor):
    Q, z = waves(500, seed=1)
    assert regressor.score(Q, z) > 0.75


def test_the_prediction_is_the_mean_of_the_neighbors(regressor, classifier):
    Q, _ = waves(7, seed=2)
    _, y = waves(400)
    weights = regressor.neighbors(Q, 400)
    assert_allclose(weights.sum(axis=1), 1.0)
    assert (np.diff(weights.data.reshape(7, 400), axis=1) <= 0).all()
    assert_allclose(weights @ y, regressor.predict(Q))
    up = classifier._voter_values(np.arange(400)) == "up"
    assert_allclose(classifier.neighbors(Q, 400) @ up, classifier.predict_proba(Q)[:, 1])
    few = regressor.neighbors(Q, 3)
    assert few.shape == (7, 400)
    assert_array_equal(few.indices.reshape(7, 3), weights.indices.reshape(7, 400)[:, :3])


def test_slopes_are_differences_of_the_predictions(regressor, classifier):
    Q, _ = waves(6, seed=3)
    slopes, by_class = regressor.local_coef(Q), classifier.local_coef(Q)
    for k in range(5):
        step = 1e-6 * np.eye(5)[k]
        change = (regressor.predict(Q + step) - regressor.predict(Q - step)) / 2e-6
        assert_allclose(slopes[:, k], change, atol=1e-6)
        up, down = (np.log(classifier.predict_proba(Q + s) + 1e-7) for s in (step, -step))
        assert_allclose(by_class[:, :, k], (up - down) / 2e-6, rtol=1e-3, atol=1e-3)


def test_distances_of_the_transform_are_the_mean_over_the_nets(regressor):
    Q, _ = waves(5, seed=4)
    Z = regressor.transform(Q)
    assert Z.shape == (5, 32)
    own = regressor.embedding_
    far = ((regressor.transform(waves(400)[0])[:1] - Z[:1]) ** 2).sum()
    by_net = [((own[e][0] - Z[0, 16 * e : 16 * (e + 1)] * np.sqrt(2)) ** 2).sum() for e in range(2)]
    assert_allclose(far, np.mean(by_net))
    assert regressor.get_feature_names_out()[0] == "neuralneighborsregressor0"


@pytest.mark.statistical
def test_the_map_serves_local_models():
    X, y = waves(300)
    Q, z = waves(200, seed=1)
    settings = {"n_neighbors": 40, "degree": 1, "alpha": 1.0}
    map_ = NeuralNeighborsRegressor(**{**SMALL, "n_estimators": 1})
    inside = LocalRegressor(metric=map_, **settings).fit(X, y)
    outside = LocalRegressor(metric="standardized", **settings).fit(X, y)
    assert inside.score(Q, z) > outside.score(Q, z) + 0.3


def test_new_voters_are_heard_without_training(regressor):
    Q, z = waves(300, seed=5)
    more = copy.deepcopy(regressor)
    before = more.nets_[0]["parameters"].copy()
    more.partial_fit(Q, z)
    assert_array_equal(more.nets_[0]["parameters"], before)
    nearest = more.neighbors(Q, 1)
    assert nearest.shape == (300, 700)
    assert np.mean(nearest.indices == 400 + np.arange(300)) > 0.95
    assert more.score(Q, z) > regressor.score(Q, z)


def test_unknown_classes_cannot_be_added(classifier):
    Q, _ = waves(2, seed=5)
    with pytest.raises(ValueError, match="label 'sideways' is not among classes"):
        classifier.partial_fit(Q, ["up", "sideways"])
    with pytest.raises(ValueError, match="not among classes"):
        NeuralNeighborsClassifier().partial_fit(Q, ["up", "down"], classes=["a", "down", "up"])


def test_weights_and_class_weights_change_the_prediction():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(200, 2))
    y = (rng.uniform(size=200) < 0.1).astype(int)
    settings = {**SMALL, "n_estimators": 1}
    plain = NeuralNeighborsClassifier(**settings).fit(X, y)
    balanced = NeuralNeighborsClassifier(**settings, class_weight="balanced").fit(X, y)
    heavy = NeuralNeighborsClassifier(**settings).fit(X, y, sample_weight=np.where(y, 9.0, 1.0))
    assert plain.predict_proba(X)[:, 1].mean() < 0.2
    assert balanced.predict_proba(X)[:, 1].mean() > 0.35
    assert heavy.predict_proba(X)[:, 1].mean() > 0.35


def test_too_few_epochs_warn_and_losses_are_kept():
    X, y = waves(100)
    with pytest.warns(ConvergenceWarning, match="max_iter=2 epochs"):
        model = NeuralNeighborsRegressor(**{**SMALL, "n_estimators": 1}, max_iter=2).fit(X, y)
    assert model.n_iter_ == 2
    assert model.nets_[0]["loss_curve"].shape == (2,)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_a_handful_of_rows(n):
    X = np.random.RandomState(0).normal(size=(n, 3))
    y = np.arange(n, dtype=float)
    model = NeuralNeighborsRegressor(**QUICK).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    labels = np.where(y > 0, "b", "a")
    model = NeuralNeighborsClassifier(**QUICK).fit(X, labels)
    assert np.isfinite(model.predict_proba(X)).all()


def test_constant_columns_and_more_columns_than_rows():
    rng = np.random.RandomState(0)
    for X in (np.ones((30, 2)), rng.normal(size=(20, 60))):
        y = rng.normal(size=len(X))
        model = NeuralNeighborsRegressor(**QUICK).fit(X, y)
        assert np.isfinite(model.predict(X)).all()
        assert np.isfinite(model.local_coef(X)).all()


def test_a_constant_target_is_predicted_exactly():
    X, _ = waves(50)
    model = NeuralNeighborsRegressor(**QUICK).fit(X, np.full(50, 7.0))
    assert_allclose(model.predict(X), 7.0)


def test_periodic_features_by_the_number_of_rows():
    X, y = waves(60)
    few = NeuralNeighborsRegressor(**QUICK).fit(X, y)
    assert [net["periodic"] for net in few.nets_] == [True, False]
    none = NeuralNeighborsRegressor(**QUICK, periodic=False).fit(X, y)
    assert [net["periodic"] for net in none.nets_] == [False, False]


def test_an_interrupt_in_one_thread_ends_the_others(monkeypatch):
    X, y = waves(300)
    epochs = []

    def failing(*args, on_epoch, **kwargs):
        def note(text):
            epochs.append(text)
            on_epoch(text)
            if len(epochs) == 10:
                raise KeyboardInterrupt

        return train_nets(*args, on_epoch=note, **kwargs)

    monkeypatch.setattr("vicinal.metric._training.train_nets", failing)
    with pytest.raises(KeyboardInterrupt):
        NeuralNeighborsRegressor(**{**SMALL, "n_estimators": 4}, n_jobs=2).fit(X, y)
    assert len(epochs) < 100


def test_torch_tensors_are_trained_to_the_same_predictions():
    torch = pytest.importorskip("torch")
    X, y = waves(300)
    X, y = X.astype(np.float32), y.astype(np.float32)
    Q, _ = waves(100, seed=1)
    settings = {**SMALL, "max_iter": 1}
    with pytest.warns(ConvergenceWarning):
        host = NeuralNeighborsRegressor(**settings).fit(X, y)
    with pytest.warns(ConvergenceWarning):
        device = NeuralNeighborsRegressor(**settings).fit(torch.tensor(X), torch.tensor(y))
    predictions = device.predict(torch.tensor(Q, dtype=torch.float32))
    assert isinstance(predictions, torch.Tensor)
    assert_allclose(predictions.numpy(), host.predict(Q), atol=2e-2)
    for name in ("transform", "local_coef"):
        assert isinstance(getattr(device, name)(torch.tensor(Q, dtype=torch.float32)), torch.Tensor)
    weights = device.neighbors(torch.tensor(Q, dtype=torch.float32), 3)
    assert_array_equal(weights.getnnz(axis=1), np.full(100, 3))
    labels = torch.tensor((y > 0).astype(int))
    with pytest.warns(ConvergenceWarning):
        model = NeuralNeighborsClassifier(**settings).fit(torch.tensor(X), labels)
    assert model.predict(torch.tensor(X[:5])).dtype == torch.int64
    with pytest.raises(TypeError, match="convert X"):
        model.predict(X)


@pytest.mark.statistical
def test_digits_are_read():
    X, y = load_digits(return_X_y=True)
    model = NeuralNeighborsClassifier(**{**SMALL, "n_estimators": 1}).fit(X[:600], y[:600])
    assert model.score(X[600:1000], y[600:1000]) > 0.9


def test_an_explanation_names_the_rows_that_voted(regressor, classifier):
    Q, _ = waves(1, seed=6)
    for model in (regressor, classifier):
        sections = {section.key: section for section in model.explain_row(Q)}
        assert "neighbors" in sections
        rows = model.neighbors(Q, 10).indices
        assert [entry[0] for entry in sections["neighbors"].rows] == rows.tolist()
        assert "400 training rows vote" in sections["neighbors"].summary


def test_one_row_that_counts_cannot_be_held_out():
    with pytest.raises(ValueError, match="two rows of positive weight, but got 1"):
        NeuralNeighborsRegressor().fit([[0.0], [1.0]], [0.0, 1.0], [1.0, 0.0])


@pytest.mark.parametrize("kind", ["labels", "numbers"])
def test_held_out_predictions_are_those_of_models_fitted_outside_each_fold(kind):
    half = np.random.RandomState(0).normal(size=(60, 3))
    # Every row twice, once in each fold: columns have one order, whichever fold is left out.
    X = np.vstack([half, half])
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    y = np.where(y > 0, "up", "down") if kind == "labels" else y
    folds = [np.arange(60), np.arange(60, 120)]
    model = (NeuralNeighborsClassifier if kind == "labels" else NeuralNeighborsRegressor)(
        n_estimators=2, n_components=8, n_hidden=8, max_iter=300, random_state=0
    )
    found = model.held_out(X, y, folds=folds, rows=np.arange(30, 90))
    assert found.candidates == [{}]
    assert_array_equal(found.rows, np.arange(30, 90))
    for fold, predictions in zip(folds, np.split(found.predictions[0], 2), strict=True):
        outside = np.setdiff1d(np.arange(120), fold)
        alone = clone(model).fit(X[outside], y[outside])
        own = X[np.intersect1d(fold, found.rows)]
        expected = alone.predict_proba(own) if kind == "labels" else alone.predict(own)[:, None]
        assert_allclose(predictions, expected, atol=1e-5)
    assert not hasattr(model, "nets_")


@pytest.mark.parametrize("n_first", [1, 3])
def test_networks_of_all_folds_are_kept_with_all_rows_as_neighbors(n_first):
    X, y = waves(90)
    folds = list(np.arange(90).reshape(3, 30))
    model = NeuralNeighborsRegressor(**{**QUICK, "n_estimators": 2})
    first = model.held_out(X, y, folds=folds[:n_first])
    found = first.more(folds[n_first:]) if n_first < 3 else first
    whole = found.fitted(0)
    assert whole.n_estimators == len(whole.nets_) == 6
    assert_allclose(whole.predict(X), whole.neighbors(X) @ y, rtol=1e-6)
    assert_allclose(whole.predict(X), model.held_out(X, y, folds=folds).fitted(0).predict(X))
    other = found.fitted(0, X[:50], y[:50], None)
    assert_allclose(other.predict(X), clone(model).fit(X[:50], y[:50]).predict(X))
    assert model.n_estimators == 2


def test_folds_count_every_row():
    X, y = waves(30)
    weight = np.r_[0.0, np.ones(29)]
    with pytest.raises(ValueError, match="zero for 1 row,"):
        NeuralNeighborsRegressor(**QUICK).held_out(
            X, y, folds=[np.arange(15), np.arange(15, 30)], sample_weight=weight
        )


def test_networks_of_host_arrays_are_trained_on_a_device_and_stay_on_the_host():
    pytest.importorskip("torch", reason="tensors: pip install 'vicinal[torch]'")
    X, y = waves(240)
    model = NeuralNeighborsRegressor(**QUICK, device="cpu").fit(X, y)
    assert all(type(part) is np.ndarray for part in model.embedding_)
    assert model.score(*waves(200, seed=1)) > 0.3
    folds = np.arange(240).reshape(3, 80)
    assert type(model.held_out(X, y, folds=folds).predictions) is np.ndarray
