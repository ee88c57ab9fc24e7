#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reads the table of words in CONTRIBUTING.md and finds none of its old words in the source:
words_test.py SOURCE_ROOT"""
import os
import re
import subprocess
import sys

ROOT = os.path.abspath(sys.argv[1])
EXEMPT = re.compile(r'^(LICENSE|CONTRIBUTING\.md|test/tools/words_test\.py)$'
                    r'|/corpus/|\.(gz|png|svg)$')


def old_words():
    """The regular expressions of the table's last column."""
    words = []
    with open(os.path.join(ROOT, 'CONTRIBUTING.md'), encoding='utf-8') as file:
        for line in file.read().split('\n## ')[1].splitlines():
            cells = re.split(r'(?<!\\)\|', line.strip())
            if len(cells) == 5 and cells[1].strip() not in ('word', '---'):
                words += [w.replace('\\|', '|') for w in re.findall(r'`([^`]+)`', cells[3])]
    return words


def source_files():
    """Tracked files; without git (a tarball) all outside of build folders."""
    done = subprocess.run(['git', '-C', ROOT, 'ls-files'], capture_output=True, text=True, check=False)
    if done.returncode == 0 and done.stdout:
        names = done.stdout.splitlines()
    else:
        names = [os.path.relpath(os.path.join(folder, name), ROOT)
                 for folder, _, files in os.walk(ROOT) for name in files
                 if not re.match(r'(build[^/]*|\.git)(/|$)', os.path.relpath(folder, ROOT))]
    return [name for name in names if not EXEMPT.search(name) and
            os.path.isfile(os.path.join(ROOT, name))]


def main():
    words = old_words()
    if len(words) < 10:
        sys.exit(f'only {len(words)} old words were found in the table')
    pattern = re.compile('|'.join(f'(?:{word})' for word in words))
    if not pattern.search('a crowd'):
        sys.exit('the table does not find a word that it has')
    found, files = 0, source_files()
    for name in files:
        with open(os.path.join(ROOT, name), encoding='utf-8', errors='replace') as file:
            for number, line in enumerate(file, 1):
                match = pattern.search(line)
                if match:
                    print(f'{name}:{number}: "{match[0]}" is an old word, see CONTRIBUTING.md')
                    found += 1
    print(f'{len(words)} old words looked for in {len(files)} files, {found} found')
    sys.exit(1 if found or len(files) < 100 else 0)


if __name__ == '__main__':
    main()
