"""Both pruned trees."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, make_friedman1
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, export_text

from vicinal.ensemble import PrunedTreeClassifier, PrunedTreeRegressor


@pytest.fixture(scope="module")
def cancer():
    return load_breast_cancer(return_X_y=True)


@pytest.fixture(scope="module")
def friedman():
    return make_friedman1(n_samples=250, noise=1.0, random_state=0)


def refitted_errors(tree, alphas, X, y, folds, loss):
    """The slow way: one fit per fold and penalty."""
    errors = np.empty((len(folds), len(alphas)))
    for f, (train, test) in enumerate(folds):
        for a, alpha in enumerate(alphas):
            fitted = tree.set_params(ccp_alpha=alpha).fit(X[train], y[train])
            errors[f, a] = loss(y[test], fitted.predict(X[test])).mean()
    return errors


def test_path_errors_equal_those_of_refitting(cancer):
    X, y = cancer
    splitter = StratifiedKFold(4, shuffle=True, random_state=3)
    model = PrunedTreeClassifier(cv=splitter, random_state=0).fit(X, y)
    folds = list(splitter.split(X, y))
    seed = model.tree_.random_state
    slow = refitted_errors(
        DecisionTreeClassifier(random_state=seed), model.alphas_[1:], X, y, folds, np.not_equal
    )
    size = np.array([len(test) for _, test in folds])
    assert_allclose(model.cv_error_[1:], size @ slow / size.sum(), atol=1e-12)
    assert_allclose(model.cv_error_se_[1:], slow.std(axis=0, ddof=1) / 2, atol=1e-12)


@pytest.mark.parametrize("criterion", ["squared_error", "absolute_error"])
def test_path_errors_equal_those_of_refitting_for_numbers(criterion):
    X, y = make_friedman1(n_samples=90, noise=1.0, random_state=0)
    splitter = KFold(3, shuffle=True, random_state=3)
    model = PrunedTreeRegressor(criterion, cv=splitter, random_state=0).fit(X, y)
    alphas = model.alphas_[1::10]
    tree = DecisionTreeRegressor(criterion=criterion, random_state=model.tree_.random_state)
    power = 2 if criterion == "squared_error" else 1
    slow = refitted_errors(
        tree, alphas, X, y, list(splitter.split(X)), lambda a, b: np.abs(a - b) ** power
    )
    assert_allclose(model.cv_error_[1::10], slow.mean(axis=0), rtol=1e-9)


@pytest.mark.parametrize("rule", ["1se", "min"])
def test_tree_is_the_one_of_the_chosen_penalty(cancer, rule):
    X, y = cancer
    model = PrunedTreeClassifier(rule=rule, random_state=0).fit(X, y)
    chosen = np.flatnonzero(model.alphas_ == model.ccp_alpha_)[0]
    assert model.get_n_leaves() == model.n_leaves_[chosen]
    best = model.cv_error_.min()
    if rule == "min":
        assert model.cv_error_[chosen] == best
        assert (model.cv_error_[chosen + 1 :] > best).all()
    else:
        limit = best + model.cv_error_se_[np.flatnonzero(model.cv_error_ == best)[-1]]
        assert model.cv_error_[chosen] <= limit
        assert (model.cv_error_[chosen + 1 :] > limit).all()


def test_one_standard_error_gives_the_smaller_tree(friedman):
    X, y = friedman
    trees = [PrunedTreeRegressor(rule=rule, random_state=0).fit(X, y) for rule in ("1se", "min")]
    assert trees[0].get_n_leaves() <= trees[1].get_n_leaves() < trees[1].n_leaves_[0]
    assert_array_equal(np.sort(trees[0].n_leaves_)[::-1], trees[0].n_leaves_)
    assert trees[0].n_leaves_[-1] == 1


def test_pure_noise_is_pruned_to_the_root():
    rng = np.random.RandomState(0)
    model = PrunedTreeRegressor(random_state=0).fit(rng.normal(size=(200, 3)), rng.normal(size=200))
    assert model.get_n_leaves() == 1


def test_targets_that_need_no_split():
    X = np.arange(20.0)[:, None]
    model = PrunedTreeRegressor(random_state=0).fit(X, np.full(20, 2.0))
    assert_allclose(model.alphas_, [0.0])
    assert_allclose(model.predict(X), 2.0)


def test_smaller_folds_for_few_rows():
    X, y = np.arange(6.0)[:, None], np.array([0, 0, 0, 1, 1, 1])
    assert PrunedTreeClassifier(cv=10, random_state=0).fit(X, y).score(X, y) >= 0.5


def test_one_fold_has_no_standard_error(friedman):
    X, y = friedman[0][:60], friedman[1][:60]
    fold = [(np.arange(40), np.arange(40, 60))]
    model = PrunedTreeRegressor(cv=fold, rule="min").fit(X, y)
    assert np.isnan(model.cv_error_se_).all()
    with pytest.raises(ValueError, match="one fold, and rule='1se' needs .* use rule='min'"):
        PrunedTreeRegressor(cv=fold).fit(X, y)


@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
def test_a_class_missing_in_a_fold_is_an_error_of_that_fold_only():
    X = np.arange(30.0)[:, None]
    y = np.array(["a"] * 14 + ["m"] + ["z"] * 15)
    model = PrunedTreeClassifier(cv=5, random_state=0).fit(X, y)
    assert model.classes_.tolist() == ["a", "m", "z"]
    assert_allclose(model.cv_error_[0], 1 / 30, atol=0.07)
    assert model.predict_proba(X).shape == (30, 3)


def test_class_weights_act_as_sample_weights(cancer):
    X, y = cancer
    weights = {0: 5.0, 1: 1.0}
    by_class = PrunedTreeClassifier(class_weight=weights, random_state=0).fit(X, y)
    by_row = PrunedTreeClassifier(random_state=0).fit(
        X, y, sample_weight=np.where(y == 0, 5.0, 1.0)
    )
    assert_array_equal(by_class.predict_proba(X), by_row.predict_proba(X))
    assert_allclose(by_class.cv_error_, by_row.cv_error_)


def test_balanced_classes_are_those_of_the_weights(cancer):
    """A row of weight two is the row twice, also where classes are counted."""
    X, y = cancer
    given = np.arange(len(y)) % 3 + 1.0
    model = PrunedTreeClassifier(class_weight="balanced", random_state=0)
    root = model.fit(X, y, sample_weight=given).tree_.tree_.value[0, 0]
    assert_allclose(root, [0.5, 0.5])


def test_jobs_do_not_matter(cancer):
    X, y = cancer
    one, two = (PrunedTreeClassifier(n_jobs=n, random_state=0).fit(X, y) for n in (1, 2))
    assert_array_equal(one.cv_error_, two.cv_error_)


def test_the_pruned_tree_is_an_ordinary_tree(cancer):
    X, y = cancer
    model = PrunedTreeClassifier(random_state=0).fit(X, y)
    assert "class" in export_text(model.tree_)
    assert_array_equal(model.apply(X), model.tree_.apply(X))
    assert_allclose(model.feature_importances_.sum(), 1.0)


def test_one_row_that_counts_cannot_be_held_out():
    with pytest.raises(ValueError, match="n_samples=1 is too small for cross-validation"):
        PrunedTreeRegressor().fit([[0.0], [1.0]], [0.0, 1.0], [1.0, 0.0])
    with pytest.raises(ValueError, match="n_samples=2 without two rows of one class"):
        PrunedTreeClassifier().fit([[0.0], [1.0]], [0, 1])
