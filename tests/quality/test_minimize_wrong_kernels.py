"""Every wrong kernel of the catalogue is shrunk, and by oracle and judge alone no case of a simpler shape shows it."""

from __future__ import annotations

import pytest

from attncheck.minimize.candidate import start
from attncheck.oracle.wrong.catalogue import CATALOGUE
from attncheck.oracle.wrong.entry import Wrong
from attncheck.scenario import from_command_line
from tests.shrinking import STARTS, shows, shrunk, simpler_shapes

pytestmark = pytest.mark.slow


def beginning(wrong: Wrong) -> str | None:
    """The first start in which the wrong kernel shows."""
    return next((text for text in STARTS if shows(wrong, from_command_line(text))), None)


STARTING = [(wrong, text) for wrong in CATALOGUE if (text := beginning(wrong)) is not None]


def test_most_wrong_kernels_have_a_start() -> None:
    """Those that need a window cache, a projection, blocks of many keys or another operator have none here."""
    assert len(STARTING) >= 70


@pytest.mark.parametrize(("wrong", "text"), STARTING, ids=[wrong.name for wrong, _ in STARTING])
def test_a_wrong_kernel_is_brought_to_a_shape_below_which_it_does_not_show(wrong: Wrong, text: str) -> None:
    found = shrunk(wrong.name.replace("-", "_"), text)
    assert found.certified
    assert found.evaluations <= 400
    assert found.seconds < 60
    assert wrong.name in found.failure.wrong
    below = simpler_shapes(found.case, start(from_command_line(text)))
    assert [it.text for it in below if shows(wrong, it.scenario)] == []
