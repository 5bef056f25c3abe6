"""Do the decompositions keep their promises, and what do they cost?"""

import argparse
import json
import os
import subprocess
import sys
from itertools import pairwise, product

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from scipy.stats import poisson

from _harness import ROOT, ResultsPage, peak_memory_gb, stored
from _harness import processor_timed as timed
from vicinal._kernels.subspace import _truncated_rbf as trbf
from vicinal.subspace import FeatureSpaceDecomposition, TruncatedRBFRegressor

METHODS = ("random", "principal", "discriminant", "cholesky", "approximate")


def _off_block(parts, X):
    blocks = [parts.transform_subspace(X, i) for i in range(parts.n_subspaces_)]
    blocks = [block - block.mean(axis=0) for block in blocks]
    S = np.hstack(blocks).T @ np.hstack(blocks)
    inside = scipy.linalg.block_diag(*(np.ones((b.shape[1],) * 2) for b in blocks)) > 0
    return float(np.abs(S[~inside]).max() / np.abs(S).max())


def invariants():
    """Return the bars, each as (claim, found, bar)."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(500, 13)) @ rng.normal(size=(13, 13))
    broken = X.copy()
    broken[:, 4], broken[:, 7] = 2.5, broken[:, 1] - broken[:, 10]
    bcd = FeatureSpaceDecomposition("cholesky", n_blocks=4, n_repeats=1, random_state=0)
    rows = [
        [
            "BCD, constant and dependent columns: off-block mass / largest",
            _off_block(bcd.fit(broken), broken),
            "1e-10",
        ]
    ]
    bcd.fit(X)
    # The order of the blocks is drawn; within a block the map does not depend on it.
    order = np.concatenate(bcd.groups_)
    Z = X - X.mean(axis=0)
    L = np.linalg.cholesky((Z.T @ Z)[np.ix_(order, order)])
    stops = np.cumsum([0, *map(len, bcd.groups_)])
    diagonal = scipy.linalg.block_diag(*(L[a:b, a:b] for a, b in pairwise(stops)))
    closed = diagonal @ np.linalg.inv(L)
    gap = np.abs(bcd.components_[0][np.ix_(order, order)] - closed).max()
    rows.append(["BCD, full rank: distance to blockdiag(L) L^-1", float(gap), "1e-10"])

    abd = FeatureSpaceDecomposition("approximate", n_blocks=5, n_repeats=1, random_state=0).fit(Z)
    blocks = [abd.transform_subspace(Z, i) for i in range(5)]
    G = np.array([[(A * B).sum() for B in blocks] for A in blocks])
    rows.append(
        [
            "ABD, M = 13, m = 5: trace-orthogonality",
            float(np.abs(G - np.diag(np.diag(G))).max() / G.max()),
            "1e-10",
        ]
    )
    rows.append(
        [
            "ABD: relative loss of energy",
            float(abs(np.trace(G) - (Z**2).sum()) / (Z**2).sum()),
            "1e-10",
        ]
    )
    sparse = sp.csr_array(np.where(np.abs(X) < 2, 0.0, X))
    abd.fit(sparse)
    twin = FeatureSpaceDecomposition("approximate", n_blocks=5, n_repeats=1, random_state=0)
    dense = twin.fit(sparse.toarray()).transform(sparse.toarray())
    rows.append(
        [
            "ABD: sparse against dense",
            float(np.abs(abd.transform(sparse).toarray() - dense).max()),
            "1e-10",
        ]
    )

    P, gamma, order_p = rng.normal(scale=0.4, size=(200, 6)), 0.5, 3
    plan = trbf.monomial_plan(6, order_p)
    phi = trbf.truncated_rbf_features(P, gamma, plan)
    K = trbf.truncated_rbf_kernel(P, P, gamma, order_p)
    rows.append(["TRBF, M = 6, p = 3: number of features", phi.shape[1], "C(9, 3) = 84"])
    rows.append(["TRBF: Phi Phi' against K_p", float(np.abs(phi @ phi.T - K).max()), "1e-10"])
    worst = np.abs(np.exp(-gamma * cdist(P, P, "sqeuclidean")) - K).max()
    tail = poisson.sf(order_p, 2 * gamma * (P**2).sum(axis=1).max())
    rows.append(["TRBF: worst error against the Poisson tail", float(abs(worst - tail)), "1e-8"])
    y = np.sin(3 * P[:, 0])
    primal, dual = (
        TruncatedRBFRegressor(order_p, solver=solver).fit(P, y).predict(P)
        for solver in ("primal", "dual")
    )
    rows.append(["TRBF: primal against dual", float(np.abs(primal - dual).max()), "1e-8"])
    return rows


def _news20_like():
    """20,000 rows, 1,355,191 columns, nine million entries, frequent columns first."""
    rng = np.random.RandomState(0)
    n, m, entries = 20_000, 1_355_191, 9_000_000
    columns = np.minimum((m * rng.uniform(size=entries) ** 3).astype(np.int32), m - 1)
    rows = np.sort(rng.randint(n, size=entries).astype(np.int32))
    return sp.csr_array((rng.uniform(size=entries), (rows, columns)), shape=(n, m))


def sparse_case(m):
    """Fit and transform block by block; in a process of its own, for its peak memory."""
    X = _news20_like()
    held = peak_memory_gb()
    warm = FeatureSpaceDecomposition("approximate", n_blocks=2, n_repeats=1)
    warm.fit(sp.random(20, 30, 0.3, format="csr", random_state=0))
    parts = FeatureSpaceDecomposition("approximate", n_blocks=m, n_repeats=1, random_state=0)
    fit, _ = timed(lambda: parts.fit(X))
    total, entries = 0.0, 0
    for i in range(parts.n_subspaces_):
        seconds, block = timed(lambda i=i: parts.transform_subspace(X, i))
        total, entries = total + seconds, entries + block.nnz
        del block
    return [m, X.nnz, fit, total, entries, held, peak_memory_gb()]


def _in_own_process(m):
    command = [sys.executable, __file__, "--sparse-case", str(m)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def cost():
    """Processor seconds to fit, growing rows, columns and blocks one at a time."""
    rng = np.random.RandomState(0)
    sizes = [(5_000, 200, 4), (20_000, 200, 4), (5_000, 800, 4), (5_000, 200, 16)]
    found = []
    for (n, M, m), method in product(sizes, METHODS):
        X = rng.normal(size=(n, M))
        y = (X[:, 0] > 0).astype(int)
        parts = FeatureSpaceDecomposition(method, n_blocks=m, n_repeats=1, random_state=0)
        found.append(
            [n, M, m, method, timed(lambda parts=parts, X=X, y=y: parts.fit(X, y), repeat=3)[0]]
        )
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sparse-case", type=int)
    arguments = parser.parse_args()
    if arguments.sparse_case:
        print(json.dumps(sparse_case(arguments.sparse_case)))
        return
    parts = stored("subspace_decomposition")
    page = ResultsPage(
        "subspace_decomposition",
        "Decompositions of the feature space: exactness and cost",
        "Whether block-diagonalisation, orthogonality and the truncated RBF map hold to rounding, "
        "and what the decompositions cost in rows, columns and blocks.",
    )
    page.table(["claim", "found", "target"], parts.run(("invariants",), invariants), "## Exactness")
    rows = [parts.run((f"sparse m={m}",), lambda m=m: _in_own_process(m)) for m in (2, 10)]
    page.table(
        [
            "blocks",
            "entries",
            "fit, processor s",
            "all blocks, processor s",
            "entries made",
            "data in memory, GB",
            "peak memory, GB",
        ],
        rows,
        "## ABD on sparse rows of the size of news20\n\n20,000 x 1,355,191, generated with "
        "frequent columns; blocks are made one at a time.",
    )
    found = parts.run(("cost",), cost)
    table = {}
    for n, M, m, method, seconds in found:
        table.setdefault((n, M, m), {})[method] = seconds
    page.table(
        ["rows", "columns", "blocks", *METHODS],
        [[*key, *(row[method] for method in METHODS)] for key, row in table.items()],
        "## Processor seconds to fit\n\nPublished (Table 1): RD O(N), PCA O(M²N + M³), DCA O(2M²N "
        "+ M³), BCD O(M²N + M³/m), ABD O(MmN + m³).",
    )
    page.write()


if __name__ == "__main__":
    main()
