"""What is no table is refused by every estimator with one clear error, before any work."""

import numpy as np
import pytest
from sklearn.base import is_regressor

from tests.common.discovery import public_estimators
from tests.common.instances import make
from vicinal._base import reads_frames

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

N = 30
NUMBERS = np.random.RandomState(0).normal(size=(N, 3))
PERIODS = pd.DataFrame({"x": NUMBERS[:, 0], "p": pd.period_range("2020-01", periods=N, freq="W")})
BAD = {
    "repeated names": (pd.DataFrame(NUMBERS, columns=["a", "a", "b"]), "2 columns named 'a'"),
    "no rows": (pd.DataFrame({"a": [], "b": []}), r"0 sample\(s\) \(shape=\(0, 2\)\)"),
    "no columns": (pd.DataFrame(index=range(N)), r"0 feature\(s\) \(shape=\(30, 0\)\)"),
    "dictionaries": ([{"a": 1.0, "b": "x"}] * N, r"list of dictionaries.*pandas.DataFrame\(X\)"),
    "a dictionary": ({"a": [1.0, 2.0], "b": [0.0, 1.0]}, r"is a dictionary.*pandas.DataFrame\(X\)"),
}
ESTIMATORS = {name: make(cls) for name, cls in public_estimators().items()}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_is_no_table_is_refused(name, case):
    X, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        ESTIMATORS[name].fit(X, np.arange(len(X)) % 2)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_lazy_frames_are_refused(name):
    with pytest.raises(TypeError, match=r"X\.collect\(\)"):
        ESTIMATORS[name].fit(pl.LazyFrame({"a": [0.0, 1.0]}), [0, 1])


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if is_regressor(ESTIMATORS[name])])
def test_dates_are_no_targets_of_a_regressor(name):
    dates = pd.date_range("2020-01-01", periods=N)
    for y in (dates, dates.to_numpy(), pl.Series(dates), dates - dates[0]):
        with pytest.raises(ValueError, match="must hold numbers"):
            ESTIMATORS[name].fit(NUMBERS, y)


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
    if reads_frames(model):
        model.fit(PERIODS, np.arange(N) % 2)
        return
    with pytest.raises(
        ValueError, match=r"column 'p' of X is not numeric \(period\[W-SUN\].*TableEncoder\(\)"
    ):
        model.fit(PERIODS, np.arange(N) % 2)
