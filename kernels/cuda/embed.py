#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""embed.py IMAGE TOOLKIT: prints a C file with the image made by that toolkit version."""
import sys

with open(sys.argv[1], 'rb') as file:
    image = file.read()
padded = image + bytes(-len(image) % 8)
words = [int.from_bytes(padded[i:i + 8], sys.byteorder) for i in range(0, len(padded), 8)]
print('#include "cuda_kernels.h"')
print('static const uint64_t words[] = {')
for line in range(0, len(words), 8):
    print(''.join(f'{word:#x},' for word in words[line:line + 8]))
print('};')
print(f'const struct rcmi_cuda_image rcmi_cuda_image = {{words, {len(image)}, {int(sys.argv[2])}}};')
