"""Benchmark sets with their published splits, and generators of the papers' toys."""

from vicinal.datasets._generators import make_banana, make_overlapping_blobs, make_xor
from vicinal.datasets._labeled_mixture import LabeledMixture
from vicinal.datasets._readers import dataset_info, list_datasets, load_dataset

__all__ = [
    "LabeledMixture",
    "dataset_info",
    "list_datasets",
    "load_dataset",
    "make_banana",
    "make_overlapping_blobs",
    "make_xor",
]
