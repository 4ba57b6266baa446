"""A scenario as the text of a file that holds it alone."""

from __future__ import annotations

import json

from attncheck.scenario import steps
from attncheck.scenario.command_line import assigned
from attncheck.scenario.complete import Value
from attncheck.scenario.model import Scenario


def file_text(case: Scenario, name: str, heading: str) -> str:
    """The file: `heading` on top, and one scenario called `name`, with the axes that were written and no matrix."""
    lines = [f"# {line}".rstrip() for line in heading.splitlines()]
    lines += ["scenarios:", f"  - name: {name}"]
    lines += [f"    about: {json.dumps(case.about, ensure_ascii=False)}"] if case.about else []
    lines += [f"    {axis}: {_yaml(axis, value)}" for axis, value in assigned(case).items()]
    if case.tolerance:
        bounds = {backend: {"max_abs": it.max_abs} for backend, it in case.tolerance.items()}
        lines.append(f"    tolerance: {json.dumps(bounds.get('*', bounds))}")
    return "\n".join(lines) + "\n"


def _yaml(axis: str, value: Value) -> str:
    if axis == "steps" and isinstance(value, tuple):
        return json.dumps(steps.parsed(steps.spelled(value)))
    return json.dumps(list(value) if isinstance(value, tuple) else value)
