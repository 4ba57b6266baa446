"""Deliberately wrong kernels in float64: one catalogue of what known bugs compute, for sharpness and diagnosis."""
