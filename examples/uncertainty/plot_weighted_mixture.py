"""
A Gaussian mixture with sample weights
======================================

:class:`~vicinal.uncertainty.ResponsibilityMixture` without labels is a Gaussian mixture that takes
``sample_weight``. Here a survey has reached one group far too often; weights by the known shares of
the groups bring the mixture back to the population.
"""

import matplotlib.pyplot as plt
import numpy as np

from vicinal.uncertainty import ResponsibilityMixture

# %%
# The population has two groups of equal size, the sample has eight rows of the first for each of
# the second.

rng = np.random.RandomState(0)
first = rng.normal([0.0, 0.0], [1.0, 0.6], size=(800, 2))
second = rng.normal([3.0, 1.5], [0.7, 0.7], size=(100, 2))
X = np.vstack([first, second])
weights = np.r_[np.full(800, 0.5 / 800), np.full(100, 0.5 / 100)] * len(X)

plain = ResponsibilityMixture(2, covariance_type="diag", random_state=0).fit(X)
weighted = ResponsibilityMixture(2, covariance_type="diag", random_state=0).fit(
    X, sample_weight=weights
)
for name, mixture in {"plain": plain, "weighted": weighted}.items():
    print(f"{name:8s} shares {np.sort(mixture.weights_).round(2)}")

# %%
# The density of both, as contours:

grid = np.stack(np.meshgrid(np.linspace(-4, 6, 120), np.linspace(-3, 4.5, 100)), axis=-1)
figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharex=True, sharey=True)
for axis, (name, mixture) in zip(
    axes, {"every row once": plain, "weighted rows": weighted}.items(), strict=True
):
    density = np.exp(mixture.score_samples(grid.reshape(-1, 2))).reshape(grid.shape[:2])
    axis.scatter(*X.T, s=4, color="0.6")
    axis.contour(grid[..., 0], grid[..., 1], density, levels=8, cmap="viridis")
    axis.plot(*mixture.means_.T, "r+", markersize=12)
    axis.set_title(name)
figure.tight_layout()

# %%
# A weight of two is the row twice, and a weight of zero removes the row:

repeated = np.repeat(X, np.where(np.arange(len(X)) < 800, 1, 8), axis=0)
start = {"covariance_type": "diag", "means_init": [[0.0, 0.0], [3.0, 1.5]]}
by_weight = ResponsibilityMixture(2, **start).fit(
    X, sample_weight=np.where(np.arange(len(X)) < 800, 1, 8)
)
by_copies = ResponsibilityMixture(2, **start).fit(repeated)
print(f"largest difference of the means: {np.abs(by_weight.means_ - by_copies.means_).max():.1e}")
