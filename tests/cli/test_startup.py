"""Commands that need no model start without the packages that models need."""

import subprocess
import sys
from dataclasses import asdict

import pytest
from sklearn.linear_model import LogisticRegression

from vicinal.io import ModelFileError, save

pytest.importorskip("typer")

HEAVY = ("sklearn", "numba", "scipy", "polars", "pandas")
SCRIPT = """
import sys
from vicinal.cli._app import run
code = run(sys.argv[2:])
print("code", code, [name for name in sys.argv[1].split() if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["info", "model.vicinal"], 0),
        (["--help"], 0),
        (["info", "no.vicinal"], 2),
        (["predict", "no.vicinal", "no.csv"], 2),
        (["check", "no.csv"], 2),
        (["compare", "no.csv", "--target", "y"], 2),
        (["serve", "model.vicinal", "--table", "no.csv"], 2),
        (["export", "model.vicinal", "model.onnx", "--table", "no.csv"], 2),
    ],
)
def test_light_commands_import_no_heavy_package(tmp_path, arguments, code):
    save(LogisticRegression().fit([[0.0], [1.0]], [0, 1]), tmp_path / "model.vicinal")
    command = [sys.executable, "-c", SCRIPT, " ".join(HEAVY), *arguments]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == f"code {code} []"


def test_a_malformed_threshold_is_one_error(tmp_path):
    from vicinal.cli._threshold import Threshold

    for stored in ("x", [1], {"positive": "a"}, {"positive": "a", "value": "b", "cost": 1.0}):
        with pytest.raises(ModelFileError, match="the threshold .* must have the entries"):
            Threshold.of({"threshold": stored})
    kept = {"positive": "a", "value": 0.25, "cost": 3.0}
    assert asdict(Threshold.of({"threshold": kept})) == kept
