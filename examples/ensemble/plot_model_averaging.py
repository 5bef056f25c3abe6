"""
Weights for unlike models
=========================

Four models of different kinds are averaged. Equal weights let the bad ones spoil the good ones;
weights learned from held-out densities do not.
"""

# %%
# Four members
# ------------

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
members = [
    ("ridge", Ridge()),
    ("neighbours", KNeighborsRegressor(10)),
    ("kernel", KernelRidge(kernel="rbf", gamma=0.5, alpha=0.3)),
    ("forest", RandomForestRegressor(50, random_state=0)),
]

# %%
# Rules for the weights
# ---------------------
# Stacking maximises the held-out log density of the mixture; pseudo-BMA trusts the best member
# nearly alone.

rules = ("stacking", "stacking_mean", "pseudo_bma+", "pseudo_bma")
models = {
    rule: BayesianModelAveragingRegressor(members, weighting=rule, random_state=0).fit(
        X_train, y_train
    )
    for rule in rules
}
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
bottom = np.zeros(len(rules))
for m, (name, _) in enumerate(members):
    height = np.array([models[rule].weights_[m] for rule in rules])
    left.bar(rules, height, bottom=bottom, label=name)
    bottom += height
left.set(title="weights", ylim=(0, 1))
figure.legend(loc="outside lower left", ncols=4)

stacked = models["stacking"]
labels = [name for name, _ in members] + list(rules)
densities = []
for m in range(len(members)):
    mean = stacked.estimators_[m].predict(X_test)
    v = stacked.variances_[m]
    densities.append(np.mean(-0.5 * (np.log(2 * np.pi * v) + (y_test - mean) ** 2 / v)))
densities += [models[rule].log_density(X_test, y_test).mean() for rule in rules]
colours = ["0.7"] * len(members) + ["C0"] * len(rules)
right.scatter(densities, labels, color=colours, s=60)
right.set(title="mean log density of 1,000 new rows")
right.grid(axis="x", alpha=0.3)
right.invert_yaxis()
plt.show()

# %%
# The predictive deviation mixes noise and disagreement of the members.

_, std = stacked.predict(X_test, return_std=True)
print(f"effective number of members: {stacked.n_effective_:.2f}")
print(f"predictive deviation: {std.min():.2f} to {std.max():.2f}")
