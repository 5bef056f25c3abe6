"""Compile once what the default models need: for images, and before the first real table."""

import os
import time

import typer


def warmup() -> None:
    """Compile what the default models need, so that later processes start warm.

    Small tables need nothing compiled; larger ones compile some functions in the first fit of an
    environment, about twenty seconds, and find them in a folder from then on: beside the installed
    package, or where NUMBA_CACHE_DIR says. Run this while an image is built to have them there.
    """
    import numpy as np

    from vicinal.auto import AutoClassifier, AutoRegressor
    from vicinal.neighbors import NeighborSearch

    rng = np.random.RandomState(0)
    X = rng.normal(size=(340, 4))  # more rows than a table that needs nothing compiled
    number = X[:, 0] + 0.3 * rng.normal(size=len(X))
    label = (number > 0.0).astype(int)
    NeighborSearch(algorithm="tree").fit(X).kneighbors(X)  # for long tables of few columns
    models = {
        "AutoClassifier": (AutoClassifier(random_state=0), label),
        "AutoRegressor": (AutoRegressor(random_state=0), number),
    }
    total = 0.0
    for name, (model, y) in models.items():
        start = time.perf_counter()
        model.fit(X, y).predict(X)
        seconds = time.perf_counter() - start
        total += seconds
        typer.echo(f"{name:<16}{seconds:6.1f} s")
    typer.echo(f"{'together':<16}{total:6.1f} s")
    folder = os.environ.get("NUMBA_CACHE_DIR", "__pycache__ folders beside the sources")
    typer.echo(f"kept in {folder}")
