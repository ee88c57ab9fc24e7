// Test kernels for the emulator: what a collective library's CUDA backend plausibly contains.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <stdint.h>
#include "kargs.h"

typedef __half f16;
typedef __nv_bfloat16 bf16;
typedef __nv_fp8_e4m3 e4m3;
typedef __nv_fp8_e5m2 e5m2;

// ---- storage type -> accumulator type -----------------------------------------------------
template <class S> struct acc { typedef S type; };
template <> struct acc<f16>    { typedef float type; };
template <> struct acc<bf16>   { typedef float type; };
template <> struct acc<e4m3>   { typedef float type; };
template <> struct acc<e5m2>   { typedef float type; };
template <> struct acc<int8_t> { typedef int32_t type; };
template <> struct acc<uint8_t> { typedef uint32_t type; };

template <class S> static __device__ typename acc<S>::type widen(S v) { return (typename acc<S>::type)v; }
template <class S> static __device__ S narrow(typename acc<S>::type v) { return S(v); }

template <class A> struct sum_op  { static __device__ A f(A a, A b) { return a + b; } };
template <class A> struct prod_op { static __device__ A f(A a, A b) { return a * b; } };
template <class A> struct min_op  { static __device__ A f(A a, A b) { return b < a ? b : a; } };
template <class A> struct max_op  { static __device__ A f(A a, A b) { return a < b ? b : a; } };
// NaN from either side wins (IEEE 754-2019 minimum/maximum)
template <> struct min_op<float>  { static __device__ float f(float a, float b)  { return a != a ? a : b != b ? b : b < a ? b : a; } };
template <> struct max_op<float>  { static __device__ float f(float a, float b)  { return a != a ? a : b != b ? b : a < b ? b : a; } };
template <> struct min_op<double> { static __device__ double f(double a, double b) { return a != a ? a : b != b ? b : b < a ? b : a; } };
template <> struct max_op<double> { static __device__ double f(double a, double b) { return a != a ? a : b != b ? b : a < b ? b : a; } };

template <class S> struct __align__(16) pack { S e[16 / sizeof(S)]; };

template <class S> static __device__ pack<S> load16(const void *p) {
    uint4 v = __ldcs((const uint4 *)p);
    return *reinterpret_cast<pack<S> *>(&v);
}
template <class S> static __device__ void store16(void *p, const pack<S> &x) {
    __stcs((uint4 *)p, *reinterpret_cast<const uint4 *>(&x));
}

// dst = a OP b, 16 bytes at a time, head and tail element by element
template <class S, template <class> class OP>
static __device__ __forceinline__ void reduce2_body(S *dst, const S *a, const S *b, uint64_t n) {
    typedef typename acc<S>::type A;
    const unsigned E = 16 / sizeof(S);
    uint64_t tid = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x, nth = (uint64_t)gridDim.x * blockDim.x;
    uintptr_t mis = (uintptr_t)dst & 15;
    bool same = ((uintptr_t)a & 15) == mis && ((uintptr_t)b & 15) == mis && mis % sizeof(S) == 0;
    uint64_t head = !same ? n : mis ? (16 - mis) / sizeof(S) : 0;
    if (head > n) head = n;
    uint64_t nv = (n - head) / E;
    for (uint64_t i = tid; i < nv; i += nth) {
        pack<S> x = load16<S>(a + head + i * E), y = load16<S>(b + head + i * E);
#pragma unroll
        for (unsigned e = 0; e < E; e++) x.e[e] = narrow<S>(OP<A>::f(widen(x.e[e]), widen(y.e[e])));
        store16(dst + head + i * E, x);
    }
    for (uint64_t i = tid; i < head; i += nth) dst[i] = narrow<S>(OP<A>::f(widen(a[i]), widen(b[i])));
    for (uint64_t i = head + nv * E + tid; i < n; i += nth) dst[i] = narrow<S>(OP<A>::f(widen(a[i]), widen(b[i])));
}

#define REDUCE2(T, N, O) extern "C" __global__ void __launch_bounds__(256) red2_##N##_##O(T *dst, const T *a, const T *b, uint64_t n) { reduce2_body<T, O##_op>(dst, a, b, n); }
#define ALL_OPS(T, N) REDUCE2(T, N, sum) REDUCE2(T, N, prod) REDUCE2(T, N, min) REDUCE2(T, N, max)
ALL_OPS(float, f32) ALL_OPS(double, f64) ALL_OPS(f16, f16) ALL_OPS(bf16, bf16) ALL_OPS(e4m3, e4m3) ALL_OPS(e5m2, e5m2)
ALL_OPS(int8_t, i8) ALL_OPS(uint8_t, u8) ALL_OPS(int32_t, i32) ALL_OPS(uint32_t, u32) ALL_OPS(int64_t, i64) ALL_OPS(uint64_t, u64)

// packed native arithmetic, as NCCL does it
extern "C" __global__ void native_f16x2(__half2 *d, const __half2 *a, const __half2 *b, uint64_t n) {
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (uint64_t)gridDim.x * blockDim.x) {
        d[4 * i] = __hadd2(a[i], b[i]); d[4 * i + 1] = __hmul2(a[i], b[i]);
        d[4 * i + 2] = __hmin2(a[i], b[i]); d[4 * i + 3] = __hmax2_nan(a[i], b[i]);
    }
}
extern "C" __global__ void native_bf16x2(__nv_bfloat162 *d, const __nv_bfloat162 *a, const __nv_bfloat162 *b, uint64_t n) {
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (uint64_t)gridDim.x * blockDim.x) {
        d[4 * i] = __hadd2(a[i], b[i]); d[4 * i + 1] = __hmul2(a[i], b[i]);
        d[4 * i + 2] = __hmin2(a[i], b[i]); d[4 * i + 3] = __hmax2_nan(a[i], b[i]);
    }
}

// n sources, several destinations, scale: one struct argument, dynamic indexing of the param space
extern "C" __global__ void __launch_bounds__(256) redn_f32_avg(const __grid_constant__ kargs k) {
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < k.n; i += (uint64_t)gridDim.x * blockDim.x) {
        float a = ((const float *)k.src[0])[i];
        for (uint32_t s = 1; s < k.nsrc; s++) a += ((const float *)k.src[s])[i];
        a /= (float)k.nsrc;
        for (uint32_t d = 0; d < k.ndst; d++) ((float *)k.dst[d])[i] = a;
    }
}
extern "C" __global__ void __launch_bounds__(256) redn_i32_avg(const __grid_constant__ kargs k) {
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < k.n; i += (uint64_t)gridDim.x * blockDim.x) {
        int32_t a = ((const int32_t *)k.src[0])[i];
        for (uint32_t s = 1; s < k.nsrc; s++) a += ((const int32_t *)k.src[s])[i];
        a /= (int32_t)k.nsrc;
        for (uint32_t d = 0; d < k.ndst; d++) ((int32_t *)k.dst[d])[i] = a;
    }
}

// whole-array sum in one CTA tree (shared memory, bar.sync, warp shuffle) and one atomic per CTA
extern "C" __global__ void __launch_bounds__(256) total_i32(int *out, const int *a, uint64_t n) {
    __shared__ int part[8];
    int s = 0;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (uint64_t)gridDim.x * blockDim.x) s += a[i];
    for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned w = 1; w < blockDim.x / 32; w++) s += part[w];
        atomicAdd(out, s);
    }
}
extern "C" __global__ void total_smem_f64(double *out, const double *a, uint32_t n) {
    extern __shared__ double sm[];
    sm[threadIdx.x] = threadIdx.x < n ? a[threadIdx.x] : 0;
    __syncthreads();
    for (unsigned o = blockDim.x / 2; o; o >>= 1) {
        if (threadIdx.x < o) sm[threadIdx.x] += sm[threadIdx.x + o];
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = sm[0];
}

// last-block pattern: __threadfence + atomicInc
__device__ unsigned last_ticket;
extern "C" __global__ void last_block(uint64_t *out, uint64_t *part) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        part[blockIdx.x] = blockIdx.x * 3 + 1;
        __threadfence();
        last = atomicInc(&last_ticket, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        uint64_t s = 0;
        for (unsigned i = 0; i < gridDim.x; i++) s += ((volatile uint64_t *)part)[i];
        *out = s;
    }
}

// ---- flags in IPC memory ---------------------------------------------------------------------
static __device__ uint32_t ld_acquire_sys(const uint32_t *p) {
    uint32_t v; asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v;
}
static __device__ void st_release_sys(uint32_t *p, uint32_t v) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory");
}
static __device__ uint64_t globaltimer() { uint64_t t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }

// waits for *flag == want; false when the abort word is set or the deadline passed
static __device__ bool wait_flag(const uint32_t *flag, uint32_t want, const uint32_t *abort_word, uint64_t deadline) {
    while (ld_acquire_sys(flag) != want) {
        if (*(volatile const uint32_t *)abort_word || globaltimer() > deadline) return false;
        __nanosleep(100);
    }
    return true;
}

// One-shot all-reduce of two processes: every CTA handles a slice, exchanges one flag with the
// same CTA of the peer, then sums own + peer's data. status: 0 done, 1 given up.
template <bool RELEASE> static __device__ __forceinline__ void oneshot2(const oneshot_args &k) {
    __shared__ bool ok;
    unsigned c = blockIdx.x;
    uint64_t per = (k.n + gridDim.x - 1) / gridDim.x, lo = per * c, hi = lo + per < k.n ? lo + per : k.n;
    for (uint64_t i = lo + threadIdx.x; i < hi; i += blockDim.x) k.stage[i] = k.in[i];
    __syncthreads();
    if (threadIdx.x == 0) {
        if (RELEASE) st_release_sys(k.peer_flag + c, k.seq);
        else *(volatile uint32_t *)(k.peer_flag + c) = k.seq;
        uint64_t deadline = globaltimer() + k.timeout_ns;
        ok = wait_flag(k.my_flag + c, k.seq, k.abort_word, deadline);
        if (!ok) atomicExch_system(k.status, 1u);
    }
    __syncthreads();
    if (!ok) return;
    for (uint64_t i = lo + threadIdx.x; i < hi; i += blockDim.x) {
        float mine = k.in[i], peer = __ldcv(k.peer_stage + i);
        k.out[i] = k.rank == 0 ? mine + peer : peer + mine;
    }
    __syncthreads();
    if (threadIdx.x == 0) {       // the peer may overwrite its stage only after we have read it
        st_release_sys(k.peer_done + c, k.seq);
        uint64_t deadline = globaltimer() + k.timeout_ns;
        if (!wait_flag(k.my_done + c, k.seq, k.abort_word, deadline)) atomicExch_system(k.status, 1u);
    }
}

extern "C" __global__ void __launch_bounds__(256) oneshot2_f32(oneshot_args k) { oneshot2<true>(k); }
// wrong on purpose: nothing orders the data before the flag
extern "C" __global__ void __launch_bounds__(256) oneshot2_f32_broken(oneshot_args k) { oneshot2<false>(k); }

// wrong on purpose: reads one element past the end; waits at a barrier that not all threads reach
extern "C" __global__ void overrun(int *a, unsigned n) { if (threadIdx.x <= n) a[threadIdx.x] += 1; }
extern "C" __global__ void half_barrier(int *a) {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;" ::: "memory");
    a[threadIdx.x] = 1;
}
extern "C" __global__ void misaligned(char *a) { *(int *)(a + 1) = 1; }
extern "C" __global__ void endless(volatile int *a) { while (*a == 0) { } }

// ---- instruction zoo: things a library may use next ----------------------------------------------
extern "C" __global__ void zoo(uint32_t *o, uint64_t *q, const uint32_t *a, float *f) {
    unsigned t = threadIdx.x, v = a[t];
    o[t * 16 + 0] = __popc(v); o[t * 16 + 1] = __clz(v); o[t * 16 + 2] = __brev(v); o[t * 16 + 3] = __byte_perm(v, ~v, 0x2107);
    o[t * 16 + 4] = __umulhi(v, 0x9e3779b9u); o[t * 16 + 5] = __funnelshift_l(v, ~v, t); o[t * 16 + 6] = __ballot_sync(~0u, v & 1);
    o[t * 16 + 7] = __shfl_xor_sync(~0u, v, 5); o[t * 16 + 8] = __any_sync(~0u, v == 3); o[t * 16 + 9] = __dp4a(v, 0x01010101u, t);
    o[t * 16 + 10] = v / 7u; o[t * 16 + 11] = v % (t + 1); o[t * 16 + 12] = __vaddss4(v, v); o[t * 16 + 13] = __ffs(v);
    o[t * 16 + 14] = __match_any_sync(~0u, v & 3); o[t * 16 + 15] = __activemask() & 1;
    atomicAdd((unsigned long long *)q, (unsigned long long)v); atomicMax((unsigned *)q + 2, v); atomicMin((int *)q + 3, (int)v);
    atomicOr((unsigned *)q + 4, v); atomicAnd((unsigned *)q + 5, v); atomicXor((unsigned *)q + 6, v); atomicCAS((unsigned *)q + 7, 0u, v);
    atomicAdd(f, 1.0f); atomicAdd((double *)(f + 2), 0.5);
    f[4 + t] = sqrtf((float)v) + rsqrtf(4.0f) + fmaf((float)v, 2.0f, 1.0f) + __fdividef(1.0f, 2.0f) + floorf(v * 0.37f) + (float)(int)(v * 0.25f);
}
