"""Answers of the older families on all kinds of input, as they were when they were recorded.

``python -m tests.common.test_recorded_answers`` writes the file anew: only when answers change for
a reason, which the changelog then tells. Local models have a record of their own in tests/local.
"""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from tests.common.contracts import OUTPUTS, queries, training_data
from tests.common.instances import all_instances

RECORD = Path(__file__).parent / "recorded_answers.npz"
FAMILIES = ("linear", "partition", "surface", "subspace", "ensemble", "uncertainty")
METHODS = (*OUTPUTS, "distance", "normal")


def models():
    """Instances by name, numbered where a class has several; conformal models are all folds."""
    found = {}
    for model in all_instances():
        name, room = type(model).__name__, type(model).__module__.split(".")[1]
        if room in FAMILIES and not name.startswith("Conformal"):
            found[f"{name} {sum(key.split()[0] == name for key in found)}"] = model
    return found


def inputs(model):
    """Training rows, their targets, options of ``fit`` and queries, by kind."""
    X, y = training_data(model)
    Q = queries(model)[:15]
    yield "dense", X, y, {}, Q
    yield "single", X.astype(np.float32), y, {}, Q.astype(np.float32)
    if has_fit_parameter(model, "sample_weight"):
        yield "counts", X, y, {"sample_weight": 1.0 + np.arange(len(X)) % 3}, Q
    if get_tags(model).input_tags.sparse:
        gaps = np.where(np.abs(X) < 0.5, 0.0, X)
        yield "sparse", sparse.csr_array(gaps), y, {}, sparse.csr_array(Q)


def answers(name):
    """Numbers that a model gives, by kind of input and method."""
    found = {}
    for kind, X, y, options, Q in inputs(models()[name]):
        model = clone(models()[name]).fit(X, y, **options)
        for method in METHODS:
            if hasattr(model, method):
                answer = getattr(model, method)(Q)
                answer = answer.toarray() if sparse.issparse(answer) else np.asarray(answer)
                found[f"{name} {kind} {method}"] = answer
    return found


@pytest.mark.parametrize("name", list(models()))
def test_answers_are_those_recorded(name):
    with np.load(RECORD) as record:
        recorded = {key: record[key] for key in record.files if key.startswith(f"{name} ")}
    found = answers(name)
    assert found.keys() == recorded.keys()
    assert found
    for key, value in found.items():
        tolerance = 1e-3 if " single " in key else 1e-7
        assert_allclose(value, recorded[key], rtol=tolerance, atol=tolerance, err_msg=key)


if __name__ == "__main__":
    np.savez_compressed(RECORD, **{k: v for name in models() for k, v in answers(name).items()})
