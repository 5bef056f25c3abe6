"""Build docs/results/index.md: published numbers and peers compared with ours.

Every number of ours is read from the tables of the other pages, so it is theirs; a cell that is
gone, or changed its name, is an error. Published numbers are those of the papers.
"""

import re
from functools import cache

from _harness import is_rebuilding
from _pages import PAGES, RESULTS, ROOT, link, section, write_findings

AT_20 = "local, h = 20, F / length of grad F"
MEAN_RATIO = "mean of ratios to the default"
SETS = ("isolet", "satimage", "letter", "optdigits", "pendigits", "shuttle")


@cache
def page(name):
    """Return what a page shows of a benchmark: just built, else as it stands."""
    for folder in (RESULTS, ROOT / "docs" / "results"):
        text = section(name, folder)
        if text is not None:
            return re.sub(r"^#(#+ )", r"\1", text, flags=re.MULTILINE)
    raise LookupError(f"No page shows the benchmark {name}.")


@cache
def tables(name):
    """Return the tables of a page: where each begins, its header and its rows."""
    found, start = [], None
    lines = page(name).splitlines()
    for i, line in enumerate([*lines, ""]):
        if line.startswith("|") and start is None:
            start = i
        elif not line.startswith("|") and start is not None:
            cells = [[c.strip() for c in row.strip("|").split("|")] for row in lines[start:i]]
            found.append((start, cells[0], cells[2:]))
            start = None
    return found


def cell(name, *row, column, after=""):
    """Return the cell of a page in the first row that holds all of ``row``, below ``after``.

    A label may be followed by more words, such as a version.
    """
    lines = page(name).splitlines()
    first = next((i for i, line in enumerate(lines) if after in line), len(lines))
    for start, header, rows in tables(name):
        if start < first or column not in header:
            continue
        for cells in rows:
            if all(any(f"{c} ".startswith(f"{part} ") for c in cells) for part in row):
                return cells[header.index(column)].strip("*")
    raise LookupError(f"{name} has no row {row} with a column {column!r} after {after!r}.")


def count_sets(name, heading):
    """Return how many sets the table below a heading has."""
    below = page(name).split(heading, 1)[1].split("| mean rank", 1)[0]
    return len(re.findall(r"^\| \w+ \(\d+\) ", below, re.MULTILINE))


def in_pairs(name, row, first, second, headings):
    """Return "first (second)" of a row below several headings of a page."""
    return "; ".join(
        f"{cell(name, row, column=first, after=s)} ({cell(name, row, column=second, after=s)})"
        for s in headings
    )


def partition_claims():
    def of(*row, column):
        return cell("partition_table1", *row, column=column)

    def on_all(row):
        return ", ".join(of(row, column=name) for name in SETS)

    yield (
        f"test error %: {', '.join(SETS)}; best of three local learners",
        on_all("best local row of the paper"),
        f"default: {on_all('default')}; 15 logistic regions: {on_all('15 logistic regions')}",
        "partition_table1",
    )
    yield (
        "regions that the default selects, same sets (one region is no partition)",
        "5",
        on_all("regions the default chose"),
        "partition_table1",
    )
    for row, note in (
        ("local LDA", ""),
        ("local logistic", ""),
        ("local perceptron", ""),
        ("one-vs-all AdaBoost (stumps)", ""),
        ("GDI tree", ""),
        ("mixture discriminant analysis", ", here with hard subclasses"),
        ("AdaBoost-SAMME (depth 2)", ""),
        ("GD-MCBoost (depth 2)", ", here gradient boosting"),
    ):
        yield (
            f"{row}{note}, test error %, same sets",
            on_all(f"{row}, paper"),
            on_all(f"{row}, ours"),
            "partition_table1",
        )
    figures = "partition_figures"
    yield (
        "banana: local models fit a curved boundary better than a tree or stumps, error %",
        "figure 1",
        f"{cell(figures, 'default', column='test error (%)')}; tree "
        f"{cell(figures, 'full tree', column='test error (%)')}, stumps "
        f"{cell(figures, 'AdaBoost, 100 stumps', column='test error (%)')}, RBF SVM "
        f"{cell(figures, 'RBF SVC (C=10)', column='test error (%)')}",
        figures,
    )
    yield (
        "XOR: two LDA regions reach zero error (Theorem 2.5)",
        "proved",
        f"{cell(figures, '0', column='starts at zero error')} starts",
        figures,
    )
    by_the_paper = "LDA, r=5, paper's rule"
    noise = {
        label: cell(figures, label, column="30 %", after="wbc_original")
        for label in (
            "LDA, r=2",
            "LDA, r=5, paper's rule",
            "tree",
            "AdaBoost (50 stumps)",
            "RBF SVC",
        )
    }
    yield (
        "robust to wrong labels: 30 % on wbc, error %",
        "figure 4",
        f"the paper's rule with 5 regions {noise[by_the_paper]}, 2 regions "
        f"{noise['LDA, r=2']}; tree {noise['tree']}, AdaBoost {noise['AdaBoost (50 stumps)']}, RBF "
        f"SVM {noise['RBF SVC']}: the claim holds against trees only",
        figures,
    )


def surface_claims():
    geometry, digits = "surface_geometry", "surface_digits"
    normals = "surface_normals"
    for label, row in (
        ("hyperplane of the local SVM, squared hinge", "squared hinge, hyperplane of the SVM"),
        ("hyperplane of the local SVM, hinge", "hinge, hyperplane of the SVM"),
    ):
        yield (
            f"cosine of the {label} with the normal, mean",
            cell(normals, row, column="paper: mean"),
            cell(normals, row, column="ours: mean"),
            normals,
        )
    exact = cell(normals, "squared hinge, exact: whole Hessian", column="least")
    blocks = cell(normals, "squared hinge, blocks of equations 7 and 8", column="ours: mean")
    yield (
        "equations 7 and 8 give the normal",
        "stated",
        f"no: mean cosine {blocks}, below the hyperplane's; with the full Hessian at least {exact}",
        normals,
    )
    crossing = {
        h: [
            cell(geometry, h, kind, column="sign changes within 1e-6")
            for kind in ("fixed point", "bracketed Newton")
        ]
        for h in ("0.6", "0.3", "0.15")
    }
    yield (
        "Algorithm 1 finds points of the surface",
        "stated",
        "; ".join(f"h = {h}: {a}, ours {b}" for h, (a, b) in crossing.items()),
        geometry,
    )
    yield (
        "digits, local SVMs at h = 20, accuracy",
        "0.961",
        "; ".join(
            f"{scale}: {cell(digits, scale, AT_20, column='accuracy')}"
            for scale in ("raw 0..16", "standardised", "[0, 1]")
        ),
        digits,
    )
    yield (
        "digits, the same by orthogonal distance; then Platt's sigmoid, c = 0.01 as there; scaled",
        "0.961",
        "standardised: "
        + "; ".join(
            cell(digits, "standardised", row, column="accuracy")
            for row in (
                "local, h = 20, orthogonal",
                "same, Platt (c = 0.01, as the paper)",
                "same, Platt (scaled, c = 1)",
            )
        ),
        digits,
    )
    yield (
        "digits, linear SVM, accuracy",
        "0.948",
        "; ".join(
            f"{scale}: {cell(digits, scale, 'linear, argmax F', column='accuracy')}"
            for scale in ("raw 0..16", "standardised", "[0, 1]")
        ),
        digits,
    )


def uncertainty_claims():
    toys, faces = "uncertainty_toys", "uncertainty_faces"
    for toy in ("Toy 1", "Toy 2"):
        errors = {
            kind: cell(toys, kind, column="error", after=toy) for kind in ("RMM", "GMM", "k-means")
        }
        yield (
            f"{toy}: components by uncertainty or by density, 1-D error %",
            "figures 2 and 4",
            f"uncertainty {errors['RMM']}; mixture {errors['GMM']}, k-means {errors['k-means']}",
            toys,
        )
    for split, table, kind in (
        ("PIE, lightings between", "Table 1", "lightings"),
        ("PIE, lightings beyond", "Table 1", "lightings"),
        ("PIE, unseen poses", "Table 2", "poses"),
    ):
        paper = {
            method: cell(faces, "paper", method, column="average", after=f"## {table}")
            for method in ("LCU", "Eigenface", "Fisherface", "LLDA")
        }
        found = {
            method: cell(faces, split, column=method)
            for method in (
                "Eigenface",
                "whitened 1-NN",
                "Fisherface",
                "LLDA (k-means)",
                "LCU, K = 7",
            )
        }
        yield (
            f"{table}, unseen {kind}: {split}, accuracy %",
            ", ".join(f"{method} {value}" for method, value in paper.items())
            + f"; its 8 {kind} "
            + ("are not named" if kind == "lightings" else "are not in the public set"),
            f"LCU {found['LCU, K = 7']}; Eigenface {found['Eigenface']}, whitened 1-NN "
            f"{found['whitened 1-NN']}, Fisherface {found['Fisherface']}, LLDA "
            f"{found['LLDA (k-means)']}",
            faces,
        )
    yield (
        "components by density instead of uncertainty, six real sets, error ratio",
        "not in the paper",
        f"{cell('uncertainty_choices', 'components by density', column=MEAN_RATIO)}: no difference",
        "uncertainty_choices",
    )
    letter = "uncertainty_letter"
    yield (
        "several metrics beat one: letter, error %",
        "stated, on faces",
        f"four {cell(letter, 'K = 4', column='mean')}, one {cell(letter, 'K = 1', column='mean')}",
        letter,
    )
    sets, several = ("wine", "cancer", "digits", "pendigits"), "uncertainty_tables"
    yield (
        f"the same: {', '.join(sets)}, error %",
        "not in the paper",
        "; ".join(
            f"{label} " + ", ".join(cell(several, name, column=column) for name in sets)
            for label, column in (("four", "K = 4"), ("one", "K = 1 (NCA)"), ("1-NN", "1-NN"))
        ),
        several,
    )


def subspace_claims():
    tables = "subspace_tables"
    for kind, label in (("proposed (fusion)", "fusion"), ("DC-SVM, early", "DC-SVM, early")):
        for name in ("covtype", "census"):
            yield (
                f"{name}: {label}, error % (seconds)",
                cell(tables, kind, column=f"{name}, published"),
                cell(tables, kind, column=f"{name}, ours"),
                tables,
            )
    fused = re.search(
        r"full space errs on ([\d.]+) % \(standard error ([\d.]+);.*?full space on ([\d.]+) %",
        page("subspace_fusion"),
    )
    yield (
        "covtype: fusion compared with the same learner on all columns, error %",
        "not in the paper",
        f"{fused[1]} (standard error {fused[2]}) against {fused[3]}: no difference beyond noise",
        "subspace_fusion",
    )
    for kind in ("DC-SVM, exact", "LIBSVM"):
        yield (
            f"covtype: {kind}, error % (seconds)",
            cell(tables, kind, column="covtype, published"),
            f"{cell(tables, kind, column='covtype, ours')}; all rows were not run, for their time",
            tables,
        )
    for row in ("news20, here 20 newsgroups", "RCV1, here its subset"):
        yield (
            f"{row}: fusion of linear SVMs, error % (seconds)",
            cell(tables, row, column="proposed, published"),
            f"{cell(tables, row, column='fusion, ours')}; LinearSVC "
            f"{cell(tables, row, column='LinearSVC, ours')}",
            tables,
        )


def lecture_claims():
    spam, friedman, intervals = "ensemble_spam", "ensemble_friedman", "ensemble_intervals"
    for row, label in (
        ("`PrunedTreeClassifier(rule='1se')`", "pruned tree"),
        ("stumps", "boosted stumps"),
        ("5-leaf trees", "boosted trees, J = 5"),
    ):
        yield (
            f"spam, {label}, test error %",
            cell(spam, row, column="lecture %"),
            cell(spam, row, column="test error %"),
            spam,
        )
    yield (
        "forests compared with boosting by number of trees",
        "figure 15.1 of Hastie et al.",
        f"500 trees: forest {cell(spam, 'random forest', column='500')}, boosted trees "
        f"{cell(spam, 'boosted 5-leaf trees, Newton, rate 0.1', column='500')}",
        spam,
    )
    yield (
        "full refit of all coefficients lowers the error of boosting (Friedman 1, 120 rounds)",
        "stated",
        f"no: {cell(friedman, 'tree, full refit, penalty 1e-6', column='120 rounds')}, against "
        f"{cell(friedman, 'tree of depth 3', column='120 rounds')} with a learning rate",
        friedman,
    )
    yield (
        "coverage of 90 % intervals of bootstrapped trees",
        "stated",
        "; ".join(
            f"{name} {cell(intervals, name, 'trees', column='out-of-bag interval covers %')}"
            for name in ("Friedman 1", "airfoil", "puma32h")
        ),
        intervals,
    )

    figures = "lecture_figures"
    for row, label in (
        ("one stump", "one stump"),
        ("tree of 244 leaves", "a tree"),
        ("AdaBoost, 400 stumps (scikit-learn)", "AdaBoost, 400 stumps"),
    ):
        yield (
            f"nested spheres, {label}, test error %",
            cell(figures, row, column="published"),
            cell(figures, row, column="ours")
            + (
                " discrete (scikit-learn), "
                + cell(figures, "`RealAdaBoostClassifier`, 400 stumps, rate 1", column="ours")
                + " real"
                if row.startswith("AdaBoost")
                else ""
            ),
            figures,
        )
    yield (
        "bagging regularises: trees on 30 rows, test error %",
        "figure 8.10 of Hastie et al.",
        f"one {cell(figures, '30 rows', column='one tree')}, 200 trees "
        f"{cell(figures, '30 rows', column='200')}",
        figures,
    )


def peer_claims():
    """Yield (peer, question, the peer's number, ours, page)."""
    table1 = "partition_table1"
    for peer in ("random forest (500)", "histogram boosting", "RBF SVC (C=10)"):
        yield (
            f"scikit-learn, {peer}",
            f"test error %: {', '.join(SETS)}",
            ", ".join(cell(table1, peer, column=name) for name in SETS),
            "partition by default: " + ", ".join(cell(table1, "default", column=n) for n in SETS),
            table1,
        )
    clusters = "divide_conquer_svc"
    peers = ("histogram boosting, 400 x 63 leaves", "extra trees, 60, 20 features per split")
    for prefix, name in (("", "covtype"), ("census: ", "census")):
        for peer in peers:
            theirs, ours = (
                f"{cell(clusters, row, column='error %')} "
                f"({cell(clusters, row, column='fit, processor s')})"
                for row in (f"{prefix}{peer}, all rows", f"{prefix}DC-SVM early, k=256, all rows")
            )
            question = f"{name}, all rows, error % (processor seconds)"
            yield f"scikit-learn, {peer}", question, theirs, f"DC-SVM: {ours}", clusters
    accuracy = "local_accuracy"
    sets = ("satimage", "pendigits", "letter", "optdigits")
    for peer in ("extra trees, 500", "SVC, C and gamma chosen"):
        yield (
            f"scikit-learn, {peer}",
            f"test error %: {', '.join(sets)}",
            ", ".join(cell(accuracy, peer, column=name) for name in sets),
            "local ridge, k = 40: "
            + ", ".join(cell(accuracy, "local ridge, k = 40, alpha = 1", column=n) for n in sets),
            accuracy,
        )
    shell = "shell"
    for peer in ("LightGBM", "AutoGluon"):
        yield (
            peer,
            "adult, from file to predictions, test error % (processor minutes)",
            f"{cell(shell, peer, column='test error %')} "
            f"({cell(shell, peer, column='processor minutes')})",
            f"{cell(shell, 'vicinal', column='test error %')} "
            f"({cell(shell, 'vicinal', column='processor minutes')})",
            shell,
        )
    nets = "neural_peers"
    sets = ("letter", "satimage", "spambase", "grid_stability")
    for peer in ("RealMLP", "TabM", "xRFM"):
        yield (
            peer,
            f"error %, defaults: {', '.join(sets)}",
            ", ".join(cell(nets, name, peer, column="error %") for name in sets),
            "neural neighbours: "
            + ", ".join(cell(nets, n, "neural neighbours", column="error %") for n in sets),
            nets,
        )
    rows = "rows"
    for peer in ("MAPIE CV+", "MAPIE normalised", "crepes normalised"):
        yield (
            peer,
            "width of 90 % intervals over ours at equal coverage",
            cell(rows, peer, column="0.9", after="At equal coverage"),
            f"1; not wider on {cell(rows, peer, column='sets won')} sets",
            rows,
        )
    labels = re.search(r"at least cleanlab's in (.*?) cases \(means (.*?) and (.*?)\)", page(rows))
    yield (
        "cleanlab",
        "average precision of wrong labels, mean",
        labels[3],
        f"{labels[2]}, and at least theirs in {labels[1]} cases",
        rows,
    )
    counter, sets = "surface_counterfactual", ("**breast cancer**", "**adult")

    def alone(name):
        return re.search(r"one row alone ([\d.]+) s", page(counter).split(name, 1)[1])[1]

    for peer in ("DiCE random", "DiCE genetic", "NICE"):
        yield (
            peer,
            "median distance of counterfactuals: breast cancer, adult (seconds for one row alone)",
            in_pairs(counter, peer, "median distance", "s per row", sets),
            "; ".join(
                f"{cell(counter, 'vicinal', column='median distance', after=s)} ({alone(s)})"
                for s in sets
            ),
            counter,
        )
    speed = "uncertainty_speed"
    nca, sets = "NCA + k-NN, scikit-learn", ("satimage, cpu", "letter, cpu")
    yield (
        "scikit-learn, neighbourhood components analysis",
        "error % (processor s): satimage, letter",
        in_pairs(speed, nca, "test error %", "processor, s", sets),
        in_pairs(speed, "default", "test error %", "processor, s", sets),
        speed,
    )
    for peer in ("statsmodels, exact", "skmisc, interpolated"):
        ours = f"ours, {peer.rpartition(', ')[2]}"
        yield (
            peer,
            "LOESS of 100,000 rows, processor s",
            cell("loess", "100000", peer, column="processor s"),
            cell("loess", "100000", ours, column="processor s"),
            "loess",
        )
    search = "neighbors"
    yield (
        "scikit-learn, brute-force neighbours",
        "microseconds of processor time a query, 1,000,000 x 16",
        cell(search, "16", "1,000,000", "scikit-learn, brute", column="µs of processor time"),
        cell(search, "16", "1,000,000", "ours, blocked products", column="µs of processor time"),
        search,
    )
    server = "FastAPI and joblib"
    yield (
        server,
        "requests a second (p99, ms), the same forest",
        f"{cell('serve', server, column='per second')} ({cell('serve', server, column='p99, ms')})",
        f"{cell('serve', 'vicinal serve', column='per second')} "
        f"({cell('serve', 'vicinal serve', column='p99, ms')})",
        "serve",
    )


PAPERS = {
    "Wang and Saligrama: learning through space partitioning": partition_claims,
    "Brown and Benton: decision surfaces of localized classifiers": surface_claims,
    "Locally adaptive classification driven by uncertainty": uncertainty_claims,
    "Guo et al.: divide and conquer on the feature space": subspace_claims,
    "Toussaint: local learning and ensemble learning (lecture)": lecture_claims,
}


def is_built(name):
    return any(section(name, folder) for folder in (RESULTS, ROOT / "docs" / "results"))


def where(name):
    return f"[{page(name).splitlines()[0].removeprefix('# ')}]({link(name)})"


def table(header, rows):
    rows = [list(row) for row in rows]
    for row in rows:
        if not all(str(value).strip() for value in row):
            raise ValueError(f"The index has an empty cell: {row}.")
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def markdown():
    """Return the index."""
    from _glance import top

    parts = [
        "# Results",
        *top(),
        "## The five sources, claim by claim",
        "*Published* is the number of the paper or lecture and *ours* that of vicinal. An error in "
        "% is the share of wrong labels on test rows. LCU is the paper's name for "
        "`LocallyAdaptiveClassifier`, and DC-SVM is `DivideConquerSVC`.",
    ]
    for title, claims in PAPERS.items():
        rows = [(f"[{claim}]({link(name)})", p, o) for claim, p, o, name in claims()]
        parts += [f"### {title}", table(("claim", "published", "ours"), rows)]
    rows = [
        (f"[{title}]({name}.md)", "; ".join(where(part) for part in parts_of if is_built(part)))
        for name, (title, parts_of) in PAGES.items()
        if any(map(is_built, parts_of))
    ]
    parts += [
        "## All pages",
        "Every page begins with its findings and compares the components with other libraries. "
        "`make results` builds the pages from measurements stored in `benchmarks/cases`, and a "
        "test compares the two.",
        table(("page", "sections"), rows),
        "```{toctree}\n:maxdepth: 1\n:glob:\n:hidden:\n\n*\n```",
    ]
    return "\n\n".join(parts) + "\n"


def findings(name):
    """Return the rows of the index about a page, for its top; an empty text if there are none."""
    parts_of = PAGES[name][1]
    papers = [
        (claim, published, ours)
        for claims in PAPERS.values()
        for claim, published, ours, part in claims()
        if part in parts_of
    ]
    peers = [(p, q, theirs, ours) for p, q, theirs, ours, part in peer_claims() if part in parts_of]
    found = [
        (papers, "Compared with the publications:", ("claim", "published", "ours")),
        (
            peers,
            "Compared with other libraries:",
            ("library", "what is measured", "theirs", "ours"),
        ),
    ]
    parts = [part for rows, text, head in found if rows for part in (text, table(head, rows))]
    return "\n\n".join(["## Main results", *parts, ""]) if parts else ""


def write_index():
    """Write the page, and the findings at the top of the other pages.

    Their figures are left as they are when pages are rebuilt.
    """
    from _findings import plot_figure, summary

    (RESULTS / "index.md").write_text(markdown())
    for name, (_, parts_of) in PAGES.items():
        if any(section(part) for part in parts_of):
            if text := "\n\n".join(filter(None, (summary(name), findings(name).rstrip()))):
                write_findings(name, f"{text}\n")
            if not is_rebuilding():
                plot_figure(name)


if __name__ == "__main__":
    write_index()
