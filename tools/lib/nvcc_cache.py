#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""nvcc_cache.py DIR NVCC [ARGUMENT...]: runs NVCC with a cache of device code.

An entry of DIR belongs to one command line, environment and version of NVCC. It contains the output
and the hashes of all input files in the depfile; it is valid while these are unchanged. Copies of a
source in several folders share an entry. The host compiler (-ccbin) does not affect device code and
is ignored, so builds with gcc and clang share entries too. Only command lines of the form
`... -MD -MF DEPFILE (-fatbin | -ptx) -o OUTPUT SOURCE` are cached; others are passed to NVCC. If DIR
is not writable, nothing is stored.

nvcc_cache.py --wrap DIR NVCC: makes DIR/nvcc, a script for PATH that runs NVCC with the cache.
"""
import base64
import hashlib
import json
import os
import subprocess
import sys

ENTRIES = 16  # number of entries kept, the newest ones


def argument_after(args, option):
    return args[args.index(option) + 1] if option in args[:-1] else None


def without_names(args):
    """The arguments without output name, source folder and host compiler."""
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
    """The names in the lines `target : name name \\`; relative ones are relative to the source."""
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
    """Uses an entry. False: there is none, or an input file has changed."""
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
        print(f'nvcc_cache: the output is not stored: {error}', file=sys.stderr)


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
    """Makes the script; does not rewrite an equal one, because builds depend on its time stamp."""
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
