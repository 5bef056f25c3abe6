"""The container: its file names what exists, and its script serves what the variables say."""

import re
import runpy
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from vicinal.io import save
from vicinal.table import TableEncoder

pytest.importorskip("uvicorn")
ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
KNOWN = {"FROM", "COPY", "RUN", "USER", "ENV", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL", "CMD"}


def instructions():
    text = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [line.split(maxsplit=1) for line in lines]


def test_the_file_copies_what_exists_and_is_not_ignored():
    found = instructions()
    assert {name for name, _ in found} == KNOWN
    allowed = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    allowed = [line[1:] for line in allowed if line.startswith("!")]
    assert all((ROOT / name).exists() for name in allowed)
    for name, rest in found:
        source = rest.split()[0]
        if name == "COPY" and not source.startswith("--from"):
            assert (ROOT / source).exists()
            assert source == "." or any(fnmatch(source, f"{part}*") for part in allowed)
    extra = re.search(r'"/source\[(\w+)\]"', (DOCKER / "Dockerfile").read_text())
    assert f"\n{extra[1]} = [" in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("has_table", [True, False])
def test_the_script_serves_the_model_of_the_variables(tmp_path, monkeypatch, has_table):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"age": np.arange(20.0, 60.0), "city": ["Rome", "Oslo"] * 20})
    y = np.where(table["age"] > 40, "old", "young")
    model = make_pipeline(TableEncoder(), LogisticRegression()).fit(table, y)
    save(model, tmp_path / "model.vicinal", metadata={"target": "grown"})
    table.assign(grown=y).to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.setenv("VICINAL_MODEL", str(tmp_path / "model.vicinal"))
    monkeypatch.setenv("VICINAL_TOKEN", "s3cret")
    monkeypatch.setenv("VICINAL_TABLE", str(tmp_path / "rows.csv") if has_table else "")
    found = {}
    monkeypatch.setattr("vicinal.serve.serve", lambda model, **options: found.update(options))
    runpy.run_path(str(DOCKER / "serve.py"), run_name="__main__")
    assert (found["token"], found["target"]) == ("s3cret", "grown")
    assert (found["table"] is not None) == has_table
    assert not has_table or found["y"].tolist() == y.tolist()
    page = (ROOT / "docs" / "guide" / "deployment.md").read_text()
    named = set(re.findall(r"VICINAL_\w+", (DOCKER / "serve.py").read_text()))
    assert named == set(re.findall(r"\| `(VICINAL_\w+)`", page))
