"""Nearest-neighbour search: exact, approximate, and on the device of the data."""

from vicinal.neighbors._neighbor_search import NeighborSearch

__all__ = ["NeighborSearch"]
