"""Backends: one file each, saying what it needs, what it declares unsupported, and what proves that it ran."""
