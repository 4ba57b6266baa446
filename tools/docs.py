"""Write the generated parts of docs/ anew; with --check only say which are stale (exit 1).

A generated part stands between `<!-- generated: NAME -->` and `<!-- end: NAME -->`; the rest is written by hand. A few
files are generated as a whole.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import get_args

from ruamel.yaml import YAML

from attncheck.cli.beginning import WORKFLOW, contents
from attncheck.cli.document import flag_table, help_text, meaning, status_table, verdict_table
from attncheck.cli.main import COMMANDS
from attncheck.relations.table import RELATIONS, related
from attncheck.reports import bench_json, json_report, ndjson
from attncheck.scenario import expectation_document
from attncheck.scenario.document import axes_table, keys_table, mistakes_table, schema_text, table
from attncheck.scenario.model import DataKind, Op
from attncheck.tensors.data import purpose
from attncheck.vocabulary import PRECEDENCE, Answer, ExitCode, Flag, Verdict

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tools import failures, modules, official  # noqa: E402  neighbours, which are no part of the package

DOCS = ROOT / "docs"


def exit_codes() -> str:
    """The table of exit codes, and the order in which they win where kinds mix."""
    rows = "\n".join(f"| {code.value} | {code.meaning} |" for code in ExitCode)
    order = ", ".join(str(code.value) for code in PRECEDENCE)
    header = "| code | meaning |\n| --- | --- |"
    return f"{header}\n{rows}\n\nWhere kinds mix, the first that applies of these is given: {order}."


def data_kinds() -> str:
    """The table of data kinds, with what each is there to expose."""
    rows = "\n".join(f"| `{kind}` | {purpose(kind)} |" for kind in get_args(DataKind))
    return f"| data | values, and the faults that they expose |\n| --- | --- |\n{rows}"


def relations() -> str:
    """The table of relations: what must hold, and what a kernel gets wrong where it does not."""
    rows = ((f"`{it.name}`", it.words, it.breaks) for it in RELATIONS.values())
    return table(("relation", "what must hold", "what breaks it"), rows)


def related_operators() -> str:
    """Which operators each relation says something of, in the shipped cases."""
    ops = get_args(Op)
    says: dict[str, set[str]] = {op: set() for op in ops}
    for case in failures.cases():
        open_still = [name for name in RELATIONS if name not in says[case.op]]
        says[case.op] |= {it.relation.name for it in related(case, open_still)} if open_still else set()
    rows = ((f"`{name}`", *("x" if name in says[op] else "" for op in ops)) for name in RELATIONS)
    return table(("relation", *ops), rows)


def answers() -> str:
    """The exit codes of `check --predicate`."""
    return table(("code", "meaning"), ((str(it.value), it.meaning) for it in Answer))


def action_inputs() -> str:
    """What the GitHub action is given."""
    inputs = YAML(typ="safe").load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"]
    defaults = {name: f"`{it['default']}`" if it["default"] else "" for name, it in inputs.items()}
    rows = ((f"`{name}`", it["description"], defaults[name]) for name, it in inputs.items())
    return table(("input", "what it is", "default"), rows)


def workflow() -> str:
    """The workflow that `attncheck init` writes."""
    return f"```yaml\n{contents()[WORKFLOW].rstrip()}\n```"


PARTS: dict[tuple[str, str], Callable[[], str]] = {
    ("exit-codes.md", "exit-codes"): exit_codes,
    ("expectations.md", "keys"): expectation_document.keys_table,
    **{("cli.md", command): partial(help_text, command) for command in COMMANDS},
    ("verdicts/README.md", "verdicts"): verdict_table,
    ("verdicts/README.md", "statuses"): status_table,
    ("verdicts/README.md", "flags"): flag_table,
    **{(f"verdicts/{verdict}.md", "meaning"): partial(meaning, verdict) for verdict in Verdict},
    **{("verdicts/flags.md", str(flag)): partial(meaning, flag) for flag in Flag},
    ("bundle.md", "answers"): answers,
    ("ci.md", "inputs"): action_inputs,
    ("ci.md", "workflow"): workflow,
    ("relations.md", "relations"): relations,
    ("relations.md", "operators"): related_operators,
    ("conformance.md", "backends"): official.table,
    ("modules.md", "modules"): modules.rooms,
    ("coverage.md", "kinds"): failures.kinds_table,
    ("coverage.md", "named"): failures.named_table,
    ("coverage.md", "seen"): failures.seen_table,
    ("scenarios.md", "axes"): axes_table,
    ("scenarios.md", "keys"): keys_table,
    ("scenarios.md", "data"): data_kinds,
    ("scenarios.md", "mistakes"): mistakes_table,
}
"""(page, name of the part) -> what writes it."""

WHOLE: dict[str, Callable[[], str]] = {
    "scenario.schema.json": schema_text,
    "expectations.schema.json": expectation_document.schema_text,
    "report.schema.json": json_report.schema_text,
    "report-line.schema.json": ndjson.schema_text,
    "bench.schema.json": bench_json.schema_text,
}
"""File that is generated from its first to its last line -> what writes it."""


def with_part(page: str, name: str, text: str) -> str:
    """The page with its part replaced. Raises ValueError when the page does not have the part exactly once."""
    begin, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
    replaced, count = re.subn(
        f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: f"{begin}\n{text}\n{end}", page, flags=re.DOTALL
    )
    if count != 1:
        raise ValueError(f"the part between {begin} and {end} is there {count} times, not once")
    return replaced


def fresh() -> Iterator[tuple[Path, str]]:
    """Every page or file that is generated, in whole or in part, and what it must hold."""
    for file_name, write in WHOLE.items():
        yield DOCS / file_name, write()
    for file_name in dict.fromkeys(page for page, _ in PARTS):
        text = (DOCS / file_name).read_text(encoding="utf-8")
        for name in (part for page, part in PARTS if page == file_name):
            text = with_part(text, name, PARTS[file_name, name]())
        yield DOCS / file_name, text


def main(arguments: list[str]) -> int:
    """Write, or check, everything that is generated."""
    stale = []
    for path, text in fresh():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(f"docs/{path.name}")
            if "--check" not in arguments:
                path.write_text(text, encoding="utf-8")
    for page in stale:
        print(f"{page}: " + ("stale, run `make docs`" if "--check" in arguments else "written"))
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
