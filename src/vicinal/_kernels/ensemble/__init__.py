"""Losses, boosting steps, weights of models, pruning of trees."""
