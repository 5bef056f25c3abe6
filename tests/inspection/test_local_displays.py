"""The picture of the choice of a local model."""

import matplotlib as mpl
import numpy as np
import pytest

from vicinal.inspection import LocalChoiceDisplay
from vicinal.local import LocalRegressor

mpl.use("Agg")


def test_lines_are_the_losses_by_size(rng):
    X = rng.uniform(size=(60, 2))
    model = LocalRegressor(degree=1, random_state=0).fit(X, np.sin(4 * X[:, 0]))
    display = LocalChoiceDisplay.from_estimator(model)
    drawn = np.concatenate([line.get_ydata() for line in display.lines_])
    np.testing.assert_allclose(np.sort(drawn), np.sort(model.selection_["loss"]))
    size, loss = display.point_.get_xydata()[0]
    assert size == model.n_neighbors_
    assert loss == model.loo_score_


def test_a_model_without_a_path_is_an_error(rng):
    X = rng.uniform(size=(60, 2))
    model = LocalRegressor(n_neighbors=20, degree=1, alpha=0.1).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="nothing was left open"):
        LocalChoiceDisplay.from_estimator(model)
