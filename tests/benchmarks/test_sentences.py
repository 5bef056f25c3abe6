"""The three sentences at the top of the results are computed again here, from the stored lines."""

import json
import math
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REGRESSION = {
    "diabetes", "laser", "mortgage", "airfoil", "friedman1", "friedman2", "friedman3", "puma32h",
    "grid_stability",
}  # fmt: skip


def cases(n_rows):
    """Return losses and fit seconds by task, set and model, the lists ordered by seed."""
    found = {"classification": {}, "regression": {}}
    lines = (ROOT / "benchmarks" / "cases" / "comparison.jsonl").read_text().splitlines()
    entries = [entry for entry in map(json.loads, lines) if "key" in entry]
    for entry in sorted(entries, key=lambda entry: entry["key"][3]):
        name, rows, model, seed = entry["key"]
        if rows == n_rows and 100 <= seed <= 104 and "loss" in entry["value"]:
            of_task = found["regression" if name in REGRESSION else "classification"]
            of_task.setdefault(name, {}).setdefault(model, []).append(entry["value"])
    return {
        task: {name: models for name, models in sets.items() if len(models.get("vicinal", [])) == 5}
        for task, sets in found.items()
    }


def mean_ratio(sets, model, key, other=None):
    """Return the geometric mean over sets and splits, in ratio to another model if there is one."""
    logs = [
        math.log(case[key]) - (math.log(models[other][k][key]) if other else 0.0)
        for models in sets.values()
        for k, case in enumerate(models[model])
    ]
    return math.exp(sum(logs) / len(logs))


@pytest.fixture(scope="module")
def sentences():
    lines = (ROOT / "docs" / "results" / "index.md").read_text().splitlines()
    return dict(re.fullmatch(r"- \*\*(.*?):\*\* (.*)", line).groups() for line in lines[2:5])


def test_losses_in_the_first_sentence_are_those_of_the_cases(sentences):
    text = sentences["How accurate"]
    best = re.search(r"next best .*? is (\w+)|, (\w+), the next best", text)
    model = best[1] or best[2]
    for task, sets in cases(1000).items():
        ratio = mean_ratio(sets, model, "loss", "vicinal")
        loss = "log loss" if task == "classification" else "squared error"
        assert f"{ratio:.2f} times the {loss}" in text
        assert f"on {len(sets)} {task} sets" in text
        others = {m for models in sets.values() for m in models if not m.startswith("vicinal")}
        known = [m for m in others if all(len(models.get(m, [])) == 5 for models in sets.values())]
        least = min(known, key=lambda m: mean_ratio(sets, m, "loss", "vicinal"))
        if least != model:
            assert f"{least} has {mean_ratio(sets, least, 'loss', 'vicinal'):.2f} times" in text


def test_seconds_in_the_second_sentence_are_those_of_the_cases(sentences):
    text = sentences["How slow"]
    for task, sets in cases(1000).items():
        assert f"{mean_ratio(sets, 'vicinal', 'fit'):.1f} s in {task}" in text
        assert f"LightGBM {mean_ratio(sets, 'LightGBM', 'fit'):.2f} s" in text
        fast = mean_ratio(sets, "vicinal (fast)", "loss", "vicinal")
        seconds = mean_ratio(sets, "vicinal (fast)", "fit")
        assert f"{seconds:.1f} s with {fast:.2f} times" in text


def test_sets_in_the_third_sentence_are_those_where_another_library_is_better(sentences):
    lost = set()
    for n_rows in (1000, 5000):
        for sets in cases(n_rows).values():
            for name, models in sets.items():
                for model, found in models.items():
                    if model.startswith("vicinal") or len(found) < 5:
                        continue
                    gain = [
                        ours["loss"] - theirs["loss"]
                        for ours, theirs in zip(models["vicinal"], found, strict=True)
                    ]
                    mean = sum(gain) / 5
                    error = math.sqrt(sum((g - mean) ** 2 for g in gain) / 4 / 5)
                    if mean > error:
                        lost.add(name)
    text = sentences["When not"]
    n_sets = sum(map(len, cases(1000).values()))
    assert f"on {len(lost)} of these {n_sets} sets" in text
    assert set(re.search(r"sets \((.*?)\)", text)[1].split(", ")) == lost
