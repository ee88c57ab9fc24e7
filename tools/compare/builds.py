# SPDX-License-Identifier: BSD-3-Clause
"""Two builds of libringcomm: finds or makes the earlier build, and starts ranks of both.

Each build is measured by its own ringcomm-bench, which contains its library. This module binds the
ranks in the same way for both: rank r to core r mod cores, also with more ranks than cores."""
import json
import os
import shlex
import shutil

import figures
import libraries
from libraries import Failure, execute

TARGETS = ('tools/ringcomm-bench', 'tools/ringcomm-run')


# ---- binding -------------------------------------------------------------------------------------


def cores():
    """Lists of CPUs, one per core that this process may use, without siblings that it may not use."""
    allowed = os.sched_getaffinity(0)
    groups = []
    for cpu in sorted(allowed):
        if not any(cpu in group for group in groups):
            groups.append(sorted({cpu, *siblings(cpu)} & allowed))
    return [','.join(map(str, group)) for group in groups]


def siblings(cpu):
    path = f'/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list'
    out = set()
    try:
        with open(path, encoding='ascii') as file:
            for part in file.read().strip().split(','):
                first, _, last = part.partition('-')
                out.update(range(int(first), int(last or first) + 1))
    except (OSError, ValueError):
        pass  # a container without it: each CPU counts as a core
    return out


def binder():
    """Words before a command that bind it to a core by the rank in the launcher's environment."""
    if not shutil.which('taskset'):
        raise Failure('--bind core: taskset (Debian: util-linux) is not installed')
    every = cores()
    cases = ' '.join(f'{i}) cpus={cpus};;' for i, cpus in enumerate(every))
    return ['sh', '-c', f'case $((RINGCOMM_RANK % {len(every)})) in {cases} esac; '
                        'exec taskset -c "$cpus" "$@"', 'sh']


class Side(libraries.Ringcomm):
    """One of the two builds."""

    def __init__(self, name, title, build, bind):
        self.name, self.title = name, title
        super().__init__(build, bind)
        self.words_before = binder() if bind == 'core' else []

    def binding(self, ranks, mode):
        return 'none'  # of ringcomm-run, whose binding may differ between the two builds

    def argv(self, transport, ranks, mode):
        argv = super().argv(transport, ranks, mode)
        at = argv.index('--') + 1
        return argv[:at] + (self.words_before if mode != 'asleep' else []) + argv[at:]

    def line(self):
        """For the report."""
        how = '' if self.words_before else ', not bound'
        return (f'{self.title}: `ringcomm-run -n RANKS --bind none -- ringcomm-bench`{how} '
                f'({self.version or "version unknown"}, {buildtype(self.build)})')

    def check_modes(self, modes):
        if 'asleep' in modes and '--asleep' not in execute([self.program, '--help']):
            raise Failure(f'--modes asleep: the ringcomm-bench of {self.title} has no --asleep')


# ---- the build from before -----------------------------------------------------------------------


def introspect(build, name):
    try:
        with open(os.path.join(build, f'meson-info/intro-{name}.json'), encoding='utf-8') as file:
            return json.load(file)
    except (OSError, ValueError):
        return []


def buildtype(build):
    found = [o['value'] for o in introspect(build, 'buildoptions') if o['name'] == 'buildtype']
    return f'buildtype {found[0]}' if found else 'buildtype unknown'


def compiler(build):
    """The C compiler's command of a build folder; [] if it is not found."""
    for target in introspect(build, 'targets'):
        for source in target['target_sources']:
            if source.get('language') == 'c' and source.get('compiler'):
                return source['compiler']
    return []


def revision(root, text):
    """The full name of a commit."""
    try:
        return execute(['git', '-C', root, 'rev-parse', '--verify', '--end-of-options',
                        f'{text}^{{commit}}']).strip()
    except (Failure, OSError) as failure:
        raise Failure(f"--before '{text}': neither a folder nor a revision: {failure}") from None


def no_tests(source):
    """The option that disables tests; it was a boolean in earlier versions."""
    with open(os.path.join(source, 'meson_options.txt'), encoding='utf-8') as file:
        boolean = "option('tests', type: 'boolean'" in file.read()
    return '-Dtests=' + ('false' if boolean else 'disabled')


def build_revision(root, build, commit):
    """The build folder of a commit, below `build`: made once, release, with the same compiler."""
    folder = os.path.join(build, 'compare-before', commit[:12])
    source, out = os.path.join(folder, 'source'), os.path.join(folder, 'build')
    complete = os.path.join(folder, 'complete')
    if os.path.exists(complete):
        return out
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(source)
    archive = os.path.join(folder, 'source.tar')
    execute(['git', '-C', root, 'archive', '--format=tar', '-o', archive, commit])
    execute(['tar', '-xf', archive, '-C', source])
    os.unlink(archive)
    env = dict(os.environ)
    if compiler(build):
        env['CC'] = shlex.join(compiler(build))
    execute(['meson', 'setup', out, source, '--buildtype=release', no_tests(source)], env, 300)
    execute(['ninja', '-C', out, *TARGETS], seconds=1200)
    with open(complete, 'w', encoding='ascii') as file:
        file.write(f'{commit}\n')
    return out


def before(options, root):
    """The build named by --before: a folder, or a revision, which is built."""
    if not os.path.isdir(options.before):
        commit = revision(root, options.before)
        folder = build_revision(root, options.build, commit)
        title = f'before ({options.before}, commit {commit[:7]})'
    else:
        folder = os.path.abspath(options.before)
        title = f'before ({os.path.basename(folder)})'
        if not options.no_build and os.path.exists(os.path.join(folder, 'build.ninja')):
            execute(['ninja', '-C', folder, *TARGETS], seconds=1200)
    for target in TARGETS:
        if not os.path.exists(os.path.join(folder, target)):
            raise Failure(f"--before '{options.before}': {os.path.join(folder, target)} is missing")
    side = Side(figures.BEFORE, title, folder, options.bind)
    side.check_modes(options.modes)
    return side
