"""What a user with strict type checks writes; checked by `test_typing.py`, never run."""

from pathlib import Path

import numpy as np

from vicinal import LocalClassifier, TruncatedRBFClassifier
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.datasets import make_xor
from vicinal.ensemble import BootstrapEnsembleRegressor
from vicinal.inspection import check, compare, explain
from vicinal.io import info, load, save
from vicinal.local import LocalRegressor, LoessRegressor
from vicinal.partition import SpacePartitioningClassifier
from vicinal.subspace import DivideConquerSVC
from vicinal.surface import DecisionSurface
from vicinal.table import TableEncoder
from vicinal.uncertainty import ConformalRegressor, uncertainty_map


def classify(path: Path) -> np.ndarray:
    X, y = make_xor(200, random_state=0)
    model: AutoClassifier = AutoClassifier(random_state=0).fit(X, y)
    save(model, path)
    explanation = explain(load(path), X[:1])
    print(explanation.headline(), model.leaderboard(), info(path).versions, uncertainty_map(X, y))
    surface = DecisionSurface(LocalClassifier(n_neighbors=40).fit(X, y)).fit(X)
    print(surface.distance(X), TruncatedRBFClassifier().fit(X, y).predict(X))
    probability: np.ndarray = SpacePartitioningClassifier().fit(X, y).predict_proba(X)
    return probability


def regress(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    encoded = TableEncoder().fit(X, y).transform(X)
    models = {"auto": AutoRegressor(), "local": LocalRegressor(n_neighbors=20)}
    curve = LoessRegressor(span=0.3).fit(encoded, y)
    interval: np.ndarray = ConformalRegressor(curve).fit(X, y).predict_interval(X, coverage=0.9)
    print(check(X, y), interval, BootstrapEnsembleRegressor().fit(X, y).predict(X))
    print(DivideConquerSVC().fit(X, y > 0).predict(X))
    print(compare(models, X, y))
    return interval
