#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the pictures of README.md from the source: api/pictures/draw.py [--check] [SOURCE_ROOT]

  layers.svg    the folders of the library and what each may use (test/abi/arrows.py)
  message.svg   the functions that a message passes, with the folders that define them

--check writes nothing. It fails if a picture differs from the source.
"""
import html
import math
import os
import re
import sys

ARGUMENTS = [argument for argument in sys.argv[1:] if argument != '--check']
ROOT = os.path.abspath(ARGUMENTS[0] if ARGUMENTS else os.path.join(os.path.dirname(__file__), '..', '..'))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, 'test', 'abi'))

import arrows  # noqa: E402 pylint: disable=wrong-import-position

COLUMN, GAP, HEIGHT, STEP = 204, 14, 58, 84
WIDTH_OF_11 = 5.2  # of a character of size 11, on average
INK, GREY, LINE = '#1b2733', '#5b6770', '#7a8894'
FILL = {'api': '#e8f1fb', 'algorithms': '#e9f6ec', 'transport': '#fdf1e2', 'rendezvous': '#f6ecf8',
        'kernels': '#fbeaea', 'base': '#eef0f2'}
# Layer: row, first column, number of columns, purpose.
PLACE = {
    'api': (1, 0, 4, 'public functions, communicators, works, errors'),
    'api/p2p': (2, 0, 2, 'point to point: matching of messages and receives'),
    'api/diagnosis': (2, 2, 1, 'call log, hang report, traces'),
    'api/agreement': (2, 3, 1, 'consensus after a failure'),
    'transport/chaos': (3, 0, 1, 'fault injection, for tests'),
    'algorithms/verify': (3, 1, 1, 'proofs of plans, for tests'),
    'algorithms': (3, 2, 1, 'plans, selection, executor'),
    'api/members': (3, 3, 1, 'ranks of a communicator'),
    'transport': (4, 0, 3, 'links and channels: shm, cuda_ipc, verbs, tcp, self'),
    'rendezvous': (4, 3, 1, 'launchers and stores'),
    'kernels': (5, 0, 3, 'reductions and copies: CPU, CUDA'),
    'base': (6, 0, 4, 'status, log, settings, deadlines, waiting, authentication'),
}
PROGRAMS = [('tools/  examples/', 0, 2, 'programs; they use ringcomm.h'),
            ('api/python', 2, 1, 'the Python package'),
            ('api/nccl', 3, 1, 'libnccl.so.2')]
# Functions that a message passes: down on the sender's side, up on the receiver's.
SENDER = [
    ('rcm_all_reduce', 'checks the arguments, records the call'),
    ('rcmi_algorithm_select', 'selects the algorithm with the lowest predicted time'),
    ('rcmi_run_progress', 'executes the next step of the plan'),
    ('rcmi_channel_reserve', 'returns a free slot of the channel to rank 1'),
    ('rcmi_copy', 'copies the data into the slot, or reduces it there'),
    ('rcmi_channel_commit', 'publishes the message and wakes rank 1 if it sleeps'),
]
RECEIVER = [
    ('rcm_all_reduce', 'returns when the last step is done'),
    ('rcmi_run_end', 'ends the operation'),
    ('rcmi_channel_release', 'frees the slot, a credit for rank 0'),
    ('rcmi_copy', 'copies the data from the slot, or reduces it'),
    ('rcmi_channel_peek', 'returns the message in its slot'),
    ('rcmi_run_progress', 'executes the step that waits for the message'),
]


def text(x, y, words, size=12, colour=INK, more=''):
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}"{more}>{html.escape(words)}</text>'


def box(x, y, width, lines, fill, title):
    """A rectangle with a bold line and smaller ones; title: shown by a browser."""
    name, *rest = lines
    shown = [text(x + 10, y + 19, name, 13, INK, ' font-weight="bold"')]
    shown += [text(x + 10, y + 35 + 15 * i, line, 11 if len(line) * WIDTH_OF_11 <= width - 20 else 8.5,
                   INK if i == 0 else GREY) for i, line in enumerate(rest)]
    return [f'<g><title>{html.escape(title)}</title>',
            f'<rect x="{x}" y="{y}" width="{width}" height="{HEIGHT}" rx="5" fill="{fill}" stroke="{LINE}"/>',
            *shown, '</g>']


def arrow(x1, y1, x2, y2):
    length = math.hypot(x2 - x1, y2 - y1)
    along, across = (x2 - x1) / length * 8, (y2 - y1) / length * 8
    head = ' '.join(f'{x:.1f},{y:.1f}' for x, y in (
        (x2, y2), (x2 - along - across / 2, y2 - across + along / 2),
        (x2 - along + across / 2, y2 - across - along / 2)))
    return (f'<path d="M{x1} {y1}L{x2} {y2}" stroke="{GREY}"/>'
            f'<polygon points="{head}" fill="{GREY}"/>')


def picture(width, height, body):
    return '\n'.join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">',
        '<!-- drawn by api/pictures/draw.py -->',
        f'<rect width="{width}" height="{height}" fill="white"/>', *body, '</svg>', ''])


# ---- layers ----------------------------------------------------------------------------------------


def reachable(layer):
    """All that a layer reaches through others."""
    found = set()
    for used in arrows.MAY_USE[layer]:
        found |= {used} | reachable(used)
    return found


def direct(layer):
    """What a layer uses and does not reach through another one: these arrows are drawn."""
    used = arrows.MAY_USE[layer]
    return [one for one in used if not any(one in reachable(other) for other in used)]


def span(layer):
    """Left and right edge, and the top."""
    row, first, columns, _ = PLACE[layer]
    left = GAP + first * (COLUMN + GAP)
    return left, left + columns * (COLUMN + GAP) - GAP, GAP + row * STEP


def edge(layer, used):
    """An arrow from the bottom of a box to the top of another one, or to its side in the same row."""
    left, right, top = span(layer)
    to_left, to_right, to_top = span(used)
    if top == to_top:
        return arrow(right, top + HEIGHT // 2, to_left, top + HEIGHT // 2)
    low, high = max(left, to_left), min(right, to_right)
    if low < high:  # one is above the other
        at = (low + high) // 2
        return arrow(at, top + HEIGHT, at, to_top)
    return (arrow(left + 30, top + HEIGHT, to_right - 30, to_top) if to_right <= left else
            arrow(right - 30, top + HEIGHT, to_left + 30, to_top))


def layers():
    missing = set(arrows.MAY_USE) - set(PLACE) - arrows.FACES
    if missing:
        sys.exit(f'api/pictures/draw.py: no place for {", ".join(sorted(missing))}')
    body = []
    for name, first, columns, purpose in PROGRAMS:
        left = GAP + first * (COLUMN + GAP)
        right = left + columns * (COLUMN + GAP) - GAP
        body += box(left, GAP, right - left, [name, purpose], 'white', name)
        body.append(arrow((left + right) // 2, GAP + HEIGHT, (left + right) // 2, GAP + STEP))
    for layer in PLACE:
        left, right, top = span(layer)
        used = [name.rpartition('/')[2] for name in arrows.MAY_USE[layer]]
        uses = 'uses ' + ', '.join(used) if used else 'uses no other layer'
        body += box(left, top, right - left, [layer, PLACE[layer][3], uses], FILL[layer.partition('/')[0]],
                    f'{layer} -> {", ".join(arrows.MAY_USE[layer])}')
        body += [edge(layer, name) for name in direct(layer)]
    return picture(2 * GAP + 4 * COLUMN + 3 * GAP, GAP + 6 * STEP + HEIGHT + GAP, body)


# ---- one message -----------------------------------------------------------------------------------


def sources():
    for layer in arrows.MAY_USE:
        for path in arrows.room_files(ROOT, layer):
            with open(path, encoding='utf-8') as file:
                yield os.path.dirname(os.path.relpath(path, ROOT)), file.read()


def folders_of(names):
    """Function -> the folder that defines it."""
    found = {}
    for folder, source in sources():
        for name in names:
            if name not in found and re.search(rf'^\w[^;{{}}()#]*\b{name}\([^;{{}}]*\{{', source, re.M):
                found[name] = folder
    missing = [name for name in names if name not in found]
    if missing:
        sys.exit(f'api/pictures/draw.py: no layer defines {", ".join(missing)}')
    return found


def message():
    folders = folders_of({name for name, _ in SENDER + RECEIVER})
    width, wide = 2 * GAP + 4 * COLUMN + 3 * GAP, 380
    right = width - GAP - wide
    body = [text(GAP + 4, 24, 'rank 0 sends', 14, INK, ' font-weight="bold"'),
            text(right + 4, 24, 'rank 1 receives', 14, INK, ' font-weight="bold"')]
    for column, calls in ((GAP, SENDER), (right, RECEIVER)):
        for row, (name, does) in enumerate(calls):
            top = 36 + row * STEP
            folder = folders[name]
            body += box(column, top, wide, [name, does, folder + '/'], FILL[folder.partition('/')[0]], name)
            if row > 0:
                ends = (top - STEP + HEIGHT, top) if calls is SENDER else (top, top - STEP + HEIGHT)
                body.append(arrow(column + wide // 2, ends[0], column + wide // 2, ends[1]))
    top = 36 + 5 * STEP + HEIGHT // 2
    body += [arrow(GAP + wide, top, right, top),
             text(GAP + wide + 12, top - 8, 'shared memory', 11, GREY)]
    return picture(width, 36 + 5 * STEP + HEIGHT + GAP, body)


def main():
    wrong = 0
    for name, drawn in (('layers.svg', layers()), ('message.svg', message())):
        path = os.path.join(ROOT, 'api', 'pictures', name)
        if '--check' not in sys.argv:
            with open(path, 'w', encoding='utf-8') as file:
                file.write(drawn)
            continue
        with open(path, encoding='utf-8') as file:
            if file.read() != drawn:
                print(f'api/pictures/{name} differs from the source: run api/pictures/draw.py')
                wrong += 1
    sys.exit(1 if wrong else 0)


if __name__ == '__main__':
    main()
