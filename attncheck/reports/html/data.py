"""The run as the page's script reads it: the document without what is empty, as JSON that cannot end its element."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter

from attncheck.engine.journal import sayable
from attncheck.reports.document import Report
from attncheck.vocabulary import Flag, Status, Verdict

ESCAPED = {ord(it): f"\\u{ord(it):04x}" for it in "<>&\u2028\u2029"}
"""What HTML or a script could read as its own. It stands in strings only, where an escape says the same."""


def embedded(report: Report) -> str:
    """What stands in the page's data element."""
    found = TypeAdapter(Report).dump_python(report, mode="json", warnings=False)
    words = {str(it): it.meaning for kind in (Verdict, Status, Flag) for it in kind}
    data = {**_said(sayable(found)), "words": words}
    return json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False).translate(ESCAPED)


def _said(data: Any) -> Any:
    """Without keys whose value says nothing; the script takes a missing key for an empty one."""
    if isinstance(data, dict):
        return {key: _said(it) for key, it in data.items() if it or (it == 0 and it is not False)}
    return [_said(it) for it in data] if isinstance(data, list) else data
