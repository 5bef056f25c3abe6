"""What is no table is refused by every estimator with one clear error, before any work."""

import numpy as np
import pytest

from tests.common.discovery import public_estimators
from tests.common.instances import make
from vicinal._base import reads_frames

pd = pytest.importorskip("pandas")

N = 30
NUMBERS = np.random.RandomState(0).normal(size=(N, 3))
PERIODS = pd.DataFrame({"x": NUMBERS[:, 0], "p": pd.period_range("2020-01", periods=N, freq="W")})
BAD = {
    "repeated names": (pd.DataFrame(NUMBERS, columns=["a", "a", "b"]), "2 columns named 'a'"),
    "no rows": (pd.DataFrame({"a": [], "b": []}), r"0 sample\(s\) \(shape=\(0, 2\)\)"),
    "no columns": (pd.DataFrame(index=range(N)), r"0 feature\(s\) \(shape=\(30, 0\)\)"),
    "dictionaries": ([{"a": 1.0, "b": "x"}] * N, r"list of dictionaries.*pandas.DataFrame\(X\)"),
}
ESTIMATORS = {name: make(cls) for name, cls in public_estimators().items()}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_is_no_table_is_refused(name, case):
    X, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        ESTIMATORS[name].fit(X, np.arange(len(X)) % 2)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_queries_that_are_no_table_are_refused(name):
    model = ESTIMATORS[name].fit(NUMBERS, np.arange(N) % 2)
    methods = ("predict", "transform", "project", "kneighbors", "score_samples")
    predict = next(getattr(model, method) for method in methods if hasattr(model, method))
    for case in ("repeated names", "dictionaries"):
        X, message = BAD[case]
        with pytest.raises(ValueError, match=message):
            predict(X)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_periods_are_read_or_refused_with_the_remedy(name):
    model = ESTIMATORS[name]
    if reads_frames(model) or name.startswith("Auto"):
        model.fit(PERIODS, np.arange(N) % 2)
        return
    with pytest.raises(
        ValueError, match=r"column 'p' of X is not numeric \(period\[W-SUN\].*TableEncoder\(\)"
    ):
        model.fit(PERIODS, np.arange(N) % 2)
