"""How a runtime says that a request failed for a known reason."""

from __future__ import annotations


class Failure(Exception):
    """A request failed: `verdict` is one of attncheck's verdict words, `message` a sentence for the user."""

    def __init__(self, verdict: str, message: str) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = message
