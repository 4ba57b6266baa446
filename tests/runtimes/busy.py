"""A worker runtime of a user's function that is never done with being timed, and leaves a file when that begins."""

import pathlib
import time

import callable as functions


def start(options):
    return Busy(functions.start(options), pathlib.Path(options["file"]))


class Busy:
    def __init__(self, inner, file):
        self.inner, self.file, self.hello = inner, file, inner.hello
        self.prepare, self.run, self.release = inner.prepare, inner.run, inner.release

    def time(self, prepared, inputs, runs, wake, sets):
        self.file.with_suffix(".timed").touch()
        time.sleep(3600)
