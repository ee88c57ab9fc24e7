#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The test of arrows.py itself: arrows_test.py CC AR NM

A small library with all layers must pass. Then each forbidden dependency, by an include or by a symbol, must
be reported with its place.
"""
import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile

import arrows

CC, AR, NM = sys.argv[1:4]

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
    'transport/node.h': 'int rcmi_inner(void);\n',
    'transport/tcp/tcp.h': 'int rcmi_tcp(void);\n',
    'transport/link/link.h': 'int rcmi_state(void);\n',
    'transport/channel/fifo.h': 'int rcmi_fifo(void);\n',
    'transport/channel/channel.c': '#include "node.h"\n#include "../link/link.h"\n',
    'test/unit/test_error.c': '#include "error.h"\n',
    'transport/shm/shm.h': 'int rcmi_shm(void);\n',
    'transport/shm/shm.c': '#include "../transport.h"\n#include "../channel/fifo.h"\n#include "shm/shm.h"\n#include "error.h"\n'
                           'int rcmi_shm(void) { return rcmi_error(); }\n'
                           'int rcmi_link(void) { return rcmi_shm(); }\n',
    'transport/chaos/chaos.c': '#include "../transport.h"\nint rcmi_chaos(void);\n'
                               'int rcmi_chaos(void) { return rcmi_link(); }\n',
    'rendezvous/store.h': 'int rcmi_store(void);\n',
    'rendezvous/store.c': '#include "store.h"\n#include "error.h"\n'
                          'int rcmi_store(void) { return rcmi_error(); }\n',
    'algorithms/plan.h': 'int rcmi_plan(void);\n',
    'algorithms/plan.c': '#include "plan.h"\n#include "kernels.h"\n#include "transport.h"\n'
                         'int rcmi_plan(void) { return rcmi_kernel() + rcmi_link(); }\n',
    'algorithms/verify/verify.h': 'int rcmi_verify(void);\n',
    'algorithms/verify/verify.c': '#include "verify.h"\n#include "plan.h"\n'
                                  'int rcmi_verify(void) { return rcmi_plan(); }\n',
    'api/members/members.h': 'int rcmi_members(void);\n',
    'api/members/members.c': '#include "members.h"\n#include "store.h"\n'
                             'int rcmi_members(void) { return rcmi_store(); }\n',
    'api/agreement/agreement.c': '#include "members.h"\nint rcmi_agree(void);\n'
                                 'int rcmi_agree(void) { return rcmi_members(); }\n',
    'api/diagnosis/diagnosis.c': '#include "members.h"\n#include "plan.h"\nint rcmi_late(void);\n'
                                 'int rcmi_late(void) { return rcmi_members() + rcmi_plan(); }\n',
    'api/p2p/p2p.h': 'int rcmi_p2p(void);\n',
    'api/p2p/p2p.c': '#include "p2p.h"\n#include "transport.h"\n'
                     'int rcmi_p2p(void) { return rcmi_link(); }\n',
    'api/comm.h': 'int rcmi_comm(void);\n',
    'api/comm.c': '#include "ringcomm.h"\n#include "plan.h"\n#include "store.h"\n'
                  '#include "transport.h"\n#include "p2p.h"\n#include "comm.h"\n'
                  'int rcmi_comm(void) { return rcmi_p2p(); }\n'
                  'int rcm_public(void) { return rcmi_plan() + rcmi_store() + rcmi_link(); }\n',
}

# File, appended text, expected output.
BREAKS = [
    ('base/error.c', '#include "kernels.h"\n', 'base may not include kernels.h of kernels'),
    ('kernels/sum.c', '#include "transport.h"\n', 'kernels may not include transport.h'),
    ('kernels/sum.c', '#include "fifo.h"\n', 'kernels may not include fifo.h of transport'),
    ('transport/shm/shm.c', '#include "../node.h"\n', 'a backend may not include ../node.h'),
    ('transport/shm/shm.c', '#include "node.h"\n', 'a backend may not include node.h'),
    ('transport/shm/shm.c', '#include "../link/link.h"\n', 'a backend may not include ../link/link.h'),
    ('transport/shm/shm.c', '#include "link.h"\n', 'a backend may not include link.h'),
    ('transport/shm/shm.c', '#include "../tcp/tcp.h"\n', 'a backend may not include ../tcp/tcp.h'),
    ('transport/shm/shm.c', '#include "tcp/tcp.h"\n', 'a backend may not include tcp/tcp.h'),
    ('test/unit/test_error.c', '#include "../../base/error.c"\n', 'a test may not include'),
    ('transport/shm/shm.c', '#include "plan.h"\n', 'transport may not include plan.h'),
    ('transport/shm/shm.c', '#include "../../algorithms/plan.h"\n', 'transport may not include'),
    ('rendezvous/store.c', '#  include  <transport.h>\n', 'rendezvous may not include transport.h'),
    ('algorithms/plan.c', '#include "rendezvous/store.h"\n', 'algorithms may not include'),
    ('algorithms/plan.h', '#include "store.h"\n', 'algorithms may not include store.h'),
    ('algorithms/plan.c', '#include "verify.h"\n',
     'algorithms may not include verify.h of algorithms/verify'),
    ('algorithms/plan.c', 'int rcmi_verify(void);\nint rcmi_b(void) { return rcmi_verify(); }\n',
     'algorithms (plan.o): may not use rcmi_verify of algorithms/verify'),
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
    ('api/p2p/p2p.c', '#include "comm.h"\n', 'api/p2p may not include comm.h of api'),
    ('api/p2p/p2p.c', '#include "../comm.h"\n', 'api/p2p may not include ../comm.h of api'),
    ('api/p2p/p2p.c', 'int rcmi_comm(void);\nint rcmi_b(void) { return rcmi_comm(); }\n',
     'api/p2p (p2p.o): may not use rcmi_comm of api'),
    ('api/agreement/agreement.c', 'int rcmi_late(void);\nint rcmi_b(void) { return rcmi_late(); }\n',
     'api/agreement (agreement.o): may not use rcmi_late of api/diagnosis'),
    ('transport/shm/shm.c', '#include "p2p.h"\n', 'transport may not include p2p.h of api/p2p'),
    ('rendezvous/store.c', 'int rcmi_kernel(void);\nint rcmi_b(void) { return rcmi_kernel(); }\n',
     'rendezvous (store.o): may not use rcmi_kernel of kernels'),
]
ROOMS = {os.path.dirname(name) for name in GOOD} - {'transport/shm', 'transport/tcp', 'transport/link',
                                                    'transport/channel', 'test/unit'}


def room_of(name):
    return max((room for room in ROOMS if name.startswith(room + '/')), key=len)


def write(root, name, text):
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)


def build(root, name):
    """Compiles a source into its layer's archive."""
    path = os.path.join(root, name)
    folders = sorted(ROOMS | {'transport/link', 'transport/channel'})
    include = [f'-I{root}'] + [f'-I{root}/{folder}' for folder in folders]
    subprocess.run([*CC.split(), *include, '-c', path, '-o', path[:-2] + '.o'], check=True)
    subprocess.run([AR, 'crs', archive(root, room_of(name)), path[:-2] + '.o'], check=True)


def archive(root, room):
    return os.path.join(root, f'lib{room.replace("/", "_")}.a')


def check(root):
    """(exit status, output) of arrows.py."""
    args = [root, '--nm', NM]
    for room in sorted(ROOMS):
        args += ['--archive', f'{room}={archive(root, room)}']
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            arrows.main(args)
        except SystemExit as end:
            return end.code, out.getvalue()
    return None, out.getvalue()


def check_broken(root, name, addition):
    """The same with a text appended to a file. Only a symbol changes the archive."""
    kept = os.path.join(root, 'kept.a')
    uses_symbol = '#' not in addition
    write(root, name, GOOD[name] + addition)
    if uses_symbol:
        shutil.copy(archive(root, room_of(name)), kept)
        build(root, name)
    result = check(root)
    write(root, name, GOOD[name])
    if uses_symbol:
        os.replace(kept, archive(root, room_of(name)))
    return result


def main():
    with tempfile.TemporaryDirectory() as root:
        for name, text in GOOD.items():
            write(root, name, text)
        for name in GOOD:
            if name.endswith('.c') and not name.startswith('test/'):
                build(root, name)
        status, text = check(root)
        if status != 0:
            sys.exit(f'a tree without a broken arrow fails:\n{text}')
        for name, addition, want in BREAKS:
            status, text = check_broken(root, name, addition)
            if status != 1 or want not in text:
                sys.exit(f'{name} + {addition!r}: status {status}, wanted "{want}", got:\n{text}')
        status, text = check(root)
        if status != 0:
            sys.exit(f'the tree does not pass again:\n{text}')
    print(f'{len(BREAKS)} broken arrows found')


if __name__ == '__main__':
    main()
