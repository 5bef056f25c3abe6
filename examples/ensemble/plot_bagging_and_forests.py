"""
Recipe: bagging, random forests and stumps
==========================================

Averaging over resampled rows makes an unstable learner stable. This example shows how to do it with
scikit-learn.
"""

# %%
# One tree, fifty bagged trees, a forest
# --------------------------------------
# Bagging smooths the jagged surface of a single tree; random choices of the columns to split on
# (``max_features``) make the trees less alike and the mean smoother still. A stump, one split, is
# too weak alone.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.tree import DecisionTreeClassifier

X, y = make_moons(400, noise=0.35, random_state=0)
X_test, y_test = make_moons(5000, noise=0.35, random_state=1)
models = {
    "stump": DecisionTreeClassifier(max_depth=1),
    "tree": DecisionTreeClassifier(random_state=0),
    "50 bagged trees": BaggingClassifier(DecisionTreeClassifier(), 50, random_state=0),
    "forest of 50": RandomForestClassifier(50, max_features=1, random_state=0),
}
figure, panels = plt.subplots(1, 4, figsize=(13, 3.6), layout="constrained")
for panel, (name, model) in zip(panels, models.items(), strict=True):
    model.fit(X, y)
    DecisionBoundaryDisplay.from_estimator(
        model,
        X,
        response_method="predict_proba",
        class_of_interest=1,
        ax=panel,
        cmap="RdBu",
        alpha=0.5,
    )
    panel.scatter(*X.T, c=np.where(y == 1, "navy", "darkred"), s=5)
    error = 100 * (1 - model.score(X_test, y_test))
    panel.set(title=f"{name}: {error:.1f} % error", xticks=[], yticks=[])
plt.show()

# %%
# Out-of-bag rows estimate the accuracy of a forest without test rows. For the standard deviation of
# probabilities see :class:`~vicinal.ensemble.BootstrapEnsembleClassifier`.

forest = RandomForestClassifier(200, oob_score=True, random_state=0).fit(X, y)
print(f"out-of-bag accuracy {forest.oob_score_:.3f}, test {forest.score(X_test, y_test):.3f}")
