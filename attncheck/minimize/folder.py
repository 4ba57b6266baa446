"""The folder of a minimum: the case as a scenario file, its model and arrays, and the certificate."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from attncheck import __version__
from attncheck.engine import sessions
from attncheck.engine.files import write_whole
from attncheck.graph.session import session
from attncheck.minimize.candidate import Candidate, of_text, start
from attncheck.minimize.certificate import Step
from attncheck.minimize.search import Minimum
from attncheck.minimize.signature import Signature
from attncheck.scenario import from_command_line
from attncheck.scenario.written import file_text

FORMAT = 1
CASE, MODEL, INPUTS, EXPECTED, CERTIFICATE = "case.yaml", "model.onnx", "inputs.npz", "expected.npz", "minimal.json"
JOURNAL, LOCK = "journal.ndjson", "journal.lock"


class Unusable(Exception):
    """A folder holds no certificate that can be read. The message says why."""


@dataclass(frozen=True)
class Certificate:
    """What `minimal.json` holds, as far as running it again needs it.

    settings    options of the call, by parameter name
    neighbours  those that are listed
    """

    backend: str
    settings: Mapping[str, Any]
    runs: tuple[int, int]
    failure: Signature
    case: Candidate
    neighbours: tuple[Step, ...]


def keep_case(folder: Path, case: Candidate, said: str) -> None:
    """Write the case as a scenario file. Raises OSError."""
    write_whole(folder / CASE, case_text(case, said).encode())


def case_text(case: Candidate, said: str) -> str:
    """The scenario file of a case; `said` stands on top and in `about`."""
    return file_text(replace(case.scenario, about=said), "minimal", said)


def keep(folder: Path, minimum: Minimum, backend: str, settings: Mapping[str, Any], said: str) -> tuple[str, ...]:
    """Write everything of a minimum and give the names of the files. Raises OSError."""
    keep_case(folder, minimum.case, said)
    names = [CASE]
    every = list(sessions.steps(session(minimum.case.scenario)))
    for number, step in enumerate(every, 1):
        expected = {it.output: np.where(it.stated, it.values, np.nan) for it in step.answers}
        files = {MODEL: step.case.model, INPUTS: _npz(step.case.inputs), EXPECTED: _npz(expected)}
        for name, content in files.items():
            names.append(name if number == len(every) else name.replace(".", f"-{number}."))
            write_whole(folder / names[-1], content)
    text = json.dumps(_document(minimum, backend, settings), indent=1, ensure_ascii=False) + "\n"
    write_whole(folder / CERTIFICATE, text.encode())
    return (*names, CERTIFICATE)


def _npz(arrays: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **dict(arrays))
    return file.getvalue()


def _document(it: Minimum, backend: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "minimal": FORMAT,
        "attncheck": __version__,
        "one_minimal": it.certified,
        "backend": backend,
        "settings": dict(settings),
        "start": {"id": it.start.like.id, "case": it.start.text},
        "case": it.case.text,
        "failure": asdict(it.failure),
        "runs": {"needed": it.runs.needed, "of": it.runs.of, "confirmed": it.confirmed},
        "neighbours": [
            {
                "change": each.change,
                "case": each.case.text,
                "verdict": each.verdict,
                "same": each.same,
                **({"said": each.said} if each.said else {}),
            }
            for each in it.neighbours
        ],
        "also_found": [{"failure": asdict(seen), "case": case.text} for seen, case in it.others],
        "evaluations": it.evaluations,
        "seconds": round(it.seconds, 3),
    }


def certificate(folder: Path) -> Certificate:
    """Read a certificate. Raises Unusable."""
    path = folder / CERTIFICATE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["minimal"] != FORMAT:
            raise Unusable(f"{path} is in format {data['minimal']}, and this attncheck reads {FORMAT}")
        like = from_command_line(data["case"])
        return Certificate(
            backend=data["backend"],
            settings=data["settings"],
            runs=(data["runs"]["needed"], data["runs"]["of"]),
            failure=Signature.read(data["failure"]),
            case=start(like),
            neighbours=tuple(Step(it["change"], of_text(it["case"], like)) for it in data["neighbours"]),
        )
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise Unusable(f"{path} is no certificate of minimize: {error}") from error
