"""The engine: evaluates cases on backends and yields typed events."""
