import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.special import i0e, logsumexp
from scipy.stats import special_ortho_group
from sklearn.cluster import MeanShift
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

from vicinal._kernels.local._smoothing import left_out_log_density, local_moments
from vicinal.local import PrincipalSurface


def log_density(x, X, weights, h):
    return logsumexp(-((X - x) ** 2).sum(axis=1) / (2 * h * h), b=weights)


@pytest.fixture
def cloud():
    rng = np.random.RandomState(0)
    return rng.normal(size=(60, 3)) * [2.0, 1.0, 0.5], rng.uniform(0.5, 2, size=60)


@pytest.fixture(scope="module")
def ring():
    """A circle of radius 2 with noise across it, the same at every angle."""
    angle = np.linspace(0, 2 * np.pi, 240, endpoint=False)
    radii = 2.0 + 0.2 * np.array([-1.2, -0.5, 0.0, 0.5, 1.2])
    return np.concatenate([r * np.column_stack([np.cos(angle), np.sin(angle)]) for r in radii])


# --- derivatives ----------------------------------------------------------------------------------


def test_mean_shift_is_the_gradient(cloud):
    X, weights = cloud
    x, h, eps = np.array([0.3, -0.2, 0.1]), 0.8, 1e-5
    shift, _ = local_moments(x, X, weights, h)
    numeric = [
        (log_density(x + e, X, weights, h) - log_density(x - e, X, weights, h)) / (2 * eps)
        for e in eps * np.eye(3)
    ]
    assert_allclose(shift / h**2, numeric, rtol=1e-7)


def test_hessian_matches_differences_of_the_gradient(cloud):
    X, weights = cloud
    x, h, eps = np.array([0.3, -0.2, 0.1]), 0.8, 1e-5
    _, scatter = local_moments(x, X, weights, h)
    hessian = (scatter / h**2 - np.eye(3)) / h**2
    numeric = np.array(
        [
            (local_moments(x + e, X, weights, h)[0] - local_moments(x - e, X, weights, h)[0])
            / (2 * eps * h**2)
            for e in eps * np.eye(3)
        ]
    )
    assert_allclose(hessian, numeric, rtol=1e-6, atol=1e-8)
    # The same as the specification writes it: second moment, identity and s s'.
    offsets = X - x
    w = weights * np.exp(-(offsets**2).sum(axis=1) / (2 * h * h))
    w /= w.sum()
    s = w @ offsets
    direct = ((offsets.T * w) @ offsets / h**2 - np.eye(3) - np.outer(s, s) / h**2) / h**2
    assert_allclose(hessian, direct, rtol=1e-10)


def test_left_out_density_by_hand():
    X = np.array([[0.0], [1.0], [1.0], [3.0]])
    found = left_out_log_density(X, np.ones(4), np.arange(4), [2.0])[0]
    # The copy of a row leaves with it.
    expected = np.log(np.exp(-1 / 8) + np.exp(-4 / 8)) - np.log(2.0)
    assert_allclose(found[1], expected, rtol=1e-12)


# --- where rows end -------------------------------------------------------------------------------


def test_noisy_circle_lands_on_the_ridge_of_its_density(ring):
    h = 0.35
    landed = PrincipalSurface(bandwidth=h, tol=1e-9).fit_transform(ring)
    radius = np.hypot(*landed.T)
    assert np.ptp(radius) < 1e-3

    def profile(r):
        # The mean of a Gaussian kernel over a circle is a Bessel function.
        rho = 2.0 + 0.2 * np.array([-1.2, -0.5, 0.0, 0.5, 1.2])
        return -np.sum(i0e(r * rho / h**2) * np.exp(-((r - rho) ** 2) / (2 * h**2)))

    ridge = minimize_scalar(profile, bounds=(1.5, 2.5), method="bounded", options={"xatol": 1e-9}).x
    assert_allclose(radius, ridge, atol=1e-4)
    assert ridge < 2.0


def test_points_move_across_the_curve_only(ring):
    angle = np.array([0.1, 1.3, 2.9])
    starts = 2.4 * np.column_stack([np.cos(angle), np.sin(angle)])
    landed = PrincipalSurface(bandwidth=0.35).fit(ring).transform(starts)
    assert_allclose(np.arctan2(landed[:, 1], landed[:, 0]), angle, atol=1e-3)


def test_zero_components_are_the_modes_of_mean_shift():
    X, _ = make_blobs(150, centers=[[0, 0], [6, 0], [0, 6]], cluster_std=0.7, random_state=0)
    h = 0.8
    points = PrincipalSurface(0, bandwidth=h, tol=1e-9).fit_transform(X)
    expected = X.copy()
    for _ in range(500):
        w = np.exp(-((expected[:, None] - X[None]) ** 2).sum(axis=2) / (2 * h * h))
        expected = w @ X / w.sum(axis=1, keepdims=True)
    assert_allclose(points, expected, atol=1e-6)
    modes = np.unique(points.round(4), axis=0)
    flat = MeanShift(bandwidth=2 * h).fit(X).cluster_centers_
    assert len(modes) == len(flat) == 3
    distance = np.sqrt(((modes[:, None] - flat[None]) ** 2).sum(axis=2))
    assert distance.min(axis=1).max() < 0.3


def test_plane_in_space_keeps_two_directions():
    rng = np.random.RandomState(0)
    plane = rng.uniform(-2, 2, size=(800, 2))
    X = np.column_stack([plane, 0.15 * rng.normal(size=800)])
    inner = X[np.abs(plane).max(axis=1) < 1.2]
    landed = PrincipalSurface(2, bandwidth=0.5).fit(X).transform(inner)
    assert np.abs(landed[:, 2]).std() < 0.35 * inner[:, 2].std()
    assert_allclose(landed[:, :2], inner[:, :2], atol=0.1)


def test_rotation_and_shift_move_the_surface_along(ring):
    rng = np.random.RandomState(0)
    X = np.column_stack([ring[::10], 0.1 * rng.normal(size=120)])
    R, t = special_ortho_group.rvs(3, random_state=0), np.array([5.0, -3.0, 20.0])
    model = PrincipalSurface(bandwidth=0.5, tol=1e-10, max_iter=5000)
    assert_allclose(model.fit_transform(X @ R.T + t), model.fit_transform(X) @ R.T + t, atol=1e-9)


def test_projection_of_a_projection_stays(ring):
    model = PrincipalSurface(bandwidth=0.35, tol=1e-9).fit(ring)
    assert_allclose(model.transform(model.surface_), model.surface_, atol=1e-7)


def test_far_row_starts_at_its_nearest_sample(ring):
    model = PrincipalSurface(bandwidth=0.35).fit(ring)
    found = model.project([[500.0, 0.0]])
    assert found.converged[0]
    assert_allclose(found.points, model.transform([[2.24, 0.0]]), atol=1e-6)


# --- the estimator --------------------------------------------------------------------------------


def test_weights_equal_repetition(cloud):
    X, _ = cloud
    times = np.arange(len(X)) % 3
    queries = X[times == 0]
    weighted = PrincipalSurface(1).fit(X, sample_weight=times)
    repeated = PrincipalSurface(1).fit(np.repeat(X, times, axis=0))
    assert_allclose(weighted.bandwidth_, repeated.bandwidth_, rtol=1e-12)
    assert_allclose(weighted.transform(queries), repeated.transform(queries), atol=1e-9)
    assert weighted.surface_.shape == X.shape


@pytest.mark.statistical
def test_automatic_bandwidth_of_normal_data_is_that_of_its_hessian():
    X = np.random.RandomState(0).normal(size=(1500, 2))
    expected = (4 / (8 * 1500)) ** (1 / 10)
    assert_allclose(PrincipalSurface(max_iter=5000).fit(X).bandwidth_, expected, rtol=0.25)


def test_automatic_bandwidth_is_near_the_noise():
    rng = np.random.RandomState(0)
    t = rng.uniform(0, 10, size=600)
    X = np.column_stack([t, np.sin(t)]) + 0.2 * rng.normal(size=(600, 2))
    assert 0.1 < PrincipalSurface().fit(X).bandwidth_ < 0.5


def test_rows_that_do_not_converge_are_warned_of(ring):
    with pytest.warns(ConvergenceWarning, match="of 1200 rows did not reach the surface in 2"):
        model = PrincipalSurface(bandwidth=0.35, max_iter=2).fit(ring)
    assert not model.converged_.all()
    assert model.n_iter_ == 2
    found = model.project(ring[:5])
    assert_array_equal(found.n_iter[~found.converged], 2)


def test_bad_input_is_refused(ring):
    with pytest.raises(ValueError, match="n_components=2 must be below"):
        PrincipalSurface(2).fit(ring)
    with pytest.raises(ValueError, match="all rows are equal"):
        PrincipalSurface().fit(np.ones((5, 2)))
    with pytest.raises(ValueError, match="at least one non-zero"):
        PrincipalSurface(bandwidth=1.0).fit(ring, sample_weight=np.zeros(len(ring)))


def test_threads_do_not_change_the_result(ring):
    one = PrincipalSurface(bandwidth=0.35, n_jobs=1).fit_transform(ring)
    assert_array_equal(PrincipalSurface(bandwidth=0.35, n_jobs=2).fit_transform(ring), one)
