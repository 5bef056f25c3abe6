"""What does the first call cost and give on a GPU?

``AutoClassifier()`` on tensors of a GPU: 500,000 rows of covtype and the other 81,012 asked,
letter's published split, and how fit and predict grow with the rows, to a million simulated ones;
compared with extra trees on all cores of the same machine. Then what neural neighbours
add to the ensemble,
by size of the table; and what they add to the default families of arrays, whose splits are those of
the page of the first call (``--added``, ``--sets``, ``--seeds``: several processes may share them).
Finished cases are kept.
"""

import argparse
from functools import partial

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier

import bench_auto
from _datasets import load_dataset
from _harness import ResultsPage, clocked, peak_memory_gb, timed
from bench_neural_peers import split
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.metric import NeuralNeighborsClassifier, NeuralNeighborsRegressor

ROWS = (1_000, 10_000, 100_000, 500_000)
SIMULATED = (100_000, 1_000_000)
SETS = (
    "letter", "satimage", "spambase", "pendigits", "optdigits", "grid_stability", "airfoil",
    "puma32h",
)  # fmt: skip
SIZES = {"1,000": 1_000, "5,000": 5_000, "all": 10**6}
MIXTURES = {"with nets": "default", "without": ["constant", "local", "gradient"]}
# Splits of the page of the first call, at most 1,000 rows, that are fitted once more with nets.
ADDED_SEEDS = (0, 1, 2, 3)
ADDED_SETS = {
    "labels": tuple(n for n in bench_auto.CLASSIFICATION if n not in ("adult", "census_income")),
    "numbers": bench_auto.REGRESSION,
}


def covtype(n):
    data = load_dataset("covtype")
    order = np.random.RandomState(0).permutation(len(data.y))
    X, y = np.asarray(data.X, dtype=np.float32)[order], np.asarray(data.y)[order]
    return X[:n], y[:n], X[500_000:], y[500_000:]


def simulated(n):
    """Return rows as on the page of costs, and 10,000 others."""
    X, y = make_classification(
        n + 10_000, 54, n_informative=12, n_clusters_per_class=4, random_state=0
    )
    X = X.astype(np.float32)
    return X[:n], y[:n], X[n:], y[n:]


def letter():
    data = load_dataset("letter")
    return data.X_train.astype(np.float32), data.y_train, data.X_test, data.y_test


def judge(make, parts, to_device):
    """Return error and seconds of the second fit: the first loads and compiles."""
    X, y, X_test, y_test = parts()
    X, X_test = to_device(X), to_device(np.asarray(X_test, dtype=np.float32))
    make().fit(X[:1000], y[:1000])
    fit, model = timed(lambda: make().fit(X, y))
    predict, said = timed(lambda: np.asarray(model.predict(X_test)))
    found = {"error": 100.0 * float(np.mean(said != y_test)), "fit": fit, "predict": predict}
    found["memory"] = peak_memory_gb()
    if hasattr(model, "skipped_"):
        found["score"], found["score error"] = model.score_, model.score_error_
        found["left out"] = {m.name: m.reason for m in model.skipped_}
        found["members"] = [f"{m.name} {m.weight:.2f}" for m in model.estimators_]
    return found


def on_gpu(X):
    import torch

    return torch.as_tensor(X, device="cuda")


def forest():
    return ExtraTreesClassifier(100, n_jobs=-1, random_state=0)


def mixture(name, size, members):
    """Return the error in per cent of labels or of the variance, and what the nets weigh."""
    X, y, X_test, y_test = split(name, 0, most=SIZES[size])
    is_numbers = y.dtype.kind == "f"
    make = AutoRegressor if is_numbers else AutoClassifier
    X, X_test = (on_gpu(np.asarray(rows, dtype=np.float32)) for rows in (X, X_test))
    fit, model = timed(lambda: make(MIXTURES[members], random_state=0).fit(X, y))
    said = model.predict(X_test)
    said = said.cpu().numpy() if is_numbers else np.asarray(said)
    wrong = (said - y_test) ** 2 / np.var(y_test) if is_numbers else said != y_test
    weights = [m.weight for m in model.estimators_ if m.name.startswith("neural")]
    return {"error": 100.0 * float(np.mean(wrong)), "fit": fit, "nets": float(sum(weights))}


def nets_part(page):
    """Add what the mixture loses without neural neighbours, by number of rows."""
    rows = []
    for size in SIZES:
        ratios = []
        for name in SETS:
            cases = [
                page.case((name, size, label), clocked(partial(mixture, name, size, label)))
                for label in MIXTURES
            ]
            ratios.append(cases[1]["error"] / cases[0]["error"])
            errors, fits = ([case[key] for case in cases] for key in ("error", "fit"))
            rows.append((name, size, *errors, ratios[-1], cases[0]["nets"], *fits))
        rows.append(("geometric mean", size, "", "", np.exp(np.mean(np.log(ratios))), "", "", ""))
    page.text(
        "## What neural neighbours add\n\nThe same mixture on the GPU with and without them; wrong "
        "labels, or squared errors of the variance, in per cent; one split, seconds of a first fit."
    )
    header = ("set", "rows", "with nets", "without", "ratio", "weight of nets")
    page.table((*header, "fit s with", "fit s without"), rows)


class NetsOfLabels(ClassifierMixin, BaseEstimator):
    """Neural neighbours that compute on the GPU whatever arrays they are given."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y):
        """Train the nets."""
        model = NeuralNeighborsClassifier(random_state=self.random_state)
        self.model_ = model.fit(on_gpu(X.astype(np.float32)), y)
        self.classes_ = model.classes_
        return self

    def predict_proba(self, X):
        """Return the mean of their votes."""
        said = self.model_.predict_proba(on_gpu(X.astype(np.float32)))
        return said.cpu().numpy().astype(float)

    def predict(self, X):
        """Return the class of most votes."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class NetsOfNumbers(RegressorMixin, BaseEstimator):
    """The same for numbers."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y):
        """Train the nets."""
        model = NeuralNeighborsRegressor(random_state=self.random_state)
        self.model_ = model.fit(on_gpu(X.astype(np.float32)), y)
        return self

    def predict(self, X):
        """Return the mean of their answers."""
        return self.model_.predict(on_gpu(X.astype(np.float32))).cpu().numpy().astype(float)


def added(name, seed):
    """Return the errors of the default families and of these and nets, and what the nets weigh."""
    rows, task = bench_auto.split(name, "1000", seed), bench_auto.task_of(name)
    (X, X_test), y = rows.part("given"), rows.table.y
    y, y_test = y[rows.train], y[rows.test]
    is_numbers = task == "regression"
    make, nets = (
        (AutoRegressor, NetsOfNumbers()) if is_numbers else (AutoClassifier, NetsOfLabels())
    )
    found = {}
    for label, more in (("without", []), ("with nets", [("nets", nets)])):
        members = [*bench_auto.KINDS, *more]
        model = make(members, n_jobs=1, random_state=0).fit(X, y)
        said = model.predict(X_test)
        wrong = (said - y_test) ** 2 / np.var(y_test) if is_numbers else said != y_test
        found[label] = 100.0 * float(np.mean(wrong))
    found["nets"] = float(sum(m.weight for m in model.estimators_ if m.name == "nets"))
    return found


def added_part(page):
    """Add what nets would give the default families."""
    rows = []
    for kind, names in ADDED_SETS.items():
        ratios = []
        for name in names:
            cases = [page.case(("added", name, s), partial(added, name, s)) for s in ADDED_SEEDS]
            columns = ("with nets", "without", "nets")
            errors, without, weight = (np.mean([c[key] for c in cases]) for key in columns)
            ratios.append(errors / without)
            rows.append((name, errors, without, ratios[-1], weight))
        rows.append((f"{kind}, geometric mean", "", "", np.exp(np.mean(np.log(ratios))), ""))
    page.text(
        "## What neural networks would add\n\nThe model families that are tried without a GPU, "
        "with and without neural neighbours, whose nets were trained on the GPU; "
        f"at most 1,000 rows, means of {len(ADDED_SEEDS)} splits. On two cores nets take minutes, "
        "so that they are tried where they are named."
    )
    page.table(("set", "with nets", "without", "ratio", "weight of nets"), rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--added", action="store_true", help="these cases alone, no page")
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--seeds", nargs="*", type=int, default=ADDED_SEEDS)
    options = parser.parse_args()
    page = ResultsPage(
        "auto_cuda",
        "AutoClassifier on a GPU",
        "`AutoClassifier()` without arguments on tensors of one NVIDIA H200, compared with extra "
        "trees "
        "(100) on the 16 cores of the same machine. Seconds are of a fit after a small one, "
        "wrong labels in per cent, covtype judged on 81,012 other rows, simulated tables (54 "
        "columns, "
        "two classes) on 10,000.",
        packages=("torch",),
    )
    if options.added:
        for name in options.sets or [name for names in ADDED_SETS.values() for name in names]:
            for seed in options.seeds:
                page.case(("added", name, seed), partial(added, name, seed))
        return
    sets = {f"covtype, {n:,} rows": partial(covtype, n) for n in ROWS} | {"letter": letter}
    sets |= {f"simulated, {n:,} rows": partial(simulated, n) for n in SIMULATED}
    models = {
        "vicinal": (partial(AutoClassifier, random_state=0), on_gpu),
        "extra trees": (forest, np.asarray),
    }
    rows = []
    for name, parts in sets.items():
        for label, (make, to_device) in models.items():
            if options.only and label not in options.only:
                continue
            case = page.case((name, label), clocked(partial(judge, make, parts, to_device)))
            said = ""
            if "score" in case:
                said = f"{100 * (1 - case['score']):.2f} ± {100 * case['score error']:.2f}"
            rows.append((name, label, case["error"], said, case["fit"], case["predict"]))
    page.table(("set", "model", "error %", "estimated %", "fit s", "predict s"), rows)
    page.text(
        "\n".join(
            f"- {name}: {', '.join(page.case((name, 'vicinal'), dict)['members'])}" for name in sets
        )
    )
    nets_part(page)
    added_part(page)
    if not options.only:
        page.write()


if __name__ == "__main__":
    main()
