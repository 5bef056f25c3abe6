import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine, make_moons
from sklearn.preprocessing import StandardScaler

from vicinal._base import as_numpy
from vicinal.uncertainty import uncertainty_map


def direct_map(X, y, counts, sigma):
    """The definition, row by row."""
    u = np.empty(len(X))
    for i in range(len(X)):
        d2 = np.sum((X - X[i]) ** 2, axis=1)
        others = np.delete(np.arange(len(X)), i)
        reach = np.sort(d2[others])[min(counts[i], len(others)) - 1]
        near = others[d2[others] <= reach]
        s = np.exp(-d2[near] / sigma**2)
        u[i] = s[y[near] != y[i]].sum() / s.sum()
    return u


@pytest.fixture(scope="module")
def moons():
    return make_moons(120, noise=0.3, random_state=0)


def test_three_points_by_hand():
    X, y = np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 1])
    e = np.exp
    expected = [e(-9) / (e(-1) + e(-9)), e(-4) / (e(-1) + e(-4)), 1.0]
    assert_allclose(uncertainty_map(X, y, n_neighbors=None, bandwidth=1.0), expected, rtol=1e-12)


@pytest.mark.parametrize("n_neighbors", ["class", 5, None, 10_000])
def test_equals_the_definition(moons, n_neighbors):
    X, y = moons
    counts = {"class": np.bincount(y)[y], None: np.full(len(y), len(y))}.get(
        n_neighbors, np.full(len(y), n_neighbors if isinstance(n_neighbors, int) else 0)
    )
    got = uncertainty_map(X, y, n_neighbors=n_neighbors, bandwidth=0.3)
    assert_allclose(got, direct_map(X, y, counts, 0.3), rtol=1e-10)


def test_automatic_bandwidth_is_the_mean_square_to_the_seventh_neighbour(moons):
    X, y = moons
    d2 = np.sum((X[:, None] - X[None]) ** 2, axis=2)
    sigma = np.sqrt(np.mean(np.sort(d2, axis=1)[:, 7]))
    assert_allclose(uncertainty_map(X, y), uncertainty_map(X, y, bandwidth=sigma), rtol=1e-9)


def test_neighbours_tied_with_the_last_one_are_kept():
    # Four neighbours at distance one, two of each class: any choice of two would be unfair.
    X = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], float)
    y = np.array([0, 0, 1, 0, 1])
    assert_allclose(uncertainty_map(X, y, n_neighbors=2, bandwidth=1.0)[0], 0.5, rtol=1e-12)
    assert_allclose(uncertainty_map(X + 0.1, y, n_neighbors=2, bandwidth=1.0)[0], 0.5, rtol=1e-9)


@pytest.mark.parametrize("n_neighbors", [1, 5])
@pytest.mark.parametrize("bandwidth", ["auto", 0.2, 1e-160])
def test_searching_for_neighbours_equals_comparing_all_pairs(
    moons, n_neighbors, bandwidth, rng, monkeypatch
):
    X, y = moons
    weights = rng.randint(0, 4, len(X)).astype(float)
    options = {"n_neighbors": n_neighbors, "bandwidth": bandwidth, "sample_weight": weights}
    searched = uncertainty_map(X, y, **options)
    monkeypatch.setattr("vicinal.uncertainty._uncertainty_map._SEARCHED_SHARE", 0.0)
    assert_allclose(searched, uncertainty_map(X, y, **options), rtol=1e-9, atol=1e-12)


def test_ties_are_kept_by_the_search_too(rng):
    # Points of a lattice off the origin: each inner one has four neighbours at the same distance.
    X = 0.1 + np.stack(np.meshgrid(np.arange(12.0), np.arange(12.0)), axis=2).reshape(-1, 2) / 3
    y = rng.randint(0, 2, len(X))
    counts = np.full(len(X), 3)
    inner = np.all((X > 0.2) & (X < 3.6), axis=1)
    assert_allclose(
        uncertainty_map(X, y, n_neighbors=3, bandwidth=1.0)[inner],
        direct_map(X, y, counts + 1, 1.0)[inner],
        rtol=1e-9,
    )


def test_tiny_bandwidth_uses_the_nearest_neighbour(moons):
    X, y = moons
    d2 = np.sum((X[:, None] - X[None]) ** 2, axis=2)
    np.fill_diagonal(d2, np.inf)
    foreign = y[d2.argmin(axis=1)] != y
    assert_array_equal(uncertainty_map(X, y, bandwidth=1e-160), foreign.astype(float))


def test_all_copies_are_finite():
    X, y = np.ones((20, 2)), np.repeat([0, 1], 10)
    assert_allclose(uncertainty_map(X, y, n_neighbors=None), 10 / 19, rtol=1e-12)


def test_a_class_of_one_row_is_fully_uncertain(moons):
    X, y = moons
    assert uncertainty_map(np.vstack([X, [[0.0, 0.0]]]), np.r_[y, 2])[-1] == 1.0


def test_one_class_only_is_certain(moons):
    assert_array_equal(uncertainty_map(moons[0], np.zeros(120, int)), 0.0)


def test_row_of_weight_zero_is_nobodys_neighbour(moons):
    X, y = moons
    weights = np.where(np.arange(len(X)) % 4 == 0, 0.0, 1.0)
    kept = weights > 0
    got = uncertainty_map(X, y, sample_weight=weights)
    assert_allclose(got[kept], uncertainty_map(X[kept], y[kept]), rtol=1e-10)
    assert np.isfinite(got).all()


def test_weights_need_no_scale(moons, rng):
    X, y = moons
    weights = rng.uniform(0.5, 2.0, len(X))
    assert_allclose(
        uncertainty_map(X, y, sample_weight=weights),
        uncertainty_map(X, y, sample_weight=7 * weights),
        rtol=1e-10,
    )


def test_does_not_depend_on_blocks_or_jobs_or_order(moons, rng):
    X, y = moons
    whole = uncertainty_map(X, y, n_jobs=1)
    with sklearn.config_context(working_memory=0.005):
        assert_allclose(uncertainty_map(X, y, n_jobs=2), whole, rtol=1e-12)
    order = rng.permutation(len(X))
    assert_allclose(uncertainty_map(X[order], y[order]), whole[order], rtol=1e-10)


def test_labels_may_be_strings_and_rows_single_precision(moons):
    X, y = moons
    u = uncertainty_map(X.astype(np.float32), np.array(["b", "a"])[y])
    assert u.dtype == np.float32
    assert_allclose(u, uncertainty_map(X, y), rtol=1e-4, atol=1e-5)


def test_other_array_libraries_give_the_same_where_they_are(moons, to_array):
    X, y = moons
    arrays = to_array(X)
    for n_neighbors in ("class", 5, None):
        u = uncertainty_map(arrays, y, n_neighbors=n_neighbors)
        assert type(u) is type(arrays)
        assert_allclose(as_numpy(u), uncertainty_map(X, y, n_neighbors=n_neighbors), rtol=1e-10)


def test_is_high_on_the_border_and_low_inside():
    X, y = load_wine(return_X_y=True)
    u = uncertainty_map(StandardScaler().fit_transform(X), y)
    assert u.min() >= 0
    assert u.max() <= 1
    assert u[y == 1].mean() > u[y == 2].mean()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"bandwidth": -1.0}, "bandwidth"),
        ({"sample_weight": [-1.0] * 120}, "negative"),
    ],
)
def test_bad_parameters_are_named(moons, change, message):
    with pytest.raises(ValueError, match=message):
        uncertainty_map(*moons, **change)


def test_bad_data_are_refused(moons):
    X, y = moons
    with pytest.raises(ValueError, match="NaN"):
        uncertainty_map(np.where(X == X[0, 0], np.nan, X), y)
    with pytest.raises(ValueError, match="inconsistent"):
        uncertainty_map(X, y[:-1])
    with pytest.raises(ValueError, match="Unknown label type"):
        uncertainty_map(X, X[:, 0])
