#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the order of parts inside the layers: walls.py SOURCE_ROOT [--nm NM] [--archive ROOM=FILE ...]

The symbols of the objects show the calls. Each file of a layer belongs to a part (ORDER). It calls
only its own part and lower parts. Calls between files make no circle (a.c calls b.c, which calls a.c,
directly or through others), except inside one backend. A part calls higher ones only through a table
that it is given. Every part may call public functions (rcm_...).

At most INCLUDERS files may include api/work/comm.h, which has the struct of a communicator, and no
header may include it. For other headers the limit is HEADER_INCLUDERS; headers with a contract are
exempt. api/pictures/layers.svg shows the arrows that
arrows.py allows, no more and no less. A folder has at most FILES files; folders of pictures and of
fuzzers' inputs are exempt. Not here: whether the code follows these arrows (arrows.py).
"""
import argparse
import os
import re
import sys

import arrows

HEADER, INCLUDERS = 'comm.h', 15
FILES = 30
HEADER_INCLUDERS = 25
CONTRACTS = {'ringcomm.h', 'transport.h', 'algorithm.h', 'plan.h'}
# The parts of each archive, from the lowest to the highest. Parts of one line do not call each other.
# A folder with its subfolders is a part; a file or a subfolder can be a separate part.
ORDER = {
    'base': ['base/text.c', 'base/error.c', 'base/settings', 'base', 'base/os',
             'base/auth.c base/wire_version.c'],
    'kernels': ['kernels/cpu', 'kernels/cuda', 'kernels', 'kernels/device'],
    'transport': ['transport/net', 'transport/link', 'transport/channel',
                  'transport/self transport/shm transport/tcp transport/verbs transport/cuda_ipc',
                  'transport'],
    'transport/chaos': ['transport/chaos'],
    'rendezvous': ['rendezvous/store', 'rendezvous/launch', 'rendezvous/join'],
    'algorithms': ['algorithms/plan', 'algorithms/select/cost.c', 'algorithms/algorithm.c',
                   'algorithms algorithms/tree algorithms/two_level', 'algorithms/table.c',
                   'algorithms/select', 'algorithms/exec'],
    'algorithms/verify': ['algorithms/verify'],
    'api/members': ['api/members'],
    'api/p2p': ['api/p2p'],
    'api/agreement': ['api/agreement'],
    'api/diagnosis': ['api/diagnosis'],
    'api': ['api/work', 'api/comm', 'api/calls'],
}
BACKENDS = {'transport/self', 'transport/shm', 'transport/tcp', 'transport/verbs',
            'transport/cuda_ipc', 'transport/chaos'}
ANY_INCLUDE = re.compile(r'^\s*#\s*include\s*"(?:[^"]*/)?([^"/]+)"', re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*"(?:[^"]*/)?' + re.escape(HEADER) + '"', re.M)


def includers(root):
    """Paths of the files below root that include HEADER."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != '.git' and not name.startswith('build')]
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith(('.c', '.h', '.inc')):
                with open(path, encoding='utf-8') as f:
                    if INCLUDE.search(f.read()):
                        found.append(os.path.relpath(path, root))
    return found


def check_includers(root):
    found = includers(root)
    print(f'{HEADER} is included by {len(found)} files, {INCLUDERS} may')
    wrong = [f'{path} includes {HEADER}, and so do all that include it' for path in found
             if path.endswith('.h')]
    if len(found) > INCLUDERS:
        wrong.append(f'too many include {HEADER}: {" ".join(found)}')
    if not found:
        wrong.append(f'no file includes {HEADER}: is this the source?')
    return wrong


def check_folders(root):
    """Folders with too many files."""
    wrong = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(('.', 'build')) and
                      name not in ('corpus', 'pictures', '__pycache__')]
        if len(names) > FILES:
            wrong.append(f'{os.path.relpath(folder, root)}/ has {len(names)} files, {FILES} may be')
    return wrong


def check_headers(root):
    """Headers of the layers above kernels that too many files include."""
    counts = {}
    for room in ('base', 'kernels', 'transport', 'rendezvous', 'algorithms', 'api'):
        for folder, _, names in os.walk(os.path.join(root, room)):
            for name in names:
                if not name.endswith(('.c', '.h')):
                    continue
                if name.endswith('.h') and room in ('transport', 'algorithms', 'api'):
                    counts.setdefault(name, 0)
                with open(os.path.join(folder, name), encoding='utf-8') as f:
                    for included in set(ANY_INCLUDE.findall(f.read())):
                        counts[included] = counts.get(included, 0) + 1
    own = {name for room in ('transport', 'algorithms', 'api')
           for _, _, names in os.walk(os.path.join(root, room)) for name in names}
    return [f'{name} is included by {n} files, {HEADER_INCLUDERS} may' for name, n in
            sorted(counts.items())
            if n > HEADER_INCLUDERS and name in own and name not in CONTRACTS]


def sources(root, room):
    """Name of an object -> path of its source below root."""
    top = room.partition('/')[0]
    found = {}
    for folder, _, names in os.walk(os.path.join(root, top)):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), root)
            found[path.partition('/')[2].replace('/', '_') + '.o'] = path
    return found


def calls(rows, source):
    """File -> file of the same archive -> one of its symbols that the first uses. rows: see arrows.listed."""
    home, uses = {}, {}
    for member, name, kind in rows:
        member = source.get(member, member)
        uses.setdefault(member, set())
        if kind in 'Uvw':
            uses[member].add(name)
        else:
            home[name] = member
    return {member: {home[name]: name for name in sorted(names) if home.get(name, member) != member}
            for member, names in uses.items()}


def part_of(order, path):
    """(height, part) of a file; None: it is in no part."""
    parts = [(len(part), height, part) for height, line in enumerate(order)
             for part in line.split() if path == part or path.startswith(part + '/')]
    return max(parts)[1:] if parts else None


def check_order(order, graph):
    """Calls of a higher part, or of another part at the same height."""
    wrong = [f'{path} is in no part' for path in graph
             if path.endswith('.c') and not part_of(order, path)]
    for path, used in sorted(graph.items()):
        for other, name in sorted(used.items()):
            own, its = part_of(order, path), part_of(order, other)
            if name.startswith('rcm_') or not own or not its or own == its or its[0] < own[0]:
                continue
            wrong.append(f'{path} calls {name} of {other}, and {its[1]} is not below {own[1]}')
    return wrong


def circle(graph):
    """A circle in the graph as a list of its nodes, or None."""
    done = set()

    def walk(node, path):
        if node in path:
            return path[path.index(node):]
        if node in done:
            return None
        for to in sorted(graph.get(node, ())):
            found = walk(to, path + [node])
            if found:
                return found
        done.add(node)
        return None

    return next(filter(None, (walk(node, []) for node in sorted(graph))), None)


def backend_of(path):
    return next((name for name in BACKENDS if path.startswith(name + '/')), path)


def check_archive(root, room, archive, rows):
    graph = calls(rows, sources(root, room))
    print(f'{room}: {sum(map(len, graph.values()))} arrows between {len(graph)} files')
    if not any(graph.values()) and len(graph) > 1:
        return [f'{archive}: no symbols']
    between = {path: [other for other in used if backend_of(other) != backend_of(path)]
               for path, used in graph.items()}
    found = circle(between)
    return check_order(ORDER[room], graph) + (
        [f'{room}: a circle of calls: {" -> ".join(found + found[:1])}'] if found else [])


def picture(svg):
    """Layer -> set of the layers that it uses, from the titles of the picture's boxes."""
    titles = re.findall(r'<title>([\w/]+) -&gt; ([\w/, ]*)</title>', svg)
    return {layer: set(filter(None, used.split(', '))) for layer, used in titles}


def check_picture(root):
    with open(os.path.join(root, 'api', 'pictures', 'layers.svg'), encoding='utf-8') as f:
        drawn = picture(f.read())
    print(f'api/pictures/layers.svg draws {sum(map(len, drawn.values()))} arrows of {len(drawn)} layers')
    wrong = [f'api/pictures/layers.svg draws no layer {layer}/' for layer in arrows.MAY_USE
             if layer not in drawn and layer not in arrows.FACES]
    for layer, names in drawn.items():
        if layer not in arrows.MAY_USE:
            wrong.append(f'api/pictures/layers.svg draws {layer}/, which arrows.py does not have')
        elif names != set(arrows.MAY_USE[layer]):
            wrong.append(f'api/pictures/layers.svg draws {layer}/ -> {", ".join(sorted(names))}, arrows.py allows '
                         f'{", ".join(sorted(arrows.MAY_USE[layer]))}')
    return wrong


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('root')
    parser.add_argument('--nm', default='nm')
    parser.add_argument('--archive', action='append', default=[], metavar='ROOM=FILE')
    args = parser.parse_args(argv)
    archives = dict(item.split('=', 1) for item in args.archive)
    if archives and set(archives) != set(ORDER):
        sys.exit(f'archives of {sorted(archives)} given, of {sorted(ORDER)} wanted')
    wrong = check_includers(args.root) + check_picture(args.root) + check_folders(args.root)
    wrong += check_headers(args.root)
    for room, rows in (arrows.listed(args.nm, archives) if archives else {}).items():
        wrong += check_archive(args.root, room, archives[room], rows)
    for text in wrong:
        print(f'broken wall: {text}')
    sys.exit(1 if wrong else 0)


if __name__ == '__main__':
    main()
