#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""environment_errors_test.py PROGRAM RUN: typical mistakes in a rank's environment. Each is
reported at once, with a text that names the mistake. PROGRAM is launched_rank.c, RUN is
ringcomm-run."""
import os
import random
import socket
import subprocess
import sys

LIMIT_S = 60  # generous: the test only shows that no rank waits for missing ones

program, run = map(os.path.abspath, sys.argv[1:3])


def port():
    """Returns a free port that the kernel does not choose for outgoing connections."""
    while True:
        with socket.socket() as s:
            number = random.randrange(12000, 32000)
            try:
                s.bind(('127.0.0.1', number))
                return str(number)
            except OSError:
                pass


PAIR = f'RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT={port()}'

# The output of one process with exactly this environment.
ALONE = [
    ('', 'RANK is not set; start the program with ringcomm-run -n 4 -- PROGRAM'),
    ('RANK=0', 'WORLD_SIZE is not set'),
    ('WORLD_SIZE=2', 'RANK is not set'),
    ('RANK=0 WORLD_SIZE=2', 'MASTER_ADDR is not set'),
    ('RANK=0 WORLD_SIZE=2 MASTER_ADDR=h', 'MASTER_PORT is not set'),
    ('RANK=2 WORLD_SIZE=2', 'rank 2 (RANK) is not below world size 2 (WORLD_SIZE)'),
    ('RANK=-1 WORLD_SIZE=2', 'RANK=-1 is not a number from 0'),
    ('RANK=0 WORLD_SIZE=two', 'WORLD_SIZE=two is not a number'),
    (PAIR + ' MASTER_PORT=http', 'MASTER_PORT=http is not a number from 1 to 65535'),
    (PAIR + ' MASTER_PORT=99999', 'MASTER_PORT=99999'),
    (PAIR + ' RANK=1 RINGCOMM_TIMEOUT=1', 'Connection refused'),
    (PAIR + ' RINGCOMM_TIMEOUT=1', 'rank 1 of 2 has not arrived'),
    (PAIR + ' RINGCOMM_TIMEOUT=1d', 'RINGCOMM_TIMEOUT=1d'),
    (PAIR + ' RINGCOMM_URL=127.0.0.1:29500', 'begins with none of tcp://'),
    (PAIR + ' RINGCOMM_URL=file://relative', 'write file:///path'),
    (PAIR + ' RINGCOMM_URL=file:///no/such/folder/f RINGCOMM_TIMEOUT=3',
     'its folder does not exist'),
    (PAIR + ' RINGCOMM_URL=hash:', 'a separate store for each of 2 ranks'),
    (PAIR + ' OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2', 'contradict each other'),
    ('SLURM_JOB_ID=7 SLURM_NTASKS=4', 'was not started by srun'),
]

LONG = 'all_reduce=' + 'ring:32K-,' * 20

# The output of ranks of ringcomm-run with this environment.
TOGETHER = [
    ('RINGCOMM_TRANSPORT=rdma', "RINGCOMM_TRANSPORT: there is no transport 'rdma'"),
    ('RINGCOMM_ALGORITHM=all_reduce=best', 'all_reduce has no algorithm "best". Choose one of'),
    (f'RINGCOMM_ALGORITHM={LONG}{"ring:32K-," * 30}ring', 'and RINGCOMM_ALGORITHM 515, some '),
    ('RINGCOMM_TRANSPORT=tcp RINGCOMM_IFACE=eth99', "RINGCOMM_IFACE is 'eth99'"),
    ('RINGCOMM_TRANSPORT=tcp RINGCOMM_PORTS=80-70', "RINGCOMM_PORTS is '80-70', not a range"),
    ('RINGCOMM_TRANSPORT=tcp RINGCOMM_PORTS=' + port(), 'no port of RINGCOMM_PORTS'),
    ('RINGCOMM_SECRET_FILE=/no/such/file', 'RINGCOMM_SECRET_FILE=/no/such/file'),
    ('RINGCOMM_SLOTS=0', 'RINGCOMM_SLOTS=0'),
]

# The same where only rank 1 has what follows `;`; both have what precedes it.
APART = [
    ('; RINGCOMM_SLOTS=16', 'settings differ: RINGCOMM_SLOTS='),
    ('; RINGCOMM_ALGORITHM=all_reduce=ring',
     'settings differ: RINGCOMM_ALGORITHM= on rank 0, RINGCOMM_ALGORITHM=all_reduce=ring on rank 1'),
    (f'RINGCOMM_ALGORITHM={LONG}ring:1-; RINGCOMM_ALGORITHM={LONG}ring:2-',
     'settings differ: RINGCOMM_ALGORITHM=all_reduce='),
    ('; RINGCOMM_JOB_ID=other', 'is of job ringcomm-'),
    ('RINGCOMM_SLOTS=8; RINGCOMM_TRANSPORT=tcp',
     'settings differ: RINGCOMM_TRANSPORT=auto on rank 0, RINGCOMM_TRANSPORT=tcp on rank 1'),
]


def output_of(environment, *command):
    env = dict(word.split('=', 1) for word in environment.split())
    env.update({k: v for k, v in os.environ.items() if k.endswith('SAN_OPTIONS')})
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False)
    return done.stdout, done.returncode


def output_of_two(environment, *command):
    both, second = environment.split(';')
    script = f'if [ $RANK = 1 ]; then export {second}; fi; exec "$@"'
    return output_of(both + f' PATH={os.environ["PATH"]}', *command[:-1], 'sh', '-c', script, 'sh',
                command[-1])


failed = 0
TWO = (run, '-n', '2', '--bind', 'none', '--', program)
for rows, how, command in (ALONE, output_of, (program,)), (TOGETHER, output_of, TWO), (APART, output_of_two, TWO):
    for environment, sentence in rows:
        output, status = how(environment, *command)
        if status not in (1,) or sentence not in output:
            failed += 1
            print(f'({environment}): status {status}, not "{sentence}":\n{output}')
print(f'{len(ALONE) + len(TOGETHER) + len(APART)} mistakes, {failed} not reported')
sys.exit(failed > 0)
