"""
Weights of different models
===========================

Four different models are averaged. With equal weights, poor models make the average worse; weights
learned from held-out densities avoid this.
"""

# %%
# Four models
# -----------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import RandomForestRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from vicinal.ensemble import BayesianModelAveragingRegressor

X, y = make_friedman1(n_samples=1300, noise=1.0, random_state=0)
X_train, y_train, X_test, y_test = X[:300], y[:300], X[300:], y[300:]
estimators = [
    ("ridge", Ridge()),
    ("neighbours", KNeighborsRegressor(10)),
    ("kernel", KernelRidge(kernel="rbf", gamma=0.5, alpha=0.3)),
    ("forest", RandomForestRegressor(50, random_state=0)),
]

# %%
# Rules for the weights
# ---------------------
# Stacking maximises the held-out log density of the average; pseudo-BMA gives nearly all weight to
# the best model.

rules = ("stacking", "stacking_mean", "pseudo_bma+", "pseudo_bma")
models = {
    rule: BayesianModelAveragingRegressor(estimators, weighting=rule, random_state=0).fit(
        X_train, y_train
    )
    for rule in rules
}
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
bottom = np.zeros(len(rules))
for m, (name, _) in enumerate(estimators):
    height = np.array([models[rule].weights_[m] for rule in rules])
    left.bar(rules, height, bottom=bottom, label=name)
    bottom += height
left.set(title="weights", ylim=(0, 1))
figure.legend(loc="outside lower left", ncols=4)

stacked = models["stacking"]
labels = [name for name, _ in estimators] + list(rules)
densities = []
for m in range(len(estimators)):
    mean = stacked.estimators_[m].predict(X_test)
    v = stacked.variances_[m]
    densities.append(np.mean(-0.5 * (np.log(2 * np.pi * v) + (y_test - mean) ** 2 / v)))
densities += [models[rule].log_density(X_test, y_test).mean() for rule in rules]
colours = ["0.7"] * len(estimators) + ["C0"] * len(rules)
right.scatter(densities, labels, color=colours, s=60)
right.set(title="mean log density of 1,000 new rows")
right.grid(axis="x", alpha=0.3)
right.invert_yaxis()
plt.show()

# %%
# The predictive standard deviation includes noise and disagreement of the models.

_, std = stacked.predict(X_test, return_std=True)
print(f"effective number of models: {stacked.n_effective_:.2f}")
print(f"predictive deviation: {std.min():.2f} to {std.max():.2f}")
