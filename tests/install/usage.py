"""What a user with strict type checks writes; checked by `make typecheck`, never run."""

from pathlib import Path
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

from vicinal import (
    AutoClassifier,
    AutoRegressor,
    ConformalRegressor,
    DecisionSurface,
    LocalClassifier,
    LoessRegressor,
)
from vicinal.datasets import make_xor
from vicinal.inspection import check, compare, explain
from vicinal.inspection.results import Comparison
from vicinal.io import info, load, save
from vicinal.uncertainty import uncertainty_map


def classify(path: Path) -> NDArray[np.float64]:
    X, y = make_xor(200, random_state=0)
    model = AutoClassifier(random_state=0).fit(X, y)
    save(model, path)
    explanation = explain(load(path), X[:1])
    print(explanation.headline(), model.leaderboard(), info(path).versions, uncertainty_map(X, y))
    surface = DecisionSurface(LocalClassifier(n_neighbors=40).fit(X, y)).fit(X)
    distance: NDArray[np.float64] = surface.distance(X)
    return distance


def regress(X: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    curve = LoessRegressor(span=0.3).fit(X, y)
    interval = ConformalRegressor(curve).fit(X, y).predict_interval(X, coverage=0.9)
    print(check(X, y), interval)
    board = compare({"auto": AutoRegressor(), "curve": LoessRegressor()}, X, y)
    assert_type(board, Comparison)
    return str(board)
