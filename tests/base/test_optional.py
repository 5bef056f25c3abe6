import pytest

from vicinal._base import import_optional


def test_present_package_is_returned():
    assert import_optional("numpy.linalg", needed_by="a test", extra="plot").norm


def test_missing_package_names_feature_package_and_extra():
    with pytest.raises(
        ImportError, match=r"Regions plot needs.*'no_such_package'.*vicinal\[plot\]"
    ):
        import_optional("no_such_package.sub", needed_by="Regions plot", extra="plot")
