"""Scores to probabilities, weighted quantiles."""
