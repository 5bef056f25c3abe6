"""
Explanations of one prediction by two models
============================================

Two models predict the same class for a tumour, and :func:`~vicinal.inspection.explain` shows why.
The explanation of a partition has the region of the row and the coefficients of this region. The
explanation of a local model has the nearest training rows and the slopes of the linear model that
was fitted to them.
"""

# %%
# Two models, one row
# -------------------
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vicinal import LocalClassifier, SpacePartitioningClassifier
from vicinal.inspection import explain

data = load_breast_cancer(as_frame=True)
X, y = data.data, data.target_names[data.target]
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=1)

partition = SpacePartitioningClassifier(n_regions=3, combine="best", random_state=0)
partition.fit(X_train, y_train)
local = make_pipeline(StandardScaler(), LocalClassifier(metric="euclidean", random_state=0))
local.fit(X_train, y_train)
for model in (partition, local):
    print(f"{type(model).__name__}: accuracy {model.score(X_test, y_test):.3f}")

# %%
# A row near the border between the classes
# -----------------------------------------
# This is the test row for which both models predict the same class with the least confidence.
import numpy as np

proba = [model.predict_proba(X_test)[:, 1] for model in (partition, local)]
confidence = np.abs(proba[0] - 0.5) + np.abs(proba[1] - 0.5)
confidence[(proba[0] > 0.5) != (proba[1] > 0.5)] = 1.0
row = X_test.iloc[[confidence.argmin()]]

by_region = explain(partition, row)
by_neighbors = explain(local, row)
print(by_region.text(max_rows=5))

# %%
# The local model explains its prediction by similar patients:
print(by_neighbors.text(max_rows=5))

# %%
# Both explanations as bars
# -------------------------
# Columns with a bar to the right favour the predicted class, columns with a bar to the left the
# other one. The last panel shows the weights of the neighbours.
import matplotlib.pyplot as plt

fig, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained", width_ratios=[4, 4, 3])
by_region.plot(axes[0], max_rows=8)
by_neighbors.plot(axes[1], max_rows=8)
by_neighbors.plot(axes[2], section="neighbors", max_rows=8)
axes[0].set_title(f"region {by_region['region'].values['region']} of the partition")
axes[1].set_title("linear model around the row")
axes[1].locator_params(axis="x", nbins=4)
axes[2].set_title("nearest training rows")
axes[2].set_ylabel("training row")
fig.suptitle(f"Both models predict {by_region.prediction}")
plt.show()

# %%
# Values and slopes are in the units of the table, although the local model is fitted to scaled
# columns. ``to_dict()`` returns an explanation as plain values, ``to_html()`` as HTML.
