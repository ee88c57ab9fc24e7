#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the dependencies between layers: arrows.py SOURCE_ROOT [--nm NM] [--archive ROOM=FILE ...]

A layer is a folder of the source, or a part of it that is a library of its own. A layer may use only layers
below it (MAY_USE). The backends in transport/ may include only backend.h of its framework. No test includes a
source of the library.

Checks the #include lines of each layer's files, and the undefined symbols of its static archive. A symbol
must be defined in the layer itself, in a layer it may use, or outside the library. Public functions
(rcm_...) may be defined in any layer and used by all. Prints each violation; exit status 1 if there is one.
"""
import argparse
import os
import re
import subprocess
import sys

MAY_USE = {
    'base': [],
    'kernels': ['base'],
    'transport': ['kernels', 'base'],
    'transport/chaos': ['transport', 'base'],
    'rendezvous': ['base'],
    'algorithms': ['kernels', 'transport', 'base'],
    'algorithms/verify': ['algorithms', 'base'],
    'api/mpi': [],
    'api/python': [],
    'api/nccl': [],
    'api/members': ['transport', 'rendezvous', 'base'],
    'api/p2p': ['transport', 'kernels', 'base'],
    'api/agreement': ['api/members', 'transport', 'base'],
    'api/diagnosis': ['api/members', 'algorithms', 'transport', 'base'],
    'api': ['api/p2p', 'api/agreement', 'api/diagnosis', 'api/members', 'algorithms', 'transport',
            'rendezvous', 'base'],
}
# Language bindings: they may include only ringcomm.h, and are not part of the library.
FACES = {'api/mpi', 'api/nccl', 'api/python'}
# A layer's framework: its folders and private headers. The backends (other folders of the layer) may include
# neither these nor headers of other backends, except OPEN.
FRAMEWORK = {'transport': ['node.h', 'registry.h', 'net', 'link', 'channel']}
OPEN = {'transport': ['channel/fifo.h', 'channel/ranges.h']}
PUBLIC_HEADER = 'ringcomm.h'  # in api/, for all layers
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def room_of(path):
    """The layer of a path relative to the source root."""
    parts = os.path.dirname(os.path.normpath(path)).split(os.sep)
    names = ['/'.join(parts[:n]) for n in range(len(parts), 0, -1)]
    return next((name for name in names if name in MAY_USE), parts[0])


def room_files(root, room):
    for folder, _, names in os.walk(os.path.join(root, room)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith(('.c', '.h', '.cu', '.inc')) and (
                    room_of(os.path.relpath(path, root)) == room):
                yield path


def headers_of_rooms(root):
    """Name of each header, and its path relative to its layer -> set of layers that have it."""
    found = {}
    for room in MAY_USE:
        for path in room_files(root, room):
            name = os.path.relpath(path, os.path.join(root, room))
            for key in (name, os.path.basename(name)):
                found.setdefault(key, set()).add(room)
    return found


def rooms_of_include(root, room, path, name, headers):
    """The layers that an #include in `path` may refer to; empty for headers outside the library."""
    beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
    if os.path.exists(beside):
        return {room_of(os.path.relpath(beside, root))}
    first, _, rest = name.partition('/')
    if first in MAY_USE and rest:  # "base/error.h": an include relative to the source root
        return {room_of(name)}
    owners = headers.get(os.path.normpath(name), set())
    return {room} if room in owners else owners


def hidden_from_row(root, path, name):
    """True if a file of a backend includes a header that backends may not include."""
    room, row, *rest = os.path.relpath(path, root).split(os.sep)
    if room not in FRAMEWORK or not rest or row in FRAMEWORK[room]:
        return False
    inner = [os.path.join(root, room, name) for name in FRAMEWORK[room]]
    places = [os.path.dirname(path), os.path.join(root, room), *inner, root]
    meant = next((os.path.relpath(os.path.normpath(os.path.join(place, name)), root)
                  for place in places if os.path.exists(os.path.join(place, name))), name)
    parts = meant.split(os.sep)
    if os.path.relpath(meant, room) in OPEN[room]:
        return False
    return parts[0] == room and (parts[1] in FRAMEWORK[room] or (len(parts) > 2 and parts[1] != row))


def check_tests(root):
    """Tests that include a source of the library instead of linking it."""
    broken = []
    for folder, _, names in os.walk(os.path.join(root, 'test')):
        for name in sorted(name for name in names if name.endswith(('.c', '.h'))):
            path = os.path.join(folder, name)
            with open(path, encoding='utf-8') as f:
                for number, line in enumerate(f, 1):
                    match = INCLUDE.match(line)
                    if match and match[2].endswith('.c'):
                        broken.append(f'{os.path.relpath(path, root)}:{number}: a test may not '
                                      f'include {match[2]}')
    return broken


def check_includes(root):
    broken, lines = [], 0
    headers = headers_of_rooms(root)
    for room, allowed in MAY_USE.items():
        for path in room_files(root, room):
            with open(path, encoding='utf-8') as f:
                text = f.readlines()
            for number, line in enumerate(text, 1):
                match = INCLUDE.match(line)
                if not match or os.path.basename(match[2]) == PUBLIC_HEADER:
                    continue
                lines += 1
                where = f'{os.path.relpath(path, root)}:{number}'
                if hidden_from_row(root, path, match[2]):
                    broken.append(f'{where}: a backend may not include {match[2]}, only backend.h and what '
                                  'it includes')
                owners = rooms_of_include(root, room, path, match[2], headers)
                if owners and not owners & {room, *allowed}:
                    broken.append(f'{where}: {room} may not include {match[2]} '
                                  f'of {" or ".join(sorted(owners))}')
    return broken, lines


def listed(nm, archives):
    """Layer -> [(member, symbol, kind)] of the external symbols in its archive."""
    listing = subprocess.run([nm, '-A', '-g', '-P', *archives.values()], check=True, text=True,
                             capture_output=True).stdout
    rooms = {path: room for room, path in archives.items()}
    table = {room: [] for room in archives}
    for line in listing.splitlines():
        match = re.match(r'(?P<file>.*?)(\[(?P<member>[^\]]*)\])?: (?P<name>\S+) (?P<kind>\S)', line)
        if not match:
            continue
        path, member = match['file'], match['member']
        if member is None:  # "lib.a:member.o: "
            path, _, member = path.rpartition(':')
        table[rooms[path]].append((os.path.basename(member), match['name'], match['kind']))
    return table


def symbols(rows):
    """(defined, undefined) external symbols: name -> member of the archive."""
    defined, undefined = {}, {}
    for member, name, kind in rows:
        (undefined if kind in 'Uvw' else defined).setdefault(name, member)
    return defined, undefined


def check_symbols(nm, archives):
    broken, count = [], 0
    table = {room: symbols(rows) for room, rows in listed(nm, archives).items()}
    owners = {}
    for room, (defined, _) in table.items():
        for name in defined:
            owners.setdefault(name, set()).add(room)
    for room, (_, undefined) in table.items():
        for name, member in sorted(undefined.items()):
            count += 1
            rooms = owners.get(name, set())
            if name.startswith('rcm_') or not rooms or rooms & {room, *MAY_USE[room]}:
                continue
            broken.append(f'{room} ({member}): may not use {name} of '
                          f'{" or ".join(sorted(rooms))}')
    return broken, count


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('root')
    parser.add_argument('--nm', default='nm')
    parser.add_argument('--archive', action='append', default=[], metavar='ROOM=FILE')
    args = parser.parse_args(argv)
    archives = dict(item.split('=', 1) for item in args.archive)
    if archives and set(archives) != set(MAY_USE) - FACES:
        sys.exit(f'archives of {sorted(archives)} given, of {sorted(set(MAY_USE) - FACES)} required')
    broken, lines = check_includes(args.root)
    broken += check_tests(args.root)
    uses = 0
    if archives:
        more, uses = check_symbols(args.nm, archives)
        broken += more
    for text in broken:
        print(f'broken arrow: {text}')
    print(f'{lines} include lines and {uses} uses of symbols read, {len(broken)} broken arrows')
    if lines == 0 or (archives and uses == 0):
        sys.exit('nothing was read')
    sys.exit(1 if broken else 0)


if __name__ == '__main__':
    main()
