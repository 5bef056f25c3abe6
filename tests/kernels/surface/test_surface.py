"""Numerical parts of the decision surfaces, on surfaces known in closed form."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification
from sklearn.tree import DecisionTreeClassifier

from vicinal._kernels.calibration._probabilities import fit_platt, fit_saturated_platt
from vicinal._kernels.surface import _nearest_point
from vicinal._kernels.surface._closed_forms import (
    kernel_classifier,
    leaf_boxes,
    nearest_in_boxes,
    perceptron_layers,
)
from vicinal._kernels.surface._nearest_point import (
    bisect,
    contract,
    label_normals,
    mixed_distance,
    nearest_points,
)
from vicinal._kernels.surface._roots import (
    CONVERGED,
    NO_CROSSING,
    NO_SURFACE,
    ON_SURFACE,
    march,
    norms,
    project,
    refine_roots,
)


def ellipse(Y, rows, gradient):
    """Score of the inside of the ellipse x^2 / 4 + y^2 = 1 (and its likes in more columns)."""
    axes = np.r_[2.0, np.ones(Y.shape[1] - 1)]
    value = 1.0 - ((Y / axes) ** 2).sum(axis=1)
    return value, -2.0 * Y / axes**2 if gradient else None


def step(Y, rows, gradient):
    """Score that jumps at x = 0.3 and is flat elsewhere."""
    value = np.where(Y[:, 0] < 0.3, 1.0, -1.0)
    return value, np.zeros_like(Y) if gradient else None


# --- roots ---


@pytest.mark.parametrize("slopes", [True, False])
def test_root_is_bracketed_and_exact(slopes):
    start, end = np.zeros((3, 2)), np.array([[5.0, 0.0], [0.0, 9.0], [1.0, 1.0]])
    f0, f1 = ellipse(start, None, False)[0], ellipse(end, None, False)[0]
    roots = refine_roots(ellipse, start, end, np.arange(3), f0, f1, tol=1e-9, slopes=slopes)
    expected = [[2.0, 0.0], [0.0, 1.0], [np.sqrt(0.8), np.sqrt(0.8)]]
    assert_allclose(roots.points, expected, atol=1e-8)
    assert (ellipse(roots.inner, None, False)[0] > 0).all()
    assert (ellipse(roots.outer, None, False)[0] <= 0).all()


def test_jump_is_closed_in_by_bisection():
    start, end = np.zeros((1, 2)), np.array([[1.0, 0.0]])
    roots = refine_roots(step, start, end, np.zeros(1, int), [1.0], [-1.0], tol=1e-7)
    assert_allclose(roots.inner[0, 0], 0.3, atol=1e-6)
    assert 0.0 < roots.outer[0, 0] - roots.inner[0, 0] <= 1e-7


def test_projection_meets_the_surface_from_inside_and_outside():
    def oriented(Y, rows, gradient):
        value, slope = ellipse(Y, rows, gradient)
        side = np.where(rows == 1, -1.0, 1.0)
        return side * value, None if slope is None else side[:, None] * slope

    Q = np.array([[0.5, 0.2], [3.0, 2.0], [2.0, 0.0]])
    roots, status = project(oriented, Q, Q, np.zeros(3, bool), step=1.0, tol=1e-8)
    assert_array_equal(status, [CONVERGED, CONVERGED, ON_SURFACE])
    assert_allclose(ellipse(roots.points, None, False)[0], 0.0, atol=1e-7)
    assert_array_equal(roots.points[2], Q[2])


def test_projection_without_a_gradient_takes_the_segment_or_says_so():
    Q, ends = np.zeros((2, 2)), np.array([[1.0, 0.0], [1.0, 0.0]])
    roots, status = project(step, Q, ends, np.array([True, False]), step=1.0, tol=1e-7)
    assert_array_equal(status, [CONVERGED, NO_SURFACE])
    assert_allclose(roots.points[0, 0], 0.3, atol=1e-6)


def test_ray_stops_at_the_first_crossing_and_reports_a_miss():
    def slab(Y, rows, gradient):
        value = np.abs(Y[:, 0] - 1.0) - 0.2
        slope = np.column_stack([np.sign(Y[:, 0] - 1.0), np.zeros(len(Y))])
        return value, slope if gradient else None

    Q, V = np.zeros((2, 2)), np.array([[1.0, 0.0], [0.0, 1.0]])
    roots, status = march(
        slab, Q, V, stride=lambda Y: np.full(len(Y), 0.5), t_max=np.full(2, 10.0), tol=1e-8
    )
    assert_array_equal(status, [CONVERGED, NO_CROSSING])
    assert_allclose(roots.points[0], [0.8, 0.0], atol=1e-7)


# --- nearest points ---


@pytest.mark.parametrize("d", [2, 60])
def test_nearest_point_satisfies_the_conditions_of_the_optimum(d):
    rng = np.random.RandomState(0)
    Q = 0.3 * rng.normal(size=(20, d)) / np.sqrt(d)
    starts = Q / np.sqrt(1.0 - ellipse(Q, None, False)[0])[:, None]
    feet = nearest_points(ellipse, Q, starts, np.arange(20), step=1.0, tol=1e-9)
    assert feet.converged.all()
    assert_allclose(ellipse(feet.points, None, False)[0], 0.0, atol=1e-8)
    offset, normal = feet.points - Q, feet.gradients
    cosine = (offset * normal).sum(axis=1) / norms(offset) / norms(normal)
    assert_allclose(np.abs(cosine), 1.0, atol=1e-12)


def test_nearest_point_of_an_ellipse_equals_a_dense_search():
    rng = np.random.RandomState(1)
    angle = np.linspace(0, 2 * np.pi, 200_001)
    curve = np.column_stack([2.0 * np.cos(angle), np.sin(angle)])
    Q = rng.uniform(-0.5, 0.5, size=(10, 2)) + np.array([0.0, 0.6])
    best = [curve[np.argmin(((curve - q) ** 2).sum(axis=1))] for q in Q]
    starts = np.array(best) + 0.2
    feet = nearest_points(ellipse, Q, starts, np.arange(10), step=1.0, tol=1e-8)
    assert_allclose(norms(feet.points - Q), norms(np.array(best) - Q), atol=1e-6)


# --- labels ---


def beyond(Y, rows):
    """Label of the half plane x + y > 1."""
    return Y.sum(axis=-1) > 1.0


def proposals(d, rng):
    normal, ball = rng.standard_normal((20, 12, d)), rng.uniform(-0.5, 0.5, size=(20, 2, d))
    return normal, rng.uniform(size=(20, 4, d)) < 0.3, ball


def test_several_halvings_in_one_call_change_nothing(rng, monkeypatch):
    inner, outer = rng.normal(size=(5, 3)), rng.normal(size=(5, 3)) + 3.0
    calls = []

    def flipped(Y, rows):
        calls.append(len(Y))
        return np.sin(7.0 * Y.sum(axis=1)) + rows > 1.0  # many borders on each segment

    few = bisect(flipped, inner, outer, np.arange(5), np.ones(3, dtype=bool))
    n_calls = len(calls)
    monkeypatch.setattr(_nearest_point, "_POINTS_PER_CALL", 1)
    many = bisect(flipped, inner, outer, np.arange(5), np.ones(3, dtype=bool))
    assert_array_equal(few, many)
    assert n_calls < 5
    assert len(calls) - n_calls == 20


def test_bisection_keeps_an_end_of_each_label():
    inner, outer = bisect(
        beyond, np.zeros((1, 2)), np.array([[3.0, 1.0]]), np.zeros(1, int), np.ones(2, bool)
    )
    assert not beyond(inner, None)[0]
    assert beyond(outer, None)[0]
    assert_allclose(outer, [[0.75, 0.25]], atol=1e-5)


def test_categories_are_not_interpolated():
    numeric = np.array([True, False])
    start, end = np.array([[0.0, 0.0]]), np.array([[3.0, 1.0]])
    _, outer = bisect(
        lambda Y, rows: (Y[:, 0] > 1.0) & (Y[:, 1] == 1.0), start, end, np.zeros(1, int), numeric
    )
    assert_allclose(outer, [[1.0, 1.0]], atol=1e-5)
    assert mixed_distance(np.array([[3.0, 5.0]]), start, numeric)[0] == pytest.approx(np.sqrt(10))


def test_contraction_finds_the_nearest_point_of_a_half_plane(rng):
    Q, best = np.zeros((1, 2)), np.array([[3.0, 0.1]])
    _, outer = contract(
        beyond, Q, best, np.zeros(1, int), np.ones(2, bool), proposals(2, rng),
        low=-np.inf, high=np.inf,
    )  # fmt: skip
    assert beyond(outer, None)[0]
    assert np.linalg.norm(outer) < 1.05 / np.sqrt(2.0)


def test_contraction_stays_within_bounds(rng):
    Q, best = np.zeros((1, 2)), np.array([[3.0, 0.1]])
    _, outer = contract(
        beyond, Q, best, np.zeros(1, int), np.ones(2, bool), proposals(2, rng),
        low=np.array([-np.inf, 0.0]), high=np.array([np.inf, 0.2]),
    )  # fmt: skip
    assert outer[0, 1] <= 0.2
    assert beyond(outer, None)[0]


def test_normal_from_labels(rng):
    offsets = rng.normal(size=(500, 2))
    offsets /= norms(offsets)[:, None]
    point = np.array([[0.5, 0.5]])
    normal = label_normals(beyond, point, np.zeros(1, int), 0.1, offsets)
    assert_allclose(normal, [[-np.sqrt(0.5), -np.sqrt(0.5)]], atol=0.1)


# --- trees ---


def test_leaf_boxes_cover_the_space_once_and_distances_are_exact():
    X, y = make_classification(200, 3, n_informative=3, n_redundant=0, random_state=0)
    tree = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, y).tree_
    parts = (tree.children_left, tree.children_right, tree.feature, tree.threshold)
    leaves, low, high = leaf_boxes(*parts, 3)
    inside = ((X[:, None] > low) & (X[:, None] <= high)).all(axis=2)
    assert_array_equal(inside.sum(axis=1), 1)
    assert_array_equal(leaves[inside.argmax(axis=1)], tree.apply(X.astype(np.float32)))
    allowed = np.zeros((len(X), len(leaves)), dtype=bool)
    allowed[:, 0] = True
    points, distances, choice = nearest_in_boxes(X, allowed, low, high, np.ones(3))
    assert_allclose(points, np.clip(X, low[0], high[0]))
    assert_allclose(distances, norms(points - X))
    assert_array_equal(choice, 0)


# --- scores ---


@pytest.mark.parametrize("kernel", ["rbf", "poly", "sigmoid", "linear"])
def test_gradient_of_kernel_machines(kernel, rng):
    V, dual, X = rng.normal(size=(6, 3)), rng.normal(size=6), rng.normal(size=(4, 3))
    rest = (V, dual, 0.3, kernel, 0.4, 0.5, 3)
    _, slope = kernel_classifier(X, *rest, True)
    for j in range(3):
        shift = 1e-6 * np.eye(3)[j]
        difference = kernel_classifier(X + shift, *rest, False)[0]
        difference = (difference - kernel_classifier(X - shift, *rest, False)[0]) / 2e-6
        assert_allclose(slope[:, j], difference, rtol=1e-6, atol=1e-8)
    assert kernel_classifier(X, *rest, False)[1] is None


@pytest.mark.parametrize("activation", ["identity", "logistic", "tanh", "relu"])
def test_gradient_of_neural_networks(activation, rng):
    sizes = [3, 5, 4, 2]
    weights = [rng.normal(size=s) for s in pairwise(sizes)]
    offsets = [rng.normal(size=s) for s in sizes[1:]]
    X = rng.normal(size=(4, 3))
    _, slope = perceptron_layers(X, weights, offsets, activation, True)
    assert slope.shape == (4, 2, 3)
    for j in range(3):
        shift = 1e-6 * np.eye(3)[j]
        up = perceptron_layers(X + shift, weights, offsets, activation, False)[0]
        down = perceptron_layers(X - shift, weights, offsets, activation, False)[0]
        assert_allclose(slope[:, :, j], (up - down) / 2e-6, rtol=1e-6, atol=1e-7)


# --- calibration ---


def test_platt_is_the_minimiser_of_its_loss(rng):
    scores = rng.normal(size=80)
    positive = scores + rng.normal(size=80) > 0
    A, B = fit_platt(scores, positive, c=2.0)
    n1, n0 = positive.sum(), (~positive).sum()
    t = np.where(positive, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))
    p = 1 / (1 + np.exp(-(A * scores + B)))
    assert (p - t).sum() == pytest.approx(0.0, abs=1e-7)
    assert ((p - t) * scores).sum() + A / 2.0 == pytest.approx(0.0, abs=1e-7)


def test_platt_counts_weights_as_rows(rng):
    scores, positive = rng.normal(size=20), rng.uniform(size=20) > 0.5
    weights = rng.randint(1, 4, size=20)
    expected = fit_platt(np.repeat(scores, weights), np.repeat(positive, weights))
    assert_allclose(fit_platt(scores, positive, weights.astype(float)), expected, atol=1e-8)


def test_platt_is_finite_for_separated_rows():
    A, B = fit_platt(np.array([-2.0, -1.0, 1.0, 2.0]), np.array([False, False, True, True]))
    assert 0.0 < A < 10.0
    assert abs(B) < 1e-6


def test_saturation_is_found_where_far_rows_are_no_more_certain(rng):
    scores = np.r_[rng.uniform(-1, 1, size=300), rng.choice([-30.0, 30.0], size=60)]
    chance = 0.5 + 0.4 * np.clip(scores, -1, 1)
    positive = rng.uniform(size=360) < chance
    limit, A, _ = fit_saturated_platt(scores, positive)
    assert limit <= 1.0
    assert A > 1.0
    plain, _ = fit_platt(scores, positive)
    assert A > 5 * plain
