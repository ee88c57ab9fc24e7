# SPDX-License-Identifier: BSD-3-Clause
"""Starts ranks of ringcomm-bench over a library, here libringcomm; peers.py has the others."""
import contextlib
import os
import shlex
import signal
import subprocess
import tempfile


FOLDER = '@FOLDER@'  # in words of a measuring program: a folder of this start


class Failure(Exception):
    pass


class Late(Failure):
    """A program that was ended because it took too long."""


def signal_group(process, number):
    """The group may have ended. A ProcessLookupError would then replace what is being handled, for
    example the user's interruption."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def execute(argv, env=None, seconds=60):
    """Returns the output of a program, with a time limit. Ends its whole process group."""
    process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        signal_group(process, signal.SIGTERM)
        try:
            process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            signal_group(process, signal.SIGKILL)
            process.communicate()
        raise Late(f'took longer than {seconds:g} s: {shlex.join(argv)}') from None
    except BaseException:  # the user's Ctrl-C does not reach the program's session
        signal_group(process, signal.SIGKILL)
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
    `transports` are those it can be restricted to."""
    name = title = target = ''
    transports = ('shm', 'tcp')

    def __init__(self, build, bind):
        self.build, self.bind = build, bind
        self.program = os.path.join(build, self.target)
        self.version = self.find_version()

    def binding(self, ranks, mode):
        """'core' if each rank can have its own core, else 'none', as users would do. Ranks that
        sleep are never bound."""
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
        """Environment variables; folder: an empty folder for this start."""
        del transport, folder
        return {}

    def words(self, transport, ranks, mode):
        """The command as a user would type it, without folders."""
        env = []
        for name, value in self.environment(transport, 'FOLDER').items():
            inherited = os.environ.get(name, '')
            text = shlex.quote(f'{name}={value}'.replace(self.build, 'BUILD'))
            extends = inherited and value != inherited
            env.append(text.replace(inherited, f'${name}') if extends else text)
        argv = [os.path.basename(word) for word in self.argv(transport, ranks, mode)]
        return ' '.join([*env, shlex.join(argv)])


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
    """Starts a library's measuring program once; it must measure the points (collective, bytes) of
    the load. read(path) returns the results by these points. Returns the results, and whether the
    ranks ended without being killed."""
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
            # If all results exist, the library hangs in its shutdown.
            if not os.path.exists(path) or set(read(path)) != expected:
                raise
            ended = False
        results = read(path)
    if set(results) != expected:
        raise Failure(f'the results are not the expected points: {shlex.join(argv)}')
    return results, ended
