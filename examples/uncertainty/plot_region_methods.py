"""
Components on the border, not on the classes
============================================

Each of two classes lies in opposite corners of a square. An ordinary Gaussian mixture puts its
components on the four clusters, each of which has one class. The responsibility mixture, weighted
by uncertainty, puts them between the clusters. Then one linear projection per component separates
the classes, which a single projection cannot.
"""

import matplotlib.pyplot as plt
import numpy as np

from vicinal.uncertainty import LocalDiscriminantTransformer

rng = np.random.RandomState(0)
corners = np.array([[2, 2], [-2, -2], [2, -2], [-2, 2]])
X = np.repeat(corners, 300, axis=0) + 1.2 * rng.normal(size=(1200, 2))
y = np.repeat([0, 0, 1, 1], 300)

# %%
# Four components found in two ways, and the projection to one dimension for each:

figure, axes = plt.subplots(2, 2, figsize=(9, 7.5), height_ratios=[1.6, 1])
angle = np.linspace(0, 2 * np.pi, 100)
circle = np.column_stack([np.cos(angle), np.sin(angle)])
for column, (region_method, name) in zip(
    axes.T, {"density": "by density", "uncertainty": "by uncertainty"}.items(), strict=True
):
    model = LocalDiscriminantTransformer(
        1, n_regions=4, region_method=region_method, random_state=0
    )
    z = model.fit_transform(X, y)[:, 0]
    column[0].scatter(*X.T, c=y, cmap="coolwarm", s=5, alpha=0.35)
    outline = circle @ np.linalg.cholesky(model.mixture_.covariances_).T
    for center in model.centers_:
        column[0].plot(*(center + outline).T, color="black")
        column[0].plot(*center, "k+", markersize=12)
    column[0].set_title(f"components {name}")
    bins = np.linspace(z.min(), z.max(), 50)
    column[1].hist(z[y == 0], bins, alpha=0.6, color="tab:blue")
    column[1].hist(z[y == 1], bins, alpha=0.6, color="tab:red")
    column[1].set(xlabel="projection", yticks=[])
figure.tight_layout()

# %%
# With ``offset=True`` every component has its own offset. Then components found by density separate
# the classes too.
