#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The test of exports.py itself: exports_test.py EXPORTS CC NM

A small library with equal lists must pass. A difference in any of the lists must be reported.
"""
import os
import subprocess
import sys
import tempfile

EXPORTS, CC, NM = sys.argv[1:4]

HEADER = '''/* rcm_in_comment(x) */
#define RCM_CALLS(x) rcm_in_macro(x)
#define RCM_LONG(x) \\
    rcm_in_long_macro(x)
#ifdef __cplusplus
extern "C" {
#endif
typedef struct rcm_thing rcm_thing;
struct rcm_ops { int (*rcm_member)(int rcm_arg); };
int rcm_one(void); /* rcm_in_comment() */
__attribute__((warn_unused_result)) const char *
rcm_two(int (*fn)(int rank, void *arg), rcm_thing *thing);
#ifdef __cplusplus
}
#endif
'''
SOURCE = '''int rcm_one(void) { return 1; }
const char *rcm_two(int (*fn)(int, void *), void *t) { return fn && t ? "a" : "b"; }
int rcm_three(void) { return 3; }
int rcmi_hidden(void) { return 4; }
'''
MAP = 'RINGCOMM_0 {\nglobal:\n    rcm_one; rcm_two;\nlocal:\n    *;\n};\n'


def exports(header, source, version_map, cc_map=None):
    with tempfile.TemporaryDirectory() as d:
        for name, text in (('h.h', header), ('s.c', source), ('m.map', version_map),
                           ('cc.map', cc_map or version_map)):
            with open(os.path.join(d, name), 'w', encoding='utf-8') as f:
                f.write(text)
        subprocess.run([*CC.split(), '-shared', '-fPIC', f'{d}/s.c', '-o', f'{d}/l.so',
                        f'-Wl,--version-script,{d}/cc.map'], check=True)
        done = subprocess.run([sys.executable, EXPORTS, f'{d}/h.h', f'{d}/m.map', f'{d}/l.so', NM],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
        return done.returncode, done.stdout


def expect(result, status, words):
    if result[0] != status or words not in result[1]:
        sys.exit(f'wanted status {status} and "{words}", got {result[0]}:\n{result[1]}')


def main():
    more = MAP.replace('rcm_two;', 'rcm_two; rcm_three;')
    declares = HEADER.replace('typedef', 'int rcm_three(void);\ntypedef')
    expect(exports(HEADER, SOURCE, MAP), 0, '2 in ringcomm.h, 2 in ringcomm.map, 2 in lib')
    expect(exports(declares, SOURCE, more), 0, '3 in ringcomm.h, 3 in ringcomm.map, 3 in lib')
    expect(exports(declares, SOURCE, MAP), 1,
           'rcm_three is not in ringcomm.map and not in libringcomm.so')
    expect(exports(HEADER, SOURCE, more), 1, 'rcm_three is not in ringcomm.h')
    expect(exports(HEADER, SOURCE, MAP, cc_map=more), 1,
           'rcm_three is not in ringcomm.h and not in ringcomm.map')
    leak = MAP.replace('rcm_two;', 'rcm*;')
    expect(exports(HEADER, SOURCE, MAP, cc_map=leak), 1, 'rcmi_hidden is not in ringcomm.h')
    expect(exports(HEADER, SOURCE, leak), 1, 'rcm* is not in ringcomm.h')
    expect(exports('', SOURCE, MAP), 1, 'ringcomm.h: 0 names')
    expect(exports(HEADER, SOURCE + 'int chaos_peek(void) { return 5; }\n', MAP), 1,
           'libringcomm.so contains chaos_peek')


if __name__ == '__main__':
    main()
