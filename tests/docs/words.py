"""Words that users of scikit-learn would not understand, found in code, messages and documents.

``python tests/docs/words.py [PATH ...]`` lists them; ``test_words.py`` fails on any of them.
"""

import io
import re
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# word of this project -> word of the field
WORDS = {
    r"answer\w*": "prediction, predict",
    r"told|tell|tells|telling": "estimated, reports",
    r"says?|said|saying": "reports, predicts, states",
    r"speaks?|spoken|voices?": "contribute, vote",
    r"ask|asks|asked|asking": "query, request",
    r"gaps?": "missing value",
    r"anew|once more": "again",
    r"beside|besides": "compared with, versus",
    r"word columns?|words": "categorical column, categories, strings",
    r"places?|placed|placement|placements|placing": "index, position, coordinates",
    r"members?": "base model",
    r"settles?|settled|settling": "select, resolve",
    r"left open|leaves? open": "unset",
    r"rungs?|ladders?|climbs?|climbed|climbing|patience": "step, search, ascent, early stopping",
    r"doubts?|unsure|surest|surer": "uncertainty, uncertain, confident",
    r"bends?|bent|bending": "transform to normal scores",
    r"metric of slopes": "gradient metric",
    r"house|houses|rooms?|doors?|shelf|shelves": "package, subpackage, public API",
    r"the first call|the stack before": "AutoClassifier, the previous version",
    r"reasons": "explanation",
    r"least change": "counterfactual",
    r"machine_\w+|\w+_machine": "support vector machine, model",
    r"planes": "linear models",
    r"coders?": "encoder",
    r"leaves out|left out of the mixture": "skips, excludes",
    r"drawn|draws?|drew|drawing": "sampled, simulated (a plot may be drawn)",
}
# Contexts in which a word of the list is the common one.
ALLOWED = [
    r"out[ -]of[ -]place|in[ -]place|decimal places?|take place|placeholder\w*|replace\w*",
    r"draw\w* (a |the |an )?(plot|figure|line|curve|picture|axes|boundary|map|bar|graph|chart)\w*",
    r"_stop_words_id|stop_words\w*|item\|member\|object|dual_gap\w*|TimeSeriesSplit\.gap|ask\.weight",
    r"(\d+|first|between|\|) draws?\b",
    r"random draws?|draws? (from|of) (a|the) (posterior|distribution|prior)",
    r"duality gap|gap statistic|generali[sz]ation gap|(column-|row-|grid-)?gap\s*:",
    r"members? of (a|the|an) (class|dataclass|zip|archive|json)\w*",
    r"in other words|stop[ -]?words?|keywords?|passwords?|words? of (memory|\d+ bits)",
    r"(are|is|be|was|were) met|conditions? met",
    r"_draw_(table|map)|\.draw\b",
]
PATTERN = re.compile(
    r"(?<![A-Za-z])(?:"
    + "|".join(f"(?P<w{i}>{w})" for i, w in enumerate(WORDS))
    + r")(?![A-Za-z])",
    re.I,
)
ALLOW = re.compile("|".join(ALLOWED), re.I)


def findings(text):
    """Word, better words and line number of every finding in a text."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        allowed = [m.span() for m in ALLOW.finditer(line)]
        for m in PATTERN.finditer(line):
            if not any(a <= m.start() and m.end() <= b for a, b in allowed):
                found.append((m.group(), list(WORDS.values())[int(m.lastgroup[1:])], number))
    return found


def prose(path):
    """The text of a file that people read: documents whole, names and strings of Python."""
    text = path.read_text(encoding="utf-8")
    if path.name == "CHANGELOG.md":  # its tables list old names
        text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
    if path.suffix != ".py":
        return re.sub(r"https?://\S+", "", text)
    lines = [""] * (text.count("\n") + 2)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (
            tokenize.NAME,
            tokenize.COMMENT,
            tokenize.STRING,
            getattr(tokenize, "FSTRING_MIDDLE", -1),
        ):
            string = token.string
            if token.type == tokenize.NAME:  # the parts of a name are words
                string = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", string)
            for offset, part in enumerate(string.splitlines()):
                lines[token.start[0] + offset] += " " + part
    return "\n".join(lines[1:])


def files(paths):
    for path in map(Path, paths):
        if path.is_dir():
            yield from (
                p
                for p in sorted(path.rglob("*"))
                if p.suffix in {".py", ".md", ".rst", ".html", ".js", ".css"}
            )
        else:
            yield path


if __name__ == "__main__":
    total = 0
    for path in files(sys.argv[1:] or [ROOT / "src", ROOT / "docs" / "guide", ROOT / "README.md"]):
        for word, better, number in findings(prose(path)):
            total += 1
            print(f"{path}:{number}: {word!r} -> {better}")
    print(total, "findings")
