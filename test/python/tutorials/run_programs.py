# SPDX-License-Identifier: BSD-3-Clause
"""run_programs.py OUTPUT_FOLDER PROGRAM...: one rank of a launcher, which runs programs in turn.

Each program runs in a child of this process, so that torch is imported once. The child writes to
OUTPUT_FOLDER/PROGRAM.RANK.out and .err, and exits like a Python program. `PROGRAM:N` uses the
first N ranks only. Every program has a port of its own.
"""
import gc
import os
import pathlib
import runpy
import sys
import traceback

import torch.distributed

FIRST_PORT = 20000


def run_child(program, folder, ranks, number):
    for name in ('TORCHELASTIC_USE_AGENT_STORE', 'TORCHELASTIC_RUN_ID', 'RINGCOMM_JOB_ID'):
        os.environ.pop(name, None)
    os.environ.update(WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR='127.0.0.1',
                      MASTER_PORT=str(FIRST_PORT + number))
    stem = f'{folder}/{pathlib.Path(program).stem}.{os.environ["RANK"]}'
    for descriptor, ending in ((1, '.out'), (2, '.err')):
        file = os.open(stem + ending, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
        os.dup2(file, descriptor)
        os.close(file)
    sys.argv = [program]
    torch.manual_seed(0)
    runpy.run_path(program, run_name='__main__')


def main():
    folder, programs = sys.argv[1], sys.argv[2:]
    gc.freeze()  # garbage collection at a child's exit would copy all pages of torch
    failed = []
    for number, item in enumerate(programs):
        program, _, ranks = item.partition(':')
        ranks = int(ranks or os.environ['WORLD_SIZE'])
        if int(os.environ['RANK']) >= ranks:
            continue
        pid = os.fork()
        if pid == 0:
            try:
                run_child(program, folder, ranks, number)
            except BaseException:
                traceback.print_exc()
                sys.exit(1)
            sys.exit(0)
        if os.waitpid(pid, 0)[1] != 0:
            failed.append(program)
    sys.exit(f'failed: {failed}' if failed else 0)


if __name__ == '__main__':
    main()
