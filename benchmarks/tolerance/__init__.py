"""The measurement behind docs/tolerance.md: drawn cases on real backends, and against every relevant wrong kernel."""
