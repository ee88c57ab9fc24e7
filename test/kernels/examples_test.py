#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the examples as a user does. Each has a check of the same name:
examples_test.py RINGCOMM-RUN PROGRAM..."""
import os
import re
import subprocess
import sys
import tempfile

LAUNCHER = sys.argv[1]


def run(ranks, *command, options=()):
    """Exit status, stdout and stderr of a program on `ranks` ranks."""
    done = subprocess.run([LAUNCHER, "-n", str(ranks), "--bind", "none", "--timeout", "60", *options,
                           "--", *command], capture_output=True, text=True, timeout=90)
    return done.returncode, done.stdout, done.stderr


def expect(condition, what, result):
    if not condition:
        sys.exit(f"{what}\nexit status {result[0]}\n{result[1]}{result[2]}")


def check_hello(program):
    result = run(3, program)
    expect(result[0] == 0 and result[1].count("the sum is 6") == 3, "hello_all_reduce", result)


def check_ring(program):
    for ranks in (1, 2, 3, 5):
        result = run(ranks, program, "1")
        expect(result[0] == 0 and "equal on every rank" in result[1], "ring_all_reduce", result)


def check_survive(program):
    result = run(5, program, options=("--keep-going",))
    expect(result[0] == 0 and "4 ranks go on" in result[1] and "3 ranks go on" in result[1] and
           result[1].count("of 3: the sum is 3") == 3 and result[2].count("killed by signal 9") == 2,
           "survive", result)


def all_operations(rank, n):
    """What all_operations prints on a rank."""
    def numbers(values):
        return "[" + ", ".join(str(v) for v in values) + "]"

    def objects(texts):
        return "[" + ", ".join("{" + t + "}" for t in texts) + "]"
    sums = [n, 2 * n, 3 * n]
    ranks = [f"rank: {r}" for r in range(n)]
    yield f"Initialized, of {n}"
    yield "Broadcast result: [1, 2, 3]"
    yield "Broadcast objects: [{rank: 0}]"
    yield f"All_reduce SUM: {numbers(sums)}"
    if rank == 0:
        yield f"Reduce MAX result: {numbers(sums)}"
    yield f"All_gather results, of the last rank: {numbers(sums)}"
    yield f"All_gather_into_tensor: {numbers(sums * n)}"
    yield f"All_gather_object: {objects(ranks)}"
    if rank == 0:
        yield f"Gather results, of the last rank: {numbers(sums)}"
        yield f"Gather_object results: {objects(ranks)}"
    yield f"Scatter received: {numbers(range(rank, rank + 3))}"
    yield f"Scatter_object received: {objects([f'src: {rank}, data: data_{rank}'])}"
    yield f"Reduce_scatter result: {numbers([n * (rank + 1)] * 3)}"
    yield f"Reduce_scatter_tensor result: {numbers(n * (3 * rank + i) for i in range(3))}"
    yield f"All_to_all_single output: {numbers([3 * rank, 3 * rank + 1, 3 * rank + 2] * n)}"
    yield f"All_to_all output: {numbers(10 * r + rank for r in range(n))}"
    yield "Barrier passed"
    yield f"Async op result: {numbers(sums)}"
    yield "Communicator destroyed"


def check_all_operations(program):
    for n in (1, 2, 5):
        result = run(n, program)
        expect(result[0] == 0, "all_operations", result)
        for rank in range(n):
            start = f"[{rank}] [Rank {rank}] "
            printed = [line[len(start):] for line in result[1].splitlines() if line.startswith(start)]
            if printed != list(all_operations(rank, n)):
                expect(False, f"all_operations, rank {rank} of {n}", result)


def check_missing(program):
    result = run(3, program)
    expect(result[0] == 0 and result[1].count("all came") == 3, "missing: none is", result)
    result = run(4, program, "1", "3")
    expect(result[0] == 0 and result[1].count("2 of 4 ranks are missing: 1 3") == 4, "missing",
           result)


def said_by(result):
    """What each rank printed, without the launcher's prefix, sorted."""
    return sorted(line.split("] ", 1)[1] for line in result[1].splitlines())


def check_groups(program):
    def line(rank, at, of, which, ranks, total):
        return f"rank {rank} is rank {at} of {of} in {which} (ranks {ranks}): the sum is {total}"
    result = run(4, program)
    expected = [line(r, r, 2, "the first two", "0,1", 1) for r in (0, 1)]
    expected += [f"rank {r} is not in it" for r in (2, 3)]
    expected += [line(r, r % 2, 2, "its row", "0,1" if r < 2 else "2,3", 1 if r < 2 else 5)
                 for r in range(4)]
    expected += [line(r, r // 2, 2, "its column", f"{r % 2},{r % 2 + 2}", 2 * (r % 2) + 2)
                 for r in range(4)]
    expect(result[0] == 0 and said_by(result) == sorted(expected), "groups", result)


def check_pair_broadcast(program):
    for ranks in (1, 2, 4):
        result = run(ranks, program)
        total = ranks * (ranks - 1) // 2
        expected = [f"stage {r} of {ranks}: {total} to {total}" for r in range(ranks)]
        expect(result[0] == 0 and said_by(result) == expected, f"pair_broadcast on {ranks}", result)


def check_any_source(program):
    for ranks in (1, 2, 5):
        result = run(ranks, program)
        expected = [f"rank {r} is done" for r in range(1, ranks)]
        expected += ["the sum of 100 squares is 338350"] if ranks > 1 else []
        expect(result[0] == 0 and said_by(result) == sorted(expected), f"any_source on {ranks}",
               result)


def losses(program, ranks):
    with tempfile.TemporaryDirectory(prefix="ringcomm-mnist-") as folder:
        path = os.path.join(folder, "losses")
        result = run(ranks, program, "--steps", "20", "--losses", path)
        expect(result[0] == 0 and os.path.exists(path), f"mnist_sgd on {ranks} ranks", result)
        expect("first 8000 digits" in result[1], "mnist_sgd does not print its training data", result)
        with open(path, encoding="ascii") as file:
            return [float(line) for line in file]


def check_mnist(program):
    reference = losses(program, 1)
    if len(reference) != 20 or not reference[-1] < reference[0]:
        sys.exit(f"20 falling losses expected, these came: {reference}")
    for ranks in (2, 4, 5):
        for step, (ours, theirs) in enumerate(zip(losses(program, ranks), reference, strict=True)):
            if abs(ours - theirs) > 1e-3:
                sys.exit(f"step {step}: loss {ours} on {ranks} ranks, {theirs} on one")
    for arguments, words in ((("--data", "/nonexistent"), "/nonexistent/train-images-idx3-ubyte"),
                             (("--batch", "2"), "--batch 2 is less than the 3 ranks")):
        result = run(3, program, *arguments)
        # One rank prints the error. The launcher repeats it, indented, at the end.
        printed = [line for line in result[2].splitlines() if line.startswith("[") and words in line]
        expect(result[0] != 0 and len(printed) == 1, f"mnist_sgd {arguments}", result)


def check_lines(name, result, expected):
    printed = sorted(re.sub(r"^\[\d+\] ", "", line, count=1) for line in result[1].splitlines())
    expect(result[0] == 0 and printed == sorted(expected), f"{name}, expected: {sorted(expected)}",
           result)


def check_six_collectives(program):
    for n in (1, 4):
        lines = []
        for r in range(n):
            ranks = ", ".join(f"{i}.0" for i in range(n))
            lines += [f"[{r}] say hi!", f"[{r}] all_reduce: data = [{n}.0]",
                      f"[{r}] scatter: data = [{r + 1}.0]", f"[{r}] all_gather: data = [{ranks}]",
                      f"[{r}] broadcast: data = [0.0]",
                      f"[{r}] reduce: data = [{n if r == 0 else 1}.0]"]
        check_lines("six_collectives", run(n, program), lines + [f"[0] gather: data = [{ranks}]"])


def check_point_to_point(program):
    lines = ["Rank 0 has data 1", "Rank 1 has data 1", "Rank 0 started sending",
             "Rank 1 started receiving", "Rank 0 has data 2", "Rank 1 has data 2",
             "Rank 0 has sum 2", "Rank 1 has sum 2"]
    check_lines("point_to_point", run(2, program), lines)
    with tempfile.TemporaryDirectory(prefix="ringcomm-meet-") as folder:
        url = f"file://{folder}/file"
        check_lines("point_to_point by a file", run(2, program, url), lines)


def check_patterns(program):
    n = 4
    lines = ["pipeline, rank 3: ABCD"]

    def add(pattern, *blocks):
        lines.extend(f"{pattern}, rank {r}: {text}" for r, text in zip((0, n - 1), blocks))
    everything = "A0B0C0D0"
    add("broadcast", "A0", "A0")
    add("scatter", "A0", "A3")
    add("gather", everything, "." * 8)
    add("reduce, max", "D0", "..")
    add("all_gather", everything, everything)
    add("all_reduce, min", "A0", "A0")
    add("reduce_scatter, max", "D0", "D3")
    add("all_to_all", everything, "A3B3C3D3")
    check_lines("patterns", run(n, program), lines)


def check_spawn(program):
    done = subprocess.run([program], capture_output=True, text=True, timeout=90)
    lines = []
    for r in range(4):
        lines += [f"A0 B1 - rank: {r}", f"rank {r} broadcast: [0, 0]",
                  f"rank {r} scatter: [{10 * (r + 1)}]", f"rank {r} all_reduce, sum: [6]",
                  f"rank {r} all_reduce, max: [3]", f"rank {r} all_gather: [0, 1, 2, 3]",
                  f"rank {r} reduce_scatter: [{4 * r}]"]
    lines += ["rank 0 reduce: [4, 6]", "rank 0 gather: [0, 1, 2, 3]", "rank 1 before: [0, 0, 0, 0]",
              "rank 1 after: [0.5, 1, 1.5, 2]", "rank 1 after, not blocking: [0.5, 1, 1.5, 2]"]
    check_lines("spawn", (done.returncode, done.stdout, done.stderr), lines)


CHECKS = {
    "hello_all_reduce": check_hello,
    "ring_all_reduce": check_ring,
    "survive": check_survive,
    "all_operations": check_all_operations,
    "missing": check_missing,
    "groups": check_groups,
    "any_source": check_any_source,
    "pair_broadcast": check_pair_broadcast,
    "mnist_sgd": check_mnist,
    "six_collectives": check_six_collectives,
    "point_to_point": check_point_to_point,
    "patterns": check_patterns,
    "spawn": check_spawn,
}
if len(sys.argv) < 3:
    sys.exit(__doc__)
for path in sys.argv[2:]:
    CHECKS[os.path.basename(path)](path)
