import pytest


@pytest.fixture(autouse=True)
def few_explained_rows(monkeypatch):
    """Pages explain two rows; the number is not what these tests are about."""
    training = pytest.importorskip("vicinal.cli._training")
    monkeypatch.setattr(training, "_EXPLAINED_ROWS", 2)
