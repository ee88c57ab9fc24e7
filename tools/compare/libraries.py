# SPDX-License-Identifier: BSD-3-Clause
"""How ranks of ringcomm-bench are started over a library, here libringcomm; peers.py has the others."""
import os
import shlex
import signal
import subprocess
import tempfile


FOLDER = '@FOLDER@'  # in words of a measuring program: a folder of this start


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
    """One measuring program with one set of settings. `target` is its path in the build folder;
    `transports` those it can be held to."""
    name = title = target = ''
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
        raise NotImplementedError

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


def build_target(build, *targets):
    execute(['ninja', '-C', build, *targets], seconds=300)


def bench(library, load, words, read, seconds):
    """One start of a library's measuring program, which must measure the points (collective,
    bytes) of the load. read(path) gives their results by such points. Returns these, and whether
    the ranks ended by themselves."""
    expected = {(load.collective, size) for size in load.sizes}
    ended = True
    memory = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None  # for the ranks' barrier
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        path, own = os.path.join(folder, 'rows.csv'), os.path.join(folder, 'own')
        os.mkdir(own)
        env = {**os.environ, **library.environment(load.transport, own)}
        words = [word.replace(FOLDER, folder) for word in words]
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
