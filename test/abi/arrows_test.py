#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The test of arrows.py itself: arrows_test.py ARROWS CC AR NM

Makes a small library of all rooms, sees it pass, then breaks one arrow at a time, by an include or
by a symbol, and sees each found and named.
"""
import os
import subprocess
import sys
import tempfile

ARROWS, CC, AR, NM = sys.argv[1:5]

GOOD = {
    'api/ringcomm.h': 'int rcm_public(void);\nint rcm_low(void);\n',
    'base/error.h': 'int rcmi_error(void);\n',
    'base/error.c': '#include "ringcomm.h"\n#include "error.h"\n#include <stdio.h>\n'
                    'int rcmi_error(void) { return puts("x"); }\n'
                    'int rcm_low(void) { return rcm_public(); }\n',
    'kernels/kernels.h': 'int rcmi_kernel(void);\n',
    'kernels/sum.c': '#include "kernels.h"\n#include "error.h"\n'
                     'int rcmi_kernel(void) { return rcmi_error(); }\n',
    'transport/transport.h': 'int rcmi_link(void);\n',
    'transport/shm/shm.h': 'int rcmi_shm(void);\n',
    'transport/shm/shm.c': '#include "../transport.h"\n#include "shm/shm.h"\n#include "error.h"\n'
                           'int rcmi_shm(void) { return rcmi_error(); }\n'
                           'int rcmi_link(void) { return rcmi_shm(); }\n',
    'rendezvous/store.h': 'int rcmi_store(void);\n',
    'rendezvous/store.c': '#include "store.h"\n#include "error.h"\n'
                          'int rcmi_store(void) { return rcmi_error(); }\n',
    'algorithms/plan.h': 'int rcmi_plan(void);\n',
    'algorithms/plan.c': '#include "plan.h"\n#include "kernels.h"\n#include "transport.h"\n'
                         'int rcmi_plan(void) { return rcmi_kernel() + rcmi_link(); }\n',
    'api/comm.c': '#include "ringcomm.h"\n#include "plan.h"\n#include "store.h"\n'
                  '#include "transport.h"\n'
                  'int rcm_public(void) { return rcmi_plan() + rcmi_store() + rcmi_link(); }\n',
}

# What is appended to which file, and what must be said.
BREAKS = [
    ('base/error.c', '#include "kernels.h"\n', 'base may not include kernels.h of kernels'),
    ('kernels/sum.c', '#include "transport.h"\n', 'kernels may not include transport.h'),
    ('transport/shm/shm.c', '#include "plan.h"\n', 'transport may not include plan.h'),
    ('transport/shm/shm.c', '#include "../../algorithms/plan.h"\n', 'transport may not include'),
    ('rendezvous/store.c', '#  include  <transport.h>\n', 'rendezvous may not include transport.h'),
    ('algorithms/plan.c', '#include "rendezvous/store.h"\n', 'algorithms may not include'),
    ('algorithms/plan.h', '#include "store.h"\n', 'algorithms may not include store.h'),
    ('rendezvous/store.c', '#include "kernels.h"\n',
     'rendezvous may not include kernels.h of kernels'),
    ('base/error.c', 'int rcmi_plan(void);\nint rcmi_b(void);\nint rcmi_b(void) '
                     '{ return rcmi_plan(); }\n', 'base (error.o): may not use rcmi_plan'),
    ('kernels/sum.c', 'int rcmi_link(void);\nint rcmi_b(void) { return rcmi_link(); }\n',
     'kernels (sum.o): may not use rcmi_link of transport'),
    ('transport/shm/shm.c', 'int rcmi_store(void);\nint rcmi_b(void) { return rcmi_store(); }\n',
     'transport (shm.o): may not use rcmi_store of rendezvous'),
    ('algorithms/plan.c', 'extern int rcmi_store(void);\nint (*rcmi_p)(void) = rcmi_store;\n',
     'algorithms (plan.o): may not use rcmi_store'),
    ('rendezvous/store.c', 'int rcmi_kernel(void);\nint rcmi_b(void) { return rcmi_kernel(); }\n',
     'rendezvous (store.o): may not use rcmi_kernel of kernels'),
]
ROOMS = {name.split('/')[0] for name in GOOD}


def build(root, files):
    """Writes the tree and makes the archive of each room; returns the arguments for arrows.py."""
    objects = {room: [] for room in ROOMS}
    for name, text in files.items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text)
    include = [f'-I{root}'] + [f'-I{root}/{room}' for room in sorted(ROOMS)]
    for name in files:
        if name.endswith('.c'):
            room, out = name.split('/')[0], os.path.join(root, name[:-2] + '.o')
            subprocess.run([*CC.split(), *include, '-c', os.path.join(root, name), '-o', out],
                           check=True)
            objects[room].append(out)
    args = [root, '--nm', NM]
    for room, members in objects.items():
        archive = os.path.join(root, f'lib{room}.a')
        subprocess.run([AR, 'crs', archive, *members], check=True)
        args += ['--archive', f'{room}={archive}']
    return args


def arrows(files):
    with tempfile.TemporaryDirectory() as root:
        done = subprocess.run([sys.executable, ARROWS, *build(root, files)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout


def main():
    status, text = arrows(GOOD)
    if status != 0:
        sys.exit(f'a tree without a broken arrow fails:\n{text}')
    for name, addition, want in BREAKS:
        status, text = arrows({**GOOD, name: GOOD[name] + addition})
        if status != 1 or want not in text:
            sys.exit(f'{name} + {addition!r}: status {status}, wanted "{want}", got:\n{text}')
    print(f'{len(BREAKS)} broken arrows found')


if __name__ == '__main__':
    main()
