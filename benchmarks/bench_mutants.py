"""How many small changes of numerical modules do the tests detect?

Samples the same number of mutants of each module of ``mutants.py``, runs the tests of the module on
each and stores the counts (``--modules``, ``--count``).
"""

import argparse
import tempfile
from pathlib import Path

import mutants
from _harness import ResultsPage, is_rebuilding, stored

COUNT, SEED = 12, 0
CASES = stored("mutants")
# Survivors that change no result, and why: module and change, as the page shows them.
EQUIVALENT: dict[tuple[str, str], str] = {}


def tested(module: str, count: int) -> dict:
    """Return the number of mutants of a module and the outcomes of a sample."""
    with tempfile.TemporaryDirectory() as folder:
        n_mutants, outcomes = mutants.outcomes(Path(folder), module, count, SEED)
        found = {"mutants": n_mutants, "killed": 0, "timeout": 0, "survived": []}
        for _, mutant, outcome, _ in outcomes:
            if outcome == "survived":
                found["survived"].append(str(mutant))
            else:
                found[outcome] += 1
    return found


def rows(found: dict[str, dict]) -> list[tuple]:
    """Return counts by module, and a last row over all modules."""
    lines = []
    for module, case in found.items():
        n_killed, n_survived = case["killed"] + case["timeout"], len(case["survived"])
        n_equal = sum((module, text) in EQUIVALENT for text in case["survived"])
        n_left = case["mutants"] - n_killed - n_survived
        lines.append((f"`{module}`", case["mutants"], n_killed, n_survived, n_equal, n_left))
    return [*lines, ("all", *(sum(column) for column in list(zip(*lines, strict=True))[1:]))]


def survivors(found: dict[str, dict]) -> list[str]:
    """Return a line per survivor, with the reason if it is known to change no result."""
    return [
        f"- `{module}`, `{text}`: {EQUIVALENT.get((module, text), 'no test detects it')}"
        for module, case in found.items()
        for text in case["survived"]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", nargs="+", default=list(mutants.TESTS))
    parser.add_argument("--count", type=int, default=COUNT)
    options = parser.parse_args([] if is_rebuilding() else None)
    page = ResultsPage(
        "mutants",
        "Mutation testing of numerical modules",
        "A mutant is a numerical module with one small change, such as `-` for `+`, another "
        "constant or a removed statement. A mutant is killed when a test of the module fails or "
        "takes longer than 30 s plus three times its usual time. The mutants of each module are "
        "sampled at random. Equivalent survivors change no result.",
    )
    if not is_rebuilding():
        for module in options.modules:
            page.case((module,), lambda m=module: tested(m, options.count))
    found = {module: CASES.find(module) for module in mutants.TESTS if CASES.has(module)}
    page.table(("module", "mutants", "killed", "survived", "equivalent", "not run"), rows(found))
    page.text("\n".join(survivors(found)))
    page.write()


if __name__ == "__main__":
    main()
