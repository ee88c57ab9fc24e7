#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The steps of CONTRIBUTING.md are sufficient for a new algorithm and a new transport:
newcomer_test.py SOURCE_ROOT MESON COMPILER...

In a copy of the source it adds a toy all_reduce (newcomer/toy.c) and a toy transport (a renamed
copy of transport/self). It changes only files that the entries of "How to add" name. It runs the
command of each entry, and the tests that the tables generate. The copy is built without all
optional parts, and its tools must report that.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT, MESON, CC = os.path.abspath(sys.argv[1]), sys.argv[2], ' '.join(sys.argv[3:])
HERE = os.path.dirname(os.path.abspath(__file__))
TARGETS = ['ringcomm-plan', 'conformance', 'test_plan_sweep', 'test_plan_select', 'ringcomm-info',
           'ringcomm-bench']
WITHOUT = ['auth', 'hwloc', 'verbs', 'cuda']
# Tests of the toy transport that must exist. The command of its entry runs the first two.
TRANSPORT_TESTS = ['transport-toy', 'transport-toy-threads', 'transport-chaos-toy',
                   'transport-chaos-toy-threads']
TESTS = TRANSPORT_TESTS[2:] + ['plan_tool', 'plan_select']


def entry(what):
    """The files that the entry of "How to add" names, and its command."""
    with open(os.path.join(ROOT, 'CONTRIBUTING.md'), encoding='utf-8') as file:
        entries = file.read().split('\n## How to add\n')[1].split('\n## ')[0]
    for item in re.split(r'^- ', entries, flags=re.M):
        if item.startswith(f'**{what}**: '):
            steps, _, command = ' '.join(item.split()).rpartition('Check: ')
            return re.findall(r'`([^`]+)`', steps), command.strip('`')
    sys.exit(f'CONTRIBUTING.md has no entry for {what}')


def left_out(folder, names):
    """Build folders and history."""
    return [name for name in names if name == '.git' or
            (folder == ROOT and name.startswith('build'))]


class Copy:
    """A copy of the source to be changed."""

    def __init__(self, folder):
        self.folder = folder
        shutil.copytree(ROOT, folder, ignore=left_out)

    def path(self, name):
        return os.path.join(self.folder, name)

    def edit(self, named, name, old, new):
        """Replaces a text that the file contains once; the entry must name the file."""
        if name not in named:
            sys.exit(f'CONTRIBUTING.md does not name {name}')
        with open(self.path(name), encoding='utf-8') as file:
            text = file.read()
        if text.count(old) != 1:
            sys.exit(f'{name} has {old!r} {text.count(old)} times')
        with open(self.path(name), 'w', encoding='utf-8') as file:
            file.write(text.replace(old, new))

    def run(self, *command):
        print('$', *command, flush=True)
        done = subprocess.run(command, cwd=self.folder, check=False, text=True, env={**os.environ, 'CC': CC},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            sys.exit(f'{done.stdout[-6000:]}\nexit status {done.returncode}')
        return done.stdout


def add_algorithm(copy):
    named, command = entry('an algorithm')
    shutil.copy(os.path.join(HERE, 'newcomer', 'toy.c'), copy.path('algorithms/toy.c'))
    copy.edit(named, 'algorithms/table.c', '    X(rcmi_ring) ', '    X(rcmi_ring) X(rcmi_toy) ')
    copy.edit(named, 'algorithms/meson.build', "'table.c'", "'table.c', 'toy.c'")
    return command


def add_transport(copy):
    named, command = entry('a transport')
    old, new = copy.path('transport/self'), copy.path('transport/toy')
    os.mkdir(new)
    for name in os.listdir(old):
        with open(os.path.join(old, name), encoding='utf-8') as file:
            text = re.sub(r'self(?=[_."\'])|(?<=_)self\b', 'toy', file.read())
        with open(os.path.join(new, name.replace('self', 'toy')), 'w', encoding='utf-8') as file:
            file.write(text)
    copy.edit(named, 'transport/meson.build', "['self', 'shm', 'verbs', 'tcp', 'cuda_ipc']", "['self', 'shm', 'verbs', 'tcp', 'cuda_ipc', 'toy']")
    return command


def for_toy(command):
    """An entry's command for the toys."""
    for old, new in (('COLLECTIVE', 'all_reduce'), ('NAME', 'toy'), (' [CASE]', '')):
        command = command.replace(old, new)
    return command.split()


def without(copy):
    """Optional parts are absent, tools report that, and everything else works."""
    info = copy.run('build/tools/ringcomm-info', '--csv', '-')
    for line in ('authentication,no,', 'cuda,no,'):
        expect(line in info, f'ringcomm-info does not print {line}')
    expect('transport,verbs' not in info, 'ringcomm-info lists verbs')
    last = copy.run('sh', '-c', 'build/tools/ringcomm-info --check verbs || true').splitlines()[-1]
    expect(last.startswith('this library is built without RDMA'), f'--check verbs ends with {last}')
    needs = copy.run('ldd', 'build/tools/ringcomm-info')
    for library in ('ibverbs', 'rdmacm', 'cuda', 'crypto', 'hwloc'):
        expect(f'lib{library}' not in needs, f'lib{library} is needed')
    for transports in ('shm', 'tcp'):
        rows = copy.run('env', f'RINGCOMM_TRANSPORT={transports}', 'build/tools/ringcomm-bench', 'all',
                        '--ranks', '2', '-b', '8', '-e', '64K', '-f', '64', '-n', '3', '-w', '1',
                        '--check', '--csv', '-').splitlines()
        errors = rows[0].split(',').index('errors')
        expect(len(rows) > 20 and all(row.split(',')[errors] == '0' for row in rows[1:]),
               f'{transports}: {rows[-1]}')


def expect(holds, sentence):
    if not holds:
        sys.exit(sentence)


def main():
    with tempfile.TemporaryDirectory(prefix='ringcomm-newcomer-') as folder:
        copy = Copy(os.path.join(folder, 'ringcomm'))
        commands = [add_algorithm(copy), add_transport(copy)]
        # The flags of tools/check's build: ccache has most objects.
        copy.run(MESON, 'setup', 'build', '--buildtype=release', '-Dwerror=true',
                 *[f'-D{part}=disabled' for part in WITHOUT])
        copy.run(MESON, 'compile', '-C', 'build', '-j', '2', *TARGETS)
        for command in commands:
            print(copy.run(*for_toy(command))[-300:])
        listed = copy.run(MESON, 'test', '-C', 'build', '--no-rebuild', '--list').split()
        missing = [name for name in TRANSPORT_TESTS if name not in listed]
        if missing:
            sys.exit(f'the toy transport has no test {", ".join(missing)}')
        print(copy.run(MESON, 'test', '-C', 'build', '--no-rebuild', *TESTS)[-1500:])
        print(copy.run('build/test/plan/test_plan_sweep', 'toy')[-500:])
        without(copy)


if __name__ == '__main__':
    main()
