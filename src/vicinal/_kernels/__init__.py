"""The mathematics: plain functions on arrays, without estimators, printing or hidden randomness."""
