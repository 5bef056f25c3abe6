"""
The decision surface of local classifiers
=========================================

A point lies on the decision surface of a local classifier if it lies on the surface of the model
fitted around it. The plots show this surface for two local classifiers, with the nearest point of
the surface for each row and the distance as colour.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from vicinal.inspection import DecisionSurfaceDisplay
from vicinal.local import LocalClassifier
from vicinal.surface import DecisionSurface

X, y = make_moons(200, noise=0.06, random_state=0)
X = StandardScaler().fit_transform(X)

# %%
# An exact gradient
# -----------------
# The gradient of the score is exact: it includes the change of the model, the weights and the
# penalty with the point. Every line from a row to the surface is orthogonal to it.

figure, axes = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
surfaces = {}
for ax, estimator in zip(axes, (LinearSVC(), LogisticRegression()), strict=True):
    model = LocalClassifier(
        estimator, bandwidth=0.6, kernel="gaussian", metric="euclidean", calibration=None
    ).fit(X, y)
    name = type(estimator).__name__
    surfaces[name] = DecisionSurface(model, random_state=0).fit(X)
    DecisionSurfaceDisplay.from_estimator(
        surfaces[name], X[::3], y[::3], distances=True, grid_resolution=40, ax=ax
    )
    ax.set_title(name)

# %%
# Small kinks
# -----------
# Where a row enters the margin of a support vector machine the gradient jumps a little. The status
# of a row marks a nearest point on such a kink: its distance is valid, its angle is not.
# The logistic loss has no margin, and its surface no kinks.

for name, surface in surfaces.items():
    found = surface.orthogonal_projection(X[::12])
    print(f"{name}: {found.converged.sum()} converged, {(found.status == 2).sum()} at kinks")

plt.show()
