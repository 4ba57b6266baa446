"""Comparison: outcome against answer, per element, within a derived tolerance. Pure functions."""
