"""Every public estimator of the library, found by walking its public packages."""

import pkgutil
from importlib import import_module

from sklearn.base import BaseEstimator

import vicinal


def public_packages():
    """The importable packages of the library whose names do not start with an underscore."""
    for info in pkgutil.iter_modules(vicinal.__path__):
        if info.ispkg and not info.name.startswith("_"):
            yield import_module(f"vicinal.{info.name}")


def public_estimators():
    """Classes named in a public package's ``__all__`` that are scikit-learn estimators."""
    found = {}
    for package in public_packages():
        for name in getattr(package, "__all__", ()):
            member = getattr(package, name)
            if isinstance(member, type) and issubclass(member, BaseEstimator):
                found[name] = member
    return found
