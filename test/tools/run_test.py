#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of ringcomm-run with small shell programs as ranks: run_test.py RINGCOMM_RUN CASE

Each case is a function below. Only the launcher is under test: no rank opens a communicator.
"""
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

RUN = sys.argv[1]
LIMIT = 30  # limit in seconds for each launcher


def run(*args, stdin=None, env=None, cpus=None):
    """Runs the launcher on those CPUs until it ends; returns (status, stdout, stderr, seconds)."""
    began = time.monotonic()
    limit = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
    done = subprocess.run([RUN, *args], stdin=stdin, capture_output=True, timeout=LIMIT, env=env,
                          preexec_fn=limit)
    return done.returncode, done.stdout, done.stderr, time.monotonic() - began


def sh(n, script, *options, **kwargs):
    return run('-n', str(n), *options, '--', '/bin/sh', '-c', script, **kwargs)


def equal(got, want, what):
    if got != want:
        sys.exit(f'{what}: got {got!r}, want {want!r}')


def true(condition, what):
    if not condition:
        sys.exit(what)


def sleepers(mark):
    """Returns the names, by pid, of processes with RUN_TEST_MARK=mark in their environment, without
    zombies."""
    found = {}
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/environ', 'rb') as f:
                environ = f.read().split(b'\0')
            with open(f'/proc/{pid}/stat') as f:
                name, rest = f.read().split('(', 1)[1].rsplit(')', 1)
        except OSError:
            continue
        if b'RUN_TEST_MARK=' + mark.encode() in environ and rest.split()[0] != 'Z':
            found[int(pid)] = name
    return found


class Started:
    """A launcher in the background, whose ranks are found by a mark in their environment."""

    def __init__(self, n, script, *options):
        self.mark = f'{os.getpid()}.{time.monotonic_ns()}'
        self.proc = subprocess.Popen(
            [RUN, '-n', str(n), *options, '--', '/bin/sh', '-c', script],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=dict(os.environ, RUN_TEST_MARK=self.mark))
        self.began = time.monotonic()

    def wait_lines(self, count):
        """Reads that many lines of stdout, which shows that the ranks run."""
        return [self.proc.stdout.readline() for _ in range(count)]

    def end(self):
        out, err = self.proc.communicate(timeout=LIMIT)
        return self.proc.returncode, out, err

    def descendants(self):
        """Ranks and their children, without the launcher and its keeper."""
        return [pid for pid, name in sleepers(self.mark).items()
                if pid != self.proc.pid and name != 'ringcomm-keeper']

    def expect_nobody(self, seconds):
        deadline = time.monotonic() + seconds
        while sleepers(self.mark) and time.monotonic() < deadline:
            time.sleep(0.05)
        left = sleepers(self.mark)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        true(not left, f'processes {left} are left over')


# ---- Environment and output -------------------------------------------------------------------


def case_environment():
    env = {k: v for k, v in os.environ.items() if k != 'OMP_NUM_THREADS'}
    env.update(RANK='77', WORLD_SIZE='99', RINGCOMM_URL='tcp://elsewhere:1', RINGCOMM_JOB_ID='x',
               KEPT='as it was')
    status, out, err, _ = run('-n', '2', '--', 'env', env=env)
    equal((status, err), (0, b''), 'status and stderr')
    lines = out.decode().splitlines()
    for rank in range(2):
        prefix = f'[{rank}] '
        mine = [line[len(prefix):] for line in lines if line.startswith(prefix)]
        got = dict(line.split('=', 1) for line in mine if '=' in line)
        names = [line.split('=', 1)[0] for line in mine if '=' in line]
        equal(names.count('RANK'), 1, 'times RANK is set')
        want = {'RANK': str(rank), 'WORLD_SIZE': '2', 'LOCAL_RANK': str(rank),
                'LOCAL_WORLD_SIZE': '2', 'GROUP_RANK': '0', 'MASTER_ADDR': '127.0.0.1',
                'TORCHELASTIC_USE_AGENT_STORE': 'True', 'OMP_NUM_THREADS': '1',
                'RINGCOMM_RANK': str(rank), 'RINGCOMM_WORLD_SIZE': '2',
                'RINGCOMM_LOCAL_RANK': str(rank), 'RINGCOMM_LOCAL_WORLD_SIZE': '2',
                'KEPT': 'as it was'}
        for name, value in want.items():
            equal(got.get(name), value, f'{name} of rank {rank}')
        port = got['MASTER_PORT']
        true(0 < int(port) < 65536, f'MASTER_PORT {port}')
        equal(got['RINGCOMM_URL'], f'tcp://127.0.0.1:{port}?server=0', 'RINGCOMM_URL')
        true(got['TORCHELASTIC_RUN_ID'], 'TORCHELASTIC_RUN_ID is empty')
        true(len(got['RINGCOMM_JOB_ID']) > 16, 'RINGCOMM_JOB_ID is too short to be unique')
        equal(got['RINGCOMM_JOB_ID'], got['TORCHELASTIC_RUN_ID'], 'RINGCOMM_JOB_ID')
    env['OMP_NUM_THREADS'] = '5'
    _, out, _, _ = sh(1, 'echo $OMP_NUM_THREADS', env=env)
    equal(out, b'[0] 5\n', 'an OMP_NUM_THREADS that was set')


def case_store():
    """A server listens at the port in the environment while ranks run."""
    code = ('import os, socket; '
            's = socket.create_connection(("127.0.0.1", int(os.environ["MASTER_PORT"])), 5); '
            'print("connected")')
    status, out, err, _ = run('-n', '2', '--', sys.executable, '-c', code)
    equal((status, sorted(out.splitlines())), (0, [b'[0] connected', b'[1] connected']), err)


def case_prefixes():
    status, out, err, _ = sh(3, 'echo out $RANK; echo err $RANK >&2; echo; printf last$RANK')
    equal(status, 0, 'status')
    for rank in range(3):
        p = b'[%d] ' % rank
        mine = [line for line in out.splitlines(True) if line.startswith(p)]
        equal(mine, [p + b'out %d\n' % rank, p + b'\n', p + b'last%d\n' % rank], 'stdout')
        mine = [line for line in err.splitlines(True) if line.startswith(p)]
        equal(mine, [p + b'err %d\n' % rank], 'stderr')
    equal(len(out.splitlines()), 9, 'lines of stdout')


def case_binary():
    """Binary data pass unchanged, a missing last newline is added, logs are exact."""
    data = bytes(b for b in range(256) if b != 10) * 3
    with tempfile.TemporaryDirectory() as d:
        with open(f'{d}/data', 'wb') as f:
            f.write(data)
        logs = f'{d}/a/b'
        status, out, err, _ = sh(2, f'cat {d}/data; cat {d}/data >&2', '--log-dir', logs)
        equal(status, 0, 'status')
        equal(sorted(out.split(b'\n')), sorted([b'[0] ' + data, b'[1] ' + data, b'']), 'stdout')
        equal(sorted(err.split(b'\n')), sorted([b'[0] ' + data, b'[1] ' + data, b'']), 'stderr')
        for name in 'rank_0.out', 'rank_0.err', 'rank_1.out', 'rank_1.err':
            with open(f'{logs}/{name}', 'rb') as f:
                equal(f.read(), data, name)


def case_long_lines():
    script = "head -c 100000 /dev/zero | tr '\\0' x; echo; echo end"
    status, out, _, _ = sh(4, script)
    equal(status, 0, 'status')
    want = [b'[%d] ' % r + text for r in range(4) for text in (b'x' * 100000, b'end')]
    equal(sorted(out.splitlines()), sorted(want), 'lines')
    # 3 MB without a newline: cut into pieces with the prefix, nothing is lost.
    _, out, _, _ = sh(1, "head -c 3000000 /dev/zero | tr '\\0' y")
    equal(sum(line.count(b'y') for line in out.splitlines()), 3000000, 'bytes')
    true(all(line.startswith(b'[0] y') for line in out.splitlines()), 'a piece without prefix')


def case_much_output():
    status, out, _, _ = sh(4, 'seq 200000')
    equal(status, 0, 'status')
    lines = out.splitlines()
    equal(len(lines), 800000, 'lines')
    for rank in range(4):
        p = b'[%d] ' % rank
        mine = [line[4:] for line in lines if line.startswith(p)]
        equal(mine, [b'%d' % i for i in range(1, 200001)], f'numbers of rank {rank}')


def case_slow_reader():
    """A reader that stops reading must not stop the launcher's deadline."""
    job = Started(2, 'yes', '--timeout', '1')
    time.sleep(2.5)
    equal(job.descendants(), [], 'ranks after the time was up, without a reader')
    job.proc.stdout.read(100)
    status, _, err = job.end()
    equal(status, 124, err)


def case_closed_reader():
    job = Started(2, 'yes')
    job.wait_lines(2)
    job.proc.stdout.close()
    equal(job.proc.wait(LIMIT), 128 + signal.SIGPIPE, 'status')
    job.expect_nobody(1)


def case_full_disk():
    with open('/dev/full', 'wb') as full:
        done = subprocess.run([RUN, '-n', '2', '--', 'yes'], stdout=full, stderr=subprocess.PIPE,
                              timeout=LIMIT, check=False)
    equal(done.returncode, 1, done.stderr)
    equal(done.stderr, b'ringcomm-run: cannot write the output: No space left on device\n', 'why')


def case_stdin():
    with open('/proc/self/status', 'rb') as stdin:
        status, out, err, _ = sh(2, 'cat; readlink /proc/self/fd/0', stdin=stdin)
    equal((status, sorted(out.splitlines())), (0, [b'[0] /dev/null', b'[1] /dev/null']), err)


def case_descriptors():
    """Ranks inherit descriptors 0, 1, 2 and no others."""
    _, out, _, _ = run('-n', '3', '--', 'ls', '/proc/self/fd')
    numbers = {line.split()[1] for line in out.splitlines()}
    equal(numbers, {b'0', b'1', b'2', b'3'}, 'descriptors (3 is the folder ls reads)')


# ---- Exit status and messages -------------------------------------------------------------------


def case_exit_codes():
    equal(sh(3, 'exit 0')[0], 0, 'all well')
    equal(sh(3, 'test $RANK = 1 && exit 7; exec sleep 20')[0], 7, 'one exits with 7')
    equal(sh(1, 'kill -9 $$')[0], 137, 'killed by 9')
    equal(sh(1, 'kill -SEGV $$')[0], 139, 'killed by 11')


def case_not_found():
    status, out, err, _ = run('-n', '3', '--', 'no-such-program-here')
    equal((status, out), (127, b''), 'status and stdout')
    equal(err, b"ringcomm-run: cannot run 'no-such-program-here' (rank 0): "
               b"No such file or directory\n", 'stderr')
    status, _, err, _ = run('-n', '3', '--', '/etc/passwd')
    equal(status, 126, err)
    true(b'Permission denied' in err, err)


def case_usage():
    for args, word in (([], b'-n N'), (['-n', '2'], b'program'), (['-n', '0', 'true'], b"'0'"),
                       (['-n', '2x', 'true'], b"'2x'"), (['-n', '-1', 'true'], b"'-1'"),
                       (['-n', '1', '--timeout', 'soon', 'true'], b"'soon'"),
                       (['-n', '1', '--bind', 'cpu', 'true'], b"auto, core or none, not 'cpu'")):
        status, out, err, _ = run(*args)
        true(status == 2 and word in err and out == b'', f'{args}: {status} {err!r}')
    status, out, _, _ = run('--help')
    true(status == 0 and b'Examples:' in out, '--help')


def case_failed_first():
    script = 'echo before >&2; test $RANK = 2 && { echo why >&2; exit 3; }; exec sleep 20'
    status, _, err, seconds = sh(4, script)
    equal(status, 3, 'status')
    true(seconds < 10, f'took {seconds} s')
    match = re.search(rb'ringcomm-run: rank 2 \(pid \d+\) failed first: exited with status 3; '
                      rb'the last lines of its stderr:\n  \| before\n  \| why\n$', err)
    true(match, err)


def case_tail():
    """Only the last lines of a long stderr are repeated."""
    _, _, err, _ = sh(1, 'seq 1000 >&2; exit 1')
    last = err.split(b'of its stderr:\n')[1]
    equal(last, b''.join(b'  | %d\n' % i for i in range(993, 1001)), 'last lines')
    _, _, err, _ = sh(1, 'exit 1')
    true(err.endswith(b'failed first: exited with status 1\n'), err)


# ---- Death --------------------------------------------------------------------------------------


def case_kill_one():
    job = Started(4, 'echo $RANK $$; while :; do sleep 0.2; done')
    pids = {int(line.split()[1]): int(line.split()[2]) for line in job.wait_lines(4)}
    killed = time.monotonic()
    os.kill(pids[2], signal.SIGKILL)
    status, _, err = job.end()
    equal(status, 137, err)
    true(time.monotonic() - killed < 3, 'ranks that obey SIGTERM were not stopped at once')
    words = b'ringcomm-run: rank 2 (pid %d) failed first: killed by signal 9 (Killed)\n'
    true(words % pids[2] in err, err)
    job.expect_nobody(0)


def case_stubborn():
    """A rank that ignores SIGTERM is killed 3 s later, together with its children."""
    job = Started(2, 'trap "" TERM; echo; test $RANK = 0 && sleep 0.5 && exit 5; '
                  'sleep 100; sleep 100')
    job.wait_lines(2)
    began = time.monotonic()
    status, _, err = job.end()
    equal(status, 5, err)
    seconds = time.monotonic() - began
    true(2.9 < seconds < 8, f'took {seconds} s')
    job.expect_nobody(0)


def case_keep_going():
    script = 'case $RANK in 0) exit 3 ;; 1) kill -9 $$ ;; 2) sleep 1; echo here; exit 0 ;; esac'
    status, out, err, _ = sh(3, script, '--keep-going')
    equal(status, 0, 'status with a rank that ends well')
    true(b'here' in out, 'rank 2 was not stopped')
    true(b'rank 0' in err and b'exited with status 3' in err and b'killed by signal 9' in err,
         f'both failures are reported: {err!r}')
    status, out, err, _ = sh(2, 'sleep $RANK; exit $((4 + RANK))', '--keep-going')
    equal(status, 4, 'status when all fail: that of the first')
    status, out, err, _ = sh(2, 'sleep 20', '--keep-going', '--timeout', '1')
    equal(status, 124, 'status when the time is up')


def case_stopped():
    """A rank stopped by SIGSTOP is ended, too."""
    job = Started(2, 'echo $RANK $$; test $RANK = 0 && sleep 0.5 && exit 4; exec sleep 100')
    pids = {int(line.split()[1]): int(line.split()[2]) for line in job.wait_lines(2)}
    os.kill(pids[1], signal.SIGSTOP)
    status, _, err = job.end()
    equal(status, 4, err)
    job.expect_nobody(0)


def case_leftovers():
    """Children of a rank that ended well neither outlive it nor hold the launcher."""
    job = Started(2, 'sleep 100 & sleep 100 >/dev/null 2>&1 & exit 0')
    status, _, err = job.end()
    equal(status, 0, err)
    true(time.monotonic() - job.began < 6, 'the launcher waited for the leftovers')
    job.expect_nobody(1)


def case_timeout():
    job = Started(3, 'test $RANK = 0 && exit 0; exec sleep 100', '--timeout', '0.7')
    status, _, err = job.end()
    equal(status, 124, err)
    equal(err, b'ringcomm-run: timeout after 0.7 s, stopping the ranks that still run: 1 2\n',
          'stderr')
    true(time.monotonic() - job.began < 3.5, 'took too long')
    job.expect_nobody(0)
    equal(sh(2, 'exit 0', '--timeout', '20')[0], 0, 'in time')


def case_launcher_killed():
    """kill -9 of the launcher ends the ranks and their children."""
    job = Started(3, 'sh -c "echo; sleep 100; echo" & wait; echo')
    job.wait_lines(3)
    true(len(job.descendants()) >= 6, 'ranks and their children run')
    job.proc.kill()
    job.proc.wait()
    job.expect_nobody(2)


def case_signals():
    """Each signal reaches every rank; if the ranks then end well, so does the launcher."""
    for sig, name in (signal.SIGINT, 'INT'), (signal.SIGTERM, 'TERM'), (signal.SIGHUP, 'HUP'):
        script = (f'trap "echo got {name}; kill \\$child; exit 0" {name}; sleep 100 & child=$!; '
                  'echo ready; wait')
        job = Started(3, script)
        job.wait_lines(3)
        job.proc.send_signal(sig)
        status, out, err = job.end()
        want = [b'[%d] got %s' % (r, name.encode()) for r in range(3)]
        equal((status, sorted(out.splitlines())), (0, want), err)
        job.expect_nobody(1)


def case_signal_default():
    job = Started(2, 'echo; exec sleep 100')
    job.wait_lines(2)
    job.proc.send_signal(signal.SIGINT)
    status, _, err = job.end()
    equal(status, 128 + signal.SIGINT, err)
    equal(err, b'ringcomm-run: ended by the forwarded signal 2 (Interrupt)\n', 'stderr')


def case_second_signal():
    """Ranks that do not end at the first SIGINT are stopped by the second."""
    job = Started(2, 'trap "echo again" INT; trap "exit 9" TERM; echo; while :; do sleep 0.1; done')
    job.wait_lines(2)
    job.proc.send_signal(signal.SIGINT)
    equal(sorted(job.wait_lines(2)), [b'[0] again\n', b'[1] again\n'], 'first SIGINT')
    time.sleep(0.3)
    equal(job.proc.poll(), None, 'launcher after the first SIGINT')
    job.proc.send_signal(signal.SIGINT)
    status, _, err = job.end()
    equal(status, 128 + signal.SIGINT, err)
    true(b'after a second signal 2 (Interrupt)' in err, err)
    job.expect_nobody(0)


def case_many():
    status, out, err, _ = sh(100, 'echo $RANK')
    equal(status, 0, err)
    equal(sorted(out.splitlines()), sorted(b'[%d] %d' % (r, r) for r in range(100)), 'output')


def case_few_descriptors():
    """Too few descriptors for so many ranks: an error, and the started ranks end."""
    limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
    began = time.monotonic()
    done = subprocess.run([RUN, '-n', '100', '--', 'sleep', '20'], capture_output=True,
                          timeout=LIMIT, preexec_fn=limit)
    true(done.returncode not in (0, -9), f'status {done.returncode}')
    true(b'Too many open files' in done.stderr, done.stderr)
    true(time.monotonic() - began < 10, 'took too long')


def case_nccl():
    """--nccl adds libnccl.so.2 after what LD_PRELOAD has, or names what is missing."""
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(RUN))), 'api')
    library = os.path.join(folder, 'nccl/libnccl.so.2')
    program = [sys.argv[3], 'LD_PRELOAD']
    status, out, err, _ = run('-n', '2', '--nccl', '--', *program, env={**os.environ, 'LD_PRELOAD': ''})
    if not os.path.exists(library):
        equal(status, 1, 'status without the library')
        true(b'-Dnccl=enabled' in err, err)
        return
    equal((status, sorted(out.decode().split())), (0, sorted(['[0]', '[1]', library, library])), 'LD_PRELOAD')
    other = '/lib/x86_64-linux-gnu/libutil.so.1'
    if os.path.exists(other):
        _, out, _, _ = run('-n', '1', '--nccl', '--', *program, env={**os.environ, 'LD_PRELOAD': other})
        equal(out.decode().strip(), f'[0] {other}:{library}', 'LD_PRELOAD with another library')


def case_limit_of_files():
    """Ranks get the hard limit of open files, which links to many ranks may need."""
    limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 777)))
    done = subprocess.run([RUN, '-n', '2', '--', 'sh', '-c', 'ulimit -n'], capture_output=True,
                          timeout=LIMIT, preexec_fn=limit)
    equal(done.returncode, 0, done.stderr)
    equal(sorted(done.stdout.splitlines()), [b'[0] 777', b'[1] 777'], 'limits')


# ---- Binding ------------------------------------------------------------------------------------


def numbers(text):
    """'0-2,8' -> {0, 1, 2, 8}"""
    found = set()
    for part in filter(None, text.strip().split(',')):
        first, _, last = part.partition('-')
        found.update(range(int(first), int(last or first) + 1))
    return found


def system(path, default):
    try:
        with open('/sys/devices/system/' + path, encoding='ascii') as f:
            return f.read()
    except OSError:
        return default


def cores_of(cpus):
    """The allowed part of each core when only those CPUs are allowed."""
    siblings = (system(f'cpu/cpu{cpu}/topology/thread_siblings_list', str(cpu)) for cpu in cpus)
    return {frozenset(numbers(text) & set(cpus)) for text in siblings}


def node_of(cpu):
    for name in filter(re.compile(r'node\d+$').match, os.listdir('/sys/devices/system/node')
                       if os.path.isdir('/sys/devices/system/node') else ()):
        if cpu in numbers(system(f'node/{name}/cpulist', '')):
            return name
    return None


def bound(n, cpus, *options, **kwargs):
    """The CPUs that each rank may run on."""
    code = 'import os; print(*os.sched_getaffinity(0))'
    status, out, err, _ = run('-n', str(n), *options, '--', sys.executable, '-S', '-c', code,
                              cpus=cpus, **kwargs)
    equal((status, err), (0, b''), f'status and stderr of -n {n} {options}')
    lines = dict(line.decode().split('] ') for line in out.splitlines())
    return [frozenset(map(int, lines[f'[{r}'].split())) for r in range(n)]


def masks():
    """Sets of CPUs for the launcher: one, another one, some from the whole machine."""
    cpus = sorted(os.sched_getaffinity(0))
    return {cpus[0]}, {cpus[-1]}, set(cpus[::max(1, len(cpus) // 6)][:6])


def case_bind_none():
    for cpus in masks():
        for n in 1, 3:
            equal(bound(n, cpus, '--bind', 'none'), [cpus] * n, f'{n} ranks on {cpus}')


def case_bind_core():
    for cpus in masks():
        cores = cores_of(cpus)
        for n, *options in ((1,), (2,), (3, '--bind', 'auto'), (3, '--bind', 'core'), (5,), (7,)):
            ranks, what = bound(n, cpus, *options), f'{n} ranks on {cpus} {options}'
            true(set(ranks) <= cores, f'{what}: {ranks} are not all cores')
            equal(len(set(ranks)), min(n, len(cores)), f'cores that are used by {what}')
            equal(ranks[len(cores):], ranks[:max(0, n - len(cores))], f'second round of {what}')
        nodes = [node_of(min(core)) for core in ranks[:len(cores)]]
        changes = sum(a != b for a, b in zip(nodes, nodes[1:]))
        equal(changes, len(set(nodes)) - 1, f'changes of the NUMA node along the ranks: {nodes}')


def case_bind_verbose():
    cpus = {min(os.sched_getaffinity(0))}
    _, _, err, _ = run('-n', '2', '--verbose', '--', 'true', cpus=cpus)
    want = rb'ringcomm-run: rank %%d is bound to core \d+ \(CPU %d, NUMA node \d*\)' % min(cpus)
    lines = err.splitlines()
    true(len(lines) == 2 and all(re.fullmatch(want % r, lines[r]) for r in range(2)), err)
    _, _, err, _ = run('-n', '2', '-v', '--bind', 'none', '--', 'true')
    equal(err, b'ringcomm-run: ranks are not bound: --bind none\n', 'without binding')


def impossible(env, why):
    """auto leaves the ranks unbound, core is an error with the reason."""
    cpus = set(os.sched_getaffinity(0))
    equal(bound(2, cpus, env=env), [cpus] * 2, 'unbound ranks')
    _, _, err, _ = run('-n', '2', '--verbose', '--', 'true', env=env)
    true(err.startswith(b'ringcomm-run: ranks are not bound: ' + why), err)
    status, out, err, _ = run('-n', '2', '--bind', 'core', '--', 'echo', 'here', env=env)
    equal((status, out), (1, b''), 'status and output of --bind core')
    true(err.startswith(b'ringcomm-run: --bind core: ' + why), err)


def case_bind_elsewhere():
    """hwloc describes another machine: cores are unknown."""
    impossible(dict(os.environ, HWLOC_SYNTHETIC='core:2 pu:2'), 
               b'HWLOC_XMLFILE or HWLOC_SYNTHETIC describes another machine')


def case_bind_without_hwloc():
    """Only in a build without hwloc."""
    impossible(None, b'this ringcomm-run was built without the library hwloc')


# ---- Children that are not ranks, ranks reaped by others ----------------------------------------


def case_first_process():
    """As process 1 of a PID namespace it reaps orphans and forwards signals."""
    wrapper = ['unshare', '--pid', '--fork', '--mount-proc']
    if subprocess.run([*wrapper, 'true'], capture_output=True).returncode:
        print('no right to make a PID namespace')
        sys.exit(77)

    def inside(script, status):
        done = subprocess.run([*wrapper, RUN, '-n', '2', '--', '/bin/sh', '-c', script],
                              capture_output=True, timeout=LIMIT)
        equal((done.returncode, done.stderr if status == 0 else b''), (status, b''), script)
        return done.stdout
    orphans = 'for i in 1 2 3 4 5; do sh -c "setsid sleep 0.1 &"; done; sleep 0.5; '
    # Waits until all are gone, ten seconds at most; the last line is the number left.
    zombies = ('for i in $(seq 100); do n=$(cat /proc/[0-9]*/status 2>/dev/null | '
               'grep -c "^State:.Z"); [ $n = 0 ] && break; sleep 0.1; done; echo zombies $n')
    output = inside(orphans + '[ $RANK = 1 ] && { sleep 1; exit 0; }; ' + zombies, 0)
    equal(output.count(b'zombies 0'), 1, output)
    inside('trap "exit 7" TERM; [ $RANK = 0 ] && { sleep 1; kill -TERM 1; }; sleep 20 & wait $!', 7)


def case_collected():
    """The parent may ignore SIGCHLD, which is inherited."""
    for status in 0, 3:
        done = subprocess.run([RUN, '-n', '3', '--', '/bin/sh', '-c', f'exit {status}'],
                              capture_output=True, timeout=LIMIT,
                              preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        equal(done.returncode, status, done.stderr)


def case_durations():
    """Bare numbers are seconds; us, ms, s, m, h are units; everything else is rejected."""
    for text in '0.2', '200ms', '0.2s', '200000us', '0.003m':
        equal(sh(1, 'sleep 30', '--timeout', text)[0], 124, text)
    equal(sh(1, 'exit 0', '--timeout', '1h')[0], 0, '1h')
    for text in '10M', '1K', '5x', 's', '', 'nan', 'inf', '1 s', '0':
        equal(sh(1, 'exit 0', '--timeout', text)[0], 2, text)


# ---- Idleness -----------------------------------------------------------------------------------


def case_idle():
    """While the ranks sleep, the launcher uses no CPU."""
    job = Started(4, 'echo; exec sleep 100')
    job.wait_lines(4)

    def ticks():
        with open(f'/proc/{job.proc.pid}/stat') as f:
            fields = f.read().rsplit(')', 1)[1].split()
        return int(fields[11]) + int(fields[12])
    before = ticks()
    time.sleep(2)
    used = ticks() - before
    job.proc.terminate()
    job.end()
    true(used <= 2, f'{used} ticks of CPU in 2 s of idleness')


if __name__ == '__main__':
    for sig in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        # The caller may ignore them (nohup, a background job), and a shell cannot trap a signal
        # that is ignored at its start.
        signal.signal(sig, signal.SIG_DFL)
    globals()['case_' + sys.argv[2]]()
