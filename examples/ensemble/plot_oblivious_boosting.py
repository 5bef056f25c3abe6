"""
Boosted symmetric trees and exact contributions of columns
==========================================================

All nodes of a level of a symmetric tree have the same split, so that a leaf is a number of a few
bits. :class:`~vicinal.ensemble.ObliviousBoostingRegressor` boosts such trees. Held-out rows select
the number of rounds and the depth, and Shapley values of the columns are computed without
approximation.
"""

# %%
# Rounds and contributions
# ------------------------
# Friedman's first problem is :math:`10 \sin(\pi x_0 x_1) + 20 (x_2 - 0.5)^2 + 10 x_3 + 5 x_4` plus
# noise. The contributions of :math:`x_2` and :math:`x_3` follow the terms of the formula, less
# their means.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1

from vicinal.ensemble import ObliviousBoostingRegressor

X, y = make_friedman1(n_samples=1000, noise=1.0, random_state=0)
model = ObliviousBoostingRegressor(random_state=0).fit(X[:700], y[:700])
contributions = model.shapley_values(X[700:])

figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
searched = 2 * np.arange(1, len(model.validation_score_) + 1)
axes[0].plot(searched, 2.0 * model.validation_score_)
axes[0].set(
    xlabel="rounds",
    ylabel="held-out squared error",
    yscale="log",
    title=f"{model.n_iter_} rounds of depth {model.depth_}",
)
grid = np.linspace(0.0, 1.0, 101)
for ax, j, curve in ((axes[1], 2, 20.0 * (grid - 0.5) ** 2), (axes[2], 3, 10.0 * grid)):
    ax.plot(X[700:, j], contributions[:, j], ".", alpha=0.5, label="Shapley value")
    ax.plot(grid, curve - curve.mean(), "k", label="term of the formula")
    ax.set(xlabel=f"$x_{j}$", ylabel="contribution", title=f"column $x_{j}$")
axes[1].legend()
plt.show()

# %%
# The contributions and the mean prediction of the training rows add up to the prediction.

total = model.baseline_[0] + contributions.sum(axis=1)
print(f"largest difference: {np.abs(total - model.predict(X[700:])).max():.1e}")
