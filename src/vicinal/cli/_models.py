"""Models by the names that users type, and functions to compile ahead."""

import ast
import re
from collections.abc import Callable
from typing import Any

import vicinal
from vicinal.cli._show import InputError, quoted, similar

# Larger tables need compiled functions.
COMPILED_FROM = 340

# Estimators that need other models as parameters.
_NEED_MODELS = ("BayesianModelAveraging", "Conformal", "SurfaceCalibrated")


def pick(models: dict[str, Any], wanted: str) -> dict[str, Any]:
    """Keep the models of a comma-separated list, in the order of ``models``."""
    names = [match(part, list(models)) for part in wanted.split(",") if part.strip()]
    if not names:
        raise InputError(f"--models {wanted!r} names no model; choose from {quoted([*models], 20)}")
    return {name: model for name, model in models.items() if name in names}


def match(wanted: str, names: list[str]) -> str:
    """Find a name: case, spaces, dashes and Classifier/Regressor are ignored, a part is enough."""
    plain = {_plain(name): name for name in names}
    key = _plain(wanted)
    if key in plain:
        return plain[key]
    found = [name for short, name in plain.items() if key and key in short]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(
            f"the model {wanted.strip()!r} could be {quoted(found)}; give more of the name"
        )
    hint = similar(wanted, names, _plain) or f"choose from {quoted(names, 40)}"
    raise InputError(f"no model is called {wanted.strip()!r}; {hint}")


def one_model(wanted: str, task: str, seed: int, settings: list[str]) -> tuple[str, Any]:
    """Return a name and an unfitted model with its settings made."""
    from vicinal.inspection.candidates import candidate_models

    models = {**_estimators(task, seed), **candidate_models(task, random_state=seed)}
    name = match(wanted, list(models))
    model = models[name]
    for setting in settings:
        _set(model, name, setting)
    return name, model


def _estimators(task: str, seed: int) -> dict[str, Any]:
    """Return every estimator of the library that fits the task, with its defaults."""
    from sklearn.base import is_classifier, is_regressor

    fits = is_classifier if task == "classification" else is_regressor
    found = {}
    for name in vicinal.__all__:
        is_predictor = name.endswith(("Classifier", "Regressor", "SVC"))
        if not is_predictor or name.startswith(_NEED_MODELS):
            continue
        model = getattr(vicinal, name)()
        if fits(model):
            seeded = "random_state" in model.get_params()
            found[name] = model.set_params(random_state=seed) if seeded else model
    return found


def _set(model, name, setting) -> None:
    key, equals, text = setting.partition("=")
    if not equals:
        raise InputError(f"--set {setting!r} must read key=value")
    params = model.get_params()
    own = [param for param in params if param == key or param.endswith(f"__{key}")]
    if not own:
        from vicinal._base import last_step

        close = sorted(last_step(model).get_params(deep=False))
        raise InputError(f"{name} has no parameter {key!r}; it has {quoted(close, 30)}")
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = {"true": True, "false": False, "none": None}.get(text.lower(), text)
    model.set_params(**{own[0]: value})


def _plain(name: str) -> str:
    return re.sub("(?<=.)(classifier|regressor)$", "", re.sub("[^a-z0-9]", "", name.lower()))


def compiling_steps() -> dict[str, Callable[[], Any]]:
    """Return fits and searches, by name, that compile the functions of the default models."""
    import numpy as np

    from vicinal.auto import AutoClassifier
    from vicinal.neighbors import NeighborSearch

    rng = np.random.RandomState(0)
    X = rng.normal(size=(COMPILED_FROM, 4))
    number = X[:, 0] + 0.3 * rng.normal(size=len(X))
    # The families that are compiled; regression uses the same functions.
    compiled = AutoClassifier(["local", "gradient", "linear"], random_state=0)
    linear = AutoClassifier(["linear"], random_state=0)
    return {
        "search in trees": lambda: NeighborSearch(algorithm="tree").fit(X).kneighbors(X),
        "two classes": lambda: compiled.fit(X, number > 0.0).predict(X),
        "more classes": lambda: linear.fit(X, np.digitize(number, [-0.5, 0.5])).predict(X),
    }
