"""
Labels that the neighbours contradict
=====================================

One label in twelve of the handwritten digits is exchanged for another. Held-out probabilities of a
local classifier rank the rows by how much less probable the given label is than the best other one,
and estimate how many labels are wrong.
"""

# %%
# Exchange some labels
# --------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import precision_recall_curve

from vicinal.inspection import label_issues
from vicinal.local import LocalClassifier
from vicinal.uncertainty import ConformalClassifier

X, y = load_digits(return_X_y=True)
rng = np.random.RandomState(0)
exchanged = rng.choice(len(y), 150, replace=False)
given = y.copy()
given[exchanged] = (y[exchanged] + rng.randint(1, 10, size=150)) % 10

# %%
# Find labels that look wrong
# ---------------------------

local = LocalClassifier(n_neighbors=40, alpha=1.0, metric="euclidean")
model = ConformalClassifier(local, random_state=0).fit(X, given)
found = label_issues(model, given)
print(found)

# %%
# The first of them, with the label given and the one suggested, and how well the order finds the
# 150 that were exchanged.

figure = plt.figure(figsize=(10, 4.2), layout="constrained")
grid = figure.add_gridspec(1, 2, width_ratios=(1.5, 1))
left, right = figure.add_subfigure(grid[0]), figure.add_subfigure(grid[1])
for ax, row, suggested in zip(
    left.subplots(3, 6).ravel(), found["row"], found["suggested"], strict=False
):
    ax.imshow(X[row].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"{given[row]} → {suggested}", fontsize=9, color="k" if row in exchanged else "C3")
    ax.set_axis_off()
left.suptitle("given → suggested", fontsize=10)

proba = model.held_out_
rows = np.arange(len(y))
others = proba.copy()
others[rows, given] = -1
margin = others.max(axis=1) - proba[rows, given]
precision, recall, _ = precision_recall_curve(np.isin(rows, exchanged), margin)
ax = right.subplots()
ax.plot(recall, precision)
ax.set(xlabel="share of the exchanged found", ylabel="share of the found exchanged", ylim=(0, 1.03))
expected = found.values["expected"]
ax.set_title(f"150 exchanged, {expected:.0f} counted", fontsize=10)
plt.show()
