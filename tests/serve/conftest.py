import pytest


@pytest.fixture(autouse=True)
def keep_process_settings(monkeypatch):
    """Servers of tests share their process with the other tests, whose settings they keep."""
    app = pytest.importorskip("vicinal.serve._server")
    monkeypatch.setattr(app.sys, "setswitchinterval", lambda seconds: None)
    monkeypatch.setattr(app, "_freeze", lambda: None)  # may be called after the test
