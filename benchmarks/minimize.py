"""Shrink every planted fault of the quality tests and print the table of docs/minimize.md.

python -m benchmarks.minimize
"""

from __future__ import annotations

from tests.shrinking import FAULTS, limit_of, shrunk


def main() -> None:
    """A row a fault: what it needs is in its name, the rest is measured."""
    print("| planted fault | smallest case | evaluations | seconds | neighbours |\n| --- | --- | --- | --- | --- |")
    for name, fault in FAULTS.items():
        found = shrunk(name, fault.start, file=fault.file, time_limit=limit_of(name))
        case = found.case.text.replace(",", " ").replace("q_values=0 k_values=0 v_values=0", "zeros")
        row = (name.replace("_", " "), f"`{case}`", found.evaluations, f"{found.seconds:.1f}", len(found.neighbours))
        print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    main()
