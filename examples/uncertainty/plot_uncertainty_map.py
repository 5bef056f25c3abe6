"""
Where is classification hard?
=============================

The uncertainty of a row is the share of its neighbours that belong to other classes. On two
interleaved moons it is zero along the arcs and rises where they are close; points inside the other
moon have the largest values. The same values rank the rows of a table with any number of columns.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine, make_moons
from sklearn.preprocessing import StandardScaler

from vicinal.inspection import UncertaintyDisplay

X, y = make_moons(600, noise=0.25, random_state=0)

# %%
# In the plane: a map
# -------------------

figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), width_ratios=[1.25, 1])
display = UncertaintyDisplay.from_data(X, y, ax=axes[0])
axes[0].set_title("uncertainty of each row")
axes[1].hist(
    [display.uncertainty[y == 0], display.uncertainty[y == 1]],
    bins=20,
    label=["class 0", "class 1"],
)
axes[1].set(xlabel="uncertainty", ylabel="rows", yscale="log", title="most rows are easy")
axes[1].legend()
figure.tight_layout()

# %%
# In more dimensions: the uncertain rows first
# --------------------------------------------
# Check the labels of these rows first.

wine = load_wine()
display = UncertaintyDisplay.from_data(
    StandardScaler().fit_transform(wine.data), wine.target_names[wine.target], plot=False
)
for row in display.most_uncertain(5):
    print(f"row {row['row']:3d}  {row['label']}  uncertainty {row['uncertainty']:.2f}")
