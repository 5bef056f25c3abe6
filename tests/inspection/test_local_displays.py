"""The picture of the automatic choice."""

import matplotlib as mpl
import numpy as np
import pytest

from vicinal.inspection import LocalChoiceDisplay
from vicinal.local import LocalRegressor

mpl.use("Agg")


def test_bars_are_the_weights(rng):
    X = rng.uniform(size=(60, 2))
    model = LocalRegressor(random_state=0).fit(X, np.sin(4 * X[:, 0]))
    display = LocalChoiceDisplay.from_estimator(model)
    widths = [bar.get_width() for bar in display.bars_]
    np.testing.assert_allclose(widths, model.selection_["weight"])
    assert len(display.ax_.get_yticklabels()) == len(widths)


def test_a_model_without_a_path_is_an_error(rng):
    X = rng.uniform(size=(60, 2))
    model = LocalRegressor(metric="standardized").fit(X, X[:, 0])
    with pytest.raises(ValueError, match='fit it with metric="auto"'):
        LocalChoiceDisplay.from_estimator(model)
