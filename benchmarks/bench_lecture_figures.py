"""Figures of the lecture: smoothing kernels, bagging, AdaBoost, and the sizes of a spam tree."""

import numpy as np
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier

from _datasets import load_dataset
from _harness import ResultsPage, is_rebuilding
from _pages import RESULTS
from vicinal._kernels.local._smoothing import kernel_values
from vicinal.ensemble import (
    BootstrapEnsembleClassifier,
    PrunedTreeClassifier,
    RealAdaBoostClassifier,
)
from vicinal.local import LocalRegressor, NadarayaWatsonRegressor

FIGURES = RESULTS / "figures"
SMOOTHERS = {
    "30 nearest, mean": NadarayaWatsonRegressor(
        n_neighbors=30, kernel="uniform", metric="euclidean"
    ),
    "Epanechnikov, width 0.2": NadarayaWatsonRegressor(
        0.2, kernel="epanechnikov", metric="euclidean"
    ),
    "Epanechnikov, local line": LocalRegressor(
        bandwidth=0.2, kernel="epanechnikov", metric="euclidean", degree=1, alpha=0.0
    ),
}
MEMBERS = (1, 2, 5, 10, 20, 50, 100, 200)
ROUNDS = 400


def curve(seed):
    """One hundred rows of a sine with noise, as in section 6.1 of Hastie et al."""
    rng = np.random.RandomState(seed)
    x = np.sort(rng.uniform(size=100))
    return x[:, None], np.sin(4 * x) + rng.normal(scale=1 / 3, size=100)


def smoothing():
    """Return mean squared errors over 100 draws, and the curves of the first."""
    grid = np.linspace(0, 1, 101)[:, None]
    truth = np.sin(4 * grid[:, 0])
    edge = (grid[:, 0] < 0.05) | (grid[:, 0] > 0.95)
    found = {}
    for name, model in SMOOTHERS.items():
        curves = np.array([model.fit(*curve(seed)).predict(grid) for seed in range(100)])
        squares = (curves - truth) ** 2
        found[name] = {
            "error": squares.mean(),
            "edge": squares[:, edge].mean(),
            "jumps": np.abs(np.diff(curves[0])).max(),
            "curve": curves[0].tolist(),
        }
    return found


def bagging(n_draws=20):
    """Trees on 30 rows of five correlated columns (section 8.7.1 of Hastie et al.)."""
    single, bagged = [], []
    for seed in range(n_draws):
        rng = np.random.RandomState(seed)

        def draw(n, rng=rng):
            X = np.sqrt(0.95) * rng.normal(size=(n, 1)) + np.sqrt(0.05) * rng.normal(size=(n, 5))
            return X, (rng.uniform(size=n) < np.where(X[:, 0] <= 0.5, 0.2, 0.8)).astype(int)

        (X, y), (Q, target) = draw(30), draw(2000)
        tree = DecisionTreeClassifier(random_state=0).fit(X, y)
        single.append(np.mean(tree.predict(Q) != target))
        model = BootstrapEnsembleClassifier(
            DecisionTreeClassifier(), n_estimators=MEMBERS[-1], random_state=seed
        ).fit(X, y)
        proba = np.cumsum([member.predict_proba(Q)[:, -1] for member in model.estimators_], axis=0)
        wrong = [np.mean((proba[m - 1] > m / 2) != target) for m in MEMBERS]
        bagged.append(wrong)
    bagged = np.array(bagged)
    return {
        "tree": 100 * np.mean(single),
        "bagged": (100 * bagged.mean(axis=0)).tolist(),
        "deviation": 100 * bagged[:, -1].std(ddof=1) / np.sqrt(n_draws),
    }


def nested_spheres():
    """Ten normal columns, the class by their squared length (equation 10.2 of Hastie et al.)."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(12_000, 10))
    y = ((X**2).sum(axis=1) > 9.34).astype(int)
    return X[:2000], y[:2000], X[2000:], y[2000:]


def adaboost():
    """Return test errors, in %, of one stump, of a tree and after each round."""
    X, y, Q, target = nested_spheres()

    def error(labels):
        return 100 * float(np.mean(labels != target))

    stump = DecisionTreeClassifier(max_depth=1)
    found = {
        "stump": error(stump.fit(X, y).predict(Q)),
        "tree": error(DecisionTreeClassifier(max_leaf_nodes=244).fit(X, y).predict(Q)),
    }
    for name, model in {
        "discrete": AdaBoostClassifier(stump, n_estimators=ROUNDS, random_state=0),
        "real": RealAdaBoostClassifier(
            stump, n_estimators=ROUNDS, learning_rate=1.0, random_state=0
        ),
    }.items():
        found[name] = [error(labels) for labels in model.fit(X, y).staged_predict(Q)]
    return found


def spam_sizes():
    """Return leaves, error by ten folds with its standard error, and test error, by penalty."""
    data = load_dataset("spambase")
    model = PrunedTreeClassifier(rule="1se", random_state=0).fit(data.X_train, data.y_train)
    rows = []
    for alpha, error, spread in zip(
        model.alphas_, model.cv_error_, model.cv_error_se_, strict=True
    ):
        tree = DecisionTreeClassifier(ccp_alpha=alpha, random_state=0)
        tree.fit(data.X_train, data.y_train)
        wrong = np.mean(tree.predict(data.X_test) != data.y_test)
        rows.append([tree.get_n_leaves(), 100 * error, 100 * spread, 100 * wrong])
    return {"path": rows, "chosen": model.tree_.get_n_leaves()}


def draw(found):
    """Draw the five figures."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(14, 8), layout="constrained")
    kernels, lines, noise, bags, rounds, sizes = axes.ravel()
    s = np.linspace(-1.6, 1.6, 321)
    for name in ("uniform", "triangular", "epanechnikov", "bisquare", "tricube", "cosine"):
        kernels.plot(s, kernel_values(np.abs(s), name), label=name)
    kernels.plot(s, kernel_values(np.abs(s), "gaussian"), "--", label="gaussian")
    kernels.set(title="smoothing kernels", xlabel="distance / width")
    X, y = curve(0)
    grid = np.linspace(0, 1, 101)
    for axis, names in ((lines, list(SMOOTHERS)[:2]), (noise, list(SMOOTHERS)[1:])):
        axis.scatter(X[:, 0], y, s=8, color="gray")
        axis.plot(grid, np.sin(4 * grid), color="black", label="truth")
        for name in names:
            axis.plot(grid, found["smoothing"][name]["curve"], label=name)
    lines.set_title("a mean of neighbours jumps")
    noise.set_title("a mean is biased at the edges")
    bags.axhline(found["bagging"]["tree"], color="black", label="one tree")
    bags.semilogx(MEMBERS, found["bagging"]["bagged"], "o-", label="bagged")
    bags.set(title="bagging, 30 rows", xlabel="members", ylabel="test error, %")
    boost = found["adaboost"]
    rounds.axhline(boost["stump"], color="gray", label="one stump")
    rounds.axhline(boost["tree"], color="black", label="tree of 244 leaves")
    for name in ("discrete", "real"):
        rounds.plot(np.arange(1, len(boost[name]) + 1), boost[name], label=f"{name} AdaBoost")
    rounds.set(title="nested spheres, stumps", xlabel="rounds", ylabel="test error, %")
    leaves, error, spread, test = np.array(found["spam"]["path"]).T
    sizes.errorbar(leaves, error, spread, fmt=".-", label="ten folds")
    sizes.plot(leaves, test, ".-", label="test")
    sizes.axvline(found["spam"]["chosen"], color="gray", label="one standard error")
    sizes.set(title="spam: size of the tree", xlabel="leaves", ylabel="error, %", xscale="log")
    for axis in axes.ravel():
        axis.legend(fontsize=8)
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURES / "lecture_figures.png", dpi=80)
    plt.close(figure)


def main():
    page = ResultsPage(
        "lecture_figures",
        "Figures of the lecture",
        "The figures that the lecture takes from Hastie, Tibshirani and Friedman, reproduced with "
        "this library on data simulated in the same way: smoothing kernels and local regression, "
        "bagging, "
        "AdaBoost on nested spheres, and the size of a tree on the spam data.",
    )
    found = {
        "smoothing": page.case(("smoothing",), smoothing),
        "bagging": page.case(("bagging",), bagging),
        "adaboost": page.case(("adaboost",), adaboost),
        "spam": page.case(("spam",), spam_sizes),
    }
    if not is_rebuilding():
        draw(found)
    page.text("![figures of the lecture](figures/lecture_figures.png)")
    page.table(
        ["smoother of 100 rows", "squared error", "within 0.05 of an edge", "largest step"],
        [
            [name, *(f"{row[key]:.4f}" for key in ("error", "edge", "jumps"))]
            for name, row in found["smoothing"].items()
        ],
        "Local regression (section 6.1): sine with noise of deviation 1/3, mean of 100 draws; the "
        "largest step between neighbouring points of a grid of 101, first draw.",
    )
    bags, boost = found["bagging"], found["adaboost"]
    page.table(
        ["test error % by number of trees", "one tree", *map(str, MEMBERS)],
        [["30 rows", f"{bags['tree']:.1f}", *(f"{value:.1f}" for value in bags["bagged"])]],
        "Bagging (section 8.7.1): five columns with correlations of 0.95, Bayes error 20 %, mean "
        f"of 20 draws (standard error of the last {bags['deviation']:.1f}).",
    )
    at = ROUNDS - 1
    page.table(
        ["nested spheres, test error %", "published", "ours"],
        [
            ["one stump", 45.8, f"{boost['stump']:.1f}"],
            ["tree of 244 leaves", 24.7, f"{boost['tree']:.1f}"],
            ["AdaBoost, 400 stumps (scikit-learn)", 5.8, f"{boost['discrete'][at]:.1f}"],
            ["`RealAdaBoostClassifier`, 400 stumps, rate 1", "-", f"{boost['real'][at]:.1f}"],
        ],
        "AdaBoost (section 10.1): 2,000 training and 10,000 test rows of ten normal columns.",
    )
    path = found["spam"]["path"]
    least = min(path, key=lambda row: row[1])
    chosen = min(path, key=lambda row: abs(row[0] - found["spam"]["chosen"]))
    page.table(
        ["spam, pruned tree", "leaves", "error by ten folds, %", "test error, %"],
        [
            ["published (figure 9.4)", 17, "-", 8.7],
            *(
                [label, row[0], f"{row[1]:.2f} ± {row[2]:.2f}", f"{row[3]:.2f}"]
                for label, row in (("one standard error", chosen), ("least error", least))
            ),
        ],
        "A tree on the spam data (section 9.2.5).",
    )
    page.write()


if __name__ == "__main__":
    main()
