"""Generators of the toy problems of the papers."""

from vicinal.datasets._generators import (
    LabeledMixture,
    make_banana,
    make_overlapping_blobs,
    make_xor,
)

__all__ = ["LabeledMixture", "make_banana", "make_overlapping_blobs", "make_xor"]
