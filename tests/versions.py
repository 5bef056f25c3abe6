"""Versions of scikit-learn that cannot do what a test needs."""

import pytest
import sklearn
from sklearn.utils.fixes import parse_version


def is_older_sklearn(version):
    """Return whether an older scikit-learn than this is installed."""
    return parse_version(sklearn.__version__) < parse_version(version)


def needs_sklearn(version, why):
    """Return a mark that skips a test, or a case of it, with older versions."""
    return pytest.mark.skipif(is_older_sklearn(version), reason=f"scikit-learn {version}: {why}")
