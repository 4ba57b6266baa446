"""A driver: how fast the backends compute cases that they compute right."""
