"""Tables in blocks of rows: passes over them, and models that use the protocol only."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from tests.base.memory_blocks import MemoryBlocks

from vicinal._base import TrainingData, join_blocks, row_uniforms, sample_rows, survey
from vicinal.partition import SpacePartitioningClassifier
from vicinal.subspace import (
    FeatureSpaceDecomposition,
    SubspaceFusionClassifier,
    TruncatedRBFClassifier,
)
from vicinal.uncertainty import ResponsibilityMixture


@pytest.fixture
def table(rng):
    X = rng.normal(size=(120, 3)) * [1.0, 5.0, 0.2] + [0.0, 100.0, 1.0]
    y = np.where(X[:, 0] + 0.2 * (X[:, 1] - 100) > 0, "up", "down")
    return X, y, rng.uniform(0.5, 2.0, size=120)


@pytest.mark.parametrize("size", [120, 50, 7])
def test_survey_has_the_moments_of_the_whole_table(table, size):
    X, y, weight = table
    _, found = survey(MemoryBlocks.of(X, y, weight, size=size), has_classes=True)
    mean = np.average(X, axis=0, weights=weight)
    assert found.n_rows == 120
    assert_allclose(found.moments.mean, mean, rtol=1e-13)
    variance = np.average((X - mean) ** 2, axis=0, weights=weight)
    assert_allclose(found.moments.variance, variance, rtol=1e-12)
    assert_array_equal(found.classes, ["down", "up"])
    assert_array_equal(found.class_rows, [(y == "down").sum(), (y == "up").sum()])
    assert_allclose(found.class_weights, [weight[y == c].sum() for c in ("down", "up")])


def test_moments_of_numbers_far_from_zero_do_not_cancel():
    X = 1e9 + np.arange(8.0)[:, None]
    _, found = survey(MemoryBlocks.of(X, size=3), has_classes=False)
    assert_allclose(found.moments.variance, [5.25], rtol=1e-12)
    assert not found.moments.constant[0]


def test_sparse_blocks_have_no_moments():
    blocks = MemoryBlocks([TrainingData(sparse.csr_array(np.eye(3)), sample_weight=np.ones(3))], 3)
    _, found = survey(blocks, has_classes=False)
    with pytest.raises(ValueError, match="sparse blocks"):
        _ = found.moments


@pytest.mark.parametrize(("y", "message"), [(["a"] * 4, "one class only"), ([], "no rows")])
def test_tables_without_classes_or_rows_are_refused(y, message):
    blocks = MemoryBlocks(
        [TrainingData(np.zeros((len(y), 1)), np.array(y), sample_weight=np.ones(len(y)))], 1
    )
    with pytest.raises(ValueError, match=message):
        survey(blocks, has_classes=True)


def test_random_numbers_of_a_row_do_not_depend_on_blocks():
    whole = row_uniforms(3, 0, 10_000)
    assert_array_equal(np.concatenate([row_uniforms(3, 0, 17), row_uniforms(3, 17, 9983)]), whole)
    assert whole.min() >= 0.0
    assert whole.max() < 1.0
    assert abs(whole.mean() - 0.5) < 0.01
    assert abs(np.corrcoef(whole, row_uniforms(4, 0, 10_000))[0, 1]) < 0.03


def test_samples_do_not_depend_on_blocks(table):
    X, y, weight = table
    sampled = []
    for size in (120, 13):
        blocks, found = survey(MemoryBlocks.of(X, y, weight, size=size), has_classes=True)
        sampled.append(sample_rows(blocks, found, 40, seed=1))
    assert_array_equal(sampled[0].X, sampled[1].X)
    assert 20 < len(sampled[0]) < 60


def test_sparse_blocks_are_joined_sparse():
    parts = [TrainingData(sparse.csr_array(np.eye(2)), sample_weight=np.ones(2))] * 2
    assert_array_equal(join_blocks(parts).X.toarray(), np.vstack([np.eye(2)] * 2))


MODELS = {
    "discriminant": SpacePartitioningClassifier(
        "lda", n_regions=2, n_init=2, max_iter=3, random_state=0
    ),
    "logistic": SpacePartitioningClassifier(n_regions=2, n_init=2, max_iter=3, random_state=0),
    "truncated RBF": TruncatedRBFClassifier(),
    "truncated RBF about the origin": TruncatedRBFClassifier(center=False),
    "truncated RBF of a given width": TruncatedRBFClassifier(gamma=0.05),
}


@pytest.mark.parametrize("size", [120, 31])
@pytest.mark.parametrize("name", MODELS)
def test_models_fit_themselves_to_any_blocks(table, name, size):
    X, y, weight = table
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    model = MODELS[name]
    memory = model.fit(Z, y, sample_weight=weight).predict_proba(Z)
    blocks = model.fit_blocks(MemoryBlocks.of(Z, y, weight, size=size))
    assert blocks is model
    assert model.n_features_in_ == 3
    assert_allclose(model.predict_proba(Z), memory, atol=1e-8)


def test_a_width_meant_for_the_full_kernel_warns_in_blocks(table):
    X, y, weight = table
    with pytest.warns(UserWarning, match="median of 2.gamma.*Lower gamma"):
        TruncatedRBFClassifier(gamma=50.0).fit_blocks(MemoryBlocks.of(X, y, weight, size=31))


def test_transformers_and_mixtures_fit_themselves_to_any_blocks(table):
    X, _, weight = table
    parts = FeatureSpaceDecomposition("principal", random_state=0)
    memory = parts.fit(X, sample_weight=weight).transform(X)
    parts.fit_blocks(MemoryBlocks.of(X, None, weight, size=31))
    assert_allclose(parts.transform(X), memory, atol=1e-8)
    mixture = ResponsibilityMixture(2, random_state=0)
    memory = mixture.fit(X, sample_weight=weight).predict_proba(X)
    mixture.fit_blocks(MemoryBlocks.of(X, None, weight, size=31))
    assert_allclose(mixture.predict_proba(X), memory, atol=1e-7)


def test_models_without_a_fit_by_blocks_are_gathered_in_one_task(table):
    X, y, _ = table
    fusion = SubspaceFusionClassifier(
        ["random"],
        LogisticRegression(),
        cv=3,
        fusion_estimator=LogisticRegression(),
        random_state=0,
    )
    proba = [
        fusion.fit_blocks(MemoryBlocks.of(X, y, size=size)).predict_proba(X) for size in (120, 31)
    ]
    assert_allclose(proba[0], proba[1], atol=1e-6)


def test_a_fit_that_fails_changes_nothing(table):
    X, y, _ = table
    model = SpacePartitioningClassifier("lda", n_regions=2, random_state=0).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="one class only"):
        model.fit_blocks(MemoryBlocks.of(X, np.full(len(y), "up"), size=50))
    assert_array_equal(model.predict_proba(X), before)
    with pytest.raises(ValueError, match="n_regions"):
        SpacePartitioningClassifier(n_regions=0).fit_blocks(MemoryBlocks.of(X, y, size=50))
