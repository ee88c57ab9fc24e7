#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The test of walls.py itself: walls_test.py WALLS SOURCE_ROOT CC AR NM

Makes a small source with README's picture and an archive, sees it pass, then breaks one wall at a
time and sees each found and named.
"""
import os
import subprocess
import sys
import tempfile

import walls

WALLS, ROOT, CC, AR, NM = sys.argv[1:6]

GOOD = {
    'api/comm.h': 'int a(void);\nint b(void);\nint c(void);\n',
    'api/a.c': '#include "comm.h"\nint a(void) { return b(); }\n',
    'api/b.c': '#include "comm.h"\nint b(void) { return c(); }\n',
    'api/c.c': '#include "comm.h"\nint c(void) { return 1; }\n',
}
with open(os.path.join(ROOT, 'README.md'), encoding='utf-8') as f:
    GOOD['README.md'] = f.read()
PARTS = '-> transport, kernels: which receive'

# What is changed in which file, and what must be said.
BREAKS = [
    ({'api/c.c': '#include "comm.h"\nint c(void) { return a(); }\n'},
     'a circle of calls: a.c.o -> b.c.o -> c.c.o -> a.c.o'),
    ({f'api/more{i}.c': '#include "comm.h"\n' for i in range(walls.INCLUDERS)},
     'too many include comm.h'),
    ({'api/all.h': '#include "comm.h"\n'}, 'api/all.h includes comm.h'),
    ({f'base/file{i}.c': '' for i in range(walls.FILES + 1)}, 'base/ has 31 files, 30 may be'),
    ({'test/coll/two.c': ''}, 'test/coll/ has 1 files: it is not large'),
    ({'README.md': GOOD['README.md'].replace(PARTS, '-> transport: which receive')},
     'README draws api/p2p/ -> transport, arrows.py allows kernels, transport'),
    ({'README.md': GOOD['README.md'].replace(PARTS, 'which receive')},
     'README draws no room api/p2p/'),
]


def run(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), 'w', encoding='utf-8') as out:
                out.write(text)
        objects = []
        for name in ('a', 'b', 'c'):
            objects.append(os.path.join(root, name + '.c.o'))
            subprocess.run([*CC.split(), '-c', os.path.join(root, 'api', name + '.c'), '-o',
                            objects[-1]], check=True)
        archive = os.path.join(root, 'libapi.a')
        subprocess.run([AR, 'rcs', archive, *objects], check=True)
        return subprocess.run([sys.executable, WALLS, root, '--nm', NM, '--archive', archive],
                              text=True, capture_output=True)


def main():
    failed = 0
    result = run(GOOD)
    if result.returncode != 0:
        failed += 1
        print(f'the good source does not pass:\n{result.stdout}{result.stderr}')
    for change, wanted in BREAKS:
        result = run({**GOOD, **change})
        if result.returncode != 1 or wanted not in result.stdout:
            failed += 1
            print(f'not found: {wanted}\n{result.stdout}{result.stderr}')
    print(f'{len(BREAKS) + 1} cases, {failed} failed')
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
