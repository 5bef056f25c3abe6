"""
What would have to change?
==========================

The nearest point on the other side of a decision surface is the smallest change of a row that gives
another prediction. It can be found under conditions: columns that must not change, bounds, fewer
changes at a longer distance, or only points close to known rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from vicinal.surface import DecisionSurface

data = load_breast_cancer(as_frame=True)
X, y = data.data, data.target_names[data.target]
forest = RandomForestClassifier(50, max_depth=6, random_state=0).fit(X, y)

# %%
# A forest has no gradient, so the search uses its labels: it starts from rows of the other class
# and moves them closer. Distances are measured in standard deviations.

surface = DecisionSurface(forest, metric="standardized", random_state=0).fit(X)
patient = X[15:16]
print(f"predicted: {forest.predict(patient)[0]}, {surface.oracle_} only")

# %%
# Nearest, and sparse
# -------------------
# On the left every column may move a little; on the right the distance may grow by half so that
# fewer columns move.

figure, axes = plt.subplots(1, 2, figsize=(13, 5.5), layout="constrained")
for ax, sparsity in zip(axes, (0.0, 0.5), strict=True):
    found = surface.counterfactual(patient, sparsity=sparsity)
    change = found.changes[0] / X.std().to_numpy()
    largest = np.argsort(-np.abs(change))[:8][::-1]
    ax.barh(X.columns[largest], change[largest])
    ax.set(xlabel="change in standard deviations", title=f"{found.n_changed[0]} columns change")
    print(f"sparsity={sparsity}: {found.n_changed[0]} columns, distance {found.distances[0]:.2f}")

# %%
# Under conditions
# ----------------
# Some columns must not change, and the counterfactual must be close to known rows.

worst = [name for name in X.columns if name.startswith("worst")]
held = surface.counterfactual(patient, immutable=worst, sparsity=0.5)
dense = surface.counterfactual(patient, plausibility=0.95, sparsity=0.5)
print(f"without the 'worst' columns: found {held.found[0]}, distance {held.distances[0]:.2f}")
print(f"among rows: found {dense.found[0]}, distance {dense.distances[0]:.2f}")

plt.show()
