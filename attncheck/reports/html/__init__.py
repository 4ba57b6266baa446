"""The report for people: one file that opens from disk, with every case, its numbers and its maps."""
