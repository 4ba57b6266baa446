"""The head of a journal: which search it is of, and in words how another search differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

FORMAT = 3


@dataclass(frozen=True)
class Head:
    """What a search begins from, and whatever decides what a case comes to. All of it is JSON.

    start     the case, as text
    backend   its name
    place     letters for the runtime, interpreter, packages and options that it runs with
    files     letters for what is in each file that it is made of, by name
    versions  of attncheck and of what runs, by name; the adapter, where there is one
    settings  options of the call, by parameter name
    """

    start: str
    backend: str
    place: str = ""
    files: Mapping[str, str] | None = None
    versions: Mapping[str, str] | None = None
    settings: Mapping[str, Any] | None = None

    @property
    def document(self) -> dict[str, Any]:
        """As the journal holds it."""
        return {"minimize": FORMAT, **asdict(self)}

    def differences(self, was: Mapping[str, Any]) -> list[str]:
        """How the search whose head is `was` differs from this one, a clause each; empty where it is the same."""
        if was.get("minimize") != FORMAT:
            return [f"its journal is in format {was.get('minimize')}, and this attncheck reads {FORMAT}"]
        if was["backend"] != self.backend:  # then all else that belongs to the backend differs too
            return [f"it ran on {was['backend']}, and this call names {self.backend}", *self._of_the_case(was)]
        return [
            *self._of_the_case(was),
            *_edited(was["files"] or {}, self.files or {}),
            *([f"{self.backend} runs with another interpreter, packages or options"] * (was["place"] != self.place)),
            *(f"{name} was {one}, is {other}" for name, one, other in _changed(was["versions"], self.versions)),
            *(
                f"--{name.replace('_', '-')} was {_said(one)}, is {_said(other)}"
                for name, one, other in _changed(was["settings"], self.settings)
            ),
        ]

    def _of_the_case(self, was: Mapping[str, Any]) -> list[str]:
        return [f"it began from {was['start']}"] * (was["start"] != self.start)


def _edited(was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    names = {
        "edited": [name for name in now if name in was and was[name] != now[name]],
        "added": [name for name in now if name not in was],
        "removed": [name for name in was if name not in now],
    }
    for what, files in names.items():
        if files:
            yield f"{', '.join(files)} {'has' if len(files) == 1 else 'have'} been {what} since"


def _changed(was: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> Iterator[tuple[str, Any, Any]]:
    before, after = was or {}, now or {}
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield name, before.get(name), after.get(name)


def _said(value: Any) -> str:
    return "not given" if value is None or value is False else "given" if value is True else str(value)
