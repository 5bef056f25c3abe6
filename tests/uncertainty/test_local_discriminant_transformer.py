import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import eigh
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from vicinal._base import as_numpy
from vicinal._kernels.metric._mixture import gated_features
from vicinal.uncertainty import LocalDiscriminantTransformer

REGION_METHODS = ["uncertainty", "density", "kmeans"]


@pytest.fixture(scope="module")
def corners():
    """Two classes in opposite corners; no line parts them."""
    rng = np.random.RandomState(0)
    centers = np.array([[2, 2], [-2, -2], [2, -2], [-2, 2]])
    X = np.repeat(centers, 150, axis=0) + 1.2 * rng.normal(size=(600, 2))
    return X, np.repeat([0, 0, 1, 1], 150)


def one_dimensional_error(transformer, X, y):
    z = transformer.fit_transform(X, y)
    return 1 - LinearDiscriminantAnalysis().fit(z, y).score(z, y)


def test_uncertainty_puts_components_where_they_separate_the_classes(corners):
    errors = {
        region_method: one_dimensional_error(
            LocalDiscriminantTransformer(region_method=region_method, random_state=0), *corners
        )
        for region_method in REGION_METHODS
    }
    assert errors["uncertainty"] < 0.12
    assert errors["density"] > 0.3
    assert errors["kmeans"] > 0.3


@pytest.mark.parametrize("region_method", REGION_METHODS)
def test_an_offset_lets_every_region_method_separate_the_classes(corners, region_method):
    transformer = LocalDiscriminantTransformer(
        region_method=region_method, offset=True, random_state=0
    )
    assert one_dimensional_error(transformer, *corners) < 0.12


def test_one_component_is_linear_discriminant_analysis(three_classes):
    X, y = three_classes
    ours = LocalDiscriminantTransformer(n_regions=1, shrinkage=0.0).fit_transform(X, y)
    theirs = LinearDiscriminantAnalysis().fit_transform(X, y)
    assert ours.shape == theirs.shape == (150, 2)
    for j in range(2):
        assert abs(np.corrcoef(ours[:, j], theirs[:, j])[0, 1]) > 1 - 1e-10


@pytest.mark.parametrize("offset", [False, True])
def test_outputs_solve_fishers_problem(three_classes, offset):
    X, y = three_classes
    model = LocalDiscriminantTransformer(n_regions=3, offset=offset, shrinkage=0.0, random_state=0)
    z = model.fit_transform(X, y)
    shares = model.mixture_.predict_proba(X)
    F = gated_features(X, shares, model.centers_, offset=offset)
    means = np.stack([F[y == c].mean(axis=0) for c in range(3)])
    within = (F - means[y]).T @ (F - means[y]) / len(X)
    within += 1e-10 * np.trace(within) / len(within) * np.eye(len(within))
    spread = means[y] - F.mean(axis=0)
    values = eigh(spread.T @ spread / len(X), within, eigvals_only=True)[::-1]
    assert_allclose(model.discriminability_, values[:2], rtol=1e-6)
    z_means = np.stack([z[y == c].mean(axis=0) for c in range(3)])
    assert_allclose((z - z_means[y]).T @ (z - z_means[y]) / len(X), np.eye(2), atol=1e-6)


def test_projections_and_offsets_give_the_output(three_classes):
    X, y = three_classes
    model = LocalDiscriminantTransformer(n_regions=3, offset=True, random_state=0).fit(X, y)
    shares = model.mixture_.predict_proba(X)
    local = np.einsum("jkf,nkf->njk", model.projections_, X[:, None] - model.centers_[None])
    expected = np.einsum("nk,njk->nj", shares, local + model.offsets_[None])
    assert_allclose(model.transform(X), expected, rtol=1e-9, atol=1e-10)


def test_kmeans_regions_are_hard(three_classes):
    X, y = three_classes
    model = LocalDiscriminantTransformer(n_regions=3, region_method="kmeans", random_state=0).fit(
        X, y
    )
    nearest = ((X[:, None] - model.centers_[None]) ** 2).sum(axis=2).argmin(axis=1)
    expected = np.einsum("njf,nf->nj", model.projections_[:, nearest].transpose(1, 0, 2), X)
    expected -= np.einsum(
        "njf,nf->nj", model.projections_[:, nearest].transpose(1, 0, 2), model.centers_[nearest]
    )
    assert_allclose(model.transform(X), expected, rtol=1e-9, atol=1e-10)
    assert model.mixture_ is None


def test_weights_equal_repetition_where_nothing_is_sampled(three_classes, rng):
    X, y = three_classes
    times = rng.randint(0, 3, len(X))
    weighted = LocalDiscriminantTransformer(n_regions=1, region_method="density")
    weighted.fit(X, y, sample_weight=times)
    repeated = LocalDiscriminantTransformer(n_regions=1, region_method="density")
    repeated.fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_allclose(weighted.transform(X), repeated.transform(X), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("region_method", REGION_METHODS)
def test_other_array_libraries_give_the_same_where_they_are(three_classes, region_method, to_array):
    X, y = three_classes
    model = LocalDiscriminantTransformer(n_regions=2, region_method=region_method, random_state=0)
    z = model.fit_transform(X, y)
    other = model.fit(to_array(X), y).transform(to_array(X))
    assert type(other) is type(to_array(X))
    assert_allclose(as_numpy(other), z, rtol=1e-6, atol=1e-8)


def test_names_of_outputs(three_classes):
    X, y = three_classes
    model = LocalDiscriminantTransformer(n_regions=2, random_state=0).fit(X, y)
    assert model.get_feature_names_out().tolist() == [
        "localdiscriminanttransformer0",
        "localdiscriminanttransformer1",
    ]


def test_impossible_sizes_are_named(three_classes):
    X, y = three_classes
    with pytest.raises(ValueError, match="n_components=3 exceeds 2"):
        LocalDiscriminantTransformer(3).fit(X, y)
    with pytest.raises(ValueError, match="n_regions=200 exceeds the 150"):
        LocalDiscriminantTransformer(n_regions=200).fit(X, y)
