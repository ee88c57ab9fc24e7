#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The library as a user installs and links it: user_test.py SOURCE_ROOT VERSION MESON CMAKE COMPILER...

Runs without root's rights (gives them up), in an empty folder, with the commands of README.md and
tools/packaging/README.md: a Meson project with this one as a subproject; installation into a folder;
programs built by pkg-config and CMake, with the shared and the static library; manual pages,
completion, a moved folder, uninstallation. Each function below is a step, in this order.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT, VERSION, MESON, CMAKE, *CC = sys.argv[1:]
HELP2MAN = shutil.which('help2man') is not None
NOBODY = 65534
COPIED = ('api', 'base', 'rendezvous', 'kernels', 'transport', 'algorithms', 'tools', 'examples',
          'meson.build', 'meson_options.txt')  # all but the tests and documents
DOCUMENTS = ('tools/packaging/README.md', 'README.md')


class User:
    """A folder that holds all that the user makes, and how commands are run there."""

    def __init__(self, folder):
        self.folder = folder
        self.prefix = self.path('home/prefix')
        kept = {name: os.environ[name] for name in ('PATH', 'LANG', 'LC_ALL') if name in os.environ}
        self.env = {**kept, 'HOME': self.path('home'), 'CC': ' '.join(CC), 'TMPDIR': self.path('home')}

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *command, cwd=None, status=0, **env):
        """The output of a command, with stderr; another exit status ends the test."""
        done = subprocess.run(command, cwd=cwd or self.folder, env={**self.env, **env}, check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=800)
        if done.returncode != status:
            sys.exit(f'$ {" ".join(command)}\n{done.stdout[-6000:]}\nexit status {done.returncode}')
        return done.stdout

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), 'w', encoding='utf-8') as file:
            file.write(text)

    def installed(self, *names):
        """The path below the prefix of each name; there must be exactly one."""
        found = []
        for name in names:
            paths = [path for path in files_below(self.prefix) if path.endswith('/' + name)]
            check(len(paths) == 1, f'{name} is installed as {paths}')
            found += paths
        return found if len(found) > 1 else found[0]

    def program(self, command, text):
        """A program is built and prints the text."""
        self.run('sh', '-ec', command)
        out = self.run('./program')
        check(text in out, f'{command}: prints {out!r}')


def check(holds, text):
    if not holds:
        sys.exit(text)


def files_below(folder):
    return [os.path.join(path, name) for path, _, names in os.walk(folder) for name in names]


def document(name):
    with open(os.path.join(ROOT, name), encoding='utf-8') as file:
        return file.read().split('\n')


def readme(first):
    """The first indented block of the documents that begins so, to the next line that is not indented."""
    for lines in map(document, DOCUMENTS):
        begins = [i for i, line in enumerate(lines) if line.startswith('    ' + first)]
        if begins:
            end = next(i for i in range(begins[0], len(lines)) if lines[i] and not lines[i].startswith('    '))
            return '\n'.join(line[4:] for line in lines[begins[0]:end]).rstrip() + '\n'
    sys.exit(f'no document has a line "{first}"')


def documents_agree():
    """README's lines for pkg-config, CMake and Meson are those of the longer document, which are run."""
    wanted = [line for line in document('README.md')
              if re.match(r'    (cc |find_package|target_link_libraries|ringcomm = )', line)]
    check(len(wanted) == 4, f'README has {len(wanted)} lines to link')
    for line in wanted:
        check(line in document(DOCUMENTS[0]), f'{DOCUMENTS[0]} has no line "{line.strip()}"')


def flags(first):
    """The flags of a compiler's command in the documents, from `first` on."""
    line = readme('cc first.c -o first ' + first).split('\n')[0]
    return line.removeprefix('cc first.c -o first ')


def give_up_root():
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError:
        pass  # a namespace with one user


def prepare(user):
    """A project of the user's with README's first program, and a copy of this project."""
    documents_agree()
    copy = user.path('app/subprojects/ringcomm')
    os.makedirs(copy)
    for name in COPIED:
        source = os.path.join(ROOT, name)
        copied = shutil.copytree if os.path.isdir(source) else shutil.copy
        copied(source, os.path.join(copy, name))
    user.write('app/subprojects/ringcomm.wrap', readme('[wrap-git]'))
    user.write('app/first.c', readme('#include <err.h>'))
    user.write('app/meson.build', "project('app', 'c', version: '7')\n" + readme("ringcomm = dependency("))
    user.write('home/about', '')
    shutil.copy(os.path.join(ROOT, 'test/abi/consumer.c'), user.path('consumer.c'))
    if os.geteuid() == 0:
        for path, folders, names in os.walk(user.folder):
            for name in ['.', *folders, *names]:
                os.chown(os.path.join(path, name), NOBODY, NOBODY)
        give_up_root()


def subproject(user):
    """The library alone is built in it, and is what the program is linked to."""
    user.run(MESON, 'setup', 'build', 'app', '--prefix', user.prefix, '--libdir=lib', '--buildtype=plain',
             '-Ddefault_library=both', '--force-fallback-for=ringcomm', '-Dringcomm:cuda=disabled')
    listed = user.run(MESON, 'introspect', 'build', '--targets')
    check('libringcomm' in listed, 'no library is built as a subproject')
    for other in ('ringcomm-run', 'hello_all_reduce', 'cmocka', 'ringcomm.7'):
        check(other not in listed, f'{other} is built in a subproject, too')


def install(user):
    """The rest on demand, and all of it into the user's folder."""
    user.run(MESON, 'configure', 'build', '-Dringcomm:tools=enabled', *['-Dringcomm:man=enabled'] * HELP2MAN)
    user.run('ninja', '-C', 'build', 'all')
    out = user.run('build/first', RANK='0', WORLD_SIZE='1', RINGCOMM_URL='file://' + user.path('home/meet'))
    check('the sum is 0' in out, out)
    user.run(MESON, 'install', '-C', 'build', '--no-rebuild')
    shared = user.installed(f'libringcomm.so.{VERSION}')
    for link in ('libringcomm.so', 'libringcomm.so.0'):
        path = user.installed(link)
        check(os.path.realpath(path) == os.path.realpath(shared), f'{link} is another file than {shared}')
    check('(libringcomm.so.0)' in user.run('sh', '-c', f'objdump -p {shared} | sed "s/.*SONAME *\\(.*\\)/(\\1)/"'),
          'another soname')


def tools(user):
    """They find their library and print their version."""
    run, store = user.installed('bin/ringcomm-run', 'bin/ringcomm-store')
    out = user.run(run, '-n', '2', '--bind', 'none', '--', store, '--version')
    check(out.count(f'ringcomm-store {VERSION}') == 2, out)


def pkg_config(user):
    """Shared, and static beside names that are also those of the library's own parts."""
    pc = os.path.dirname(user.installed('ringcomm.pc'))
    cc = f'export PKG_CONFIG_PATH={pc}; {" ".join(CC)} -std=c11 -Wall -Wextra -Werror -o program consumer.c '
    check(user.run('pkg-config', '--modversion', 'ringcomm', PKG_CONFIG_PATH=pc).strip() == VERSION, 'version of .pc')
    user.program(cc + flags('$(pkg-config --cflags --libs ringcomm) -Wl,-rpath'), VERSION + ': 1 2 3')
    check('libringcomm.so.0' in user.run('objdump', '-p', 'program'), 'it does not need libringcomm.so.0')

    archive = user.installed('libringcomm.a')
    symbols = [line.split() for line in user.run('nm', '--defined-only', archive).split('\n')]
    own = {row[2] for row in symbols if len(row) == 3 and row[1] in 'tbd' and row[2].startswith('rcmi_')}
    check(len(own) > 300, f'{len(own)} names are local')
    user.write('names.c', ''.join(f'int {name} = 1;\n' for name in sorted(own)))
    user.program(cc + 'names.c ' + flags('-Wl,-Bstatic'), VERSION + ': 1 2 3')
    check('libringcomm' not in user.run('objdump', '-p', 'program'), 'it needs the shared library')


def moved(user):
    """All but ringcomm.pc may be moved."""
    before, user.prefix = user.prefix, user.path('home/elsewhere')
    shutil.copytree(before, user.prefix, symlinks=True)
    tools(user)


def cmake(user):
    """The documents' lines, then both libraries by name, and requests that must fail."""
    if CMAKE == '-':
        return
    begin = ('cmake_minimum_required(VERSION 3.13)\nproject(app C)\n' +
             'add_executable(first app/first.c)\nadd_executable(second app/first.c)\n')
    user.write('CMakeLists.txt', begin + readme('find_package(') + '''
target_link_libraries(second ringcomm::static)
find_package(ringcomm 1.0 QUIET)
if(ringcomm_FOUND)
  message(FATAL_ERROR "version 1.0 is found")
endif()
find_package(ringcomm QUIET COMPONENTS device)
if(ringcomm_FOUND)
  message(FATAL_ERROR "a component that is not there is found")
endif()
''')
    user.run(CMAKE, '-G', 'Ninja', '-B', 'cmake-build', '-DCMAKE_PREFIX_PATH=' + user.prefix)
    user.run('ninja', '-C', 'cmake-build')
    needed = {name: 'libringcomm.so.0' in user.run('objdump', '-p', 'cmake-build/' + name)
              for name in ('first', 'second')}
    check(needed == {'first': True, 'second': False}, f'needs the shared library: {needed}')
    for name in needed:
        out = user.run(user.installed('bin/ringcomm-run'), '-n', '2', '--bind', 'none', '--', 'cmake-build/' + name)
        check('rank 1 of 2: the sum is 1' in out, out)


def manual(user):
    """Pages without a warning of man's; one for each function."""
    if not HELP2MAN:
        return
    pages = [path for path in files_below(user.prefix) if '/man/man' in path]
    made = [path for path in pages if not os.path.basename(path).startswith('rcm_')]
    check(len(made) >= 12 and len(pages) > 100, f'{len(pages)} pages, {len(made)} of them with text')
    out = user.run('man', '--warnings', '-l', *made, MANPAGER='cat', MANROFFOPT='')
    warned = [line for line in out.split('\n') if re.match(r'(troff|grotty|man|mdoc|<standard input>).*:', line)]
    check(not warned, '\n'.join(warned))
    out = user.run('man', '-M', user.prefix + '/share/man', '3', 'rcm_all_reduce', MANPAGER='cat')
    check('rcm_all_reduce(rcm_comm *comm' in out, out)


def completion(user):
    path = user.installed('completions/ringcomm-bench')
    bench = user.installed('bin/ringcomm-bench')
    script = f'. {path}; COMP_CWORD=1; _ringcomm {bench} $1; printf "%s\\n" "${{COMPREPLY[@]}}"'
    env = {'PATH': os.path.dirname(bench) + ':' + user.env['PATH']}
    check('all_gather\n' in user.run('bash', '-c', script, '-', 'all_', **env), 'no collective is completed')
    check('--algorithm=' in user.run('bash', '-c', script, '-', '--al', **env), 'no option is completed')


def uninstall(user):
    user.run('ninja', '-C', 'build', 'uninstall')
    left = files_below(user.path('home/prefix'))
    check(not left, f'left: {left}')


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        user = User(folder)
        for step in (prepare, subproject, install, tools, pkg_config, moved, cmake, manual, completion, uninstall):
            began = time.monotonic()
            step(user)
            print(f'{step.__name__}: {time.monotonic() - began:.1f} s', flush=True)


if __name__ == '__main__':
    main()
