"""Truncated RBF maps, kernel clusters, dual support vector machines."""
