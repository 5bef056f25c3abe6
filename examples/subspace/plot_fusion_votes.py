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
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from vicinal.inspection import SubspaceErrorDisplay, SubspaceVotesDisplay
from vicinal.subspace import SubspaceFusionClassifier

X, digit = load_digits(return_X_y=True)
y = ["odd" if value % 2 else "even" for value in digit]
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

SubspaceErrorDisplay.from_estimator(model, X_test, y_test)
plt.show()

# %%
# The votes on one row on which the subspaces are divided.
votes = model.predict_subspaces(X_test)
divided = abs((votes == "odd").mean(axis=1) - 0.5).argmin()
display = SubspaceVotesDisplay.from_estimator(model, X_test[divided : divided + 1])
display.ax_.set_title(f"the truth is {y_test[divided]!r}")
plt.show()
