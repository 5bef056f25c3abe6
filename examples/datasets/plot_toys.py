"""
Four toy problems
=================

Four small problems that one global linear model cannot solve, and the smallest error that any model
can reach. The gallery explains local methods on them.
"""

# %%
# Generate them
# -------------
# Every generator takes ``random_state`` and returns ``X, y``.
from functools import partial

from vicinal.datasets import make_banana, make_overlapping_blobs, make_xor

makers = {
    "make_xor": partial(make_xor, noise=0.25),
    "make_banana": make_banana,
    "make_overlapping_blobs, square": partial(make_overlapping_blobs, pattern="square"),
    "make_overlapping_blobs, row": partial(make_overlapping_blobs, pattern="row"),
}
toys = {name: make(1000, random_state=0) for name, make in makers.items()}

# %%
# The error of a linear model
# ---------------------------
# A linear model of the whole plane is close to guessing on two of the four and poor on the others.
# A vote of the 25 nearest neighbours, the simplest local model, is not. Errors are those on new
# samples.
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

errors = {}
for name, make in makers.items():
    test = make(20_000, random_state=1)
    models = LogisticRegression(), KNeighborsClassifier(25)
    errors[name] = [1 - model.fit(*toys[name]).score(*test) for model in models]
    print(f"{name:32s} linear {errors[name][0]:6.1%}   neighbours {errors[name][1]:6.1%}")

# %%
# Where the classes overlap
# -------------------------
# The true class probabilities of the blobs are known. The shade is the probability of the less
# likely class, darkest at one half.
import matplotlib.pyplot as plt
import numpy as np

colors = np.array(["#3b6fb6", "#d1603d"])
fig, axes = plt.subplots(1, 4, figsize=(13, 3.6), layout="constrained")
for ax, (name, (X, y)) in zip(axes, toys.items(), strict=True):
    ax.scatter(*X.T, c=colors[y], s=5, linewidths=0, zorder=2)
    linear, neighbours = errors[name]
    ax.set_title(f"{name}\nlinear {linear:.1%}, neighbours {neighbours:.1%}", fontsize=9)
    ax.set(xticks=[], yticks=[])

for ax, pattern in zip(axes[2:], ("square", "row"), strict=True):
    *_, mixture = make_overlapping_blobs(pattern=pattern, return_mixture=True)
    limits = ax.get_xlim(), ax.get_ylim()
    grid = np.meshgrid(*(np.linspace(low, high, 200) for low, high in limits))
    P = mixture.posterior(np.column_stack([side.ravel() for side in grid]))
    ax.contourf(*grid, P.min(axis=1).reshape(200, 200), levels=8, cmap="Greys", zorder=1)
    ax.set_xlabel(f"least possible error {mixture.bayes_error():.1%}", fontsize=9)
plt.show()
