"""The canonical problem of linear attention: a state that every token decays and adds to, and every query reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attncheck.problem.tensors import Role, Tensor


@dataclass(frozen=True)
class LinearProblem:
    """One recurrence a KV head and batch entry, token after token, over a state S [head_dim, v_head_dim].

        S = exp(decay) S;  S = S + k (beta (v - S^T k))^T, or S + k (beta v)^T without `delta`;  output = scale S^T q

    heads, kv_heads  one is a multiple of the other: query heads share a state, or states share a query; the output has
                     as many heads as the larger number
    decay            logarithms, one a KV head or one a dim of the key (`decay_dim` 1 or head_dim); None: nothing decays
    beta             one a KV head, or one for all (`beta_heads`); None: 1
    delta            whether what the state holds under the key already is taken off the value
    past_state       the state before the first token; None: zeros
    invalid          why the operator's text forbids this graph: a backend must refuse it, and no answer is stated
    """

    kind: ClassVar[str] = "linear"
    op: str
    dtype: str
    batch: int
    rows: int
    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    scale: float
    delta: bool
    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    present_state: Tensor | None
    past_state: Tensor | None = None
    decay: Tensor | None = None
    decay_dim: int = 1
    beta: Tensor | None = None
    beta_heads: int = 1
    invalid: str = ""

    @property
    def state_shape(self) -> tuple[int, int, int, int]:
        """[batch, kv_heads, head_dim, v_head_dim]."""
        return self.batch, self.kv_heads, self.head_dim, self.v_head_dim

    @property
    def inputs(self) -> tuple[Role, ...]:
        """Every floating-point input."""
        keys = (self.batch, self.kv_heads, self.rows)
        found = (
            ("query", self.query, (self.batch, self.heads, self.rows, self.head_dim)),
            ("key", self.key, (*keys, self.head_dim)),
            ("value", self.value, (*keys, self.v_head_dim)),
            ("past_state", self.past_state, self.state_shape),
            ("decay", self.decay, (*keys, self.decay_dim)),
            ("beta", self.beta, (self.batch, self.beta_heads, self.rows, 1)),
        )
        return tuple(Role(name, tensor, shape, self.dtype) for name, tensor, shape in found if tensor is not None)

    @property
    def outputs(self) -> tuple[Role, ...]:
        """Every output of the graph, in its order."""
        most = max(self.heads, self.kv_heads)
        found = (
            ("output", self.output, (self.batch, most, self.rows, self.v_head_dim)),
            ("present_state", self.present_state, self.state_shape),
        )
        return tuple(Role(name, tensor, shape, self.dtype) for name, tensor, shape in found if tensor is not None)

    @property
    def group(self) -> int:
        """Query heads that share one state."""
        return max(1, self.heads // self.kv_heads)
