"""Predictions of blocks, and models that cannot be fitted to them."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from tests.distributed.blocks import as_dask
from vicinal import distributed
from vicinal.distributed import predict
from vicinal.ensemble import (
    BootstrapEnsembleClassifier,
    FunctionalGradientBoostingClassifier,
    PrunedTreeClassifier,
    RealAdaBoostClassifier,
)
from vicinal.local import AnchoredLocalClassifier, LocalClassifier
from vicinal.uncertainty import LocallyAdaptiveClassifier

FIXED = {"n_neighbors": 25, "alpha": 0.5, "random_state": 0}


@pytest.fixture(scope="module")
def table():
    """Three named classes."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(170, 3)) * [1.0, 20.0, 0.1]
    angle = np.arctan2(X[:, 0], X[:, 1] / 20.0) + 0.3 * rng.normal(size=170)
    return X, np.array(["ash", "elm", "oak"])[np.digitize(angle, [-1.0, 1.0])]


@pytest.mark.parametrize(
    "model",
    [
        LocalClassifier(**FIXED),
        AnchoredLocalClassifier(8, **FIXED),
        LocallyAdaptiveClassifier(),
        BootstrapEnsembleClassifier(),
        FunctionalGradientBoostingClassifier(),
        PrunedTreeClassifier(),
        RealAdaBoostClassifier(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_without_a_fit_by_blocks_name_the_remedy(table, model):
    X, y = table
    with pytest.raises(
        TypeError, match=f"{type(model).__name__} cannot .* sample of the rows in memory"
    ):
        distributed.fit(model, as_dask(X, 100), as_dask(y, 100))


def test_blocks_without_rows_give_empty_predictions():
    table = pd.DataFrame({"a": np.arange(20.0), "b": np.arange(20.0) % 3})
    model = Ridge().fit(table, table["a"])
    lazy = dd.from_pandas(table, npartitions=4)
    found = predict(model, lazy[lazy["a"] < 7.0])
    assert_allclose(found.compute(), model.predict(table[:7]))
