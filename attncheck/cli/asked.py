"""What the options of a call ask of a run, for every command that runs cases."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import click

from attncheck.cli import baselines, configuration, expectations, options, overwriting, sharing
from attncheck.cli.invocation import KEPT, SHRINKING, Invocation, said
from attncheck.cli.reported import Wish
from attncheck.cli.session import Wanted
from attncheck.reports.table import Detail
from attncheck.vocabulary import Flag


def refuse_contradictions(ctx: click.Context, given: Mapping[str, Any]) -> None:
    """Raise click.UsageError for options that exclude each other."""
    if given["quiet"] and given["verbose"]:
        raise click.UsageError("-q and -v exclude each other", ctx)
    if given["journal"] and given["resume"]:
        raise click.UsageError("--journal begins a journal and --resume continues one: give one of them", ctx)
    refuse_idle_outputs(ctx, given)
    if not given["list"]:
        overwriting.refuse_in_call(ctx.obj, given)
    if said(ctx, "shard_times") and given["shard"] is None:
        raise click.UsageError("--shard-times balances the parts of --shard: give one, as in --shard 2/8", ctx)


def refuse_idle_outputs(ctx: click.Context, given: Mapping[str, Any]) -> None:
    """Raise click.UsageError for a file that the command line asks ``--list`` to write."""
    here = click.core.ParameterSource.COMMANDLINE
    for name in ("report", "journal", "resume", "plot"):
        if given["list"] and given.get(name) and ctx.get_parameter_source(name) is here:
            raise click.UsageError(f"--list runs nothing, so that --{name} has nothing to write: leave one out", ctx)


def wanted(
    ctx: click.Context, given: Mapping[str, Any], *program: str, elsewhere: Collection[str] = ()
) -> Wanted:
    """The options of BACKENDS, JUDGEMENT, GATES and DETAIL.

    program    the words of the command that runs one case; elsewhere: ids of cases that other shards run
    """
    detail = Detail.QUIET if given["quiet"] else Detail.VERBOSE if given["verbose"] else Detail.NORMAL
    return Wanted(
        backends=given["backend"] or (options.DEFAULT_CANDIDATE,),
        backends_said=said(ctx, "backend"),
        reference=None if given["reference"] == options.NO_REFERENCE else given["reference"],
        adapters=given["adapter"],
        tables=configuration.backends(ctx.obj),
        kernel=given["kernel"],
        # A configuration file only gives a default; what this call says overrules a scenario's own kernel.
        kernel_forced=said(ctx, "kernel"),
        threshold=given["threshold"],
        thresholds=given["thresholds"],
        shaders=given["shaders"],
        fail_fast=given["fail_fast"],
        sharpness=given["sharpness"],
        time_limit=given["time_limit"],
        backend_memory=given["backend_memory"],
        repeat=given["repeat"],
        expectations=expectations.wanted(ctx.obj, given),
        journal=given["journal"] or given["resume"],
        resume=given["resume"] is not None,
        exit_zero=given["exit_zero"],
        fail_on=frozenset(Flag(word) for word in given["fail_on"]),
        partial=sharing.part(given) is not None,
        comparison=baselines.comparison(given, elsewhere),
        detail=detail,
        reports=tuple(map(Wish.read, given["report"])),
        # Which backends is said for each case: those on which it fails.
        invocation=Invocation.of(ctx, *program, kept=KEPT - {"backend"}),
        shrinking=Invocation.of(ctx, "attncheck", "minimize", kept=SHRINKING),
        # What other commands run, relations and official tests, is nothing that `show` takes.
        showing=None if program else Invocation.of(ctx, "attncheck", "show", "--result", kept=KEPT - {"backend"}),
    )
