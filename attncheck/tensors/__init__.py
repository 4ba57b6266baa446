"""Tensors: dtypes, the coordinate-addressed data generator, poison. Pure functions."""
