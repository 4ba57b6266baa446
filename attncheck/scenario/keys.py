"""The keys of the scenario language that are no axes: the one definition of each."""

from __future__ import annotations

from dataclasses import dataclass

MODES = ("product", "pairwise")
"""How a matrix makes cases of its values."""


@dataclass(frozen=True)
class Key:
    """A key of the language that is not an axis."""

    name: str
    allowed: str
    meaning: str


KEYS: dict[str, Key] = {
    key.name: key
    for key in (
        Key(
            "name",
            "a name of letters, digits, `.`, `_` and `-`, beginning with a letter or digit",
            "names the scenario, once a file",
        ),
        Key("about", "a text", "what kind of fault the scenario is there to catch"),
        Key("tags", "a list of names, like [smoke, f16]", "words to select by; those of `defaults` are added"),
        Key("repeat", "an integer from 1 to 256", "how often the step is taken; inside `steps`"),
        Key(
            "accept",
            "an integer from 0 up, or a list of them, one a batch entry",
            "how many new tokens of a step are kept, the first ones; the cache is rewound behind them. Inside `steps`",
        ),
        Key(
            "refused",
            "`true` or `false`",
            "the operator forbids the step, which goes beyond the capacity or the rotary caches: a backend must refuse "
            "it; of the last step, inside `steps`",
        ),
        Key("label", "a word of letters, digits and `_`, beginning with a letter", "what the step is; inside `steps`"),
        Key("matrix", "a mapping of axes to lists of values", "axes to sweep: a case for each combination"),
        Key(
            "mode",
            "`product` or `pairwise`",
            "which combinations the matrix makes: `product`, the default, all of them; `pairwise`, a few in which "
            "every two values meet that can; inside `matrix`",
        ),
        Key(
            "exclude",
            "a list of mappings of axes to values, like [{op: mha, window: 3}]",
            "combinations to leave out; inside `matrix`",
        ),
        Key(
            "tolerance",
            "{max_abs: NUMBER} or {BACKEND: {max_abs: NUMBER}}",
            "replaces the derived tolerance, everywhere or for the backends named",
        ),
        Key("max_abs", "a number above 0", "the largest absolute error that passes"),
        Key(
            "defaults",
            "a mapping of axes and keys to values",
            "what every scenario of the file has unless it says otherwise",
        ),
        Key("scenarios", "a list of scenarios, each a mapping with a name", "what to test"),
    )
}
