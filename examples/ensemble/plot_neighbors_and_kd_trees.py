"""
Recipe: nearest neighbours and kd-trees
=======================================

The simplest local learner averages the rows around a query. A kd-tree finds them in logarithmic
time if there are few columns. Both are part of scikit-learn.
"""

# %%
# How many neighbours?
# --------------------
# One neighbour follows the noise; all of them ignore the query.

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KDTree, KNeighborsRegressor

rng = np.random.RandomState(0)
x = np.sort(rng.uniform(0, 1, 120))
y = np.sin(4 * np.pi * x) + 0.3 * rng.normal(size=120)
grid = np.linspace(0, 1, 500)[:, None]

_, axis = plt.subplots(figsize=(7, 4), layout="constrained")
axis.scatter(x, y, s=10, color="0.6")
for k in (1, 10, 60):
    model = KNeighborsRegressor(k).fit(x[:, None], y)
    axis.plot(grid, model.predict(grid), label=f"k = {k}")
axis.set_title("nearest-neighbour regression")
axis.legend()
plt.show()

# %%
# What a kd-tree saves, and when
# ------------------------------
# In three dimensions a query looks at a handful of leaves; in twenty it looks at nearly all rows,
# and stepping through them is as good.

_, axis = plt.subplots(figsize=(7, 4), layout="constrained")
sizes = (1_000, 4_000, 16_000, 64_000)
for n_columns in (3, 20):
    seconds = []
    for n in sizes:
        tree, queries = KDTree(rng.normal(size=(n, n_columns))), rng.normal(size=(100, n_columns))
        best = np.inf
        for _ in range(3):
            started = time.perf_counter()
            tree.query(queries, k=10)
            best = min(best, time.perf_counter() - started)
        seconds.append(1e6 * best / 100)
    axis.loglog(sizes, seconds, marker="o", label=f"{n_columns} columns")
axis.set(title="kd-tree search of 10 neighbours", xlabel="rows", ylabel="microseconds a query")
axis.legend()
plt.show()

# %%
# :class:`vicinal.neighbors.NeighborSearch` adds weights, exclusions and GPU search; weighted models
# around each query are in ``vicinal.local``.
