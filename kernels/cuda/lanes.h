/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GPU memory in packs of 16 bytes, and elements in lanes. C++ of reduce.cu.
 *
 * A lane is 4, 8 or 16 bytes of consecutive elements, as they lie in memory; elements below 4 bytes
 * share one. A single element, at the ends of an array, is in the low bits of a lane.
 */
#ifndef RCMI_CUDA_LANES_H
#define RCMI_CUDA_LANES_H

#include <stdint.h>

#define DEVICE static __device__ __forceinline__

struct wide {
    uint64_t low, high;
};

template <int BYTES> struct lane_of { typedef uint32_t type; };
template <> struct lane_of<8> { typedef uint64_t type; };
template <> struct lane_of<16> { typedef wide type; };

/* The words of a lane. */
DEVICE uint32_t word_of(uint32_t lane, int) {
    return lane;
}
DEVICE uint32_t word_of(uint64_t lane, int i) {
    return (uint32_t)(lane >> 32 * i);
}
DEVICE uint32_t word_of(wide lane, int i) {
    return (uint32_t)((i < 2 ? lane.low : lane.high) >> 32 * (i % 2));
}
DEVICE void lane_make(uint32_t &lane, const uint32_t *words) {
    lane = words[0];
}
DEVICE void lane_make(uint64_t &lane, const uint32_t *words) {
    lane = (uint64_t)words[1] << 32 | words[0];
}
DEVICE void lane_make(wide &lane, const uint32_t *words) {
    lane_make(lane.low, words);
    lane_make(lane.high, words + 2);
}

template <class L> struct pack {
    enum { LANES = 16 / sizeof(L), WORDS = sizeof(L) / 4 };
    L lane[LANES];
};

/* Alignment of the addresses of packs: to a pack, to a word, or to elements only. */
enum alignment { TO_PACK, TO_WORD, TO_UNIT };

DEVICE enum alignment alignment_of(uintptr_t address) {
    return address % 16 == 0 ? TO_PACK : address % 4 == 0 ? TO_WORD : TO_UNIT;
}

/* Loads units of 1 or 2 bytes, BYTES bytes in total, into words. */
template <class U, int BYTES> DEVICE void units_load(const U *from, uint32_t *words) {
#pragma unroll
    for (int w = 0; w < (BYTES + 3) / 4; w++)
        words[w] = 0;
#pragma unroll
    for (int i = 0; i < BYTES / (int)sizeof(U); i++)
        words[i * sizeof(U) / 4] |= (uint32_t)from[i] << 8 * (i * sizeof(U) % 4);
}
template <class U, int BYTES> DEVICE void units_store(U *to, const uint32_t *words) {
#pragma unroll
    for (int i = 0; i < BYTES / (int)sizeof(U); i++)
        to[i] = (U)(words[i * sizeof(U) / 4] >> 8 * (i * sizeof(U) % 4));
}

/* U: the alignment of every address. */
template <class U, class L> DEVICE pack<L> pack_load(const void *from, enum alignment alignment) {
    uint32_t words[4];
    if (alignment == TO_PACK) {
        const uint4 four = *(const uint4 *)from;
        words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
    } else if (alignment == TO_WORD || sizeof(U) >= 4) {
        units_load<uint32_t, 16>((const uint32_t *)from, words);
    } else {
        units_load<U, 16>((const U *)from, words);
    }
    pack<L> p;
#pragma unroll
    for (int i = 0; i < pack<L>::LANES; i++)
        lane_make(p.lane[i], words + i * pack<L>::WORDS);
    return p;
}

template <class U, class L>
DEVICE void pack_store(void *to, const pack<L> &p, enum alignment alignment) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        words[i] = word_of(p.lane[i / pack<L>::WORDS], i % pack<L>::WORDS);
    if (alignment == TO_PACK)
        *(uint4 *)to = make_uint4(words[0], words[1], words[2], words[3]);
    else if (alignment == TO_WORD || sizeof(U) >= 4)
        units_store<uint32_t, 16>((uint32_t *)to, words);
    else
        units_store<U, 16>((U *)to, words);
}

/* One element. */
template <class U, class L, int BYTES> DEVICE L element_load(const void *from) {
    uint32_t words[4];
    units_load<U, BYTES>((const U *)from, words);
    L lane;
    lane_make(lane, words);
    return lane;
}
template <class U, class L, int BYTES> DEVICE void element_store(void *to, L lane) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < (BYTES + 3) / 4; i++)
        words[i] = word_of(lane, i);
    units_store<U, BYTES>((U *)to, words);
}

#endif
