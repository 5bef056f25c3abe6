"""Points of a decision surface: roots, projections, nearest points."""
