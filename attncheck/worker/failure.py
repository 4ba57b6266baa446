"""How a runtime says that a request failed for a known reason."""

from __future__ import annotations


class Failure(Exception):
    """A request failed: `verdict` is one of attncheck's verdict words, `message` a sentence for the user.

    refused   whether the runtime looked at what it was asked and said no, rather than falling over it
    """

    def __init__(self, verdict: str, message: str, refused: bool = False) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = message
        self.refused = refused


def is_refusal(error: Exception) -> bool:
    """Whether what a Python runtime raised is its way of saying no: any other exception is a fault of its own."""
    return isinstance(error, (ValueError, NotImplementedError))
