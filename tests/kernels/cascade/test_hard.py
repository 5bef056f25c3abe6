import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import Ridge

from vicinal._kernels.cascade._hard import (
    assign_kmeans,
    chain_loss,
    gate_problem,
    linear_errors,
    ridge_of_sums,
    ridge_sums,
    route,
    weighted_ridge,
)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_errors_equal_those_of_the_arg_max_and_ties_go_to_the_first_class(rng, make):
    X = rng.normal(size=(5000, 3))
    X[::7] = 0.0  # all scores of a region are then its intercepts: ties
    coefs, intercepts = rng.normal(size=(2, 4, 3)), np.array([[0, 0, 0, 0], [1.0, 2, 2, -np.inf]])
    codes = rng.randint(4, size=5000)
    scores = np.einsum("nd,rcd->rnc", X, coefs) + intercepts[:, None, :]
    expected = scores.argmax(axis=2) != codes
    assert_array_equal(linear_errors(make(X), coefs, intercepts, codes), expected)


def test_route_takes_the_first_stage_that_keeps_a_sample():
    passed_on = np.array([[0, 1, 1, 1, 0], [1, 0, 1, 1, 1]], dtype=bool)
    assert_array_equal(route(passed_on, 5), [0, 1, 2, 2, 0])
    assert_array_equal(route(np.empty((0, 3), dtype=bool), 3), [0, 0, 0])


def test_gate_problem_by_hand():
    # Rows: stay right / pass right / both wrong / both right / not reached.
    own = np.array([0, 1, 1, 0, 1], dtype=bool)
    later = np.array([1, 0, 1, 0, 0], dtype=bool)
    reached = np.array([1, 1, 1, 1, 0], dtype=bool)
    rows, labels, weights = gate_problem(own, later, reached, np.array([1.0, 3, 1, 1, 1]))
    assert_array_equal(rows, [0, 1])
    assert_array_equal(labels, [0, 1])
    assert_allclose(weights, [1.0, 3.0])


def test_gate_problem_of_squared_errors_does_not_depend_on_the_unit(rng):
    own, later = rng.uniform(size=(2, 20))
    problem = gate_problem(own, later, np.ones(20, bool), np.ones(20))
    scaled = gate_problem(1e6 * own, 1e6 * later, np.ones(20, bool), np.ones(20))
    for a, b in zip(problem, scaled, strict=True):
        assert_allclose(a, b)
    assert_allclose(problem[2].sum(), 20)


@pytest.mark.parametrize("n_regions", [2, 3, 5])
def test_lemma_cost_of_any_gate_is_its_weighted_error_plus_a_constant(rng, n_regions):
    """Equation (7): over all decisions of gate k the chain loss is the gate's cost plus a constant.

    The reference evaluates the recursion (4) sample by sample.
    """
    n = 200
    losses = rng.randint(2, size=(n_regions, n)).astype(bool)
    passed_on = rng.randint(2, size=(n_regions - 1, n)).astype(bool)

    def chain(passed_on, k=0):
        if k == n_regions - 1:
            return losses[k]
        return np.where(passed_on[k], chain(passed_on, k + 1), losses[k])

    region = route(passed_on, n)
    assert_array_equal(chain_loss(losses, region), chain(passed_on))
    for k in range(n_regions - 1):
        rows, labels, weights = gate_problem(
            losses[k], chain(passed_on, k + 1), region >= k, np.ones(n)
        )
        constants = []
        for _ in range(5):
            other = passed_on.copy()
            other[k] = rng.randint(2, size=n)
            constants.append(chain(other).sum() - weights @ (other[k][rows] != labels))
        assert_allclose(constants, constants[0])


def test_weighted_ridge_equals_scikit_learn(rng):
    X, y, w = rng.normal(size=(60, 4)), rng.normal(size=60), rng.uniform(size=60)
    rows = np.arange(10, 50)
    coef, intercept = weighted_ridge(X, y, w, rows, 0.7)
    expected = Ridge(alpha=0.7).fit(X[rows], y[rows], sample_weight=w[rows])
    assert_allclose(coef, expected.coef_, rtol=1e-9)
    assert_allclose(intercept, expected.intercept_, rtol=1e-9)


def test_sums_about_other_shifts_give_the_same_ridge(rng):
    X, y, w = rng.normal(size=(60, 4)) + 1.0, rng.normal(size=60) - 2.0, rng.uniform(size=60)
    expected = Ridge(alpha=0.7).fit(X, y, sample_weight=w)
    shifts = np.full(4, 0.5), 3.0
    halves = [ridge_sums(X[h], y[h], w[h], *shifts) for h in (slice(0, 25), slice(25, None))]
    sums = tuple(a + b for a, b in zip(*halves, strict=True))
    coef, intercept = ridge_of_sums(sums, *shifts, 0.7)
    assert_allclose(coef, expected.coef_, rtol=1e-9)
    assert_allclose(intercept, expected.intercept_, rtol=1e-9)


# --- first assignments ---


def test_kmeans_finds_separate_clusters():
    rng = np.random.RandomState(3)
    centers = np.array([[0.0, 0], [20, 0], [0, 20]])
    X = np.vstack([c + rng.normal(size=(50, 2)) for c in centers])
    found = set()
    for seed in range(10):
        region = assign_kmeans(X, np.ones(150), 3, np.random.RandomState(seed))
        found.add(len(np.unique(region)))
        spread = sum(X[region == k].var(axis=0).sum() * (region == k).sum() for k in range(3))
        if spread < 500:
            return
    raise AssertionError("no start of ten found the three clusters")


def test_starts_do_not_depend_on_order_or_repetition_of_rows():
    rng = np.random.RandomState(0)
    X, times = rng.normal(size=(80, 3)), rng.randint(1, 4, size=80)
    order = rng.permutation(80)
    for seed in range(5):
        region = assign_kmeans(X, times.astype(float), 3, np.random.RandomState(seed))
        shuffled = assign_kmeans(
            X[order], times[order].astype(float), 3, np.random.RandomState(seed)
        )
        repeated = assign_kmeans(
            np.repeat(X, times, axis=0), np.ones(times.sum()), 3, np.random.RandomState(seed)
        )
        assert_array_equal(shuffled, region[order])
        assert_array_equal(repeated, np.repeat(region, times))


def test_sparse_rows_start_as_dense_ones():
    X = np.random.RandomState(0).normal(size=(60, 4))
    dense = assign_kmeans(X, np.ones(60), 3, np.random.RandomState(1))
    assert_array_equal(
        assign_kmeans(sparse.csr_array(X), np.ones(60), 3, np.random.RandomState(1)), dense
    )
