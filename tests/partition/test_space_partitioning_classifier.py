import functools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_breast_cancer, make_blobs
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from vicinal._base import training_data
from vicinal._kernels.cascade import _hard
from vicinal.linear import AveragedPerceptron, WeightedLDA
from vicinal.partition import SpacePartitioningClassifier
from vicinal.partition._fit import CLASSIFIERS, ArrayEngine, hard_start, resolve
from vicinal.partition._learners import make_learner


def xor(seed, std=0.1, n=40):
    rng = np.random.RandomState(seed)
    corners = np.array([[-1, 1], [1, 1], [1, -1], [-1, -1]], dtype=float)
    X = np.repeat(corners, n, axis=0) + std * rng.normal(size=(4 * n, 2))
    return X, np.repeat([0, 1, 0, 1], n)


@pytest.fixture(scope="module")
def blobs():
    """Eight clusters of three classes in four dimensions: locally easy, globally not linear."""
    X, cluster = make_blobs(
        240, n_features=4, centers=8, cluster_std=1.6, center_box=(-6, 6), random_state=1
    )
    return X, np.array(["a", "b", "c"])[cluster % 3]


@pytest.fixture
def start_at(monkeypatch):
    """Return a function that sets the regions in which k-means assigns the rows."""

    def start(region):
        monkeypatch.setattr(_hard, "assign_kmeans", lambda *given: region)
        return region

    return start


# --- limits and known solutions ---


@pytest.mark.parametrize(
    "learner",
    [
        "lda",
        "perceptron",
        "logistic",
        DecisionTreeClassifier(max_depth=3, max_features=2, random_state=7),
        SVC(),
        GaussianNB(),
    ],
)
def test_one_region_is_the_scaled_learner_bit_for_bit(blobs, learner):
    X, y = blobs
    model = SpacePartitioningClassifier(learner, n_regions=1, random_state=3).fit(X, y)
    plain = CLASSIFIERS.get(learner, learner) if isinstance(learner, str) else learner
    if learner == "perceptron":
        plain = AveragedPerceptron(random_state=3)
    peer = make_pipeline(StandardScaler(), plain).fit(X, y)
    assert_array_equal(model.predict(X), peer.predict(X))
    if hasattr(peer, "predict_proba"):
        assert_array_equal(model.predict_proba(X), peer.predict_proba(X))
    assert len(model.restarts_) == 1
    assert model.train_error_ == pytest.approx(1 - peer.score(X, y))


def test_xor_is_solved_from_nearly_every_random_start():
    """Theorem 2.5 with clusters of standard deviation 0.1 and two LDA regions."""
    solved = 0
    for seed in range(40):
        X, y = xor(seed)
        model = SpacePartitioningClassifier(
            "lda", n_regions=2, n_init=1, init="random", combine="best", random_state=seed
        )
        solved += model.fit(X, y).train_error_ == 0
    assert solved >= 38


def reference_sweeps(X, y, region, n_regions, n_sweeps, learner):
    """Algorithm 1 written from the equations, one sample set at a time, without any shortcut."""
    n = len(y)
    gates = [None] * (n_regions - 1)
    models = [None] * n_regions
    errors = []
    for _ in range(n_sweeps):
        for j in range(n_regions):
            rows = region == j
            if rows.any():
                labels = np.unique(y[rows])
                if len(labels) == 1:
                    models[j] = lambda Z, label=labels[0]: np.full(len(Z), label)
                else:
                    models[j] = learner().fit(X[rows], y[rows]).predict
            elif models[j] is None:
                models[j] = learner().fit(X, y).predict
        wrong = np.array([model(X) != y for model in models])
        later = wrong[-1]
        for k in range(n_regions - 2, -1, -1):
            use = (region >= k) & (wrong[k] != later)
            if use.any():
                labels = wrong[k][use].astype(int)
                if labels.min() == labels.max():
                    gates[k] = lambda Z, label=labels[0]: np.full(len(Z), label)
                else:
                    gates[k] = learner().fit(X[use], labels).predict
            elif gates[k] is None:
                gates[k] = lambda Z: np.zeros(len(Z), int)
            later = np.where(gates[k](X) == 0, wrong[k], later)
        region = np.full(n, n_regions - 1)
        for k in range(n_regions - 2, -1, -1):
            region[gates[k](X) == 0] = k
        errors.append(np.mean(wrong[region, np.arange(n)]))
    return errors, region


@pytest.mark.parametrize("n_regions", [2, 3, 5])
def test_sweeps_follow_algorithm_one(blobs, n_regions, start_at):
    X, y = blobs
    start = start_at(np.random.RandomState(0).randint(n_regions, size=len(y)))
    model = SpacePartitioningClassifier(
        WeightedLDA(shrinkage=1e-3),
        n_regions=n_regions,
        n_init=1,
        max_iter=8,
        combine="best",
        keep="last",
    ).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    errors, region = reference_sweeps(
        scaled, y, start, n_regions, model.n_iter_, lambda: WeightedLDA(shrinkage=1e-3)
    )
    assert_allclose(model.training_history_["error"], errors)
    assert_array_equal(model.apply(X), np.unique(region, return_inverse=True)[1])


class PlainLDA(WeightedLDA):
    """Not the exact class, hence cloned and fitted like any estimator."""


class PlainPerceptron(AveragedPerceptron):
    """Not the exact class, hence cloned and fitted like any estimator."""


class PlainLogistic(LogisticRegression):
    """Not the exact class, hence cloned and fitted like any estimator."""


TIGHT = {"C": 0.3, "tol": 1e-7, "max_iter": 5000}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("fast", "general"),
    [
        (WeightedLDA(shrinkage=1e-2), PlainLDA(shrinkage=1e-2)),
        (AveragedPerceptron(), PlainPerceptron()),
        (LogisticRegression(**TIGHT), PlainLogistic(**TIGHT)),
    ],
)
def test_fast_path_equals_the_general_path(blobs, fast, general, weighted):
    X, y = blobs
    weight = np.random.RandomState(0).uniform(0.5, 2, size=len(y)) if weighted else None
    outcome = []
    for learner in (fast, general):
        model = SpacePartitioningClassifier(
            learner, n_regions=3, n_init=2, max_iter=4, combine="best", random_state=0
        ).fit(X, y, sample_weight=weight)
        outcome.append(model)
    for name in ("error", "region_sizes", "disagreement"):
        assert_allclose(
            outcome[0].training_history_[name], outcome[1].training_history_[name], err_msg=name
        )
    assert_array_equal(outcome[0].predict(X), outcome[1].predict(X))


# --- corner cases ---


def test_empty_regions_are_deleted(start_at):
    X, y = xor(0)
    start_at(np.where(y == 1, 3, 1))  # regions 0 and 2 start empty, 1 and 3 hold one class each
    model = SpacePartitioningClassifier(
        "lda", n_regions=4, n_init=1, combine="best", max_iter=20
    ).fit(X, y)
    sizes = model.training_history_["region_sizes"][-1]
    assert len(sizes) == 4
    assert len(model.reject_estimators_) == model.n_regions_ - 1
    assert_array_equal(np.bincount(model.apply(X)), sizes[sizes > 0])
    assert np.mean(model.predict(X) != y) == pytest.approx(model.train_error_)


def test_absent_classes_have_probability_zero_in_their_region(blobs, start_at):
    X, y = blobs
    start_at(np.where(y == "b", 0, 1))
    model = SpacePartitioningClassifier(
        "lda", n_regions=2, n_init=1, combine="best", max_iter=1
    ).fit(X, y)
    probabilities = model.predict_proba(X)
    assert_allclose(probabilities.sum(axis=1), 1)
    own = model.apply(X) == 0
    if own.any():
        assert_array_equal(probabilities[own][:, [0, 2]], 0)
    assert np.all(model.region_estimators_[0].intercept_[[0, 2]] == -np.inf)


def test_more_regions_than_samples_warns_and_uses_one_per_sample():
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]
    with pytest.warns(UserWarning, match="n_regions=9 exceeds the 4 samples"):
        model = SpacePartitioningClassifier("lda", n_regions=9, n_init=2).fit(X, y)
    assert model.n_regions_ <= 4


def test_keep_best_keeps_the_sweep_of_least_error(blobs):
    model = SpacePartitioningClassifier(
        "lda", n_regions=4, n_init=3, init="random", keep="best", combine="best", random_state=0
    ).fit(*blobs)
    assert model.train_error_ == model.training_history_["error"].min()
    assert model.train_error_ == pytest.approx(1 - model.score(*blobs))
    assert model.train_error_ == model.start_errors_[0]


def test_training_error_is_that_of_the_kept_sweep(blobs):
    for keep in ("last", "best"):
        model = SpacePartitioningClassifier(
            "perceptron", n_regions=4, n_init=1, keep=keep, combine="best", random_state=0
        ).fit(*blobs)
        assert model.train_error_ == pytest.approx(1 - model.score(*blobs))


def test_history_adds_up(blobs):
    model = SpacePartitioningClassifier("lda", n_regions=3, n_init=1, random_state=0).fit(*blobs)
    history = model.training_history_
    assert history["error"].shape == (model.n_iter_,)
    assert_array_equal(history["region_sizes"].sum(axis=1), 240)
    assert history["disagreement"].shape == (model.n_iter_, 2)
    assert np.all((history["disagreement"] >= 0) & (history["disagreement"] <= 1))


# --- starts, selection, number of regions ---


@pytest.mark.parametrize("init", ["kmeans", "random"])
@pytest.mark.parametrize("learner", ["lda", "perceptron"])
def test_every_start_beats_one_linear_model(blobs, init, learner):
    X, y = blobs
    single = SpacePartitioningClassifier(learner, n_regions=1, random_state=0).fit(X, y)
    model = SpacePartitioningClassifier(
        learner, n_regions=4, n_init=4, init=init, random_state=0
    ).fit(X, y)
    assert model.score(X, y) > single.score(X, y) + 0.03


def test_average_is_the_mean_of_the_starts(blobs):
    X, y = blobs
    model = SpacePartitioningClassifier("lda", n_regions=3, n_init=4, random_state=0).fit(X, y)
    scaled = model.scaler_.transform(X)
    mean = np.mean([c.predict_proba(scaled, model.classes_) for c in model.restarts_], axis=0)
    assert_allclose(model.predict_proba(X), mean)
    assert model.apply(X).shape == (240, 4)
    assert_array_equal(np.sort(model.start_errors_), model.start_errors_)


def test_auto_takes_one_region_where_one_is_enough(rng):
    X = rng.normal(size=(300, 3))
    noise = 0.8 * rng.normal(size=300)
    linear = SpacePartitioningClassifier("lda", n_regions="auto", n_init=2, random_state=0)
    linear.fit(X, X[:, 0] + X[:, 1] + noise > 0)
    assert linear.n_regions_ == 1
    # Both 2 and 5 are worse than 1, so 15 is not tried.
    assert list(linear.n_regions_errors_) == [1, 2, 5]
    curved = SpacePartitioningClassifier("lda", n_regions="auto", n_init=2, random_state=0)
    curved.fit(X, X[:, 0] * X[:, 1] > 0)
    assert curved.n_regions_errors_[1] > 0.3
    assert curved.n_regions_ > 1


def test_auto_takes_one_region_where_nothing_can_be_held_out():
    X, y = np.array([[0.0], [3.0]]), ["a", "b"]
    model = SpacePartitioningClassifier().fit(X, y)
    assert model.n_regions_ == 1
    assert model.predict(X).tolist() == y


# --- any learner ---


@pytest.mark.parametrize(
    ("region", "reject"),
    [
        (DecisionTreeClassifier(max_depth=2), "logistic"),
        (SVC(kernel="linear"), None),
        (make_pipeline(PolynomialFeatures(2), LogisticRegression(max_iter=1000)), "lda"),
        (HistGradientBoostingClassifier(max_iter=3, max_bins=16), LogisticRegression()),
        ("lda", DecisionTreeClassifier(max_depth=3)),
        (GaussianNB(), "perceptron"),
    ],
)
def test_any_classifier_serves_as_region_or_gate(blobs, region, reject):
    X, y = blobs
    model = SpacePartitioningClassifier(
        region, reject, n_regions=2, n_init=1, max_iter=3, random_state=0
    )
    with threadpool_limits(1):  # tiny fits, which many threads only slow down
        model.fit(X, y)
    assert model.score(X, y) > 0.6
    assert set(model.predict(X)) <= set(y)
    assert hasattr(model, "predict_proba") == (not isinstance(region, SVC))


def test_a_start_travels_to_another_process(blobs):
    X, y = blobs
    model = SpacePartitioningClassifier(DecisionTreeClassifier(max_depth=2), random_state=0)
    data = training_data(model, X, y, task="classification")
    settings = resolve(model, data)
    learners = settings.region_estimator, settings.reject_estimator
    names = "region_estimator", "reject_estimator"
    parts = [make_learner(part, data, name) for part, name in zip(learners, names, strict=True)]
    engine = ArrayEngine(data, *parts)
    assert not engine.is_compiled
    start = functools.partial(hard_start, engine, 2, settings)
    there = pickle.loads(pickle.dumps(start))(5)
    assert_array_equal(there.predict(X, y.dtype), start(5).predict(X, y.dtype))


def test_learner_without_weights_is_an_error_only_when_weights_come(blobs):
    X, y = blobs
    model = SpacePartitioningClassifier(
        KNeighborsClassifier(1), "lda", n_regions=2, n_init=1, max_iter=2
    )
    model.fit(X, y)
    with pytest.raises(ValueError, match=r"KNeighborsClassifier does not accept sample"):
        model.fit(X, y, sample_weight=np.full(len(y), 2.0))


class Refuses(LogisticRegression):
    """A learner that accepts no data at all."""

    def fit(self, X, y, sample_weight=None):
        raise ValueError("never content")


def test_a_learner_that_never_fits_is_the_users_error(blobs):
    for arguments in ({"region_estimator": Refuses()}, {"reject_estimator": Refuses()}):
        with pytest.raises(ValueError, match="never content"):
            SpacePartitioningClassifier(n_regions=2, n_init=1, **arguments).fit(*blobs)


class Picky(WeightedLDA):
    """A learner that wants forty samples."""

    def fit(self, X, y, sample_weight=None):
        if len(y) < 40:
            raise ValueError("too few samples")
        return super().fit(X, y, sample_weight)


def test_a_learner_may_refuse_a_small_region(blobs, start_at):
    X, y = blobs
    start_at(np.r_[np.zeros(10, int), np.ones(230, int)])
    model = SpacePartitioningClassifier(Picky(), "lda", n_regions=2, n_init=1, max_iter=3)
    assert model.fit(X, y).score(X, y) > 0.5


# --- weights, sparse input, soft gates ---


def test_balanced_classes_are_those_of_the_weights(blobs):
    """A row of weight two is the row twice, and one of weight zero is none."""
    X, y = blobs
    counts = np.arange(len(y)) % 3
    settings = {"n_regions": 2, "n_init": 2, "max_iter": 5, "combine": "best", "random_state": 0}
    model = SpacePartitioningClassifier("lda", **settings, class_weight="balanced")
    weighted = model.fit(X, y, sample_weight=counts).predict_proba(X)
    repeated = model.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts)).predict_proba(X)
    assert_allclose(weighted, repeated, rtol=1e-6, atol=1e-9)


def test_weights_move_the_regions(blobs):
    X, y = blobs
    weight = np.where(y == "a", 20.0, 1.0)
    plain = SpacePartitioningClassifier("lda", n_regions=2, n_init=3, random_state=0).fit(X, y)
    heavy = SpacePartitioningClassifier("lda", n_regions=2, n_init=3, random_state=0).fit(
        X, y, sample_weight=weight
    )
    assert np.sum(heavy.predict(X) == "a") > np.sum(plain.predict(X) == "a")
    by_class = SpacePartitioningClassifier(
        "lda", n_regions=2, n_init=3, class_weight={"a": 20.0, "b": 1.0, "c": 1.0}, random_state=0
    ).fit(X, y)
    assert_array_equal(by_class.predict(X), heavy.predict(X))


@pytest.mark.parametrize(
    "arguments",
    [
        # Dense rows take Newton steps, sparse ones do not: equal at the minimum only.
        {"region_estimator": LogisticRegression(tol=1e-9, max_iter=5000), "max_iter": 3},
        {"region_estimator": "perceptron"},
        {"gating": "soft", "max_iter": 40},
    ],
)
def test_sparse_equals_dense_without_scaling(blobs, arguments):
    X, y = blobs
    model = SpacePartitioningClassifier(
        n_regions=2, n_init=2, scale=False, random_state=0, **arguments
    )
    dense = model.fit(X, y).predict_proba(X)
    found = model.fit(sparse.csr_array(X), y).predict_proba(sparse.csr_array(X))
    assert_allclose(found, dense, atol=1e-5)


def test_sparse_rows_are_scaled_and_classified(blobs):
    X, y = blobs
    X = sparse.csr_array(np.where(np.abs(X) < 1, 0, X) * [1, 10, 100, 1000])
    model = SpacePartitioningClassifier(n_regions=3, n_init=3, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.85
    with pytest.raises(ValueError, match="X is sparse; use 'perceptron'"):
        SpacePartitioningClassifier("lda", n_regions=2).fit(X, y)


def test_soft_gates_mix_the_regions(blobs):
    X, y = blobs
    model = SpacePartitioningClassifier(
        gating="soft", n_regions=3, n_init=3, alpha=0.1, combine="best", random_state=0
    ).fit(X, y)
    single = LogisticRegression().fit(X, y)
    assert model.score(X, y) > single.score(X, y) + 0.05
    assert np.all(np.diff(model.training_history_["objective"]) <= 1e-12)
    assert model.train_error_ == pytest.approx(1 - model.score(X, y))
    h = model.decision_path(X)
    pi_0 = 1 / (1 + np.exp(h[:, 0]))
    assert_array_equal(model.apply(X) == 0, pi_0 >= 0.5)


def test_soft_gates_choose_their_number_of_regions(rng):
    X = rng.normal(size=(200, 2))
    model = SpacePartitioningClassifier(gating="soft", n_init=2, random_state=0)
    model.fit(X, X[:, 0] * X[:, 1] > 0)
    assert model.n_regions_ > 1
    assert model.n_regions_errors_[1] > 0.4 > model.n_regions_errors_[model.n_regions_]


def test_soft_gates_with_one_region_are_logistic_regression(blobs):
    X, y = blobs
    soft = SpacePartitioningClassifier(
        gating="soft", n_regions=1, alpha=1.0, max_iter=2000, random_state=0
    ).fit(X, y)
    peer = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, tol=1e-8)).fit(X, y)
    assert_allclose(soft.predict_proba(X), peer.predict_proba(X), atol=1e-3)


# --- reading a cascade ---


def test_paths_and_regions_agree(blobs):
    X, y = blobs
    model = SpacePartitioningClassifier(
        "lda", n_regions=4, n_init=2, combine="best", random_state=0
    ).fit(X, y)
    h = model.decision_path(X)
    stays = np.column_stack([h <= 0, np.ones(len(X), bool)])
    assert_array_equal(model.apply(X), stays.argmax(axis=1))


def test_report_counts_every_sample_once(blobs):
    X, y = blobs
    model = SpacePartitioningClassifier(
        "lda", n_regions=3, n_init=2, combine="best", random_state=0
    ).fit(X, y)
    report = model.region_report(X, y)
    assert report["n_samples"].sum() == 240
    assert_allclose(report["share"].sum(), 1)
    assert_allclose((report["error"] * report["n_samples"]).sum() / 240, model.train_error_)
    assert_array_equal(report[["n_a", "n_b", "n_c"]].to_numpy(), model.region_histogram(X, y))
    with pytest.raises(ValueError, match="'zebra', which is not one of the classes"):
        model.region_report(X, np.where(y == "a", "zebra", y))


def test_breast_cancer_by_any_route():
    X, y = load_breast_cancer(return_X_y=True)
    for arguments in ({}, {"region_estimator": "lda", "n_regions": 2}, {"gating": "soft"}):
        model = SpacePartitioningClassifier(n_init=2, random_state=0, **arguments)
        assert model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.93


def test_sparse_queries_to_a_model_of_dense_rows(blobs):
    X, y = blobs
    model = SpacePartitioningClassifier(n_regions=2, n_init=1, random_state=0).fit(X, y)
    assert_allclose(model.predict_proba(sparse.csr_array(X)), model.predict_proba(X))
