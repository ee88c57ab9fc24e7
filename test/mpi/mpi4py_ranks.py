#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A rank of mpi4py's own tests: mpi4py_ranks.py FOLDER RECORD REGEX. MPI must find its mpi4py by PYTHONPATH.

Runs the tests in FOLDER whose files' names match REGEX. Each rank adds a line "OUTCOME TEST" to RECORD.RANK after each
test, so that the file shows how far a run came.
"""
import os
import re
import sys
import unittest

folder, record, regex = sys.argv[1:]
sys.path.insert(0, folder)
sys.dont_write_bytecode = True
for optional in ("numpy", "cupy", "numba"):
    sys.modules[optional] = None  # so that the same tests run everywhere

from mpi4py import MPI  # noqa: E402  (starts MPI, with the modules above)


def refuse(*_args, **_kwargs):
    """Refuses what this library does not build, as mpi4py does for an old MPI: tests of it skip themselves."""
    raise NotImplementedError


class Window(MPI.Win):
    """Makes no windows."""

    Create = Allocate = Allocate_shared = Create_dynamic = refuse


class File(MPI.File):
    """Opens no files."""

    Open = refuse


class Session(MPI.Session):
    """Makes no sessions."""

    Init = refuse


MPI.Win, MPI.File, MPI.Session = Window, File, Session

class Recorder(unittest.TextTestResult):
    """Records the worst outcome of each test and its parts."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.lines = open(f"{record}.{MPI.COMM_WORLD.rank}", "w", encoding="utf-8", buffering=1)
        self.outcome = "passed"

    def startTest(self, test):
        super().startTest(test)
        self.outcome = "passed"
        self.lines.write(f"began {test.id()}\n")

    def stopTest(self, test):
        super().stopTest(test)
        self.lines.write(f"{self.outcome} {test.id()}\n")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcome = "skipped"

    def addError(self, test, err):
        super().addError(test, err)
        self.outcome = "failed"

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.outcome = "failed"

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.outcome = "failed"

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.outcome = "failed"


class Loader(unittest.TestLoader):
    """Leaves out tests of graphs: what they are for, neighbourhoods, is not built."""

    def getTestCaseNames(self, testCaseClass):
        names = super().getTestCaseNames(testCaseClass)
        return [name for name in names if "graph" not in f"{testCaseClass.__name__}.{name}".lower()]


def load(name):
    """The tests of a file. Of one that cannot be imported none run, which the lists show."""
    try:
        return Loader().loadTestsFromName(name)
    except Exception as error:  # pylint: disable=broad-exception-caught  (a file may raise anything)
        print(f"{name}: {error}", file=sys.stderr)
        return unittest.TestSuite()


suite = unittest.TestSuite()
for entry in sorted(os.listdir(folder)):
    if entry.startswith("test_") and re.fullmatch(regex, entry[5:-3]):
        suite.addTests(load(entry[:-3]))
unittest.TextTestRunner(resultclass=Recorder, verbosity=0).run(suite)
