"""
What a decomposition does to the scatter matrix
===============================================

Local models on subspaces ignore what happens between subspaces. A decomposition should therefore
leave little there: the pictures show the correlations of the wine data before and after four of
them, with the borders of the blocks.
"""

# %%
# Three blocks of the thirteen columns, drawn once. The block Cholesky map takes from each block
# what the blocks before it can tell, the approximate map mixes whole blocks until they are
# orthogonal on average, and principal components have no correlation left at all.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import scale

from vicinal.subspace import FeatureSpaceDecomposition

X, y = load_wine(return_X_y=True)
X = scale(X)
titles = {
    "random": "random: the columns as they are",
    "approximate": "approximate: blocks orthogonal on average",
    "cholesky": "block Cholesky: nothing between blocks",
    "principal": "principal: nothing anywhere",
}

fig, axes = plt.subplots(2, 2, figsize=(8.4, 8), layout="constrained")
for ax, (method, title) in zip(axes.flat, titles.items(), strict=True):
    parts = FeatureSpaceDecomposition(
        method, subspace_size=None, n_blocks=3, n_repeats=1, random_state=3
    ).fit(X)
    blocks = [parts.transform_subspace(X, i) for i in range(parts.n_subspaces_)]
    blocks = [block[:, block.std(axis=0) > 1e-9] for block in blocks]
    correlation = np.corrcoef(np.hstack(blocks).T)
    image = ax.imshow(correlation, cmap="RdBu_r", vmin=-1, vmax=1)
    for border in np.cumsum([block.shape[1] for block in blocks])[:-1] - 0.5:
        ax.axhline(border, color="black", linewidth=1)
        ax.axvline(border, color="black", linewidth=1)
    ax.set(title=title, xticks=[], yticks=[])
fig.colorbar(image, ax=axes, shrink=0.6, label="correlation")
plt.show()

# %%
# Which one serves best is decided by the fusion, not by the picture: blocks that disagree in their
# errors can be worth more than blocks that are each good.
