"""Relations: what must hold between two computations of a backend, whatever the right numbers are. Pure functions."""
