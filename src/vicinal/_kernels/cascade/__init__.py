"""Regions and their models learned together: hard, soft and surrogate cascades."""
