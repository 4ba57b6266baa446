"""A folder with a few scenario files, as a user would have them."""

from __future__ import annotations

from pathlib import Path

import pytest

EDGES = """\
# A key leaves the window one step too early or late.
defaults: {op: gqa, dtype: float32, heads: 4, kv_heads: 2, head_dim: 16}
scenarios:
  - name: window-edges
    about: a key leaves the window one step too early or late
    tags: [fast]
    q_len: 1
    past_len: 20
    matrix:
      window: [3, 21]
  - name: plain
    q_len: 4
    past_len: 20
    data: rising-scores
"""

MORE = """\
scenarios:
  - name: odd-head
    op: gqa
    heads: 4
    head_dim: 20
    q_len: 4
  - name: many-keys
    op: mha
    heads: 2
    head_dim: 8
    q_len: 2
    past_len: 1100
"""

MISTAKES = """\
defaults: {op: gqa, heads: 4, kv_heads: 3}
scenarios:
  - name: typo
    q_lenn: 1
    past_len: 20
  - name: kind
    q_len: some
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """edges.yaml and more.yaml are well, mistakes.yaml has three mistakes in a folder of its own."""
    (tmp_path / "edges.yaml").write_text(EDGES, encoding="utf-8")
    (tmp_path / "more.yaml").write_text(MORE, encoding="utf-8")
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "mistakes.yaml").write_text(MISTAKES, encoding="utf-8")
    return tmp_path
