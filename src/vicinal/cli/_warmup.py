"""Compile once what the default models need: for images, and before the first real table."""

import os
import time
from collections.abc import Callable
from typing import Any

import typer

# More rows than a table that needs nothing compiled.
COMPILED_FROM = 340


def warmup() -> None:
    """Compile what the default models need, so that later processes start warm.

    Small tables need nothing compiled; larger ones compile some functions in the first fit of an
    environment, about fifteen seconds, and find them in a folder from then on: beside the
    installed package, or where NUMBA_CACHE_DIR says. Run this while an image is built to have them
    there; with imports it takes some twenty seconds.
    """
    total = 0.0
    for name, step in compiling_steps().items():
        start = time.perf_counter()
        step()
        seconds = time.perf_counter() - start
        total += seconds
        typer.echo(f"{name:<16}{seconds:6.1f} s")
    typer.echo(f"{'together':<16}{total:6.1f} s")
    folder = os.environ.get("NUMBA_CACHE_DIR", "__pycache__ folders beside the sources")
    typer.echo(f"kept in {folder}")


def compiling_steps() -> dict[str, Callable[[], Any]]:
    """Return fits and searches, by name, that compile what the default models need."""
    import numpy as np

    from vicinal.auto import AutoClassifier
    from vicinal.neighbors import NeighborSearch

    rng = np.random.RandomState(0)
    X = rng.normal(size=(COMPILED_FROM, 4))
    number = X[:, 0] + 0.3 * rng.normal(size=len(X))
    # The members that are compiled; models of numbers run the same functions.
    compiled = AutoClassifier(["local", "gradient", "linear"], random_state=0)
    linear = AutoClassifier(["linear"], random_state=0)
    return {
        "search in trees": lambda: NeighborSearch(algorithm="tree").fit(X).kneighbors(X),
        "two classes": lambda: compiled.fit(X, number > 0.0).predict(X),
        "more classes": lambda: linear.fit(X, np.digitize(number, [-0.5, 0.5])).predict(X),
    }
