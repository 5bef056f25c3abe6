"""Inspect wheel and source archive, and fit a first model in a bare environment of each.

``python tests/install/distribution.py dist`` fails on a missing or superfluous file, on a version
that is not that of the sources, on a wheel of more than 3 MB, on links that a package index cannot
follow, and where the core dependencies, at their newest or lowest versions, are not enough.
"""

import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

from floor import floors

ROOT = Path(__file__).parents[2]
LARGEST_WHEEL = 3_000_000  # bytes, without pretrained weights
WEIGHTS = ".npz"
FIRST_MODEL = """
import vicinal
from sklearn.datasets import load_wine
X, y = load_wine(return_X_y=True)
print(vicinal.__version__, vicinal.AutoClassifier(random_state=0).fit(X, y).score_ > 0.9)
"""


def committed():
    """Return the files that git knows."""
    lines = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True)
    return set(lines.splitlines())


def differences(archive):
    """Return the names that the archive has too much or too few."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            found = {name for name in wheel.namelist() if ".dist-info/" not in name}
        inside = [name for name in committed() if name.startswith("src/")]
        return found ^ {name.removeprefix("src/") for name in inside}
    with tarfile.open(archive) as sources:
        found = {name.partition("/")[2] for name in sources.getnames()}
    return found ^ (committed() | {"PKG-INFO"})


def check_wheel(archive):
    """Check size and description of a wheel."""
    with zipfile.ZipFile(archive) as wheel:
        files = [file for file in wheel.infolist() if not file.filename.endswith(WEIGHTS)]
        size = sum(file.compress_size for file in files)
        name = next(name for name in wheel.namelist() if name.endswith("METADATA"))
        links = re.findall(r"\]\(([^)]*)\)", wheel.read(name).decode())
    assert size <= LARGEST_WHEEL, f"{archive.name}: {size} bytes without weights"
    relative = [link for link in links if not link.startswith(("https://", "#"))]
    assert links, "the wheel has no description"
    assert not relative, f"links that a package index cannot follow: {relative}"


def first_model(archive, constraints):
    """Return what the first model prints where nothing but the archive was installed."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        versions = Path(folder) / "constraints.txt"
        versions.write_text("\n".join(f"{name}=={version}" for name, version in constraints))
        install = [python, "-m", "pip", "install", "--quiet", "--constraint", versions]
        subprocess.check_call([*install, archive.resolve()])
        command = [python, "-W", "error", "-c", FIRST_MODEL]
        return subprocess.check_output(command, cwd=folder, text=True).strip()


def main(folder):
    archives = sorted(Path(folder).iterdir())
    assert [path.name.split("-")[0] for path in archives] == ["vicinal"] * 2, archives
    version = archives[0].name.split("-")[1]
    lowest = floors(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])
    for archive in archives:
        wrong = sorted(differences(archive))
        assert not wrong, f"{archive.name}: too much or too few: {wrong}"
        if archive.suffix == ".whl":
            check_wheel(archive)
        # The lowest versions have wheels for the lowest Python only.
        ends = {"newest": {}}
        if archive.suffix == ".whl" and sys.version_info[:2] == (3, 11):
            ends["lowest"] = lowest
        for end, constraints in ends.items():
            printed = first_model(archive, constraints.items())
            assert printed == f"{version} True", f"{archive.name}: {printed}"
            print(f"{archive.name}: files are right, and so is the first model at {end} versions")


if __name__ == "__main__":
    main(sys.argv[1])
