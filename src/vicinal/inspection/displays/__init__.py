"""Plots of fitted models, in the style of the Displays of scikit-learn."""
