"""
A support vector machine by clusters
====================================

The time to train a support vector machine grows with the square of the number of rows, or faster.
With one SVM per cluster it is a fraction, and the SVM of the nearest cluster predicts a query. The
solutions of the clusters are also the start of the exact solution.
"""

# %%
# With early prediction the boundary may jump at the borders of clusters; the exact solution has no
# jumps.
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
for ax, (title, predict) in zip(axes, titles.items(), strict=True):
    values = predict(grid.reshape(-1, 2)).reshape(240, 240)
    if predict == early.predict_cluster:
        ax.pcolormesh(axis, axis, values, cmap="tab20", alpha=0.35)
        ax.scatter(*X.T, c=y, s=5, cmap="RdBu_r")
        ax.plot(*early.cluster_centers_.T, "k+", markersize=9)
    else:
        ax.pcolormesh(axis, axis, values, cmap="RdBu_r", alpha=0.8, vmin=-2, vmax=2)
        ax.contour(axis, axis, values, [0.0], colors="black")
    ax.set(title=title, aspect="equal")
plt.show()
