"""
Probabilities from distances
============================

A sigmoid of the distance to the decision surface, fitted to held-out rows, gives probabilities,
also for classifiers that have none.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_moons
from sklearn.neighbors import KNeighborsClassifier

from vicinal.surface import SurfaceCalibratedClassifier

X, y = make_moons(900, noise=0.35, random_state=0)
X, y, X_test, y_test = X[:400], y[:400], X[400:], y[400:]

# %%
# Three neighbours vote: their probabilities are 0, 1/3, 2/3 or 1, and overconfident. The distance
# to the point where the vote changes gives better probabilities.

votes = KNeighborsClassifier(3).fit(X, y)
model = SurfaceCalibratedClassifier(KNeighborsClassifier(3), random_state=0).fit(X, y)
for name, fitted in (("votes", votes), ("distance", model)):
    proba = fitted.predict_proba(X_test)[np.arange(len(y_test)), y_test]
    print(f"{name}: log loss {-np.log(np.clip(proba, 1e-6, 1.0)).mean():.2f}")

# %%
# Distances by class on the left, reliability on the right.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
distance = model.surfaces_[0].distance(X_test)
axes[0].hist([distance[y_test == 0], distance[y_test == 1]], bins=30, label=["0", "1"])
axes[0].set(xlabel="signed distance to the surface", ylabel="rows")
axes[0].legend(title="class")
for name, fitted in (("votes", votes), ("distance", model)):
    CalibrationDisplay.from_estimator(fitted, X_test, y_test, n_bins=8, name=name, ax=axes[1])
axes[1].set_title("reliability on new rows")

plt.show()
