#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares three lists that must be equal: exports.py HEADER MAP LIBRARY NM

The functions declared in ringcomm.h, the names in the linker map, and the symbols exported by the shared
library. The shared library must not contain symbols of the libraries for tests and tools (APART).
"""
import re
import subprocess
import sys

# transport/chaos/, algorithms/verify/.
APART = re.compile(r'^chaos_|^rcmi_verif')


def declared(path):
    """Names of functions declared in the header: 'rcm_...(' outside of all brackets."""
    with open(path, encoding='utf-8') as f:
        text = f.read()
    text = re.sub(r'/\*.*?\*/', ' ', text, flags=re.S)
    text = re.sub(r'\\\n', ' ', text)
    text = re.sub(r'^\s*#.*$', ' ', text, flags=re.M)
    text = re.sub(r'extern\s+"C"\s*{', ' ', text)
    names, depth = [], 0
    for match in re.finditer(r'[({\[]|[)}\]]|\brcm_\w+(?=\s*\()', text):
        token = match[0]
        if token in '({[':
            depth += 1
        elif token in ')}]':
            depth = max(0, depth - 1)  # the closing brace of extern "C" is unmatched here
        elif depth == 0:
            names.append(token)
    return names


def mapped(path):
    with open(path, encoding='utf-8') as f:
        text = f.read()
    text = re.sub(r'/\*.*?\*/|#[^\n]*', ' ', text, flags=re.S)
    names = []
    for body in re.findall(r'\{(.*?)\}', text, flags=re.S):
        part = 'global'
        for word in re.findall(r'global\s*:|local\s*:|[^\s;]+', body):
            if word.endswith(':'):
                part = word.rstrip(': ')
            elif part == 'global':
                names.append(word)
    return names


def exported(nm, path):
    listing = subprocess.run([nm, '-D', '--defined-only', '-P', path], check=True, text=True,
                             capture_output=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    # kind A is a version name of the map, not a function
    return [row[0].split('@')[0] for row in rows if row[1] != 'A']


def apart(nm, path):
    """Symbols of the libraries for tests and tools. A stripped library shows none."""
    listing = subprocess.run([nm, '-P', path], check=False, text=True, capture_output=True).stdout
    return sorted({line.split()[0] for line in listing.splitlines() if APART.match(line)})


def main():
    header, version_map, library, nm = sys.argv[1:5]
    lists = {'ringcomm.h': declared(header), 'ringcomm.map': mapped(version_map),
             'libringcomm.so': exported(nm, library)}
    bad = False
    for where, names in lists.items():
        twice = {name for name in names if names.count(name) > 1}
        if not names or twice:
            print(f'{where}: {len(names)} names, named twice: {sorted(twice)}')
            bad = True
    for name in sorted(set().union(*lists.values())):
        missing = [where for where, names in lists.items() if name not in names]
        if missing:
            print(f'{name} is not in {" and not in ".join(missing)}')
            bad = True
    for name in apart(nm, library):
        print(f'libringcomm.so contains {name}, which belongs to tests and tools')
        bad = True
    print(', '.join(f'{len(names)} in {where}' for where, names in lists.items()))
    sys.exit(bad)


if __name__ == '__main__':
    main()
