# SPDX-License-Identifier: BSD-3-Clause
"""python -m ringcomm.run -n 4 [OPTION...] program.py [ARGUMENT...]

ringcomm-run for Python programs: starts the ranks of one machine with this interpreter. Options
are those of ringcomm-run (`ringcomm-run --help`). A program that does not end in .py is started
unchanged; `-m MODULE` starts a module.
"""
import os
import shutil
import sys
import sysconfig

TAKES_VALUE = {'-n', '--ranks', '--bind', '--log-dir', '--timeout'}


def find_launcher():
    sibling = os.path.join(sysconfig.get_path('scripts'), 'ringcomm-run')
    return sibling if os.access(sibling, os.X_OK) else shutil.which('ringcomm-run')


def split_arguments(arguments):
    """(options, program and its arguments)"""
    at = 0
    while at < len(arguments) and arguments[at].startswith('-') and arguments[at] not in ('-m', '--'):
        at += 2 if arguments[at] in TAKES_VALUE else 1
    options, program = arguments[:at], arguments[at:]
    return options, program[1:] if program[:1] == ['--'] else program


def main():
    options, program = split_arguments(sys.argv[1:])
    launcher = find_launcher()
    if launcher is None:
        sys.exit('ringcomm.run: ringcomm-run is neither next to this Python nor in PATH. Install the '
                 'library\'s tools.')
    if program[:1] == ['-m'] or program and program[0].endswith('.py'):
        program = [sys.executable, *program]
    if not program and '--help' in options:
        print(__doc__)
    os.execv(launcher, [launcher, *options, *(['--', *program] if program else [])])


if __name__ == '__main__':
    main()
