#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""ptx_test.py PTXCHECK FATBIN CC: checks the PTX of the GPU kernels for compute capability CC.

No instruction may produce other bits than the CPU's kernels, bypass the coherent caches, wait for another
block, need a stack, or be unsupported by the emulator."""
import os
import re
import subprocess
import sys

FLOAT = r'\.(?:f16|f16x2|bf16|bf16x2|f32|f64)\b'
RULES = [  # error text, and the instructions that it applies to
    ('a fused multiply-add of floats', r'(?:fma|mad)\b.*' + FLOAT),
    ('numbers without an implicit bit are flushed', r'.*\.ftz\b'),
    ('an approximation', r'.*\.approx\b'),
    ('memory past the coherent caches', r'.*\.nc\b'),
    ('local memory', r'(?:ld|st|cvta)\b.*\.local\b'),
    ('arithmetic on floats without .rn', r'(?:add|sub|mul|div|sqrt|rcp|rsqrt)\b(?!.*\.rn\b).*' + FLOAT),
    ('a conversion that may round without .rn',
     r'cvt\b(?!.*\.rn\b)(?!\.f32\.b?f16\b)(?!\.f64\.f32\b)(?:\.\w+)*' + FLOAT),
    ('an order of floats, whose NaN and -0 are not those of kernels.h', r'(?:min|max)\b.*' + FLOAT),
    ('a load or store that is not ordinary', r'(?:ld|st)\.(?!global\.|param\.)'),
    ('a load or store that is not ordinary', r'(?:ld|st)\.(?:global|param)\.(?!v[24]\.|[ubsf]\d)'),
    ('something that waits, or is shared between threads',
     r'(?:bar|barrier|atom|red|membar|fence|nanosleep|shfl|vote|match|mbarrier|cp|activemask)\b'),
]
PLANTED = '''
.visible .entry bad(
	.local .align 8 .b8 	__local_depot0[64];
	fma.rn.f32 	%f3, %f1, %f2, %f3;
	mad.f64 	%fd1, %fd1, %fd2, %fd3;
	add.rn.ftz.f32 	%f1, %f2, %f3;
	div.approx.f32 	%f1, %f2, %f3;
	ld.global.nc.u32 	%r1, [%rd1];
	@%p1 st.local.u32 	[%rd1], %r1;
	add.f32 	%f1, %f2, %f3;
	@!%p2 mul.f64 	%fd1, %fd2, %fd3;
	cvt.f32.f64 	%f1, %fd1;
	cvt.rz.f16.f32 	%rs1, %f1;
	cvt.f32.u32 	%f1, %r1;
	max.f32 	%f1, %f2, %f3;
	ld.u32 	%r1, [%rd1];
	ld.volatile.global.u32 	%r1, [%rd1];
	st.global.cs.u32 	[%rd1], %r1;
	bar.sync 	0;
	atom.global.add.u32 	%r1, [%rd1], 1;
'''
GOOD = '''
.reg .f32 	%f<4>;
	add.rn.f32 	%f1, %f2, %f3;
	@%p1 div.rn.f64 	%fd1, %fd2, %fd3;
	mad.lo.s32 	%r1, %r2, %r3, %r4;
	add.s64 	%rd1, %rd2, %rd3;
	min.u64 	%rd1, %rd2, %rd3;
	cvt.f32.f16 	%f1, %rs1;
	cvt.rn.f16.f32 	%rs1, %f1;
	cvt.u32.u64 	%r1, %rd1;
	cvta.to.global.u64 	%rd1, %rd2;
	ld.global.v4.u32 	{%r1, %r2, %r3, %r4}, [%rd1];
	st.global.u8 	[%rd1], %rs1;
	mov.b32 	%r1, %f1;
'''


def wrong(line):
    """The error in a line of PTX, or None."""
    line = re.sub(r'//.*', '', line).strip()
    if re.match(r'\.local\b', line):
        return 'local memory'
    opcode = re.match(r'(?:@!?%p\d+\s+)?([a-z][\w.]*)', line)
    if line.startswith('.') or not opcode:
        return None
    return next((what for what, rule in RULES if re.match(rule, opcode[1])), None)


def test_itself():
    for line in PLANTED.strip().splitlines()[1:]:
        if not wrong(line):
            sys.exit(f'nothing is found wrong with: {line.strip()}')
    for line in GOOD.strip().splitlines():
        if wrong(line):
            sys.exit(f'found wrong with {line.strip()}: {wrong(line)}')


def main():
    ptxcheck, fatbin, cc = sys.argv[1:]
    test_itself()
    text = subprocess.run([ptxcheck, '-t', cc, fatbin], stdout=subprocess.PIPE, check=True,
                          encoding='ascii').stdout
    if f'.target sm_{cc}' not in text:
        sys.exit(f'the PTX for {cc} is not that of sm_{cc}')
    lines = text.splitlines()
    found = [f'line {n}: {line.strip()}: {wrong(line)}' for n, line in enumerate(lines, 1) if wrong(line)]
    print('\n'.join(found[:20]))
    arithmetic = sum('.rn.f' in line for line in lines)
    entries = sum(line.startswith('.visible .entry') for line in lines)
    print(f'{len(lines)} lines, {entries} kernels, {arithmetic} instructions round; {len(found)} are wrong')
    unsupported = subprocess.run([ptxcheck, fatbin], check=False, env={**os.environ, 'FAKECUDA_CC': cc})
    sys.exit(1 if found or unsupported.returncode or entries < 100 or arithmetic < 100 else 0)


if __name__ == '__main__':
    main()
