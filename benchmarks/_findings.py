"""First lines of every page of ``docs/results``: a few sentences, and one plot.

Every number is read from the tables of the page, which are made of stored cases. A function per
page returns its sentences and the panels of its plot. ``python benchmarks/_findings.py [PAGE ...]``
plots figures/PAGE.png from the pages as they are; ``rebuild.py`` writes the sentences alone.
"""

import math
import re
import sys
from dataclasses import dataclass, field

from _pages import PAGES, RESULTS
from index import MEAN_RATIO, SETS, cell, is_built, page, tables

NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")
MARKS = "osD^vPX"


@dataclass
class Panel:
    """One axis of a plot: rows from top to bottom, and a mark per series in each of them."""

    rows: list[str]
    series: dict[str, list[float | None]]
    unit: str
    title: str = ""
    is_log: bool = True
    is_from_zero: bool = True
    line: float | None = None
    ticks: tuple[float, ...] = ()


@dataclass
class Finding:
    """What a page begins with; ``figure`` is the file of its plot, None without one."""

    sentences: list[str]
    panels: list[Panel] = field(default_factory=list)
    caption: str = ""
    figure: str | None = None


# --- numbers and phrases ------------------------------------------------------------------------


def numbers(text):
    """Return all numbers of a cell."""
    return [float(found.replace(",", "")) for found in NUMBER.findall(text)]


def number(*where, column, after=""):
    """Return the first number of a cell of a page."""
    return numbers(cell(*where, column=column, after=after))[0]


def rows_below(name, column, after=""):
    """Return the rows of the first table with a column below a line, as dictionaries."""
    lines = page(name).splitlines()
    first = next(i for i, line in enumerate(lines) if after in line)
    for start, header, rows in tables(name):
        if start >= first and column in header:
            return [dict(zip(header, row, strict=True)) for row in rows]
    raise LookupError(f"{name} has no table with a column {column!r} after {after!r}.")


def searched(pattern, name):
    """Return the groups of a pattern in the text of a section."""
    found = re.search(pattern, page(name))
    if not found:
        raise LookupError(f"{name} has no text like {pattern!r}.")
    return found.groups()


def short(value):
    """Return a number with three digits at most, without an exponent."""
    return (
        f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}" if value >= 1 else f"{value:.2g}"
    )


def listed(parts):
    """Return parts as a list in a sentence."""
    parts = [str(part) for part in parts]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def span(values, unit=""):
    """Return the least and the largest of some values."""
    low, high = short(min(values)), short(max(values))
    return f"{low} to {high}{unit}" if low != high else f"{low}{unit}"


def wins(names, ours, theirs, note="", noun="sets"):
    """Return on how many sets ours is lower, the others by name, and a note in brackets."""
    others = [n for n, a, b in zip(names, ours, theirs, strict=True) if not a < b]
    notes = [f"not on {listed(others)}"] if 0 < len(others) <= 3 else []
    notes += [note] if note else []
    shown = f" ({'; '.join(notes)})" if notes else ""
    return f"{len(names) - len(others)} of {len(names)} {noun}{shown}"


def claim(holds, text):
    """Return a text that is true as long as ``holds``; else it must be written again."""
    if not holds:
        raise ValueError(f"The stored cases no longer support: {text}")
    return text


def mean_ratio(ours, theirs):
    """Return the geometric mean of ratios."""
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    return math.exp(sum(logs) / len(logs))


# --- pages --------------------------------------------------------------------------------------


def auto():
    import bench_autogluon as autogluon
    from bench_comparison import ROWS, parts_at, sentences
    from bench_tables import sentence

    losses = {"classification": "log loss", "regression": "squared error"}
    rows = [autogluon.summary_row(p) for p in autogluon.all_parts() if p["minutes"] == 1]
    times = []
    for row in rows:
        ratio, _, interval = row[4].partition(" (")
        times.append(
            f"{ratio} times the {losses[row[0]]} of ours on {row[2]} sets (95 % interval {interval}"
        )
    return Finding(
        [
            *sentences(parts_at(ROWS[0])),
            f"{sentence()} On the public sets AutoGluon with one minute has {listed(times)}.",
        ],
        caption="loss compared with fit time",
        figure="comparison_cost.png",  # of bench_comparison.py
    )


def cost():
    from bench_comparison import FAST, OURS, ROWS, parts_at

    times = []
    for part in parts_at(ROWS[0]):
        ours, fast, cat, light = (
            short(part["summary"][m]["seconds"]) for m in (OURS, FAST, "CatBoost", "LightGBM")
        )
        times.append(
            f'{ours} s in {part["task"]} ({fast} s with `preset="fast"`, CatBoost {cat} s, '
            f"LightGBM {light} s)"
        )
    columns = ("10,000 rows, s", "one row, ms", "file, MB")
    models = ("default", "fast", "LightGBM", "CatBoost")
    tasks = {
        task: {
            m: [number("cost", m, column=c, after=f"## {task}, at most") for c in columns]
            for m in models
        }
        for task in ("Classification", "Regression")
    }
    many, row, file = (
        [found["default"][k] / found["CatBoost"][k] for found in tasks.values()] for k in range(3)
    )
    sentences = [
        f"With at most 1,000 rows a fit takes {listed(times)} of one core.",
        claim(min(many) > 2, "Predictions of many rows are slow: ")
        + f"10,000 rows take {listed(f'{s:.0f}' for s in many)} times as long as with CatBoost "
        f"(classification and regression), and one row {listed(f'{r:.1f}' for r in row)} times.",
        f"Files have {listed(f'{f:.2f}' for f in file)} times the size of CatBoost's.",
    ]
    panels = [
        Panel(
            ["10,000 predictions", "one prediction", "file size"],
            {
                label: [a / b for a, b in zip(found[m], found["CatBoost"], strict=True)]
                for m, label in (
                    ("default", "vicinal, default"), ("fast", "vicinal, fast"),
                    ("LightGBM", "LightGBM"),
                )
            },
            "ratio to CatBoost (left: better)",
            f"{task.lower()}, at most 1,000 rows",
            line=1.0,
        )
        for task, found in tasks.items()
    ]  # fmt: skip
    return Finding(sentences, panels, "costs of predictions and files in ratio to CatBoost's")


def partition():
    name = "partition_table1"

    def of(row):
        return [number(name, row, column=s) for s in SETS]

    paper, ours, forest, svc = (
        of(r)
        for r in (
            "best local row of the paper", "default", "random forest (500)", "RBF SVC (C=10)"
        )
    )  # fmt: skip
    n_lower = [sum(a < b for a, b in zip(ours, other, strict=True)) for other in (forest, svc)]
    rule = "LDA, r=5, paper's rule"
    noisy = {
        label: cell("partition_figures", label, column="30 %", after="wbc_original")
        for label in (rule, "tree", "RBF SVC")
    }
    return Finding(
        [
            "`SpacePartitioningClassifier()` has a lower test error than the best local learner of "
            f"the paper on {wins(SETS, ours, paper)}, and {mean_ratio(ours, paper):.2f} times its "
            "error in the geometric mean.",
            claim(
                max(n_lower) < len(SETS) / 2 and mean_ratio(ours, svc) > 1,
                "Models of today are better on most sets: its error is lower than that of a "
                f"random forest of 500 trees on {n_lower[0]} of {len(SETS)} sets and than that of "
                f"an RBF SVM on {n_lower[1]} ({mean_ratio(ours, svc):.2f} times the SVM's error in "
                "the geometric mean).",
            ),
            claim(
                numbers(noisy[rule])[0] > numbers(noisy["RBF SVC"])[0],
                "The paper's rule is not robust to wrong labels: with 30 % of them in wbc its "
                f"error is {noisy[rule]} %, that of a tree {noisy['tree']} % and that of an RBF "
                f"SVM {noisy['RBF SVC']} %.",
            ),
        ],
        [
            Panel(
                list(SETS),
                {
                    "vicinal, default": ours,
                    "best local learner of the paper": paper,
                    "random forest (500 trees)": forest,
                    "RBF SVM (C = 10)": svc,
                },
                "test error, % (left: better)",
            )
        ],
        "test error on six sets",
    )


def local():
    name, sets = "local_accuracy", ["satimage", "pendigits", "letter", "optdigits"]
    labels = {
        "LocalClassifier()": "`LocalClassifier()`: standardised, k and alpha chosen",
        "local ridge, k = 40": "local ridge, k = 40, alpha = 1",
        "extra trees (500)": "extra trees, 500",
        "SVC, C and gamma chosen": "SVC, C and gamma chosen",
    }
    error = {
        label: [number(name, row, column=s, after="test error, %") for s in sets]
        for label, row in labels.items()
    }
    seconds = {
        label: [
            sum(numbers(cell(name, row, column=s, after="fit + predict, processor s")))
            for s in sets
        ]
        for label, row in labels.items()
    }
    ours, _, trees, svc = error.values()
    exact = number("loess", "100000", "ours, exact", column="processor s")
    theirs = number("loess", "100000", "statsmodels, exact", column="processor s")
    fast = number("loess", "100000", "ours, interpolated", column="processor s")
    delta = number("loess", "100000", "statsmodels, delta", column="processor s")
    times = [seconds[label] for label in labels]
    return Finding(
        [
            "`LocalClassifier()` has a lower test error than 500 extra trees on "
            + wins(sets, ours, trees, f"{mean_ratio(ours, trees):.2f} times their error")
            + " and than an SVC with C and gamma chosen on "
            + wins(sets, ours, svc, f"{mean_ratio(ours, svc):.2f} times its error")
            + "; ratios are geometric means.",
            f"Fit and prediction take {span(times[0])} processor seconds; extra trees take "
            f"{span(times[2])} and the SVC {span(times[3])}.",
            f"Exact LOESS of 100,000 rows takes {short(exact)} s, in statsmodels {short(theirs)} "
            f"s. Interpolated LOESS takes {short(fast)} s; the faster approximation of statsmodels "
            f"(`delta`) takes {short(delta)} s.",
        ],
        [
            Panel(sets, error, "test error, % (left: better)"),
            Panel(sets, seconds, "fit and prediction, processor s (left: better)"),
        ],
        "test error and time on four sets",
    )


def surface():
    name = "surface_counterfactual"
    rows, peer, ours, theirs_s, ours_s = [], [], [], [], []
    nice = []
    for data, mark in (("breast cancer", "**breast cancer**"), ("adult", "**adult")):
        alone = float(searched(re.escape(mark) + r"[\s\S]*?one row alone ([\d.]+) s", name)[0])
        found = rows_below(name, "median distance", mark)
        for method in ("DiCE random", "DiCE genetic", "NICE"):
            at = next(i for i, row in enumerate(found) if row["method"] == method)
            rows.append(f"{data}: {method}")
            peer.append(float(found[at]["median distance"]))
            ours.append(float(found[at + 1]["median distance"]))
            theirs_s.append(float(found[at]["s per row"]))
            ours_s.append(alone)
            if method == "NICE":
                nice.append((data, ours[-1], peer[-1]))
    constrained = "surface_constraints"
    limited = {
        m: {
            c: cell(constrained, m, column=c, after="**adult**")
            for c in ("rows", "valid", "invalid", "median s per row")
        }
        for m in ("vicinal", "NICE")
    }
    least = searched(r"Least log loss of the (\w+) pairs.*?: distance (\d+), sigmoid (\d+)",
                     "surface_calibration")  # fmt: skip
    return Finding(
        [
            claim(
                max(a / b for a, b in zip(ours, peer, strict=True)) < 1,
                "Our counterfactuals are closer: ",
            )
            + "their median distance is "
            + listed(f"{a:.2f} on {data} (NICE {b:.2f})" for data, a, b in nice)
            + f", {span([a / b for a, b in zip(ours, peer, strict=True)])} of that of DiCE and "
            f"NICE on the same rows. One row alone takes {span(ours_s)} s, with DiCE and NICE "
            f"{span(theirs_s)} s.",
            f"With constraints on adult, {limited['vicinal']['valid']} of "
            f"{limited['vicinal']['rows']} rows get a valid counterfactual and "
            f"{limited['vicinal']['invalid']} an invalid one (NICE {limited['NICE']['valid']} and "
            f"{limited['NICE']['invalid']}). A row takes "
            f"{short(float(limited['vicinal']['median s per row']))} s, with NICE "
            f"{short(float(limited['NICE']['median s per row']))} s.",
            claim(
                int(least[2]) > int(least[1]),
                f"For calibrated probabilities prefer a sigmoid: of {least[0]} pairs of data and "
                f"classifier it has the lowest log loss in {least[2]}, distances to the surface "
                f"in {least[1]}.",
            ),
        ],
        [
            Panel(
                rows,
                {"vicinal": ours, "other library": peer},
                "median distance on the same rows, standard\n"
                "deviations + 1 per category (left: better)",
            ),
            Panel(
                rows,
                {"vicinal": ours_s, "other library": theirs_s},
                "processor time of one row, s\n(left: better)",
            ),
        ],
        "distance and time of counterfactuals",
    )


def uncertainty():
    toys, faces = "uncertainty_toys", "uncertainty_faces"
    kinds = {"RMM": "by uncertainty (vicinal)", "GMM": "by density", "k-means": "by k-means"}
    toy = {
        kinds[k]: [number(toys, k, column="error", after=t) for t in ("Toy 1:", "Toy 2:")]
        for k in kinds
    }
    splits = ["PIE, lightings between", "PIE, lightings beyond", "PIE, unseen poses",
              "Yale B, 20 per subject", "ORL, 5 per subject"]  # fmt: skip
    methods = {
        "LCU, K = 7": "LocallyAdaptiveClassifier",
        "LLDA (k-means)": "local discriminants (k-means)",
        "Fisherface": "Fisherface",
        "whitened 1-NN": "whitened 1-NN",
    }
    error = {
        label: [100 - number(faces, s, column=m) for s in splits] for m, label in methods.items()
    }
    names = ["lightings between", "lightings beyond", "unseen poses", "Yale B", "ORL"]
    ours, discriminants, fisher, nearest = error.values()
    n_sets = len(rows_below("uncertainty_choices", MEAN_RATIO)[0]) - 2
    density = cell("uncertainty_choices", "components by density", column=MEAN_RATIO)
    first, second = ([values[i] for values in toy.values()] for i in (0, 1))
    poses = splits.index("PIE, unseen poses")
    return Finding(
        [
            f"On the paper's two toys, components located by uncertainty have an error of "
            f"{first[0]} % and {second[0]} %, by density {first[1]} % and {second[1]} %.",
            claim(
                float(density) < 1.02,
                f"On {n_sets} real sets there is no such gain: with components by density the "
                f"error is {density} times that of the default.",
            ),
            "On faces, `LocallyAdaptiveClassifier` has a lower error than local discriminants on "
            f"{wins(names, ours, discriminants, noun='splits')}, than Fisherface on "
            f"{wins(names, ours, fisher, noun='splits')} and than a whitened nearest neighbour on "
            f"{wins(names, ours, nearest, noun='splits')}. On unseen poses it errs on "
            f"{ours[poses]:.1f} %, Fisherface on {fisher[poses]:.1f} %.",
        ],
        [
            Panel(["toy 1", "toy 2"], toy, "test error, % (left: better)",
                  "toys of the paper: components"),
            Panel(splits, error,
                  "test error, % (left: better)", "faces", is_log=False),
        ],
        "errors on toys and faces",
    )  # fmt: skip


def subspace():
    name = "subspace_tables"
    fused = searched(
        r"full space errs on ([\d.]+) % \(standard error ([\d.]+);.*?full space on ([\d.]+) %",
        "subspace_fusion",
    )
    paper, ours, plain = [], [], []
    for data in ("covtype", "census"):
        paper.append(number(name, "proposed (fusion)", column=f"{data}, published"))
        ours.append(number(name, "proposed (fusion)", column=f"{data}, ours"))
    plain = [
        float(fused[2]),
        number("subspace_fusion", "LinearSVC, all columns", column="error %",
               after="Census, 159,618"),
    ]  # fmt: skip
    for row in ("news20, here 20 newsgroups", "RCV1, here its subset"):
        paper.append(number(name, row, column="proposed, published"))
        ours.append(number(name, row, column="fusion, ours"))
        plain.append(number(name, row, column="LinearSVC, ours"))
    errors = [
        float(fused[1]),
        *(
            number("subspace_fusion", row, column="standard error", after=after)
            for row, after in (
                ("fusion, default", "Census, 159,618"),
                ("TRBF2 ridge of subspaces", "20 newsgroups, two"),
                ("TRBF2 ridge of subspaces", "RCV1 subset (published"),
            )
        ),
    ]
    clusters = "divide_conquer_svc"
    dc, trees, boosting = (
        [
            number(clusters, f"{prefix}{row}, all rows", column="error %")
            for prefix in ("", "census: ")
        ]
        for row in (
            "DC-SVM early, k=256",
            "extra trees, 60, 20 features per split",
            "histogram boosting, 400 x 63 leaves",
        )
    )
    gains = [
        f"{set_} {b - a:+.2f} ± {e:.2f}"
        for set_, a, b, e in zip(
            ("covtype", "census", "20 newsgroups", "RCV1"), plain, ours, errors, strict=True
        )
    ]
    rows = ["covtype", "census", "news20 (here 20 newsgroups)", "RCV1 (here its subset)"]
    return Finding(
        [
            f"Fusion of subspaces errs on {ours[0]} % of covtype (published {paper[0]} %) and on "
            f"{ours[1]} % of census (published {paper[1]} %).",
            claim(
                all(abs(b - a) < 2 * e for a, b, e in zip(plain, ours, errors, strict=True)),
                "Fusion does not beat the same learner, or a linear SVM, on all columns beyond two "
                f"standard errors. The differences in points are: {listed(gains)} (negative: "
                "fusion has the lower error; ± standard error of the fused model).",
            ),
            claim(
                trees[0] < min(ours[0], dc[0]) and boosting[1] < min(ours[1], dc[1]),
                f"Trees are better: on covtype extra trees err on {trees[0]} % and "
                f"`DivideConquerSVC` on {dc[0]} %, on census histogram boosting errs on "
                f"{boosting[1]} % and `DivideConquerSVC` on {dc[1]} %.",
            ),
        ],
        [
            Panel(
                rows,
                {
                    "fusion, vicinal": ours,
                    "fusion, published": paper,
                    "same learner or linear SVM, all columns": plain,
                    "best of two tree ensembles": [
                        *(min(a, b) for a, b in zip(trees, boosting, strict=True)), None, None
                    ],
                },
                "test error, % (left: better)",
            )
        ],
        "test error on four sets",
    )  # fmt: skip


def ensemble():
    spam = "ensemble_spam"
    ours, lecture = (
        [number(spam, row, column=column) for row in
         ("`PrunedTreeClassifier(rule='1se')`", "stumps", "5-leaf trees")]
        for column in ("test error %", "lecture %")
    )  # fmt: skip
    sklearn = [
        number(spam, row, column="test error %")
        for row in (
            "unpruned tree (scikit-learn)",
            "boosted stumps, 400 rounds, rate 0.3 (scikit-learn)",
            "boosted 5-leaf trees, 400 rounds (scikit-learn)",
            "histogram boosting, 5 leaves, 400 rounds (scikit-learn)",
            "random forest, 200 trees (scikit-learn)",
        )
    ]
    real = number(spam, "`RealAdaBoostClassifier()`", column="test error %")
    error = searched(r"One standard error of a test error is (\d+\.\d+)", spam)[0]
    n_sets, loss, low, high, time = searched(
        r"on (\d+) classification sets.*?symmetric trees is ([\d.]+) \(([\d.]+) to ([\d.]+); "
        r".*?fit takes ([\d.]+) of CatBoost",
        "oblivious",
    )
    return Finding(
        [
            claim(
                ours[0] < lecture[0] and ours[1] > lecture[1] and ours[2] > lecture[2],
                f"On spam our pruned tree errs on {ours[0]:.1f} % (published {lecture[0]} %), but "
                f"boosted stumps on {ours[1]:.1f} % (published {lecture[1]} %) and boosted 5-leaf "
                f"trees on {ours[2]:.1f} % (published {lecture[2]} %); a standard error is {error} "
                "points.",
            ),
            f"`RealAdaBoostClassifier()` errs on {real:.1f} %, scikit-learn's histogram boosting "
            f"on {sklearn[3]:.1f} % and its random forest on {sklearn[4]:.1f} %.",
            f"`ObliviousBoostingClassifier` has {loss} times the log loss of CatBoost on {n_sets} "
            f"sets (95 % interval {low} to {high}) in {time} of its fit time.",
        ],
        [
            Panel(
                ["tree", "boosted stumps", "boosted 5-leaf trees", "Real AdaBoost, default",
                 "histogram boosting", "random forest"],
                {
                    "vicinal": [*ours, real, None, None],
                    "published": [*lecture, None, None, None],
                    "scikit-learn": [*sklearn[:3], None, *sklearn[3:]],
                },
                "test error on spam, % (left: better; a standard error is "
                f"{error} points)",
                is_log=False, is_from_zero=False,
            )
        ],
        "test error on spam",
    )  # fmt: skip


def metric():
    name, sets = "neural_peers", ["letter", "satimage", "spambase", "grid_stability"]
    models = ("neural neighbours", "RealMLP", "TabM", "xRFM", "TabR")
    error, fit = (
        {m: [number(name, s, m, column=column) for s in sets] for m in models}
        for column in ("error %", "fit s")
    )
    ours = error["neural neighbours"]
    lower = [
        f"than {m} on {sum(a < b for a, b in zip(ours, error[m], strict=True))}" for m in models[1:]
    ]
    best = [
        f"{s} ({m} {error[m][i]:.2f} %, ours {ours[i]:.2f} %)"
        for i, s in enumerate(sets)
        if (m := min(models, key=lambda m: error[m][i])) != models[0]
    ]
    shown = [*sets[:3], "grid_stability\n(squared error)"]
    slow, forest = (
        number("neural_neighbors", "5,000 x 20", column=c, after="## On a CPU")
        for c in ("s", "RandomForest(500) s")
    )
    return Finding(
        [
            f"Neural neighbours have the lowest error of {len(models)} models on "
            f"{len(sets) - len(best)} of {len(sets)} sets with at most 5,000 rows (mean of three "
            f"seeds): lower {listed(lower)} of them.",
            f"Others are better on {listed(best)}." if best else "No other is better on any set.",
            f"On a GPU they fit in {span(fit['neural neighbours'])} s (RealMLP "
            f"{span(fit['RealMLP'])} s, xRFM {span(fit['xRFM'])} s). Without a GPU they are slow: "
            f"5,000 rows with 20 columns take {short(slow)} processor seconds, a random forest of "
            f"500 trees {short(forest)}.",
        ],
        [
            Panel(shown, error, "error, % (left: better)"),
            Panel(shown, fit, "fit on a GPU, s (left: better)"),
        ],
        "error and fit time compared with other networks",
    )


def neighbors():
    name, column = "neighbors", "µs of processor time"
    labels = {
        "vicinal, products": "ours, blocked products",
        "vicinal, tree": "ours, tree",
        "scikit-learn, brute force": "scikit-learn, brute",
        "scikit-learn, kd-tree": "scikit-learn, kd-tree",
    }
    found = rows_below(name, column, "## By dimension and size")
    time = {(r["d"], r["rows"], r["search"]): float(r[column]) for r in found}
    sizes = ["20,000", "100,000", "1,000,000"]
    columns = ["2", "8", "16", "64"]
    pairs = [
        (time[d, n, "ours, blocked products"], time[d, n, "scikit-learn, brute"])
        for d in columns
        for n in sizes
    ]
    trees = [
        (time[d, n, "ours, tree"], time[d, n, "scikit-learn, kd-tree"])
        for d in columns
        for n in sizes
        if (d, n, "ours, tree") in time
    ]
    memory = [
        number(name, row, column="memory, MB", after="## Memory")
        for row in ("ours, blocked products", "scikit-learn, brute")
    ]
    return Finding(
        [
            f"Exact search by blocked products takes less processor time than scikit-learn's "
            f"brute force in {sum(a < b for a, b in pairs)} of {len(pairs)} cases; brute force "
            f"takes {span([b / a for a, b in pairs])} times as long.",
            claim(
                all(a > b for a, b in trees)
                and all(
                    time["2", n, "ours, tree"] < time["2", n, "ours, blocked products"]
                    for n in sizes
                )
                and time["16", sizes[0], "ours, blocked products"]
                < time["16", sizes[0], "scikit-learn, kd-tree"],
                "scikit-learn's kd-tree is faster than our tree, which takes "
                f"{span([a / b for a, b in trees])} times as long. With 2 columns a tree is faster "
                "than products, with 16 it is slower.",
            ),
            "The products need more memory: "
            f"{short(memory[0])} MB compared with "
            f"{short(memory[1])} MB for 1,000,000 rows of 16 columns.",
        ],
        [
            Panel(
                [f"{n} rows" for n in sizes],
                {label: [time.get((d, n, row)) for n in sizes] for label, row in labels.items()},
                "processor time of a query, µs (left: better)",
                f"{d} columns",
            )
            for d in ("2", "16")
        ],
        "time of a query by number of rows",
    )


def linear():
    logistic = rows_below("linear", "cold s")
    problems = list(dict.fromkeys(r["problem"] for r in logistic))
    time = {(r["problem"], r["solver"], c): float(r[c]) for r in logistic
            for c in ("cold s", "warm s")}  # fmt: skip
    peers = {"lbfgs": "scikit-learn lbfgs", "newton-cholesky": "scikit-learn newton-cholesky"}
    ratio = {
        f"{peer}, {'from zero' if c == 'cold s' else 'warm start'}": [
            time[p, label, c] / time[p, "ours", c] for p in problems
        ]
        for c in ("cold s", "warm s")
        for peer, label in peers.items()
    }
    lda = [float(r["peer / ours"]) for r in rows_below("linear", "WeightedLDA s")]
    sets = [r["set"].split()[0] for r in rows_below("linear", "WeightedLDA s")]
    averaged = rows_below("linear", "ms per epoch")
    perceptron = float(averaged[-1]["ms per epoch"]) / float(averaged[0]["ms per epoch"])
    cold = [v for k, values in ratio.items() if "zero" in k for v in values]
    warm = [v for k, values in ratio.items() if "warm" in k for v in values]
    rows = [*(f"logistic: {p}" for p in problems), *(f"LDA: {s}" for s in sets),
            "perceptron: letter"]  # fmt: skip
    empty = [None] * (len(sets) + 1)
    slower = []
    for p in problems:
        own = time[p, "ours", "warm s"]
        faster = {k: time[p, v, "warm s"] / own for k, v in peers.items()}
        shown = [f"{k} {v:.2f}" for k, v in faster.items() if v < 1]
        if shown:
            slower.append(f"{p} ({listed(shown)} times)")
    excess = {}  # of solutions from zero: the first of two columns of that name
    for _, header, cells in tables("linear"):
        if "cold s" in header:
            for row in cells:
                excess.setdefault(row[1], []).append(float(row[header.index("excess")]))
    worst = {solver: f"{100 * max(values):.2g} %" for solver, values in excess.items()}
    return Finding(
        [
            f"scikit-learn takes {span(cold)} times as long as our logistic regression from zero, "
            f"{span(lda)} times for linear discriminant analysis and {perceptron:.1f} times for "
            "the averaged perceptron.",
            f"From a warm start it takes {span(warm)} times as long."
            + (f" Ours is slower on {listed(slower)}." if slower else ""),
            f"The objective is at most {worst['ours']} above the optimum with ours, "
            f"{worst[peers['lbfgs']]} with lbfgs and {worst[peers['newton-cholesky']]} with "
            "newton-cholesky.",
        ],
        [
            Panel(
                rows,
                {label: [*values, *empty] for label, values in ratio.items()}
                | {
                    "lsqr": [*[None] * len(problems), *lda, None],
                    "SGDClassifier": [*[None] * (len(problems) + len(sets)), perceptron],
                },
                "time of scikit-learn / time of vicinal (right of 1: vicinal is faster)",
                line=1.0,
            )
        ],
        "time of scikit-learn in ratio to ours",
    )


def conformal():
    column = "0.9: coverage (width at equal coverage)"
    widths, name = {}, None
    for row in rows_below("rows", column, "## Compared with MAPIE and crepes"):
        name = row["set"] or name
        widths.setdefault(row["method"], {})[name] = numbers(row[column])[1]
    ours = widths.pop("vicinal")
    mean = {
        (m, c): cell("rows", m, column=c, after="At equal coverage")
        for m in widths
        for c in ("0.8", "0.9", "0.95")
    }
    cover = searched(r"Within 1.5 points at all three levels on (\d+) of (\d+) sets", "rows")
    labels = searched(
        r"Within 1.5 points at all three levels on (\d+) of (\d+) sets; beyond", "rows"
    )
    novel = searched(r"as good as the best, on (\d+) of (\d+) sets", "rows")
    wrong = searched(r"at least cleanlab's in (.*?) cases \(means (.*?) and (.*?)\)", "rows")
    return Finding(
        [
            f"Coverage is within 1.5 points of nominal on {cover[0]} of {cover[1]} sets for "
            f"intervals and on {labels[0]} of {labels[1]} for sets of labels.",
            "At equal coverage of 90 %, intervals of "
            + listed(f"{m} are {float(mean[m, '0.9']):.2f}" for m in widths)
            + " times as wide as ours (geometric mean of "
            + f"{len(ours)} sets). At 80 % those of MAPIE CV+ are "
            f"{float(mean['MAPIE CV+', '0.8']):.2f} times as wide.",
            f"Our novelty score is best, or as good as the best of three, on {novel[0]} of "
            f"{novel[1]} sets. For wrong labels the average precision is {wrong[1]}, cleanlab's "
            f"{wrong[2]}.",
        ],
        [
            Panel(
                list(ours),
                {m: [w[s] / ours[s] for s in ours] for m, w in widths.items()},
                "width of 90 % intervals / width of ours, at equal coverage "
                "(right of 1: ours are narrower)",
                line=1.0,
                ticks=(0.9, 1, 1.1, 1.25, 1.5, 1.75, 2),
            )
        ],
        "width of intervals in ratio to ours",
    )


def gpu():
    found = rows_below("devices", "both / better one")
    rows = [r["set"] for r in found]
    cpu, tensors, both = (
        [float(r[c]) for r in found] for c in ("processor", "GPU (tensors)", "both")
    )
    seconds = {c: [float(r[f"{c}, s"]) for r in found] for c in
               ("processor", "GPU (tensors)", "both")}  # fmt: skip
    large = "simulated, 1,000,000 rows"
    fit, trees = (number("auto_cuda", large, m, column="fit s") for m in ("vicinal", "extra trees"))
    error, other = (
        number("auto_cuda", large, m, column="error %") for m in ("vicinal", "extra trees")
    )
    slower = mean_ratio(seconds["both"], seconds["processor"])
    order = sorted(range(len(rows)), key=lambda i: both[i] / cpu[i])
    return Finding(
        [
            f"With CPU and GPU together the loss is {mean_ratio(both, cpu):.3f} of that of the CPU "
            f"alone and {mean_ratio(both, tensors):.3f} of that of the GPU alone (geometric means "
            f"over {len(rows)} sets of at most 1,000 rows).",
            claim(slower > 1, "On such small tables a GPU does not save time: both together take ")
            + f"{slower:.1f} times as long as the CPU, the GPU alone "
            f"{mean_ratio(seconds['GPU (tensors)'], seconds['processor']):.1f} times, and on "
            f"{sum(b > a for a, b in zip(cpu, both, strict=True))} sets the loss is higher than "
            "with the CPU alone.",
            f"On 1,000,000 rows a GPU fits in {short(fit)} s with {short(error)} % errors; extra "
            f"trees on 16 cores take {short(trees)} s and have {short(other)} %.",
        ],
        [
            Panel(
                [rows[i] for i in order],
                {
                    "CPU and GPU": [both[i] / cpu[i] for i in order],
                    "GPU alone": [tensors[i] / cpu[i] for i in order],
                },
                "loss / loss with the CPU alone (left of 1: better with a GPU)",
                line=1.0,
                ticks=(0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4),
            )
        ],
        "loss by device",
    )


def distributed():
    name = "distributed"
    table = float(searched(r"([\d.]+) GB as the doubles", name)[0]) * 1000
    n_rows = searched(r"repeated to ([\d,]+) rows", name)[0]
    seconds, work, memory = {}, {}, {}
    for fit in ("read", "partition"):
        for workers in ("1", "2"):
            seconds[fit, workers] = number(name, fit, workers, column="seconds")
            work[fit, workers] = number(name, fit, workers, column="processor s of the workers")
            memory[fit, workers] = max(numbers(cell(name, fit, workers, column="peak MB of each")))
    speedup = seconds["partition", "1"] / seconds["partition", "2"]
    killed = cell(name, "partition", column="difference from two workers")
    memory_cost, block_cost = (
        number(name, row, column="processor s", after="letter, 16,000 rows")
        for row in ("in memory", "blocks of 3,000")
    )
    fits = {"read": "read the table", "partition": "fit a partition"}
    by_workers = {"1": "one worker", "2": "two workers"}
    return Finding(
        [
            f"A partition of {n_rows} rows takes {short(seconds['partition', '1'])} s with one "
            f"worker and {short(seconds['partition', '2'])} s with two: {speedup:.1f} times as "
            f"fast, for {work['partition', '2'] / work['partition', '1']:.2f} times the processor "
            "time.",
            f"A worker needs at most {short(memory['partition', '2'])} MB for a table of "
            f"{short(table)} MB. A fit during which one of two workers is killed differs by "
            f"{killed} in its probabilities.",
            claim(
                block_cost > memory_cost,
                "Where a table fits into memory, do not use blocks: on letter, blocks of 3,000 "
                f"rows take {block_cost / memory_cost:.1f} times the processor time.",
            ),
        ],
        [
            Panel(
                list(fits.values()),
                {label: [seconds[fit, w] for fit in fits] for w, label in by_workers.items()},
                "wall time, s (left: better)",
                is_log=False,
            ),
            Panel(
                list(fits.values()),
                {label: [memory[fit, w] for fit in fits] for w, label in by_workers.items()}
                | {"the table in memory": [table, table]},
                "peak memory of a worker, MB (left: better)",
                is_log=False,
            ),
        ],
        "time and memory by number of workers",
    )


def production():
    clients, servers = ["1", "8", "64"], ("vicinal serve", "FastAPI and joblib")
    rate, middle, tail = (
        {s: [number("load", c, s, column=column) for c in clients] for s in servers}
        for column in ("per second", "p50, ms", "p99, ms")
    )
    ours, theirs = servers
    shell = {
        m: [cell("shell", m, column=c) for c in ("test error %", "processor minutes")]
        for m in ("vicinal", "LightGBM", "AutoGluon")
    }
    rows = [f"{c} client{'s' if c != '1' else ''}" for c in clients]
    return Finding(
        [
            f"`vicinal serve` handles {listed(short(v) for v in rate[ours])} requests per second "
            f"from {listed(clients)} clients; FastAPI with the same model handles "
            f"{listed(short(v) for v in rate[theirs])}.",
            f"The median latency is {listed(short(v) for v in middle[ours])} ms, that of FastAPI "
            f"{listed(short(v) for v in middle[theirs])} ms; the 99th percentile is "
            f"{listed(short(v) for v in tail[ours])} ms compared with "
            f"{listed(short(v) for v in tail[theirs])} ms.",
            f"On the command line, adult has a test error of {shell['vicinal'][0]} % after "
            f"{shell['vicinal'][1]} processor minutes; LightGBM has {shell['LightGBM'][0]} % after "
            f"{shell['LightGBM'][1]} and AutoGluon {shell['AutoGluon'][0]} % after "
            f"{shell['AutoGluon'][1]}.",
        ],
        [
            Panel(rows, rate, "requests per second (right: better)", is_log=False),
            Panel(rows, tail, "99th percentile of latency, ms (left: better)"),
        ],
        "requests per second and latency",
    )


def robustness():
    def total(column, after):
        return number("robustness", "all", column=column, after=after)

    inputs, files, structures = "## Odd inputs", "## Damaged model", "## Model files with other"
    signals = rows_below("robustness", "longest, s")
    kills = searched(r"Of (\d+) kills at random moments.*?, (\d+) anything less", "robustness")

    def both(column):
        return f"{total(column, files) + total(column, structures):,.0f}"

    mutants = []
    if is_built("mutants"):
        modules = rows_below("mutants", "killed")[:-1]
        n_killed, n_survived, n_equal = (
            sum(int(row[name]) for row in modules) for name in ("killed", "survived", "equivalent")
        )
        mutants.append(
            f"Of {n_killed + n_survived} small changes in {len(modules)} numerical modules, tests "
            f"detect {n_killed}, and {n_equal} of the {n_survived} others change no result."
        )
    return Finding(
        [
            f"Of {total('cases', inputs):,.0f} unusual inputs, {total('predicted', inputs):,.0f} "
            f"were predicted, {total('refused', inputs):,.0f} were refused with a clear error, "
            f"{total('void', inputs):,.0f} contradict themselves and {total('wrong', inputs):,.0f} "
            "led to a wrong result.",
            f"Of {both('damages')} damages to model files, {both('refused')} were refused by "
            f"`load` and {both('predicted')} still predicted. {both('raised')} raised a Python "
            f"error in `predict`, {both('not finite')} led to predictions that are not finite, "
            f"{both('crashed')} crashed the process and {both('reads beyond')} read beyond an "
            "array.",
            f"Ctrl-C stops a fit within {short(float(signals[0]['longest, s']))} processor seconds "
            f"and SIGTERM within {short(float(signals[1]['longest, s']))}. Of {kills[0]} kills "
            f"during `save`, {kills[1]} left a broken file.",
            *mutants,
        ]
    )


# --- pages and figures --------------------------------------------------------------------------

FINDINGS = {
    function.__name__: function
    for function in (
        auto, cost, partition, local, surface, uncertainty, subspace, ensemble, metric, neighbors,
        linear, conformal, gpu, distributed, production, robustness,
    )
}  # fmt: skip


def summary(name):
    """Return the first lines of a page, an empty text if it has none."""
    if name not in FINDINGS:
        return ""
    found = FINDINGS[name]()
    lines = "\n".join(f"- {sentence}" for sentence in found.sentences)
    figure = found.figure or (f"{name}.png" if found.panels else None)
    return f"{lines}\n\n![{found.caption}](figures/{figure})" if figure else lines


def ticks_of(low, high, limit):
    """Return round ticks of a logarithmic axis, at most ``limit`` unless these are decades."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = []
    for steps in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        found = [s * 10.0**d for d in decades for s in steps if low <= s * 10.0**d <= high]
        if len(found) <= limit - (len(steps) > 3):
            break
    return found


def plot_panel(axis, panel, looks, limit):
    """Plot one panel: the marks of a row are spread around its middle."""
    for i in range(len(panel.rows)):
        present = {k: v[i] for k, v in panel.series.items() if v[i] is not None}
        for j, (label, value) in enumerate(present.items()):
            colour, mark = looks[label]
            at = i + (j - (len(present) - 1) / 2) * 0.5 / len(present)
            axis.plot(value, at, mark, color=colour, ms=7, label=label)
        if i:
            axis.axhline(i - 0.5, color="0.9", lw=0.8, zorder=0)
    axis.set_ylim(len(panel.rows) - 0.5, -0.5)
    axis.set_yticks(range(len(panel.rows)), panel.rows)
    axis.tick_params(axis="y", length=0)
    if panel.is_log:
        axis.set_xscale("log")
        low, high = axis.get_xlim()
        axis.set_xlim(low / 1.05, high * 1.05)
        ticks = [t for t in panel.ticks if low < t < high] or ticks_of(*axis.get_xlim(), limit)
        axis.set_xticks(ticks, [f"{t:,.0f}" if t >= 10 else f"{t:g}" for t in ticks])
        axis.minorticks_off()
    else:
        axis.get_xaxis().set_major_formatter("{x:,g}")
        if panel.is_from_zero:
            axis.set_xlim(left=min(0.0, axis.get_xlim()[0]))
    axis.grid(axis="x", color="0.93")
    axis.set_axisbelow(True)
    if panel.line is not None:
        axis.axvline(panel.line, color="0.45", lw=1.2, zorder=1)
    axis.set_xlabel(panel.unit)
    axis.set_title(panel.title, fontsize=10)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)


def legend_columns(labels, width):
    """Return how many labels fit into a line of some inches; lines are of equal length."""
    need = sum(0.068 * len(label) + 0.45 for label in labels)
    n_lines = math.ceil(need / width)
    return math.ceil(len(labels) / n_lines)


def dot_plot(path, panels):
    """Plot panels of dots; the legend is below, one for all panels that have the same series."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    is_common = all(set(panels[0].series) >= set(panel.series) for panel in panels) or (
        set(panels[-1].series) > set(panels[0].series)
    )
    groups = [panels] if is_common else [[panel] for panel in panels]
    labels = [list(dict.fromkeys(k for p in group for k in p.series)) for group in groups]
    most = max(
        sum(values[i] is not None for values in panel.series.values())
        for panel in panels for i in range(len(panel.rows))
    )  # fmt: skip
    n_rows = max(len(panel.rows) for panel in panels)
    height = max(
        1.2,
        n_rows
        * (0.2 + 0.085 * most + (0.1 if n_rows < 9 else 0.0) - (0.07 if n_rows > 12 else 0.0)),
    )
    columns = [legend_columns(part, 8.6 / len(groups)) for part in labels]
    lines = max(math.ceil(len(part) / n) for part, n in zip(labels, columns, strict=True))
    total = height + 0.95 + 0.22 * lines + 0.3 * any(panel.title for panel in panels)
    figure, axes = plt.subplots(1, len(panels), figsize=(9, total), squeeze=False)
    for k, (axis, panel) in enumerate(zip(axes[0], panels, strict=True)):
        part = labels[0 if is_common else k]
        looks = {label: (f"C{j}", MARKS[j]) for j, label in enumerate(part)}
        plot_panel(axis, panel, looks, 10 if len(panels) == 1 else 7)
        if k > 0 and panel.rows == panels[k - 1].rows:
            axis.set_yticklabels([])
    figure.tight_layout(rect=(0, (0.22 * lines + 0.08) / total, 1, 1))
    for k, group in enumerate(groups):
        handles = {}
        for axis in axes[0] if is_common else axes[0, k : k + 1]:
            handles |= dict(zip(*axis.get_legend_handles_labels()[::-1], strict=True))
        box = axes[0, k].get_tightbbox()
        middle = 0.5 if is_common else (box.x0 + box.x1) / 2 / (9 * figure.dpi)
        order = [label for label in labels[k] if label in handles]
        if len(order) > 1 and group:
            figure.legend(
                [handles[label] for label in order], order, ncol=columns[k], fontsize=9,
                loc="lower center", bbox_to_anchor=(middle, 0.0), frameon=False,
                columnspacing=1.2, handletextpad=0.2, borderaxespad=0.3,
            )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def plot_figure(name):
    """Plot the figures of a page that come from cases or its tables; return whether it has any."""
    if name == "auto":
        import bench_autogluon as autogluon
        from bench_comparison import ROWS, draw_cost, draw_sets, parts_at

        draw_cost(parts_at(ROWS[0]))
        draw_sets(parts_at(ROWS[0]), "CatBoost")
        autogluon.draw(autogluon.all_parts())
        return True
    panels = FINDINGS[name]().panels if name in FINDINGS else []
    if panels:
        dot_plot(RESULTS / "figures" / f"{name}.png", panels)
    return bool(panels)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or PAGES:
        if plot_figure(chosen):
            print(f"wrote figures/{chosen}.png", flush=True)
