"""Which pages speak for code that has changed is found out, not remembered."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def stale(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "stale", raising=False)
    import stale

    return stale


@pytest.fixture
def history(stale, monkeypatch, tmp_path):
    """A folder with one commit of one source, which the module takes for the project."""
    source = tmp_path / "src" / "sums.py"
    source.parent.mkdir()
    source.write_text('def total(x):\n    """Add."""\n    return sum(x)\n')
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "sums"]):
        subprocess.run([*git, *command], check=True)
    for module in ("stale", "_harness"):
        monkeypatch.setattr(f"{module}.ROOT", tmp_path)
    return source


def test_words_about_the_code_are_not_code(stale):
    told = 'def f(x):\n    """Double."""\n    # by a product\n    return 2 * x\n'
    assert stale.code(told) == stale.code("def f(x):\n    return 2 * x\n")
    assert stale.code(told) != stale.code(told.replace("2 *", "3 *"))


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("from vicinal import LocalClassifier", "vicinal.local._classifiers"),
        ("from vicinal.local import LoessRegressor", "vicinal.local._regressors"),
        ("from vicinal import datasets", "vicinal.datasets"),
        ("from vicinal.io import (\n    load,\n    save,  # both\n)", "vicinal.io._model_file"),
        ('run("-c", "from vicinal.cli import main; main()")', "vicinal.cli"),
        ("import vicinal.auto", "vicinal.auto"),
        ("from _subspace import rows", "_subspace"),
    ],
)
def test_a_name_leads_to_the_module_that_holds_it(stale, text, module):
    assert module in stale.asked(text)


def test_a_benchmark_is_followed_to_its_kernels_and_not_to_its_neighbours(stale):
    names = {str(path) for path in stale.sources(BENCHMARKS / "bench_loess.py")}
    assert any(name.endswith("local/_regressors.py") for name in names)
    assert any("/_kernels/" in name for name in names)
    assert not any("/partition/" in name or "/serve/" in name for name in names)


def test_a_benchmark_that_names_no_module_runs_all_of_them(stale, tmp_path):
    script = tmp_path / "bench_toy.py"
    script.write_text('COMMAND = ["bin/vicinal", "fit"]\n')
    assert len(stale.sources(script)) > 200


def test_a_changed_number_is_found_and_a_changed_comment_is_not(stale, history):
    text = history.read_text()
    history.write_text(text.replace("Add.", "Add everything.") + "# that is all\n")
    assert stale.touched("HEAD") == set()
    stale.touched.cache_clear()
    history.write_text(text.replace("sum(x)", "sum(x) + 1"))
    assert stale.touched("HEAD") == {history}


def test_a_file_that_was_not_there_yet_is_a_change(stale, history):
    later = history.with_name("later.py")
    later.write_text("x = 1\n")
    subprocess.run(["git", "-C", str(later.parent), "add", "later.py"], check=True)
    assert stale.touched("HEAD") == {later}


def test_a_commit_that_is_not_there_is_an_error_and_not_no_change(stale, history):
    with pytest.raises(subprocess.CalledProcessError):
        stale.touched("0000000")
