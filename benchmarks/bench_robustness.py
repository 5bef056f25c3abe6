"""What comes of odd inputs, damaged model files, signals, forks, kills and labels of a coin?

Every part calls what the tests call. Parts may be run one at a time, by their names:
``python benchmarks/bench_robustness.py inputs``; without a name, all of them, and the page. A page
that is built again shows the parts and blocks that are stored.
"""

import signal
import sys
import tempfile
import warnings
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np

from _harness import ROOT, MissingCaseError, ResultsPage

sys.path.insert(0, str(ROOT))
from tests.common import forks, fuzz, interruption
from tests.common.discovery import public_estimators
from tests.io import damage, foreign
from tests.io.kills import killed
from tests.statistical.test_auto_score import coin_score

N_INPUTS, BLOCK = 10_000, 500
N_GROUPS = 10  # of model files
N_KILLS, N_COINS = 200, 50
SECONDS = 120  # for one odd input
SIGNALS = {"Ctrl-C": signal.SIGINT, "SIGTERM": signal.SIGTERM}


def family_of(estimator):
    return estimator.__module__.split(".")[1]


def totals(parts):
    """Return the sums of counts by family, and a last row over all families."""
    found = {}
    for part in parts:
        for family, counts in part.items():
            found.setdefault(family, Counter()).update(counts)
    return {**dict(sorted(found.items())), "all": sum(found.values(), Counter())}


def stored_cases(page, name, keys, function):
    """Return the results of the cases of a part; when rebuilding, of those that were run."""
    found = []
    for key in keys:
        try:
            found.append(page.case((name, key), lambda key=key: function(key)))
        except MissingCaseError:
            continue
    if not found:
        raise MissingCaseError(f"robustness: no case of {name} was ever run.")
    return found


# --- odd inputs ---


def odd_inputs(first):
    """Return the outcomes of a block of cases by family, and what was wrong."""
    found, wrong = {}, []
    for case in range(first, first + BLOCK):
        word, why = fuzz.outcome_within(SECONDS, case)
        found.setdefault(family_of(fuzz.describe(case)[0]), Counter())[word] += 1
        wrong += [why] * (word == "wrong")
    return {"found": found, "wrong": wrong}


def inputs(page):
    parts = stored_cases(page, "inputs", range(0, N_INPUTS, BLOCK), odd_inputs)
    words = ("predicted", "refused", "void", "wrong")
    page.text(
        f"## Odd inputs\n\n{len(parts) * BLOCK:,} cases, each an estimator with rows, "
        "targets, weights and queries sampled from lists of unusual values (NaN, infinities, "
        "scales from "
        "1e-300 to 1e300, huge, zero and negative weights, types, shapes, sparse forms, far "
        "queries, empty, repeated and constant rows). Predicted: finite, of known classes, "
        "probabilities that sum to one. Refused: one error that names value, rule "
        "and remedy, and an unfitted object. Void: values that contradict each "
        f"other. Wrong is all else, and what takes longer than {SECONDS} s."
    )
    rows = totals(part["found"] for part in parts).items()
    page.table(
        ["family", "cases", *words],
        [[name, sum(counts.values()), *(counts[word] for word in words)] for name, counts in rows],
    )
    for why in (why for part in parts for why in part["wrong"]):
        page.text(f"- {why}")


# --- damaged files ---


@cache
def saved_models():
    return list(damage.models().items())


@cache
def compiled():
    """Return a folder for code that looks at its bounds, compiled once for all groups."""
    return tempfile.TemporaryDirectory()


def damages(k):
    """Return the outcomes of all damages of a group of models by family, and what was wrong."""
    models = dict(saved_models()[k::N_GROUPS])
    families = {name: family_of(model) for name, model in models.items()}
    with tempfile.TemporaryDirectory() as folder:
        outcomes = damage.outcomes(models, Path(folder), bounds=Path(compiled().name))
    found = {family: Counter() for family in families.values()}
    for name, (word, _) in outcomes.items():
        found[families[name.partition(":")[0]]][word] += 1
    return {
        "files": Counter(families.values()),
        "found": found,
        "wrong": damage.wrong(outcomes),
    }


def files(page):
    parts = stored_cases(page, "files", range(N_GROUPS), damages)
    words = ("refused", "predicted", "raised", "not finite", "reads beyond", "crashed")
    page.text(
        "## Damaged model files\n\nEvery array and every whole number of a saved model is damaged "
        "in every way that fits it (shorter, narrower, empty, flat, more axes, other types, out of "
        "range, negative, NaN, infinite; one more, zero, negative), with the checksums made right, "
        "and the model is loaded and predicts, while compiled code checks array bounds. Refused: "
        "by "
        "`load`, with the name of what is wrong. Raised: an ordinary Python error in `predict`. "
        "Not "
        "finite: a scaler of scikit-learn may hold NaN, for a column without values. "
        f"{len(parts)} of {N_GROUPS} groups of models were run."
    )
    n_files = totals({family: {"files": n} for family, n in p["files"].items()} for p in parts)
    rows = totals(part["found"] for part in parts).items()
    page.table(
        ["family", "files", "damages", *words],
        [
            [name, n_files[name]["files"], sum(n.values()), *(n[word] for word in words)]
            for name, n in rows
        ],
    )
    for name in (name for part in parts for name in part["wrong"]):
        page.text(f"- {name}")


# --- other structures ---


@cache
def structured_models():
    """Return groups of models of scikit-learn and of ours, and which share of damages is tried."""
    theirs, ours = list(foreign.instances().items()), saved_models()
    return {
        **{f"scikit-learn {k}": (dict(theirs[k::N_GROUPS]), 6) for k in range(N_GROUPS)},
        **{f"vicinal {k}": (dict(ours[k::N_GROUPS]), 16) for k in range(N_GROUPS)},
    }


def other_structures(key):
    """Return the outcomes of structural damages of a group of models, and what was wrong."""
    models, every = structured_models()[key]
    bounds = Path(compiled().name) if key.startswith("vicinal") else None
    with tempfile.TemporaryDirectory() as folder:
        outcomes = damage.outcomes(models, Path(folder), bounds, "structures", every)
    return {
        "files": len(models),
        "found": {key.rpartition(" ")[0]: Counter(word for word, _ in outcomes.values())},
        "wrong": damage.wrong(outcomes, ["not finite"]),
    }


def structures(page):
    keys = [f"{name} {k}" for name in ("scikit-learn", "vicinal") for k in range(N_GROUPS)]
    parts = stored_cases(page, "structures", keys, other_structures)
    words = ("refused", "predicted", "raised", "not finite", "reads beyond", "large", "crashed")
    rows = totals(part["found"] for part in parts).items()
    page.text(
        "## Model files with other structures\n\nEvery attribute of every object in a model file "
        "is replaced in turn by a list, a tuple, a masked array, an array of objects, of another "
        "type, of another length or with an extreme value, a huge or negative number, a fraction, "
        "None, a text, a flag, a dictionary, a function, another object, or nothing. Of these "
        "damages, every 6th of scikit-learn's classes (one file or more for each class that a file "
        "may name) and every 16th of vicinal's is tried: `info`, `load`, predictions, and for one "
        f"in {damage.EXPLAINED} an explanation and requests to a server of the model, in a process "
        "that may crash. vicinal's compiled "
        "code checks its bounds. Large, counted for vicinal's classes: it took more than "
        f"{damage.MEGABYTES} MB of memory. Crashed: the process ended, also for taking longer than "
        f"{damage.SECONDS} s. Not finite: a prediction is NaN or infinite."
    )
    page.table(
        ["classes of", "damages", *words],
        [
            [name, sum(n.values())]
            + ["-" if word == "large" and name != "vicinal" else n[word] for word in words]
            for name, n in rows
        ],
    )
    for name in (name for part in parts for name in part["wrong"]):
        page.text(f"- {name}")


# --- signals, forks, kills ---


def signals(page):
    found = {
        label: page.case(
            ("signals", label),
            lambda number=number: interruption.outcomes(number, public_estimators()),
        )
        for label, number in SIGNALS.items()
    }
    page.text(
        "## Signals during a fit\n\nThe fit of every estimator to 20,000 x 20 rows, with its "
        f"defaults, gets a signal after {interruption.BEFORE:.0f} s (ensembles have 2,000 base "
        "models, "
        "so that they are not done by then). Ctrl-C must stop the fit and leave the object "
        "unfitted; SIGTERM must end the process. Processor seconds from the signal to the end:"
    )
    right = {"Ctrl-C": "stopped", "SIGTERM": "ended"}
    rows = []
    for label, outcomes in found.items():
        late = {name: s for name, (word, s) in outcomes.items() if word == right[label]}
        slowest = max(late, key=late.get)
        n_done = sum(word == "done" for word, _ in outcomes.values())
        n_other = len(outcomes) - len(late) - n_done
        rows.append([label, len(late), n_done, n_other, late[slowest], slowest])
    page.table(
        ["signal", "obeyed", "done before", "otherwise", "longest, s", "by"],
        rows,
    )


def children(page):
    names = list(public_estimators())
    found = page.case(("forks",), lambda: forks.outcomes(names))
    n_same = sum(word == "the same" for word in found.values())
    page.text(
        "## Forks\n\nFitted with two OpenMP threads, used in a forked child: "
        f"{n_same} of {len(found)} estimators predict as in the parent."
        + "".join(f" {name}: {word}." for name, word in found.items() if word != "the same")
    )


def killed_saves():
    with tempfile.TemporaryDirectory() as folder:
        return killed(Path(folder) / "model.vicinal", N_KILLS)


def kills(page):
    first, second = page.case(("kills", N_KILLS), killed_saves)
    page.text(
        f"## Kills during `save`\n\nOf {N_KILLS} kills at random moments while two models replace "
        f"each other in one file, {first} left the one, {second} the other, "
        f"{N_KILLS - first - second} anything less."
    )


# --- labels of a coin ---


def coins(page):
    scores = page.case(("coins", N_COINS), lambda: [coin_score(seed) for seed in range(N_COINS)])
    error = np.std(scores, ddof=1) / np.sqrt(N_COINS)
    page.text(
        f"## Labels of a coin\n\n`AutoClassifier().score_` on {N_COINS} tables of 100 x 4 whose "
        f"labels are a permutation: {np.mean(scores):.3f} ± {error:.3f} (chance: 0.5)."
    )


PARTS = {
    "inputs": inputs,
    "files": files,
    "structures": structures,
    "signals": signals,
    "forks": children,
    "kills": kills,
    "coins": coins,
}


def main():
    warnings.simplefilter("ignore")
    page = ResultsPage(
        "robustness",
        "Unusual inputs, damaged files and signals",
        "Is any prediction silently wrong, any error raw, any file half written? Does any fit "
        "ignore signals? The "
        "numbers come from the functions that the tests call (`make test-statistical`).",
    )
    chosen = sys.argv[1:]
    missing = []
    for name in chosen or PARTS:
        try:
            PARTS[name](page)
        except MissingCaseError:
            missing.append(name)
    if missing:
        page.text(f"Not measured with this code yet: {', '.join(missing)}.")
    if not chosen:
        page.write()


if __name__ == "__main__":
    main()
