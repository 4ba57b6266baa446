"""attncheck: a differential-testing harness for attention operators."""

__version__ = "0.1.0"
