#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""guest_cases.py BUILD CASE...: cases of RDMA between simulated nodes, inside the virtual machine.

vm_test.py starts it there. Each case is a job of ranks on several nodes, whose devices are
soft-RoCE (see rdma-vm), or one of the test programs. For each it prints a line with its time; for a
failed one the output of its ranks. Measured times are printed; the asserted limits leave room for a
busy machine that emulates another one.
"""
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

# Delay allowed for errors with a deadline: the machine is emulated, and may be busy.
LATE_S = float(os.environ.get('RDMA_VM_LATE_S', '30'))
WAIT_S = 120  # for processes that must end by themselves
END_S = 10  # for a killed process
DEVICES = os.environ['RDMA_VM_DEVICES'].split()
RAILS = int(os.environ['RDMA_VM_RAILS'])
NODES = int(os.environ['RDMA_VM_NODES'])


class Failed(Exception):
    pass


def check(holds, sentence):
    if not holds:
        raise Failed(sentence)


def program(path):
    return os.path.join(BUILD, path)


def devices_of(node):
    return ','.join(DEVICES[node * RAILS:(node + 1) * RAILS])


def where(pid):
    try:
        with open(f'/proc/{pid}/stack', encoding='ascii', errors='replace') as stack:
            return ' < '.join(line.split()[-1] for line in stack)
    except OSError as error:
        return error


class Job:
    """Ranks of a program, `each` on every node; their output goes to files."""

    port = 29500
    started = []

    def __init__(self, words, each=2, nodes=NODES, env=None, env_of=None, user=()):
        self.name = os.path.basename(words[0])
        self.processes, self.files = [], []
        Job.port += 1
        Job.started.append(self)
        for rank in range(each * nodes):
            node = rank // each
            place = {'RANK': rank, 'WORLD_SIZE': each * nodes, 'MASTER_ADDR': '10.77.0.1',
                     'MASTER_PORT': Job.port, 'RINGCOMM_JOB_ID': f'job{Job.port}',
                     'RINGCOMM_HOST_ID': f'node{node}', 'RINGCOMM_VERBS_DEVICES': devices_of(node)}
            self.start(node, [*user, *map(str, words)],
                       {**place, **(env or {}), **(env_of or {}).get(node, {})})

    def start(self, node, words, env):
        file = tempfile.NamedTemporaryFile('w+', prefix='rank-')
        self.files.append(file)
        env = {**os.environ, **{name: str(value) for name, value in env.items()}}
        # A session of its own, so that all of it can be ended.
        self.processes.append(subprocess.Popen(
            ['on-node', str(node), *words], env=env, stdin=subprocess.DEVNULL, stdout=file,
            stderr=subprocess.STDOUT, start_new_session=True))

    def text(self, rank):
        self.files[rank].seek(0)
        return self.files[rank].read()

    def wait(self, seconds=WAIT_S):
        """Waits until all have ended; returns their statuses."""
        until = time.monotonic() + seconds
        for rank, process in enumerate(self.processes):
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise Failed(f'rank {rank} did not end within {seconds} s') from None
        return [process.returncode for process in self.processes]

    def wait_ready(self, seconds=WAIT_S):
        until = time.monotonic() + seconds
        while not all('ready\n' in self.text(rank) for rank in range(len(self.processes))):
            check(time.monotonic() < until, f'not ready after {seconds} s')
            time.sleep(0.02)

    def good(self, seconds=WAIT_S):
        for rank, status in enumerate(self.wait(seconds)):
            check(status == 0, f'rank {rank} ended with status {status}')
            check('wrong:' not in self.text(rank), f'rank {rank} got wrong data')
        return [self.text(rank) for rank in range(len(self.processes))]

    def show(self):
        for rank in range(len(self.processes)):
            for line in self.text(rank).splitlines()[-15:]:
                print(f'    [{self.name} {rank}] {line}')

    def end(self):
        """A process that does not end is stuck in the kernel; prints where."""
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        for rank, process in enumerate(self.processes):
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                print(f'    [{self.name} {rank}] was killed and does not end: {where(process.pid)}')


def value_of(text, line, key):
    found = re.search(rf'^{line} .*?\b{key}=(\S+)', text, re.M)
    check(found, f'no line "{line}" with {key}=')
    return found.group(1)


def rank_job(*words, **more):
    return Job([program('test/hosts/hosts-rank'), *words], **more)


def bench_job(*words, **more):
    return Job([program('tools/ringcomm-bench'), *words, '--check', '--counters'], **more)


def run(*words, seconds=120, env=None):
    """Runs a program that makes its own ranks, on all devices."""
    env = {**os.environ, 'RINGCOMM_VERBS_DEVICES': ','.join(DEVICES), **(env or {})}
    done = subprocess.run([program(words[0]), *map(str, words[1:])], env=env, timeout=seconds,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    check(done.returncode == 0, f'{words}: status {done.returncode}\n{done.stdout[-3000:]}')
    return done.stdout


# ---- Data -----------------------------------------------------------------------------------------

def case_conformance():
    text = run('test/transport/conformance', 'verbs', seconds=500, env={'RINGCOMM_LOG': 'error'})
    passed = sum(map(int, re.findall(r'\[  PASSED  \] (\d+) test', text)))
    print(f'{passed} cases passed')
    check(passed > 40, 'it ran too few cases')


def check_transports(texts, between, each=2):
    for rank, text in enumerate(texts):
        for peer in range(len(texts)):
            want = 'shm' if peer // each == rank // each else between
            got = re.search(rf'^transport peer={peer} name=(\w*)$', text, re.M)
            check(peer == rank or got and got.group(1) == want,
                  f'ranks {rank} and {peer}: {got and got.group(1)}, not {want}')


def case_transports():
    """Shared memory inside a node, RDMA between nodes."""
    check_transports(rank_job('work').good(), 'verbs')


def counted(texts):
    """Messages by transport, over all ranks."""
    counts = dict(re.findall(r'# counters: (\w+): (\d+) messages', texts[0]))
    print(' '.join(f'{name}={n}' for name, n in counts.items()))
    return {name: int(n) for name, n in counts.items()}


def bench(*words, seconds=WAIT_S, **more):
    counts = counted(bench_job(*words, **more).good(seconds))
    check(counts.get('shm', 0) > 0 and counts.get('verbs', 0) > 0 and not counts.get('tcp'),
          'data used another transport')


def case_collectives():
    bench('all', '-n', 2, '-w', 0, '-b', 4, '-e', '1M', '-f', 64)


def case_large():
    bench('all_reduce', '-n', 1, '-w', 0, '-b', '16M', '-e', '16M')


# ---- Cables ---------------------------------------------------------------------------------------

def cable(device, way):
    """Packets that the device sends are dropped before the carrier goes. An interface that loses
    its carrier rejects packets for a moment, and soft-RoCE of Linux 6.1 can retry a rejected packet
    forever, see README.md."""
    steps = [['tc', 'qdisc', 'add' if way == 'down' else 'del', 'dev', f'rnic{device}', 'root', 'blackhole'],
             ['ip', 'link', 'set', f'rport{device}', way]]
    for step in steps if way == 'down' else reversed(steps):
        subprocess.run(step, check=True, timeout=WAIT_S)


def cut(words, timeout, ranks):
    """The cable of node 1 is pulled: each of these ranks reports an error in time that names
    another rank, possibly one that it got from a peer while their link still worked."""
    job = rank_job(*words, env={'RINGCOMM_PEER_TIMEOUT': str(timeout)})
    job.wait_ready()
    time.sleep(0.3)
    began = time.monotonic()
    cable(RAILS, 'down')
    try:
        job.wait(timeout + WAIT_S)
    finally:
        cable(RAILS, 'up')
    after = [float(value_of(job.text(r), 'error', 'at')) - began for r in ranks]
    print('named after ' + ', '.join(f'{s:.2f}' for s in after) + ' s')
    for rank, seconds in zip(ranks, after):
        text = job.text(rank)
        origin = int(value_of(text, 'error', 'origin'))
        check(origin not in (rank, -1), f'rank {rank} names rank {origin}')
        check(re.search(rf'^error .*RDMA with rank \d .*failed \(.*RINGCOMM_PEER_TIMEOUT', text, re.M),
              f'rank {rank} has another error: {text}')
        check(timeout / 4 < seconds < timeout + LATE_S, f'rank {rank} got the error after {seconds:.2f} s')


def case_cut():
    """During an all_reduce."""
    cut(['loop', 60, 200000], 4, range(4))


def case_cut_receiver():
    """Rank 1 only receives, and all others are idle."""
    cut(['await', 2, 1000], 4, [1])


def case_cut_short():
    """A cable that is back within half of the time causes no error."""
    job = rank_job('loop', 10, 50000, env={'RINGCOMM_PEER_TIMEOUT': '20'})
    job.wait_ready()
    time.sleep(0.3)
    cable(RAILS, 'down')
    time.sleep(3)
    cable(RAILS, 'up')
    longest = [float(value_of(text, 'loop', 'longest')) for text in job.good()]
    print(f'the operation took {max(longest):.2f} s')
    check(min(longest) > 2, 'the cut had no effect')


# ---- Errors ---------------------------------------------------------------------------------------

LITTLE_MEMORY = ['bash', '-c', 'ulimit -l 64; exec setpriv --reuid 65534 --regid 65534 --clear-groups '
                 '"$@"', 'bash']
NOT_HERE = {'RINGCOMM_VERBS_DEVICES': 'rxe77'}


def refused(sentence, env_of=None, user=()):
    """Without RDMA on node 1 the job uses TCP; if the settings demand RDMA it fails; both report
    the reason. With one rank per node: processes start slowly in the guest."""
    more = {'each': 1, 'env_of': env_of, 'user': user}
    texts = rank_job('work', env={'RINGCOMM_LOG': 'info'}, **more).good()
    check_transports(texts, 'tcp', each=1)
    demanding = rank_job('work', env={'RINGCOMM_TRANSPORT': 'shm,verbs'}, **more)
    check(all(status != 0 for status in demanding.wait()), 'a rank works without the demanded transport')
    for text in ('\n'.join(texts), '\n'.join(map(demanding.text, range(len(demanding.processes))))):
        found = re.search(rf'.*{sentence}.*', text)
        check(found, f'no rank reports "{sentence}":\n{text[-2000:]}')
        print(found.group(0)[:220])


def case_memory_locked():
    refused(r'needs \d+ bytes of locked memory.*ulimit -l', user=LITTLE_MEMORY)


def case_wrong_address():
    refused(r'RINGCOMM_VERBS_GID_INDEX', env_of={1: {'RINGCOMM_VERBS_GID_INDEX': '77'}})


def case_one_side():
    refused(r'port is one of RINGCOMM_VERBS_DEVICES', env_of={1: NOT_HERE})


# ---- Long -----------------------------------------------------------------------------------------

def netem(words):
    for i in range(len(DEVICES)):
        subprocess.run(['tc', 'qdisc', *('replace' if words else 'del',), 'dev', f'rnic{i}', 'root',
                        *(['netem', *words.split()] if words else [])], check=True)


def shaped(words):
    netem(words)
    try:
        bench('all', '-n', 1, '-w', 0, '-b', 64, '-e', '64K', '-f', 32, seconds=400)
    finally:
        netem('')


def case_loss():
    shaped('loss 2%')


def case_delay():
    shaped('delay 1ms')


def harness(fault, rounds, deadline, ranks='2,3,4', seconds=400):
    print(run('test/fault/fault-random', '--transport', 'verbs', '--fault', fault, '--ranks', ranks,
              '--deadline', deadline, '--rounds', rounds, seconds=seconds).splitlines()[-1])


def case_kills():
    """At random moments, over nodes: each survivor names the killed rank."""
    for number in range(20):
        job = rank_job('loop', 60, 20000)
        job.wait_ready()
        time.sleep(random.random())
        victim = random.randrange(len(job.processes))
        began = time.monotonic()
        os.killpg(job.processes[victim].pid, signal.SIGKILL)
        job.wait()
        after = [check_named(job, rank, victim) - began
                 for rank in range(len(job.processes)) if rank != victim]
        print(f'{number}: rank {victim} was killed, and named after {max(after):.2f} s')
        check(max(after) < LATE_S, 'too late')


def check_named(job, rank, victim):
    text = job.text(rank)
    check(value_of(text, 'error', 'status') == 'RCM_ERR_PEER', f'rank {rank}: another status')
    origin = int(value_of(text, 'error', 'origin'))
    check(origin == victim, f'rank {rank} names rank {origin}, not {victim}')
    return float(value_of(text, 'error', 'at'))


def case_stopped():
    """A rank that is stopped for longer than RINGCOMM_PEER_TIMEOUT is waited for."""
    job = rank_job('loop', 8, 20000, env={'RINGCOMM_PEER_TIMEOUT': '2'})
    job.wait_ready()
    time.sleep(0.3)
    os.killpg(job.processes[2].pid, signal.SIGSTOP)
    time.sleep(5)
    os.killpg(job.processes[2].pid, signal.SIGCONT)
    longest = [float(value_of(text, 'loop', 'longest')) for text in job.good()]
    check(min(longest) > 4, 'nothing was stopped')


def case_faults():
    for fault, rounds, deadline in (('kill', 9, 20000), ('stop', 6, 4000), ('freeze', 6, 6000),
                                    ('cut', 6, 20000), ('delay', 6, 20000), ('link', 6, 20000)):
        harness(fault, rounds, deadline)


def case_chaos():
    for n in (2, 3):
        run('test/fault/chaos-matrix', 'chaos:verbs', 'processes', n, seconds=300,
            env={'RINGCOMM_CHAOS': f'seed={n},delay=1000,often=10', 'RINGCOMM_LOG': 'error'})


def case_stress():
    print(run('test/stress', '--transport', 'verbs', '--seed', 0, '--seconds', 180,
              seconds=400).splitlines()[-1])


# ---------------------------------------------------------------------------------------------------

def run_case(name):
    began = time.monotonic()
    print(f'== {name}', flush=True)
    with open('/dev/kmsg', 'w', encoding='ascii') as log:
        log.write(f'rdma-vm case {name}')  # read by vm_test.py
    try:
        globals()[f'case_{name.replace("-", "_")}']()
        good = True
    except (Failed, subprocess.SubprocessError) as error:
        print(f'FAIL {name}: {error}')
        Job.started[-1].show() if Job.started else None
        good = False
    for job in Job.started:
        job.end()
    Job.started.clear()
    print(f'== {name}: {"ok" if good else "FAILED"} after {time.monotonic() - began:.1f} s', flush=True)
    return good


BUILD = sys.argv[1]
sys.exit(0 if all([run_case(name) for name in sys.argv[2:]]) else 1)
