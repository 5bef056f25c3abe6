"""
The truncated RBF kernel against the RBF kernel
===============================================

The first terms of the Taylor series of the RBF kernel have an exact finite feature map. The number
of terms that are needed depends on the distance of the rows from the origin, in widths of the
kernel.
"""

# %%
# Ridge classifiers with the truncated kernel, of growing order, compared with the full kernel. Ten
# features give a fair boundary; forty-five give that of the full kernel.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.kernel_ridge import KernelRidge

from vicinal.subspace import TruncatedRBFClassifier, TruncatedRBFFeatures

X, y = make_moons(300, noise=0.2, random_state=0)
X -= X.mean(axis=0)
gamma, alpha = 0.4, 1e-3
grid = np.stack(np.meshgrid(np.linspace(-2.2, 2.2, 120), np.linspace(-1.4, 1.4, 100)), axis=-1)

orders = (2, 3, 8)
fig, axes = plt.subplots(1, 4, figsize=(12, 2.9), sharey=True, layout="constrained")
surfaces = []
for order in orders:
    model = TruncatedRBFClassifier(order, gamma=gamma, alpha=alpha).fit(X, y)
    n_features = TruncatedRBFFeatures(order, gamma=gamma).fit(X).n_output_features_
    scores = model.decision_function(grid.reshape(-1, 2))
    surfaces.append((f"order {order}: {n_features} features", scores))
full = KernelRidge(kernel="rbf", gamma=gamma, alpha=alpha).fit(X, 2 * y - 1)
surfaces.append(("RBF kernel: 300 rows", full.predict(grid.reshape(-1, 2))))

for ax, (title, scores) in zip(axes, surfaces, strict=True):
    scores = scores.reshape(grid.shape[:2])
    ax.contourf(
        grid[..., 0],
        grid[..., 1],
        np.clip(scores, -1.5, 1.5),
        np.linspace(-1.5, 1.5, 13),
        cmap="RdBu_r",
        alpha=0.7,
    )
    ax.contour(grid[..., 0], grid[..., 1], scores, [0.0], colors="black")
    ax.scatter(*X.T, c=y, s=6, cmap="RdBu_r", edgecolors="none")
    ax.set_title(title)
plt.show()

# %%
# Ridge regression on ``J`` features takes ``n J²`` operations, linear in the rows. So the truncated
# kernel is a good fusion of a few scores of very many rows.
