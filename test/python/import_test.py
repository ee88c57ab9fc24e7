#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The error of an import if the extension module cannot be loaded, as in a free-threaded Python."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import ringcomm

PROGRAMS = {
    'import ringcomm': None,
    'import ringcomm; ringcomm.init()': 'was not built for it',
    'from ringcomm import Communicator': 'was not built for it',
    'from ringcomm import _core': 'was not built for it',
    "import sys; sys._is_gil_enabled = lambda: False; import ringcomm.errors; ringcomm.init": 'needs the GIL',
}


def main():
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(pathlib.Path(ringcomm.__file__).parent, f'{folder}/ringcomm',
                        ignore=shutil.ignore_patterns('_core*.so', '__pycache__'))
        for program, error in PROGRAMS.items():
            found = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, cwd=folder,
                                   env={**os.environ, 'PYTHONPATH': folder})
            if error is None:
                assert found.returncode == 0 and not found.stderr, (program, found.stderr)
            else:
                last = found.stderr.strip().splitlines()[-1]
                assert last.startswith('ImportError: ringcomm') and error in last, (program, found.stderr)


main()
