"""
A learned kernel around one query
=================================

A local model weighs training rows around a query. Here three of them weigh the same 400 rows. The
class depends on the first column through stripes; the second column and three further ones are
irrelevant.

- A **tricube kernel** weighs by distance in all columns and knows nothing of the classes.
- A **forest** weighs by how often a row shares a leaf with the query.
- The **pretrained network** computes the weights from the whole training table. It was trained on
  simulated tables only, and ``fit`` trains nothing.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import log_loss

from vicinal.local import LocalClassifier
from vicinal.pretrained import PretrainedNeighborsClassifier

rng = np.random.RandomState(0)
X = rng.uniform(-1, 1, size=(1400, 5))
flipped = rng.uniform(size=len(X)) < 0.05
y = (np.sin(7 * X[:, 0]) > 0) ^ flipped
train, test = np.arange(400), np.arange(400, 1400)

local = LocalClassifier(n_neighbors=80, alpha=1.0).fit(X[train], y[train])
forest = ExtraTreesClassifier(300, min_samples_leaf=3, random_state=0).fit(X[train], y[train])
learned = PretrainedNeighborsClassifier(random_state=0).fit(X[train], y[train])
for name, model in (("tricube", local), ("forest", forest), ("pretrained", learned)):
    proba = model.predict_proba(X[test])
    wrong = np.mean(model.predict(X[test]) != y[test])
    print(f"{name}: log loss {log_loss(y[test], proba):.3f}, {wrong:.1%} errors")

# %%
# The weights of the training rows for one query. The tricube kernel is round and includes rows of
# both classes from several stripes. The forest follows the stripe, with a wide fringe. The network
# found that one column matters: its weight lies along the whole stripe of the query.
query = np.array([[0.25, 0.1, 0.0, 0.0, 0.0]])
leaves = forest.apply(X[train]) == forest.apply(query)
kernels = {
    "tricube kernel": local.neighbors(query).toarray()[0],
    "forest": (leaves / leaves.sum(axis=0)).mean(axis=1),
    "pretrained network": learned.neighbors(query).toarray()[0],
}
figure, axes = plt.subplots(1, 3, figsize=(11, 4), sharey=True, layout="constrained")
for axis, (name, weights) in zip(axes, kernels.items(), strict=True):
    share = weights / weights.sum()
    for label, colour in ((False, "tab:orange"), (True, "tab:blue")):
        rows = y[train] == label
        axis.scatter(*X[train][rows, :2].T, s=4, color=colour, alpha=0.4, linewidths=0)
        axis.scatter(
            *X[train][rows, :2].T, s=4000 * share[rows], color=colour, alpha=0.6,
            edgecolors="black", linewidths=0.4 * (share[rows] > 2e-4), label=f"class {int(label)}",
        )  # fmt: skip
    axis.scatter(*query[0, :2], marker="*", s=220, color="white", edgecolors="black", zorder=3)
    same = share[y[train] == (np.sin(7 * query[0, 0]) > 0)].sum()
    axis.set(title=f"{name}\n{same:.0%} of the weight on the right class", xlabel="column 0")
axes[0].set_ylabel("column 1 (irrelevant)")
handles = [Line2D([], [], marker="o", ls="", color=c) for c in ("tab:orange", "tab:blue")]
figure.legend(handles, ["class 0", "class 1"], loc="outside lower center", ncols=2)
plt.show()
