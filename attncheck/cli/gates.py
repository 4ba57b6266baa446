"""Options by which CI parts a run among machines, and holds it against an earlier one. Light, as options.py is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from attncheck.cli.options import Place, together

if TYPE_CHECKING:
    _Text = click.ParamType[str]
else:  # click before 8.3 has no type arguments here
    _Text = click.ParamType


class Part(_Text):
    """One of several parts, ``2/8``."""

    name = "part"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check that it names a part; what reads it is `engine.shards.Shard`."""
        from attncheck.engine.shards import Shard

        try:
            return str(Shard.read(str(value)))
        except ValueError:
            self.fail(f"{value!r} names no part: write K/N with K from 1 to N, as in 2/8", param, ctx)


BASELINE = click.option(
    "--baseline",
    type=Place(exists=True, dir_okay=False, path_type=str),
    metavar="FILE",
    help="Fail only on what is new or worse than in this JSON report or journal; tell what got better or is gone.",
)

SHARDING = together(
    click.option(
        "--shard",
        type=Part(),
        metavar="K/N",
        help="Run only part K of N of the selected cases; each case is in exactly one part.",
    ),
    click.option(
        "--shard-times",
        multiple=True,
        type=Place(exists=True, dir_okay=False, path_type=str),
        metavar="FILE",
        help="Balance the parts by the times in this JSON report or journal (repeatable); give every part the same.",
    ),
)

GATES = together(SHARDING, BASELINE)
