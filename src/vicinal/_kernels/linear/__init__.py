"""Linear models and maps: objectives, solvers, scatter matrices."""
