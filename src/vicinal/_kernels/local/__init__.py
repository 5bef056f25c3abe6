"""One small model around every query: weights, solvers, slopes, equivalent kernels."""
