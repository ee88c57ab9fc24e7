#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""run_test.py LAUNCHER PROGRAM: four ranks of PROGRAM (again.c) under a real launcher, which has
nothing from us but its own environment.

LAUNCHER is openmpi, mpich, mpich-hosts, torchrun or slurm. Exit status 77, with a sentence, where
it is not installed. TORCHRUN names a torchrun that is not in PATH. For slurm a whole cluster of one
machine is started in a temporary folder, on ports of its own, and ended.
"""
import glob
import os
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
    """Without what a launcher around the tests may have set."""
    ours = re.compile(r'(RINGCOMM|OMPI|PMI|PMIX|SLURM|TORCHELASTIC|MASTER|MPI)_|'
                      r'(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)$')
    return {k: v for k, v in os.environ.items() if not ours.match(k)}


def run(command, env=None, limit=LIMIT_S):
    """Output and status; the whole process group ends with it."""
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


def check(output, status, ranks=RANKS):
    met = sorted(int(r) for r in re.findall(rf'rank (\d+) of {ranks}: ok', output))
    if status != 0 or met != list(range(ranks)):
        sys.exit(f'status {status}, ranks {met}')


def openmpi_words():
    """mpirun and what lets it run here: as root, and on fewer cores than ranks."""
    words = [*need('mpirun.openmpi'), '--oversubscribe']
    return words + (['--allow-run-as-root'] if os.geteuid() == 0 else [])


def test_openmpi(program):
    with tempfile.TemporaryDirectory(prefix='ringcomm-launch-') as folder:
        env = dict(clean_environment(), TMPDIR=folder)
        check(*run([*openmpi_words(), '-n', str(RANKS), program], env))
        left = glob.glob(f'{folder}/**/*ringcomm*', recursive=True)
        if left:
            sys.exit(f'left behind: {left}')


def test_mpich(program):
    words = [*need('mpirun.mpich'), '-n', str(RANKS), program]
    check(*run(words))
    # At a fixed address each round's store follows the last one's there. Several times: without
    # care, a rank that is ahead joins the old one now and then.
    for _ in range(8):
        check(*run(words, dict(clean_environment(), MASTER_ADDR='127.0.0.1',
                               MASTER_PORT=str(free_port()))))


def test_mpich_hosts(program):
    """Two names of this machine: Hydra takes them for two, so ranks use its real addresses."""
    addresses = subprocess.run(['hostname', '-I'], check=False, capture_output=True).stdout.split()
    if not addresses:
        skip('this machine has no address but loopback')
    check(*run([*need('mpirun.mpich'), '-launcher', 'fork', '-hosts', 'localhost,127.0.0.1', '-n',
                str(RANKS), program]))


def test_torchrun(program):
    torchrun = os.environ.get('TORCHRUN') or shutil.which('torchrun')
    if not torchrun:
        skip('torchrun is not installed (pip install torch)')
    words = [torchrun, '--no-python', '--nproc-per-node', str(RANKS)]
    check(*run([*words, '--standalone', program]))  # the agent holds the store
    check(*run([*words, '--master-port', str(free_port()), program]))


# ---- Slurm --------------------------------------------------------------------------------------

def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


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
        os.chmod(folder, 0o755)  # munge's clients check who may write to its folder
        cluster = Cluster(folder)
        try:
            cluster.bring_up(*daemons)
            check(*run([srun, '-n', str(RANKS), program], cluster.env))
            plugins = run([srun, '--mpi=list'], cluster.env)[0].split()
            for mpi in {'pmi2', 'pmix'} & set(plugins):
                check(*run([srun, f'--mpi={mpi}', '-n', str(RANKS), program], cluster.env))
            # In an allocation, but not started by srun: said so, and no waiting for three others.
            output, status = run([salloc, '-n', str(RANKS), program], cluster.env)
            if status == 0 or 'SLURM_NTASKS=4 is set, but this process was not' not in output:
                sys.exit('no word of srun')
            # mpirun inside an allocation: its names count, not those of the allocation.
            if shutil.which('mpirun.mpich'):
                check(*run([salloc, '-n', str(RANKS), 'mpirun.mpich', '-launcher', 'fork', '-n',
                            '3', program], cluster.env), ranks=3)
        finally:
            cluster.end()


if __name__ == '__main__':
    globals()['test_' + sys.argv[1].replace('-', '_')](os.path.abspath(sys.argv[2]))
