#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/lib/nvcc_cache.py with a fake compiler: nvcc_cache_test.py NVCC_CACHE [UNITTEST ARGS]"""
import os
import subprocess
import sys
import tempfile
import unittest

CACHE = os.path.abspath(sys.argv[1])
# Its output is the source plus the header; `runs` gets a line per compilation.
COMPILER = """#!/bin/sh
[ "$1" != --version ] || { cat version; exit; }
echo run >>runs
[ ! -e broken ] || { echo 'it does not compile' >&2; exit 3; }
while [ $# -gt 1 ]; do
    case $1 in -o) output=$2 ;; -MF) depfile=$2 ;; esac
    shift
done
header=$(dirname "$1")/header.h
cat "$1" "$header" >"$output"
[ -z "$depfile" ] || printf '%s : %s \\\\\\n    %s\\n' "$output" "$1" "${header#./}" >"$depfile"
"""


class Cache(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='nvcc-cache-')
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name, text in (('nvcc', COMPILER), ('version', '13.0'), ('header.h', 'header 1'), ('a.cu', 'source 1'),
                           ('runs', '')):
            self.write(name, text)
        os.chmod(self.path('nvcc'), 0o755)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), 'w', encoding='utf-8') as file:
            file.write(text)

    def read(self, name):
        with open(self.path(name), encoding='utf-8') as file:
            return file.read()

    def run_cache(self, *args, status=0, program=(CACHE, 'cache', './nvcc'), **env):
        done = subprocess.run([*program, *args], cwd=self.folder, check=False, capture_output=True, text=True,
                              env={**os.environ, **env})
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def compile(self, *flags, mode='-fatbin', output='a.out', source='a.cu', **keywords):
        """Returns the contents of the output, and whether the compiler ran."""
        for name in (output, 'a.d'):
            if os.path.exists(self.path(name)):
                os.unlink(self.path(name))
        before = self.read('runs')
        self.run_cache(*flags, '-MD', '-MF', 'a.d', mode, '-o', output, source, **keywords)
        target, colon, *names = self.read('a.d').replace('\\\n', ' ').split()
        header = os.path.join(os.path.dirname(source), 'header.h')
        self.assertEqual((target, colon, names), (output, ':', [source, header]))
        return self.read(output), self.read('runs') != before

    def test_once(self):
        for mode in ('-fatbin', '-ptx'):
            self.assertEqual(self.compile(mode=mode), ('source 1header 1', True))
            self.assertEqual(self.compile(mode=mode), ('source 1header 1', False))

    def test_files(self):
        self.compile()
        self.write('header.h', 'header 2')
        self.assertEqual(self.compile(), ('source 1header 2', True))
        self.write('a.cu', 'source 2')
        self.assertEqual(self.compile(), ('source 2header 2', True))
        self.assertEqual(self.compile(), ('source 2header 2', False))

    def test_copies(self):
        """The same in another folder, where the header changes."""
        self.compile()
        os.mkdir(self.path('copy'))
        for name in ('a.cu', 'header.h'):
            self.write(os.path.join('copy', name), self.read(name))
        self.assertEqual(self.compile(source='copy/a.cu'), ('source 1header 1', False))
        self.write('copy/header.h', 'header 2')
        self.assertEqual(self.compile(source='copy/a.cu'), ('source 1header 2', True))
        self.assertEqual(self.compile(), ('source 1header 1', True))

    def test_commands(self):
        self.compile()
        self.assertTrue(self.compile(NVCC_APPEND_FLAGS='-O1')[1])
        self.assertFalse(self.compile(NVCC_APPEND_FLAGS='-O1')[1])
        self.assertFalse(self.compile(output='b.out')[1])
        self.assertTrue(self.compile('-O3')[1])
        self.assertFalse(self.compile()[1])
        self.assertFalse(self.compile('-ccbin', 'clang')[1])
        self.write('version', '13.1')
        self.assertTrue(self.compile()[1])

    def test_failure(self):
        self.write('broken', '')
        done = self.run_cache('-MF', 'a.d', '-fatbin', '-o', 'a.out', 'a.cu', status=3)
        self.assertIn('it does not compile', done.stderr)
        os.unlink(self.path('broken'))
        self.assertEqual(self.compile(), ('source 1header 1', True))

    def test_spoiled(self):
        self.compile()
        entry, = os.listdir(self.path('cache'))
        for spoiled in ('', '{', '[]', '{"files": 1}', '{"files": {}, "output": "?"}'):
            self.write(os.path.join('cache', entry), spoiled)
            self.assertEqual(self.compile(), ('source 1header 1', True), spoiled)
            self.assertFalse(self.compile()[1])

    def test_no_room(self):
        self.write('cache', 'no folder')
        self.assertTrue(self.compile()[1])
        self.assertTrue(self.compile()[1])

    def test_few_entries(self):
        for i in range(20):
            self.compile(f'-D{i}')
        self.assertEqual(len(os.listdir(self.path('cache'))), 16)
        self.assertFalse(self.compile('-D19')[1])

    def test_others(self):
        """Without a depfile the inputs of an output are unknown."""
        for _ in range(2):
            self.run_cache('-fatbin', '-o', 'a.out', 'a.cu')
            self.run_cache('-MF', 'a.d', '-c', '-o', 'a.out', 'a.cu')
        self.assertEqual(self.read('runs').count('run'), 4)
        self.assertFalse(os.path.exists(self.path('cache')))

    def test_wrap(self):
        self.run_cache('--wrap', 'cache', self.path('nvcc'), program=(CACHE,))
        script = self.path('cache/nvcc')
        os.utime(script, (1, 1))
        self.run_cache('--wrap', 'cache', self.path('nvcc'), program=(CACHE,))
        self.assertEqual(os.path.getmtime(script), 1)
        self.assertTrue(self.compile(program=(script,))[1])
        self.assertFalse(self.compile(program=(script,))[1])


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
