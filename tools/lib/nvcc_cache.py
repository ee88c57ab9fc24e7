#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""nvcc_cache.py DIR NVCC [ARGUMENT...]: NVCC, which compiles for GPUs only once.

An entry of DIR is of one command line, environment and version of NVCC, and holds the output and
the hash of each file that went into it, as the depfile says: it counts while these are as they
were. Copies of a source in several folders share an entry. The compiler of host code (-ccbin) has
no part in code of the device, and is left out, so that builds by gcc and by clang share one, too.
What is no `... -MD -MF DEPFILE (-fatbin | -ptx) -o OUTPUT SOURCE` is passed on. Where DIR cannot be
written nothing is kept.

nvcc_cache.py --wrap DIR NVCC: makes DIR/nvcc, a script for PATH that does so.
"""
import base64
import hashlib
import json
import os
import subprocess
import sys

ENTRIES = 16  # kept, the newest


def argument_after(args, option):
    return args[args.index(option) + 1] if option in args[:-1] else None


def without_names(args):
    """What output and source are called, and the compiler of host code."""
    args = args[:-1] + [os.path.basename(args[-1])]
    for option in ('-ccbin', '-o', '-MF'):
        if option in args:
            at = args.index(option)
            args = args[:at] + args[at + 2:]
    return args


def entry_path(folder, nvcc, args):
    version = subprocess.run([nvcc, '--version'], capture_output=True, text=True, check=True).stdout
    flags = [os.environ.get(name) for name in ('NVCC_PREPEND_FLAGS', 'NVCC_APPEND_FLAGS')]
    key = json.dumps([version, flags, without_names(args)])
    return os.path.join(folder, hashlib.sha256(key.encode()).hexdigest() + '.json')


def file_hash(path):
    with open(path, 'rb') as file:
        return hashlib.sha256(file.read()).hexdigest()


def depfile_read(depfile, source):
    """The names in `target : name name \\` over some lines; relative ones as seen from the source."""
    with open(depfile, encoding='utf-8') as file:
        names = file.read().replace('\\\n', ' ').split(':', 1)[1].split()
    folder = os.path.dirname(source) or '.'
    return [name if os.path.isabs(name) else os.path.relpath(name, folder) for name in names]


def write_whole(path, content):
    temporary = f'{path}.{os.getpid()}'
    with open(temporary, 'wb') as file:
        file.write(content)
    os.replace(temporary, path)


def take(entry, source, output, depfile):
    """False: there is no entry, or a file is another one by now."""
    try:
        with open(entry, encoding='utf-8') as file:
            kept = json.load(file)
        files = {os.path.join(os.path.dirname(source), name): value for name, value in kept['files'].items()}
        if any(file_hash(name) != value for name, value in files.items()):
            return False
        write_whole(depfile, f'{output} : {" ".join(files)}\n'.encode())
        write_whole(output, base64.b64decode(kept['output'], validate=True))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    return True


def keep(entry, source, output, depfile):
    try:
        with open(output, 'rb') as file:
            content = base64.b64encode(file.read()).decode()
        kept = {'files': {name: file_hash(os.path.join(os.path.dirname(source), name))
                          for name in depfile_read(depfile, source)},
                'output': content}
        folder = os.path.dirname(entry)
        os.makedirs(folder, exist_ok=True)
        write_whole(entry, json.dumps(kept).encode())
        entries = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith('.json')]
        for old in sorted(entries, key=os.path.getmtime)[:-ENTRIES]:
            os.unlink(old)
    except (OSError, ValueError, IndexError) as error:
        print(f'nvcc_cache: the output is not kept: {error}', file=sys.stderr)


def compile_once(folder, nvcc, args):
    output, depfile = argument_after(args, '-o'), argument_after(args, '-MF')
    if not ('-fatbin' in args or '-ptx' in args) or not output or not depfile:
        os.execv(nvcc, [nvcc, *args])
    entry = entry_path(folder, nvcc, args)
    if take(entry, args[-1], output, depfile):
        return 0
    status = subprocess.run([nvcc, *args], check=False).returncode
    if status == 0:
        keep(entry, args[-1], output, depfile)
    return status


def wrap(folder, nvcc):
    """Not written anew where it is the same: builds depend on it."""
    script = os.path.join(folder, 'nvcc')
    content = f"#!/bin/sh\nexec '{os.path.abspath(__file__)}' '{folder}' '{nvcc}' \"$@\"\n".encode()
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(script) or file_hash(script) != hashlib.sha256(content).hexdigest():
        write_whole(script, content)
        os.chmod(script, 0o755)
    return 0


def main():
    if len(sys.argv) == 4 and sys.argv[1] == '--wrap':
        return wrap(os.path.abspath(sys.argv[2]), sys.argv[3])
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    return compile_once(sys.argv[1], sys.argv[2], sys.argv[3:])


if __name__ == '__main__':
    sys.exit(main())
