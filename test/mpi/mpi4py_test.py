#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs mpi4py's own tests on 2 ranks: mpi4py_test.py RINGCOMM_RUN [--long]. Prints the tests that fail.

mpi4py_passes.txt has the tests that pass on MPICH's library. Each of them must pass on libmpi_abi.so.1, or be in
mpi4py_fails.txt with a reason. Without --long only the files below run. With it all files run, on both libraries, and
mpi4py_passes.txt must be what passes on MPICH's. mpi4py_test.py --count prints that file anew.

TEST_MPI4PY is the folder that tools/lib/mpi_wheels.sh makes. Without it the test is skipped.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

HERE = pathlib.Path(__file__).parent
FOLDER = pathlib.Path(os.environ.get("TEST_MPI4PY", "-"))
# Windows, files, processes, sessions, partitioned messages, neighbourhoods and graphs are not built.
ALL = r"(?!win|rma|file|io|spawn|dynproc|session|p2p_buf_part|cco_.*ngh).*"
SHORT = r"(?!p2p_buf_part|cco_.*ngh)(cco_.*|p2p_.*|request|group|op|datatype|status|pack|msg.*)"
LIMITS = {SHORT: (12, 0), ALL: (20, 1200)}  # tests that may fail, and that must pass


def run(launcher, regex, **settings):
    """Runs the ranks. Returns what each test came to: {test: outcome}, the worst of both ranks, and the output."""
    with tempfile.TemporaryDirectory() as folder:
        record = pathlib.Path(folder) / "record"
        environment = {**os.environ, "PYTHONPATH": str(FOLDER / "site"), **settings}
        command = [*launcher, "/usr/bin/python3", HERE / "mpi4py_ranks.py", FOLDER / "test", record, regex]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        outcomes = {}
        for rank in range(2):
            path = pathlib.Path(f"{record}.{rank}")
            last = dict(reversed(line.split()) for line in path.read_text().splitlines()) if path.exists() else {}
            for test, outcome in last.items():
                outcomes[test] = outcome if outcomes.get(test, "passed") == "passed" else outcomes[test]
        return outcomes, done.stdout.decode(errors="replace")


def on_mpich(regex):
    """Tests that pass on MPICH's library."""
    outcomes, output = run([FOLDER / "mpich/bin/mpiexec", "-n", "2"], regex, LD_LIBRARY_PATH=str(FOLDER / "mpich/lib"))
    passed = {test for test, outcome in outcomes.items() if outcome == "passed"}
    return passed or sys.exit(f"nothing passed on MPICH's library:\n{output}")


def read_passes():
    """The tests of mpi4py_passes.txt: a line with a class, then lines with its tests."""
    passes, prefix = set(), ""
    for line in (HERE / "mpi4py_passes.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            passes.update(f"test_{prefix}.{name}" for name in line.split())
        elif not line.startswith("#"):
            prefix = line
    return passes


def write_passes(passes):
    """The text of mpi4py_passes.txt."""
    print("# Tests of mpi4py 4.1.2 that pass on the library of MPICH 5.0.2, 2 ranks: mpi4py_test.py --count")
    for prefix in sorted({test.rsplit(".", 1)[0] for test in passes}):
        names = sorted(test.rsplit(".", 1)[1] for test in passes if test.rsplit(".", 1)[0] == prefix)
        print(prefix.removeprefix("test_"))
        print(textwrap.fill(" ".join(names), 100, initial_indent="  ", subsequent_indent="  "))


def read_fails():
    """Tests that may fail: {test: reason}."""
    lines = (HERE / "mpi4py_fails.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def judge(launcher, regex, passes):
    """Runs the tests on libmpi_abi.so.1 and compares with the lists. Returns what is wrong."""
    outcomes, output = run(launcher, regex, RINGCOMM_TIMEOUT="20")
    files = re.compile(f"test_(?:{regex})")
    wanted = {test for test in passes if files.fullmatch(test.split(".")[0])}
    fails = {test: reason for test, reason in read_fails().items() if test in wanted}
    failed = {test for test in wanted if outcomes.get(test) != "passed"}
    most, least = LIMITS[regex]
    wrong = [f"{test}: {outcomes.get(test, 'did not run')}" for test in sorted(failed - set(fails))]
    if len(fails) > most:
        wrong.append(f"mpi4py_fails.txt has {len(fails)} of these tests, but may have {most}")
    if len(wanted - failed) < least:
        wrong.append(f"{len(wanted - failed)} tests passed, but at least {least} must")
    print(f"{len(wanted - failed)} of {len(wanted)} tests that pass on MPICH's library passed")
    for test in sorted(set(fails) - failed):
        print(f"{test} passed: remove it from mpi4py_fails.txt")
    return wrong + [output] if wrong else []


def main():
    """See above."""
    if not (FOLDER / "ready").exists():
        print("skipped: TEST_MPI4PY is not a folder that tools/lib/mpi_wheels.sh made")
        sys.exit(77)
    if sys.argv[1] == "--count":
        write_passes(on_mpich(ALL))
        return
    regex = ALL if "--long" in sys.argv else SHORT
    passes, wrong = read_passes(), []
    if regex == ALL:
        wrong = [f"{test}: mpi4py_passes.txt and MPICH's library differ" for test in sorted(passes ^ on_mpich(ALL))]
    launcher = [sys.argv[1], "--mpi", "-n", "2", "--bind", "none", "--timeout", "230", "--"]
    wrong += judge(launcher, regex, passes)
    if wrong:
        sys.exit("\n".join(wrong))


main()
