#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""descriptors.py ROOT: checks calls that create descriptors, and waits on condition variables.

Every call in the library that creates a descriptor is wrapped in rcmi_fd_high (base/os/fd.h), so that no
descriptor is below 3, or is rcmi_fopen or rcmi_opendir. Other calls are printed with their place. Exempt are
descriptors that the C library closes in the same function (getifaddrs, getaddrinfo), and TWO_STEPS.

Waits on condition variables with deadlines use rcmi_condition_wait (base/thread.h), because the library must
load with glibc 2.28, and its deadlines use one clock. Exempt is the Python binding, which may include only
ringcomm.h."""
import pathlib
import re
import sys

ROOMS = ['base', 'api', 'transport', 'rendezvous', 'kernels', 'algorithms']
MAKERS = ('open open64 openat creat socket accept accept4 eventfd epoll_create epoll_create1 '
          'timerfd_create signalfd inotify_init inotify_init1 memfd_create shm_open dup mkstemp '
          'mkostemp pidfd_open userfaultfd perf_event_open fanotify_init').split()
SYSTEM = 'pidfd_open memfd_create openat open socket eventfd2 userfaultfd perf_event_open pidfd_getfd'
NEVER = 'fopen fdopendir opendir tmpfile popen freopen pipe pipe2'.split()
CONDITIONS = 'pthread_cond_timedwait pthread_cond_clockwait pthread_condattr_setclock'.split()
MAKER = re.compile(r'(?<![\w.>])(?:' + '|'.join(MAKERS) + r')\s*\(|'
                   r'(?<![\w.>])syscall\s*\(\s*(?:SYS_|__NR_)(?:' + SYSTEM.replace(' ', '|') + r')\b')
FORBIDDEN = re.compile(r'(?<![\w.>])(' + '|'.join(NEVER + CONDITIONS) + r')\s*\(')
# Calls that return several descriptors. Each is passed to rcmi_fd_high afterwards.
TWO_STEPS = re.compile(r'(?<![\w.>])(?:socketpair)\s*\(|\bMSG_CMSG_CLOEXEC\b')
DUPLICATE = re.compile(r'\bF_DUPFD(?:_CLOEXEC)?\s*,\s*(.*?)\)')
ALLOWED = re.compile(r'rcmi_fd_high\s*\(\s*(?:\(int\)\s*)?$')


def code(text):
    """The text without comments and strings, with the same line numbers."""
    def blank(match):
        return re.sub(r'[^\n]', ' ', match[0])
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text,
                  flags=re.S)


def faults(path, text):
    text = code(text)

    def place(at):
        return f'{path}:{text.count(chr(10), 0, at) + 1}'
    for match in MAKER.finditer(text):
        if not ALLOWED.search(text[:match.start()]):
            yield f'{place(match.start())}: {match[0].strip()} is not wrapped in rcmi_fd_high()'
    for match in FORBIDDEN.finditer(text):
        use, wrapper = (('rcmi_condition_init, rcmi_condition_wait', 'thread.c')
                        if match[1] in CONDITIONS else ('rcmi_fopen, rcmi_opendir', 'fd.c'))
        if path.name != wrapper and not (match[1] in CONDITIONS and 'python' in path.parts):
            yield f'{place(match.start())}: {match[0]}: use {use}'
    for match in DUPLICATE.finditer(text):
        if match[1].strip() not in ('3', 'STDERR_FILENO + 1'):
            yield f'{place(match.start())}: {match[0]} may return less than 3'
    for match in TWO_STEPS.finditer(text):
        if 'rcmi_fd_high(' not in text:
            yield f'{place(match.start())}: {match[0]} without rcmi_fd_high() for its descriptors'


def check_itself():
    bad = ['int fd = open(path, 0);', 'fd = accept4(l, 0, 0, 0);', 'FILE *f = fopen(p, "re");',
           'fd = fcntl(a, F_DUPFD_CLOEXEC, 0);', 'syscall(SYS_pidfd_open, pid, 0);',
           'socketpair(1, 2, 3, pair);', 'DIR *d = opendir(x);', 'x = dup(1);',
           'pthread_cond_timedwait(&changed, &lock, &at);']
    good = ['rcmi_fd_high(open(path, 0));', '/* open(x) */ f("open(");', 'rcm_store_open(x, 1, &s);',
            'row->open(x);', 'rcmi_fd_high((int)syscall(SYS_pidfd_open, pid, 0));',
            'fcntl(a, F_DUPFD_CLOEXEC, 3);', 'e.messaging.open(x);', 'rcmi_fd_high(\n    socket(1))']
    path = pathlib.Path('x.c')
    wrong = [t for t in bad if not list(faults(path, t))] + [t for t in good if list(faults(path, t))]
    for text in wrong:
        print(f'the test itself: {text}')
    return len(wrong)


def main():
    root = pathlib.Path(sys.argv[1])
    files = [f for room in ROOMS for f in sorted((root / room).rglob('*.[ch]'))]
    found = [fault for f in files for fault in faults(f.relative_to(root), f.read_text())]
    print('\n'.join(found))
    print(f'{len(files)} files, {len(found)} faults')
    sys.exit(bool(found) or check_itself() > 0 or len(files) < 100)


main()
