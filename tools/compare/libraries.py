# SPDX-License-Identifier: BSD-3-Clause
"""How ranks of ringcomm-bench are started over each library: libringcomm, and its peers with their
variants. A variant is a peer with settings that users try when speed matters; which is best differs
from point to point, and the best one counts."""
import os
import shlex
import shutil
import signal
import subprocess
import tempfile


class Failure(Exception):
    pass


class Late(Failure):
    """Ended here because it took too long."""


def execute(argv, env=None, seconds=60):
    """Output of a program that gets so long and no longer; its process group ends with it."""
    process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        raise Late(f'took longer than {seconds:g} s: {shlex.join(argv)}') from None
    except BaseException:  # the user's Ctrl-C does not reach a session of its own
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    if process.returncode != 0:
        tail = '\n'.join((err or out).splitlines()[-6:])
        raise Failure(f'exit status {process.returncode}: {shlex.join(argv)}\n{tail}')
    return out


def first_line(argv):
    try:
        return execute(argv, seconds=20).splitlines()[0].strip()
    except (Failure, OSError, IndexError):
        return ''


class Library:
    """One measuring program with one set of settings. `target` is also its path in the build
    folder; `transports` those it can be held to."""
    name = title = target = launcher = ''
    transports = ('shm', 'tcp')

    def __init__(self, build, bind):
        self.build, self.bind = build, bind
        self.program = os.path.join(build, self.target)
        self.version = self.find_version()

    def binding(self, ranks, mode):
        """'core' where each rank can have one, else 'none', as users would. Ranks that sleep are
        never bound."""
        alone = ranks <= (os.cpu_count() or 1) and mode != 'asleep'
        return self.bind if alone else 'none'

    def find_version(self):
        return first_line([self.launcher, '--version'])

    def measures(self, collective):
        del collective
        return True

    def argv(self, transport, ranks, mode):
        raise NotImplementedError

    def environment(self, transport, folder):
        """Variables; folder is an empty one for this start."""
        del transport, folder
        return {}

    def words(self, transport, ranks, mode):
        """The command as people would type it: without folders."""
        env = [f'{k}={v}' for k, v in self.environment(transport, 'FOLDER').items()]
        return shlex.join(env + [os.path.basename(w) for w in self.argv(transport, ranks, mode)])


class Ringcomm(Library):
    name, title, target = 'ringcomm', 'libringcomm', 'tools/ringcomm-bench'

    def find_version(self):
        return first_line([self.program, '--version'])

    def argv(self, transport, ranks, mode):
        return [os.path.join(self.build, 'tools/ringcomm-run'), '-n', str(ranks), '--bind',
                self.binding(ranks, mode), '--', self.program, '--transport', transport]

    def environment(self, transport, folder):
        return {'RINGCOMM_IFACE': 'lo'} if transport == 'tcp' else {}


class OpenMpi(Library):
    name, title = 'openmpi', 'Open MPI'
    target, launcher = 'tools/compare/mpi-bench-openmpi', 'mpirun.openmpi'
    settings = ()

    def over_tcp(self):
        return ['--mca', 'pml', 'ob1', '--mca', 'btl', 'tcp,self', '--mca', 'btl_tcp_if_include',
                'lo']

    def argv(self, transport, ranks, mode):
        argv = [self.launcher, '--oversubscribe', '--bind-to', self.binding(ranks, mode)]
        if os.geteuid() == 0:
            argv.append('--allow-run-as-root')
        argv += self.over_tcp() if transport == 'tcp' else self.settings
        return argv + ['-n', str(ranks), self.program]


class OpenMpiNoCma(OpenMpi):
    name, title, transports = 'openmpi-nocma', 'Open MPI without CMA', ('shm',)
    settings = ('--mca', 'btl_vader_single_copy_mechanism', 'none')


class OpenMpiSm(OpenMpi):
    """coll/sm has priority 0 unless told otherwise, tuned has 30."""
    name, title, transports = 'openmpi-sm', 'Open MPI, coll/sm', ('shm',)
    settings = ('--mca', 'coll_sm_priority', '100')

    def measures(self, collective):
        return collective != 'sendrecv'  # is no collective: would be Open MPI once more


class OpenMpiUcx(OpenMpi):
    """pml ucx refuses machines without InfiniBand unless told that any transport will do."""
    name, title = 'openmpi-ucx', 'Open MPI over UCX'
    ucx = ['--mca', 'pml', 'ucx', '--mca', 'pml_ucx_tls', 'any', '--mca', 'pml_ucx_devices', 'any']
    settings = (*ucx, '-x', 'UCX_TLS=sm,self')

    def over_tcp(self):
        return [*self.ucx, '-x', 'UCX_TLS=tcp,self', '-x', 'UCX_NET_DEVICES=lo']


class Mpich(Library):
    name, title = 'mpich', 'MPICH'
    target, launcher = 'tools/compare/mpi-bench-mpich', 'mpirun.mpich'

    def find_version(self):
        text = first_line(['mpichversion', '--version', '--device'])
        return ' '.join(text.split()) or first_line([self.launcher, '--version'])

    def argv(self, transport, ranks, mode):
        argv = [self.launcher, '-bind-to', self.binding(ranks, mode)]
        if transport == 'tcp':
            argv += ['-genv', 'MPIR_CVAR_NOLOCAL', '1', '-genv', 'UCX_TLS', 'tcp,self',
                     '-genv', 'UCX_NET_DEVICES', 'lo']
        return argv + ['-n', str(ranks), self.program]


class Gloo(Library):
    """Started by ringcomm-run, which only sets RANK and WORLD_SIZE."""
    name, title, target = 'gloo', 'Gloo, ring', 'tools/compare/gloo-bench'
    transports, algorithm = ('tcp',), 'ring'

    def find_version(self):
        text = first_line(['dpkg-query', '-W', '-f', 'libgloo0 ${Version} (Debian)\n', 'libgloo0'])
        return text or 'Gloo of unknown version'

    def argv(self, transport, ranks, mode):
        return [os.path.join(self.build, 'tools/ringcomm-run'), '-n', str(ranks), '--bind',
                self.binding(ranks, mode), '--', self.program]

    def environment(self, transport, folder):
        return {'GLOO_BENCH_FOLDER': folder, 'GLOO_BENCH_ALGORITHM': self.algorithm}


class GlooBcube(Gloo):
    name, title, algorithm = 'gloo-bcube', 'Gloo, bcube', 'bcube'

    def measures(self, collective):
        return collective == 'all_reduce'


class GlooHalving(GlooBcube):
    name, title, algorithm = 'gloo-hd', 'Gloo, halving-doubling', 'halving_doubling'


PEERS = {kind.name: kind for kind in (OpenMpi, OpenMpiNoCma, OpenMpiSm, OpenMpiUcx, Mpich, Gloo,
                                      GlooBcube, GlooHalving)}


def build_target(build, target):
    execute(['ninja', '-C', build, target], seconds=300)


def find_peers(names, build, bind):
    """(libraries that can be measured, sentences about the others)."""
    peers, skipped, built = [], [], {}
    for name in names:
        kind = PEERS[name]
        if kind.launcher and not shutil.which(kind.launcher):
            skipped.append(f'{kind.title}: {kind.launcher} is not installed')
            continue
        if kind.target not in built:
            try:
                build_target(build, kind.target)
                built[kind.target] = ''
            except Failure as failure:
                built[kind.target] = (f'{kind.target} cannot be built (its library was missing '
                                      f'when {build} was configured?): {failure}')
        if built[kind.target]:
            skipped.append(f'{kind.title}: {built[kind.target]}')
        else:
            peers.append(kind(build, bind))
    return peers, skipped


def bench(library, load, words, read, seconds):
    """One start of a library's measuring program, which must measure the points (collective,
    bytes) of the load. read(path) gives their results by such points. Returns these, and whether
    the ranks ended by themselves."""
    expected = {(load.collective, size) for size in load.sizes}
    ended = True
    with tempfile.TemporaryDirectory() as folder:
        path, own = os.path.join(folder, 'rows.csv'), os.path.join(folder, 'own')
        os.mkdir(own)
        env = {**os.environ, **library.environment(load.transport, own)}
        argv = library.argv(load.transport, load.ranks, load.mode) + words + ['--csv', path]
        try:
            execute(argv, env, seconds)
        except Late:
            # With all results there it is the library's farewell that hangs.
            if not os.path.exists(path) or set(read(path)) != expected:
                raise
            ended = False
        results = read(path)
    if set(results) != expected:
        raise Failure(f'not the expected points: {shlex.join(argv)}')
    return results, ended
