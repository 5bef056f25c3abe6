"""
Neighbours in learned coordinates
=================================

Two of eight columns make a chessboard of classes, and six are noise. Over all columns the nearest
row is of the wrong class one time in three. A neural network is trained so that near rows have
the same class. In its coordinates rows of the same field are close together, and every prediction
can list its neighbours.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsClassifier

from vicinal.metric import NeuralNeighborsClassifier

rng = np.random.RandomState(0)
X = rng.uniform(size=(2000, 8))
y = (np.floor(3 * X[:, :2]).sum(axis=1) % 2).astype(int)
train, test = np.arange(1500), np.arange(1500, 2000)
model = NeuralNeighborsClassifier(n_estimators=1, random_state=0).fit(X[train], y[train])

# %%
# Errors of one nearest neighbour, in the columns and in the learned coordinates, and of the model.
spaces = {"columns": X, "learned coordinates": model.transform(X)}
for name, Z in spaces.items():
    score = KNeighborsClassifier(1).fit(Z[train], y[train]).score(Z[test], y[test])
    print(f"nearest neighbour in the {name}: error {1 - score:.1%}")
print(f"NeuralNeighborsClassifier: error {1 - model.score(X[test], y[test]):.1%}")

# %%
# How far is the nearest training row of the same class, how far that of the other? Beyond a ratio
# of 1 the nearest neighbour is wrong. On the right, one test row, the star, and the training rows
# with the most weight: they are close in the two columns that matter, wherever they are in the
# other six.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
same = y[test][:, None] == y[train]
for (name, Z), style in zip(spaces.items(), ("--", "-"), strict=True):
    apart = pairwise_distances(Z[test], Z[train])
    own, other = (np.where(mask, apart, np.inf).min(axis=1) for mask in (same, ~same))
    left.hist(own / other, np.linspace(0, 2, 41), histtype="step", lw=2, ls=style, label=name)
left.axvline(1.0, color="black", linestyle=":")
left.set(xlabel="distance to the own class / to the other", ylabel="test rows")
left.legend()

row = test[5]
voters = model.neighbors(X[[row]], n_neighbors=30)
for label, colour in ((0, "0.75"), (1, "tab:blue")):
    right.scatter(*X[train][y[train] == label, :2].T, color=colour, s=6, label=f"class {label}")
right.scatter(
    *X[voters.indices, :2].T, s=2000 * voters.data, fc="none", ec="black", label="neighbours"
)
right.scatter(*X[row, :2], marker="*", s=250, color="tab:orange", edgecolors="black")
right.set(xlabel="first column", ylabel="second column", title=f"a row of class {y[row]}")
right.legend(loc="upper right")
plt.show()
