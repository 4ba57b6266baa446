"""From what sizes on which kernel pays: rules as data, the shipped ones or a user's own."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from attncheck.kernels.draft import Limits
from attncheck.kernels.roster import ROSTER
from attncheck.problem import Problem

SHIPPED = Path(__file__).with_name("thresholds.toml")

Count = Annotated[int, Field(ge=0)]


class ThresholdsError(ValueError):
    """A file of thresholds cannot be read. The message names the file, what is wrong in it, and what is allowed."""


class Rule(BaseModel):
    """A kernel, and the problems for which it is the one to take; the fields are explained in thresholds.toml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kernel: Literal[tuple(ROSTER)]  # type: ignore[valid-type]
    least_keys: Count = 0
    least_rows: Count = 0
    most_rows: Count | None = None
    least_packed: Count = 0
    adapter: Literal["hardware", "software"] | None = None
    measured: Annotated[str, Field(min_length=1)]

    def holds(self, problem: Problem, limits: Limits) -> bool:
        """Whether the problem has the sizes, and the adapter is of the kind, that the rule is about."""
        keys, rows = max(problem.kv_len, default=0), problem.rows
        if self.adapter is not None and limits.software != (self.adapter == "software"):
            return False
        if keys < self.least_keys or problem.group * rows < self.least_packed:
            return False
        return self.least_rows <= rows and (self.most_rows is None or rows <= self.most_rows)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rule: tuple[Rule, ...]


@cache
def load(file: Path = SHIPPED) -> tuple[Rule, ...]:
    """The rules of a file, in its order. Raises ThresholdsError."""
    try:
        return _File.model_validate(tomllib.loads(file.read_text(encoding="utf-8"))).rule
    except OSError as error:
        raise ThresholdsError(f"{file}: cannot read the kernels' thresholds: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ThresholdsError(f"{file}: the kernels' thresholds are not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        raise ThresholdsError(f"{file}: not TOML: {error}") from error
    except ValidationError as error:
        raise ThresholdsError(f"{file}: {_told(error)}; `attncheck tune` writes such a file") from error


def _told(error: ValidationError) -> str:
    wrong = [f"{_place(each['loc'])}: {each['msg'][:1].lower()}{each['msg'][1:]}" for each in error.errors()]
    return "; ".join(wrong)


def _place(path: tuple[int | str, ...]) -> str:
    """``rule 2, kernel``, counted from 1."""
    if len(path) < 2:
        return ".".join(map(str, path))
    return ", ".join([f"{path[0]} {int(path[1]) + 1}", *map(str, path[2:])])
