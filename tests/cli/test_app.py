import subprocess
import sys

import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

from vicinal.cli._app import app
from vicinal.inspection import candidate_models


@pytest.fixture
def quick_models(monkeypatch):
    """Two baselines only: what the command does with models is the point here."""

    def few(task, *, random_state):
        models = candidate_models(task, random_state=random_state)
        return dict(list(models.items())[:2])

    monkeypatch.setattr("vicinal.cli._app.candidate_models", few)


@pytest.mark.parametrize("data", ["wine", "diabetes"])
def test_compare_prints_a_leaderboard_and_writes_the_report(quick_models, tmp_path, data):
    page = tmp_path / "report.html"
    result = CliRunner().invoke(
        app, ["compare", "--data", data, "--folds", "3", "--out", str(page)]
    )
    assert result.exit_code == 0, result.output
    assert "3-fold" in result.output
    assert page.exists()


def test_missing_folder_is_one_clear_line_before_any_work(tmp_path):
    result = CliRunner().invoke(app, ["compare", "--out", str(tmp_path / "no" / "page.html")])
    assert result.exit_code == 2
    assert "does not exist" in result.output


def test_without_its_extra_the_command_says_what_to_install():
    code = (
        "import sys, importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'typer' else find(name, *a)\n"
        "from vicinal.cli import main; main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.strip().endswith("pip install 'vicinal[cli]'")
