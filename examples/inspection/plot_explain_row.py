"""
Two reasons for one prediction
==============================

Two models call the same tumour by the same name, each with its own reasons. A partition names the
region that the row fell in and the coefficients that hold there; a local model names the rows that
spoke for it and the slopes of the line fitted around it. ``explain`` puts either into one object.
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
# A row near the border, where both models agree but are not sure
# ---------------------------------------------------------------
import numpy as np

proba = [model.predict_proba(X_test)[:, 1] for model in (partition, local)]
unsure = np.abs(proba[0] - 0.5) + np.abs(proba[1] - 0.5)
unsure[(proba[0] > 0.5) != (proba[1] > 0.5)] = 1.0
row = X_test.iloc[[unsure.argmin()]]

by_region = explain(partition, row)
by_neighbors = explain(local, row)
print(by_region.text(max_rows=5))

# %%
# The local model tells the same in terms of other patients:
print(by_neighbors.text(max_rows=5))

# %%
# Side by side
# ------------
# Bars to the right speak for the prediction, bars to the left against it.
import matplotlib.pyplot as plt

fig, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained", width_ratios=[4, 4, 3])
by_region.plot(axes[0], max_rows=8)
by_neighbors.plot(axes[1], max_rows=8)
by_neighbors.plot(axes[2], section="neighbors", max_rows=8)
axes[0].set_title(f"region {by_region['region'].values['region']} of the partition")
axes[1].set_title("line around the row")
axes[1].locator_params(axis="x", nbins=4)
axes[2].set_title("who speaks for it")
axes[2].set_ylabel("training row")
fig.suptitle(f"Both models predict {by_region.prediction}")
plt.show()

# %%
# The units are those of the table, although the local model sits behind a scaler. The same object
# gives ``to_dict()`` for programs and ``to_html()`` for pages.
