"""The top of docs/results/index.md: how accurate, how slow and when not, from stored cases."""

import numpy as np

import bench_autogluon as autogluon
import bench_families as families
from _pages import link
from bench_comparison import FAST, OURS, ROWS, parts_at
from bench_cost import FIT, fit_rows
from index import MEAN_RATIO, SETS, cell, table, tables, where

LOSS = {"classification": "log loss", "regression": "squared error"}
MODEL = {"classification": "`AutoClassifier`", "regression": "`AutoRegressor`"}


def top() -> list[str]:
    """Return the parts of the page above the papers, none as long as nothing was compared."""
    parts = parts_at(ROWS[0])
    if not parts:
        return []
    rows = [*parts, *parts_at(ROWS[1])]
    return [
        "\n".join(f"- {sentence}" for sentence in sentences(parts)),
        "## Error and fit time",
        "![Loss compared with fit time](figures/comparison_cost.png)",
        f"Loss of each library in ratio to that of vicinal, with 95 % intervals. Defaults of all "
        f"libraries, one thread, the same five splits of each set. All numbers: "
        f"{where('comparison')}.",
        "## Data set by data set",
        "![Loss on each data set compared with CatBoost](figures/comparison_sets.png)",
        "Loss of vicinal in ratio to that of CatBoost (dots, with a standard error) and of the "
        "best other library of that set (lines). Red: CatBoost is better beyond a standard error.",
        "## Cost by number of rows",
        "Processor seconds of a fit with one thread, geometric mean over sets and splits. Cost of "
        f"predictions, memory and files: {where('cost')}.",
        table(("task and size", *FIT), fit_rows()),
        *growth(),
        "## AutoGluon with more time",
        "AutoGluon has the preset `best_quality` and one core. The longer limits have one split "
        f"of each set, fifteen minutes {fifteen()}. All numbers: {where('autogluon')}.",
        table(("task, limit", "sets, splits", "loss / vicinal's (95 % interval)",
               "sets won, tied, lost by vicinal", "vicinal's fit, s"), autogluon_rows()),
        "## Where it loses",
        "Sets on which another library has a lower loss beyond one standard error of the "
        "difference, with the one that is furthest ahead:",
        table(("set", "training rows", "library", "its loss", "loss of vicinal"), lost_rows(rows)),
        "\n".join(f"- {line}" for line in losses(parts)),
        *added(),
    ]  # fmt: skip


def see(name: str) -> str:
    """Return a short link to the section of a benchmark."""
    return f"[details]({link(name)})"


def sentences(parts: list[dict]) -> list[str]:
    """Return three sentences: accuracy, time, and when another library is the better choice."""
    accuracy, seconds, names = [], [], []
    for part in parts:
        summary, task = part["summary"], part["task"]
        peers = {m: s for m, s in summary.items() if not m.startswith(OURS)}
        best = min(peers, key=lambda m: peers[m]["rank"])
        value, low, high = peers[best]["ratio"]
        won, tied, lost = peers[best]["sets"]
        names.append(best)
        nearest = min(peers, key=lambda m: peers[m]["ratio"][0])
        nearer = (
            "" if nearest == best else f"; {nearest} has {peers[nearest]['ratio'][0]:.2f} times"
        )
        accuracy.append(
            f"{value:.2f} times the {LOSS[task]} of {MODEL[task]} on {len(part['names'])} "
            f"{task} sets (95 % interval {low:.2f} to {high:.2f}; {won} sets won, {tied} "
            f"undecided, {lost} lost{nearer})"
        )
        seconds.append(
            f"{summary[OURS]['seconds']:.1f} s in {task} ({best} {peers[best]['seconds']:.1f} s, "
            f"LightGBM {peers['LightGBM']['seconds']:.2f} s)"
        )
    models = f"the next best of {len(parts[0]['labels']) - 2} other models by mean rank"
    if len(set(names)) == 1:
        best = f"{names[0]}, {models}, has {' and '.join(accuracy)}"
    else:
        each = (f"{name} has {found}" for name, found in zip(names, accuracy, strict=True))
        best = f"{models} is {' or '.join(names)}: {' and '.join(each)}"
    fast = " and ".join(
        f"{p['summary'][FAST]['seconds']:.1f} s with {p['summary'][FAST]['ratio'][0]:.2f} times "
        f"the {LOSS[p['task']]}"
        for p in parts
    )
    lost = [name for part in [*parts, *parts_at(ROWS[1])] for name, _, _, _ in beaten(part)]
    n_sets = sum(len(part["names"]) for part in parts)
    return [
        f"**How accurate:** with at most {ROWS[0]:,} training rows and five splits that played no "
        f"part in development, {best}.",
        f'**How slow:** a fit takes {" and ".join(seconds)} of one core; `preset="fast"` takes '
        f"{fast}.",
        f"**When not:** for fits in a fraction of a second, for fast predictions of many rows, "
        f"and on {len(set(lost))} of these {n_sets} sets ({', '.join(dict.fromkeys(lost))}), "
        "where another library is better beyond one standard error.",
    ]


def growth() -> list[str]:
    """Return fits of more rows from the page of costs, nothing if it has none."""
    shown = ("rows", "fit, seconds", "peak memory, GiB")
    found = [(h, rows) for _, h, rows in tables("costs") if set(shown) <= set(h)]
    if not found:
        return []
    header, rows = found[0]
    columns = [header.index(name) for name in shown]
    text = (
        "More rows: a simulated table of 54 columns and two classes, `AutoClassifier` with all "
        f"cores, processor seconds ({where('costs')})."
    )
    return [text, table(shown, [[row[c] for c in columns] for row in rows])]


def autogluon_rows() -> list[tuple]:
    """Return ratios, sets won and seconds by task and time limit."""
    return [
        (f"{task}, {minutes} min", f"{n_sets}, {n_splits}", ratio, won, seconds)
        for task, minutes, n_sets, n_splits, ratio, won, _, seconds in autogluon.summary()
    ]


def fifteen() -> str:
    """Return the sets with the longest limit."""
    return f"only {', '.join(autogluon.LONGEST_SETS)}"


def beaten(part: dict) -> list[tuple[str, str, float, float]]:
    """Return sets with the library that is furthest ahead of ours beyond one standard error."""
    labels, found = part["labels"], []
    for name, values in zip(part["names"], part["loss"], strict=True):
        gains = values[:, [labels.index(OURS)]] - values
        error = gains.std(axis=0, ddof=1) / np.sqrt(len(gains))
        mean = gains.mean(axis=0)
        ahead = [j for j, m in enumerate(labels) if not m.startswith(OURS) and mean[j] > error[j]]
        if ahead:
            best = max(ahead, key=lambda j: mean[j])
            theirs, ours = values[:, best].mean(), values[:, labels.index(OURS)].mean()
            found.append((name, labels[best], theirs, ours))
    return found


def lost_rows(parts: list[dict]) -> list[tuple]:
    """Return the sets on which another library is better, AutoGluon with one minute included."""
    rows = [
        (name, f"{part['rows']:,}", peer, f"{theirs:.4f}", f"{ours:.4f}")
        for part in parts
        for name, peer, theirs, ours in beaten(part)
    ]
    for part in autogluon.all_parts():
        if part["minutes"] > 1:
            continue
        for name, loss in zip(part["names"], part["loss"], strict=True):
            gain = loss[:, 1] - loss[:, 0]
            if gain.mean() > gain.std(ddof=1) / np.sqrt(len(gain)):
                shown = [f"{v:.4f}" for v in loss.mean(axis=0)[:2]]
                rows.append((name, f"{autogluon.N_ROWS:,}", "AutoGluon, 1 min", *shown))
    return rows


def losses(parts: list[dict]) -> list[str]:
    """Return where the package loses in other respects; every one is checked by its numbers."""
    from _findings import claim, number, numbers, rows_below, searched

    times = [p["summary"][OURS]["seconds"] / p["summary"]["LightGBM"]["seconds"] for p in parts]
    found = [
        f"Time: LightGBM fits {times[0]:.0f} times (classification) and {times[1]:.0f} times "
        "(regression) as fast. "
    ]
    predict = [
        number("cost", "default", column="10,000 rows, s", after=f"## {task}, at most")
        / number("cost", "CatBoost", column="10,000 rows, s", after=f"## {task}, at most")
        for task in ("Classification", "Regression")
    ]
    found[0] += claim(
        min(predict) > 1,
        f"Predictions of many rows take {predict[0]:.0f} and {predict[1]:.0f} times as long as "
        f"with CatBoost ({see('cost')}).",
    )
    table1 = "partition_table1"
    ours, forest, svc = (
        [number(table1, row, column=name) for name in SETS]
        for row in ("default", "random forest (500)", "RBF SVC (C=10)")
    )
    worse = [sum(a > b for a, b in zip(ours, o, strict=True)) for o in (forest, svc)]
    noise = [
        numbers(cell("partition_figures", row, column="30 %", after="wbc_original"))[0]
        for row in ("LDA, r=5, paper's rule", "RBF SVC")
    ]
    found.append(
        claim(
            min(worse) > len(SETS) / 2 and noise[0] > noise[1],
            f"Partitions err more than a random forest on {worse[0]} of {len(SETS)} sets and more "
            f"than an RBF SVM on {worse[1]}. With 30 % wrong labels the paper's rule errs on "
            f"{noise[0]} % of wbc, the SVM on {noise[1]} % ({see(table1)}).",
        )
    )
    fused = [
        float(v)
        for v in searched(
            r"full space errs on ([\d.]+) % \(standard error ([\d.]+);.*?full space on ([\d.]+) %",
            "subspace_fusion",
        )
    ]
    trees = number(
        "divide_conquer_svc", "extra trees, 60, 20 features per split, all rows", column="error %"
    )
    found.append(
        claim(
            abs(fused[0] - fused[2]) < 2 * fused[1] and trees < fused[0],
            f"Fusion of subspaces errs on {fused[0]} % of covtype, its learner on all columns on "
            f"{fused[2]} % (no difference beyond noise), extra trees on {trees:.2f} % "
            f"({see('subspace_fusion')}).",
        )
    )
    density = float(cell("uncertainty_choices", "components by density", column=MEAN_RATIO))
    lcu, fisher = (
        number("uncertainty_faces", "PIE, unseen poses", column=column)
        for column in ("LCU, K = 7", "Fisherface")
    )
    found.append(
        claim(
            density < 1.02 and fisher > lcu,
            "Components by uncertainty are not better than components by density on real sets: "
            f"those have {density} times the error ({see('uncertainty_choices')}). On "
            f"faces in unseen poses Fisherface is right on {fisher:.1f} %, "
            f"`LocallyAdaptiveClassifier` on {lcu:.1f} %.",
        )
    )
    pairs, distance, sigmoid = searched(
        r"Least log loss of the (\w+) pairs.*?: distance (\d+), sigmoid (\d+)",
        "surface_calibration",
    )
    found.append(
        claim(
            int(sigmoid) > int(distance),
            f"Probabilities from a sigmoid have a lower log loss than those from distances to the "
            f"surface on {sigmoid} of {pairs} pairs of data and classifier "
            f"({see('surface_calibration')}).",
        )
    )
    nets, forest = (
        number("neural_neighbors", "5,000 x 20", column=column, after="## On a CPU")
        for column in ("s", "RandomForest(500) s")
    )
    found.append(
        claim(
            nets > forest,
            f"Without a GPU neural neighbours take {nets / forest:.0f} times as long to fit as a "
            f"random forest of 500 trees (5,000 rows; {see('neural_neighbors')}).",
        )
    )
    devices = rows_below("devices", "both / better one")
    ratios = [float(row["both, s"]) / float(row["processor, s"]) for row in devices]
    slower = np.exp(np.log(ratios).mean())
    found.append(
        claim(
            slower > 1,
            f"On tables of at most 1,000 rows a GPU saves no time: CPU and GPU together take "
            f"{slower:.1f} times as long as the CPU ({see('devices')}).",
        )
    )
    return found


def added() -> list[str]:
    """Return the table of what each model family adds, nothing if it was not run."""
    if not families.parts():
        return []
    return [
        "## What each model family adds",
        f"{families.finding()} All numbers: {where('families')}.",
        table(*families.summary()),
    ]
