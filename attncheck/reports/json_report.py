"""The report for programs: the document of a run as JSON, versioned; docs/report.schema.json says its form.

Numbers that JSON cannot say are the strings "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import json

from pydantic import TypeAdapter

from attncheck.engine.journal import sayable
from attncheck.reports.document import Report


def text(report: Report) -> str:
    """The document of a run; of what there is of it, where the run was ended early."""
    data = TypeAdapter(Report).dump_python(report, mode="json", warnings=False)
    told = json.dumps(sayable(data), indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    # The name of a file may hold half a pair, which UTF-8 cannot say; its code behind a backslash is JSON's own way.
    return told.encode(errors="backslashreplace").decode()


def schema_text() -> str:
    """The JSON Schema of the document, draft 2020-12."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "attncheck report"}
    # Serialised is what a reader meets.
    schema = TypeAdapter(Report).json_schema(mode="serialization")
    return json.dumps({**head, **schema, **head}, indent=2, ensure_ascii=False) + "\n"
