import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from vicinal._kernels.linear._covariance import LDAStatistics, lda_coefficients
from vicinal.linear import WeightedLDA


@pytest.fixture(params=[2, 3])
def data(request, rng):
    n_classes = request.param
    y = rng.randint(n_classes, size=120)
    X = rng.normal(size=(120, 5)) @ rng.normal(size=(5, 5)) + 1.5 * rng.normal(size=(3, 5))[y]
    return X, np.array(["ape", "bee", "cat"])[y]


@pytest.mark.parametrize("solver", ["lsqr", "eigen"])
@pytest.mark.parametrize("shrinkage", [None, 1e-4, 0.3, 1.0])
def test_equals_scikit_learn_without_weights(data, solver, shrinkage):
    X, y = data
    ours = WeightedLDA(shrinkage).fit(X, y)
    theirs = LinearDiscriminantAnalysis(solver=solver, shrinkage=shrinkage).fit(X, y)
    assert_allclose(ours.predict_log_proba(X), np.log(theirs.predict_proba(X)), atol=1e-8)
    assert_allclose(ours.means_, theirs.means_, atol=1e-8)
    assert_array_equal(ours.predict(X), theirs.predict(X))
    # More than two classes: scikit-learn's scores hold a term common to all classes.
    common = 0.0 if len(ours.classes_) == 2 else (theirs.coef_ - ours.coef_).mean(axis=0)
    assert_allclose(ours.coef_, theirs.coef_ - common, atol=1e-8)


def test_equals_scikit_learn_on_singular_data():
    """Digits has constant columns; scikit-learn's least squares ignores them."""
    X, y = load_digits(return_X_y=True)
    ours = WeightedLDA(1e-3).fit(X, y)
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=1e-3).fit(X, y)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-8)
    plain = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    assert np.mean(WeightedLDA().fit(X, y).predict(X) == plain.predict(X)) > 0.999


@pytest.mark.parametrize("shrinkage", [None, 0.2, "auto"])
def test_weights_equal_repetition(data, shrinkage):
    X, y = data
    counts = np.arange(len(y)) % 4
    again = np.repeat(np.arange(len(y)), counts)
    weighted = WeightedLDA(shrinkage).fit(X, y, sample_weight=counts)
    repeated = WeightedLDA(shrinkage).fit(X[again], y[again])
    assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-10, atol=1e-10)
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-10)


def test_class_of_weight_zero_is_removed(data):
    X, y = data
    if len(np.unique(y)) == 2:
        with pytest.raises(ValueError, match="one class only"):
            WeightedLDA().fit(X, y, sample_weight=y != "bee")
        return
    model = WeightedLDA().fit(X, y, sample_weight=y != "bee")
    assert_array_equal(model.classes_, ["ape", "cat"])


def test_scale_of_weights_does_not_matter(data, rng):
    X, y = data
    w = rng.uniform(size=len(y))
    one, other = (WeightedLDA(0.1).fit(X, y, sample_weight=s * w) for s in (1.0, 1e3))
    assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-12)


def test_order_of_rows_does_not_matter(data, rng):
    X, y = data
    order = rng.permutation(len(y))
    assert_allclose(
        WeightedLDA().fit(X, y).coef_, WeightedLDA().fit(X[order], y[order]).coef_, rtol=1e-9
    )


def test_probabilities_do_not_depend_on_affine_coordinates(data, rng):
    X, y = data
    moved = X @ rng.normal(size=(5, 5)) + 100.0
    assert_allclose(
        WeightedLDA().fit(moved, y).predict_proba(moved),
        WeightedLDA().fit(X, y).predict_proba(X),
        atol=1e-9,
    )


def test_blocks_give_the_fit_to_all_rows(data, rng):
    X, y = data
    w = rng.uniform(size=len(y))
    whole = WeightedLDA(0.1).fit(X, y, sample_weight=w)
    model = WeightedLDA(0.1)
    for rows in np.array_split(np.arange(len(y)), 7):
        model.partial_fit(X[rows], y[rows], classes=whole.classes_, sample_weight=w[rows])
    assert_allclose(model.coef_, whole.coef_, rtol=1e-10, atol=1e-10)
    assert_allclose(model.covariance_, whole.covariance_, rtol=1e-10, atol=1e-12)


def test_class_not_seen_yet_has_probability_zero(data):
    X, y = data
    seen = y != "ape"
    model = WeightedLDA().partial_fit(X[seen], y[seen], classes=np.unique(y))
    proba = model.predict_proba(X)
    assert_array_equal(proba[:, 0], 0.0)
    assert_allclose(proba.sum(axis=1), 1.0)
    model.partial_fit(X[~seen], y[~seen])
    assert_allclose(model.coef_, WeightedLDA().fit(X, y).coef_, rtol=1e-9, atol=1e-10)


def test_statistics_are_enough_to_solve_again(data):
    X, y = data
    model = WeightedLDA(0.2).fit(X, y)
    coef, _ = lda_coefficients(LDAStatistics(*model.statistics_), 0.2)
    expected = coef[1:] - coef[:1] if len(coef) == 2 else coef
    assert_array_equal(model.coef_, expected)


def test_priors_move_the_intercepts_only(data):
    X, y = data
    plain = WeightedLDA().fit(X, y)
    n_classes = len(plain.classes_)
    priors = np.arange(1, n_classes + 1) / np.arange(1, n_classes + 1).sum()
    model = WeightedLDA(priors=priors).fit(X, y)
    assert_array_equal(model.coef_, plain.coef_)
    shift = np.log(priors / plain.priors_)
    shift = shift[1:] - shift[:1] if n_classes == 2 else shift
    assert_allclose(model.intercept_ - plain.intercept_, shift, atol=1e-12)


def test_auto_shrinks_more_when_samples_are_few(rng):
    X = rng.normal(size=(400, 20)) * np.linspace(0.5, 2.0, 20)
    y = rng.randint(2, size=400)
    few, many = WeightedLDA("auto").fit(X[:40], y[:40]), WeightedLDA("auto").fit(X, y)
    assert 0 < many.shrinkage_ < few.shrinkage_ <= 1


def test_float32_stays_float32(data):
    X, y = data
    model = WeightedLDA().fit(X.astype(np.float32), y)
    assert model.coef_.dtype == np.float32
    assert model.predict_proba(X.astype(np.float32)).dtype == np.float32
    assert_allclose(model.coef_, WeightedLDA().fit(X, y).coef_, rtol=1e-3, atol=1e-3)


def test_log_probabilities_do_not_underflow(data):
    X, y = data
    log_proba = WeightedLDA().fit(X, y).predict_log_proba(1e6 * X)
    assert np.isfinite(log_proba).all()
    assert log_proba.min() < -1e4


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library):
    frames = pytest.importorskip(library)
    X, y = load_iris(return_X_y=True)
    names = ["a", "b", "c", "d"]
    frame = frames.DataFrame(dict(zip(names, X.T, strict=True)))
    model = WeightedLDA().fit(frame, y)
    assert_array_equal(model.feature_names_in_, names)
    assert_array_equal(model.predict(frame), WeightedLDA().fit(X, y).predict(X))


def test_pickle_round_trip(data):
    X, y = data
    model = WeightedLDA(0.1).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert_array_equal(again.partial_fit(X, y).priors_, model.priors_)


def test_errors_name_the_remedy(data):
    X, y = data
    with pytest.raises(ValueError, match="first partial_fit needs all labels"):
        WeightedLDA().partial_fit(X, y)
    with pytest.raises(AttributeError, match="partial_fit") as caught:
        WeightedLDA("auto").partial_fit(X, y, classes=np.unique(y))
    assert "use fit" in str(caught.value.__cause__)
    with pytest.raises(ValueError, match="label 'cow' is not among classes"):
        WeightedLDA().fit(X, y).partial_fit(X[:2], np.array(["ape", "cow"]))
    with pytest.raises(ValueError, match="differ from classes_="):
        WeightedLDA().fit(X, y).partial_fit(X, y, classes=["ape", "cow"])
    with pytest.raises(ValueError, match="at least two are needed"):
        WeightedLDA().partial_fit(X, y, classes=["ape"])
    with pytest.raises(ValueError, match="that sum to 1"):
        WeightedLDA(priors=[0.5, 0.2, 0.1, 0.1]).fit(X, y)
    with pytest.raises(ValueError, match="'shrinkage' parameter"):
        WeightedLDA(1.5).fit(X, y)
    with pytest.raises(ValueError, match="negative values"):
        WeightedLDA().fit(X, y, sample_weight=-np.ones(len(y)))
    with pytest.raises(TypeError, match="dense data is required"):
        WeightedLDA().fit(sparse.csr_array(X), y)


def test_failed_partial_fit_changes_nothing(data):
    X, y = data
    model = WeightedLDA().fit(X, y)
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.full_like(X, np.nan), y)
    assert_array_equal(model.coef_, before)
