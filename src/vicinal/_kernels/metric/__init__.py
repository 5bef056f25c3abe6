"""Soft neighbourhoods in learned metrics, mixtures, maps of uncertainty."""
