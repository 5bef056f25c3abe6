"""Users of scikit-learn know every word of the code, messages and documents."""

import pytest
from tests.docs.words import ROOT, files, findings, prose

READ = (
    "src", "examples", "docs/guide", "docs/results", "docs/index.md", "docs/api.rst", "README.md",
    "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "paper.md",
)  # fmt: skip


@pytest.mark.parametrize("part", READ)
def test_common_words_are_used(part):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {word!r}, better: {better}"
        for path in files([ROOT / part])
        for word, better, number in findings(prose(path))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The model answers twelve queries.", ["answers"]),
        ("Ask the members; they say nothing.", ["Ask", "members", "say"]),
        ("Sort in place and draw a plot of the duality gap.", []),
        ("a gap in column b", ["gap"]),
    ],
)
def test_findings_depend_on_the_context(text, words):
    assert [word for word, _, _ in findings(text)] == words
