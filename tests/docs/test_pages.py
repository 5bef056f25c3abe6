"""The examples in the guide run, and every public name has its place in the reference."""

import doctest
import re
from pathlib import Path

import pytest
from tests.common.discovery import public_packages

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/guide/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_on_the_page_run(page):
    # Fences become blank lines: they end the expected output and keep the line numbers.
    text = re.sub(r"^```.*$", "", page.read_text(), flags=re.MULTILINE)
    if "import torch" in text:
        pytest.importorskip("torch")
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.REPORT_NDIFF
    )
    assert runner.run(test).failed == 0


def test_every_public_name_is_in_the_reference_once():
    listed = re.findall(r"^\s+(\w+)\s*$", (ROOT / "docs/api.rst").read_text(), flags=re.MULTILINE)
    public = [name for package in public_packages() for name in getattr(package, "__all__", ())]
    assert sorted(listed) == sorted(public)
