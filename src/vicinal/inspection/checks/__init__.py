"""What in a table would mislead a model, or the one who judges it."""
