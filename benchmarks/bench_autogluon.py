"""AutoGluon with 1, 5 and 15 minutes compared with AutoClassifier and AutoRegressor.

Splits are those of ``bench_comparison.py``: at most 1,000 training rows, seeds from 100, which
played no part in development. AutoGluon has its preset ``best_quality``, the metric that is
compared (log loss or squared error) and one core per table. ``--tables FOLDER`` writes the tables
and the list of jobs, ``_peers_autogluon.py`` runs them in AutoGluon's own environment, and
``--results FILE`` stores what it found.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from _harness import ResultsPage, is_rebuilding, stored
from _pages import RESULTS
from bench_auto import CLASSIFICATION, REGRESSION, split, task_of
from bench_comparison import CASES as OURS_CASES
from bench_comparison import FAST, OURS, SEEDS, interval, wins

N_ROWS = 1000
PEER = "AutoGluon"
MINUTES = (1, 5, 15)
# One minute on all splits, five minutes on one, fifteen on one split of some sets.
SPLITS = {1: SEEDS, 5: SEEDS[:1], 15: SEEDS[:1]}
LONGEST_SETS = ("adult", "satimage", "airfoil")
SETS = (*(name for name in CLASSIFICATION if name != "isolet"), *REGRESSION)
CASES = stored("autogluon")


# --- tables and jobs ----------------------------------------------------------------------------


def jobs() -> list[tuple[str, int, int]]:
    """Return (set, seed, minutes) of every fit."""
    return [
        (name, seed, minutes)
        for minutes in reversed(MINUTES)
        for seed in SPLITS[minutes]
        for name in (LONGEST_SETS if minutes == max(MINUTES) else SETS)
    ]


def write_tables(folder: Path) -> None:
    """Write the splits as arrays and the list of jobs."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SETS:
        for seed in SEEDS:
            rows, is_regression = split(name, str(N_ROWS), seed), task_of(name) == "regression"
            X, X_test = rows.part("coded")
            y, y_test = rows.table.y[rows.train], rows.table.y[rows.test]
            if is_regression:
                y, y_test = (y - y.mean()) / y.std(), (y_test - y.mean()) / y.std()
            else:
                classes, y = np.unique(y, return_inverse=True)
                code = {label: k for k, label in enumerate(classes)}
                y_test = np.array([code.get(label, -1) for label in y_test])
            np.savez_compressed(
                folder / f"{name}-{seed}.npz", X=X, X_test=X_test, y=y, y_test=y_test,
                is_category=rows.table.is_category[rows.varying()], is_regression=is_regression,
            )  # fmt: skip
    listed = [[f"{name}-{seed}", minutes] for name, seed, minutes in jobs()]
    (folder / "jobs.json").write_text(json.dumps(listed))


def store_results(path: Path) -> None:
    """Store the lines that ``_peers_autogluon.py`` wrote."""
    for line in path.read_text().splitlines():
        table, minutes, found = json.loads(line)
        name, seed = table.rsplit("-", 1)
        CASES.keep((name, int(seed), minutes), found)


# --- page ---------------------------------------------------------------------------------------


def ran_keys() -> list[tuple[str, int, int]]:
    """Return the jobs that have a result."""
    return [job for job in jobs() if CASES.has(*job) and "loss" in CASES.find(*job)]


def ratios(task: str, minutes: int) -> dict | None:
    """Return losses of AutoGluon and ours (set, split, model) where all splits were run."""
    seeds = SPLITS[minutes]
    names, loss, seconds = [], [], []
    for name in REGRESSION if task == "regression" else CLASSIFICATION:
        if not all(CASES.has(name, seed, minutes) for seed in seeds):
            continue
        found = [
            [
                CASES.find(name, seed, minutes),
                *(OURS_CASES.find(name, N_ROWS, label, seed) for label in (OURS, FAST)),
            ]
            for seed in seeds
        ]
        if all("loss" in case for cases in found for case in cases):
            names.append(name)
            loss.append([[case["loss"] for case in cases] for cases in found])
            seconds.append([[case["fit"] for case in cases] for cases in found])
    if not names:
        return None
    return {"task": task, "minutes": minutes, "names": names, "loss": np.array(loss),
            "seconds": np.array(seconds)}  # fmt: skip


def all_parts() -> list[dict]:
    """Return every task and time limit that has results."""
    found = [ratios(task, m) for m in MINUTES for task in ("classification", "regression")]
    return [part for part in found if part]


def summary() -> list[tuple]:
    """Return the rows of the first table."""
    return [summary_row(part) for part in all_parts()]


def summary_row(part: dict) -> tuple:
    """Return the row of one task and time limit in the first table."""
    loss, labels = part["loss"], [PEER, OURS, FAST]
    ratio, low, high = interval(np.log(loss[:, :, 0] / loss[:, :, 1]))
    if loss.shape[1] > 1:
        won, tied, lost = wins(loss, labels, PEER)
    else:
        lower = loss[:, 0, 1] < loss[:, 0, 0]
        won, tied, lost = int(lower.sum()), 0, int((~lower).sum())
    mean = np.exp(np.log(part["seconds"]).mean(axis=(0, 1)))
    within = f" ({low:.3f} to {high:.3f})" if len(loss) > 2 else ""
    return (
        part["task"], part["minutes"], len(part["names"]), loss.shape[1],
        f"{ratio:.3f}{within}", f"{won}, {tied}, {lost}", f"{mean[0]:.0f}", f"{mean[1]:.1f}",
    )  # fmt: skip


def sentences(parts: list[dict]) -> list[str]:
    """Return one sentence per task about the shortest limit, which ran all splits."""
    found = []
    for part in parts:
        if part["minutes"] != 1:
            continue
        row = summary_row(part)
        shown = "log loss" if part["task"] == "classification" else "squared error"
        won, tied, lost = row[5].split(", ")
        found.append(
            f"{part['task'].capitalize()}, {row[2]} sets with {row[3]} splits: AutoGluon with one "
            f"minute has {row[4].split()[0]} times the {shown} of vicinal's default (95 % interval "
            f"{row[4].split('(')[1][:-1]}); vicinal wins {won} sets, loses {lost}, {tied} are "
            f"undecided, and takes {row[7]} processor seconds."
        )
    return found


def draw(parts: list[dict]) -> None:
    """Plot the loss ratio of every set by the time limit."""
    import matplotlib.pyplot as plt

    tasks = ("classification", "regression")
    figure, axes = plt.subplots(
        2, 1, figsize=(6.6, 8.4), height_ratios=(len(CLASSIFICATION), len(REGRESSION))
    )
    for axis, task in zip(axes, tasks, strict=True):
        of_task = [part for part in parts if part["task"] == task]
        order = [name for name in SETS if any(name in part["names"] for part in of_task)]
        for k, part in enumerate(of_task):
            ratio = np.exp(np.log(part["loss"][:, :, 0] / part["loss"][:, :, 1]).mean(axis=1))
            at = [order.index(name) + 0.18 * (k - 1) for name in part["names"]]
            minutes = part["minutes"]
            axis.plot(ratio, at, "osD"[k], label=f"{minutes} min", ms=6)
        axis.set_yticks(range(len(order)), order)
        axis.axvline(1.0, color="0.7", zorder=0)
        shown = "log loss" if task == "classification" else "squared error"
        axis.set(xscale="log", xlabel=f"{shown} of AutoGluon / of vicinal (right: vicinal better)")
        ticks = (0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5)
        low, high = axis.get_xlim()
        axis.set_xticks([t for t in ticks if low < t < high])
        axis.get_xaxis().set_major_formatter("{x:g}")
        axis.minorticks_off()
        axis.set_title(task)
        axis.legend(title="AutoGluon's time limit", fontsize=8)
    figure.tight_layout()
    figure.savefig(RESULTS / "figures" / "autogluon.png", dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, help="write tables and jobs into this folder")
    parser.add_argument("--results", type=Path, help="store the results of this file")
    options = parser.parse_args()
    if options.tables:
        return write_tables(options.tables)
    if options.results:
        store_results(options.results)
    parts = all_parts()
    page = ResultsPage(
        "autogluon",
        "AutoGluon with 1, 5 and 15 minutes",
        " ".join(sentences(parts)),
    )
    machines = {CASES.find(*job_key)["machine"] for job_key in ran_keys()}
    page.text("![loss of AutoGluon by time limit](figures/autogluon.png)")
    page.text(
        f"AutoGluon has the preset `best_quality`, the metric of the table and one core of "
        f"{' or '.join(sorted(machines))}; vicinal has its default and one core of the machine of "
        f"the other tables. At most {N_ROWS:,} training rows; one minute on the splits with "
        f"seeds 100 to 104, five and fifteen minutes on the first of them. Sets without a result "
        f"of all splits are left out of the ratios. With one split a set is won by the lower loss."
    )
    page.table(
        ("task", "minutes", "sets", "splits", "loss, ratio to vicinal (95 % interval)",
         "sets won, tied, lost by vicinal", "AutoGluon, processor s", "vicinal, processor s"),
        summary(),
        caption="Ratios and seconds are geometric means.",
    )  # fmt: skip
    rows = []
    for name in SETS:
        cells = []
        for minutes in MINUTES:
            seeds = [s for s in SEEDS if CASES.has(name, s, minutes)]
            found = [CASES.find(name, s, minutes) for s in seeds]
            if not found:
                cells += ["-", "-"]
                continue
            mine = [OURS_CASES.find(name, N_ROWS, OURS, s)["loss"] for s in seeds]
            ran = [case["loss"] for case in found if "loss" in case]
            failed = len(found) - len(ran)
            cells.append(f"{np.mean(ran):.4f}" if not failed else f"failed {failed} times")
            cells.append(f"{np.mean(mine):.4f}")
        rows.append((name, *cells))
    head = [cell for m in MINUTES for cell in (f"AutoGluon, {m} min", "vicinal, same splits")]
    page.table(("set", *head), rows, caption="Mean log loss, or squared error / variance.")
    if not is_rebuilding():
        draw(parts)
    page.write()
    return None


if __name__ == "__main__":
    main()
