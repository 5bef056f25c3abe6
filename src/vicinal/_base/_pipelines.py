"""What the last step of a pipeline can do beyond scikit-learn's methods."""

from typing import Any

from sklearn.pipeline import Pipeline


def can(model: Any, method: str) -> bool:
    """Tell whether a model, or the last step behind its transformers, has a method."""
    return hasattr(model, method) or (
        isinstance(model, Pipeline) and can(model.steps[-1][1], method)
    )


def ask(model: Any, method: str, X: Any, **options: Any) -> Any:
    """Call a method of a model, or of the last step behind its transformers."""
    if isinstance(model, Pipeline) and not hasattr(model, method):
        return ask(model.steps[-1][1], method, model[:-1].transform(X), **options)
    return getattr(model, method)(X, **options)
