"""`attncheck minimize`: the smallest case that still fails in the same way, and the proof that none near is smaller."""
