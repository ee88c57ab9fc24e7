/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers in device memory, on the CUDA emulator: contiguous ones work, others are refused by name.
 */
#include <cuda.h>
#include <stdlib.h>
#include <string.h>
#include "job.h"

enum { N = 1000 };

#define CUDA(call) CHECK((call) == CUDA_SUCCESS)

/* Device memory with numbers from `first` on. */
static CUdeviceptr device_numbers(int first) {
    CUdeviceptr memory = 0;
    int values[N];
    for (int i = 0; i < N; i++)
        values[i] = first + i;
    CUDA(cuMemAlloc(&memory, sizeof values));
    CUDA(cuMemcpyHtoD(memory, values, sizeof values));
    return memory;
}

static void check_numbers(CUdeviceptr memory, int first, int step) {
    int values[N], wrong = 0;
    CUDA(cuMemcpyDtoH(values, memory, sizeof values));
    for (int i = 0; i < N; i++)
        wrong += values[i] != first + i * step;
    CHECK(wrong == 0);
}

static void check_refused(int code, const char *words) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int class = -1, length;
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    CHECK(class == MPI_ERR_BUFFER && strstr(text, "is device memory") && strstr(text, words));
}

int main(int argc, char **argv) {
    CUdevice device;
    CUcontext context;
    MPI_Datatype vector;
    CUDA(cuInit(0));
    CUDA(cuDeviceGet(&device, 0));
    CUDA(cuDevicePrimaryCtxRetain(&context, device));
    CUDA(cuCtxSetCurrent(context));
    job_begin(&argc, &argv);
    const CUdeviceptr from = device_numbers(job_rank), to = device_numbers(-1);
    int *const send = (int *)(uintptr_t)from, *const recv = (int *)(uintptr_t)to;
    const int right = (job_rank + 1) % job_size, left = (job_rank + job_size - 1) % job_size;
    OK(MPI_Sendrecv(send, N, MPI_INT, right, 1, recv, N, MPI_INT, left, 1, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    check_numbers(to, left, 1);
    OK(MPI_Allreduce(send, recv, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    check_numbers(to, job_size * (job_size - 1) / 2, job_size);
    OK(MPI_Bcast(recv, N, MPI_INT, 0, MPI_COMM_WORLD));
    OK(MPI_Type_vector(N / 2, 1, 2, MPI_INT, &vector));
    OK(MPI_Type_commit(&vector));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    check_refused(MPI_Bcast(recv, 1, vector, 0, MPI_COMM_WORLD), "not contiguous");
    check_refused(MPI_Send(recv, 1, vector, right, 1, MPI_COMM_WORLD), "not contiguous");
    check_refused(MPI_Sendrecv_replace(recv, N, MPI_INT, right, 1, left, 1, MPI_COMM_WORLD,
                                       MPI_STATUS_IGNORE),
                  "needs a copy");
    check_refused(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, N / job_size, MPI_INT,
                               MPI_COMM_WORLD),
                  "needs a copy");
    OK(MPI_Type_free(&vector));
    const int failed = job_end();
    CUDA(cuMemFree(from));
    CUDA(cuMemFree(to));
    CUDA(cuDevicePrimaryCtxRelease(device));
    return failed || job_failed;
}
