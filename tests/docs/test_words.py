"""Users of scikit-learn know every word of the code, messages and documents."""

import re

import pytest
from tests.docs.words import ROOT, files, findings, prose

GUIDE = ROOT / "docs" / "guide"
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
        ("seeds = draw_seeds(rng, 2)", ["draw"]),
    ],
)
def test_findings_depend_on_the_context(text, words):
    assert [word for word, _, _ in findings(text)] == words


def test_parts_of_names_are_words(tmp_path):
    (tmp_path / "code.py").write_text("class AnchorPlanes:\n    rung_of_ladder = 1\n")
    found = [word for word, _, _ in findings(prose(tmp_path / "code.py"))]
    assert found == ["Planes", "rung", "ladder"]


def reading_ease(text):
    """Return Flesch's reading ease of the prose of a page, with syllables as groups of vowels."""
    text = re.sub(r"```.*?```|\$\$.*?\$\$", "", text, flags=re.DOTALL)
    text = re.sub(r"^[|#].*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\{\w+\}`~?([^`<]*)[^`]*`|\]\([^)]*\)|`[^`]*`", r" \1 ", text)
    words = re.findall(r"[A-Za-z']+", text)
    vowels = [re.findall(r"[aeiouy]+", re.sub(r"e$", "", word.lower())) for word in words]
    n_syllables = sum(max(1, len(groups)) for groups in vowels)
    n_sentences = max(1, len(re.findall(r"[.!?:](?:\s|$)|\n\s*[-*]\s", text)))
    return 206.835 - 1.015 * len(words) / n_sentences - 84.6 * n_syllables / len(words)


@pytest.mark.parametrize("page", ["README.md", *sorted(p.name for p in GUIDE.glob("*.md"))])
def test_pages_are_easy_to_read(page):
    path = ROOT / page if page == "README.md" else GUIDE / page
    assert reading_ease(path.read_text()) >= 45
