import pytest

from vicinal._base import _clock


@pytest.fixture(autouse=True)
def still_clock(monkeypatch):
    """No time passes, so that a busy machine leaves nothing out of a report."""
    monkeypatch.setattr(_clock, "now", lambda: 0.0)
