"""Docstrings of parameters and attributes that several estimators share."""

import inspect
import re
from collections.abc import Callable
from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin

# Default entries of arguments; the type of X is the one that ``fit`` documents.
_ARGUMENTS = {
    "X": "X : array-like of shape (n_samples, n_features)\n    Training rows.",
    "y": "y : array-like of shape (n_samples,)\n    Targets.",
    "sample_weight": "sample_weight : array-like of shape (n_samples,), default=None\n"
    "    How often each row counts; rows of weight 0 are removed.",
    "groups": "groups : array-like of shape (n_samples,), default=None\n"
    "    Rows of the same group are held out together.",
    "blocks": "blocks : Blocks\n    The table, as :func:`vicinal.distributed.fit` hands it over.",
    "rows": "rows : array-like of int\n    Training rows, counted from 0.",
    "ax": "ax : matplotlib Axes, default=None\n    Axes to plot on; ``None`` makes a figure.",
    "label": "label : object, default=None\n"
    "    Class; ``None`` is the second of two classes, else the first one.",
    "input_features": "input_features : array-like of str, default=None\n"
    "    Names of the columns, if not those seen in ``fit``.",
    "plot_options": "**plot_options : dict\n    Options of :meth:`plot`.",
    "verbose": "verbose : int, default=0\n    Show progress.",
}
_CLASSIFIER_ARGUMENTS = {"y": "y : array-like of shape (n_samples,)\n    Class labels."}
_RETURNS = {
    "fit": "self : object\n    Fitted estimator.",
    "fit_blocks": "self : object\n    Fitted estimator.",
    "partial_fit": "self : object\n    Fitted estimator.",
    "predict": "ndarray of shape (n_samples,) or (n_samples, n_outputs)\n    Predicted values.",
    "predict_proba": "ndarray of shape (n_samples, n_classes)\n"
    "    Class probabilities; rows sum to one.",
    "predict_log_proba": "ndarray of shape (n_samples, n_classes)\n"
    "    Logarithms of the class probabilities.",
    "decision_function": "ndarray of shape (n_samples,) or (n_samples, n_classes)\n"
    "    Scores, for two classes of the second one.",
    "transform": "ndarray of shape (n_samples, n_components)\n    Transformed rows.",
    "fit_transform": "ndarray of shape (n_samples, n_components)\n    Transformed rows.",
    "get_feature_names_out": "ndarray of str\n    Names of the columns of the output.",
    "plot": "self : object\n    The same object, with its artists.",
    "from_": "display : object\n    The plotted figure and its data.",  # of every method from_...
}
_CLASSIFIER_RETURNS = {"predict": "ndarray of shape (n_samples,)\n    Class labels."}
_ATTRIBUTES = {
    "classes_": "classes_ : ndarray of shape (n_classes,)\n    Class labels.",
    "n_features_in_": "n_features_in_ : int\n    Number of columns seen in ``fit``.",
    "feature_names_in_": "feature_names_in_ : ndarray of shape (`n_features_in_`,)\n"
    "    Their names, when X has string names.",
}

_ORDER = (
    "", "Parameters", "Attributes", "Returns", "Yields", "Raises", "See Also", "Notes",
    "References", "Examples",
)  # fmt: skip
_TITLE = re.compile(r"^(\S.*)\n-{3,}$\n?", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}\w+)(?=$| *[:,]).*(?:\n+(?: +.*))*", re.MULTILINE)


def documented(cls: type) -> type:
    """Complete the docstrings of a class and of its public methods.

    A parameter without an entry gets the entry of the nearest base class that has one, else the one
    in the tables above; entries follow the order of the signature. A method without a ``Returns``
    section gets the default of its name. Attributes of base classes, ``n_features_in_``,
    ``feature_names_in_`` and a classifier's ``classes_`` are added, and a class without notes or
    references gets those of its base class.
    """
    is_classifier = issubclass(cls, ClassifierMixin)
    if cls.__doc__:
        cls.__doc__ = _complete_class(cls, is_classifier)
    arguments = {**_ARGUMENTS, **(_CLASSIFIER_ARGUMENTS if is_classifier else {})}
    returns = {**_RETURNS, **(_CLASSIFIER_RETURNS if is_classifier else {})}
    # ``fit`` first: it documents the type of X.
    for name in sorted(vars(cls), key=lambda name: name != "fit"):
        function = _function(vars(cls)[name])
        if name.startswith("_") or function is None or not function.__doc__:
            continue
        trains = name in ("fit", "partial_fit")
        known = arguments if trains else {**arguments, "X": _queries(cls)}
        function.__doc__ = _complete_method(cls, name, function, known, returns)
    return cls


def _queries(cls: type) -> str:
    """Return the entry of query rows, of the type that ``fit`` documents for training rows."""
    fit = _function(getattr(cls, "fit", None))
    kind, _, _ = _entries(fit, "Parameters").get("X", _ARGUMENTS["X"]).partition("\n")
    return f"{kind}\n    Queries."


def _complete_class(cls: type, is_classifier: bool) -> str:
    sections = _sections(cls.__doc__)
    own = [base for base in cls.__mro__ if not base.__module__.startswith("sklearn.")]
    if issubclass(cls, BaseEstimator):
        known = [_entries(base, "Parameters") for base in own] + [_ARGUMENTS]
        names = list(inspect.signature(cls).parameters)
        _write(sections, "Parameters", _pick(names, known))
    known = [_entries(base, "Attributes") for base in own]
    first = ["classes_"] if is_classifier else []
    last = ["n_features_in_", "feature_names_in_"] if hasattr(cls, "fit") else []
    middle = [name for entries in known for name in entries if name not in (*first, *last)]
    names = [*first, *middle, *last]
    _write(sections, "Attributes", _pick(names, [*known, _ATTRIBUTES]))
    for title in ("Notes", "References"):
        known_texts = (_sections(vars(base).get("__doc__")).get(title) for base in own)
        _write(sections, title, [text for text in known_texts if text][:1])
    return _joined(sections)


def _complete_method(
    cls: type, name: str, function: Callable, arguments: dict[str, str], returns: dict[str, str]
) -> str:
    sections = _sections(function.__doc__)
    bases = [_function(vars(base).get(name)) for base in cls.__mro__[1:]]
    known = [_entries(one, "Parameters") for one in (function, *bases)] + [arguments]
    names = list(inspect.signature(function).parameters)[1:]
    _write(sections, "Parameters", _pick(names, known))
    if not {"Returns", "Yields"} & set(sections):
        found = [_sections(one.__doc__).get("Returns") for one in bases if one is not None]
        found.append(returns.get("from_" if name.startswith("from_") else name))
        _write(sections, "Returns", [text for text in found if text][:1])
    return _joined(sections)


def _pick(names: list[str], known: list[dict[str, str]]) -> list[str]:
    """Return the first known entry of every name; one entry may document two names."""
    found = (next((entries[n] for entries in known if n in entries), None) for n in names)
    return list(dict.fromkeys(entry for entry in found if entry))


def _function(method: Any) -> Callable | None:
    """Return the function of a method, a class method or one made by ``available_if``."""
    method = getattr(method, "fn", getattr(method, "__func__", method))
    return method if inspect.isfunction(method) else None


def _sections(doc: str | None) -> dict[str, str]:
    """Return the text under each title; the text before the first has the title ``""``."""
    parts = _TITLE.split(inspect.cleandoc(doc or ""))
    return {
        title: text.strip("\n") for title, text in zip(["", *parts[1::2]], parts[::2], strict=True)
    }


def _entries(documented: Any, title: str) -> dict[str, str]:
    """Return the entries of a section by name, those of a class from its own docstring."""
    if documented is None:
        return {}
    doc = vars(documented).get("__doc__") if isinstance(documented, type) else documented.__doc__
    found = {}
    for match in _ENTRY.finditer(_sections(doc).get(title, "")):
        for name in match[0].split("\n")[0].split(" : ")[0].split(", "):
            found[name.lstrip("*")] = match[0].rstrip()
    return found


def _write(sections: dict[str, str], title: str, entries: list[str]) -> None:
    if entries:
        sections[title] = "\n".join(entries)


def _joined(sections: dict[str, str]) -> str:
    parts = [
        f"{title}\n{'-' * len(title)}\n{sections[title]}" if title else sections[title]
        for title in sorted(sections, key=_ORDER.index)
    ]
    return "\n\n".join(parts) + "\n"
