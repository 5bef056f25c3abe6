"""
Where is classification hard?
=============================

The uncertainty of a row is the share of its neighbours that belong to other classes. On two
interleaved moons it is zero along the arcs and rises where they are close; points inside the other
moon have the largest values. The same values rank the rows of a table with any number of columns.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine, make_moons
from sklearn.preprocessing import StandardScaler

from vicinal.uncertainty import uncertainty_map

X, y = make_moons(600, noise=0.25, random_state=0)

# %%
# In the plane: a map
# -------------------

figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), width_ratios=[1.25, 1])
uncertainty = uncertainty_map(X, y)
for label, marker in enumerate("o^"):
    own = y == label
    style = {"marker": marker, "vmin": 0, "vmax": 1, "s": 22, "label": f"class {label}"}
    points = axes[0].scatter(*X[own].T, c=uncertainty[own], **style)
figure.colorbar(points, label="uncertainty")
axes[0].set_title("uncertainty of each row")
axes[0].legend()
axes[1].hist([uncertainty[y == 0], uncertainty[y == 1]], bins=20, label=["class 0", "class 1"])
axes[1].set(xlabel="uncertainty", ylabel="rows", yscale="log", title="most rows are easy")
axes[1].legend()
figure.tight_layout()

# %%
# In more dimensions: the uncertain rows first
# --------------------------------------------
# Check the labels of these rows first.

wine = load_wine()
uncertainty = uncertainty_map(StandardScaler().fit_transform(wine.data), wine.target)
for row in np.argsort(-uncertainty)[:5]:
    label = wine.target_names[wine.target[row]]
    print(f"row {row:3d}  {label}  uncertainty {uncertainty[row]:.2f}")
