"""Why a fitted model predicts what it predicts for one row."""
