"""
Boosting a learner that is not a tree
=====================================

Gradient boosting is mostly used with trees, but works with any regressor. On a smooth target a
smooth learner needs fewer rounds. It also overfits sooner, so let held-out rows decide when to
stop.
"""

# %%
# Four learners, one problem
# --------------------------
# Friedman's first problem has ten columns, five of which matter, and a noise variance of 1.

import matplotlib.pyplot as plt
from sklearn.datasets import make_friedman1
from sklearn.kernel_ridge import KernelRidge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from vicinal.ensemble import FunctionalGradientBoostingRegressor
from vicinal.inspection import TrainingCurveDisplay

X, y = make_friedman1(n_samples=1200, noise=1.0, random_state=0)
X_train, y_train, X_test, y_test = X[:500], y[:500], X[500:], y[500:]

learners = {
    "stumps": DecisionTreeRegressor(max_depth=1),
    "trees of depth 3": DecisionTreeRegressor(max_depth=3),
    "10 nearest neighbours": KNeighborsRegressor(10),
    "kernel ridge": KernelRidge(kernel="rbf", gamma=0.5, alpha=5.0),
}

# %%
# Error on new rows after each round
# ----------------------------------

figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for name, learner in learners.items():
    model = FunctionalGradientBoostingRegressor(learner, n_estimators=80, random_state=0)
    model.fit(X_train, y_train)
    display = TrainingCurveDisplay.from_estimator(model, X_test, y_test, ax=ax)
    display.lines_["given rows"].set_label(name)
ax.axhline(1.0, color="grey", linestyle=":", label="noise")
ax.set(title="Boosting of four learners", ylim=(0, 15))
ax.legend()
plt.show()

# %%
# Early stopping
# --------------
# A tenth of the rows is held out; the model returns to its best round.

model = FunctionalGradientBoostingRegressor(
    learners["kernel ridge"], n_estimators=300, n_iter_no_change=8, random_state=0
).fit(X_train, y_train)
print(f"kept {model.n_iter_} rounds, R2 on new rows {model.score(X_test, y_test):.3f}")
