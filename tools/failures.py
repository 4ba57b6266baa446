"""What docs/coverage.md says: for every kind of public failure, and every path that it can take, which cases show it.

A path is an operator at a stage: `prefill` (all tokens are new), `decode` (one new token after others), `chunk`
(several new tokens after others, or beside keys of their own). Each case goes through both own kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from attncheck.scenario.load import load
from attncheck.scenario.model import Scenario
from attncheck.scenario.select import BENCH, BENCH_SMALL, HUGE
from attncheck.shipped import scenarios_dir

STAGES = ("prefill", "decode", "chunk")
SOFTMAX = ("gqa", "mha", "attention", "sparse", "paged", "decoder-mha", "ms-attention")
"""The operators that weigh keys."""
RECURRENT = ("linear", "ms-linear")
"""Those with a state in their place."""
MASKED = ("gqa", "mha", "attention", "decoder-mha", "ms-attention")
MODIFIED = ("gqa", "attention", "paged")
TURNS = ("gqa", "sparse", "paged", "ms-attention")

ONE_QUERY = (("decoder-mha", "chunk"),)
"""DecoderMaskedMultiHeadAttention takes one query row."""


@dataclass(frozen=True)
class Kind:
    """A row: what fails in public, what a case needs to show it, and the operators and stages that can have it."""

    name: str
    examples: str
    needs: str
    shows: Callable[[Scenario], bool]
    ops: tuple[str, ...] = SOFTMAX
    stages: tuple[str, ...] = STAGES
    never: tuple[tuple[str, str], ...] = ()
    """Paths that cannot have it beside those that `ONE_QUERY` rules out."""

    def paths(self) -> Iterator[tuple[str, str]]:
        """Each operator at each stage."""
        every = ((op, stage) for op in self.ops for stage in self.stages)
        return (path for path in every if path not in (*ONE_QUERY, *self.never))


def stage(case: Scenario) -> str:
    """Where in a session a call of this case would stand."""
    before = case.past_state != "absent" if case.op in RECURRENT else max(case.past_len) > 0 or case.cross
    if not before:
        return "prefill"
    return "decode" if max(case.q_len) == 1 else "chunk"


def _differ(values: tuple[int, ...]) -> bool:
    return len(set(values)) > 1


KINDS: tuple[Kind, ...] = (
    Kind(
        "valid length, capacity and total mixed up; past and present buffers",
        "ONNX Runtime 26064, 23061, 22987, 26262, 20521",
        "a capacity beyond the keys, an empty past, a present that is not asked for, symbolic dimensions",
        lambda it: it.capacity is not None or it.past == "empty" or not it.present or it.dims == "symbolic",
    ),
    Kind(
        "causal offset when rows and keys differ in number",
        "ONNX Runtime 29020, onnx 7297, FlashAttention 1778",
        "causal, several rows, and another number of keys",
        lambda it: it.causal and max(it.q_len) > 1 and max(it.kv_len) != max(it.q_len),
        stages=("chunk",),
    ),
    Kind(
        "ragged batches",
        "ONNX Runtime 29002, 29247",
        "three entries or more of different lengths, the first the shortest",
        lambda it: len(it.kv_len) >= 3 and _differ(it.kv_len) and it.kv_len[0] == min(it.kv_len),
        # CPU is wrong in a ragged batch of SparseAttention, so that semantics.yaml has it (`blocks-of-a-ragged-batch`).
        ops=tuple(op for op in SOFTMAX if op != "sparse"),
        # They compute every query row, so that a prompt has one length; a first token is one key.
        never=(("attention", "prefill"), ("decoder-mha", "prefill")),
    ),
    Kind(
        "fully masked rows and tiles",
        "ONNX Runtime 28958, 27831, PyTorch 127055, FlashAttention 2374",
        "a row without a key, or keys hidden by a mask, by block masks or by a narrow window",
        lambda it: it.op == "sparse" or it.holes != "none" or (it.window is not None and it.window < max(it.kv_len)),
    ),
    Kind(
        "order of score modifiers, or one dropped on a fast path",
        "onnx 7867, ONNX Runtime 28379, 25927, 25285",
        "softcap, window, sink or smooth softmax",
        lambda it: it.softcap > 0 or it.window is not None or it.sink or it.smooth,
        ops=MODIFIED,
    ),
    Kind(
        "two score modifiers together",
        "the same",
        "softcap or window, beside a bias or mask",
        lambda it: (it.softcap > 0 or it.window is not None) and bool(it.bias or it.mask),
        ops=("gqa", "attention"),
    ),
    Kind(
        "rotary: pairs, partial turns, positions",
        "ONNX Runtime 26758, 29002",
        "a rotary embedding",
        lambda it: it.rotary is not None,
        ops=TURNS,
    ),
    Kind(
        "rotary alone",
        "the same",
        "RotaryEmbedding as an operator",
        lambda it: it.rotary is not None,
        ops=("rotary", "ms-rotary"),
        stages=("prefill",),
    ),
    Kind(
        "bias and mask shape",
        "ONNX Runtime 26766, 27885",
        "a bias or mask over the scores",
        lambda it: bool(it.bias or it.mask),
        ops=MASKED,
    ),
    Kind(
        "tails: head size, sequence, subgroup",
        "ONNX Runtime 29593, 28520, llama.cpp 23040",
        "a head_dim or a number of keys that is no multiple of 16",
        lambda it: it.head_dim % 16 != 0 or max(it.kv_len) % 16 != 0,
        ops=(*SOFTMAX, *RECURRENT),
    ),
    Kind(
        "float16 range and accumulation",
        "scores stored in float16; errors that grow with the keys",
        "float16",
        lambda it: it.dtype == "float16",
        ops=(*SOFTMAX, "linear"),
    ),
    Kind(
        "a running maximum or sum that is not rescaled",
        "invisible on normal data",
        "hostile data: rising scores, huge or large logits, ties",
        lambda it: it.data in ("rising-scores", "huge-logit", "large-logits", "ties"),
        # The data shapes queries and keys, which com.microsoft Attention makes by itself; a first token is one key.
        ops=tuple(op for op in SOFTMAX if op != "ms-attention"),
        never=(("decoder-mha", "prefill"),),
    ),
    Kind(
        "layout and head mapping",
        "onnx 7118",
        "query heads and KV heads in different numbers, packed heads, or 4-D tensors",
        lambda it: it.heads != it.kv_heads or it.packed != "none" or it.layout == "bnsh",
        ops=(*SOFTMAX, *RECURRENT),
    ),
    Kind(
        "sizes past a limit",
        "ONNX Runtime 28802, 27434",
        "more than 1,024 keys or tokens, or 65,535 of anything (tag `huge`)",
        lambda it: max(it.kv_len) > 1024 or it.batch > 1024 or HUGE in it.tags,
        ops=(*SOFTMAX, *RECURRENT, "rotary", "ms-rotary"),
        # A first token is one key, one token more is not many, and rows that turn have nothing before them.
        never=(
            ("decoder-mha", "prefill"),
            *((op, "decode") for op in RECURRENT),
            *((op, at) for op in ("rotary", "ms-rotary") for at in ("decode", "chunk")),
        ),
    ),
)


@cache
def cases() -> tuple[Scenario, ...]:
    """Every shipped case but those that are there to be timed."""
    every = load([scenarios_dir()], base=scenarios_dir())
    return tuple(case for case in every if not {BENCH, BENCH_SMALL} & set(case.tags))


def covering(kind: Kind, every: tuple[Scenario, ...]) -> dict[tuple[str, str], list[Scenario]]:
    """The cases that would show a failure of this kind, by path; a path without one has an empty list."""
    return {path: [it for it in every if (it.op, stage(it)) == path and kind.shows(it)] for path in kind.paths()}


SEEN: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "ONNX Runtime's WebGPU plugin 0.4.0 on an NVIDIA H200: GQA ignores softcap, in prefill and decode",
        ("softcap.yaml::prefill", "softcap.yaml::decode"),
    ),
    ("the same: a row of -inf in attention_bias gives NaN", ("masks.yaml::masked-row-of-gqa",)),
    ("the same: rotary without cos and sin caches ends the process", ("--case 'rotary=half rotary_cache=absent'",)),
    (
        "ONNX Runtime 1.32 CPU: GQA with a past whose present is not asked for is wrong, other numbers from run to run",
        ("semantics.yaml::present-not-asked-for",),
    ),
    (
        "ONNX reference evaluator 1.23: score output of mode 0 holds capped scores",
        ("semantics.yaml::score-stages", "attention.yaml::score-output"),
    ),
    (
        "ONNX Runtime 1.27 WebGPU on SwiftShader: prefill and speculative rows are off, decode is right",
        ("prefill.yaml::cold-start", "speculative.yaml::draft-of-four", "decode.yaml::early-and-deep"),
    ),
    ("the same: the longest length of a ragged batch used for all", ("decode.yaml::ragged",)),
    (
        "ONNX Runtime 1.32 CPU refuses GQA of a head_dim that is no multiple of 8, and turned ones of 16",
        ("decode.yaml::head-dims", "rotary.yaml::head-dims"),
    ),
    ("Mesa llvmpipe ends any loop of a shader after 65,535 rounds", ("huge.yaml::keys", "decode.yaml::sections")),
    ("ONNX Runtime 1.32 CPU refuses MHA over a buffer that its past fills", ("semantics.yaml::shared-buffer-full",)),
)
"""What attncheck's makers saw released software do, and the scenarios that show it."""


def seen_table() -> str:
    """What was seen live, and what shows it."""
    rows = (f"| {what} | {', '.join(f'`{one}`' for one in ids)} |" for what, ids in SEEN)
    return "\n".join(["| seen | shown by |", "| --- | --- |", *rows])


def named_table() -> str:
    """The scenarios that people write by hand: those tagged `named`."""
    named = {_scenario(it): it for it in reversed(cases()) if "named" in it.tags}
    operators = {name: sorted({it.op for it in cases() if _scenario(it) == name}) for name in named}
    rows = (f"| `{name}` | {', '.join(operators[name])} | {it.about} |" for name, it in reversed(named.items()))
    return "\n".join(["| scenario | operators | catches |", "| --- | --- | --- |", *rows])


def kinds_table() -> str:
    """The table of kinds and paths: how many cases, and the first of them."""
    every = cases()
    rows = []
    for kind in KINDS:
        found = covering(kind, every)
        for (op, at), shown in found.items():
            named = f"`{_scenario(shown[0])}`" if shown else "none"
            rows.append(f"| {kind.name} | {kind.examples} | {kind.needs} | {op} | {at} | {len(shown)} | {named} |")
    header = "| kind | seen in public | what shows it | operator | stage | cases | for one |"
    return "\n".join([header, "| --- | --- | --- | --- | --- | --- | --- |", *_folded(rows)])


def _folded(rows: list[str]) -> Iterator[str]:
    """The first three cells only where they change."""
    before = ""
    for row in rows:
        cells = row.split(" | ")
        head = " | ".join(cells[:3])
        yield row if head != before else "| | | | " + " | ".join(cells[3:])
        before = head


def _scenario(case: Scenario) -> str:
    """The id of the scenario that a case is of."""
    file, _, rest = case.id.partition("::")
    return f"{file}::{rest.partition(':')[0]}"
