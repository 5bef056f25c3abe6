"""Cross-validated comparison of models, within a time budget."""
