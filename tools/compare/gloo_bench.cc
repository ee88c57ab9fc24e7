/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ringcomm-bench over Gloo, like mpi_bench.c over MPI: the measuring code is ringcomm-bench's, and
 * this file implements the functions of ringcomm.h that it calls by Gloo's. It is C++ because Gloo
 * is. Only blocking calls on one communicator are implemented, over TCP, which is Gloo's only
 * transport on one machine.
 *
 * Rank and size come from RANK and WORLD_SIZE; the ranks meet in the folder GLOO_BENCH_FOLDER.
 * GLOO_BENCH_ALGORITHM, for all_reduce: ring, bcube, or halving_doubling (Gloo's older interface,
 * which works in place, so the copy of the input into the result is part of the time).
 *
 *     GLOO_BENCH_FOLDER=/tmp/x ringcomm-run -n 2 -- gloo-bench all_reduce -b 8 -e 64K
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

extern "C" {
#include "bench.h"
#include "common.h"
#include "error.h"
}

namespace {

using Reduce = gloo::AllreduceOptions::Func;

/* State of halving_doubling, which is set up once per buffers and size. */
struct Prepared {
    void *buffer = nullptr;
    size_t count = 0;
    std::unique_ptr<gloo::Algorithm> algorithm;
};

struct World {
    std::shared_ptr<gloo::rendezvous::Context> context;
    std::string algorithm = "ring";
    Prepared prepared;
};
World world;

/* Converts Gloo's exceptions to errors, because the measuring code is C. */
rcm_status guarded(const char *what, const std::function<void()> &fn) {
    try {
        fn();
        return RCM_OK;
    } catch (const std::exception &e) {
        return rcmi_fail(RCM_ERR_SYSTEM, 0, "Gloo, %s: %s", what, e.what());
    }
}

template <typename T> Reduce reduce_of(rcm_op op) {
    using Fn = void (*)(void *, const void *, const void *, size_t);
    switch (op) {
    case RCM_PROD:
        return static_cast<Fn>(&gloo::product<T>);
    case RCM_MIN:
        return static_cast<Fn>(&gloo::min<T>);
    case RCM_MAX:
        return static_cast<Fn>(&gloo::max<T>);
    case RCM_SUM:
        break;
    }
    return static_cast<Fn>(&gloo::sum<T>);
}

template <typename T> void reduce_new(const T *send, T *recv, size_t count, rcm_op op) {
    gloo::AllreduceOptions options(world.context);
    options.setAlgorithm(world.algorithm == "bcube" ? gloo::AllreduceOptions::Algorithm::BCUBE
                                                    : gloo::AllreduceOptions::Algorithm::RING);
    if (send != recv)
        options.setInput(const_cast<T *>(send), count);
    options.setOutput(recv, count);
    options.setReduceFunction(reduce_of<T>(op));
    gloo::allreduce(options);
}

template <typename T> void reduce_halving(const T *send, T *recv, size_t count) {
    Prepared &p = world.prepared;
    if (p.buffer != recv || p.count != count) {
        p.algorithm.reset();
        p.algorithm = std::make_unique<gloo::AllreduceHalvingDoubling<T>>(
            world.context, std::vector<T *>{recv}, static_cast<int>(count));
        p.buffer = recv;
        p.count = count;
    }
    if (send != recv)
        std::memcpy(recv, send, count * sizeof(T));
    p.algorithm->run();
}

template <typename T>
rcm_status reduce_typed(const void *send, void *recv, size_t count, rcm_op op) {
    return guarded("allreduce", [&] {
        if (world.algorithm == "halving_doubling" && op == RCM_SUM)
            reduce_halving(static_cast<const T *>(send), static_cast<T *>(recv), count);
        else
            reduce_new(static_cast<const T *>(send), static_cast<T *>(recv), count, op);
    });
}

rcm_status only_blocking(rcm_work **ret_work) {
    return ret_work ? rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "asynchronous operations are not wrapped")
                    : RCM_OK;
}

/* A number from the launcher's environment. */
int environment_number(const char *name) {
    const char *text = std::getenv(name);
    int64_t value = -1;
    return text && tool_parse_int(text, 0, 1 << 20, &value) ? static_cast<int>(value) : -1;
}

void connect(int rank, int size, const char *folder) {
    gloo::transport::tcp::attr attr;
    attr.iface = "lo";
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attr);
    gloo::rendezvous::FileStore store(folder);
    world.context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    world.context->connectFullMesh(store, device);
}

} // namespace

/* ---- operations ------------------------------------------------------------------------------ */

extern "C" rcm_status rcm_all_reduce(rcm_comm *, const void *send, void *recv, size_t count,
                                     rcm_dtype dtype, rcm_op op, const struct rcm_call *,
                                     rcm_work **ret_work) {
    if (rcm_status status = only_blocking(ret_work); status != RCM_OK)
        return status;
    switch (dtype) {
    case RCM_UINT8:
        return reduce_typed<uint8_t>(send, recv, count, op);
    case RCM_INT32:
        return reduce_typed<int32_t>(send, recv, count, op);
    case RCM_INT64:
        return reduce_typed<int64_t>(send, recv, count, op);
    case RCM_FLOAT32:
        return reduce_typed<float>(send, recv, count, op);
    case RCM_FLOAT64:
        return reduce_typed<double>(send, recv, count, op);
    default:
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "%s: Gloo has no such type",
                         rcm_dtype_name(dtype));
    }
}

extern "C" rcm_status rcm_broadcast(rcm_comm *, void *buffer, size_t count, rcm_dtype dtype,
                                    int root, const struct rcm_call *, rcm_work **ret_work) {
    if (rcm_status status = only_blocking(ret_work); status != RCM_OK)
        return status;
    return guarded("broadcast", [&] {
        gloo::BroadcastOptions options(world.context);
        options.setOutput(static_cast<uint8_t *>(buffer), count * rcm_dtype_size(dtype));
        options.setRoot(root);
        gloo::broadcast(options);
    });
}

extern "C" rcm_status rcm_barrier(rcm_comm *, const struct rcm_call *, rcm_work **ret_work) {
    if (rcm_status status = only_blocking(ret_work); status != RCM_OK)
        return status;
    return guarded("barrier", [&] {
        gloo::BarrierOptions options(world.context);
        gloo::barrier(options);
    });
}

extern "C" rcm_status rcm_send(rcm_comm *, const void *buffer, size_t count, rcm_dtype dtype,
                               int dst, uint64_t tag, const struct rcm_call *,
                               rcm_work **ret_work) {
    if (rcm_status status = only_blocking(ret_work); status != RCM_OK)
        return status;
    return guarded("send", [&] {
        auto unbound = world.context->createUnboundBuffer(const_cast<void *>(buffer),
                                                          count * rcm_dtype_size(dtype));
        unbound->send(dst, tag);
        unbound->waitSend(world.context->getTimeout());
    });
}

extern "C" rcm_status rcm_recv(rcm_comm *, void *buffer, size_t count, rcm_dtype dtype, int src,
                               uint64_t tag, const struct rcm_call *, rcm_work **ret_work) {
    if (rcm_status status = only_blocking(ret_work); status != RCM_OK)
        return status;
    return guarded("recv", [&] {
        auto unbound = world.context->createUnboundBuffer(buffer, count * rcm_dtype_size(dtype));
        unbound->recv(src, tag);
        unbound->waitRecv(world.context->getTimeout());
    });
}

/* ---- life cycle and facts -------------------------------------------------------------------- */

/* ---- functions that are not wrapped ---------------------------------------------------------- */

namespace {
rcm_status not_wrapped(const char *what) {
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "%s of Gloo is not wrapped", what);
}
} // namespace

extern "C" rcm_status rcm_reduce(rcm_comm *, const void *, void *, size_t, rcm_dtype, rcm_op, int,
                                 const struct rcm_call *, rcm_work **) {
    return not_wrapped("reduce");
}

extern "C" rcm_status rcm_scatter(rcm_comm *, const void *, void *, size_t, rcm_dtype, int,
                                  const struct rcm_call *, rcm_work **) {
    return not_wrapped("scatter");
}

extern "C" rcm_status rcm_gather(rcm_comm *, const void *, void *, size_t, rcm_dtype, int,
                                 const struct rcm_call *, rcm_work **) {
    return not_wrapped("gather");
}

extern "C" rcm_status rcm_all_gather(rcm_comm *, const void *, void *, size_t, rcm_dtype,
                                     const struct rcm_call *, rcm_work **) {
    return not_wrapped("all_gather");
}

extern "C" rcm_status rcm_reduce_scatter(rcm_comm *, const void *, void *, size_t, rcm_dtype, rcm_op,
                                         const struct rcm_call *, rcm_work **) {
    return not_wrapped("reduce_scatter");
}

extern "C" rcm_status rcm_all_to_all(rcm_comm *, const void *, void *, size_t, rcm_dtype,
                                     const struct rcm_call *, rcm_work **) {
    return not_wrapped("all_to_all");
}

extern "C" rcm_status rcm_scan(rcm_comm *, const void *, void *, size_t, rcm_dtype, rcm_op,
                               const struct rcm_call *, rcm_work **) {
    return not_wrapped("scan");
}

extern "C" rcm_status rcm_exscan(rcm_comm *, const void *, void *, size_t, rcm_dtype, rcm_op,
                                 const struct rcm_call *, rcm_work **) {
    return not_wrapped("exscan");
}

extern "C" rcm_status rcm_scatter_v(rcm_comm *, const void *, const size_t *, const size_t *, void *,
                                    size_t, rcm_dtype, int, const struct rcm_call *, rcm_work **) {
    return not_wrapped("scatter_v");
}

extern "C" rcm_status rcm_gather_v(rcm_comm *, const void *, size_t, void *, const size_t *,
                                   const size_t *, rcm_dtype, int, const struct rcm_call *,
                                   rcm_work **) {
    return not_wrapped("gather_v");
}

extern "C" rcm_status rcm_all_gather_v(rcm_comm *, const void *, size_t, void *, const size_t *,
                                       const size_t *, rcm_dtype, const struct rcm_call *,
                                       rcm_work **) {
    return not_wrapped("all_gather_v");
}

extern "C" rcm_status rcm_reduce_scatter_v(rcm_comm *, const void *, const size_t *, const size_t *,
                                           void *, size_t, rcm_dtype, rcm_op,
                                           const struct rcm_call *, rcm_work **) {
    return not_wrapped("reduce_scatter_v");
}

extern "C" rcm_status rcm_all_to_all_v(rcm_comm *, const void *, const size_t *, const size_t *,
                                       void *, const size_t *, const size_t *, rcm_dtype,
                                       const struct rcm_call *, rcm_work **) {
    return not_wrapped("all_to_all_v");
}

extern "C" rcm_status rcm_init(const struct rcm_init_options *, rcm_comm **ret_comm) {
    const char *folder = std::getenv("GLOO_BENCH_FOLDER");
    const char *algorithm = std::getenv("GLOO_BENCH_ALGORITHM");
    const int rank = environment_number("RANK"), size = environment_number("WORLD_SIZE");
    if (!folder || rank < 0 || size < 1 || rank >= size)
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "GLOO_BENCH_FOLDER, RANK and WORLD_SIZE must be in the environment");
    if (algorithm)
        world.algorithm = algorithm;
    rcm_status status = guarded("connecting", [&] { connect(rank, size, folder); });
    if (status == RCM_OK)
        *ret_comm = reinterpret_cast<rcm_comm *>(&world);
    return status;
}

extern "C" rcm_status rcm_destroy(rcm_comm *) {
    /* Barrier first: Gloo closes its connections immediately, while other ranks may need them. */
    rcm_status status = rcm_barrier(nullptr, nullptr, nullptr);
    world.prepared.algorithm.reset();
    world.context.reset();
    return status;
}

extern "C" rcm_status rcm_abort(rcm_comm *, const char *) {
    std::_Exit(TOOL_FAILED); /* the launcher ends the others */
}

extern "C" int rcm_rank(const rcm_comm *) {
    return world.context->rank;
}

extern "C" int rcm_size(const rcm_comm *) {
    return world.context->size;
}

extern "C" int rcm_local_size(const rcm_comm *) {
    return world.context->size; /* the file store is on this machine, and so is lo */
}

extern "C" const char *rcm_comm_algorithm(rcm_comm *, enum rcm_collective collective, size_t) {
    return collective == RCM_ALL_REDUCE ? world.algorithm.c_str() : "Gloo";
}

extern "C" const char *rcm_comm_transport(rcm_comm *, int) {
    return "tcp";
}
