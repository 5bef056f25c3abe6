"""
One support vector machine by clusters
======================================

A machine on all rows costs the square of their number, or more. Divided into clusters, each with a
machine of its own, it costs a fraction, and a query asks only the machine of its cluster. The
solutions of the clusters, side by side, also start the descent to the exact machine.
"""

# %%
# The early machine has seams at the borders of its clusters, where the boundary may jump; the exact
# one has none.
import matplotlib.pyplot as plt
import numpy as np

from vicinal.subspace import DivideConquerSVC

rng = np.random.RandomState(0)
X = rng.uniform(-3, 3, size=(1500, 2))
y = (np.sin(2 * X[:, 0]) + 0.25 * rng.normal(size=1500) > 0.6 * X[:, 1]).astype(int)

settings = {"C": 10.0, "gamma": 3.0, "n_clusters": 12, "random_state": 0}
early = DivideConquerSVC(**settings).fit(X, y)
exact = DivideConquerSVC(**settings, prediction="exact").fit(X, y)
titles = {
    "12 clusters": early.predict_cluster,
    "early: the machine of the nearest cluster": early.decision_function,
    "exact: one machine, started from the clusters": exact.decision_function,
}

axis = np.linspace(-3, 3, 240)
grid = np.stack(np.meshgrid(axis, axis), axis=-1)
fig, axes = plt.subplots(1, 3, figsize=(12, 4.6), sharey=True, layout="constrained")
for ax, (title, answer) in zip(axes, titles.items(), strict=True):
    values = answer(grid.reshape(-1, 2)).reshape(240, 240)
    if answer == early.predict_cluster:
        ax.pcolormesh(axis, axis, values, cmap="tab20", alpha=0.35)
        ax.scatter(*X.T, c=y, s=5, cmap="RdBu_r")
        ax.plot(*early.cluster_centers_.T, "k+", markersize=9)
    else:
        ax.pcolormesh(axis, axis, values, cmap="RdBu_r", alpha=0.8, vmin=-2, vmax=2)
        ax.contour(axis, axis, values, [0.0], colors="black")
    ax.set(title=title, aspect="equal")
plt.show()
