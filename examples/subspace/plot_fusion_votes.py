"""
Local models that disagree, fused
=================================

Each subspace of the digits contains a part of the strokes. The local classifiers have many errors,
but different ones; the fusion learns their weights from held-out scores.
"""

# %%
# The classes are even and odd digits. The points are errors of single subspaces on
# held-out rows, the line is their fusion.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from vicinal.subspace import SubspaceFusionClassifier

X, digit = load_digits(return_X_y=True)
y = np.where(digit % 2, "odd", "even")
X_train, X_test, y_train, y_test = train_test_split(X / 16.0, y, random_state=0)
model = SubspaceFusionClassifier(
    ["random", "principal", "cholesky"],
    n_subspaces=3,
    n_blocks=3,
    subspace_size=0.25,
    cv=3,
    include_full=False,
    random_state=0,
).fit(X_train, y_train)

votes = model.predict_subspaces(X_test)
figure, ax = plt.subplots(layout="constrained")
ax.scatter((votes != y_test[:, None]).mean(axis=0), model.subspace_names_)
ax.axvline(1 - model.score(X_test, y_test), color="C3", linestyle="--", label="fused")
ax.set(xlabel="error rate", xlim=(0, None))
ax.legend()
plt.show()

# %%
# The votes on one row on which the subspaces are divided.
row = abs((votes == "odd").mean(axis=1) - 0.5).argmin()
for name, vote in zip(model.subspace_names_, votes[row], strict=True):
    print(f"{name:12s} {vote}")
print(f"{'fused':12s} {model.predict(X_test)[row]}, the truth is {y_test[row]}")
