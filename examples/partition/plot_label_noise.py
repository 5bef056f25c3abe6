"""
Wrong labels
============

More regions fit more, including wrong labels. The more labels are wrong, the fewer regions are
best. Averaging the starts helps. The start of least training error is the worst of the cascades,
since it fits the noise best. A single tree is worse than all of them.
"""

# %%
# Spoil labels, count errors on clean data
# ----------------------------------------
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeClassifier

from vicinal.linear import WeightedLDA
from vicinal.partition import SpacePartitioningClassifier

X, y = load_breast_cancer(return_X_y=True)
lda = WeightedLDA(shrinkage=0.1)
settings = {"n_init": 4, "max_iter": 8, "random_state": 0}
models = {
    "1 region": SpacePartitioningClassifier(lda, n_regions=1),
    "2 regions, average": SpacePartitioningClassifier(lda, n_regions=2, **settings),
    "5 regions, average": SpacePartitioningClassifier(lda, n_regions=5, **settings),
    "5 regions, best start": SpacePartitioningClassifier(
        lda, n_regions=5, keep="best", combine="best", **settings
    ),
    "tree": DecisionTreeClassifier(random_state=0),
}
shares = [0.0, 0.1, 0.2, 0.3]
errors = {label: np.zeros(len(shares)) for label in models}
n_repeats = 3
for repeat in range(n_repeats):
    rng = np.random.RandomState(repeat)
    train, test = np.split(rng.permutation(len(y)), [200])
    for j, share in enumerate(shares):
        wrong = rng.uniform(size=len(train)) < share
        labels = np.where(wrong, 1 - y[train], y[train])
        for label, model in models.items():
            score = model.fit(X[train], labels).score(X[test], y[test])
            errors[label][j] += (1 - score) / n_repeats

# %%
# The picture
# -----------
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
for label, curve in errors.items():
    ax.plot(shares, curve, marker="o", label=label, ls="--" if label == "tree" else "-")
ax.set(xlabel="share of wrong training labels", ylabel="test error")
ax.legend()
plt.show()
