"""Reports: pure functions of the engine's events."""
