/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The GPU kernels: for each line of functions.h a function that reduces up to 16 sources into up to
 * 16 results. All have one loop, over packs of 16 bytes:
 *
 *      results[0]  |..|======|======|======|======|.|
 *                  head      packs             tail
 *
 * The packs start at the first element on a multiple of 16 bytes; the single elements before and
 * after them are processed one by one. A thread reads all sources of what it writes before it
 * writes, and no other thread touches that, so a result may be a source. If all addresses are equal
 * modulo 16, a thread has several packs of a source in flight; else each pack is accessed as its
 * addresses allow. The result of a thread depends only on its elements: every grid gives the same
 * bits.
 *
 * Sources are not __restrict__: that would allow loads that bypass the coherent caches, which is
 * wrong for memory that others write.
 */
#include "functions.h"
#include "operators.h"

/* As in rcmi_cuda_launch_of. */
#define BLOCK 256

/* Put before loops over sources, results or parts of an array: the body is long enough, and 104
 * functions contain it, so code size matters. */
#define ONE_BY_ONE _Pragma("unroll 1")

template <int BYTES> struct unit_of { typedef uint32_t type; };
template <> struct unit_of<1> { typedef uint8_t type; };
template <> struct unit_of<2> { typedef uint16_t type; };

template <class Op> struct loop {
    typedef typename Op::lane lane;
    typedef typename Op::sum sum;
    typedef typename unit_of<Op::UNIT>::type unit;
    enum {
        LANES = pack<lane>::LANES,
        PER_PACK = 16 / Op::SIZE,
        UNROLL = sizeof(sum) > sizeof(lane) ? 2 : 4
    };

    DEVICE bool scaled(context args, uint32_t s) {
        return args.scaled >> s & 1;
    }
    DEVICE const char *source(context args, uint32_t s, uint64_t at) {
        return (const char *)args.srcs[s] + at;
    }
    DEVICE char *result(context args, uint32_t r, uint64_t at) {
        return (char *)args.results[r] + at;
    }

    /* N packs, `apart` bytes from each other, at pack-aligned addresses. */
    template <int N> DEVICE void packs(context args, uint64_t at, uint32_t apart) {
        sum sums[N][LANES];
        take<N>(sums, source(args, 0, at), apart, scaled(args, 0), args);
        ONE_BY_ONE
        for (uint32_t s = 1; s < args.nsrcs; s++) {
            sum next[N][LANES];
            take<N>(next, source(args, s, at), apart, scaled(args, s), args);
#pragma unroll
            for (int i = 0; i < N * LANES; i++)
                sums[i / LANES][i % LANES] =
                    Op::combine(sums[i / LANES][i % LANES], next[i / LANES][i % LANES]);
        }
        pack<lane> finished[N];
#pragma unroll
        for (int i = 0; i < N * LANES; i++)
            finished[i / LANES].lane[i % LANES] = Op::finish(sums[i / LANES][i % LANES], args);
        ONE_BY_ONE
        for (uint32_t r = 0; r < args.nresults; r++)
#pragma unroll
            for (int n = 0; n < N; n++)
                pack_store<unit>(result(args, r, at + n * apart), finished[n], TO_PACK);
    }
    template <int N>
    DEVICE void take(sum (*sums)[LANES], const char *from, uint32_t apart, bool scaled,
                     context args) {
        pack<lane> loaded[N];
#pragma unroll
        for (int n = 0; n < N; n++)
            loaded[n] = pack_load<unit, lane>(from + n * apart, TO_PACK);
#pragma unroll
        for (int i = 0; i < N * LANES; i++)
            sums[i / LANES][i % LANES] = Op::take(loaded[i / LANES].lane[i % LANES], scaled, args);
    }

    /* One pack at any alignment. */
    DEVICE void one_pack(context args, uint64_t at) {
        sum sums[LANES];
        ONE_BY_ONE
        for (uint32_t s = 0; s < args.nsrcs; s++) {
            const char *from = source(args, s, at);
            const pack<lane> p = pack_load<unit, lane>(from, alignment_of((uintptr_t)from));
#pragma unroll
            for (int i = 0; i < LANES; i++) {
                const sum next = Op::take(p.lane[i], scaled(args, s), args);
                sums[i] = s == 0 ? next : Op::combine(sums[i], next);
            }
        }
        pack<lane> finished;
#pragma unroll
        for (int i = 0; i < LANES; i++)
            finished.lane[i] = Op::finish(sums[i], args);
        ONE_BY_ONE
        for (uint32_t r = 0; r < args.nresults; r++) {
            char *to = result(args, r, at);
            pack_store<unit>(to, finished, alignment_of((uintptr_t)to));
        }
    }

    DEVICE void one_element(context args, uint64_t at) {
        sum result_of = Op::take(element(args, 0, at), scaled(args, 0), args);
        ONE_BY_ONE
        for (uint32_t s = 1; s < args.nsrcs; s++)
            result_of =
                Op::combine(result_of, Op::take(element(args, s, at), scaled(args, s), args));
        const lane finished = Op::finish(result_of, args);
        ONE_BY_ONE
        for (uint32_t r = 0; r < args.nresults; r++)
            element_store<unit, lane, Op::SIZE>(result(args, r, at), finished);
    }
    DEVICE lane element(context args, uint32_t s, uint64_t at) {
        return element_load<unit, lane, Op::SIZE>(source(args, s, at));
    }

    /* The number of elements before results[0] is at a multiple of 16 bytes; 0 if no element of it
     * is. */
    DEVICE uint64_t head(context args) {
        const uint32_t bytes = -(uint32_t)(uintptr_t)args.results[0] % 16;
        const uint32_t elements = bytes / Op::SIZE;
        return bytes % Op::SIZE != 0 ? 0 : elements < args.count ? elements : args.count;
    }

    DEVICE bool alike(context args, uint64_t at) {
        uintptr_t bits = 0;
        ONE_BY_ONE
        for (uint32_t s = 0; s < args.nsrcs; s++)
            bits |= (uintptr_t)source(args, s, at);
        ONE_BY_ONE
        for (uint32_t r = 0; r < args.nresults; r++)
            bits |= (uintptr_t)result(args, r, at);
        return bits % 16 == 0;
    }

    DEVICE void run(context args) {
        const uint64_t before = head(args), start = before * Op::SIZE;
        const uint64_t npacks = (args.count - before) / PER_PACK;
        const uint64_t threads = (uint64_t)gridDim.x * blockDim.x;
        const uint64_t me = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
        const uint64_t stride = (uint64_t)UNROLL * blockDim.x;
        const uint64_t together = alike(args, start) ? npacks / stride * stride : 0;
        ONE_BY_ONE
        for (uint64_t p = blockIdx.x * stride + threadIdx.x; p < together; p += gridDim.x * stride)
            packs<UNROLL>(args, start + p * 16, blockDim.x * 16);
        ONE_BY_ONE
        for (uint64_t p = together + me; p < npacks; p += threads)
            one_pack(args, start + p * 16);
        ONE_BY_ONE
        for (uint64_t i = me; i < args.count - npacks * PER_PACK; i += threads)
            one_element(args, (i < before ? i : i + npacks * PER_PACK) * Op::SIZE);
    }
};

#define FUNCTION(kernel, ...)                                                                      \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                            \
        rcmi_##kernel(const __grid_constant__ rcmi_cuda_args args) {                               \
        loop<__VA_ARGS__>::run(args);                                                              \
    }
RCMI_CUDA_FUNCTION_MAP(FUNCTION)
