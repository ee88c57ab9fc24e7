#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The rules for names and texts, in the whole source: words_test.py SOURCE_ROOT

  terms       no file has an old name of a term of CONTRIBUTING.md (TERMS)
  verbs       the source has at most VERBS_MOST verbs of speech: a program returns, sends, reports
  sentences   of a document's sentences, at most 5 % have more than 30 words (SENTENCES)
  sizes       README.md, CONTRIBUTING.md and algorithms/PERFORMANCE.md are short (SIZES)
  paths       files that documents name exist (DOCUMENTS)

EXCEPTIONS lists what may break a rule, and why.
"""
import collections
import os
import re
import subprocess
import sys

ROOT = os.path.abspath(sys.argv[1])

VERBS_MOST = 250
VERBS = re.compile(r'(?<!\w)(sa(y|ys|id)|t(ell|ells|old)|as(ks|ked)|he(ar|ars|ard))(?!\w)', re.I)
WORDS_IN_SENTENCE, LONG_SENTENCES_PERCENT = 30, 5
SENTENCES = ['README.md', 'CONTRIBUTING.md', 'api/ringcomm.h']
SIZES = {'README.md': 9000, 'CONTRIBUTING.md': 8000, 'algorithms/PERFORMANCE.md': 6000}
DOCUMENTS = ['README.md', 'CONTRIBUTING.md', 'algorithms/PERFORMANCE.md', 'algorithms/README.md', 'api/README.md',
             'api/python/README.md', 'api/nccl/README.md', 'rendezvous/README.md', 'tools/README.md', 'tools/packaging/README.md',
             'transport/README.md']

# (rule, path, text, reason): the text in the file at the path is exempt from the rule. Each must occur.
EXCEPTIONS = [
    ('paths', 'tools/packaging/README.md', 'subprojects/ringcomm.wrap', "a file of the user's project"),
]

# Term of CONTRIBUTING.md -> its old names, as regular expressions.
TERMS = {
    'eager, rendezvous, RTS, CTS, ACK': [r'unasked', r'KIND_(READY|TAKEN|ANNOUNCE)'],
    'posted memory, destination, location': [
        r'\bshm_place\b', r'shm_memory_place', r'\bplace_(cap|for|like|mask)\b', r'rcmi_node_place_'],
    'zero-copy send': [r'\b(lend|lends|lent|lending)\b'],
    'posted receive, put': [r'\bexpect_place\b', r'rcmi_channel_(expect|invite)'],
    'get, help': [r'\bassist', r'\bfetch_(begin|end|go_on)', r'channel_fetch'],
    'temporal, non-temporal': [r'\bpast = ', r'stored? past', r'past the caches?'],
    'oversubscribed, ranks_per_cpu, cpu_sharers': [r'crowd'],
    'yield, drain on completion': [r'courte(sy|ous)', r'lingers', r'run_linger'],
    'ticket': [r'port->turn'],
    'call log, call record': [r'rcmi_records_', r'\bstory\b', r'_story'],
    'inquiry, diagnosis, origin': [r'blame'],
    'proposal, ballot, promise, acceptance': [
        r'rcmi_claims?_', r'RCMI_CLAIM', r'RCMI_FAILURE_(WORD|ASK|CLAIM)'],
    'fifo, queue': [r'rcmi_ring_(writer|reader|shape|header|slot)', r'RCMI_RING_'],
    'get request': [r'\bdesk\b', r'_desk\b'],
    'unidentified connection': [
        r'rcmi_strangers?_', r'_is_stranger\b', r'rcmi_fd_strangers', r'n_?strangers\b'],
    'log rate': [r'rcmi_(log_)?seldom'],
    'doorbell': [r'rcmi_bell', r'RCMI_BELL', r'rcmi_node_bell'],
    'span': [r'longest_run', r'rcmi_(run_of|plan_runs|run_operand|runs|run_length|cost_runs)\b',
             r'\bruns? of (n )?chunks'],
    'transfer, endpoint': [r'rcmi_pair_'],
}

SELF = 'test/tools/words_test.py'
NO_TEXT = re.compile(r'^LICENSE$|/corpus/|\.(gz|png|svg)$')


def excepted(rule, path):
    return [text for of, where, text, _ in EXCEPTIONS if (of, where) == (rule, path)]


def read(name):
    with open(os.path.join(ROOT, name), encoding='utf-8', errors='replace') as file:
        return file.read()


def without(text, exempt):
    for part in exempt:
        text = text.replace(part, '')
    return text


def source_files():
    """Tracked files; without git (a tarball) all outside of build folders."""
    done = subprocess.run(['git', '-C', ROOT, 'ls-files'], capture_output=True, text=True, check=False)
    if done.returncode == 0 and done.stdout:
        names = done.stdout.splitlines()
    else:
        names = [os.path.relpath(os.path.join(folder, name), ROOT)
                 for folder, _, files in os.walk(ROOT) for name in files
                 if not re.match(r'(build[^/]*|\.git)(/|$)', os.path.relpath(folder, ROOT))]
    return [name for name in names if not NO_TEXT.search(name) and os.path.isfile(os.path.join(ROOT, name))]


# ---- terms and verbs -------------------------------------------------------------------------------


def check_terms(files):
    """Old names of terms, and terms that are not in CONTRIBUTING.md's table."""
    old = re.compile('|'.join(f'(?:{name})' for names in TERMS.values() for name in names))
    table = re.findall(r'^\| ([^|]+?) \|', read('CONTRIBUTING.md'), re.M)
    wrong = [f'CONTRIBUTING.md has no term "{term}"' for term in TERMS if term not in table]
    for name in files:
        if name == SELF:
            continue
        for number, line in enumerate(without(read(name), excepted('terms', name)).splitlines(), 1):
            match = old.search(line)
            if match:
                wrong.append(f'{name}:{number}: "{match[0]}" is an old name, see CONTRIBUTING.md')
    print(f'terms: {len(TERMS)}, looked for in {len(files)} files')
    return wrong


def check_verbs(files):
    counts = collections.Counter()
    for name in files:
        if name.endswith(('.c', '.h', '.md', '.py')) and not name.startswith('test/fuzz'):
            counts[name] = len(VERBS.findall(without(read(name), excepted('verbs', name))))
    total = sum(counts.values())
    print(f'verbs: {total} of speech, {VERBS_MOST} may be')
    if total <= VERBS_MOST:
        return []
    return [f'{total} verbs of speech, {VERBS_MOST} may be; most are in ' +
            ', '.join(f'{name} ({n})' for name, n in counts.most_common(20))]


# ---- sentences -------------------------------------------------------------------------------------


def prose_of_markdown(text):
    """Paragraphs: no code, tables, headings; a list's items are paragraphs."""
    lines = [line for line in text.splitlines() if not re.match(r'    |\||#|!\[', line)]
    return '\n'.join(re.sub(r'^\s*- ', '\n\n', line) for line in lines)


def prose_of_header(text):
    """Paragraphs of a header's comments; indented lines and tables are not prose."""
    paragraphs = []
    for comment in re.findall(r'/\*.*?\*/', text, re.S):
        for line in re.sub(r'^/\*|\*/$', '', comment).splitlines():
            line = re.sub(r'^ *\* ?', '', line)
            if re.match(r' {6,}|-{4}|[A-Z][A-Z ,-]+(\(.*\))?$', line) or re.search(r'\S {2,}\S', line):
                line = ''
            paragraphs.append(re.sub(r'^\s*- ', '\n\n', line.rstrip()))
        paragraphs.append('')
    return '\n'.join(paragraphs)


def sentences(text):
    """Numbers, names and code count as a word each."""
    for paragraph in re.split(r'\n\s*\n', text):
        for sentence in re.split(r'(?<=[.!?])\)?\s+(?=[A-Z0-9`"*(\[]|rcm_|$)', ' '.join(paragraph.split())):
            if re.search(r'\w', sentence):
                yield sentence


def check_sentences():
    wrong = []
    for name in SENTENCES:
        prose = (prose_of_header if name.endswith('.h') else prose_of_markdown)(read(name))
        found = list(sentences(without(prose, excepted('sentences', name))))
        long = [one for one in found if len(re.findall(r'\S*\w\S*', one)) > WORDS_IN_SENTENCE]
        print(f'sentences: {name} has {len(found)}, {len(long)} of them with more than {WORDS_IN_SENTENCE} words')
        if not found or len(long) * 100 > LONG_SENTENCES_PERCENT * len(found):
            wrong += [f'{name}: {len(long)} of {len(found)} sentences have more than {WORDS_IN_SENTENCE} words, '
                      f'{LONG_SENTENCES_PERCENT} % may', *(f'  {one}' for one in long[:12])]
    return wrong


# ---- sizes and paths -------------------------------------------------------------------------------


def check_sizes():
    sizes = {name: os.path.getsize(os.path.join(ROOT, name)) for name in SIZES}
    print('sizes: ' + ', '.join(f'{name} {size} of {SIZES[name]} bytes' for name, size in sizes.items()))
    return [f'{name} has {size} bytes, {SIZES[name]} may be' for name, size in sizes.items()
            if size > SIZES[name]]


def check_paths():
    """Paths in backquotes, relative to the top or to the document's folder."""
    wrong, n = [], 0
    for name in DOCUMENTS:
        folder = os.path.dirname(name)
        for path in re.findall(r'`([\w.-]+(?:/[\w.-]*)+)`', read(name)) + re.findall(r'\]\(([^):]+)\)', read(name)):
            if re.match(r'build|lib/|\.', path) or path in excepted('paths', name):
                continue
            n += 1
            if not any(os.path.exists(os.path.join(ROOT, base, path)) for base in ('', folder)):
                wrong.append(f'{name} names {path}, which does not exist')
    print(f'paths: {n} in {len(DOCUMENTS)} documents')
    return wrong


def main():
    files = source_files()
    wrong = check_terms(files) + check_verbs(files) + check_sentences() + check_sizes() + check_paths()
    wrong += [f'EXCEPTIONS: {path} does not contain "{text}"' for _, path, text, _ in EXCEPTIONS
              if text not in read(path)]
    print('\n'.join(wrong))
    sys.exit(1 if wrong or len(files) < 100 else 0)


if __name__ == '__main__':
    main()
