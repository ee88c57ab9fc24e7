#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The test of the walls inside api/: walls.py SOURCE_ROOT [--nm NM] [--archive FILE ...]

A header that shows the struct of a communicator to every file is no wall, so at most INCLUDERS files
may include api/work/comm.h, each with its own line: no other header may bring it along. And calls
between the files of one archive make no circle (a.c calls b.c, which calls a.c, directly or by others): read
from the symbols of the objects. README's picture of the rooms draws the arrows that arrows.py
allows, no more and no less. A folder has at most FILES files, but pictures and what fuzzers found;
those of LARGE are still to be divided. Not here: whether the code keeps to those arrows (arrows.py).
"""
import argparse
import os
import re
import subprocess
import sys

import arrows

HEADER, INCLUDERS = 'comm.h', 15
FILES, LARGE = 30, {'test/coll', 'test/cuda', 'test/cuda/emulator', 'test/fault'}
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
    """Folders with too many files, and those of LARGE that no longer have so many."""
    wrong = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(('.', 'build')) and
                      name not in ('corpus', 'pictures', '__pycache__')]
        path = os.path.relpath(folder, root)
        if len(names) > FILES and path not in LARGE:
            wrong.append(f'{path}/ has {len(names)} files, {FILES} may be')
        if len(names) <= FILES and path in LARGE:
            wrong.append(f'{path}/ has {len(names)} files: it is not large')
    return wrong


def calls(nm, archive):
    """Object -> set of the objects of the same archive whose symbols it uses."""
    listing = subprocess.run([nm, '-A', '-g', '-P', archive], check=True, text=True,
                             capture_output=True).stdout
    home, uses = {}, {}
    for line in listing.splitlines():
        match = re.match(r'.*?\[([^\]]*)\]: (\S+) (\S)', line) or re.match(r'(.*?): (\S+) (\S)', line)
        if not match:
            continue
        member = os.path.basename(match[1].split(':')[-1])
        if match[3] in 'Uvw':
            uses.setdefault(member, set()).add(match[2])
        else:
            home[match[2]] = member
    return {member: {home[name] for name in names if home.get(name, member) != member}
            for member, names in uses.items()}


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


def check_circles(nm, archive):
    graph = calls(nm, archive)
    print(f'{os.path.basename(archive)}: {sum(map(len, graph.values()))} arrows between '
          f'{len(graph)} files')
    if not graph:
        return [f'{archive}: nothing was read']
    found = circle(graph)
    return [f'{os.path.basename(archive)}: a circle of calls: {" -> ".join(found + found[:1])}'] \
        if found else []


def picture(readme):
    """Room or part -> set of what stands behind its arrow, from README's picture; parts are the
    indented lines below their room."""
    block = re.search(r'^## The rooms\n(.*?)^## ', readme, re.M | re.S)
    drawn, above = {}, ''
    for line in block[1].splitlines() if block else []:
        match = re.match(r'    (?:  \|  )?(  \|- )?(\w+)/\s+-> ([\w, ]+):', line)
        if not match:
            continue
        above = above if match[1] else match[2]
        name = f'{above}/{match[2]}' if match[1] else match[2]
        drawn[name] = set(match[3].split(', '))
    return drawn


def allowed(room):
    """What the picture shows of a room: not base, which all use, and not its own parts."""
    names = {name for name in arrows.MAY_USE[room] if not name.startswith(room + '/')} - {'base'}
    return {name.rpartition('/')[2] for name in names}


def check_picture(root):
    with open(os.path.join(root, 'README.md'), encoding='utf-8') as f:
        drawn = picture(f.read())
    print(f'README draws {sum(map(len, drawn.values()))} arrows of {len(drawn)} rooms')
    wrong = [f'README draws no room {room}/' for room in arrows.MAY_USE
             if room not in drawn and room not in {'base', *arrows.FACES}]
    for room, names in drawn.items():
        if room not in arrows.MAY_USE:
            wrong.append(f'README draws {room}/, which arrows.py does not know')
        elif names - {'base'} != allowed(room):
            wrong.append(f'README draws {room}/ -> {", ".join(sorted(names))}, arrows.py allows '
                         f'{", ".join(sorted(allowed(room)))}')
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('root')
    parser.add_argument('--nm', default='nm')
    parser.add_argument('--archive', action='append', default=[])
    args = parser.parse_args()
    wrong = check_includers(args.root) + check_picture(args.root) + check_folders(args.root)
    for archive in args.archive:
        wrong += check_circles(args.nm, archive)
    for text in wrong:
        print(f'broken wall: {text}')
    sys.exit(1 if wrong else 0)


if __name__ == '__main__':
    main()
