#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""real_launchers_test.py LAUNCHER PROGRAM: four ranks of PROGRAM (launched_rank.c) under a real
launcher, with the launcher's own environment only.

LAUNCHER is one of the test_ functions below. Exit status 77, with a reason, where it is not
installed. TORCHRUN names a torchrun that is not in PATH. For slurm the test starts a cluster of one
machine in a temporary folder, on free ports, and ends it.
"""
import concurrent.futures
import ctypes
import glob
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

RANKS = 4
LIMIT_S = 90


def skip(sentence):
    print(f'skipped: {sentence}')
    sys.exit(77)


def need(*names):
    for name in names:
        path = shutil.which(name, path=os.environ['PATH'] + ':/usr/sbin:/sbin')
        if not path:
            skip(f'{name} is not installed')
        yield path


def clean_environment():
    """Without the variables of a launcher that may run the tests."""
    ours = re.compile(r'(RINGCOMM|OMPI|PMI|PMIX|SLURM|TORCHELASTIC|MASTER|MPI)_|'
                      r'(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)$')
    env = {k: v for k, v in os.environ.items() if not ours.match(k)}
    supp = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'libpmix.supp')
    env['LSAN_OPTIONS'] = f'suppressions={supp}:print_suppressions=0'
    return env


def run(command, env=None, limit=LIMIT_S):
    """Returns output and status; the process group ends with the call."""
    print('$', ' '.join(command), flush=True)
    process = subprocess.Popen(command, env=env or clean_environment(), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               start_new_session=True)
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        print(output)
        sys.exit(f'still running after {limit} s')
    print(output, flush=True)
    return output, process.returncode


def check(output, status, ranks=RANKS, by=None):
    """Checks that all ranks met; by: the means that each logs under RINGCOMM_LOG=info."""
    met = sorted(int(r) for r in re.findall(rf'rank (\d+) of {ranks}: ok', output))
    if status != 0 or met != list(range(ranks)):
        sys.exit(f'status {status}, ranks {met}')
    if by and len(re.findall(f'store from {by}', output)) < ranks:
        sys.exit(f'not by {by}')


def with_log(**more):
    return dict(clean_environment(), RINGCOMM_LOG='info', **more)


def openmpi_words():
    """mpirun with options for running here: as root, and on fewer cores than ranks."""
    words = [*need('mpirun.openmpi'), '--oversubscribe']
    return words + (['--allow-run-as-root'] if os.geteuid() == 0 else [])


PMIX_NAMES = ['PMIX_NAMESPACE', 'PMIX_RANK']
OMPI_NAMES = ['OMPI_COMM_WORLD_' + n for n in ('RANK', 'SIZE', 'LOCAL_RANK', 'LOCAL_SIZE')]


def without(*names):
    return ['env', *(word for name in names for word in ('-u', name))]


def test_openmpi(program):
    """mpirun's session directory, where PMIx is not offered."""
    with tempfile.TemporaryDirectory(prefix='ringcomm-launch-') as folder:
        words = [*openmpi_words(), '-n', str(RANKS)]
        check(*run([*words, *without(*PMIX_NAMES), program], with_log(TMPDIR=folder)),
              by="Open MPI's session directory")
        # An invalid library: the session directory is used.
        with open(f'{folder}/libpmix.so.2', 'wb'):
            pass
        check(*run([*words, 'env', f'LD_LIBRARY_PATH={folder}', program], with_log(TMPDIR=folder)),
              by="Open MPI's session directory")
        left = glob.glob(f'{folder}/**/*ringcomm*', recursive=True)
        if left:
            sys.exit(f'left behind: {left}')


def need_pmix():
    """Debian's Open MPI is linked with it; another may bring its own under another name."""
    try:
        ctypes.CDLL('libpmix.so.2')
    except OSError as e:
        skip(f'libpmix.so.2 is not installed: {e}')


def test_openmpi_pmix(program):
    """mpirun's PMIx server; also where only PMIx sets rank and size, and with a rank that does not
    come."""
    words = [*openmpi_words(), '-n', str(RANKS)]
    need_pmix()
    check(*run([*words, program], with_log()), by='PMIx')
    check(*run([*words, *without(*OMPI_NAMES), program], with_log()), by='PMIx')
    alone = ['sh', '-c', '[ $OMPI_COMM_WORLD_RANK != 0 ] || sleep 2; '
             '[ $OMPI_COMM_WORLD_RANK = 0 ] || exec "$0"', program]
    output, status = run([*words, *alone], with_log(RINGCOMM_TIMEOUT='1'))
    if status == 0 or 'not all ranks of the job have called rcm_init' not in output:
        sys.exit('the missing rank is not reported')


def test_openmpi_hosts(program):
    """Two machines for mpirun, each with a daemon of its own: this machine under two names."""
    words = openmpi_words()
    need_pmix()
    names = ['unshare', '--uts'] + ([] if os.geteuid() == 0 else ['--user', '--map-root-user'])
    if subprocess.run([*names, 'hostname', 'x'], check=False, capture_output=True).returncode != 0:
        skip('this machine cannot get another name here (unshare --uts)')
    with tempfile.TemporaryDirectory(prefix='ringcomm-launch-') as folder:
        agent = f'{folder}/rsh'  # rsh HOST COMMAND...
        with open(agent, 'w', encoding='utf-8') as f:
            f.write(f'#!/bin/sh\nhost=$1; shift\nexec {" ".join(names)} '
                    'sh -c "hostname $host; exec sh -c \\"\\$0\\"" "$*"\n')
        os.chmod(agent, 0o700)
        words += ['--mca', 'plm_rsh_agent', agent, '-n', str(RANKS), '--host',
                  f'{socket.gethostname()}:2,ringcomm-other:2']
        check(*run([*words, program], with_log(TMPDIR=folder)), by='PMIx')
        output, status = run([*words, *without(*PMIX_NAMES), program], with_log(TMPDIR=folder))
        if status == 0 or 'Open MPI started 2 of 4 ranks on this machine' not in output:
            sys.exit('the other machine is not reported')


def test_mpich(program):
    words = [*need('mpirun.mpich'), '-n', str(RANKS), program]
    check(*run(words))
    # At a fixed address the store of each round follows that of the last one. Several times:
    # without protection, a rank that is ahead sometimes joins the old store.
    for _ in range(8):
        check(*run(words, dict(clean_environment(), MASTER_ADDR='127.0.0.1',
                               MASTER_PORT=str(free_port()))))


def test_mpich_hosts(program):
    """Two names of this machine: Hydra takes them for two machines, so ranks use its real
    addresses."""
    addresses = subprocess.run(['hostname', '-I'], check=False, capture_output=True).stdout.split()
    if not addresses:
        skip('this machine has no address but loopback')
    check(*run([*need('mpirun.mpich'), '-launcher', 'fork', '-hosts', 'localhost,127.0.0.1', '-n',
                str(RANKS), program]))


def test_torchrun(program):
    torchrun = os.environ.get('TORCHRUN') or shutil.which('torchrun')
    if not torchrun:
        skip('torchrun is not installed (pip install torch)')
    words = [torchrun, '--no_python']  # torch 1.13 accepts no hyphens here
    one = [*words, '--nproc_per_node', str(RANKS)]
    check(*run([*one, '--standalone', program]))  # the agent serves the store
    check(*run([*one, '--master_port', str(free_port()), program]))
    two_nodes([*words, '--nproc_per_node', str(RANKS // 2), '--nnodes', '2'], program)


def two_nodes(words, program):
    """Two torchruns that find each other at an address, as on two machines."""
    static = ['--master_addr', '127.0.0.1', '--master_port', str(free_port())]
    c10d = ['--rdzv_backend', 'c10d', '--rdzv_endpoint', f'127.0.0.1:{free_port()}',
            '--rdzv_id', 'ringcomm']
    for meeting in static, c10d:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            ran = [*pool.map(lambda node: run(
                [*words, *meeting, '--node_rank', str(node), program], with_log()), range(2))]
        check(''.join(output for output, _ in ran), sum(status for _, status in ran))


# ---- Slurm --------------------------------------------------------------------------------------

def free_port():
    """Returns a port that the kernel does not choose for outgoing connections."""
    while True:
        with socket.socket() as s:
            number = random.randrange(12000, 32000)
            try:
                s.bind(('127.0.0.1', number))
                return number
            except OSError:
                pass


def slurm_conf(folder):
    name, user = socket.gethostname().split('.')[0], subprocess.getoutput('id -un')
    os.makedirs(f'{folder}/state')
    os.makedirs(f'{folder}/spool')
    with open(f'{folder}/slurm.conf', 'w', encoding='utf-8') as f:
        f.write(f"""ClusterName=ringcomm
SlurmctldHost={name}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
NodeName={name} NodeAddr=127.0.0.1 CPUs=8 SocketsPerBoard=8 CoresPerSocket=1 ThreadsPerCore=1
PartitionName=p Nodes=ALL Default=YES State=UP
""")


class Cluster:
    """munged, slurmctld and slurmd in the foreground, as our children."""

    def __init__(self, folder):
        self.folder, self.children = folder, []
        self.env = dict(clean_environment(), SLURM_CONF=f'{folder}/slurm.conf')

    def start(self, *command):
        with open(f'{self.folder}/{os.path.basename(command[0])}.log', 'wb') as log:
            self.children.append(subprocess.Popen(command, env=self.env, stdout=log, stderr=log,
                                                  stdin=subprocess.DEVNULL))

    def bring_up(self, munged, slurmctld, slurmd, sinfo):
        slurm_conf(self.folder)
        key = f'{self.folder}/munge.key'
        with open(key, 'wb') as f:
            f.write(os.urandom(128))
        os.chmod(key, 0o600)
        self.start(munged, '--foreground', '--force', f'--key-file={key}',
                   f'--socket={self.folder}/munge.socket', f'--pid-file={self.folder}/munged.pid',
                   f'--seed-file={self.folder}/munged.seed', '--num-threads=1')
        self.wait_for('munge', lambda: os.path.exists(f'{self.folder}/munge.socket'))
        self.start(slurmctld, '-D')
        self.start(slurmd, '-D')
        self.wait_for('an idle node', lambda: 'idle' in subprocess.run(
            [sinfo, '-h', '-o', '%T'], env=self.env, check=False, text=True,
            capture_output=True).stdout)

    def wait_for(self, what, condition):
        end = time.monotonic() + 40
        while not condition():
            if time.monotonic() > end or any(c.poll() is not None for c in self.children):
                self.show_logs()
                sys.exit(f'Slurm is installed but does not start: no {what}')
            time.sleep(0.2)

    def show_logs(self):
        for path in glob.glob(f'{self.folder}/*.log'):
            with open(path, encoding='utf-8', errors='replace') as f:
                print(f'{path}:\n{f.read()[-1500:]}')

    def end(self):
        for child in reversed(self.children):
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def test_slurm(program):
    daemons = [*need('munged', 'slurmctld', 'slurmd', 'sinfo')]
    srun, salloc = need('srun', 'salloc')
    with tempfile.TemporaryDirectory(prefix='ringcomm-slurm-') as folder:
        os.chmod(folder, 0o755)  # munge's clients check the permissions of its folder
        cluster = Cluster(folder)
        try:
            cluster.bring_up(*daemons)
            check(*run([srun, '-n', str(RANKS), program], cluster.env))
            plugins = run([srun, '--mpi=list'], cluster.env)[0].split()
            for mpi, by in ('pmi2', r'PMI \('), ('pmix', 'PMIx'):
                if mpi in plugins:
                    check(*run([srun, f'--mpi={mpi}', '-n', str(RANKS), program],
                               dict(cluster.env, RINGCOMM_LOG='info')), by=by)
            # In an allocation, but not started by srun: an error at once, without waiting for three
            # others.
            output, status = run([salloc, '-n', str(RANKS), program], cluster.env)
            if status == 0 or 'SLURM_NTASKS=4 is set, but this process was not' not in output:
                sys.exit('srun is not reported')
            # mpirun inside an allocation: its variables count, not those of the allocation.
            if shutil.which('mpirun.mpich'):
                check(*run([salloc, '-n', str(RANKS), 'mpirun.mpich', '-launcher', 'fork', '-n',
                            '3', program], cluster.env), ranks=3)
        finally:
            cluster.end()


if __name__ == '__main__':
    globals()['test_' + sys.argv[1].replace('-', '_')](os.path.abspath(sys.argv[2]))
