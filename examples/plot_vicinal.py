"""
A global model, a local model and a partition
=============================================

One straight line cannot separate these two classes. A linear model fitted around every query can,
and so can four regions with one linear model each. The number in each title is the accuracy on rows
that the models were not fitted to.
"""

# %%
# The training set has 400 rows of two curved classes; the other 1,200 rows are for testing.
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.linear_model import LogisticRegression

from vicinal.datasets import make_banana
from vicinal.local import LocalClassifier
from vicinal.partition import SpacePartitioningClassifier

X, y = make_banana(n_samples=1600, random_state=0)
X_train, y_train, X_test, y_test = X[:400], y[:400], X[400:], y[400:]

models = {
    "one linear model": LogisticRegression(),
    "a linear model around every point": LocalClassifier(random_state=0),
    "a few regions, a linear model in each": SpacePartitioningClassifier(
        "perceptron", n_regions=4, combine="best", random_state=0
    ),
}

# %%
# Each panel shows the predicted class of every point. The border of the local model follows the
# curve of the data. The border of the partition consists of a few straight pieces.
low, high = X.min(axis=0) - 0.5, X.max(axis=0) + 0.5
grid_x, grid_y = np.meshgrid(np.linspace(low[0], high[0], 120), np.linspace(low[1], high[1], 120))
grid = np.column_stack([grid_x.ravel(), grid_y.ravel()])
paper, ink = ListedColormap(["#dcecf2", "#fbe6d4"]), ListedColormap(["#1f6f8b", "#d9822b"])

figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), sharex=True, sharey=True)
for axis, (name, model) in zip(axes, models.items(), strict=True):
    model.fit(X_train, y_train)
    labels = (model.predict(grid) == model.classes_[1]).reshape(grid_x.shape)
    axis.pcolormesh(grid_x, grid_y, labels, cmap=paper, shading="auto")
    axis.contour(grid_x, grid_y, labels, levels=[0.5], colors="#333333", linewidths=1)
    axis.scatter(*X_train.T, c=y_train, cmap=ink, s=9, linewidths=0)
    axis.set_title(f"{name}\n{model.score(X_test, y_test):.1%} accuracy on new rows", fontsize=11)
    axis.set_xticks([])
    axis.set_yticks([])
figure.tight_layout()
plt.show()
