"""Conventions: the questions on which published implementations differ, and who follows another reading than ours.

The oracle takes one reading from operator, version and text. A kernel that takes another one is not careless: its
numbers equal those of a wrong kernel of the catalogue that stands among the readings below, and the report says which.
Where an operator's text settles the question, its words are quoted; where no text does, the case is disputed. Texts:
onnx 1.23 (`onnx.defs`) for ai.onnx, ONNX Runtime 1.32 (docs/ContribOperators.md) for com.microsoft; docs/semantics.md
has every question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from attncheck.oracle.wrong.readings import STAGES
from attncheck.problem import AnyProblem, Problem

ATTENTION = "ai.onnx.Attention"
GQA = "com.microsoft.GroupQueryAttention"
DECODER = "com.microsoft.DecoderMaskedMultiHeadAttention"


@dataclass(frozen=True)
class Convention:
    """A reading other than the oracle's, as one operator meets it.

    reading   what is done instead, a sentence without a subject
    oracle    what the oracle takes
    text      the words that settle it for the operator; "" where nobody's text does
    """

    reading: str
    oracle: str
    text: str

    @property
    def settled(self) -> bool:
        """Whether the operator's text decides the question."""
        return bool(self.text)


@dataclass(frozen=True)
class _Question:
    """The readings of one question by the wrong kernels that take them, and the texts that settle it, by operator.

    arises   whether it is this question that such a kernel answers otherwise
    """

    oracle: str
    readings: Mapping[str, str]
    texts: Mapping[str, str]
    arises: Callable[[Problem], bool] = lambda _: True


_QUESTIONS = (
    _Question(
        "a query stands behind the past, or at its entry's last keys in a cache that the caller keeps; without either "
        "the first stands at the first key. Causality and windows go by that",
        {
            "causal-top-left": "aligns the causal triangle with the first key, whatever the past",
            "causal-last-key": "aligns the causal triangle with the last key, also where there is no past",
            "window-from-first-key": "places the window as if the first query stood at the first key",
            "window-from-last-key": "places the window as if the last query stood at the last key",
            "queries-at-buffer-end": "aligns causality and windows with the last slot of the buffer, in the place of "
            "the last key",
        },
        {ATTENTION: "`offset = past_sequence_length`, `offset = 0` when there is none, and with nonpad_kv_seqlen "
         "`nonpad_kv_seqlen - q_sequence_length`; windows go by `p = offset + query_index`",
         GQA: "\"query row `s` is at absolute position `P + s`: causal attention [...] use that position\""},
    ),
    _Question(
        "a query without a key gives zeros",
        {
            "empty-row-mean": "gives the mean of V for a query without a key",
            "empty-row-nan": "gives NaN for a query without a key",
            "empty-row-filled": "gives the softmax of the scores - 10000 where a query has no key",
            "empty-row-mean-of-seen": "gives the mean of V over the keys that causality shows to a query without a key",
            "empty-row-mean-of-buffer": "gives the mean of V over all slots of the buffer for a query without a key",
        },
        {ATTENTION: "\"a zero output row, not NaN\""},
        lambda problem: problem.empty_row == "zero",
    ),
    _Question(
        "a query without a key gives the mean of V",
        {
            "empty-row-filled": "gives the softmax of the scores - 10000 (`mask_filter_value`) where a query has no "
            "key",
            "empty-row-nan": "gives NaN for a query without a key",
            "empty-row-mean-of-seen": "gives the mean of V over the keys that causality shows to a query without a key",
            "empty-row-mean-of-buffer": "gives the mean of V over all slots of the buffer for a query without a key",
        },
        {},
        lambda problem: problem.empty_row == "mean",
    ),
    _Question(
        "a key that the mask hides has no weight, however high its score",
        {"hidden-key-filled": "adds -10000 (`mask_filter_value`) to the score of a key that the mask hides, which may "
         "still be the highest"},
        {},
        lambda problem: problem.empty_row == "mean",
    ),
    _Question(
        "`window` counts the query's own key, and `window_right` those behind it",
        {
            "window-one-long": "counts a window without the query's own key",
            "window-one-short": "counts a window with one key behind the query's own",
            "window-right-one-long": "counts a window to the right without the first key behind the query's own",
            "window-right-one-short": "counts a window to the right with the query's own key",
        },
        {ATTENTION: "`left_window_size` counts the keys before the query's own: 0 leaves it its own key; "
         "`right_window_size` of 0 \"allows the current position but no following position\"",
         GQA: "a cache of `local_window_size` rows keeps \"the whole window\", the newest key among them"},
    ),
    _Question(
        "softcap comes before masks and bias",
        {
            "softcap-after-mask": "applies softcap after the mask",
            "softcap-after-bias": "applies softcap after the bias",
            "softcap-after-bias-and-holes": "applies softcap after the bias and its -inf",
            "softcap-after-bias-and-masks": "applies softcap after the bias and every mask",
        },
        {ATTENTION: "softcap is \"applied before mask / bias addition and softmax\""},
    ),
    _Question(
        "a score output holds the stage that is asked for",
        {f"scores-{stage}": f"gives scores {words}" for stage, words in STAGES.items()},
        {ATTENTION: "`qk_matmul_output_mode`: 0 raw, 1 after softcap, 2 with bias, 3 after the softmax",
         GQA: "`qk_output`: \"before (1) or after (2) softmax normalization\""},
    ),
    _Question(
        "a mask of one column speaks for every key in 23, and from 24 on for the first, the others being hidden",
        {
            "mask-column-padded": "takes a mask of one column for the first key's",
            "mask-column-for-all": "takes a mask of one column for every key's",
        },
        {ATTENTION: "23: \"broadcastable\"; from 24 on: \"the last dimension can also be shorter\", and is padded "
         "with negative infinity"},
    ),
    _Question(
        "a mask of one row is every query's, and causality is each query's own",
        {"triangle-of-one-row": "gives every query the first one's causal row beside a mask of one row"},
        {ATTENTION: "the mask is \"broadcastable to (batch_size, q_num_heads, q_sequence_length, "
         "total_sequence_length)\""},
    ),
    _Question(
        "a past counts whether or not the present is asked for",
        {"past-ignored": "ignores the past"},
        {},
        lambda problem: problem.present_key is None,
    ),
    _Question(
        "keys of a buffer that past and present share lie slot by slot, as its shape says",
        {"key-cache-in-words": "keeps the keys of the shared buffer by words of 16 bytes, re-ordered"},
        {},
        lambda problem: problem.op == DECODER,
    ),
)  # fmt: skip
"""Every question; a text that is missing for an operator says that it is silent."""


_BEYOND_THE_CACHE = Convention(
    "takes a nonpad_kv_seqlen beyond the rows of K",
    "nonpad_kv_seqlen counts valid tokens of K, \"the entire cache tensor\", and cannot be more than it has",
    "",
)


def followed(problem: AnyProblem, wrong: Iterable[str]) -> Convention | None:
    """The convention that one of these wrong kernels, by their names in the catalogue, follows if it is attention."""
    if not isinstance(problem, Problem):
        return None
    for name in wrong:
        for question in _QUESTIONS:
            if name in question.readings and question.arises(problem):
                return Convention(question.readings[name], question.oracle, question.texts.get(problem.op, ""))
    return None


def taken(problem: AnyProblem) -> Convention | None:
    """The convention of who gives numbers for a forbidden graph, where no text says that it must be refused."""
    beyond = isinstance(problem, Problem) and problem.op == ATTENTION and max(problem.kv_len) > problem.capacity
    return _BEYOND_THE_CACHE if beyond else None


def readers() -> frozenset[str]:
    """The names of the wrong kernels that follow a convention."""
    return frozenset(name for question in _QUESTIONS for name in question.readings)
