#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The test of walls.py itself: walls_test.py SOURCE_ROOT CC AR NM

Makes a small source with the picture of the layers and an archive, which must pass. Then it breaks
one wall at a time; each must be found and named.
"""
import contextlib
import io
import os
import subprocess
import sys
import tempfile

import walls

ROOT, CC, AR, NM = sys.argv[1:5]

GOOD = {
    'api/work/comm.h': 'int a(void);\nint b(void);\nint c(void);\n',
    'api/calls/a.c': '#include "../work/comm.h"\nint a(void) { return b(); }\n',
    'api/comm/b.c': '#include "../work/comm.h"\nint b(void) { return c(); }\n',
    'api/work/c.c': '#include "../work/comm.h"\nint c(void) { return 1; }\n',
    'transport/tcp/t.c': 'int u(void);\nint t(void);\nint t(void) { return u(); }\n',
    'transport/tcp/u.c': 'int u(void);\nint t(void);\nint u(void) { return t(); }\n',
}
with open(os.path.join(ROOT, 'api', 'pictures', 'layers.svg'), encoding='utf-8') as f:
    GOOD['api/pictures/layers.svg'] = f.read()
PARTS = 'api/p2p -&gt; transport, kernels, base'

# What is changed in which file, and the error that must follow.
BREAKS = [
    ({'api/calls/d.c': '#include "../work/comm.h"\nint d(void);\nint a(void) { return d(); }\n',
      'api/calls/a.c': 'int a(void);\nint d(void);\nint d(void) { return a(); }\n'},
     'api: a circle of calls: api/calls/a.c -> api/calls/d.c -> api/calls/a.c'),
    ({'api/comm/b.c': '#include "../work/comm.h"\nint b(void) { return a(); }\n'},
     'api/comm/b.c calls a of api/calls/a.c, and api/calls is not below api/comm'),
    ({'transport/tcp/t.c': 'int v(void);\nint t(void);\nint t(void) { return v(); }\n',
      'transport/shm/v.c': 'int v(void);\nint v(void) { return 1; }\n'},
     'transport/tcp/t.c calls v of transport/shm/v.c, and transport/shm is not below transport/tcp'),
    ({'api/other/o.c': 'int o(void);\nint o(void) { return 1; }\n'}, 'api/other/o.c is in no part'),
    ({f'api/also{i}.c': '#include "wide.h"\n' for i in range(walls.HEADER_INCLUDERS + 1)} |
     {'api/wide.h': ''}, 'wide.h is included by 26 files, 25 may'),
    ({f'api/more{i}.c': '#include "comm.h"\n' for i in range(walls.INCLUDERS)},
     'too many include comm.h'),
    ({'api/all.h': '#include "comm.h"\n'}, 'api/all.h includes comm.h'),
    ({f'base/file{i}.c': '' for i in range(walls.FILES + 1)}, 'base/ has 31 files, 30 may be'),
    ({'api/pictures/layers.svg': GOOD['api/pictures/layers.svg'].replace(PARTS, 'api/p2p -&gt; transport, base')},
     'api/pictures/layers.svg draws api/p2p/ -> base, transport, arrows.py allows base, kernels, transport'),
    ({'api/pictures/layers.svg': GOOD['api/pictures/layers.svg'].replace(PARTS, 'api/p2p')},
     'api/pictures/layers.svg draws no layer api/p2p/'),
]


compiled = {}  # source's text -> object, compiled once


def run(files):
    """(exit status, output) of walls.py for a source with these files."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), 'w', encoding='utf-8') as out:
                out.write(text)
        args = [root, '--nm', NM]
        for room in walls.ORDER:
            archive = os.path.join(root, f'lib{room.replace("/", "_")}.a')
            objects = [build(root, path) for path in files
                       if path.endswith('.c') and '/' in path[len('api/'):] and
                       path.partition('/')[0] == room]
            make_archive(archive, objects)
            args += ['--archive', f'{room}={archive}']
        with contextlib.redirect_stdout(io.StringIO()) as out:
            try:
                walls.main(args)
            except SystemExit as end:
                return end.code, out.getvalue()
        return None, out.getvalue()


def make_archive(archive, objects):
    if objects:
        subprocess.run([AR, 'rcs', archive, *objects], check=True)
    else:
        with open(archive, 'w', encoding='ascii') as out:
            out.write('!<arch>\n')


def build(root, path):
    """The object of a source, named as meson names it."""
    to = os.path.join(root, path.partition('/')[2].replace('/', '_') + '.o')
    with open(os.path.join(root, path), encoding='utf-8') as file:
        text = file.read()
    if text not in compiled:
        subprocess.run([*CC.split(), '-c', os.path.join(root, path), '-o', to], check=True)
        with open(to, 'rb') as file:
            compiled[text] = file.read()
    with open(to, 'wb') as file:
        file.write(compiled[text])
    return to


def main():
    failed = 0
    status, text = run(GOOD)
    if status != 0:
        failed += 1
        print(f'the good source does not pass:\n{text}')
    for change, wanted in BREAKS:
        status, text = run({**GOOD, **change})
        if status != 1 or wanted not in text:
            failed += 1
            print(f'not found: {wanted}\n{text}')
    print(f'{len(BREAKS) + 1} cases, {failed} failed')
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
