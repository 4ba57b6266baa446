"""The host side of shaders/: which kernel (policy), and what a GPU must do for a Problem (plan)."""
