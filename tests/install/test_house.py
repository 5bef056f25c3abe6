"""The house keeps its shape, and CONTRIBUTING.md its numbers."""

import ast
import re
from collections import Counter

import pytest
from tests.install.house import (
    ROOT,
    floors,
    longest_functions,
    measure,
    n_code,
    repeated_lines,
    rooms,
    sources,
)


@pytest.fixture(scope="module")
def measured():
    return measure()


def test_no_two_classes_have_one_name():
    found = Counter(
        node.name
        for text in sources(ROOT).values()
        for node in ast.walk(ast.parse("\n".join(text)))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, times in found.items() if times > 1] == []


def test_local_stays_small(measured):
    assert measured["files of `local`"] <= 24
    assert measured["floors of `local`"] <= 9
    assert measured["of these in `local`"] <= 4


def test_functions_stay_short_and_kernels_tested(measured):
    assert measured["longest function, lines without docstring"] <= 100
    assert measured["lines of tests per line of `_kernels`"] >= 0.5


def test_the_table_of_the_house_is_true_to_a_tenth(measured):
    rows = re.findall(
        r"^\| (.+?) \| [\d,.]+ \| ([\d,.]+) \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.M
    )
    stated = {what: float(value.replace(",", "")) for what, value in rows}
    assert stated == pytest.approx(measured, rel=0.1, abs=2), "run python tests/install/house.py"


def test_rooms_hold_all_lines(measured):
    lines = dict(rooms(ROOT))
    assert sum(lines.values()) == measured["lines of `src`"]
    assert lines["local"] == sum(
        len(path.read_text().splitlines()) for path in (ROOT / "src/vicinal/local").glob("*.py")
    )


def test_floors_and_repetition_by_hand(tmp_path):
    room = tmp_path / "room"
    room.mkdir()
    (room / "_ground.py").write_text("")
    (room / "_middle.py").write_text("from vicinal.room._ground import a\n")
    (room / "top.py").write_text("from vicinal.room._middle import b\nfrom numpy import c\n")
    assert floors(room) == 3
    same = [f"step_{i}()" for i in range(7)]
    files = {"one": ["first()", *same], "two": [*same, "# said", "last()"], "three": same[:5]}
    assert repeated_lines(files) == 14
    lines = [
        "def short():",
        "    return 1",
        "def long():",
        '    """Said',
        '    here."""',
        "    x = 1",
    ]
    assert n_code({"m": [*lines, "    # said", "", "    return x"]}) == 5
    assert longest_functions({"m": [*lines, "    y = 2", "    return x"]})[0] == ("long", 4)
