"""
Three ways to whiten
====================

Whitening makes the covariance of the data the identity. Any rotation of whitened data is white too,
so there are many ways; this example shows the three that
:class:`~vicinal.linear.WhiteningTransformer` offers, and what each does to the two original axes.
"""

# %%
# Correlated data
# ---------------
# Two columns with a correlation of 0.9, the second twice as spread as the first. Two arrows mark
# one unit along each original axis.

import numpy as np

from vicinal.linear import WhiteningTransformer

rng = np.random.RandomState(0)
X = rng.multivariate_normal([0.0, 0.0], [[1.0, 1.8], [1.8, 4.0]], size=400)
axes = np.eye(2)

# %%
# Four pictures of the same rows
# ------------------------------
# Points keep their colour, the angle they had in the original picture.

import matplotlib.pyplot as plt

angle = np.arctan2(X[:, 1], X[:, 0])
figure, panels = plt.subplots(1, 4, figsize=(13, 3.8), sharex=True, sharey=True)


def plot_panel(panel, points, arrows, title):
    panel.scatter(*points.T, c=angle, cmap="twilight", s=8)
    for arrow, name in zip(arrows, ("first", "second"), strict=True):
        panel.annotate(
            "", arrow, (0, 0), arrowprops={"arrowstyle": "-|>", "color": "black", "lw": 2.0}
        )
        panel.annotate(
            name,
            1.25 * arrow,
            ha="center",
            va="center",
            fontsize=9,
            bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.8},
        )
    panel.set(title=title, xlim=(-5, 5), ylim=(-5, 5), aspect="equal")


plot_panel(panels[0], X, axes, "original")
for panel, method in zip(panels[1:], ("cholesky", "zca", "pca"), strict=True):
    whitening = WhiteningTransformer(method).fit(X)
    plot_panel(panel, whitening.transform(X), axes @ whitening.whitening_, method)
figure.tight_layout()
plt.show()

# %%
# ``"cholesky"`` leaves the first output a function of the first column alone: the arrow of the
# second column is vertical. ``"zca"`` is symmetric and turns the picture least. ``"pca"`` lays the
# longest axis of the cloud along the first output. Distances between points agree in all three:

distances = [
    np.linalg.norm(np.diff(WhiteningTransformer(method).fit_transform(X)[:2], axis=0))
    for method in ("cholesky", "zca", "pca")
]
print(np.round(distances, 12))
