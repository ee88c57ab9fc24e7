/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels with the names of torch's fill kernels, whose code would write nothing. */
#include "kernels.cuh"
#include <array>

namespace at {
namespace native {
namespace memory {
struct StoreWithCast {};
struct StoreWithoutCast {};
} // namespace memory

template <typename T> struct FillFunctor { T value; };

template <int vec_size, typename func_t, typename array_t, bool wide>
__global__ void vectorized_elementwise_kernel(int, func_t, array_t) {
}

template <typename func_t, typename array_t, int per_thread, typename storer_t>
__global__ void unrolled_elementwise_kernel(int, func_t, array_t, storer_t) {
}

template <int threads, int vec_size, typename func_t>
__global__ void elementwise_kernel(int, func_t) {
}
} // namespace native
} // namespace at

using namespace at::native;
typedef std::array<char *, 1> output;

template <typename T> static void fills(T value) {
    enum { N = 1001 };
    T *p, got[N + 1];
    OK(cudaMalloc(&p, sizeof got));
    OK(cudaMemset(p, 0, sizeof got));
    output to = {{(char *)p}};
    FillFunctor<T> fill = {value};
    vectorized_elementwise_kernel<4, FillFunctor<T>, output, false><<<2, 128>>>(N - 1, fill, to);
    OK(cudaGetLastError());
    to[0] = (char *)(p + N - 1);
    unrolled_elementwise_kernel<FillFunctor<T>, output, 4, memory::StoreWithoutCast>
        <<<2, 128>>>(1, fill, to, memory::StoreWithoutCast());
    OK(cudaGetLastError());
    OK(cudaMemcpy(got, p, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++)
        CHECK(memcmp(&got[i], &value, sizeof value) == 0);
    T zero;
    memset(&zero, 0, sizeof zero);
    CHECK(memcmp(&got[N], &zero, sizeof zero) == 0);
    OK(cudaFree(p));
}

struct unknown {
    int a, b;
};

int main() {
    fills((unsigned char)200);
    fills((short)-3);
    fills(7.5f);
    fills(-1e300);
    fills(0x123456789abcdefl);
    output to = {{NULL}};
    FillFunctor<float> fill = {1};
    unrolled_elementwise_kernel<FillFunctor<float>, output, 4, memory::StoreWithCast>
        <<<1, 1>>>(1, fill, to, memory::StoreWithCast());
    EXPECT(cudaErrorNoKernelImageForDevice, cudaGetLastError());
    elementwise_kernel<128, 4, FillFunctor<float>><<<1, 1>>>(1, fill);
    EXPECT(cudaErrorNoKernelImageForDevice, cudaGetLastError());
    FillFunctor<unknown> other = {{1, 2}};
    vectorized_elementwise_kernel<4, FillFunctor<unknown>, output, false><<<1, 1>>>(1, other, to);
    EXPECT(cudaErrorNoKernelImageForDevice, cudaGetLastError());
    return 0;
}
