"""Would a tree of gates be better than a chain? Held-out training data decide.

The chain passes a sample along r - 1 gates; in a tree every gate splits both ways and a sample
meets log2 r of them. The sweeps are the same: region models first, then the gates from the leaves
to the root, each by equation (7) with the losses of its two subtrees.

Usage: python benchmarks/bench_partition_tree.py
"""

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from _harness import ResultsPage, stored
from _partition import load_split
from vicinal._base import TrainingData
from vicinal._kernels.cascade._hard import assign_kmeans, gate_problem
from vicinal.partition import SpacePartitioningClassifier
from vicinal.partition._fit import CLASSIFIERS
from vicinal.partition._learners import make_learner
from vicinal.partition.stages import ConstantGate, aligned_proba

SETS = ("satimage", "letter", "optdigits", "pendigits")
DEPTH, STARTS, SWEEPS = 3, 5, 10
MAX_ROWS = 6000


def passes_on(gate, X) -> np.ndarray:
    """Return which samples a gate sends to the right."""
    return gate.decision_function(X) > 0


class TreeStart:
    """One start: a full binary tree of gates, numbered as a heap, over 2^DEPTH regions."""

    def __init__(self, data: TrainingData, learner, seed: int) -> None:
        self.data, self.learner = data, learner
        self.rng = np.random.RandomState(seed)
        self.n_regions = 2**DEPTH
        self.region = assign_kmeans(data.X, data.weights, self.n_regions, self.rng)
        self.models = [None] * self.n_regions
        self.gates = [None] * (self.n_regions - 1)
        for _ in range(SWEEPS):
            self.sweep()

    def sweep(self) -> None:
        """Refit regions, then gates from the leaves to the root."""
        data = self.data
        for k in range(self.n_regions):
            rows = np.flatnonzero(self.region == k)
            if len(rows) or self.models[k] is None:
                rows = rows if len(rows) else np.arange(data.n_samples)
                self.models[k] = self.learner.fit_region(data, rows, self.seed(), self.models[k])
        losses = self.learner.losses(self.models, data)
        below = {self.n_regions - 1 + k: losses[k] for k in range(self.n_regions)}
        for node in range(self.n_regions - 2, -1, -1):
            left, right = below[2 * node + 1], below[2 * node + 2]
            problem = gate_problem(left, right, self.reaches(node), data.weights)
            self.fit_gate(node, *problem)
            goes_right = passes_on(self.gates[node], data.X)
            below[node] = np.where(goes_right, right, left)
        self.region = self.route(data.X)

    def fit_gate(self, node, rows, labels, weights) -> None:
        """Fit the gate of a node, or keep it where nothing depends on it."""
        if len(rows) == 0:
            if self.gates[node] is None:
                self.gates[node] = ConstantGate(False)
            return
        if len(np.unique(labels)) == 1:
            gate = ConstantGate(labels[0] > 0)
        else:
            gate = self.learner.fit_gate(
                self.data, rows, labels, weights, self.seed(), self.gates[node]
            )
        self.gates[node] = gate

    def reaches(self, node: int) -> np.ndarray:
        """Return which samples lie below a node by the routing of the last sweep."""
        first = last = node
        while first < self.n_regions - 1:
            first, last = 2 * first + 1, 2 * last + 2
        low, high = first - (self.n_regions - 1), last - (self.n_regions - 1)
        return (self.region >= low) & (self.region <= high)

    def route(self, X) -> np.ndarray:
        """Return the region of each row."""
        node = np.zeros(len(X), dtype=np.int64)
        for _ in range(DEPTH):
            for v in np.unique(node):
                rows = np.flatnonzero(node == v)
                node[rows] = 2 * v + 1 + passes_on(self.gates[v], X[rows])
        return node - (self.n_regions - 1)

    def predict_proba(self, X) -> np.ndarray:
        """Return the probabilities of each row's own region."""
        region = self.route(X)
        proba = np.zeros((len(X), len(self.data.classes)))
        for k in np.unique(region):
            rows = np.flatnonzero(region == k)
            proba[rows] = aligned_proba(self.models[k], X[rows], self.data.classes)
        return proba

    def seed(self) -> int:
        """Draw a seed."""
        return int(self.rng.randint(2**31 - 1))


def case(name: str, learner_name: str) -> dict:
    X, y, _, _ = load_split(name)
    rows = np.random.RandomState(0).permutation(len(y))[:MAX_ROWS]
    X, X_held, y, y_held = train_test_split(X[rows], y[rows], test_size=0.25, random_state=0)
    chain = SpacePartitioningClassifier(
        learner_name,
        n_regions=2**DEPTH,
        n_init=STARTS,
        max_iter=SWEEPS,
        keep="last",
        random_state=0,
    ).fit(X, y)
    scaler = StandardScaler().fit(X)
    classes, codes = np.unique(y, return_inverse=True)
    data = TrainingData(scaler.transform(X), codes, classes)
    learner = make_learner(CLASSIFIERS[learner_name], data, "region_estimator")
    starts = [TreeStart(data, learner, seed) for seed in range(STARTS)]
    held = scaler.transform(X_held)
    answers = [start.predict_proba(held) for start in starts]
    single = [np.mean(classes[p.argmax(axis=1)] != y_held) for p in answers]
    chain_single = [np.mean(c.predict(held, y.dtype) != y_held) for c in chain.restarts_]
    together = np.mean(classes[np.mean(answers, axis=0).argmax(axis=1)] != y_held)
    return {
        "chain": 100 * (1 - chain.score(X_held, y_held)),
        "tree": 100 * together,
        "chain start": 100 * np.mean(chain_single),
        "tree start": 100 * np.mean(single),
    }


def main() -> None:
    store = stored("partition_tree")
    page = ResultsPage(
        "partition_tree",
        "Chains and trees of gates",
        "Error in per cent on a quarter of the training data held out of the fit (at most "
        f"{MAX_ROWS} rows are used), {2**DEPTH} regions, {STARTS} starts of {SWEEPS} sweeps.",
    )
    rows = []
    for learner in ("lda", "perceptron", "logistic"):
        for name in SETS:
            found = store.run((name, learner), lambda n=name, k=learner: case(n, k))
            rows.append(
                [learner, name]
                + [f"{found[k]:.2f}" for k in ("chain", "tree", "chain start", "tree start")]
            )
    page.table(
        [
            "learner",
            "set",
            "chain, average",
            "tree, average",
            "chain, mean start",
            "tree, mean start",
        ],
        rows,
    )
    wins = sum(float(row[3]) < float(row[2]) for row in rows)
    losses = sum(float(row[3]) > float(row[2]) for row in rows)
    page.text(
        f"Averaged over starts the tree is better in {wins} and worse in {losses} of {len(rows)} "
        "cases. The library has the chain only, unless trees win clearly here."
    )
    page.write()


if __name__ == "__main__":
    main()
