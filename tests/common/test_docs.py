"""Docstrings, completed by ``vicinal._base.documented``, say everything a reader needs."""

import inspect
import re

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from tests.common.discovery import public_estimators
from vicinal import inspection
from vicinal._base import documented

ESTIMATORS = public_estimators()
DISPLAYS = {name: getattr(inspection, name) for name in inspection.__all__ if "Display" in name}


def section(doc, title):
    """The lines of one section of a docstring."""
    found = re.search(
        rf"^{title}\n-+\n(.*?)(?=\n\n\S.*\n---|\Z)", inspect.cleandoc(doc), re.S | re.M
    )
    return found[1].split("\n") if found else []


def heads(doc, title):
    """Name and kind of the entries of a section."""
    lines = [line for line in section(doc, title) if line and not line.startswith(" ")]
    return {
        name.lstrip("*"): line.partition(" : ")[2]
        for line in lines
        for name in line.partition(" : ")[0].split(", ")
    }


def public_methods(estimator):
    for name in dir(estimator):
        method = inspect.getattr_static(estimator, name)
        function = getattr(method, "fn", getattr(method, "__func__", method))
        own = inspect.isfunction(function) and function.__module__.startswith("vicinal.")
        if own and not name.startswith("_"):
            yield name, function


def value_of(text):
    """The default that a docstring states."""
    try:
        return eval(text, {"inf": np.inf})
    except (NameError, SyntaxError):
        return text


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_is_described_in_order_with_its_default(name):
    estimator = ESTIMATORS[name]
    described = heads(estimator.__doc__, "Parameters")
    signature = inspect.signature(estimator).parameters
    assert list(described) == list(signature)
    for parameter, kind in described.items():
        stated = re.search(r"default=(.+)$", kind)
        expected = signature[parameter].default
        assert (stated is None) == (expected is inspect.Parameter.empty), parameter
        if stated:
            assert value_of(stated[1]) == expected, parameter


@pytest.mark.parametrize("name", [*ESTIMATORS, *DISPLAYS])
def test_every_method_describes_what_it_takes_and_returns(name):
    for method, function in public_methods({**ESTIMATORS, **DISPLAYS}[name]):
        doc = inspect.getdoc(function)
        assert doc, method
        assert list(heads(doc, "Parameters")) == list(inspect.signature(function).parameters)[1:], (
            method
        )
        assert section(doc, "Returns") or section(doc, "Yields"), method


@pytest.mark.parametrize("name", ESTIMATORS)
def test_attributes_common_to_all_are_described(name):
    described = heads(ESTIMATORS[name].__doc__, "Attributes")
    assert {"n_features_in_", "feature_names_in_"} <= set(described)
    assert "classes_" in described or not issubclass(ESTIMATORS[name], ClassifierMixin)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_attribute_that_is_learned_is_described(name):
    own = [base for base in ESTIMATORS[name].__mro__ if base.__module__.startswith("vicinal.")]
    source = "\n".join(map(inspect.getsource, own))
    learned = set(re.findall(r"\bself\.([a-z]\w*_)(?=(?:, self\.\w+)*(?:: [^=\n]+)? = )", source))
    assert learned <= set(heads(ESTIMATORS[name].__doc__, "Attributes"))


@pytest.mark.parametrize("name", DISPLAYS)
def test_displays_describe_their_axes(name):
    assert {"ax_", "figure_"} <= set(heads(DISPLAYS[name].__doc__, "Attributes"))


def test_what_is_not_written_comes_from_the_base_class_then_from_the_table():
    class Base(BaseEstimator):
        """A base.

        Parameters
        ----------
        size : int, default=1
            How large.
        shape : str, default="round"
            Not taken by all.

        Attributes
        ----------
        size_ : int
            Size in use.

        References
        ----------
        .. [1] A book.
        """

        def fit(self, X, y):
            """Fit."""

    class Model(ClassifierMixin, documented(Base)):
        """A model.

        Parameters
        ----------
        verbose : int, default=0
            Own words.

        Notes
        -----
        Kept.
        """

        def __init__(self, verbose=0, size=1):
            """Not looked at."""

        def predict(self, X):
            """Predict."""

        def decision_function(self, X, *, scale):
            """Score.

            Parameters
            ----------
            scale : float
                Unit.
            """

    documented(Model)
    assert Model.__doc__ == (
        "A model.\n\nParameters\n----------\n"
        "verbose : int, default=0\n    Own words.\n"
        "size : int, default=1\n    How large.\n\n"
        "Attributes\n----------\n"
        "classes_ : ndarray of shape (n_classes,)\n    Class labels.\n"
        "size_ : int\n    Size in use.\n"
        "n_features_in_ : int\n    Number of columns seen in ``fit``.\n"
        "feature_names_in_ : ndarray of shape (`n_features_in_`,)\n"
        "    Their names, when X has string names.\n\n"
        "Notes\n-----\nKept.\n\nReferences\n----------\n.. [1] A book.\n"
    )
    assert list(heads(Model.predict.__doc__, "Parameters")) == ["X"]
    assert "Class labels." in Model.predict.__doc__
    assert list(heads(Model.decision_function.__doc__, "Parameters")) == ["X", "scale"]
    before = Model.__doc__, Model.predict.__doc__
    documented(Model)
    assert (Model.__doc__, Model.predict.__doc__) == before
