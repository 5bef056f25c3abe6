"""
What a decomposition does to the scatter matrix
===============================================

Local models on subspaces ignore correlations between subspaces, so a decomposition should reduce
them. The plots show the correlations of the wine data before and after four decompositions, with
the borders of the blocks.
"""

# %%
# Three random blocks of the thirteen columns. The block Cholesky transform removes from each block
# its linear dependence on the previous blocks, the approximate transform combines blocks so that
# they are orthogonal on average, and principal components are uncorrelated.
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
    ax.imshow(correlation, cmap="RdBu_r", vmin=-1, vmax=1)
    for border in np.cumsum([block.shape[1] for block in blocks])[:-1] - 0.5:
        ax.axhline(border, color="black", linewidth=1)
        ax.axvline(border, color="black", linewidth=1)
    ax.set(title=title, xticks=[], yticks=[])
fig.colorbar(axes[0, 0].images[0], ax=axes, shrink=0.6, label="correlation")
plt.show()

# %%
# The fusion decides which one is best: blocks with different errors can give a better fusion than
# blocks that are each accurate.
