"""Contracts of this library, one function each.

A contract receives a fresh estimator and raises ``AssertionError`` when it is broken.
``contracts_of`` lists those that apply to an estimator. What scikit-learn checks as well (order of
queries, number of columns, rows that are only read) is not repeated here.
"""

import copy
import pickle
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import make_blobs
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

import vicinal.io
from tests.common.instances import is_deterministic

OUTPUTS = ("predict_proba", "decision_function", "predict", "transform", "score_samples")


# --- data -----------------------------------------------------------------------------------------


def training_data(estimator, n_samples=90, seed=0):
    """Rows in three overlapping groups, with the target that ``estimator`` wants."""
    X, codes = make_blobs(
        n_samples, n_features=3, centers=3, cluster_std=2.0, center_box=(-4, 4), random_state=seed
    )
    if get_tags(estimator).input_tags.positive_only:
        X = X - X.min() + 1.0
    if is_regressor(estimator):
        return X, np.sin(X[:, 0]) + X[:, 1] + 0.1 * codes
    if not get_tags(estimator).classifier_tags or get_tags(estimator).classifier_tags.multi_class:
        return X, codes
    return X, np.minimum(codes, 1)


def queries(estimator, seed=1):
    return training_data(estimator, n_samples=40, seed=seed)[0]


_shared: dict[str, object] = {}


def fitted_once(estimator):
    """The model that ``estimator`` makes of its training data, for contracts that only ask it.

    Contracts come estimator by estimator, so that one model at a time is kept.
    """
    key = f"{type(estimator)} {estimator.__repr__(N_CHAR_MAX=100_000)}"
    if key not in _shared:
        model = clone(estimator).fit(*training_data(estimator))
        _shared.clear()
        _shared[key] = model
    return _shared[key]


def outputs(estimator, X):
    """What the fitted estimator says of ``X``, numbers only."""
    found = {name: getattr(estimator, name)(X) for name in OUTPUTS if hasattr(estimator, name)}
    return {name: value for name, value in found.items() if np.asarray(value).dtype.kind in "fiu"}


def assert_same_outputs(first, second, X, **tolerance):
    expected, got = outputs(first, X), outputs(second, X)
    assert expected.keys() == got.keys()
    for name, value in expected.items():
        assert_allclose(got[name], value, err_msg=name, **tolerance)


def assert_equivalent(estimator, first, second, X):
    """Equal to rounding for deterministic estimators, alike in what they say for the others.

    Far from the training rows what is drawn may decide: the others are asked about rows like these.
    """
    if is_deterministic(estimator):
        assert_same_outputs(first, second, X, rtol=1e-6, atol=1e-7)
        return
    X, y = training_data(estimator, n_samples=300)
    if is_classifier(estimator):
        assert np.mean(first.predict(X) == second.predict(X)) >= 0.6  # by chance a third
    elif is_regressor(estimator):
        assert np.corrcoef(first.predict(X), second.predict(X))[0, 1] >= 0.9
    elif hasattr(first, "score_samples"):
        assert np.corrcoef(first.score_samples(X), second.score_samples(X))[0, 1] >= 0.9
    else:
        shares = [told_apart(model.transform(X), y) for model in (first, second)]
        assert abs(shares[0] - shares[1]) <= 0.1


def told_apart(Z, y):
    """The share of rows whose class lines between the classes get right."""
    return LinearDiscriminantAnalysis().fit(Z, y).score(Z, y)


# --- weights and rows -----------------------------------------------------------------------------


def weight_two_is_the_row_twice(estimator):
    X, y = training_data(estimator)
    weights = np.where(np.arange(len(X)) % 3 == 0, 2.0, 1.0)
    times = weights.astype(int)
    weighted = clone(estimator).fit(X, y, sample_weight=weights)
    repeated = clone(estimator).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_equivalent(estimator, weighted, repeated, queries(estimator))


def weight_zero_is_the_row_removed(estimator):
    X, y = training_data(estimator)
    weights = np.where(np.arange(len(X)) % 4 == 0, 0.0, 1.0)
    kept = weights > 0
    weighted = clone(estimator).fit(X, y, sample_weight=weights)
    removed = clone(estimator).fit(X[kept], y[kept])
    assert_equivalent(estimator, weighted, removed, queries(estimator))


def unit_weights_are_no_weights(estimator):
    X, y = training_data(estimator)
    weighted = clone(estimator).fit(X, y, sample_weight=np.ones(len(X)))
    assert_same_outputs(fitted_once(estimator), weighted, queries(estimator), rtol=1e-9, atol=1e-10)


def order_of_training_rows_does_not_matter(estimator):
    X, y = training_data(estimator)
    order = np.random.RandomState(0).permutation(len(X))
    shuffled = clone(estimator).fit(X[order], y[order])
    assert_equivalent(estimator, fitted_once(estimator), shuffled, queries(estimator))


def a_query_alone_gets_the_same_prediction(estimator):
    fitted, Q = fitted_once(estimator), queries(estimator)[:5]
    whole = outputs(fitted, Q)
    for i in range(len(Q)):
        for name, value in outputs(fitted, Q[i : i + 1]).items():
            assert_allclose(value[0], whole[name][i], rtol=1e-9, atol=1e-10, err_msg=name)


# --- kinds of input -------------------------------------------------------------------------------


def labels_may_be_strings_in_any_order(estimator):
    X, codes = training_data(estimator)
    names = np.array(["middle", "zulu", "alpha"], dtype=object)[codes]
    Q = queries(estimator)
    by_name = clone(estimator).fit(X, names)
    assert by_name.classes_.tolist() == sorted(set(names))
    if not is_deterministic(estimator):
        assert set(by_name.predict(Q)) <= set(names)
        return
    predicted = np.array(["middle", "zulu", "alpha"], dtype=object)[
        fitted_once(estimator).predict(Q)
    ]
    assert np.mean(by_name.predict(Q) == predicted) == 1.0


def data_frames_give_names_and_the_same_result(estimator):
    X, y = training_data(estimator)
    Q, columns = queries(estimator), ["mass", "speed", "age"]
    expected = outputs(fitted_once(estimator), Q)
    for library in ("pandas", "polars"):
        frames = pytest.importorskip(library)
        fitted = clone(estimator).fit(frames.DataFrame(dict(zip(columns, X.T, strict=True))), y)
        assert fitted.feature_names_in_.tolist() == columns
        frame = frames.DataFrame(dict(zip(columns, Q.T, strict=True)))
        for name, value in expected.items():
            assert_allclose(np.asarray(getattr(fitted, name)(frame)), value, rtol=1e-9, atol=1e-10)
        for name in list(expected)[:1]:
            with pytest.raises(ValueError, match="feature names"):
                getattr(fitted, name)(frame[["age", "speed", "mass"]])


def float32_stays_float32(estimator):
    X, y = training_data(estimator)
    if is_regressor(estimator):
        y = y.astype(np.float32)
    fitted, double = clone(estimator).fit(X.astype(np.float32), y), fitted_once(estimator)
    Q = queries(estimator)
    for name, value in outputs(fitted, Q.astype(np.float32)).items():
        if np.asarray(value).dtype.kind == "f":
            assert value.dtype == np.float32, f"{name} gave {value.dtype}"
    for name in ("predict_proba", "transform"):
        if hasattr(double, name) and is_deterministic(estimator):
            single = getattr(fitted, name)(Q.astype(np.float32))
            assert_allclose(single, getattr(double, name)(Q), rtol=5e-2, atol=5e-3, err_msg=name)


def sparse_equals_dense(estimator):
    X, y = training_data(estimator)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    Q = queries(estimator)
    dense, sparse = clone(estimator).fit(X, y), clone(estimator).fit(sp.csr_array(X), y)
    for name, value in outputs(dense, Q).items():
        got = getattr(sparse, name)(sp.csr_array(Q))
        assert_allclose(got.toarray() if sp.issparse(got) else got, value, rtol=1e-6, atol=1e-7)


# --- computing ------------------------------------------------------------------------------------


def number_of_jobs_does_not_matter(estimator):
    X, y = training_data(estimator)
    two = clone(estimator).set_params(n_jobs=2).fit(X, y)
    assert_same_outputs(fitted_once(estimator), two, queries(estimator), rtol=1e-9, atol=1e-10)


def threads_get_the_same_predictions_as_one_thread(estimator):
    fitted = clone(estimator).fit(*training_data(estimator))
    asked = [queries(estimator, seed) for seed in range(1, 5)]
    expected = [outputs(fitted, Q) for Q in asked]
    with ThreadPoolExecutor(len(asked)) as pool:
        found = list(pool.map(partial(outputs, fitted), asked))
    for one_by_one, at_once in zip(expected, found, strict=True):
        for name, value in one_by_one.items():
            assert_allclose(at_once[name], value, rtol=1e-12, err_msg=name)


def working_memory_does_not_matter(estimator):
    X, y = training_data(estimator)
    Q = queries(estimator)
    expected = outputs(fitted_once(estimator), Q)
    with sklearn.config_context(working_memory=0.005):
        tight = clone(estimator).fit(X, y)
        got = outputs(tight, Q)
    for name, value in expected.items():
        assert_allclose(got[name], value, rtol=1e-9, atol=1e-10, err_msg=name)


def same_seed_gives_the_same_model(estimator):
    X, y = training_data(estimator)
    again = clone(estimator).fit(X, y)
    assert_same_outputs(fitted_once(estimator), again, queries(estimator), rtol=0, atol=0)


# --- probabilities --------------------------------------------------------------------------------


def probabilities_sum_to_one_and_agree_with_predict(estimator):
    fitted, Q = fitted_once(estimator), queries(estimator)
    # A query far outside is where scores overflow or underflow.
    Q = np.vstack([Q, 1e3 * np.ones((1, Q.shape[1]))])
    probabilities = fitted.predict_proba(Q)
    assert np.isfinite(probabilities).all()
    assert (probabilities >= 0).all()
    assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-6)
    assert_array_equal(fitted.classes_[probabilities.argmax(axis=1)], fitted.predict(Q))


def a_class_missing_nearby_never_shifts_columns(estimator):
    """Two mixed classes here, a third one far away: wherever a model is local it lacks a class."""
    rng = np.random.RandomState(0)
    near = rng.normal(size=(80, 3)) + 20.0
    far = rng.normal(scale=0.5, size=(20, 3)) - 20.0
    if get_tags(estimator).input_tags.positive_only:
        near, far = near + 40.0, far + 40.0
    X = np.vstack([near, far])
    # The lonely class sorts between the two mixed ones, so that a shift would be seen.
    y = np.r_[np.where(near[:, 0] > np.median(near[:, 0]), "c", "a"), np.full(20, "b")]
    order = rng.permutation(100)  # rows in the order of the classes would be a warning
    fitted = clone(estimator).fit(X[order], y[order])
    assert fitted.classes_.tolist() == ["a", "b", "c"]
    predicted = fitted.predict(X)
    assert np.mean(predicted[80:] == "b") >= 0.9
    assert np.mean(predicted[:80] == y[:80]) >= 0.7
    assert not np.any(predicted[:80] == "b")
    if hasattr(fitted, "predict_proba"):
        probabilities = fitted.predict_proba(X)
        assert probabilities.shape == (100, 3)
        assert np.median(probabilities[80:, 1]) > 0.4
        assert np.median(probabilities[:80, 1]) < 0.2


# --- life of an object ----------------------------------------------------------------------------


def copies_predict_the_same(estimator):
    fitted, Q = fitted_once(estimator), queries(estimator)
    for twin in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        assert_same_outputs(fitted, twin, Q, rtol=0, atol=0)
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(fitted))


def saved_models_predict_and_learn_on_as_before(estimator):
    X, y = training_data(estimator)
    fitted, Q = copy.deepcopy(fitted_once(estimator)), queries(estimator)
    outputs(fitted, Q)  # what is built at first use is there
    trusted = [] if type(estimator).__module__.startswith("vicinal.") else [type(estimator)]
    with tempfile.TemporaryDirectory() as folder:
        path = vicinal.io.save(fitted, Path(folder) / "model.vicinal", trusted=trusted)
        twin = vicinal.io.load(path, trusted=trusted)
    assert_same_outputs(fitted, twin, Q, rtol=0, atol=0)
    if hasattr(estimator, "partial_fit"):
        for model in (fitted, twin):
            model.partial_fit(X[:30] + 0.1, y[:30])
        assert_same_outputs(fitted, twin, Q, rtol=0, atol=0)


def refit_equals_fresh_fit(estimator):
    X, y = training_data(estimator)
    other_X, other_y = training_data(estimator, n_samples=70, seed=5)
    twice = clone(estimator).fit(other_X[:, :2], other_y).fit(X, y)
    assert_same_outputs(fitted_once(estimator), twice, queries(estimator), rtol=0, atol=0)


def _interrupting_profiler(at_call):
    """Count calls of our own functions; raise KeyboardInterrupt at the given one."""
    folder = vicinal.__path__[0]
    calls = [0]

    def profile(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(folder) and code.co_name != "wrapper":
            calls[0] += 1
            if calls[0] == at_call:
                sys.setprofile(None)
                raise KeyboardInterrupt

    return profile, calls


def interrupted_fit_leaves_it_unfitted(estimator):
    X, y = training_data(estimator)
    fitted_once(estimator)  # the first fit may compile, which calls functions too
    counted = clone(estimator)
    profile, calls = _interrupting_profiler(at_call=None)
    sys.setprofile(profile)
    try:
        counted.fit(X, y)
    finally:
        sys.setprofile(None)
    total = calls[0]
    assert total >= 1
    for at_call in sorted({1, (total + 1) // 2, total}):
        victim = clone(estimator)
        profile, _ = _interrupting_profiler(at_call)
        sys.setprofile(profile)
        try:
            with pytest.raises(KeyboardInterrupt):
                victim.fit(X, y)
        finally:
            sys.setprofile(None)
        with pytest.raises(NotFittedError):
            check_is_fitted(victim)


# --- errors ---------------------------------------------------------------------------------------


def bad_input_is_refused_and_leaves_it_unfitted(estimator):
    X, y = training_data(estimator)
    hole, pole = X.copy(), X.copy()
    hole[3, 1], pole[3, 1] = np.nan, np.inf
    takes_gaps = get_tags(estimator).input_tags.allow_nan
    cases = [
        *([] if takes_gaps else [(hole, y, "NaN"), (pole, y, "infinity")]),
        (X[:0], y[:0], "0 sample|minimum of"),
        (X[:, :0], y, "0 feature"),
        (X[:-1], y, "inconsistent numbers of samples"),
        (X[:, 0], y, "2D array"),
    ]
    if is_classifier(estimator):
        cases += [
            (X, np.full(len(y), "same"), "class"),
            (X, X[:, 0], "Unknown label type"),
        ]
    needs_y = get_tags(estimator).target_tags.required
    for bad_X, bad_y, message in cases:
        victim = clone(estimator)
        if not needs_y and message.startswith("inconsistent"):
            continue
        with pytest.raises(ValueError, match=message):
            victim.fit(bad_X, bad_y)
        with pytest.raises(NotFittedError):
            check_is_fitted(victim)


def negative_weights_name_the_value(estimator):
    X, y = training_data(estimator)
    weights = np.ones(len(X))
    weights[4] = -3.0
    with pytest.raises(ValueError, match=r"-3"):
        clone(estimator).fit(X, y, sample_weight=weights)


def _always(estimator):
    return True


def _takes_weights(estimator):
    return has_fit_parameter(estimator, "sample_weight")


def _takes_sparse(estimator):
    return get_tags(estimator).input_tags.sparse


def _has_n_jobs(estimator):
    return "n_jobs" in estimator.get_params(deep=False)


def _has_proba(estimator):
    return is_classifier(estimator) and hasattr(estimator, "predict_proba")


def _takes_three_classes(estimator):
    return is_classifier(estimator) and get_tags(estimator).classifier_tags.multi_class


# Each contract with the condition under which it applies.
CONTRACTS = {
    weight_two_is_the_row_twice: _takes_weights,
    weight_zero_is_the_row_removed: _takes_weights,
    unit_weights_are_no_weights: _takes_weights,
    order_of_training_rows_does_not_matter: _always,
    a_query_alone_gets_the_same_prediction: _always,
    labels_may_be_strings_in_any_order: is_classifier,
    data_frames_give_names_and_the_same_result: _always,
    float32_stays_float32: _always,
    sparse_equals_dense: _takes_sparse,
    number_of_jobs_does_not_matter: _has_n_jobs,
    threads_get_the_same_predictions_as_one_thread: _always,
    working_memory_does_not_matter: _always,
    same_seed_gives_the_same_model: _always,
    probabilities_sum_to_one_and_agree_with_predict: _has_proba,
    a_class_missing_nearby_never_shifts_columns: _takes_three_classes,
    copies_predict_the_same: _always,
    saved_models_predict_and_learn_on_as_before: _always,
    refit_equals_fresh_fit: _always,
    interrupted_fit_leaves_it_unfitted: _always,
    bad_input_is_refused_and_leaves_it_unfitted: _always,
    negative_weights_name_the_value: _takes_weights,
}


def contracts_of(estimator):
    """The contracts that apply to ``estimator``."""
    return [contract for contract, applies in CONTRACTS.items() if applies(estimator)]
