#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Errors of MPI that name both calls, or the rank that died: failures_test.py RINGCOMM_RUN PROGRAM."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

RUN, PROGRAM = sys.argv[1:]
NOT_SAME, ABORTED, LIMIT = 40, 58, 5.0
failed = []


def run(case, *options, ranks=2, **env):
    """Output, errors, exit status and seconds of a case."""
    start = time.monotonic()
    done = subprocess.run([RUN, "--mpi", "-n", str(ranks), "--timeout", "20", *options, "--", PROGRAM, case],
                          capture_output=True, text=True, check=False, env=os.environ | env)
    return done.stdout, done.stderr, done.returncode, time.monotonic() - start


def check(holds, case, *facts):
    """Notes a failure."""
    if not holds:
        failed.append(f"{case}: {facts}")


for name, words in {"operation": ["all_reduce", "barrier"], "count": ["all_reduce"], "type": ["int64", "float64"],
                    "operator": ["sum", "max"], "root": ["from rank 0", "from rank 1"],
                    "ended": ["all_reduce", "rcm_destroy"], "form": ["asynchronous all_reduce", "rank 0", "rank 1"]}.items():
    out, err, status, seconds = run(name, "--keep-going")
    for rank in (0, 1):
        line = re.search(rf"rank {rank} class {NOT_SAME}: (.*)", out)
        check(line and all(word in line[1] for word in words), name, rank, out, err)
    check(seconds < LIMIT, name, seconds)

out, err, status, seconds = run("death", "--keep-going")
check(re.search(rf"rank 0 class {ABORTED}: .*rank 1", out) and seconds < LIMIT, "death", out, err, seconds)

out, err, status, seconds = run("fatal")
check("fatal error in MPI_Bcast on MPI_COMM_WORLD: MPI_Bcast: root is 99" in err and status == 8, "fatal", err, status)

out, err, status, seconds = run("fatal-unnamed")
check("fatal error in MPI_Bcast on an unnamed communicator: MPI_Bcast: root is 99, but an unnamed" in err, "fatal-unnamed", err)

out, err, status, seconds = run("finalize", "--keep-going")
for words in (rf"rank 0 class {ABORTED}: MPI_Finalize.*rank 1", "MPI_Barrier: MPI is not running", "rank 0 finalized 1"):
    check(re.search(words, out), "finalize", words, out, err)

out, err, status, seconds = run("fatal-finalize", "--keep-going")
check("fatal error in MPI_Finalize" in err and "AddressSanitizer" not in err, "fatal-finalize", out, err)

out, err, status, seconds = run("abort", "--keep-going")
check(re.search(r"rank 0 class \d+: .*MPI_Abort with code 7", out), "abort", out, err)

out, err, status, seconds = run("abort-early", "--keep-going", ranks=4)
for rank in range(3):
    check(re.search(rf"rank {rank} class \d+: .*MPI_Abort with code 7", out), "abort-early", rank, out, err)

out, err, status, seconds = run("message", "--keep-going")
check(re.search(rf"rank 1 class {NOT_SAME}: MPI_Recv: the message from rank 0 is \d+ bytes of int32, its receive of float64", out)
      and "rank 0 class 0" in out and seconds < LIMIT, "message", out, err, seconds)

out, err, status, seconds = run("survive", "--keep-going", ranks=3)
for rank in (0, 2):
    check(f"rank {rank}: 2 of 2 survive, MPI_Finalize returns 0" in out, "survive", rank, out, err)

out, err, status, seconds = run("shrink", "--keep-going")
for rank in (0, 1):
    check(f"rank {rank} class 0" in out and f"rank {rank}: 1" in out, "shrink", rank, out, err)

out, err, status, seconds = run("leak", RINGCOMM_LOG="info")
for words in ("1 requests of MPI_Irecv were not completed", "1 datatypes were not freed", "2 groups were not",
              "1 communicators were not"):
    check(words in err, "leak", words, out, err)
check("MPI_Isend" not in err, "leak", err)

alone = subprocess.run([PROGRAM, "none"], capture_output=True, text=True, check=False,
                       env={"LD_LIBRARY_PATH": ""})  # a world of one, by the program's own RUNPATH
check(alone.returncode == 1 and "rank 0 class 0" in alone.stdout, "alone", alone)

with tempfile.TemporaryDirectory() as folder:  # a library without libmpi_abi.so.1 beside it
    shutil.copy(os.path.join(os.path.dirname(RUN), "..", "api", "libringcomm.so.0"), folder)
    lacking = subprocess.run([RUN, "--mpi", "-n", "1", "--", PROGRAM], capture_output=True, text=True, check=False,
                             env={"LD_LIBRARY_PATH": folder})
    check(lacking.returncode == 1 and "Build it with -Dmpi_abi=enabled" in lacking.stderr, "lacking", lacking)

if failed:
    sys.exit("\n".join(failed))
