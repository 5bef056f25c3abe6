"""Do ONNX graphs say what the models say, and how fast?"""

import warnings
from functools import partial

import numpy as np
import onnxruntime
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from _datasets import load_dataset
from _harness import ResultsPage, timed
from vicinal import (
    AnchoredLocalClassifier,
    AnchoredLocalRegressor,
    AutoClassifier,
    AutoRegressor,
    BayesianModelAveragingClassifier,
    BayesianModelAveragingRegressor,
    BootstrapEnsembleClassifier,
    BootstrapEnsembleRegressor,
    FunctionalGradientBoostingClassifier,
    FunctionalGradientBoostingRegressor,
    PrunedTreeClassifier,
    PrunedTreeRegressor,
    RealAdaBoostClassifier,
    SpacePartitioningClassifier,
    SpacePartitioningRegressor,
)
from vicinal.io import to_onnx
from vicinal.linear import WeightedLDA

# Tables that show the speed of one row, and of many.
MANY = 2000
REPEAT = 3


def scaled(model):
    return make_pipeline(StandardScaler(), model)


def classifiers():
    """Every family that has a graph, at the size a user would fit."""
    seed = {"random_state": 0}
    trees = DecisionTreeClassifier(max_depth=4)
    return {
        "partition, logistic": SpacePartitioningClassifier(n_regions=5, n_init=5, **seed),
        "partition, one cascade": SpacePartitioningClassifier(
            n_regions=5, n_init=5, combine="best", **seed
        ),
        "partition, LDA": SpacePartitioningClassifier("lda", n_regions=5, n_init=5, **seed),
        "partition, perceptron": SpacePartitioningClassifier(
            "perceptron", n_regions=5, n_init=5, **seed
        ),
        "partition, soft gates": SpacePartitioningClassifier(
            gating="soft", n_regions=3, n_init=2, max_iter=50, **seed
        ),
        "partition of trees": SpacePartitioningClassifier(
            trees, reject_estimator="lda", n_regions=4, n_init=2, max_iter=5, **seed
        ),
        "pruned tree": PrunedTreeClassifier(**seed),
        "boosted trees": FunctionalGradientBoostingClassifier(n_estimators=50, **seed),
        "real AdaBoost": RealAdaBoostClassifier(n_estimators=100, **seed),
        "bootstrap of trees": BootstrapEnsembleClassifier(n_estimators=100, **seed),
        "model averaging": BayesianModelAveragingClassifier(
            [("tree", trees), ("lda", WeightedLDA()), ("logistic", scaled(LogisticRegression()))],
            **seed,
        ),
        "PCA, then partition": make_pipeline(
            StandardScaler(), PCA(10), SpacePartitioningClassifier(n_regions=5, n_init=3, **seed)
        ),
        "local, 64 anchors": AnchoredLocalClassifier(64, **seed),
        "local, 512 anchors": AnchoredLocalClassifier(512, **seed),
    }


def regressors():
    seed = {"random_state": 0}
    return {
        "partition, ridge": SpacePartitioningRegressor(n_regions=5, n_init=5, **seed),
        "pruned tree": PrunedTreeRegressor(**seed),
        "boosted trees": FunctionalGradientBoostingRegressor(n_estimators=100, **seed),
        "bootstrap of trees": BootstrapEnsembleRegressor(n_estimators=100, **seed),
        "model averaging": BayesianModelAveragingRegressor(
            [("tree", DecisionTreeRegressor(max_depth=6)), ("ridge", Ridge())], **seed
        ),
        "local, 64 anchors": AnchoredLocalRegressor(64, **seed),
    }


def compare(name, model, X, y, X_test):
    """Return a line of the table: agreement, size, and time of model and graph."""
    model.fit(X, y)
    graph = to_onnx(model, X_test).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    method = getattr(model, "predict_proba", model.predict)
    many = np.resize(X_test, (MANY, X_test.shape[1]))
    answer = session.run(None, {"X": X_test})
    expected = method(X_test)
    difference = np.abs(answer[-1] - expected).max() / max(1.0, np.abs(expected).max())
    wrong = 0
    if len(answer) == 2:
        wrong = int((answer[0].astype(str) != model.predict(X_test).astype(str)).sum())
    times = []
    for rows in (many, many[:1]):
        times.append(timed(lambda rows=rows: method(rows), repeat=REPEAT)[0])
        times.append(timed(lambda rows=rows: session.run(None, {"X": rows}), repeat=REPEAT)[0])
    return [
        name,
        f"{difference:.1e}",
        wrong,
        round(len(graph) / 1024),
        f"{1e3 * times[0]:.1f}",
        f"{1e3 * times[1]:.1f}",
        f"{1e3 * times[2]:.2f}",
        f"{1e3 * times[3]:.3f}",
        f"{times[2] / times[3]:.0f}",
    ]


HEAD = [
    "model",
    "largest difference",
    "labels that differ",
    "graph, KiB",
    f"model, {MANY} rows, ms",
    f"graph, {MANY} rows, ms",
    "model, 1 row, ms",
    "graph, 1 row, ms",
    "times faster, 1 row",
]


def fill(page):
    warnings.simplefilter("ignore")
    satimage = load_dataset("satimage")
    X, X_test = satimage.X_train.astype(np.float64), satimage.X_test.astype(np.float64)
    rows = [
        compare(name, model, X, satimage.y_train, X_test) for name, model in classifiers().items()
    ]
    page.text("## Classifiers: satimage, 36 columns, 6 classes")
    page.table(HEAD, rows)
    puma = load_dataset("puma32h")
    X, y = puma.X, puma.y
    rows = [
        compare(name, model, X[:6000], y[:6000], X[6000:]) for name, model in regressors().items()
    ]
    page.text("## Regressors: puma32h, 32 columns")
    page.table(HEAD, rows)
    page.text(
        "Labels differ only where two classes have the same probability but for rounding: a tie "
        "among the trees of a bootstrap, for example."
    )


# --- default ensembles ---

# Training rows, query rows, and rows of one call of the graph.
ROWS, QUERIES, CALL = 1000, 500, 250


TABLES = ("adult", "wbc_original", "satimage", "adult, hours a week", "airfoil", "laser")


def tables():
    """Return (task, X, y) of six tables: numbers, missing values, mixed columns."""
    adult = load_dataset("adult", as_frame=True)
    people = adult.X_train.iloc[: ROWS + QUERIES]
    hours = people.columns[[name.startswith("hours") for name in people.columns]][0]
    satimage, wbc = load_dataset("satimage"), load_dataset("wbc_original")
    airfoil, laser = load_dataset("airfoil"), load_dataset("laser")
    earns = adult.y_train.iloc[: len(people)].to_numpy()
    return {
        "adult": (AutoClassifier, people, np.where(earns > earns.min(), "more", "less")),
        "wbc_original": (AutoClassifier, wbc.X, wbc.y),
        "satimage": (AutoClassifier, satimage.X_train, satimage.y_train),
        "adult, hours a week": (AutoRegressor, people.drop(columns=hours), people[hours]),
        "airfoil": (AutoRegressor, airfoil.X, airfoil.y),
        "laser": (AutoRegressor, laser.X, laser.y),
    }


def default_line(name):
    """Fit an ensemble with its defaults, export it, and compare it on rows it has not seen."""
    kind, X, y = tables()[name]
    order = np.random.RandomState(0).permutation(len(X))[: ROWS + QUERIES]
    n_fit = min(ROWS, 2 * len(order) // 3)
    parts = order[:n_fit], order[n_fit:]
    rows, queries = (X.iloc[own] if hasattr(X, "iloc") else X[own] for own in parts)
    model = kind(random_state=0).fit(rows, np.asarray(y)[parts[0]])
    graph = to_onnx(model).SerializeToString()
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    encoder = model.encoders_["tree"]
    feeds = {"X": queries}
    if hasattr(X, "iloc"):
        feeds = {name: column[:, None] for name, column in encoder.plain_columns(queries).items()}
    blocks = [slice(i, i + CALL) for i in range(0, len(queries), CALL)]
    found = [session.run(None, {k: v[own] for k, v in feeds.items()}) for own in blocks]
    outputs = [np.concatenate(part) for part in zip(*found, strict=True)]
    is_classifier = kind is AutoClassifier
    expected = (model.predict_proba if is_classifier else model.predict)(queries)
    scale = 1.0 if is_classifier else np.abs(expected).max()
    wrong = ""
    if is_classifier:
        wrong = int((outputs[0].astype(str) != model.predict(queries).astype(str)).sum())
    return [
        name,
        "classes" if is_classifier else "target",
        len(rows),
        X.shape[1],
        "; ".join(f"{base.name} {base.weight:.2f}" for base in model.estimators_),
        f"{np.abs(outputs[-1] - expected).max() / scale:.1e}",
        wrong,
        round(len(graph) / 1024),
    ]


DEFAULT_HEAD = [
    "table",
    "predicts",
    "rows",
    "columns",
    "base models and weights",
    "largest difference",
    "labels that differ",
    "graph, KiB",
]


def main():
    page = ResultsPage(
        "onnx",
        "Models and their ONNX graphs",
        "Does the graph that `vicinal.io.to_onnx` writes predict what the model predicts, on test "
        "rows "
        "that it has not seen, and what do a table and a single row cost? Differences are in "
        "probabilities, or in predictions relative to the largest; all graphs compute in double "
        "precision. One thread for the graph, the model as it comes; least of "
        f"{REPEAT} runs on a shared machine.",
        packages=("onnx", "onnxruntime", "skl2onnx"),
    )
    page.text("## AutoClassifier and AutoRegressor with their defaults, on six tables")
    page.text(
        f"At most {ROWS:,} training rows, and at most {QUERIES} rows that were not used in the fit."
    )
    page.table(
        DEFAULT_HEAD, [page.case(("auto", name), partial(default_line, name)) for name in TABLES]
    )
    page.section("page", fill)
    page.write()


if __name__ == "__main__":
    main()
