"""Visible key intervals: causality, windows and lengths as [lo, hi) a query row, in slots of the present buffer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def causal(past_len: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    """[batch, rows, 2]: row i, which stands at slot past_len + i, sees every slot up to its own."""
    own = past_len[:, None] + np.arange(rows)
    return np.stack([np.zeros_like(own), own + 1], axis=-1)


def everything(kv_len: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    """[batch, rows, 2]: every row sees all kv_len slots."""
    end = np.broadcast_to(kv_len[:, None], (len(kv_len), rows))
    return np.stack([np.zeros_like(end), end], axis=-1)


def windowed(visible: NDArray[np.int64], window: int) -> NDArray[np.int64]:
    """`visible` cut to the `window` last slots of each row, the row's own included."""
    return np.stack([np.maximum(visible[..., 0], visible[..., 1] - window), visible[..., 1]], axis=-1)


def around(visible: NDArray[np.int64], offset: NDArray[np.int64], left: int, right: int) -> NDArray[np.int64]:
    """`visible` cut to [p - left, p + right], where row i stands at p = offset + i; a negative bound bounds nothing."""
    own = offset[:, None] + np.arange(visible.shape[1])
    first = np.maximum(visible[..., 0], own - left) if left >= 0 else visible[..., 0]
    end = np.minimum(visible[..., 1], own + right + 1) if right >= 0 else visible[..., 1]
    return np.stack([first, end], axis=-1)


def between(visible: NDArray[np.int64], first: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """`visible` cut to the slots [first, end) of each batch entry."""
    return np.stack([np.maximum(visible[..., 0], first[:, None]), np.minimum(visible[..., 1], end[:, None])], axis=-1)


def narrowed(visible: NDArray[np.int64]) -> NDArray[np.int32]:
    """As the Problem holds them: int32, and an empty row as [0, 0)."""
    empty = visible[..., 0] >= visible[..., 1]
    return np.where(empty[..., None], 0, visible).astype(np.int32)
