"""Look into wheel and source archive, and make the first call in a bare environment of each.

``python tests/install/distribution.py dist`` fails on a file too much or too few, on a version that
is not that of the sources, and where the core dependencies alone are not enough.
"""

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIRST_CALL = """
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


def first_call(archive):
    """Return what the first call prints where nothing but the archive was installed."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        subprocess.check_call([python, "-m", "pip", "install", "--quiet", archive.resolve()])
        command = [python, "-W", "error", "-c", FIRST_CALL]
        return subprocess.check_output(command, cwd=folder, text=True).strip()


def main(folder):
    archives = sorted(Path(folder).iterdir())
    assert [path.name.split("-")[0] for path in archives] == ["vicinal"] * 2, archives
    version = archives[0].name.split("-")[1]
    for archive in archives:
        wrong, said = sorted(differences(archive)), first_call(archive)
        assert not wrong, f"{archive.name}: too much or too few: {wrong}"
        assert said == f"{version} True", f"{archive.name}: {said}"
        print(f"{archive.name}: files and first call are right")


if __name__ == "__main__":
    main(sys.argv[1])
