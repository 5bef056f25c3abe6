"""Exact nearest neighbours on the host and on devices."""
