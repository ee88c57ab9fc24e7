/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ringcomm.h: the only public header of libringcomm, a collective communication library.
 *
 * WHAT IT DOES
 *   N processes, called ranks 0..N-1, each hold an array in memory. One call on every rank sums the
 *   arrays (rcm_all_reduce), copies one rank's array to all (rcm_broadcast), or gathers, scatters
 *   or exchanges blocks of them. Other calls wait for all ranks (rcm_barrier) or move an array from
 *   one rank to another (rcm_send, rcm_recv). Ranks are processes on one or more machines. Threads
 *   of one process may be ranks too, each with its own communicator. Buffers are in host memory or
 *   in memory of the rank's CUDA device.
 *
 * FIRST PROGRAM
 *   The core of examples/hello_all_reduce.c:
 *      rcm_comm *comm;
 *      if (rcm_init(NULL, &comm) != RCM_OK)            rank, size, address: from the environment
 *          errx(1, "%s", rcm_last_error());
 *      rcm_all_reduce(comm, send, recv, count, RCM_FLOAT32, RCM_SUM, NULL, NULL);
 *      rcm_destroy(comm);
 *   Started by:  ringcomm-run -n 4 -- ./program
 *
 * COMMUNICATORS
 *   rcm_init makes the communicator of all ranks, the world. Further communicators are made from an
 *   existing one: from a list of ranks, by colour, by host, as a duplicate, or from the survivors
 *   of a failure. Each numbers its ranks from 0 and has its own operations, ordering, error state
 *   and deadlines. Communicators from one rcm_init share its connections.
 *
 * ORDER
 *   Every rank of a communicator issues the same collectives in the same order, with the same
 *   count, type, operator and root. If two ranks differ, all ranks get RCM_ERR_MISMATCH instead of
 *   wrong data. A rank gets the error from that call or, if its part was already complete, by its
 *   next call or rcm_destroy. The error text names both calls, and the origin is the same on all
 *   ranks.
 *   Collectives start in the order in which they were issued. Several asynchronous ones may be in
 *   flight and may complete in any order. Any number may be issued: a bounded number runs at a
 *   time, and the others are queued.
 *   Messages between two ranks with the same tag arrive in the order in which they were sent.
 *   Messages with different tags are independent. A receive names one source rank or any, and one
 *   tag or any.
 *
 * BLOCKING AND ASYNCHRONOUS
 *   Every operation ends in (const struct rcm_call *call, rcm_work **ret_work). If ret_work is
 *   NULL, the call returns when this rank's part is complete: its buffers may be reused and its
 *   results are available. Otherwise the call does not wait, and the operation runs in the
 *   background, without further calls. An operation of up to 64 KiB may begin in the call: for at
 *   most 10 us, or for 4 yields of the CPU where ranks share CPUs. The program then tests *ret_work
 *   with rcm_work_test, waits for it with rcm_work_wait and frees it with rcm_work_free. Waiting
 *   does not free. Freeing an unfinished work detaches it: the operation still runs, but its result
 *   is not reported. A call that fails makes no work.
 *   A program can wait for several works at once, register a callback, poll a descriptor in an
 *   event loop, or use a completion queue. The work of a persistent call can be started repeatedly.
 *
 * OWNERSHIP
 *   The creator frees. The caller owns the buffers. The library reads the send buffer and writes
 *   the receive buffer until the operation completes. The caller must not touch either before then,
 *   except that it may read the send buffer.
 *
 * ALIASING
 *   In place means send == recv, the same pointer. Block collectives have their own rule, given
 *   there. Any other overlap between buffers of operations in flight is undefined.
 *
 * COUNTS AND SIZES
 *   Counts are numbers of elements of the given type. They are size_t and may exceed 2^31. A count
 *   whose size in bytes overflows size_t is RCM_ERR_INVALID. Zero is legal, and the call still
 *   synchronises; the buffers may then be NULL.
 *
 * REPRODUCIBLE RESULTS
 *   The result of a reduction has the same bits on every rank. It also has the same bits on every
 *   run of the same call with the same data, number of ranks and settings.
 *
 * FLOATING-POINT ENVIRONMENT
 *   Results do not depend on the floating-point environment of the calling thread. A function that
 *   waits, moves data or computes runs in the default environment: rounding to nearest, denormals
 *   kept, exceptions masked. When it returns, the thread's control bits are restored (MXCSR on
 *   x86-64, FPCR on aarch64). Exception flags are unspecified. The library's threads run in the
 *   default environment. GPU kernels also keep denormals and round division correctly: nvcc
 *   compiles them without -ftz=true, -prec-div=false and -use_fast_math.
 *   Functions of the program that the library calls start in the default environment. If an
 *   operator, or a callback on the library's thread, changes it, the library restores it
 *   afterwards. A function of a store must not change it. A callback that runs inside
 *   rcm_work_on_complete has the environment of the calling thread.
 *
 * THREADS
 *   One thread at a time issues or starts collectives on a communicator. A blocking call, or a call
 *   that waits by rcm_call.wait_ms, counts as issuing until it returns. Meanwhile no other thread,
 *   and no callback (rcm_work_on_complete), may issue a collective. Once a call with wait_ms has
 *   returned RCM_PENDING, any thread may issue the next collective while another one waits for the
 *   work (rcm_work_wait).
 *   Any thread may issue sends, receives, probes and batches at any time, also while a collective
 *   is issued. Messages of one thread to one rank under one tag arrive in the order in which that
 *   thread sent them. Receives of one thread match them in the order in which it posted them.
 *   Testing, waiting on and canceling works, rcm_abort and rcm_comm_error are legal from any thread
 *   at any time. Communicators are independent of each other.
 *   No call is canceled in the middle. pthread_cancel takes effect at the next cancellation point
 *   after the call, and the call ends by its deadline. The thread's cancelability type must be
 *   deferred. Functions of the program that a call runs cannot be canceled either.
 *   A thread of the library has a stack of 1 MiB, or of 8 MiB where it calls a CUDA driver or
 *   libpmix, whatever `ulimit -s` is. If a thread cannot be started, the call returns
 *   RCM_ERR_RESOURCE and the text names the limit.
 *
 * DEVICE MEMORY
 *   Buffers of a call may be in memory of the rank's CUDA device (rcm_init_options.device). For a
 *   collective, all buffers on all ranks are device memory, or none is. A mixture within a call is
 *   RCM_ERR_INVALID. A mixture between ranks is RCM_ERR_MISMATCH, and the text names both. The two
 *   ends of a message (rcm_send, rcm_recv) may differ. Results have the same bits as with host
 *   memory.
 *   The operation begins after the work already enqueued on rcm_call.stream. It does not wait for
 *   work enqueued there later, and it enqueues nothing on that stream. When the call, or the wait
 *   for its work, returns, the result is visible to every stream. The deadline also covers the
 *   stream: if the stream does not reach that point in time, the operation fails with
 *   RCM_ERR_TIMEOUT. After that no part of the operation begins, and the buffers are the caller's.
 *   A stream that is being captured into a graph is RCM_ERR_INVALID.
 *   User-defined operators, the functions with _bytes and rcm_reduce_local support host memory
 *   only.
 *   The library queries the CUDA driver for the memory kind of each buffer if it uses the driver in
 *   this process. It does so if libcuda.so.1 was loaded before one of these calls: rcm_init, a call
 *   that makes a communicator from another one, rcm_mem_register, or a call that names a stream or
 *   RCM_NO_STREAM. It also does so if rcm_init_options.device or rcm_mem_alloc_kind requires a
 *   device. Otherwise all buffers count as host memory, and nothing is loaded.
 *
 * DEADLINES
 *   Every wait has a deadline: rcm_call.timeout_ms, else the communicator's timeout
 *   (rcm_comm_set_timeout). The latter is at first the timeout of rcm_init, 30 minutes by default.
 *   When the deadline passes, the operation fails with RCM_ERR_TIMEOUT, and the text names the rank
 *   that it waited for. One of the waiting ranks also logs (RINGCOMM_LOG, level warn) a table of
 *   what each rank is doing. The same table is logged after RINGCOMM_WARN_AFTER seconds without
 *   progress, 30 by default.
 *
 * ERRORS
 *   A wrong argument is RCM_ERR_INVALID: nothing was sent, and the communicator is unchanged. The
 *   communicator also stays usable after RCM_ERR_UNSUPPORTED, RCM_ERR_CANCELED and
 *   RCM_ERR_TRUNCATED (a message longer than the receive buffer, whose first bytes were received),
 *   and after RCM_ERR_MISMATCH of a receive (a message of another type).
 *   Any other error of an operation makes the communicator unusable, because the ranks may disagree
 *   on what happened. So does RCM_ERR_INVALID for an invalid buffer (see INVALID BUFFERS). The
 *   communicator stores the first such error and reports it to every rank. Every operation in
 *   flight completes with it, and every later call returns it. Only rcm_comm_error,
 *   rcm_comm_missing, rcm_comm_shrink, rcm_mem_*, rcm_leave and rcm_destroy are then of use.
 *   rcm_comm_error returns the rank that was the origin.
 *   All other ranks report a rank that dies, by its number, within 1 s. A host that sends nothing
 *   for 15 s (RINGCOMM_PEER_TIMEOUT), because it is down or the network is cut, is lost. Both sides
 *   then report the loss. A shorter interruption is only a delay. A process that is merely stopped
 *   is not lost, on any host: the others wait for it until the deadline of the operation, whose
 *   error names it.
 *   The library never calls exit or abort, installs no signal handler, and raises no SIGPIPE or
 *   SIGXFSZ.
 *
 * NETWORKS
 *   - Two ranks need one direction in which TCP connections can be opened. Either direction is
 *     sufficient, whichever rank needs the other first. If the rank that cannot connect needs the
 *     link first, the other one must need it within RINGCOMM_PEER_TIMEOUT, or it is lost. All ranks
 *     must be able to reach the store's server.
 *   - Every TCP connection has keepalive. An idle connection sends something at least every 120 s
 *     (the first time after 60 s), so that a firewall or address translator with an idle timeout of
 *     240 s keeps it. If the connection to the store was lost nevertheless, each call that finds it
 *     lost reconnects once.
 *   - Each rank publishes at most 32 addresses, in this order: the address from which it reaches
 *     the store, others in the same network, the address of the default route, the rest. IPv6
 *     link-local addresses are not used: they have no meaning on another host.
 *   - If the store's server is at a loopback address and all ranks are on this host, the ranks
 *     listen at loopback addresses only, unless RINGCOMM_IFACE names others.
 *
 * INVALID BUFFERS
 *   Buffers are not validated in advance. A buffer is invalid if part of it is not mapped, or not
 *   writable where the operation writes. It is an error of this rank's call:
 *   - Where this process copies or computes, access raises a signal (SIGSEGV, SIGBUS), in the
 *     calling thread or in one of the library's. Between ranks of one host this is always so. The
 *     other ranks report this rank as dead.
 *   - Where the kernel copies, which over tcp is most of each large message (8 KiB and more), the
 *     operation fails with RCM_ERR_INVALID. The text has address and length, and this rank is the
 *     origin on all ranks. Parts of the data may have been sent by then. So, unlike a wrong
 *     argument, this error makes the communicator unusable, and rcm_comm_error returns it. No rank
 *     accepts such data as valid. The connections stay, and rcm_comm_shrink keeps all ranks.
 *   Over tcp the case depends on size, operation and timing.
 *
 * DESCRIPTORS
 *   All descriptors of the library are 3 or above, even if the program closed 0 to 2, and all are
 *   close-on-exec. Two things are exempt: descriptors made by libraries that it uses (resolver,
 *   libibverbs, libcuda, PMIx), and the moment between the kernel's return of a lower number and
 *   its move.
 *   The log is written to descriptor 2 only under three conditions. It must be open when rcm_init
 *   is called; it must have stayed open at each line; and it must not be close-on-exec, as a file
 *   or connection that reuses the number usually is.
 *   A program that closes descriptors it does not own (closefrom) also closes the library's. All
 *   ranks then get an error. On that rank it is RCM_ERR_SYSTEM within about 1 s, and the text gives
 *   this cause. From then on the library does not use those numbers, because they may belong to
 *   other files. During that second it may still read from, write to or close them.
 *
 * STATE AFTER AN ERROR OR ABORT
 *   The contents of the receive buffers of unfinished operations are undefined. The library does
 *   not touch any buffer of the caller after rcm_destroy has returned.
 *
 * FORK
 *   A communicator belongs to the process that made it. So do its works, its rcm_mem_alloc memory,
 *   stores and requests. After fork(), every call in the child that takes one of them returns
 *   RCM_ERR_FORKED, and no other rank is notified. When the child ends, by exit, return from main
 *   or a signal, nothing happens to them. Exempt are:
 *   - rcm_destroy, rcm_destroy_begin, rcm_work_free, rcm_store_close, rcm_init_cancel and
 *     rcm_comm_request_cancel free the child's copy, in any order. They close nothing that the
 *     child has opened. Memory that the parent's connections and threads used stays until the child
 *     ends.
 *   - rcm_rank, rcm_size, rcm_local_rank, rcm_local_size, rcm_world_rank, rcm_comm_translate,
 *     rcm_comm_name, rcm_comm_timeout, rcm_comm_sequence, rcm_work_sequence and rcm_store_url
 *     return the same as in the parent. rcm_comm_algorithm and rcm_comm_transport return "".
 *   rcm_mem_alloc memory may be shared with the parent: the parent then reads what the child writes
 *   there. Calls that take none of these objects work in the child as in any process.
 *   A child that no pthread_atfork handler sees (_Fork, raw clone) gets the same, if the kernel has
 *   MADV_WIPEONFORK (Linux 4.14). Such a child may make its own communicator safely only if the C
 *   library allows malloc and threads there. It keeps copies of the parent's connections until it
 *   ends, executes a program or closes them. If the parent is killed before that, the other ranks
 *   see a silent rank and wait until their deadline.
 *   A child that shares the parent's memory (vfork, posix_spawn, CLONE_VM) must call nothing but
 *   exec and _exit. Other calls there are undefined. An exit there has no effect on the parent's
 *   objects.
 *
 * STRUCT VERSIONS
 *   Structs that can grow begin with uint32_t size, which the caller sets to sizeof; the _INIT
 *   macros do this. New fields are added at the end, so program and library may have different
 *   versions:
 *   - A program built with an older header passes a smaller struct. Fields that it lacks count as
 *     0, which selects the earlier behaviour. If the library fills the struct (rcm_error,
 *     rcm_message, rcm_protocol_info, rcm_collective_info), it writes only the bytes that the
 *     program has. Every size from the first version on is accepted.
 *   - A program built with a newer header passes a larger struct. The library accepts it if the
 *     bytes that it does not interpret are 0, as the _INIT macros leave them. Otherwise the call
 *     returns RCM_ERR_INVALID, and the text gives the reason: the library is older than the
 *     program. If the library fills the struct, those bytes become 0.
 *   size itself is never written. A size above 4096 is RCM_ERR_INVALID. Other structs do not grow.
 */
#ifndef RINGCOMM_H
#define RINGCOMM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RCM_VERSION_MAJOR 0
#define RCM_VERSION_MINOR 1
#define RCM_VERSION_PATCH 0

#if defined(__GNUC__)
#define RCM_CHECKED __attribute__((warn_unused_result))
#else
#define RCM_CHECKED
#endif

/* Value of the _INIT macros: all 0 but size. C++ before C++20 has no designated initialisers and
 * warns about them. */
#ifdef __cplusplus
#define RCM_SIZED_INIT(type)                                                                       \
    ([] {                                                                                          \
        struct type rcm_sized = {};                                                                \
        rcm_sized.size = sizeof(rcm_sized);                                                        \
        return rcm_sized;                                                                          \
    }())
#else
#define RCM_SIZED_INIT(type)                                                                       \
    { .size = sizeof(struct type) }
#endif

/* ---- Status ---------------------------------------------------------------------------------- */

/* Name, number, text. Zero is success, positive is "not yet", negative is an error. */
#define RCM_STATUS_MAP(X)                                                                          \
    X(OK, 0, "success")                                                                            \
    X(PENDING, 1, "the operation is still running")                                                \
    X(AGAIN, 2, "nothing changed, try again later")                                                \
    X(ERR_INVALID, -1, "an argument is not valid")                                                 \
    X(ERR_NOMEM, -2, "out of memory")                                                              \
    X(ERR_UNSUPPORTED, -3, "not supported here")                                                   \
    X(ERR_SYSTEM, -4, "a system call failed")                                                      \
    X(ERR_TIMEOUT, -5, "the deadline passed")                                                      \
    X(ERR_PEER, -6, "a peer process died or its connection was lost")                              \
    X(ERR_ABORTED, -7, "the communicator was aborted")                                             \
    X(ERR_PROTOCOL, -8, "a peer sent something that is not valid")                                 \
    X(ERR_MISMATCH, -9,                                                                            \
      "ranks called different operations, or were started with different settings")                \
    X(ERR_TRUNCATED, -10, "the message is longer than the receive buffer")                         \
    X(ERR_AUTH, -11, "authentication failed")                                                      \
    X(ERR_NOT_FOUND, -12, "no such key or object")                                                 \
    X(ERR_CANCELED, -13, "the operation was canceled")                                             \
    X(ERR_CONFIG, -14, "the environment or configuration is missing or contradictory")             \
    X(ERR_RESOURCE, -15, "a limit of the system was reached")                                      \
    X(ERR_FORKED, -16, "the object belongs to the parent process")                                 \
    X(ERR_INTERNAL, -17, "a fault in libringcomm itself")

typedef enum rcm_status {
#define RCM_STATUS_ENUM(name, number, text) RCM_##name = number,
    RCM_STATUS_MAP(RCM_STATUS_ENUM)
#undef RCM_STATUS_ENUM
} rcm_status;

/* The status's name, such as "RCM_ERR_PEER"; "RCM_?" for an unknown number. Static memory. Any
 * thread. */
const char *rcm_status_name(rcm_status status);

/* The text in the table above. Static memory. Any thread. */
const char *rcm_status_text(rcm_status status);

/* The cause of this thread's last failed call, with its facts: argument and value, rank, address. A
 * call that succeeds, or returns RCM_PENDING, leaves the text unchanged. Thread-local memory, valid
 * until the same thread's next call of this library; "" if no call has failed yet. */
const char *rcm_last_error(void);

/* The version of the loaded library, such as "0.1.0". It may be newer than this header. */
const char *rcm_version(void);

/* ---- The log --------------------------------------------------------------------------------- */

/*
 * Log lines of RINGCOMM_LOG's level ("warn") and above go to stderr, or to a function of the
 * program. Level and function belong to the process and apply to all its communicators.
 */
enum rcm_log_level { RCM_LOG_ERROR = 0, RCM_LOG_WARN = 1, RCM_LOG_INFO = 2, RCM_LOG_DEBUG = 3 };

/*
 * Receives one log line: its level, the rank it is about (-1: unknown), and its text. The text has
 * no newline and is valid until the function returns.
 *
 * The logging thread calls the function: a thread of the program inside a call, or one of the
 * library's. Calls do not overlap: other threads that log wait until the function returns. The
 * library may hold locks during the call. So the function may call only rcm_log_set,
 * rcm_log_set_level and functions that only return names or texts. It must not wait for a thread
 * that may be in the library. Lines that its own thread logs meanwhile go to stderr.
 */
typedef void (*rcm_log_function)(void *arg, enum rcm_log_level level, int rank, const char *text);

/* Sends all further log lines to function, with arg; NULL: to stderr again. When the call returns,
 * the previous function is not running and is not called again. Exception: a function that replaces
 * itself runs to its end. A child after fork() keeps the function. Always returns RCM_OK. Any
 * thread, at any time, also before rcm_init. */
RCM_CHECKED rcm_status rcm_log_set(rcm_log_function function, void *arg);

/* Logs lines of this level and of more important levels from now on, whatever RINGCOMM_LOG is. Any
 * thread, at any time. RCM_ERR_INVALID: level is not a level. */
RCM_CHECKED rcm_status rcm_log_set_level(enum rcm_log_level level);

/* ---- Types and operators --------------------------------------------------------------------- */

/*
 * 16- and 8-bit floats are passed as their bits. float16: IEEE binary16. bfloat16: the upper half
 * of a float. float8_e5m2: the upper half of a float16. float8_e4m3fn: 4 exponent bits with bias 7,
 * no infinity, NaN is S1111111, largest number 448. bool: one byte; every value but 0 is true, and
 * results are 0 or 1.
 * Complex numbers and pairs are the structs below. A pair is a value and the index where it was
 * found.
 */
struct rcm_complex64 {
    float real, imaginary;
};
struct rcm_complex128 {
    double real, imaginary;
};
struct rcm_float32_int32 {
    float value;
    int32_t index;
};
struct rcm_float64_int32 { /* 16 bytes, the last 4 unused */
    double value;
    int32_t index;
};
struct rcm_int32_int32 {
    int32_t value;
    int32_t index;
};
struct rcm_int64_int32 { /* 16 bytes, the last 4 unused */
    int64_t value;
    int32_t index;
};

/* Name, number, size in bytes, C type. Numbers are part of the wire format and are never reused. */
#define RCM_DTYPE_MAP(X)                                                                           \
    X(UINT8, 1, 1, uint8_t)                                                                        \
    X(INT8, 2, 1, int8_t)                                                                          \
    X(INT16, 3, 2, int16_t)                                                                        \
    X(INT32, 4, 4, int32_t)                                                                        \
    X(UINT32, 5, 4, uint32_t)                                                                      \
    X(INT64, 6, 8, int64_t)                                                                        \
    X(UINT64, 7, 8, uint64_t)                                                                      \
    X(FLOAT16, 8, 2, uint16_t)                                                                     \
    X(FLOAT32, 9, 4, float)                                                                        \
    X(FLOAT64, 10, 8, double)                                                                      \
    X(BFLOAT16, 11, 2, uint16_t)                                                                   \
    X(UINT16, 12, 2, uint16_t)                                                                     \
    X(BOOL, 13, 1, uint8_t)                                                                        \
    X(FLOAT8_E4M3FN, 14, 1, uint8_t)                                                               \
    X(FLOAT8_E5M2, 15, 1, uint8_t)                                                                 \
    X(COMPLEX64, 16, 8, struct rcm_complex64)                                                      \
    X(COMPLEX128, 17, 16, struct rcm_complex128)                                                   \
    X(FLOAT32_INT32, 18, 8, struct rcm_float32_int32)                                              \
    X(FLOAT64_INT32, 19, 16, struct rcm_float64_int32)                                             \
    X(INT32_INT32, 20, 8, struct rcm_int32_int32)                                                  \
    X(INT64_INT32, 21, 16, struct rcm_int64_int32)

typedef enum rcm_dtype {
#define RCM_DTYPE_ENUM(name, number, bytes, ctype) RCM_##name = number,
    RCM_DTYPE_MAP(RCM_DTYPE_ENUM)
#undef RCM_DTYPE_ENUM
        RCM_OPAQUE = 1 << 30 /* plus the element size in bytes: see rcm_dtype_opaque */
} rcm_dtype;

/*
 * Makes a type for elements of the given size that the library does not interpret: a struct, a
 * matrix, a packed record. It can be passed wherever a type is, to every operation. Number, name
 * ("opaque12") and size are the same in all processes, so ranks that differ in size get
 * RCM_ERR_MISMATCH. Only operators of rcm_op_create apply to it, so its reductions are for host
 * memory. No element is ever divided between two calls of the operator.
 *
 * bytes: 1 to RCM_OPAQUE_MAX, else RCM_ERR_INVALID. A reduction needs elements that fit a slot
 * (RINGCOMM_SLOT_BYTES; 128 KiB, less with more than 64 ranks), else RCM_ERR_UNSUPPORTED, whose
 * text has both sizes. The same applies to an algorithm that the call names and that needs space
 * for several elements. Alignment of an element in the operator: the largest power of two that
 * divides bytes, at most 8, or the alignment of the caller's buffers. Any thread. Source:
 * MPI_Type_contiguous of MPI_BYTE.
 */
#define RCM_OPAQUE_MAX 65536
RCM_CHECKED rcm_status rcm_dtype_opaque(size_t bytes, rcm_dtype *ret_dtype);

/*
 * Operators are applied element by element, in an order of operands that is the same on every rank.
 * The table shows the defined combinations. rcm_op_defined tests one; the others are
 * RCM_ERR_INVALID, and the text gives the reason.
 *
 *                  integers  bool  floats  complex  pairs
 *   sum, prod         x       x      x        x              integers wrap; bool: or, and
 *   min, max          x       x      x                       -0 is less than +0; bool: and, or
 *   band, bor, bxor   x       x                              bit by bit; bool: as the next ones
 *   land, lor, lxor   x       x                              of "is not 0"; the result is 0 or 1
 *   avg               x              x        x              the sum divided by the number of ranks
 *   premul_sum                       x        x              created, see rcm_op_create_premul_sum
 *   minloc, maxloc                                    x      the least or largest value with its
 *                                                            index; of equal ones the lowest index
 *
 * Floats: a NaN result is always the same positive quiet NaN, whichever operand or operation caused
 * it. min, max, minloc and maxloc are NaN if any operand is NaN. minloc and maxloc also order -0
 * below +0. Each operation is rounded once, to nearest, ties to even. While a rank adds several
 * operands in one step, 16- and 8-bit floats are computed in float32. They are rounded when the
 * step's result is stored. A value that is too large becomes an infinity, except for float8_e4m3fn,
 * which has none: there it becomes +-448. A product of complex numbers is (ac - bd) + (ad + bc)i by
 * these operations. Each part follows the rules for floats.
 * These rules apply to two or more operands. A result of one operand has its bits unchanged: on a
 * communicator of one rank, for scan on rank 0, for exscan on rank 1. This includes a NaN, and for
 * a bool, land, lor and lxor a value that is not 0 or 1.
 *
 * avg applies to collectives whose results contain the contributions of all ranks, so not to scan,
 * exscan and rcm_reduce_local. The step that completes a sum divides it, before it is rounded to a
 * 16- or 8-bit float. With integers the sum wraps, and the quotient is truncated toward zero.
 */
#define RCM_OP_MAP(X)                                                                              \
    X(SUM, 1)                                                                                      \
    X(PROD, 2)                                                                                     \
    X(MIN, 3)                                                                                      \
    X(MAX, 4)                                                                                      \
    X(AVG, 5)                                                                                      \
    X(BAND, 6)                                                                                     \
    X(BOR, 7)                                                                                      \
    X(BXOR, 8)                                                                                     \
    X(LAND, 9)                                                                                     \
    X(LOR, 10)                                                                                     \
    X(LXOR, 11)                                                                                    \
    X(MINLOC, 12)                                                                                  \
    X(MAXLOC, 13)

enum rcm_op_number {
#define RCM_OP_ENUM(name, number) RCM_##name = number,
    RCM_OP_MAP(RCM_OP_ENUM)
#undef RCM_OP_ENUM
};
/* One of these numbers, or a number above 256 from rcm_op_create or rcm_op_create_premul_sum. */
typedef int32_t rcm_op;

/* Tests whether op is defined for dtype. RCM_OK, or RCM_ERR_INVALID with the reason in the text.
 * Any thread. */
RCM_CHECKED rcm_status rcm_op_defined(rcm_op op, rcm_dtype dtype);

/*
 * User-defined operators. They belong to the process, are valid for all its communicators, and can
 * be passed wherever an operator is. A number names one operator, also after it was freed. Each
 * rank creates its own. Ranks compare operator names, as they compare types: a rank that calls with
 * another operator gets RCM_ERR_MISMATCH. A child after fork() keeps the operators of the process.
 * All functions: any thread.
 */
#define RCM_OP_NAME_MAX 24 /* bytes of a name, with the NUL at its end */

/*
 * Creates an operator from a function of the program: inout[i] becomes in[i] op inout[i] for each i
 * < count. The function must be associative and the same on all ranks. With RCM_OP_COMMUTATIVE in
 * flags, operands may also be exchanged. Without it, the result combines the contributions in rank
 * order, with any grouping: (a op b) op (c op d). Then only algorithms that keep that order are
 * used; ringcomm-plan --list shows them. Another algorithm is RCM_ERR_UNSUPPORTED if the call or
 * RINGCOMM_ALGORITHM names it, and is skipped if RINGCOMM_TUNING does. Every reducing collective
 * has at least one such algorithm, for any number of ranks and hosts.
 *
 * Calls of the function: for any number of elements at a time, from any position on. Operands are
 * aligned like the type or the caller's buffers; in and inout do not overlap. It runs in the thread
 * that calls, waits for or tests an operation, or in one of the library's. For one communicator it
 * runs in one thread at a time. It must not wait. Inside the function, every function that issues
 * an operation, waits for one, or makes or ends a communicator returns RCM_ERR_INVALID, for any
 * communicator. Functions that only return state (rcm_rank, rcm_comm_error), rcm_work_test,
 * rcm_abort and rcm_reduce_local work as usual.
 *
 * context is passed to the function and stays the program's. It is used until the operator is freed
 * and the last work that uses it has ended. name: 1 to 23 bytes of ASCII. Ranks compare it and the
 * commutative flag. dtype: the only type that the operator accepts, or RCM_ANY_DTYPE;
 * rcm_dtype_opaque makes a type for structs of the program. Host memory only, else
 * RCM_ERR_UNSUPPORTED. The operator also works with rcm_reduce_local. Source: MPI_Op_create.
 */
typedef void (*rcm_op_function)(const void *in, void *inout, size_t count, rcm_dtype dtype,
                                void *context);
#define RCM_OP_COMMUTATIVE 1u
#define RCM_ANY_DTYPE      ((rcm_dtype)0)
RCM_CHECKED rcm_status rcm_op_create(rcm_op_function function, void *context, uint32_t flags,
                                     const char *name, rcm_dtype dtype, rcm_op *ret_op);

/*
 * Creates a sum of scaled inputs: each rank's input is multiplied once by the scale of that rank's
 * operator before it is added. dtype: a float or complex type, the only one that the operator
 * accepts. The scale is real + imaginary * i; imaginary is 0 if dtype is not complex. The scale is
 * rounded to float32 if dtype is shorter than float64 or complex128. Scales may differ between
 * ranks and are not compared.
 * The operator works with every reducing collective, but not with rcm_reduce_local. A rank's
 * contribution is rounded to dtype after it is scaled. All other rules are those of sum, except
 * that a result of one contribution (on one rank, for example) is scaled too. RCM_ERR_INVALID:
 * dtype is of another kind.
 * Source: ncclRedOpCreatePreMulSum, PREMUL_SUM of torch.distributed.
 */
RCM_CHECKED rcm_status rcm_op_create_premul_sum(double real, double imaginary, rcm_dtype dtype,
                                                rcm_op *ret_op);

/*
 * The same with a scale in memory: an element of dtype at `scale`, in host memory that the CPU can
 * read. Each operation reads it when it begins, so after the work already enqueued on its stream
 * (rcm_call.stream), which may write it. The element stays in place and unchanged from then until
 * the operation is complete. Ranks compare the operator as the one above. RCM_ERR_INVALID: scale is
 * NULL. Source: ncclScalarDevice.
 */
RCM_CHECKED rcm_status rcm_op_create_premul_sum_from(const void *scale, rcm_dtype dtype,
                                                     rcm_op *ret_op);

/* Frees an operator: its number is no longer valid. Operations and persistent works that use the
 * operator are not affected. It lives until the last of them has ended. RCM_ERR_INVALID: op is not
 * an operator, was freed, or was not created. */
RCM_CHECKED rcm_status rcm_op_free(rcm_op op);

/* Bytes of one element; 0 for an unknown type. */
size_t rcm_dtype_size(rcm_dtype dtype);
/* The name, such as "float32" or "sum"; "?" for an unknown number. Static memory, with two
 * exceptions. The name of a created operator is valid until it is freed. The name of an opaque type
 * is valid until this thread has read four others. */
const char *rcm_dtype_name(rcm_dtype dtype);
const char *rcm_op_name(rcm_op op);
/* The inverse. RCM_ERR_INVALID: the name is unknown. */
RCM_CHECKED rcm_status rcm_dtype_from_name(const char *name, rcm_dtype *ret_dtype);
RCM_CHECKED rcm_status rcm_op_from_name(const char *name, rcm_op *ret_op);

/* ---- Stores: how ranks find each other ------------------------------------------------------- */

/*
 * A store is a small shared dictionary from keys to byte strings. Ranks use it to find each other,
 * and the program may use it under other keys. The TCP and file stores use the wire protocol and
 * the file format of torch.distributed's TCPStore and FileStore (as in current torch), so either
 * implementation can serve the other. All functions: any thread. timeout_ms < 0 waits for ever; 0
 * polls once.
 */
typedef struct rcm_store rcm_store;

/* Opens a store by URL:
 *   hash:                             in this process only: for ranks that are threads
 *   file:///path?world_size=N         a file on a file system that all ranks can access
 *   tcp://host:port?rank=R&world_size=N
 *                                     rank 0 serves, the others connect; rank 0 may pass port 0,
 *                                     and rcm_store_url returns the port chosen
 *   tcp://host:port?server=0|1        states explicitly whether to serve
 * Deadline: timeout_ms for the connection, else 30 s. With a secret (RINGCOMM_SECRET) both sides
 * first prove that they have it. Caller closes. */
RCM_CHECKED rcm_status rcm_store_open(const char *url, int64_t timeout_ms, rcm_store **ret_store);

/* Opens a view of `store` in which every key starts with prefix + "/". It does not own `store`,
 * which must live longer. Caller closes. */
RCM_CHECKED rcm_status rcm_store_prefix(rcm_store *store, const char *prefix,
                                        rcm_store **ret_store);

/*
 * A store implemented by functions of the program: an existing dictionary, of another library or of
 * a cluster. set, try_get and compare_set are required; rcm_store_add and rcm_store_append are
 * built on them. If wait is NULL, the library polls the key with a back-off of up to 50 ms. If
 * remove (rcm_store_delete) or count is NULL, that call returns RCM_ERR_UNSUPPORTED.
 *
 * Each function takes `arg`, does what the rcm_store_ function of its name does, and returns the
 * same statuses: try_get RCM_ERR_NOT_FOUND, wait RCM_ERR_TIMEOUT. Returned values are from malloc,
 * and the library frees them. timeout_ms is as there. rcm_init waits in short slices and does other
 * checks between them: each slice is one call of wait of about 500 ms, plus 1 ms for each rank.
 * RCM_ERR_TIMEOUT at the end of a slice is no failure and should not be logged. The functions run
 * in the threads that call the library, and in a thread of the library for rcm_init_begin. Calls
 * overlap if the program's calls do.
 */
struct rcm_store_functions {
    uint32_t size;
    void *arg;
    rcm_status (*set)(void *arg, const char *key, const void *value, size_t len);
    rcm_status (*try_get)(void *arg, const char *key, void **ret_value, size_t *ret_len);
    rcm_status (*wait)(void *arg, const char *key, int64_t timeout_ms);
    rcm_status (*compare_set)(void *arg, const char *key, const void *expected, size_t expected_len,
                              const void *desired, size_t desired_len, int *ret_swapped,
                              void **ret_value, size_t *ret_len);
    rcm_status (*remove)(void *arg, const char *key, int *ret_deleted);
    rcm_status (*count)(void *arg, size_t *ret_count);
    void (*close)(void *arg); /* called by rcm_store_close */
    /* Returns why the last function that failed in this thread did; rcm_last_error then contains
     * it. The text is copied before another function is called. NULL, or a NULL result: unknown. */
    const char *(*reason)(void *arg);
};
#define RCM_STORE_FUNCTIONS_INIT RCM_SIZED_INIT(rcm_store_functions)
/* Opens such a store. functions is copied. Caller closes. */
RCM_CHECKED rcm_status rcm_store_custom(const struct rcm_store_functions *functions,
                                        rcm_store **ret_store);

/* The URL by which other processes reach this store; "" for hash. Valid as long as the store. */
const char *rcm_store_url(const rcm_store *store);

/* Frees the store. A serving store stops serving. NULL is a no-op. */
void rcm_store_close(rcm_store *store);

/* Sets key to len bytes, overwriting, and wakes waiters. Key: at most 8 KiB; value: at most 8
 * MiB. */
RCM_CHECKED rcm_status rcm_store_set(rcm_store *store, const char *key, const void *value,
                                     size_t len);
/* Waits until key exists, then returns its value from malloc; the caller frees it. A NUL follows
 * the value and is not counted in len. RCM_ERR_TIMEOUT names the key. */
RCM_CHECKED rcm_status rcm_store_get(rcm_store *store, const char *key, int64_t timeout_ms,
                                     void **ret_value, size_t *ret_len);
/* The same without waiting. RCM_ERR_NOT_FOUND: the key does not exist. */
RCM_CHECKED rcm_status rcm_store_try_get(rcm_store *store, const char *key, void **ret_value,
                                         size_t *ret_len);
/* Adds delta to the integer (decimal text) under key and returns the sum. A missing key counts as
 * 0. Atomic. RCM_ERR_INVALID: the value is not an integer. */
RCM_CHECKED rcm_status rcm_store_add(rcm_store *store, const char *key, int64_t delta,
                                     int64_t *ret_value);
/* Waits until all keys exist. RCM_ERR_TIMEOUT names the first missing key. */
RCM_CHECKED rcm_status rcm_store_wait(rcm_store *store, const char *const *keys, size_t nkeys,
                                      int64_t timeout_ms);
/* Sets key to `desired` if its value equals `expected`, or if the key does not exist and expected
 * is empty. *ret_value is the value afterwards (from malloc, caller frees). *ret_swapped is whether
 * it was set. RCM_ERR_NOT_FOUND: the key does not exist and `expected` is not empty. */
RCM_CHECKED rcm_status rcm_store_compare_set(rcm_store *store, const char *key,
                                             const void *expected, size_t expected_len,
                                             const void *desired, size_t desired_len,
                                             int *ret_swapped, void **ret_value, size_t *ret_len);
/* Deletes key. *ret_deleted: whether it existed. */
RCM_CHECKED rcm_status rcm_store_delete(rcm_store *store, const char *key, int *ret_deleted);
/* Returns the number of keys that users set; internal keys are not counted. For a view with a
 * prefix: of the whole underlying store, as in torch. */
RCM_CHECKED rcm_status rcm_store_count(rcm_store *store, size_t *ret_count);
/* Appends to the value of key; a missing key counts as empty. */
RCM_CHECKED rcm_status rcm_store_append(rcm_store *store, const char *key, const void *value,
                                        size_t len);

struct rcm_blob {
    void *data;
    size_t len;
};
/* rcm_store_get and rcm_store_set of nkeys keys, in as few round trips as the store allows. On
 * success of multi_get every blob's data is from malloc, and the caller frees each. On failure
 * nothing is left allocated. */
RCM_CHECKED rcm_status rcm_store_multi_get(rcm_store *store, const char *const *keys, size_t nkeys,
                                           int64_t timeout_ms, struct rcm_blob *ret_values);
RCM_CHECKED rcm_status rcm_store_multi_set(rcm_store *store, const char *const *keys,
                                           const struct rcm_blob *values, size_t nkeys);

/* ---- Life cycle ------------------------------------------------------------------------------ */

typedef struct rcm_comm rcm_comm;
typedef struct rcm_work rcm_work;

/*
 * An id by which the ranks of one rcm_init meet. One process makes it and passes its bytes to the
 * others by any means. That process serves the store at the addresses of its active interfaces
 * (RINGCOMM_IFACE: of this one), with the environment's secret. The port is a free one
 * (RINGCOMM_PORTS: one of these). The process need not be a rank. If it is, its rank ends the store
 * at the end of the communicator. Otherwise the store lives until rcm_unique_id_free or the end of
 * the process.
 * An id is for one rcm_init on each rank. A used or freed id is rejected: in the process that made
 * it with RCM_ERR_INVALID at once, elsewhere with RCM_ERR_PEER. The latter takes some seconds, in
 * which nothing listens at its addresses.
 */
#define RCM_UNIQUE_ID_BYTES 128
struct rcm_unique_id {
    char bytes[RCM_UNIQUE_ID_BYTES];
};
/* Makes an id. Any thread. Source: ncclGetUniqueId. */
RCM_CHECKED rcm_status rcm_unique_id_get(struct rcm_unique_id *ret_id);
/* Ends the store of an id that is no longer needed: the job does not start, or the process is not a
 * rank and rcm_init has returned on all ranks. Ranks still in rcm_init with this id lose their
 * store. id stays the caller's. Any thread. RCM_ERR_INVALID: it is not an id. RCM_ERR_NOT_FOUND:
 * this process did not make it, or it was freed, or a rank of this process used it and owns the
 * store. */
RCM_CHECKED rcm_status rcm_unique_id_free(const struct rcm_unique_id *id);

/* Options of rcm_init. A field at its default (zero, NULL, rank -1) takes its value from the
 * environment: the variables are named on the right. A field that is set overrides the environment.
 * At most one of url, store and unique_id is set. */
struct rcm_init_options {
    uint32_t size;
    int32_t rank;          /* RINGCOMM_RANK, RANK, the launcher's; -1: from the environment */
    int32_t world_size;    /* RINGCOMM_WORLD_SIZE, WORLD_SIZE, the launcher's; 0: likewise */
    int32_t reserved;      /* 0 */
    const char *url;       /* RINGCOMM_URL; else env:// (MASTER_ADDR, MASTER_PORT) */
    rcm_store *store;      /* an open store instead of a URL; must live until rcm_init returns */
    const char *host_id;   /* RINGCOMM_HOST_ID; only ranks of equal host_id use shared memory */
    const char *secret;    /* RINGCOMM_SECRET, or the content of RINGCOMM_SECRET_FILE */
    const char *transport; /* RINGCOMM_TRANSPORT: "auto", or a list of rcm_transport_at's names */
    const char *algorithm; /* RINGCOMM_ALGORITHM: "" or "all_reduce=ring:32K-,scan=chain" */
    int64_t timeout_ms;    /* RINGCOMM_TIMEOUT, in seconds there; 0: 30 minutes; <0: for ever */
    const struct rcm_unique_id *unique_id; /* instead of a URL: where the ranks meet */
    /* RINGCOMM_DEVICE: the rank's CUDA device, by number ("1") or UUID ("GPU-..."), which must
     * exist. "auto": local rank modulo number of devices, once a device is needed. "none". */
    const char *device;
};
#ifdef __cplusplus
#define RCM_INIT_OPTIONS_INIT                                                                      \
    ([] {                                                                                          \
        struct rcm_init_options rcm_sized = {};                                                    \
        rcm_sized.size = sizeof(rcm_sized);                                                        \
        rcm_sized.rank = -1;                                                                       \
        return rcm_sized;                                                                          \
    }())
#else
#define RCM_INIT_OPTIONS_INIT                                                                      \
    { .size = sizeof(struct rcm_init_options), .rank = -1 }
#endif

/*
 * Makes the communicator of all ranks. Collective: every rank calls it, and it returns when all
 * have published their address. options may be NULL.
 *
 * Meeting point. With the env:// form, rank 0 serves the TCP store at MASTER_ADDR:MASTER_PORT,
 * unless TORCHELASTIC_USE_AGENT_STORE=True states that a launcher does. Without these two
 * variables, ranks of a launcher meet by its own means: mpirun of Open MPI (all ranks on one
 * machine), mpirun of MPICH and others with PMI-1 (PMI_FD), srun of Slurm. There the n-th rcm_init
 * of every rank meets, so every rank calls it equally often.
 *
 * Ranks come from the first of: options; RINGCOMM_RANK and RINGCOMM_WORLD_SIZE; RANK and
 * WORLD_SIZE; OMPI_COMM_WORLD_RANK and _SIZE; PMI_RANK and PMI_SIZE; in a Slurm step SLURM_PROCID
 * and SLURM_STEP_NUM_TASKS. A missing variable, or two that contradict each other, is
 * RCM_ERR_CONFIG, and rcm_last_error() names it. Options with rank, world_size and a meeting point
 * (store, unique_id, url) describe a separate world. Examples are a second world of some ranks of a
 * launcher's job, or one with ranks of two jobs. There the launcher's local ranks, job id and
 * restart count are ignored.
 *
 * Job ids. Two jobs at one meeting point (MASTER_PORT, a file) are distinguished by their ids. The
 * id is RINGCOMM_JOB_ID, any text that is the same on all ranks of a job and of no other job. Else
 * it is the launcher's: TORCHELASTIC_RUN_ID, and if the launcher's job has as many ranks
 * PMIX_NAMESPACE, PMI_JOBID, or SLURM_JOB_ID and SLURM_STEP_ID. The job whose rank 0 comes first
 * continues. Every rank of the other job gets RCM_ERR_CONFIG with both ids; if its rank 0 would
 * serve the store, that rank gets the error of a port in use. A rank without an id among ranks with
 * one is an error on all ranks.
 * Without ids, a second process that joins with a rank already present fails rcm_init on all ranks
 * that have not finished it. Ranks whose meeting point was set by hand wait 1 s for this in their
 * first rcm_init. So two jobs of equal size without ids, whose ranks come more than 1 s apart, can
 * still merge.
 *
 * Checks. Libraries with different wire versions do not work together: all ranks get
 * RCM_ERR_MISMATCH, whose text names a rank, its host and both versions. A transport that a rank
 * cannot use, for example because of a limit of its process, is not used with that rank. If two
 * ranks then share no transport, all ranks get RCM_ERR_UNSUPPORTED, whose text names them and what
 * is missing. An example is a rank without an address that the other's host can reach. Ranks that
 * have not joined after RINGCOMM_WARN_AFTER seconds are logged. If rank 0, or a rank on rank 0's
 * machine, joined and ended before all had joined, the others get RCM_ERR_PEER. A rank 0 that ended
 * before this process began may belong to an earlier job, which left its store behind:
 * RCM_ERR_CONFIG, with both possibilities. Ranks with different TORCHELASTIC_RESTART_COUNTs get
 * RCM_ERR_CONFIG with both counts.
 *
 * Deadline. It covers all calls of the store together. A call of options.store that has begun is
 * completed. After the deadline further calls begin only to notify the other ranks, for some
 * seconds. If the store was slow, the text of RCM_ERR_TIMEOUT names it and the time its calls took.
 *
 * Source of the environment names: torch.distributed's env:// initialisation, torchrun, and the
 * launchers named.
 */
RCM_CHECKED rcm_status rcm_init(const struct rcm_init_options *options, rcm_comm **ret_comm);

/*
 * rcm_init in the background: begin returns at once, and a thread of the library does the rest.
 * Other ranks may call either form. options and its strings are copied. A store in it must outlive
 * the request.
 *   test     returns RCM_PENDING, or the result of rcm_init, whose text is in rcm_last_error().
 *            *ret_comm is the communicator, which the caller then owns
 *   wait     waits until rcm_init is finished, then returns the same; RCM_PENDING if timeout_ms
 *            passed first (<0: never)
 *   cancel   frees the request, in any state, also when it is finished. An unfinished one ends
 *            within about 1 s: in the background, or in this call if options had a store. rcm_init
 *            of the other ranks then fails, with this cause in the text. A communicator that was
 *            not taken is aborted
 * Any thread.
 */
typedef struct rcm_init_request rcm_init_request;
RCM_CHECKED rcm_status rcm_init_begin(const struct rcm_init_options *options,
                                      rcm_init_request **ret_request);
RCM_CHECKED rcm_status rcm_init_test(rcm_init_request *request, rcm_comm **ret_comm);
RCM_CHECKED rcm_status rcm_init_wait(rcm_init_request *request, int64_t timeout_ms,
                                     rcm_comm **ret_comm);
void rcm_init_cancel(rcm_init_request *request); /* NULL is a no-op */

/*
 * Ends a communicator. Collective, with the communicator's timeout as deadline. It waits for this
 * rank's unfinished operations, also those that callbacks issue meanwhile, and for all ranks. After
 * an error or abort it does not wait. It waits for a receive without a message like for any other
 * operation. So call rcm_work_cancel first, or rcm_destroy fails with RCM_ERR_TIMEOUT.
 *
 * Connections (and the store, if this rank serves it) end with the last communicator from the same
 * rcm_init, when all connected ranks have left too. The rank that serves the store waits for all
 * ranks, until they have also left the store, or have reported to it that they cannot reach the
 * store. It waits at most 5 s for a rank that still uses other communicators, because these do not
 * need the store.
 *
 * Deaths. A rank of comm that dies before it has left is RCM_ERR_PEER, and is named within 1 s. A
 * later death has no effect. So if a rank dies inside rcm_destroy, some of the others may get that
 * error and some RCM_OK. RCM_OK means that all ranks had called rcm_destroy and finished their
 * operations.
 *
 * Frees comm, except in a callback (RCM_ERR_INVALID). Works must be freed before or after; their
 * status stays readable. NULL is a no-op.
 */
RCM_CHECKED rcm_status rcm_destroy(rcm_comm *comm);

/*
 * rcm_destroy in the background: returns at once, and a thread of the library does the rest. Other
 * ranks may call either form. *ret_request is a request like those for new communicators (see
 * REQUESTS below), without a communicator. From then on comm is not the caller's; only its works
 * may still be tested, waited for and freed. A cancel makes comm fail on all its ranks with
 * RCM_ERR_CANCELED, whose text names this rank, and does not wait for its end. The process must
 * wait for the request before it exits. Otherwise it exits within the operation, which counts as a
 * death. Legal in a callback.
 *
 * Errors, after which comm stays the caller's: RCM_ERR_INVALID: ret_request is NULL, or the call is
 * in an operator's function. RCM_ERR_RESOURCE: no thread could be started.
 */
typedef struct rcm_comm_request rcm_comm_request;
RCM_CHECKED rcm_status rcm_destroy_begin(rcm_comm *comm, rcm_comm_request **ret_request);

/*
 * Ends a communicator for this rank alone, without waiting for other ranks. They can still receive
 * what it has sent. Later operations of other ranks that need this rank fail with RCM_ERR_PEER soon
 * after they wait for it. Like any error, this ends all operations in flight on every rank, also a
 * receive of what this rank has sent. The text states that the rank has left. If its process has
 * ended and was never connected to theirs, the text states that it is lost. A receive from any
 * source fails only when all others have left. rcm_destroy of comm on other ranks fails likewise:
 * all ranks of a communicator destroy it, or all leave it. rcm_comm_shrink continues without this
 * rank.
 *
 * Unfinished operations of this rank: receives without a matching message end with
 * RCM_ERR_CANCELED. The call waits for receives whose message is arriving, until their deadline or
 * comm's timeout. If any other operation is unfinished, the call is an rcm_abort (RCM_ERR_ABORTED).
 *
 * Time. When the last communicator from the same rcm_init ends, this process notifies all others.
 * It waits at most 0.3 s for their acknowledgement, and 0.5 s for the store. Messages sent from
 * memory of its device to ranks of this host stay there until received. The call waits for this
 * too, at most 5 s; a later receive is RCM_ERR_PEER.
 *
 * Frees comm in every case except RCM_ERR_INVALID (NULL, or in a callback) and RCM_ERR_FORKED.
 *
 * A process that calls exit(), or returns from main, with communicators but no unfinished operation
 * notifies the others in the same way. It does not wait for receivers of its device memory. _exit,
 * exec and signals are deaths.
 */
RCM_CHECKED rcm_status rcm_leave(rcm_comm *comm);

/*
 * Ends all operations of comm on all ranks with RCM_ERR_ABORTED, without waiting. Local buffers are
 * the caller's again when the works have completed (rcm_work_wait) or rcm_destroy has returned.
 * No-op if comm has already failed. Any thread.
 */
RCM_CHECKED rcm_status rcm_abort(rcm_comm *comm, const char *reason);

/* This rank's number, 0..size-1, and the number of ranks. -1 for NULL. Any thread. */
int rcm_rank(const rcm_comm *comm);
int rcm_size(const rcm_comm *comm);
/* Number of ranks on this rank's host, and this rank's position among them. Ranks of one host have
 * one host_id and share memory. rcm_init verifies that they can. These cannot: ranks of two users
 * without a secret, in a sandbox, or on cloned machines with one host_id. They count as different
 * hosts, and one rank of the host_id logs a warning. If RINGCOMM_TRANSPORT has no shared memory,
 * only host_id counts. */
int rcm_local_rank(const rcm_comm *comm);
int rcm_local_size(const rcm_comm *comm);
/* The number that rank `rank` of comm has in the world of rcm_init. It differs in a communicator
 * made from another one. -1: there is no such rank. Any thread. */
int rcm_world_rank(const rcm_comm *comm, int rank);

/* The first error that made a communicator unusable. */
struct rcm_error {
    uint32_t size;
    rcm_status status;  /* RCM_OK if there is none */
    int32_t origin;     /* rank where it began (the dead one, for RCM_ERR_PEER), -1 unknown */
    int32_t sys_errno;  /* errno of the system call that failed, 0 if none */
    uint64_t sequence;  /* number of the operation of comm, from 1; 0 if not in one */
    char operation[32]; /* "all_reduce"; "" if not in one */
    char text[512];     /* what happened, as a sentence */
};
#define RCM_ERROR_INIT RCM_SIZED_INIT(rcm_error)
/* Copies the record and returns its status. Any thread, any time before rcm_destroy. */
rcm_status rcm_comm_error(const rcm_comm *comm, struct rcm_error *ret_error);
/* Lists the ranks that were missing when a rcm_monitored_barrier timed out and made comm fail; the
 * list is the same on all ranks. Writes the first cap ranks to ret_ranks, in ascending order, and
 * their total number to *ret_count; 0 if comm has not failed by such a barrier. ret_ranks may be
 * NULL if cap is 0. Any thread, any time before rcm_destroy. */
RCM_CHECKED rcm_status rcm_comm_missing(const rcm_comm *comm, int *ret_ranks, size_t cap,
                                        size_t *ret_count);

/*
 * Runs fn(rank, arg) in nranks (at most 4096) new local processes made by fork. Their environment
 * is set so that rcm_init(NULL, ...) joins them. Each exits with fn's result (0..125). The parent
 * serves the store and waits until timeout_ms (<0: for ever). The first failure or the deadline
 * ends the others (SIGTERM, after 3 s SIGKILL). Call it before the process has threads.
 *
 * *ret_failed_rank is the first rank that failed, -1 if none did. *ret_exit is its exit status (128
 * + signal if it was killed). If SIGCHLD is ignored, or a handler or another thread collects all
 * children, a rank that returned from fn or called exit reports its status itself. For a rank that
 * ended otherwise, *ret_exit is then 125.
 *
 * Returns RCM_OK if all exited with 0, RCM_ERR_PEER if one failed, RCM_ERR_TIMEOUT at the deadline.
 */
RCM_CHECKED rcm_status rcm_spawn(int nranks, int (*fn)(int rank, void *arg), void *arg,
                                 int64_t timeout_ms, int *ret_failed_rank, int *ret_exit);

/* ---- Calls and works ------------------------------------------------------------------------- */

struct rcm_message;
/* The call checks its arguments and makes a work, but does not begin: rcm_work_start does. */
#define RCM_PERSISTENT 1u
/* With device memory: the buffers' contents are already complete, and no stream is waited for. */
#define RCM_NO_STREAM 2u
/* With ret_work and wait_ms 0: asynchronous, but without a work if the operation completes at once.
 * As with wait_ms, the call returns RCM_OK or the operation's error with NULL in *ret_work, or
 * RCM_PENDING and the work. It polls no longer than a call spins before it sleeps
 * (RINGCOMM_SPIN_US). Ignored without ret_work, and in a callback on the library's thread. */
#define RCM_TRY_NOW 4u
/* timeout_ms 0 means no time, not the communicator's timeout. An operation that is not complete
 * within about 1 ms fails with RCM_ERR_TIMEOUT, with all its consequences. Also applies to calls
 * that make a communicator, and to probes. */
#define RCM_EXACT_TIMEOUT 8u
/* A collective with this flag matches only calls with it. If other ranks make the call without it,
 * all get RCM_ERR_MISMATCH, whose text has both. For programs whose asynchronous calls must not
 * match blocking ones, as in MPI. Ignored by collectives with _bytes and by other operations. */
#define RCM_MATCH_ASYNC 16u
/* A receive with this flag goes on waiting when the ranks that it waits for have left (rcm_leave),
 * while these have other communicators. For receives that the program cancels (rcm_work_cancel).
 * Ignored by collectives, sends and matched receives. */
#define RCM_AWAIT_LEFT 32u

/* Per-call settings; NULL means defaults. */
struct rcm_call {
    uint32_t size;
    uint32_t flags;        /* RCM_PERSISTENT and the other ones above */
    int64_t timeout_ms;    /* 0: the communicator's, but see RCM_EXACT_TIMEOUT; <0: for ever */
    const char *algorithm; /* NULL: chosen by predicted time; the same on every rank */
    /* With ret_work: how long, in milliseconds, the call waits for its own work (<0: without
     * limit). If the operation completes in time, the call returns RCM_OK or its error, with NULL
     * in *ret_work. Else it returns RCM_PENDING and the work, like an asynchronous call;
     * rcm_work_wait continues the wait. So a program can check something else between waits. 0: an
     * asynchronous call. Ignored without ret_work, except by rcm_probe and rcm_mprobe. */
    int64_t wait_ms;
    /* For a receive (rcm_recv, rcm_mrecv, rcm_sendrecv): the description of the received message is
     * written there at completion; it must live until then. NULL: not wanted. Other operations
     * ignore it. */
    struct rcm_message *message;
    /* With device memory (see DEVICE MEMORY): the operation begins after the work enqueued on this
     * CUstream (cudaStream_t) of the rank's device when the call, or rcm_work_start, is made. NULL:
     * the legacy default stream. With host memory: NULL. CU_STREAM_LEGACY and CU_STREAM_PER_THREAD
     * are the default streams of the device's primary context. The latter belongs to the thread
     * that makes the call, or rcm_work_start. */
    void *stream;
    /* Why the call failed. Written before the call returns an error, in which case it has made no
     * work; otherwise left unchanged. It is the caller's, with its size set. status and text are
     * what the call and rcm_last_error return. If the communicator has failed with that status, the
     * rest is as for rcm_comm_error. Else the rest is 0 and "", and origin is the known rank or -1.
     * NULL: not wanted. */
    struct rcm_error *error;
};
#define RCM_CALL_INIT RCM_SIZED_INIT(rcm_call)

/* Returns RCM_OK if the work is complete, RCM_PENDING if not, or the operation's error. Does not
 * block. */
rcm_status rcm_work_test(rcm_work *work);
/* Waits until the work is complete. RCM_PENDING if timeout_ms passed first; the operation then
 * continues. timeout_ms < 0: only the operation's own deadline applies. Several threads may
 * wait. */
RCM_CHECKED rcm_status rcm_work_wait(rcm_work *work, int64_t timeout_ms);
/* Like rcm_work_test, but does not make the operation progress. */
rcm_status rcm_work_status(const rcm_work *work);
/* Cancels a receive that has no message yet. Its work is then complete with RCM_ERR_CANCELED, the
 * buffer is the caller's, and a later message goes to the next receive. RCM_OK: the work is
 * complete, either canceled or, if the call came too late, with its normal result (see
 * rcm_work_status). RCM_PENDING: its message is arriving, and the receive continues.
 * RCM_ERR_INVALID: not a receive. RCM_ERR_UNSUPPORTED: a persistent work. Source: MPI_Cancel. */
RCM_CHECKED rcm_status rcm_work_cancel(rcm_work *work);
/* Returns the source rank, tag, bytes and type of the message of a complete receive or
 * rcm_sendrecv. For a truncated message, bytes exceeds what was received. Any thread. RCM_PENDING:
 * not complete. A receive that failed: its error. Other works: RCM_ERR_INVALID. Nothing is written
 * then. */
struct rcm_message {
    uint32_t size;
    int32_t source;
    uint64_t tag;
    size_t bytes;
    int32_t dtype; /* the sender's rcm_dtype; 0: an opaque one */
};
#define RCM_MESSAGE_INIT RCM_SIZED_INIT(rcm_message)
RCM_CHECKED rcm_status rcm_work_message(const rcm_work *work, struct rcm_message *ret_message);
/*
 * Starts a persistent work, for the first time or again. It runs the operation of the call that
 * made it, with the same arguments, which are not checked or chosen anew. Asynchronous; all rules
 * for works apply to each run. Sends, receives and collectives can be persistent, also
 * rcm_coalesced with at least one part. rcm_sendrecv, rcm_batch and the functions with _bytes are
 * RCM_ERR_UNSUPPORTED as persistent calls. Collectives count where they are started, so all ranks
 * start the same ones in the same order. A rank may pair a start with a plain call on the others.
 * Arrays of counts, lists and parts are read only during the call, as always.
 * - Before its first start the work counts as complete. A start while it runs is RCM_ERR_INVALID.
 * - A callback belongs to the current run, or to the last one. A descriptor is readable from the
 *   completion of a run to the next start. The completion queue delivers the work once for each
 *   run, unless it is started again before it is taken out.
 * - rcm_work_free frees it, after its run if it is running. After rcm_destroy it does not start.
 * Source: MPI_Start, and MPI_Allreduce_init and the other persistent collectives of MPI 4.0.
 */
RCM_CHECKED rcm_status rcm_work_start(rcm_work *work);
/* Returns why a work failed. If the communicator has failed, status, origin and text are as for
 * rcm_comm_error; operation and sequence are the work's own. Returns its status. RCM_PENDING: not
 * complete, and nothing is written. Any thread. */
rcm_status rcm_work_error(const rcm_work *work, struct rcm_error *ret_error);
/* The number of a collective on its communicator, from 1, the same on all ranks. For rcm_coalesced:
 * the number of the last part. 0 for a send or receive, and for NULL. Any thread. */
uint64_t rcm_work_sequence(const rcm_work *work);
/* The number of collectives issued on comm, which is the number of the last one. Call it in the
 * thread that issues them. */
uint64_t rcm_comm_sequence(const rcm_comm *comm);
/* Frees a work; detaches it if unfinished. NULL is a no-op. */
void rcm_work_free(rcm_work *work);

/*
 * Several works, of any communicators. NULL entries are ignored. timeout_ms as in rcm_work_wait.
 *   wait_all   waits until all are complete. Returns RCM_OK, or the error of the first failed work
 *              in the array, whose text is in rcm_last_error(). RCM_PENDING if timeout_ms passed; 0
 *              tests whether all are complete
 *   wait_any   waits until one is complete and returns its status; *ret_index is its position. If
 *              several are, the first in the array. If all entries are NULL: RCM_OK, and *ret_index
 *              is n
 *   test_any   the same without waiting
 * Nothing is freed. Any thread. A waiting thread does not poll: it sleeps until an operation is
 * complete. Source: MPI_Waitall, MPI_Waitany, MPI_Testany.
 */
RCM_CHECKED rcm_status rcm_work_wait_all(rcm_work *const *works, size_t n, int64_t timeout_ms);
RCM_CHECKED rcm_status rcm_work_wait_any(rcm_work *const *works, size_t n, int64_t timeout_ms,
                                         size_t *ret_index);
RCM_CHECKED rcm_status rcm_work_test_any(rcm_work *const *works, size_t n, size_t *ret_index);

/*
 * Calls fn(arg, status) once when the work is complete, on the library's thread of this rank. If it
 * is complete already, fn runs at once, inside this call. Callbacks of one work run in the order of
 * registration. They run in any case, before rcm_destroy returns, even if the work was freed
 * meanwhile or its communicator fails. Any thread.
 *
 * fn must not block, because all communication of the rank waits for it. Blocking operations and
 * rcm_work_wait with a timeout other than 0 are RCM_ERR_INVALID there. So is every call that makes,
 * prepares or ends a communicator or waits for a request, except the forms that begin or test. fn
 * may test and free works. It may issue operations with ret_work, if no other thread does.
 */
RCM_CHECKED rcm_status rcm_work_on_complete(rcm_work *work,
                                            void (*fn)(void *arg, rcm_status status), void *arg);
/* Frees a work like rcm_work_free, and calls released(arg, status) when it is complete and its
 * buffers are the caller's again. After an error the work is still the caller's. */
RCM_CHECKED rcm_status rcm_work_detach(rcm_work *work,
                                       void (*released)(void *arg, rcm_status status), void *arg);
/* Returns a descriptor that becomes readable (poll, epoll) when the work is complete, and stays
 * readable. The first call makes it. The library owns it, and rcm_work_free closes it: the program
 * must not read, write or close it. For many works use the queue below. Any thread.
 * RCM_ERR_RESOURCE: no more descriptors. */
RCM_CHECKED rcm_status rcm_work_fd(rcm_work *work, int *ret_fd);

/*
 * The completion queue of a communicator. From the first call on, every work that comm returns
 * enters it on completion, in completion order. *ret_fd is readable while the queue is not empty;
 * the library owns it until rcm_destroy. rcm_comm_next_completion takes the next work out: the same
 * pointer that the call returned, which the caller still frees. RCM_AGAIN: the queue is empty. A
 * work that is freed earlier is not delivered. Any thread; each work is delivered to one thread.
 */
RCM_CHECKED rcm_status rcm_comm_completions(rcm_comm *comm, int *ret_fd);
RCM_CHECKED rcm_status rcm_comm_next_completion(rcm_comm *comm, rcm_work **ret_work);

/*
 * A completion queue of the process, for works of any communicators. Each work is added with an
 * argument of the program, so that one thread can complete the futures of all groups.
 * - Each added work is reported once, in every case. This includes a work that is complete already,
 *   fails, is canceled, or ends by an abort or the death of a rank. It includes one that rcm_leave
 *   or rcm_destroy drops; the report comes before these return. Reports are in completion order for
 *   works of one rcm_init.
 * - All kinds of works can be added: collectives, messages, batches. A persistent work is added
 *   anew for each run, after rcm_work_start. A work that is added twice is reported twice.
 * - The work stays the program's, which frees it before or after its report. If it was freed
 *   before, the report still comes, and rcm_completion.work is only a number.
 * The queue belongs to its creator. It needs no communicator, and may exist before the first and
 * after the last one. All functions but rcm_queue_free: any thread, any number at a time, also in
 * callbacks, where rcm_queue_wait does not wait. In the child after fork() only rcm_queue_free
 * works; the others return RCM_ERR_FORKED.
 */
typedef struct rcm_queue rcm_queue;
struct rcm_completion {
    void *arg;         /* the argument of rcm_queue_give */
    rcm_work *work;    /* the work that was added */
    rcm_status status; /* its result; rcm_work_error has more */
};
RCM_CHECKED rcm_status rcm_queue_create(rcm_queue **ret_queue);
/* Adds a work. After an error nothing was added: RCM_ERR_NOMEM, RCM_ERR_INVALID. */
RCM_CHECKED rcm_status rcm_queue_give(rcm_queue *queue, rcm_work *work, void *arg);
/* Takes up to cap completions out: waits for the first, and takes those available by then. *ret_n
 * is their number, 0 unless RCM_OK is returned. It drives no operation; asynchronous operations
 * progress without it. RCM_PENDING: timeout_ms passed (<0: never; 0: polls once). RCM_ERR_CANCELED:
 * the queue was freed meanwhile. RCM_ERR_INVALID: cap is 0. */
RCM_CHECKED rcm_status rcm_queue_wait(rcm_queue *queue, struct rcm_completion *completions,
                                      size_t cap, int64_t timeout_ms, size_t *ret_n);
/* Returns a descriptor that is readable while the queue is not empty. The first call makes it; the
 * library owns it until rcm_queue_free. RCM_ERR_RESOURCE: no more descriptors. */
RCM_CHECKED rcm_status rcm_queue_fd(rcm_queue *queue, int *ret_fd);
/* Frees a queue and the completions that were not taken out. Added works continue and are not
 * reported. Threads in rcm_queue_wait return. No thread may begin another call with the queue. NULL
 * is a no-op. */
void rcm_queue_free(rcm_queue *queue);

/* ---- Derived communicators ------------------------------------------------------------------- */

/*
 * Makes a communicator of n ranks of parent: rank i of the new one is rank ranks[i] of parent.
 * Collective among these ranks only. Each calls it with the same list in the same order and the
 * same tag, and it returns when all have called it. Deadline: call->timeout_ms, else parent's; the
 * other fields of call are ignored.
 *
 * The other ranks need not call it. If one does, it gets a handle at once, without waiting:
 * rcm_rank is -1 and rcm_size n. Every operation and probe on the handle completes at once with
 * RCM_OK, does nothing and writes nothing. So do those on communicators made from it. It is freed
 * by rcm_destroy.
 * - tag, any number, distinguishes communicators that several threads make at the same time from
 *   the same ranks, or from lists that share ranks. A thread that makes one after the other can
 *   pass 0.
 * - The new communicator has parent's settings and timeout. It shares connections and message
 *   memory with the others from the same rcm_init. Otherwise it is independent: it has its own
 *   operations, order, errors, deadlines and rcm_abort. The death of a process ends every
 *   communicator in which it is a rank.
 * - parent must live only during the call: communicators are destroyed in any order.
 * - An error concerns this call, not parent. RCM_ERR_TIMEOUT: a member has not called; the text
 *   names it. RCM_ERR_MISMATCH: when the deadline passed, that member was in this function with the
 *   same tag and another list; the text has both. RCM_ERR_PEER: a member died or has left. All
 *   waiting members get the same error, and all may call it again.
 * Any thread. Source: MPI_Comm_create_group; new_group of torch.distributed.
 */
RCM_CHECKED rcm_status rcm_comm_subset(rcm_comm *parent, const int *ranks, int n, uint64_t tag,
                                       const struct rcm_call *call, rcm_comm **ret_comm);

/*
 * Makes a communicator of the ranks of each colour, ordered by key, and by rank where keys are
 * equal. Collective: all ranks of parent call it. It is an all_gather, followed by rcm_comm_subset.
 * colour < 0: this rank is in none, and gets a non-member handle as there, of size 0. Source:
 * MPI_Comm_split.
 */
RCM_CHECKED rcm_status rcm_comm_split(rcm_comm *parent, int colour, int key,
                                      const struct rcm_call *call, rcm_comm **ret_comm);
/* Makes a communicator of the ranks of each host, in rank order: their numbers are those of
 * rcm_local_rank. Collective. Source: MPI_Comm_split_type with MPI_COMM_TYPE_SHARED. */
RCM_CHECKED rcm_status rcm_comm_split_hosts(rcm_comm *parent, const struct rcm_call *call,
                                            rcm_comm **ret_comm);
/* Makes another communicator of all ranks of parent. Collective. Source: MPI_Comm_dup. */
RCM_CHECKED rcm_status rcm_comm_duplicate(rcm_comm *parent, const struct rcm_call *call,
                                          rcm_comm **ret_comm);

/*
 * REQUESTS. The same calls in the background. begin checks the arguments, counts among the calls on
 * parent, and returns at once; a short-lived thread of the library does the rest. Other ranks may
 * call either form. Lists are copied.
 *   test     returns RCM_PENDING, or the result of the call, whose text is in rcm_last_error().
 *            *ret_comm is the communicator, which the caller then owns. For rcm_destroy_begin
 *            ret_comm is unused and may be NULL
 *   wait     waits until the call is finished, then returns the same; RCM_PENDING if timeout_ms
 *            passed first (<0: never)
 *   cancel   frees the request, in any state, also when it is finished. If it is not, its call ends
 *            on all its ranks with RCM_ERR_CANCELED, whose text names this rank, also on ranks that
 *            call it later. A rank that has made the communicator by then gets the error from its
 *            first operation on it. The same happens if a communicator was not taken. cancel
 *            returns when this rank's part has ended, within about 1 s. Only the all_gather of a
 *            split continues until all ranks have called it. In a callback cancel does not wait for
 *            the end
 * ORDER. rcm_comm_split, _split_hosts and _duplicate, in either form, each count as one collective
 * of parent. All its ranks call, or begin, them in the same order, also relative to parent's
 * collectives. A request counts where it was begun; parent is free for the next call at once. The
 * n-th rcm_comm_subset of a list and tag matches the n-th one on each of these ranks. The n-th
 * rcm_comm_shrink of a communicator matches the n-th one on each rank. Canceled calls count too,
 * and leave parent unchanged. So if a call was canceled elsewhere before this rank made it, this
 * rank still makes it and gets RCM_ERR_CANCELED. Then it makes the next one.
 * parent must live until the request is finished or canceled. begin may be called in a callback. A
 * begin that fails for lack of a thread (RCM_ERR_RESOURCE) acts as a cancel on the other ranks; for
 * a split it makes parent fail. test, wait and cancel: any thread.
 */
RCM_CHECKED rcm_status rcm_comm_subset_begin(rcm_comm *parent, const int *ranks, int n,
                                             uint64_t tag, const struct rcm_call *call,
                                             rcm_comm_request **ret_request);
RCM_CHECKED rcm_status rcm_comm_split_begin(rcm_comm *parent, int colour, int key,
                                            const struct rcm_call *call,
                                            rcm_comm_request **ret_request);
RCM_CHECKED rcm_status rcm_comm_split_hosts_begin(rcm_comm *parent, const struct rcm_call *call,
                                                  rcm_comm_request **ret_request);
RCM_CHECKED rcm_status rcm_comm_duplicate_begin(rcm_comm *parent, const struct rcm_call *call,
                                                rcm_comm_request **ret_request);
RCM_CHECKED rcm_status rcm_comm_request_test(rcm_comm_request *request, rcm_comm **ret_comm);
RCM_CHECKED rcm_status rcm_comm_request_wait(rcm_comm_request *request, int64_t timeout_ms,
                                             rcm_comm **ret_comm);
void rcm_comm_request_cancel(rcm_comm_request *request); /* NULL is a no-op */

/* The number in `to` of the given rank of `from`, both from the same rcm_init; -1: it is not in
 * `to`. Also works with non-member handles of rcm_comm_subset. Any thread. */
int rcm_comm_translate(const rcm_comm *from, int rank, const rcm_comm *to);

/* Sets the name of comm in error texts, hang reports and ringcomm-info --live; local to this rank.
 * The default is "world", or a list of its world ranks: "ranks 0-3, tag 7". name: copied;
 * at most RCM_NAME_MAX bytes with its NUL, and not empty. Any thread. */
#define RCM_NAME_MAX 64
RCM_CHECKED rcm_status rcm_comm_set_name(rcm_comm *comm, const char *name);
/* The name; "" for NULL. Valid as long as comm; rcm_comm_set_name changes it. */
const char *rcm_comm_name(const rcm_comm *comm);
/* Sets the deadline of later operations of comm with rcm_call.timeout_ms 0, in milliseconds; <0:
 * for ever. 0 is RCM_ERR_INVALID. Local to this rank. Any thread. */
RCM_CHECKED rcm_status rcm_comm_set_timeout(rcm_comm *comm, int64_t timeout_ms);
int64_t rcm_comm_timeout(const rcm_comm *comm);
/* How long a waiting call on comm spins before its thread sleeps, in microseconds: 0 (sleep at
 * once) to 1,000,000; -1, the default, is RINGCOMM_SPIN_US. A longer spin saves the wake-up of
 * about 40 us when ranks come later than that, and uses the CPU meanwhile. A wait spins shorter
 * where other threads need the CPU: if the rank that it waits for last waited on the same CPU, or,
 * between hosts, while the CPU is busy with other programs.
 * Communicators made from comm later have the same value. It concerns this rank only. Any thread.
 * Errors: RCM_ERR_INVALID for another value. */
RCM_CHECKED rcm_status rcm_comm_set_spin(rcm_comm *comm, int64_t us);

/*
 * Makes a communicator of the remaining ranks of comm, after some have died or left, or comm has
 * failed for another reason. They keep their order and get ranks 0..k-1. Collective among the
 * remaining ranks. Deadline: call->timeout_ms, else comm's; the other fields of call are ignored.
 * It needs no store, and any rank may die before, during and after it, also rank 0.
 * - It ends comm: running operations fail on all ranks (RCM_ERR_ABORTED if comm had not failed),
 *   and messages in flight are dropped. Afterwards only rcm_destroy and another shrink are of use.
 *   rcm_destroy may come at any time, also after the new communicator's, and does not wait.
 * - Every survivor gets the same ranks. A rank that dies meanwhile may be among them. Then the new
 *   communicator fails like any other, and is shrunk in turn. So a program loops: work; on failure
 *   shrink, destroy the old communicator, and work on the new one.
 * - The new communicator has the settings of comm. It uses existing connections and makes others
 *   when needed. rcm_world_rank maps its ranks.
 * - RCM_ERR_TIMEOUT: a rank is alive and has not called it. rcm_last_error() names the same one on
 *   every rank that called. All may call it again.
 * - RCM_ERR_PEER: this rank is alive, but the others consider it lost (it was stopped or cut off
 *   for too long) and continue without it; it cannot rejoin. If two groups cannot reach each other,
 *   the larger continues, or of equal ones the one with the lowest rank. This holds as far as each
 *   can detect that the other's processes exist; hosts that do not respond count as dead.
 * Source: MPI_Comm_shrink of ULFM (User Level Failure Mitigation).
 */
RCM_CHECKED rcm_status rcm_comm_shrink(rcm_comm *comm, const struct rcm_call *call,
                                       rcm_comm **ret_comm);
/* The same in the background, see REQUESTS. The call itself ends comm. */
RCM_CHECKED rcm_status rcm_comm_shrink_begin(rcm_comm *comm, const struct rcm_call *call,
                                             rcm_comm_request **ret_request);

/*
 * The same, but excludes n ranks that may be alive, for example because they hang. world_ranks are
 * their numbers in the world (rcm_world_rank), in any order; n may be 0. The others agree without
 * them, whatever the excluded ranks do. All others pass the same ranks. A difference is
 * RCM_ERR_MISMATCH on all that called, with two ranks and their lists; all may call it again.
 * - An excluded rank whose operation or next call finds comm failed gets that error. Its text names
 *   the rank that shrinks and this function, unless comm had failed before. Its own rcm_comm_shrink
 *   of comm is RCM_ERR_PEER, as long as one of the others exists. That text names the rank that
 *   excluded it and this function. It cannot rejoin.
 * - Ranks that are dead or have left may be excluded too. If two groups exclude each other, both
 *   continue.
 * - RCM_ERR_INVALID: world_ranks is NULL and n is not 0; n < 0; a rank is not in comm, is this one,
 *   or is listed twice. comm is then unchanged.
 */
RCM_CHECKED rcm_status rcm_comm_shrink_excluding(rcm_comm *comm, const int *world_ranks, int n,
                                                 const struct rcm_call *call, rcm_comm **ret_comm);
RCM_CHECKED rcm_status rcm_comm_shrink_excluding_begin(rcm_comm *comm, const int *world_ranks,
                                                       int n, const struct rcm_call *call,
                                                       rcm_comm_request **ret_request);

/* ---- Collectives ----------------------------------------------------------------------------- */

/* Numbers are part of the wire format and are never reused. */
enum rcm_collective {
    RCM_ALL_REDUCE = 1,
    RCM_BROADCAST = 2,
    RCM_BARRIER = 3,
    RCM_REDUCE = 4,
    RCM_SCATTER = 5,
    RCM_GATHER = 6,
    RCM_ALL_GATHER = 7,
    RCM_REDUCE_SCATTER = 8,
    RCM_ALL_TO_ALL = 9,
    RCM_SCAN = 10,
    RCM_EXSCAN = 11,
    RCM_SCATTER_V = 12,
    RCM_GATHER_V = 13,
    RCM_ALL_GATHER_V = 14,
    RCM_REDUCE_SCATTER_V = 15,
    RCM_ALL_TO_ALL_V = 16
};

/*
 * recv[i] on every rank becomes the combination by op of send[i] of all ranks, i < count. Buffers:
 * count elements each; send == recv is in place.
 * Algorithms: ring (Patarasuk and Yuan 2009), halving_doubling (Rabenseifner 2004), double_tree
 * (Sanders, Speck and Traeff 2009), circulant (Traeff 2025), recursive_doubling, binomial, one_shot
 * and two_shot (one host), two_level (several). `ringcomm-plan all_reduce --list` describes them.
 */
RCM_CHECKED rcm_status rcm_all_reduce(rcm_comm *comm, const void *send, void *recv, size_t count,
                                      rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                                      rcm_work **ret_work);

/*
 * buffer on every rank becomes buffer of rank root. The root may return before the others have
 * called, or may wait for them.
 * Algorithms: binomial, chain and double_tree (pipelined), flat and direct (one host), two_level.
 */
RCM_CHECKED rcm_status rcm_broadcast(rcm_comm *comm, void *buffer, size_t count, rcm_dtype dtype,
                                     int root, const struct rcm_call *call, rcm_work **ret_work);

/*
 * Returns on no rank before every rank has called it. It also completes the communicator's earlier
 * collectives. On each rank it starts when all collectives issued there before it are complete. So
 * when it is complete on any rank, they are complete on all ranks. Collectives issued after an
 * asynchronous barrier do not start before it does. Sends and receives are not waited for.
 * Algorithms: dissemination (Hensgen, Finkel and Manber 1988), binomial, flat (one host),
 * two_level.
 */
RCM_CHECKED rcm_status rcm_barrier(rcm_comm *comm, const struct rcm_call *call,
                                   rcm_work **ret_work);

/*
 * A barrier that reports the missing ranks. When the deadline passes on a rank that waits in it,
 * that rank queries the state of all ranks. All ranks then get RCM_ERR_TIMEOUT with the same list
 * of missing ranks. It is available as text (rcm_comm_error) and as numbers (rcm_comm_missing).
 * Example: "ranks 1, 3-5 are missing: rank 1 (pid 4711 on node7) is in recv from rank 3 (tag 7),
 * ..."; the text has as much as fits. The origin of the error is the rank that the others wait for,
 * possibly through others.
 *
 * Missing are the ranks that have not called it, whatever they wait for, and those whose state is
 * unknown because they do not respond. If there are no such ranks, the list has those that have
 * called it and no longer respond. A rank that dies is RCM_ERR_PEER, as everywhere.
 * - flags: 0, or RCM_FIRST_MISSING: only the lowest missing rank is listed and is the origin. The
 *   same on all ranks. It does not make the call return earlier.
 * - The timeout makes the communicator unusable, as any other does.
 * - Otherwise as rcm_barrier. Making the list takes up to 0.5 s, with 16 ranks or more up to 1 s,
 *   and longer as long as ranks still respond. With more than 27936 ranks no list is made.
 * Source: torch.distributed.monitored_barrier. There only rank 0 has the list, RCM_FIRST_MISSING is
 * wait_all_ranks=False, and rank 0 itself must come.
 */
#define RCM_FIRST_MISSING 1u
RCM_CHECKED rcm_status rcm_monitored_barrier(rcm_comm *comm, uint32_t flags,
                                             const struct rcm_call *call, rcm_work **ret_work);

/*
 * The collectives below move blocks of count elements, one for each rank or each pair of ranks. p
 * is the number of ranks. A buffer of p blocks holds them in rank order without gaps. A buffer that
 * the text does not assign to a rank is ignored there and may be NULL. In place: if both buffers
 * have the same length, send == recv; else the smaller one is this rank's block of the larger one.
 * Each rank passes the same count, dtype, op and root.
 */

/* recv on rank root = op over all ranks of send, count elements each. Other ranks' recv is not
 * touched. Algorithms: direct, binomial, two_shot, chain and double_tree (pipelined), two_level. */
RCM_CHECKED rcm_status rcm_reduce(rcm_comm *comm, const void *send, void *recv, size_t count,
                                  rcm_dtype dtype, rcm_op op, int root, const struct rcm_call *call,
                                  rcm_work **ret_work);

/* recv (count elements) on rank r = block r of the root's send (p blocks). Algorithms: direct,
 * binomial. */
RCM_CHECKED rcm_status rcm_scatter(rcm_comm *comm, const void *send, void *recv, size_t count,
                                   rcm_dtype dtype, int root, const struct rcm_call *call,
                                   rcm_work **ret_work);

/* Block r of the root's recv (p blocks) = send (count elements) of rank r. Algorithms: direct,
 * binomial. */
RCM_CHECKED rcm_status rcm_gather(rcm_comm *comm, const void *send, void *recv, size_t count,
                                  rcm_dtype dtype, int root, const struct rcm_call *call,
                                  rcm_work **ret_work);

/* Block r of recv (p blocks) = send (count elements) of rank r, on all ranks. Algorithms: ring,
 * bruck (Bruck et al. 1997), flat and direct (one host), two_level. */
RCM_CHECKED rcm_status rcm_all_gather(rcm_comm *comm, const void *send, void *recv, size_t count,
                                      rcm_dtype dtype, const struct rcm_call *call,
                                      rcm_work **ret_work);

/* recv (count elements) on rank r = op over all ranks of block r of send (p blocks). Algorithms:
 * ring (Patarasuk and Yuan 2009), circulant (Traeff 2025), direct, chain, two_level. */
RCM_CHECKED rcm_status rcm_reduce_scatter(rcm_comm *comm, const void *send, void *recv,
                                          size_t count, rcm_dtype dtype, rcm_op op,
                                          const struct rcm_call *call, rcm_work **ret_work);

/* Block r of recv (p blocks) = the block of rank r's send (p blocks) with this rank's number.
 * Algorithms: pairwise, also with 8 exchanges at a time; bruck with radix 2, 4 and 8; two_level
 * with one or several leaders per host. */
RCM_CHECKED rcm_status rcm_all_to_all(rcm_comm *comm, const void *send, void *recv, size_t count,
                                      rcm_dtype dtype, const struct rcm_call *call,
                                      rcm_work **ret_work);

/* recv on rank r = op over send of ranks 0..r, in rank order, count elements each. A rank may
 * return before later ranks have called, or may wait for them. Algorithms: direct, chain
 * (pipelined), recursive_doubling (Hillis and Steele 1986). */
RCM_CHECKED rcm_status rcm_scan(rcm_comm *comm, const void *send, void *recv, size_t count,
                                rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                                rcm_work **ret_work);

/* The same without the rank's own contribution: recv on rank r = op over send of ranks 0..r-1, in
 * rank order. Rank 0 has no result, and its recv is not touched. Algorithms: as rcm_scan. */
RCM_CHECKED rcm_status rcm_exscan(rcm_comm *comm, const void *send, void *recv, size_t count,
                                  rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                                  rcm_work **ret_work);

/*
 * inout[i] = in[i] op inout[i], i < count, on this rank only: nothing is sent, and no communicator
 * is needed. It uses the code of the collectives, so results have the same bits. The buffers must
 * not overlap. Any thread. Source: MPI_Reduce_local.
 */
RCM_CHECKED rcm_status rcm_reduce_local(const void *in, void *inout, size_t count, rcm_dtype dtype,
                                        rcm_op op);

/*
 * Collectives with blocks of unequal length. Each function below does the same as the function of
 * its name, but each block has its own count and location. With _v, block i is at element displs[i]
 * of its buffer (displs NULL: blocks without gaps). With _list, it is at send[i] or recv[i]. A call
 * with _v on one rank and with _list on another is one collective. Counts are in elements. displs
 * and counts have one entry for each rank and are not read after the call has returned. Blocks of
 * no elements are legal, and their pointers may be NULL.
 *
 * The count of a block is passed on several ranks and must be the same on them. For scatter_v and
 * gather_v these are the root and the rank of the block; for all_to_all_v sender and receiver; for
 * all_gather_v and reduce_scatter_v all ranks. If counts differ, all ranks get RCM_ERR_MISMATCH,
 * and the text names two ranks and their counts. For all_gather_v and reduce_scatter_v the text
 * does so only if one of the first 16 counts differs.
 *
 * In place: the single block, if it is this rank's block of the other buffer (same address).
 * all_to_all_v has no in-place form: RCM_ERR_UNSUPPORTED. Other overlaps between blocks of send and
 * recv are RCM_ERR_INVALID where they are detected. Overlaps between blocks of recv are undefined.
 *
 * Error texts name the argument, for example "recv_counts[3]".
 * Source: MPI_Scatterv and the other v-collectives (MPI 4.0, chapter 6).
 */

/* Sends block r of the root's send, send_counts[r] elements, to rank r. send, send_counts and
 * send_displs of the other ranks are ignored. Algorithm: direct. */
RCM_CHECKED rcm_status rcm_scatter_v(rcm_comm *comm, const void *send, const size_t *send_counts,
                                     const size_t *send_displs, void *recv, size_t recv_count,
                                     rcm_dtype dtype, int root, const struct rcm_call *call,
                                     rcm_work **ret_work);
RCM_CHECKED rcm_status rcm_scatter_list(rcm_comm *comm, const void *const *send,
                                        const size_t *send_counts, void *recv, size_t recv_count,
                                        rcm_dtype dtype, int root, const struct rcm_call *call,
                                        rcm_work **ret_work);

/* Receives block r of the root's recv, recv_counts[r] elements, from rank r. recv, recv_counts and
 * recv_displs of the other ranks are ignored. Algorithm: direct. */
RCM_CHECKED rcm_status rcm_gather_v(rcm_comm *comm, const void *send, size_t send_count, void *recv,
                                    const size_t *recv_counts, const size_t *recv_displs,
                                    rcm_dtype dtype, int root, const struct rcm_call *call,
                                    rcm_work **ret_work);
RCM_CHECKED rcm_status rcm_gather_list(rcm_comm *comm, const void *send, size_t send_count,
                                       void *const *recv, const size_t *recv_counts,
                                       rcm_dtype dtype, int root, const struct rcm_call *call,
                                       rcm_work **ret_work);

/* Receives block r of recv, recv_counts[r] elements, from rank r, on all ranks. Algorithms: as
 * rcm_all_gather. The longest block should not be much longer than the others, because all blocks
 * are cut into equally many slices. */
RCM_CHECKED rcm_status rcm_all_gather_v(rcm_comm *comm, const void *send, size_t send_count,
                                        void *recv, const size_t *recv_counts,
                                        const size_t *recv_displs, rcm_dtype dtype,
                                        const struct rcm_call *call, rcm_work **ret_work);
RCM_CHECKED rcm_status rcm_all_gather_list(rcm_comm *comm, const void *send, size_t send_count,
                                           void *const *recv, const size_t *recv_counts,
                                           rcm_dtype dtype, const struct rcm_call *call,
                                           rcm_work **ret_work);

/* recv (recv_count elements) on rank r = op over all ranks of block r of send (send_counts[r]).
 * Algorithms: as rcm_reduce_scatter; the advice on the longest block applies here too. */
RCM_CHECKED rcm_status rcm_reduce_scatter_v(rcm_comm *comm, const void *send,
                                            const size_t *send_counts, const size_t *send_displs,
                                            void *recv, size_t recv_count, rcm_dtype dtype,
                                            rcm_op op, const struct rcm_call *call,
                                            rcm_work **ret_work);
RCM_CHECKED rcm_status rcm_reduce_scatter_list(rcm_comm *comm, const void *const *send,
                                               const size_t *send_counts, void *recv,
                                               size_t recv_count, rcm_dtype dtype, rcm_op op,
                                               const struct rcm_call *call, rcm_work **ret_work);

/* Block r of recv (recv_counts[r] elements) = the block of rank r's send with this rank's number,
 * which has the same count there. Algorithm: direct. */
RCM_CHECKED rcm_status rcm_all_to_all_v(rcm_comm *comm, const void *send, const size_t *send_counts,
                                        const size_t *send_displs, void *recv,
                                        const size_t *recv_counts, const size_t *recv_displs,
                                        rcm_dtype dtype, const struct rcm_call *call,
                                        rcm_work **ret_work);
RCM_CHECKED rcm_status rcm_all_to_all_list(rcm_comm *comm, const void *const *send,
                                           const size_t *send_counts, void *const *recv,
                                           const size_t *recv_counts, rcm_dtype dtype,
                                           const struct rcm_call *call, rcm_work **ret_work);

/*
 * One collective on each of n pairs of buffers, like n calls in sequence, but with one work, which
 * completes when all parts have. Parts may differ in count and type. n and each part's count and
 * type are the same on all ranks. collective: any of the above with blocks of equal length; for a
 * broadcast, recv is the buffer. op and root, if the collective has them, apply to all parts. n ==
 * 0: nothing is done. parts is not read after the call has returned; the buffers are. If one part
 * fails, all fail. Error texts name the part: "parts[3]: recv is NULL ...". Source: the coalesced
 * collectives of torch.distributed.
 */
struct rcm_part {
    const void *send;
    void *recv;
    size_t count;
    rcm_dtype dtype;
};
RCM_CHECKED rcm_status rcm_coalesced(rcm_comm *comm, enum rcm_collective collective,
                                     const struct rcm_part *parts, size_t n, rcm_op op, int root,
                                     const struct rcm_call *call, rcm_work **ret_work);

/*
 * Collectives on bytes whose lengths the library exchanges. A rank receives one block of memory
 * from malloc, which the caller frees with free(). Block i is data[offsets[i]] to data[offsets[i +
 * 1] - 1]; there are no gaps. *ret_bytes becomes NULL in the call and is written at completion, so
 * it must live until then. It stays NULL on a rank that receives nothing, and after a failure. A
 * rank without enough memory for the received data makes the communicator unusable (RCM_ERR_NOMEM).
 * Lengths are sent first, so each call is two collectives in sequence. call->algorithm applies to
 * the first, whose algorithms are those of the collective. The second uses the form with _v
 * (rcm_broadcast for a broadcast), chosen by predicted time.
 */
struct rcm_bytes {
    size_t n; /* blocks */
    const size_t *offsets;
    unsigned char *data;
};

/* All ranks but the root receive one block, the root's send. */
RCM_CHECKED rcm_status rcm_broadcast_bytes(rcm_comm *comm, const void *send, size_t bytes, int root,
                                           struct rcm_bytes **ret_bytes,
                                           const struct rcm_call *call, rcm_work **ret_work);
/* Rank r, also the root, receives one block: the root's send[r] of bytes[r] bytes. send and bytes
 * of the other ranks are ignored. */
RCM_CHECKED rcm_status rcm_scatter_bytes(rcm_comm *comm, const void *const *send,
                                         const size_t *bytes, int root,
                                         struct rcm_bytes **ret_bytes, const struct rcm_call *call,
                                         rcm_work **ret_work);
/* The root receives p blocks; block r is rank r's send. */
RCM_CHECKED rcm_status rcm_gather_bytes(rcm_comm *comm, const void *send, size_t bytes, int root,
                                        struct rcm_bytes **ret_bytes, const struct rcm_call *call,
                                        rcm_work **ret_work);
/* All ranks receive p blocks; block r is rank r's send. */
RCM_CHECKED rcm_status rcm_all_gather_bytes(rcm_comm *comm, const void *send, size_t bytes,
                                            struct rcm_bytes **ret_bytes,
                                            const struct rcm_call *call, rcm_work **ret_work);

/* ---- Point to point -------------------------------------------------------------------------- */

#define RCM_ANY_TAG    UINT64_MAX
#define RCM_ANY_SOURCE (-1)

/*
 * Sends count elements to rank dst under tag (any number below RCM_ANY_TAG). Complete when buffer
 * may be reused, which may be before or after the receiver has the message: a blocking send may
 * wait for the matching receive. A rank may send to itself if the receive is asynchronous or
 * already posted.
 *
 * Flow control slows a sender that runs ahead of its receiver. Messages without a posted receive
 * are limited as follows; the others wait at the sender until receives are posted, whatever their
 * tag.
 * - Stored at the receiver, from one sender: some thousands, or 1 MiB (with more than 64 ranks
 *   less, 64 MiB from all together).
 * - Announced to the receiver: 65536 more (with more than 16 ranks less, a million from all
 *   together, but at least 1024).
 */
RCM_CHECKED rcm_status rcm_send(rcm_comm *comm, const void *buffer, size_t count, rcm_dtype dtype,
                                int dst, uint64_t tag, const struct rcm_call *call,
                                rcm_work **ret_work);

/* Like rcm_send, but complete only when the matching receive has been posted and has matched the
 * message, however small. So the receiver has called it. A blocking call to the own rank is legal
 * only if the receive was posted before. Source: MPI_Ssend. */
RCM_CHECKED rcm_status rcm_ssend(rcm_comm *comm, const void *buffer, size_t count, rcm_dtype dtype,
                                 int dst, uint64_t tag, const struct rcm_call *call,
                                 rcm_work **ret_work);

/*
 * Receives the next message of at most count elements from rank src under tag. RCM_ANY_SOURCE: from
 * any rank, including this one. RCM_ANY_TAG: of any tag.
 *
 * Matching: a message goes to the receive posted first among those that match it. A receive gets
 * the message that arrived first. Messages of one sender and tag arrive in the order in which they
 * were sent; no sender starves another. A receive from any source connects to all ranks, and from
 * then on each poll for messages visits all of them.
 *
 * The type of a message and of its receive must match: both integers of one size (a pair of int32
 * and int32 counts as int32), or the same type. Types of one byte and opaque types match all, if
 * the bytes are whole elements of the receive; a message without elements matches too. Otherwise
 * the receive is RCM_ERR_MISMATCH, whose text has both types. The message is received, the sender
 * gets no error, and the communicator stays usable.
 *
 * A shorter message leaves the rest of the buffer unchanged; rcm_work_message returns the received
 * size. A longer message is RCM_ERR_TRUNCATED: the first count elements are received, and the
 * communicator stays usable. Like every operation, a receive fails when any rank of comm dies. A
 * receive from any source continues when a rank leaves (rcm_leave), and fails when all others have.
 */
RCM_CHECKED rcm_status rcm_recv(rcm_comm *comm, void *buffer, size_t count, rcm_dtype dtype,
                                int src, uint64_t tag, const struct rcm_call *call,
                                rcm_work **ret_work);

/* Sends to one rank and receives from the same or another one at the same time. As rcm_send and
 * rcm_recv, but neither waits for the other, so ranks that all call it cannot deadlock. */
RCM_CHECKED rcm_status rcm_sendrecv(rcm_comm *comm, const void *send, size_t send_count, int dst,
                                    uint64_t send_tag, void *recv, size_t recv_count, int src,
                                    uint64_t recv_tag, rcm_dtype dtype, const struct rcm_call *call,
                                    rcm_work **ret_work);

/*
 * Several sends and receives with one work, which is complete when all are. They are issued
 * together, in any order, and none waits for another. So any set of sends and receives that match
 * across the ranks completes, also when each is in an rcm_batch, and across several communicators.
 * Transfers to one rank under one tag keep the order of the array. All are checked before the first
 * is issued; error texts name the transfer: "transfers[3]: dst 9 is no rank ...". If one fails, the
 * others continue, and the work has the error of the first that failed. n == 0: nothing is done.
 * The array is not read after the call has returned; buffers and messages are used until
 * completion. Any thread.
 *
 * torch.distributed's batch_isend_irecv(ops) is one call with ret_work. The ncclSend and ncclRecv
 * calls between ncclGroupStart() and ncclGroupEnd() form one array. Collectives in such a group are
 * called with their own ret_work, which never waits.
 */
enum rcm_transfer_kind { RCM_TRANSFER_SEND = 1, RCM_TRANSFER_SSEND = 2, RCM_TRANSFER_RECV = 3 };
struct rcm_transfer {
    enum rcm_transfer_kind kind;
    int peer;       /* dst of rcm_send, src of rcm_recv */
    rcm_comm *comm; /* NULL: the call's comm */
    void *buffer;   /* a send only reads it */
    size_t count;
    uint64_t tag;
    rcm_dtype dtype;
    struct rcm_message *message; /* for a receive, as in rcm_call */
};
RCM_CHECKED rcm_status rcm_batch(rcm_comm *comm, const struct rcm_transfer *transfers, size_t n,
                                 const struct rcm_call *call, rcm_work **ret_work);

/*
 * Reports the message that a receive with this src and tag would get, without receiving it. Source,
 * tag and length are written to *ret_message if that is not NULL. A message that already has a
 * matching posted receive is not reported. src may be RCM_ANY_SOURCE and tag RCM_ANY_TAG, as for
 * rcm_recv. Any thread, but not in a callback.
 *   probe    waits for a message. call->timeout_ms applies, and wait_ms if it is above 0. After
 *            wait_ms the call returns RCM_PENDING, nothing is written or taken, and it can be
 *            repeated. Each call has the whole of timeout_ms
 *   iprobe   RCM_OK: there is a message; RCM_PENDING: not yet, and nothing is written
 *   mprobe, improbe   the same, but they also take the message out: only rcm_mrecv with
 *                     *ret_matched gets it. So among several threads each receives the message that
 *                     it probed
 *   mrecv    receives such a message, once. A message that is never received lives until comm is
 *            destroyed. RCM_ERR_INVALID, from the call or its work: comm has no such message; like
 *            a wrong argument, this changes nothing
 * Source: MPI_Probe, MPI_Mprobe (MPI 4.0, 3.8).
 */
typedef struct rcm_matched rcm_matched;
RCM_CHECKED rcm_status rcm_probe(rcm_comm *comm, int src, uint64_t tag, const struct rcm_call *call,
                                 struct rcm_message *ret_message);
RCM_CHECKED rcm_status rcm_iprobe(rcm_comm *comm, int src, uint64_t tag,
                                  struct rcm_message *ret_message);
RCM_CHECKED rcm_status rcm_mprobe(rcm_comm *comm, int src, uint64_t tag,
                                  const struct rcm_call *call, struct rcm_message *ret_message,
                                  rcm_matched **ret_matched);
RCM_CHECKED rcm_status rcm_improbe(rcm_comm *comm, int src, uint64_t tag,
                                   struct rcm_message *ret_message, rcm_matched **ret_matched);
RCM_CHECKED rcm_status rcm_mrecv(rcm_comm *comm, rcm_matched *matched, void *buffer, size_t count,
                                 rcm_dtype dtype, const struct rcm_call *call, rcm_work **ret_work);

/* rcm_send, rcm_ssend and rcm_recv, always asynchronous: ret_work must not be NULL. */
RCM_CHECKED rcm_status rcm_isend(rcm_comm *comm, const void *buffer, size_t count, rcm_dtype dtype,
                                 int dst, uint64_t tag, rcm_work **ret_work);
RCM_CHECKED rcm_status rcm_issend(rcm_comm *comm, const void *buffer, size_t count, rcm_dtype dtype,
                                  int dst, uint64_t tag, rcm_work **ret_work);
RCM_CHECKED rcm_status rcm_irecv(rcm_comm *comm, void *buffer, size_t count, rcm_dtype dtype,
                                 int src, uint64_t tag, rcm_work **ret_work);

/* ---- Memory ---------------------------------------------------------------------------------- */

/*
 * Allocates memory for buffers that are used repeatedly: at least `bytes`, page-aligned, zeroed.
 * Ranks of the same host map each other's, so operations on it copy once or not at all. Other
 * memory is mostly copied twice. The gain grows with the buffer size. The memory can be used like
 * any other, together with other kinds of buffers and with any pointers into it. Other ranks need
 * not use such memory. Local to this rank, not collective. It lives until rcm_mem_free, or until
 * the last communicator from the same rcm_init is destroyed. Any thread, also after comm has
 * failed.
 *
 * Other ranks access it only in operations that use it. Exception: after an operation has failed or
 * was aborted, a rank that is not notified yet may still read or write its buffers until they are
 * freed. Their contents are then undefined.
 *
 * RCM_ERR_RESOURCE or RCM_ERR_NOMEM: not enough memory; the pages are allocated at once.
 * RCM_ERR_INVALID: bytes is 0 or exceeds the address space.
 */
RCM_CHECKED rcm_status rcm_mem_alloc(rcm_comm *comm, size_t bytes, void **ret_memory);

/* Allocates memory of a kind: as rcm_mem_alloc, or memory of the rank's device, of at least
 * `bytes`, zeroed. Device memory begins at a multiple of 2 MiB and has a multiple of 2 MiB as
 * length. Freed by rcm_mem_free. RCM_ERR_UNSUPPORTED: there is no device; the text has the reason.
 * RCM_ERR_TIMEOUT: the driver has not returned by comm's deadline; memory that it returns later is
 * freed. Source: cuMemAlloc. */
enum rcm_mem_kind { RCM_MEM_HOST = 0, RCM_MEM_DEVICE = 1 };
RCM_CHECKED rcm_status rcm_mem_alloc_kind(rcm_comm *comm, enum rcm_mem_kind kind, size_t bytes,
                                          void **ret_memory);

/* Frees memory from rcm_mem_alloc of comm, or of another communicator from the same rcm_init. NULL
 * is a no-op. Any thread, also after comm has failed.
 *
 * RCM_ERR_INVALID: it is no such memory, or an unfinished operation uses it; it stays allocated.
 * RCM_ERR_TIMEOUT: the driver, which waits for all work on the device, has not returned by comm's
 * deadline. The memory is then no longer the caller's, and is freed when the driver returns. The
 * call waits for ranks of this host that may have device memory open until that deadline, at most
 * RINGCOMM_PEER_TIMEOUT. Memory that a rank keeps open, or had open when it died, stays until this
 * process ends; the call returns RCM_OK. RCM_ERR_RESOURCE, RCM_ERR_NOMEM: it stays allocated, and
 * can be freed later. */
RCM_CHECKED rcm_status rcm_mem_free(rcm_comm *comm, void *memory);

/*
 * Registers `bytes` of memory from `memory` on, host or device memory of any origin. A buffer that
 * lies entirely in one registration is sent without a copy on this rank: host memory by RDMA, and
 * memory of the rank's device to ranks of the same host, which read it directly. Host memory gains
 * nothing between ranks of one host, or over tcp. There large messages are read from any memory,
 * and rcm_mem_alloc gains the most. Registering changes no result, and other ranks need not do the
 * same. Local to this rank, not collective. Any thread, also after comm has failed.
 *
 * Cost: registering takes time and, for RDMA, locks pages in memory (ulimit -l). Use it for buffers
 * that are used repeatedly. The library registers no memory unless this function is called, and
 * caches none that was deregistered.
 *
 * Lifetime: the memory stays the caller's. It must not be freed or unmapped before
 * rcm_mem_deregister. Otherwise operations access pages that are no longer at that address, and
 * return wrong data with RCM_OK. For device memory two cases are detected at no cost and return
 * RCM_ERR_INVALID: a call whose buffer's address has no device memory any more, and
 * rcm_mem_register of the same range with another allocation there. With RINGCOMM_CHECK_MEMORY=1
 * each call checks its buffers; the queries to the driver take time. It returns RCM_ERR_INVALID if
 * the registration around the buffer (also of rcm_mem_alloc_kind) has another allocation or none.
 * For host memory, it does so if part of it is not mapped. Two cases stay undetected: host memory
 * that was unmapped and mapped again at the same address, and memory that is freed while an
 * operation uses it.
 *
 * Ranges may overlap and contain one another; each is a separate registration. A range that is
 * registered several times needs as many calls of rcm_mem_deregister. rcm_mem_alloc memory is
 * already registered; registering part of it is RCM_ERR_INVALID. Remaining registrations end with
 * the last communicator from the same rcm_init.
 *
 * After an operation has failed or was aborted, a rank that is not notified yet may still read or
 * write its registered buffers, until rcm_mem_deregister has returned. Their contents are undefined
 * until then. A forked child must not touch memory that its parent has registered: with RDMA it may
 * not be mapped there.
 *
 * RCM_ERR_INVALID: memory is NULL, bytes is 0, or part of the range cannot be read.
 * RCM_ERR_RESOURCE: a limit was reached, which the text names, or there are more than 65536
 * registrations. Device memory opens the rank's device. RCM_ERR_UNSUPPORTED: there is none; the
 * text has the reason. RCM_ERR_TIMEOUT: the driver has not returned by comm's deadline. Source:
 * ncclCommRegister.
 */
RCM_CHECKED rcm_status rcm_mem_register(rcm_comm *comm, void *memory, size_t bytes);

/*
 * Undoes one rcm_mem_register of the same range, of comm or of another communicator from the same
 * rcm_init. After the last one no other rank accesses the memory, and nothing is sent from it. The
 * call waits for transfers in flight, at most RINGCOMM_PEER_TIMEOUT. Any thread, also after comm
 * has failed; not in a callback. RCM_ERR_INVALID: that range is not registered, or this would be
 * the last time while an unfinished operation uses it; it stays registered.
 */
RCM_CHECKED rcm_status rcm_mem_deregister(rcm_comm *comm, void *memory, size_t bytes);

/* ---- Preparation ----------------------------------------------------------------------------- */

/*
 * Makes all connections that the given collective needs where the larger buffer of a rank has
 * `bytes`, so that the first call is as fast as later ones. Collective. algorithm NULL: the one
 * that would be chosen. RCM_ERR_PEER: a rank that the connections need has left without this call.
 */
RCM_CHECKED rcm_status rcm_comm_prepare(rcm_comm *comm, enum rcm_collective collective,
                                        size_t bytes, int root, const char *algorithm);
/* The same for buffers of a kind of memory. Device memory opens the rank's device, and prepares
 * what its links need for it. All ranks pass the same kind. RCM_ERR_UNSUPPORTED: there is no
 * device; the text has the reason. */
RCM_CHECKED rcm_status rcm_comm_prepare_kind(rcm_comm *comm, enum rcm_mem_kind kind,
                                             enum rcm_collective collective, size_t bytes, int root,
                                             const char *algorithm);

/* ---- Introspection --------------------------------------------------------------------------- */

/* A setting, its value and the source of the value ("default", "environment", "option"). */
struct rcm_setting {
    const char *name; /* "RINGCOMM_TIMEOUT" */
    const char *value;
    const char *default_value;
    const char *origin;
    const char *help;
};
/* Returns the i-th setting by the current environment. Secrets are shown as "(set)". Strings are
 * valid until the next call by the same thread. RCM_ERR_NOT_FOUND: past the last one. */
RCM_CHECKED rcm_status rcm_setting_at(size_t i, struct rcm_setting *ret_setting);

/* A threshold that selects the protocol between ranks of one host or, after these, a constant that
 * predicts an algorithm's time; the last one, "near", is 1 if the ranks of a host share a cache, 0
 * if not, or auto. Rank 0's values apply to the whole job. */
struct rcm_protocol_info {
    uint32_t size;
    const char *name;          /* "get.roomy": each rank of a host has its own CPU;
                                  "get.oversubscribed": ranks share CPUs */
    const char *value;         /* the sizes that use this protocol: "64K-", "0-32K", "never"; or
                                  microseconds: "0.3" */
    const char *default_value; /* built in for this CPU */
    const char *origin;        /* RINGCOMM_PROTOCOL, RINGCOMM_TUNING, or "built in for Intel" */
    const char *help;
};
#define RCM_PROTOCOL_INFO_INIT RCM_SIZED_INIT(rcm_protocol_info)
/* Returns the i-th constant by the current environment. Strings are valid until the next call by
 * the same thread. RCM_ERR_NOT_FOUND: past the last one. RCM_ERR_CONFIG: rcm_init would fail with
 * it, with the same text. */
RCM_CHECKED rcm_status rcm_protocol_at(size_t i, struct rcm_protocol_info *ret_info);

/* One item of the identity that rcm_init would find for this process by the current environment:
 * "rank", "world_size", "local_rank", "local_world_size", "url" (the meeting point), and
 * "job_id". */
struct rcm_launch_item {
    const char *name;
    const char *value;  /* "" if not set */
    const char *origin; /* the variable or launcher that gave it: "RANK", "OMPI_COMM_WORLD_SIZE" */
};
/* Returns the i-th item. Strings are valid until the next call by the same thread.
 * RCM_ERR_NOT_FOUND: past the last one. RCM_ERR_CONFIG: rcm_init would fail with it, with the same
 * text. */
RCM_CHECKED rcm_status rcm_launch_at(size_t i, struct rcm_launch_item *ret_item);

/* The i-th transport: whether this process can use it, as far as two ranks need, and if not, why
 * not. */
struct rcm_transport_info {
    const char *name;
    int usable;
    const char *reason; /* a sentence: what it is if usable, why not otherwise */
};
RCM_CHECKED rcm_status rcm_transport_at(size_t i, struct rcm_transport_info *ret_info);

/* Whose contributions a rank's result of a reduction contains. */
enum rcm_contributors {
    RCM_CONTRIBUTORS_ALL = 0,   /* of all ranks */
    RCM_CONTRIBUTORS_UP_TO = 1, /* of ranks 0 to itself */
    RCM_CONTRIBUTORS_BEFORE = 2 /* of the ranks before it; rank 0 has no result and no buffer */
};

/* The i-th collective: its buffers, in blocks of count elements. */
struct rcm_collective_info {
    uint32_t size;
    enum rcm_collective collective;
    const char *name;
    int send_blocks, recv_blocks;   /* 0: no such buffer, 1, or RCM_BLOCK_PER_RANK */
    int send_at_root, recv_at_root; /* only the root has it */
    int rooted, reduces;
    int uneven; /* each block has its own count */
    int apart;  /* no in-place form */
    /* Load of a link: busbw = algbw * (busbw_one + busbw_per_rank / number of ranks), where algbw
     * refers to the larger buffer, as in nccl-tests (doc/PERFORMANCE.md there). */
    double busbw_one, busbw_per_rank;
    enum rcm_contributors contributors; /* if it reduces */
};
#define RCM_COLLECTIVE_INFO_INIT RCM_SIZED_INIT(rcm_collective_info)
#define RCM_BLOCK_PER_RANK       (-1)
/* RCM_ERR_NOT_FOUND past the last. Strings are static. */
RCM_CHECKED rcm_status rcm_collective_at(size_t i, struct rcm_collective_info *ret_info);

/* The i-th algorithm of a collective. */
struct rcm_algorithm_info {
    const char *name;
    const char *description;
};
RCM_CHECKED rcm_status rcm_algorithm_at(enum rcm_collective collective, size_t i,
                                        struct rcm_algorithm_info *ret_info);

/* The algorithm that would be chosen for a call where the larger buffer of a rank has `bytes`; ""
 * if comm is unusable. Static memory. Call it in the thread that issues collectives. */
const char *rcm_comm_algorithm(rcm_comm *comm, enum rcm_collective collective, size_t bytes);
/* The transport to `peer`, known after the first contact; "" before. Once device memory is sent
 * there by a separate transport, both: "shm+cuda_ipc". Static memory. Any thread. */
const char *rcm_comm_transport(rcm_comm *comm, int peer);

/* What this rank sent and received on a communicator by one transport. Bytes are message bytes:
 * elements and, for sends and receives, also the library's headers, but not the transport's. A
 * message to all ranks of a host at once counts as one sent message. */
struct rcm_traffic {
    const char *transport; /* static */
    uint64_t sent, sent_bytes;
    uint64_t received, received_bytes; /* messages consumed; peers may be ahead */
    /* With RINGCOMM_TRACE, else 0: how long steps of collectives waited for ranks by this
     * transport, and how long they moved data. With parallel lanes the two times overlap. */
    uint64_t wait_ns, move_ns;
    uint64_t reserved[2]; /* 0 */
};
#define RCM_COUNTERS_TRANSPORTS 8
struct rcm_counters {
    uint32_t size;
    uint32_t ntransports; /* those in use are transports[0 .. ntransports) */
    uint64_t collectives; /* begun */
    /* Memory of the communicator, in bytes: channel slots and plans bound to buffers. Slots shared
     * with ranks of the same host count at the rank that writes them. */
    uint64_t slot_bytes, plan_bytes;
    struct rcm_traffic transports[RCM_COUNTERS_TRANSPORTS];
};
#define RCM_COUNTERS_INIT RCM_SIZED_INIT(rcm_counters)
/* Returns the counters since comm was made, also after it has failed; all 0 if this rank is no
 * member. The values are not a consistent snapshot while operations run. No operation is stopped.
 * Any thread, but not in a callback while another thread waits for it. RCM_ERR_INVALID: see STRUCT
 * VERSIONS. */
RCM_CHECKED rcm_status rcm_comm_counters(rcm_comm *comm, struct rcm_counters *ret_counters);

#ifdef __cplusplus
}
#endif

#endif
