"""The search: from a failing case to one of which no neighbour fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from attncheck.minimize.candidate import Candidate
from attncheck.minimize.certificate import Neighbour, certificate, neighbours
from attncheck.minimize.ledger import Ledger, Runs, Spent
from attncheck.minimize.order import key, simpler
from attncheck.minimize.passes import SHAPES, VALUES, Pass
from attncheck.minimize.seen import Seen, wavers
from attncheck.minimize.signature import Signature, same
from attncheck.vocabulary import Verdict

_NEIGHBOURS = Pass("neighbours", lambda case: (it.case for it in neighbours(case)))
_STAGES = (SHAPES, VALUES, (_NEIGHBOURS,))
"""The neighbours last, so that a search that ends has asked every one: then the certificate holds."""


FEW = 3
"""Runs in which a case that seldom fails may well never do."""


class DoesNotFail(Exception):
    """The start does not fail, or not often enough. The message tells what its runs came to."""


@dataclass(frozen=True)
class Minimum:
    """What a search gave: a later step (a bundle, an issue) needs no more than this.

    case        the smallest case found
    start       where the search began; failure: how both fail
    runs        how often a candidate was run; confirmed: how many of the last runs of `case` failed in the same way
    neighbours  every case one step simpler, with what it came to; empty where the budget was spent before
    certified   whether `case` failed as often as asked, and none of the neighbours failed in the same way
    others      other failures that were met, each with its smallest case: not followed
    """

    case: Candidate
    start: Candidate
    failure: Signature
    runs: Runs
    confirmed: int
    neighbours: tuple[Neighbour, ...]
    certified: bool
    others: tuple[tuple[Signature, Candidate], ...]
    evaluations: int
    seconds: float


@dataclass(frozen=True)
class Progress:
    """Told whenever a smaller case is found."""

    case: Candidate
    by: str


def minimize(
    start: Candidate, ledger: Ledger, runs: Runs, told: Callable[[Progress], None], warn: Callable[[str], None]
) -> Minimum:
    """Shrink `start` by every pass up to a common fixpoint. Raises DoesNotFail.

    Start, end and neighbours are run each in a process that runs no other case; what lies between, by warm workers. So
    the search may have to go on in another way:

    - the start's numbers are others in a worker that has run something else: only that they are wrong is followed;
    - the end does not fail by itself, or a neighbour does: every case is run by itself from now on;
    - the end fails less often than asked, though the start does: it was luck, and every case is run so often.

    runs   how often the start and the end are run, and how many of these must fail
    told   hears of every smaller case, first of the start itself; warn: of what does not always fail
    """
    # Whatever the budget: without these nothing is known.
    by_itself = ledger.alone(start, runs.of, afford=False)
    failure, ledger.runs = _confirmed(by_itself, runs, warn)
    told(Progress(start, "start"))
    begin = start
    while True:
        found = _searched(begin, ledger, failure, _Confirming(start, by_itself, runs), told)
        if found.around is None:
            break
        needed = ledger.runs.needed if ledger.runs.of > 1 else runs.needed
        failing = next((it.case for it in found.around if it.same), None)
        if found.wavers:
            failure, begin = failure.loosened, found.case
            warn("not steady: its wrong numbers are others from run to run, so any wrong numbers are followed")
        elif found.confirmed >= needed and failing is None:
            break
        elif not ledger.isolated and (not found.confirmed or ledger.runs.of > 1 or failing is not None):
            ledger.isolated, begin = True, failing or found.firm
            warn(f"shrunk to a case {_by_itself(found, failing, runs)}, each in a process of its own")
            told(Progress(begin, "by itself"))
        elif ledger.runs.of == 1:
            ledger.runs, begin = runs, start
            how_often = f"{found.confirmed} of {runs.of} runs"
            warn(f"shrunk to a case that fails in {how_often} only: again, {_every(runs)}")
        else:
            break
    enough = found.confirmed >= (ledger.runs.needed if ledger.runs.of > 1 else runs.needed)
    others = _each_once((seen, smallest) for seen, smallest in ledger.others.items() if not same(failure, seen))
    return Minimum(
        case=found.case,
        start=start,
        failure=failure,
        runs=ledger.runs,
        confirmed=found.confirmed,
        neighbours=found.around or (),
        certified=found.around is not None and enough and not any(it.same for it in found.around),
        others=others,
        evaluations=ledger.evaluations,
        seconds=ledger.seconds,
    )


@dataclass(frozen=True)
class _Confirming:
    """The start, what it came to by itself, and how often the end is run."""

    start: Candidate
    by_itself: Sequence[Seen]
    runs: Runs


@dataclass(frozen=True)
class _Found:
    """Where a search has come: `around` is None where the budget was spent before.

    firm    the smallest case on the way that is known to fail by itself
    wavers  whether the start's numbers are others from run to run
    """

    case: Candidate
    firm: Candidate
    confirmed: int = 0
    around: tuple[Neighbour, ...] | None = None
    wavers: bool = False


def _searched(
    begin: Candidate, ledger: Ledger, failure: Signature, by: _Confirming, told: Callable[[Progress], None]
) -> _Found:
    """Down to a case of which no neighbour fails, as far as the budget goes."""
    way = [begin]
    try:
        # What the search asks first anyway: then the workers have run something else than the start.
        ledger.first(_simpler(SHAPES[0], begin), failure)
        if _unsteady(ledger, failure, by, 2):
            return _Found(begin, begin, around=(), wavers=True)
        for case, name in _descent(begin, ledger, failure):
            way.append(case)
            told(Progress(case, name))
        if _unsteady(ledger, failure, by, 4):
            return _Found(way[-1], begin, around=(), wavers=True)
        with ledger.isolating():
            last = ledger.seen(way[-1], by.runs.of)
            confirmed = sum(it.failure is not None and same(failure, it.failure) for it in last)
            if not confirmed:
                return _Found(way[-1], _firm(way, ledger, failure), around=())
            around = certificate(list(neighbours(way[-1])), ledger, failure)
    except Spent:
        return _Found(way[-1], begin)
    return _Found(way[-1], begin, confirmed, around)


def _unsteady(ledger: Ledger, failure: Signature, by: _Confirming, times: int) -> bool:
    """Whether warm workers, whose memory is no longer new, get other wrong numbers of the start. Raises Spent."""
    if ledger.isolated or failure.loose or not failure.outputs:
        return False
    return wavers([*by.by_itself, *ledger.seen(by.start, times)])


def _firm(way: Sequence[Candidate], ledger: Ledger, failure: Signature) -> Candidate:
    """A case on the way that fails by itself while the next does not: the first does, the last does not."""
    fails, passes = 0, len(way) - 1
    while passes - fails > 1:
        middle = (fails + passes) // 2
        if ledger.fails(way[middle], failure):
            fails = middle
        else:
            passes = middle
    return way[fails]


def _by_itself(found: _Found, failing: Candidate | None, runs: Runs) -> str:
    """What the end came to in a process that ran nothing else, and from where the search goes on."""
    if not found.confirmed:
        why = "does not fail in a process of its own, without what other cases leave behind"
        return f"that {why}: on from the last that does"
    if failing is not None:
        return "of which a simpler one fails too, in a process of its own: on from that one"
    return f"that fails in {found.confirmed} of {runs.of} runs of a process of its own: again from where it began"


def _every(runs: Runs) -> str:
    """How often each case is run from now on."""
    return f"every case run up to {runs.of} times, and counting as failing where {runs.needed} of these fail"


def _each_once(met: Iterable[tuple[Signature, Candidate]]) -> tuple[tuple[Signature, Candidate], ...]:
    """Failures that were met, each with the smallest of the cases that show it."""
    found: list[tuple[Signature, Candidate]] = []
    for seen, case in sorted(met, key=lambda it: key(it[1])):
        if not any(same(seen, other) or same(other, seen) for other, _ in found):
            found.append((seen, case))
    return tuple(found)


def _confirmed(seen: list[Seen], runs: Runs, warn: Callable[[str], None]) -> tuple[Signature, Runs]:
    """How the start fails, and how often a candidate is to be run: once, unless the start does not always fail."""
    failures = [it.failure for it in seen if it.failure is not None]
    if not failures:
        came = ", ".join(dict.fromkeys(it.words for it in seen))
        seldom = any(it.verdict == Verdict.PASS for it in seen) and runs.of <= FEW
        hint = "; where it fails in some runs only, --runs 1/20 looks for one" if seldom else ""
        raise DoesNotFail(f"it does not fail: {came}{hint}")
    first = failures[0].loosened if wavers(seen) else failures[0]
    hits = sum(same(first, it) for it in failures)
    if hits == runs.of:
        return first, Runs()
    needed = min(hits, runs.needed)
    warn(f"flaky: it fails in {hits} of {runs.of} runs; {_every(Runs(needed, runs.of))}")
    return first, Runs(needed, runs.of)


def _descent(start: Candidate, ledger: Ledger, failure: Signature) -> Iterator[tuple[Candidate, str]]:
    """Ever simpler cases that fail in the same way, until no pass finds another."""
    case, stage = start, 0
    while stage < len(_STAGES):
        moved = False
        for each in _STAGES[stage]:
            while (found := ledger.first(_simpler(each, case), failure)) is not None:
                case, moved = found, True
                yield case, each.name
                if stage == len(_STAGES) - 1:
                    break
        # Whatever moved, the shapes come first again: a plainer setting may let a size go.
        stage = 0 if moved else stage + 1


def _simpler(each: Pass, case: Candidate) -> Iterator[Candidate]:
    """What a pass proposes, where it is possible, new and simpler."""
    told: set[Candidate] = set()
    for found in each.propose(case):
        if found is not None and found not in told and simpler(found, case):
            told.add(found)
            yield found
