"""The oracle: float64 NumPy statements of each operator's published semantics. Pure functions of a Problem."""
