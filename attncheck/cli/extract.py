"""``attncheck extract``: the attention nodes of a whole model, as scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from attncheck.cli import options


@click.command(short_help="Take the attention nodes out of a model, as scenarios.", context_settings=options.CONTEXT)
@click.argument("model", type=options.Place(path_type=Path), metavar="MODEL.onnx")
@click.option(
    "--inputs",
    type=options.Place(exists=True, path_type=Path),
    metavar="DIR|FILE.npz",
    help="What to feed the model: an .npz, or a folder of .npy and .pb files; without, inputs are made up.",
)
@click.option(
    "--dim",
    multiple=True,
    type=options.Semicolons("text"),
    metavar="NAME=N",
    help="Size of a symbolic dimension (repeatable); without, what its name means.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), metavar="N", help="Seed of inputs that are made up.")
@click.option("--node", metavar="GLOB", help="Only nodes whose path fits; * and ? select.")
@click.option("--list", is_flag=True, help="Print the paths of the nodes, and run nothing.")
@click.option(
    "--out",
    type=options.Place(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where to write.  [default: MODEL-attention]",
)
@click.option("--tensors", is_flag=True, help="Also write each node as a model with the tensors that it was given.")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@options.MEMORY_LIMIT
@click.option(
    "--time-limit",
    type=options.Amount(),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="What one run of the model may take.",
)
@click.option(
    "--backend-memory",
    type=options.Bytes(),
    default="8G",
    show_default=True,
    metavar="SIZE",
    help="What the process that runs the model may hold.",
)
def extract(**given: Any) -> int:
    """Find every attention and rotary node of a model, and write a scenario for each distinct one.

    The model runs on CPU as far as the nodes need; a scenario has a node's attributes, shapes and lengths. A node that
    the scenario language cannot say is written as a model of that node, with the tensors that it was given beside it.
    `attncheck run DIR` runs both. Attention that is spelt out as MatMul, Softmax, MatMul is found and told.
    """
    from attncheck.cli import extraction

    return extraction.run(given)
