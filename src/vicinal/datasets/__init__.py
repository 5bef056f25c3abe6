"""Generators of the toy problems of the papers."""

from vicinal.datasets._generators import make_banana, make_overlapping_blobs, make_xor

__all__ = ["make_banana", "make_overlapping_blobs", "make_xor"]
