"""
Digits before and after
=======================

A net is trained so that the labels of near rows predict. Here are the digits on the first two
principal axes of their pixels, and on those of the learned coordinates; the test rows, which the
net never saw, fall among their own kind.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from vicinal.metric import NeuralNeighborsClassifier

X, y = load_digits(return_X_y=True)
train, test = np.arange(900), np.arange(900, len(y))
model = NeuralNeighborsClassifier(n_estimators=1, n_components=32, random_state=0)
model.fit(X[train], y[train])

# %%
# One nearest neighbour, in the pixels and in the map; and the vote of the net itself.
for name, Z in {"pixels": X, "map": model.transform(X)}.items():
    score = KNeighborsClassifier(1).fit(Z[train], y[train]).score(Z[test], y[test])
    print(f"nearest neighbour in the {name}: {1 - score:.1%} wrong")
print(f"vote of all rows in the map: {1 - model.score(X[test], y[test]):.1%} wrong")

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 4.5))
for ax, (name, Z) in zip(axes, {"pixels": X, "map": model.transform(X)}.items(), strict=True):
    plane = PCA(2).fit(Z[train]).transform(Z[test])
    ax.scatter(*plane.T, c=y[test], cmap="tab10", s=8)
    ax.set(title=f"test rows, {name}", xticks=[], yticks=[])
figure.tight_layout()

# %%
# Every answer names its voters. The most doubtful test row, and the training rows that spoke:
doubtful = test[model.predict_proba(X[test]).max(axis=1).argmin()]
voters = model.neighbors(X[[doubtful]], n_neighbors=5)
figure, axes = plt.subplots(1, 6, figsize=(10, 2.2))
shown = [(doubtful, f"a {y[doubtful]}?")]
shown += [(row, f"{y[row]}: {voters[0, row]:.0%}") for row in voters.indices]
for ax, (row, title) in zip(axes, shown, strict=True):
    ax.imshow(X[row].reshape(8, 8), cmap="gray_r")
    ax.set(title=title, xticks=[], yticks=[])
figure.tight_layout()
plt.show()
