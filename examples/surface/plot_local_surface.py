"""
The decision surface of local machines
======================================

A system of local models has a decision surface that belongs to none of them: a point lies on it if
it lies on the surface of its own local model. Here it is drawn for support vector machines fitted
around every point, with the nearest point of the surface for each row and the distance as colour.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from vicinal.inspection import DecisionSurfaceDisplay
from vicinal.local import LocalClassifier
from vicinal.surface import DecisionSurface

X, y = make_moons(200, noise=0.06, random_state=0)
X = StandardScaler().fit_transform(X)

# %%
# Squared hinge: a smooth surface
# -------------------------------
# The gradient of the score is exact: it follows the machine, the weights and the penalty as the
# point moves. Every line from a row to the surface meets it at a right angle.

figure, axes = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
surfaces = {}
for ax, loss in zip(axes, ("squared_hinge", "hinge"), strict=True):
    machine = LocalClassifier(
        LinearSVC(loss=loss),
        bandwidth=0.6,
        kernel="gaussian",
        metric="euclidean",
        calibration=None,
    ).fit(X, y)
    surfaces[loss] = DecisionSurface(machine, random_state=0).fit(X)
    # The hinge takes fifty times as long, so that it gets fewer rows and no distances.
    is_smooth = loss == "squared_hinge"
    rows = slice(None, None, 3 if is_smooth else 12)
    DecisionSurfaceDisplay.from_estimator(
        surfaces[loss], X[rows], y[rows], distances=is_smooth, grid_resolution=40, ax=ax
    )
    ax.set_title(loss.replace("_", " "))

# %%
# Hinge: a surface with kinks
# ---------------------------
# Between changes of its support vectors a hinge machine does not move at all, so that the surface
# on the right is put together from straight pieces. Rows whose nearest point lies on a kink carry a
# status that says so; their distance holds, the angle does not.

for loss, surface in surfaces.items():
    found = surface.orthogonal_projection(X[::12])
    print(f"{loss}: {found.converged.sum()} converged, {(found.status == 2).sum()} at kinks")

plt.show()
