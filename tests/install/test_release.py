"""Version, citation and changelog name one release, and floors are consistent."""

import re
import tomllib
from pathlib import Path

import pytest
from tests.install.floor import floors

import vicinal

ROOT = Path(__file__).parents[2]


def test_changelog_and_citation_name_this_version():
    heading = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    release, _, unreleased = vicinal.__version__.partition(".dev")
    date = r"\d{4}-\d{2}-\d{2}"
    expected = rf"Unreleased \({release}\)" if unreleased else rf"{release} \({date}\)"
    assert re.fullmatch(expected, heading)
    assert f"\nversion: {vicinal.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_floors_cover_the_core_and_every_extra_of_users():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = floors(project)
    for extra in re.search(r"\[(.*)\]", project["optional-dependencies"]["all"][0])[1].split(","):
        for requirement in project["optional-dependencies"][extra]:
            name = re.match(r"[\w-]+", requirement)[0]
            assert name in found or name in ("torch", "vicinal")
    assert set(found) >= {"numpy", "scipy", "scikit-learn"}


def test_two_floors_of_one_package_are_refused():
    project = {
        "name": "vicinal",
        "dependencies": ["numpy>=2.3"],
        "optional-dependencies": {"a": ["pyarrow>=17"], "b": ["pyarrow>=18"]},
    }
    with pytest.raises(ValueError, match="pyarrow has two floors"):
        floors(project)
