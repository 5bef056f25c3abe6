"""
How large should a tree be?
===========================

A tree grown to pure leaves remembers noise. :class:`~vicinal.ensemble.PrunedTreeClassifier` prunes
it link by link and lets cross-validation choose how far, with one fit per fold.
"""

# %%
# The path
# --------
# The error falls while real structure is added and rises again with noise. The smallest tree within
# one standard error of the best is chosen.

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.tree import plot_tree

from vicinal.ensemble import PrunedTreeClassifier
from vicinal.inspection import SelectionCurveDisplay

data = load_breast_cancer()
model = PrunedTreeClassifier(random_state=0).fit(data.data, data.target)

figure, (left, right) = plt.subplots(
    1, 2, figsize=(13, 4.6), width_ratios=(1, 1.9), layout="constrained"
)
SelectionCurveDisplay.from_estimator(model, ax=left)
left.set_title("the choice")
plot_tree(
    model.tree_,
    feature_names=data.feature_names,
    class_names=data.target_names,
    filled=True,
    impurity=False,
    ax=right,
    fontsize=6,
)
right.set_title("the tree")
plt.show()

# %%
# ``tree_`` is an ordinary scikit-learn tree, which can be plotted and exported.

print(f"{model.n_leaves_[0]} leaves grown, {model.get_n_leaves()} kept")
