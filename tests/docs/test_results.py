"""Pages of results are functions of stored cases, and speak for a commit."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"

SCRIPT = """
from _harness import ResultsPage

page = ResultsPage("toy", "A toy", "What is two and two?")
page.table(["sum"], [[page.case(("sum", 2), lambda: 2.0 + 2.0)]])
page.write()
"""


def run(script, folder, *options, commit="abc1234", **extra):
    environment = {
        **os.environ,
        "PYTHONPATH": str(BENCHMARKS),
        "VICINAL_COMMIT": commit,
        "VICINAL_CASES": str(folder / "cases"),
        "VICINAL_RESULTS": str(folder / "results"),
        **extra,
    }
    return subprocess.run(
        [sys.executable, str(script), *options], env=environment, capture_output=True, text=True
    )


@pytest.fixture
def toy(tmp_path):
    (tmp_path / "cases").mkdir()
    script = tmp_path / "bench_toy.py"
    script.write_text(SCRIPT)
    return script


def page_of(script):
    return (script.parent / "results" / "toy.md").read_text()


def test_a_page_names_the_commit_that_fed_it(toy):
    assert run(toy, toy.parent).returncode == 0
    page = page_of(toy)
    assert "- commit abc1234: 1 cases" in page
    assert "| 4 |" in page


def test_the_command_of_a_page_can_be_typed_as_it_stands(toy):
    run(toy, toy.parent, "--parts", "two words")
    assert "bench_toy.py --parts 'two words'`" in page_of(toy)


def test_a_page_is_rebuilt_byte_for_byte_without_running(toy):
    run(toy, toy.parent)
    before = page_of(toy)
    toy.write_text(SCRIPT.replace("2.0 + 2.0", "1 / 0"))
    assert run(toy, toy.parent, commit="other00", VICINAL_REBUILD="1").returncode == 0
    assert page_of(toy) == before


def test_a_changed_number_changes_the_page(toy):
    run(toy, toy.parent)
    before = page_of(toy)
    store = toy.parent / "cases" / "toy.jsonl"
    store.write_text(store.read_text().replace('"value":4.0', '"value":5.0'))
    run(toy, toy.parent, VICINAL_REBUILD="1")
    assert page_of(toy) != before


def test_commands_spread_over_sets_and_seeds_are_one(toy):
    run(toy, toy.parent)
    stored = toy.parent / "cases" / "toy.jsonl"
    lines = [json.loads(line) for line in stored.read_text().splitlines()]
    lines[0]["command"] = "python toy.py --sets wine letter --seeds 1 2 --parts 1000"
    stored.write_text("\n".join(map(json.dumps, lines)))
    run(toy, toy.parent, VICINAL_REBUILD="1")
    assert "- command: `python toy.py --sets ... --seeds ... --parts 1000`" in page_of(toy)


def test_cases_of_two_commits_are_two_lines(toy):
    run(toy, toy.parent)
    second = '[["product"], [[page.case(("product", 2), lambda: 6.0)]]]'
    toy.write_text(SCRIPT.replace("page.write()", f"page.table(*{second})\npage.write()"))
    run(toy, toy.parent, commit="def5678")
    page = page_of(toy)
    assert "- commit abc1234: 1 cases" in page
    assert "- commit def5678: 1 cases" in page


def test_uncommitted_sources_write_no_page_and_store_nothing(toy):
    drafts = BENCHMARKS / ".cache" / "toy.jsonl"
    try:
        done = run(toy, toy.parent, commit="abc1234-dirty")
        assert done.returncode != 0
        assert "uncommitted sources (abc1234-dirty)" in done.stderr
        assert not (toy.parent / "results" / "toy.md").exists()
        assert not list((toy.parent / "cases").iterdir())
    finally:
        drafts.unlink(missing_ok=True)


def test_a_missing_case_is_named_when_rebuilding(toy):
    done = run(toy, toy.parent, VICINAL_REBUILD="1")
    assert "the case ('sum', 2) was never run" in done.stderr


def test_numbers_that_are_not_cases_make_no_page(toy):
    toy.write_text(SCRIPT.replace('page.case(("sum", 2), lambda: 2.0 + 2.0)', "4.0"))
    done = run(toy, toy.parent)
    assert "none of its numbers is a stored case" in done.stderr


def test_every_stored_case_tells_its_circumstances():
    for path in sorted((BENCHMARKS / "cases").glob("*.jsonl")):
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        runs = {entry["run"]: entry for entry in entries if "run" in entry}
        for entry in entries:
            if "key" in entry:
                run_of = runs[entry["in"]]
                assert not run_of["commit"].endswith("-dirty"), (path.name, entry["key"])
                assert {"machine", "versions", "command", "date"} <= set(run_of)


def test_every_stored_case_names_a_commit_that_can_be_found():
    log = ["git", "-C", str(ROOT), "log", "--format=%h", "--abbrev=7"]
    found = set(subprocess.run(log, capture_output=True, text=True, check=False).stdout.split())
    if not found or (ROOT / ".git" / "shallow").exists():
        pytest.skip("needs the whole history: git fetch --unshallow")
    for path in sorted((BENCHMARKS / "cases").glob("*.jsonl")):
        entries = map(json.loads, path.read_text().splitlines())
        assert {entry["commit"] for entry in entries if "run" in entry} <= found, path.name


def test_every_page_with_stored_cases_is_what_they_say(tmp_path):
    # Data sets are not needed: a page that read one could not be built anywhere.
    nowhere = str(tmp_path / "no_data")
    environment = {**os.environ, "VICINAL_RESULTS": str(tmp_path), "VICINAL_DATA": nowhere}
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "rebuild.py")],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    rebuilt = sorted(tmp_path.glob("*.md"))
    assert rebuilt, done.stdout
    for page in rebuilt:
        assert page.read_text() == (ROOT / "docs" / "results" / page.name).read_text(), page.name


def test_the_index_has_no_empty_cell_and_every_page():
    index = (ROOT / "docs" / "results" / "index.md").read_text()
    rows = [line.strip("|").split("|") for line in index.splitlines() if line.startswith("|")]
    assert len(rows) > 60
    assert all(cell.strip() for row in rows for cell in row)
    pages = list((ROOT / "docs" / "results").glob("*.md"))
    assert len(pages) <= 19
    for page in pages:
        assert page.name == "index.md" or f"({page.name})" in index, page.name


def test_the_index_answers_how_accurate_how_slow_and_when_not_first():
    lines = (ROOT / "docs" / "results" / "index.md").read_text().splitlines()
    begins = ["- **How accurate:** ", "- **How slow:** ", "- **When not:** "]
    assert [line[: len(b)] for line, b in zip(lines[2:5], begins, strict=True)] == begins
    assert all(re.search(r"\d", line) for line in lines[2:5])
    assert [line for line in lines if line.startswith("## ")] == [
        "## Error and fit time", "## Data set by data set", "## Cost by number of rows",
        "## AutoGluon with more time", "## Where it loses", "## What each model family adds",
        "## The five sources, claim by claim", "## All pages",
    ]  # fmt: skip
    assert sum(line.startswith("### ") for line in lines) == 5


PAGES = sorted((ROOT / "docs" / "results").glob("*.md"))


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p.stem not in ("index", "pretrained")], ids=lambda p: p.stem
)
def test_a_page_begins_with_sentences_and_a_figure(page):
    title, _, begin, *lines = page.read_text().splitlines()
    assert title.startswith("# ")
    assert begin == "<!-- findings -->"
    sentences = lines[: lines.index("")]
    assert 2 <= len(sentences) <= 4
    assert all(re.match(r"- .*\d.*\.$", sentence) for sentence in sentences)
    if page.stem != "robustness":
        figure = re.fullmatch(r"!\[.+\]\((figures/\w+\.png)\)", lines[len(sentences) + 1])
        assert 0 < (page.parent / figure[1]).stat().st_size < 60_000


def test_every_figure_of_a_page_is_there_and_every_figure_is_used():
    folder = ROOT / "docs" / "results"
    used = {
        (folder / name).resolve()
        for page in PAGES
        for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text())
    }
    assert used == {path.resolve() for path in folder.rglob("*.png")}


def test_a_page_keeps_the_sections_of_other_benchmarks(toy):
    call = "import _pages; _pages.PAGES['pair'] = ('Two', ('toy', 'other')); "
    call += "_pages.PAGE_OF.update(toy='pair', other='pair'); write = _pages.write_section; "
    call += "write('other', '# B\\n\\n## Part\\n\\n[see](toy.md)'); write('toy', '# A'); "
    call += "write('other', '# B\\n\\n## Part\\n\\n[see](toy.md)')"
    environment = {**os.environ, "PYTHONPATH": str(BENCHMARKS), "VICINAL_RESULTS": str(toy.parent)}
    subprocess.run([sys.executable, "-c", call], env=environment, check=True)
    page = (toy.parent / "pair.md").read_text()
    assert page.startswith("# Two")
    assert page.index("## A") < page.index("## B") < page.index("### Part")
    assert "[see](pair.md)" in page


@pytest.mark.parametrize(
    ("row", "column", "after", "message"),
    [
        (("letter",), "error", "", "7.5"),
        (("letter",), "error", "## Second", "8.5"),
        (("letter",), "accuracy", "", None),
        (("pendigits",), "error", "", None),
    ],
)
def test_the_index_reads_cells_of_pages(tmp_path, row, column, after, message):
    table = "| set | error |\n|---|---|\n| letter | {} |\n"
    text = f"## A page\n\n{table.format(7.5)}\n### Second\n\n{table.format('**8.5**')}"
    text = f"<!-- toy -->\n{text}\n<!-- end of toy -->\n"
    (tmp_path / "toy.md").write_text(text)
    call = f"cell('toy', *{row!r}, column={column!r}, after={after!r})"
    done = subprocess.run(
        [sys.executable, "-c", f"from index import cell; print({call})"],
        env={**os.environ, "PYTHONPATH": str(BENCHMARKS), "VICINAL_RESULTS": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    if message is None:
        assert "toy has no row" in done.stderr
    else:
        assert done.stdout.strip() == message


IMPORTS = """
import importlib, pathlib
for script in sorted(pathlib.Path(".").glob("bench_*.py")):
    importlib.import_module(script.stem)
"""


def test_every_benchmark_finds_what_it_imports():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORTS],
        cwd=BENCHMARKS,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_comparison_in_readme_and_paper_is_that_of_the_cases():
    script = (
        "import json, bench_comparison; "
        "print(json.dumps([part['summary'] for part in bench_comparison.parts_at(1000)]))"
    )
    environment = {**os.environ, "PYTHONPATH": f"{BENCHMARKS}{os.pathsep}{ROOT / 'src'}"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for name in ("README.md", "paper.md"):
        text = (ROOT / name).read_text()
        for part in json.loads(done.stdout):
            ratio, low, high = part["CatBoost"]["ratio"]
            shown = [f"{ratio:.2f} times", f"{low:.2f} to {high:.2f}"]
            shown += [f"{part[m]['seconds']:.1f}" for m in ("vicinal", "CatBoost")]
            assert not [number for number in shown if number not in text], name
    classification = json.loads(done.stdout)[0]
    readme = (ROOT / "README.md").read_text()
    for model in ("vicinal (fast)", "LightGBM"):
        assert f"{classification[model]['seconds']:.1f} s" in readme


def test_the_readme_states_what_the_page_says_of_raw_tables():
    page = (ROOT / "docs" / "results" / "auto.md").read_text()
    sentence = next(line for line in page.splitlines() if line.startswith("- On raw tables"))
    ratios = re.findall(r"([\d.]+) times our", sentence)
    counts = re.findall(r"on (\d+) of (\d+) tables", sentence)
    lower, tables = (sum(map(int, column)) for column in zip(*counts, strict=True))
    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"On {tables} raw tables" in text
    assert f"it has {' and '.join(ratios)} times the loss" in text
    assert f"is better on {tables - lower};" in text
