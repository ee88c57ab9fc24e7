#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""wheel_test.py SOURCE: builds the wheel with tools/packaging/wheel, installs it in a new
environment, and runs a job there. Exit status 77: the compiler is not available."""
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = '''
import array, os
import ringcomm
with ringcomm.init() as comm:
    values = array.array('f', [comm.rank + 1] * 100)
    comm.all_reduce(values)
    assert list(values) == [comm.size * (comm.size + 1) / 2] * 100, values
'''


def run(*command, **options):
    return subprocess.run([str(word) for word in command], text=True, stdin=subprocess.DEVNULL, **options)


def main():
    source = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        built = run(source / 'tools/packaging/wheel', '--output', folder / 'wheels')
        if built.returncode != 0:
            sys.exit(built.returncode)
        (wheel,) = (folder / 'wheels').glob('ringcomm-*-cp311-abi3-manylinux_2_28_*.whl')
        run(sys.executable, '-m', 'venv', folder / 'venv', check=True)
        python = folder / 'venv/bin/python'
        run(python, '-m', 'pip', 'install', '-q', '--no-deps', '--no-index', wheel, check=True)
        (folder / 'program.py').write_text(PROGRAM)
        run(python, '-m', 'ringcomm.run', '-n', '3', '--', python, folder / 'program.py', cwd=folder, check=True)


main()
