import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from vicinal._base import as_numpy
from vicinal._kernels.metric._mixture import Components
from vicinal.uncertainty import ResponsibilityMixture, uncertainty_map
from vicinal.uncertainty._responsibility_mixture import best_mixture

TYPES = ["full", "tied", "diag", "spherical"]


@pytest.fixture(scope="module")
def blobs():
    X, _ = make_blobs(240, n_features=3, centers=3, cluster_std=1.5, random_state=0)
    return X + 100.0  # far from the origin, where careless moments lose their digits


def long_run(n_components=3, **options):
    settings = {"tol": 1e-13, "max_iter": 2000, **options}
    return ResponsibilityMixture(n_components, **settings)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_unit_weights_reach_the_solution_of_scikit_learn(blobs, covariance_type):
    means = blobs[[0, 80, 160]]
    ours = long_run(covariance_type=covariance_type, reg_covar=0.0, means_init=means).fit(blobs)
    labels = ((blobs[:, None] - means[None]) ** 2).sum(axis=2).argmin(axis=1)
    parts = [blobs[labels == k] for k in range(3)]
    scatters = np.stack([len(p) * np.cov(p.T, bias=True) for p in parts])
    counts = np.array([len(p) for p in parts])
    covariances = scatters / counts[:, None, None]
    precisions = {
        "full": np.linalg.inv(covariances),
        "tied": np.linalg.inv(scatters.sum(axis=0) / len(blobs)),
        "diag": 1 / np.stack([np.diag(c) for c in covariances]),
        "spherical": 1 / np.array([np.diag(c).mean() for c in covariances]),
    }[covariance_type]
    theirs = GaussianMixture(
        3,
        covariance_type=covariance_type,
        reg_covar=0.0,
        tol=1e-13,
        max_iter=2000,
        weights_init=counts / len(blobs),
        means_init=np.stack([p.mean(axis=0) for p in parts]),
        precisions_init=precisions,
    ).fit(blobs)
    assert_allclose(ours.means_, theirs.means_, rtol=1e-6)
    assert_allclose(ours.weights_, theirs.weights_, rtol=1e-6)
    assert_allclose(ours.covariances_, theirs.covariances_, rtol=1e-6, atol=1e-6)
    assert_allclose(ours.score_samples(blobs), theirs.score_samples(blobs), rtol=1e-6)
    assert_allclose(ours.predict_proba(blobs), theirs.predict_proba(blobs), atol=1e-6)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_integer_weights_equal_repeated_rows(blobs, covariance_type, rng):
    times = rng.randint(0, 4, len(blobs))
    settings = {"covariance_type": covariance_type, "means_init": blobs[[0, 80, 160]]}
    weighted = long_run(**settings).fit(blobs, sample_weight=times)
    repeated = long_run(**settings).fit(np.repeat(blobs, times, axis=0))
    assert_allclose(weighted.means_, repeated.means_, rtol=1e-10)
    assert_allclose(weighted.weights_, repeated.weights_, rtol=1e-8)
    assert_allclose(weighted.covariances_, repeated.covariances_, rtol=1e-8, atol=1e-8)


def test_zero_weights_equal_removed_rows_from_the_same_seed(blobs):
    weights = np.where(np.arange(len(blobs)) % 3 == 0, 0.0, 1.5)
    kept = weights > 0
    whole = ResponsibilityMixture(3, random_state=0).fit(blobs, sample_weight=weights)
    part = ResponsibilityMixture(3, random_state=0).fit(blobs[kept], sample_weight=weights[kept])
    assert_array_equal(whole.means_, part.means_)


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("reg_covar", [1e-6, 1e-2, 1.0])
def test_penalised_objective_never_falls(covariance_type, reg_covar, rng):
    X = rng.normal(size=(60, 4)) * [1, 2, 5, 0.1]
    mixture = long_run(5, covariance_type=covariance_type, reg_covar=reg_covar, random_state=0)
    path = mixture.fit(X, sample_weight=rng.uniform(size=60)).lower_bounds_
    assert len(path) > 3
    assert np.diff(path).min() > -1e-10


def test_objective_is_the_penalised_weighted_likelihood(blobs, rng):
    weights = rng.uniform(0.5, 2.0, len(blobs))
    mixture = long_run(covariance_type="full", reg_covar=0.05, random_state=0)
    mixture.fit(blobs, sample_weight=weights)
    density = sum(
        w * multivariate_normal(m, S).pdf(blobs)
        for w, m, S in zip(mixture.weights_, mixture.means_, mixture.covariances_, strict=True)
    )
    centred = blobs - np.average(blobs, axis=0, weights=weights)
    variance = np.average(centred**2, axis=0, weights=weights).mean()
    penalty = (
        0.05 * variance / 3 / 2 * sum(np.trace(np.linalg.inv(S)) for S in mixture.covariances_)
    )
    expected = weights @ np.log(density) / weights.sum() - penalty
    assert_allclose(mixture.lower_bounds_[-1], expected, rtol=1e-9)


def test_weights_all_zero_warn_and_stay_finite(blobs):
    with pytest.warns(UserWarning, match="weight zero"):
        mixture = ResponsibilityMixture(2, random_state=0).fit(
            blobs, sample_weight=np.zeros(len(blobs))
        )
    plain = ResponsibilityMixture(2, random_state=0).fit(blobs)
    assert_array_equal(mixture.means_, plain.means_)


def test_labels_weigh_rows_by_their_uncertainty(three_classes):
    X, y = three_classes
    by_labels = ResponsibilityMixture(3, random_state=0).fit(X, y)
    by_weights = ResponsibilityMixture(3, random_state=0).fit(
        X, sample_weight=uncertainty_map(X, y)
    )
    assert_allclose(by_labels.sample_weight_, uncertainty_map(X, y))
    assert_array_equal(by_labels.means_, by_weights.means_)


def test_components_lie_on_the_border(rng):
    X = rng.normal(size=(600, 2)) + np.repeat([[2.0, 0.0], [-2.0, 0.0]], 300, axis=0)
    y = np.repeat([0, 1], 300)
    border = ResponsibilityMixture(1, random_state=0).fit(X, y)
    density = ResponsibilityMixture(2, random_state=0).fit(X)
    assert abs(border.means_[0, 0]) < 0.3
    assert (np.abs(density.means_[:, 0]) > 1.5).all()


@pytest.mark.parametrize("covariance_type", TYPES)
def test_far_queries_are_one_hot_not_nan(blobs, covariance_type):
    mixture = ResponsibilityMixture(3, covariance_type=covariance_type, random_state=0).fit(blobs)
    shares = mixture.predict_proba(np.array([[1e6, -1e6, 1e6]]))
    assert_allclose(np.sort(shares[0]), [0, 0, 1], atol=1e-12)
    assert mixture.score_samples(np.array([[1e6, -1e6, 1e6]]))[0] < -1e6


@pytest.mark.parametrize("covariance_type", TYPES)
def test_other_array_libraries_give_the_same_where_they_are(blobs, covariance_type, to_array, rng):
    weights = rng.uniform(size=len(blobs))
    settings = {"covariance_type": covariance_type, "means_init": blobs[[0, 80, 160]]}
    numpy = long_run(**settings).fit(blobs, sample_weight=weights)
    arrays = to_array(blobs)
    other = long_run(**settings).fit(arrays, sample_weight=to_array(weights))
    assert type(other.means_) is type(arrays)
    assert_allclose(as_numpy(other.means_), numpy.means_, rtol=1e-8)
    assert type(other.predict_proba(arrays)) is type(arrays)
    assert_allclose(as_numpy(other.predict_proba(arrays)), numpy.predict_proba(blobs), atol=1e-7)


def test_mixed_libraries_are_refused(blobs, to_array):
    mixture = ResponsibilityMixture(2, random_state=0).fit(blobs)
    with pytest.raises(TypeError, match="convert X"):
        mixture.predict(to_array(blobs))


def test_fewer_distinct_rows_than_components_stay_finite():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0)
    mixture = ResponsibilityMixture(4, random_state=0).fit(X)
    assert np.isfinite(mixture.means_).all()
    assert_allclose(mixture.predict_proba(X).sum(axis=1), 1.0)


def test_a_collapse_without_penalty_names_the_remedy():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0)
    with pytest.raises(ValueError, match="reg_covar"):
        ResponsibilityMixture(2, covariance_type="full", reg_covar=0.0, random_state=0).fit(X)


def test_too_few_steps_warn(blobs):
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        ResponsibilityMixture(3, max_iter=1, tol=0.0, random_state=0).fit(blobs)


def test_more_components_than_rows_is_an_error(blobs):
    with pytest.raises(ValueError, match="n_components=9 exceeds the 5 rows"):
        ResponsibilityMixture(9).fit(blobs[:5])
    with pytest.raises(ValueError, match="means_init has shape"):
        ResponsibilityMixture(2, means_init=np.zeros((3, 3))).fit(blobs)


@pytest.mark.parametrize(("gain", "chosen"), [(1e-12, 0), (-1e-12, 0), (1e-6, 1), (-1e-6, 0)])
def test_rounding_does_not_choose_among_starts_that_meet(gain, chosen):
    ends = [
        (
            Components(np.ones(1), np.full((1, 2), position), np.eye(2), np.eye(2)),
            [-5.0, bound],
            True,
        )
        for position, bound in enumerate((-4.0, -4.0 + gain))
    ]
    assert_array_equal(best_mixture(ends, np.zeros(2))[0].means, np.full((1, 2), chosen))
