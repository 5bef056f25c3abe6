"""Odd inputs for every estimator: the outcome is a right answer or an error that says what to do.

A case is a number: it chooses the estimator and what is odd about rows, targets, weights and
queries, so any case can be run again alone: ``outcome(17)``. All of them, on all cores:
``python -m tests.common.fuzz``.
"""

import argparse
import os
import re
import signal
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
from numpy.linalg import LinAlgError
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from tests.common.instances import all_instances

N, P = 40, 3


def _with(X, row, value):
    X = X.copy()
    X[row % len(X), 0] = value
    return X


ROWS = {
    "plain": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "whole numbers": lambda X: (10 * X).astype(np.int64),
    "bytes": lambda X: np.abs(40 * X).astype(np.uint8),
    "large unsigned": lambda X: np.abs(1e3 * X).astype(np.uint64) + np.uint64(2**63),
    "truth values": lambda X: X > 0,
    "Fortran order": np.asfortranarray,
    "not contiguous": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "read only": lambda X: (X.setflags(write=False), X)[1],
    "a list": lambda X: X.tolist(),
    "objects": lambda X: X.astype(object),
    "texts": lambda X: X.astype(str),
    "words": lambda X: np.full(X.shape, "word"),
    "complex": lambda X: X.astype(complex),
    "csr": sparse.csr_matrix,
    "csr_array": sparse.csr_array,
    "csc": sparse.csc_matrix,
    "coo": sparse.coo_matrix,
    "sparse and empty": lambda X: sparse.csr_matrix(X.shape),
    "NaN": lambda X: _with(X, 3, np.nan),
    "infinity": lambda X: _with(X, 3, np.inf),
    "one far": lambda X: _with(X, 3, 1e12),
    "one axis": lambda X: X[:, 0],
    "three axes": lambda X: X[:, :, None],
    "no rows": lambda X: X[:0],
    "no columns": lambda X: X[:, :0],
    "one row": lambda X: X[:1],
    "two rows": lambda X: X[:2],
    "one column": lambda X: X[:, :1],
    "more columns than rows": lambda X: np.tile(X[:20], (1, 10)) + 0.1 * np.arange(30),
    "repeated rows": lambda X: np.repeat(X[:8], 5, axis=0),
    "a constant column": lambda X: np.column_stack([X[:, :2], np.ones(len(X))]),
    "constant columns": lambda X: np.ones_like(X),
    "dependent columns": lambda X: np.column_stack([X[:, 0], X[:, 0], -2.0 * X[:, 0]]),
    "1e-300": lambda X: 1e-300 * X,
    "1e-150": lambda X: 1e-150 * X,
    "1e-9": lambda X: 1e-9 * X,
    "1e9": lambda X: 1e9 * X,
    "far from 0": lambda X: X + 1e9,
    "1e140": lambda X: 1e140 * X,
    "1e154": lambda X: 1e154 * X,
    "1e300": lambda X: 1e300 * X,
    "mixed scales": lambda X: X * [1e-9, 1.0, 1e9],
}
TARGETS = {
    "plain": lambda y: y,
    "texts": lambda y: np.array(["b", "a", "c"])[y.astype(int) % 3],
    "truth values": lambda y: y > 0,
    "floats": lambda y: y.astype(np.float32),
    "one value": lambda y: np.zeros_like(y),
    "a class of one row": lambda y: np.where(np.arange(len(y)) == 0, 7, y),
    "NaN": lambda y: np.where(np.arange(len(y)) == 2, np.nan, y),
    "infinity": lambda y: np.where(np.arange(len(y)) == 2, np.inf, y),
    "too short": lambda y: y[:-1],
    "a column": lambda y: y[:, None],
    "two columns": lambda y: np.column_stack([y, y]),
    "none": lambda y: None,
    "1e300": lambda y: 1e300 * y,
    "1e140": lambda y: 1e140 * y,
    "1e-300": lambda y: 1e-300 * y,
    "large whole numbers": lambda y: y.astype(np.int64) + 2**53,
    "a list": lambda y: y.tolist(),
    "objects": lambda y: y.astype(object),
}
WEIGHTS = {
    "none": lambda n: None,
    "ones": lambda n: np.ones(n),
    "thousands": lambda n: np.full(n, 1000.0),
    "one of 1e12": lambda n: np.where(np.arange(n) == 0, 1e12, 1.0),
    "1e300": lambda n: np.full(n, 1e300),
    "1e-300": lambda n: np.full(n, 1e-300),
    "zeros": lambda n: np.zeros(n),
    "one row counts": lambda n: (np.arange(n) == 0).astype(float),
    "half count": lambda n: (np.arange(n) % 2).astype(float),
    "negative": lambda n: np.full(n, -1.0),
    "NaN": lambda n: np.full(n, np.nan),
    "infinity": lambda n: np.full(n, np.inf),
    "too short": lambda n: np.ones(max(n - 1, 0)),
    "two axes": lambda n: np.ones((n, 1)),
    "words": lambda n: np.full(n, "heavy"),
    "whole numbers": lambda n: np.arange(1, n + 1),
}
QUERIES = {
    "the rows": lambda Q: Q,
    "one": lambda Q: Q[:1],
    "1e9 away": lambda Q: Q + 1e9,
    "1e150 away": lambda Q: Q + 1e150,
    "1e300": lambda Q: 1e300 * np.sign(Q),
    "NaN": lambda Q: _with(Q, 1, np.nan),
    "infinity": lambda Q: _with(Q, 1, -np.inf),
    "too wide": lambda Q: np.hstack([Q, Q]),
    "none": lambda Q: Q[:0],
    "one axis": lambda Q: Q[0],
    "csr": sparse.csr_matrix,
    "csc_array": sparse.csc_array,
    "float32": lambda Q: Q.astype(np.float32),
    "a list": lambda Q: Q.tolist(),
    "repeated": lambda Q: np.repeat(Q[:2], 30, axis=0),
    "words": lambda Q: np.full(Q.shape, "word"),
}
# They fit dozens of members of the other families, seconds each time: drawn more rarely.
SLOW = ("AutoClassifier", "AutoRegressor")
# Errors of the types that we raise, but from the depths: they name neither input nor remedy.
RAW = re.compile(
    r"ufunc|broadcast|not aligned|reshape array|zero-size|empty sequence|unpack|NoneType|subscript"
    r"|out of bounds|with_mean|mismatch in its core|unexpected keyword|positional argument"
    r"|attribute|has no len|infinite loop|cannot convert float|math domain|singular|SVD"
)
METHODS = ("predict_proba", "predict", "decision_function", "transform", "kneighbors")


def describe(case):
    """Return what a case is made of: the estimator and the four choices."""
    rng = np.random.RandomState(case)
    estimators = all_instances()
    estimator = estimators[rng.randint(len(estimators))]
    while type(estimator).__name__ in SLOW and rng.rand() < 0.95:
        estimator = estimators[rng.randint(len(estimators))]
    kinds = []
    for choices in (ROWS, TARGETS, WEIGHTS, QUERIES):
        names = list(choices)
        odd = rng.rand() < 0.45
        kinds.append(names[rng.randint(len(names))] if odd else names[0])
    return estimator, kinds


def outcome(case):
    """Run a case; return what came of it in a word, and why.

    "predicted" is a right answer and "refused" an error that names value, rule and remedy; "void"
    are oddities that contradict each other; all else is "wrong".
    """
    estimator, (rows, targets, weights, queries) = describe(case)
    rng = np.random.RandomState(case)
    X = rng.normal(size=(N, P))
    y = X[:, 0] + rng.normal(size=N) if is_regressor(estimator) else (X[:, 0] > 0).astype(int)
    label = (
        f"case {case}: {type(estimator).__name__}, {rows}, y {targets}, w {weights}, Q {queries}"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            given = ROWS[rows](X)
            n = given.shape[0] if hasattr(given, "shape") else len(given)
            arguments = [given, TARGETS[targets](np.resize(y, n))]
            if weights != "none" and has_fit_parameter(estimator, "sample_weight"):
                arguments.append(WEIGHTS[weights](n))
            width = given.shape[1] if getattr(given, "ndim", 0) == 2 else P
            Q = np.resize(rng.normal(size=(12, P)), (12, width)) if width else np.empty((12, 0))
            asked = QUERIES[queries](Q)
        except (ValueError, TypeError, IndexError):
            return "void", ""
        fitted = clone(estimator)
        try:
            fitted.fit(*arguments)
        except Exception as error:
            wrong = _fault(label, "fit", error) or _half_fitted(label, fitted)
            return ("wrong", wrong) if wrong else ("refused", str(error))
        refusal = ""
        for method in METHODS:
            if hasattr(fitted, method):
                try:
                    said = getattr(fitted, method)(asked)
                except Exception as error:
                    wrong, refusal = _fault(label, method, error), str(error)
                else:
                    wrong = _wrong_answer(label, fitted, method, said)
                if wrong:
                    return "wrong", wrong
    return ("refused", refusal) if refusal else ("predicted", "")


def _fault(label, place, error):
    """Return a line unless the error is one that names value, rule and remedy."""
    is_clear = isinstance(error, ValueError | TypeError) and not isinstance(
        error, LinAlgError | UnicodeError
    )
    is_raw = "numba" in type(error).__module__ or RAW.search(str(error))
    if is_clear and not is_raw and len(str(error)) > 20:
        return None
    return f"{label}: {place} raises {type(error).__name__}: {str(error)[:200]}"


def _half_fitted(label, estimator):
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return None
    return None if not hasattr(estimator, "fit") else f"{label}: fitted after a failed fit"


def _wrong_answer(label, fitted, method, said):
    values = said[0] if isinstance(said, tuple) else said
    values = np.asarray(values.toarray() if sparse.issparse(values) else values)
    if values.dtype.kind == "f" and method != "decision_function":  # of a sure answer, infinite
        # What goes to trees keeps its gaps.
        keeps_gaps = method == "transform" and get_tags(fitted).input_tags.allow_nan
        if not (np.isfinite(values) | (np.isnan(values) & keeps_gaps)).all():
            return f"{label}: {method} is not finite"
    if method == "predict_proba":
        if np.abs(values.sum(axis=1) - 1.0).max(initial=0.0) > 1e-4 or (values < 0).any():
            return f"{label}: probabilities do not sum to one"
    if method == "predict" and is_classifier(fitted) and not np.isin(values, fitted.classes_).all():
        return f"{label}: predicts an unknown class"
    return None


def outcome_within(seconds, case):
    """Run a case in the main thread; one that takes longer than ``seconds`` is a finding too."""

    def stop(*_):
        raise TimeoutError(f"no answer within {seconds} seconds")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        return outcome(case)
    except TimeoutError as error:
        estimator, kinds = describe(case)
        return "wrong", f"case {case}: {type(estimator).__name__}, {kinds}: {error}"
    finally:
        signal.alarm(0)


def main():
    """Run the cases ``--first`` to ``--last`` in ``--jobs`` processes; print what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=int, default=120, help="limit for one case")
    arguments = parser.parse_args()
    cases = range(arguments.first, arguments.last)
    # A case is small: one thread each, and a worker that dies does not hang the others.
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        found = Counter()
        for word, why in pool.map(partial(outcome_within, arguments.seconds), cases, chunksize=10):
            found[word] += 1
            if word == "wrong":
                print(why, flush=True)
    print(f"{len(cases)} cases: {dict(found)}")
    return min(found["wrong"], 1)


if __name__ == "__main__":
    raise SystemExit(main())
