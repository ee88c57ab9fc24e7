/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ringcomm.h: the one public header of libringcomm, a collective communication library.
 *
 * WHAT IT DOES
 *   N processes, called ranks 0..N-1, each hold an array in memory. One call on every rank sums the
 *   arrays (rcm_all_reduce), copies one rank's array to all (rcm_broadcast), gathers, scatters or
 *   exchanges blocks of them, waits for all (rcm_barrier), or moves an array from one rank to
 *   another (rcm_send, rcm_recv). Ranks are processes on one machine or many; threads of one
 *   process may be ranks as well, each with a communicator of its own. Buffers are memory of the
 *   host or of the rank's CUDA device.
 *
 * THE SHORTEST PROGRAM (examples/hello_all_reduce.c is this, complete)
 *      rcm_comm *comm;
 *      if (rcm_init(NULL, &comm) != RCM_OK)            rank, size, address: from the environment
 *          errx(1, "%s", rcm_last_error());
 *      rcm_all_reduce(comm, send, recv, count, RCM_FLOAT32, RCM_SUM, NULL, NULL);
 *      rcm_destroy(comm);
 *   Started by:  ringcomm-run -n 4 -- ./program
 *
 * COMMUNICATORS
 *   rcm_init makes that of all ranks, the world. From any one others are made: of a list of its
 *   ranks, by colours, by hosts, of all again, of the survivors of a failure. Each numbers its
 *   ranks from 0, and has operations, order, errors and deadlines of its own; those from one
 *   rcm_init share its connections.
 *
 * ORDER
 *   Every rank of a communicator issues the same collectives in the same order with the same count,
 *   type, operator and root. Where two ranks differ, all get RCM_ERR_MISMATCH instead of wrong
 *   data, in that call or, where their part was complete, by their next call or rcm_destroy; the
 *   text names both calls, the origin is the same on all. Collectives start in the order they were
 *   issued; several asynchronous ones may be in flight and complete in any order. Any number may be
 *   issued: a bounded number runs at a time, the others wait for their turn. Messages between
 *   two ranks with the same tag arrive in the order they were sent; different tags are independent.
 *   A receive is from one rank or from any, of one tag or of any.
 *
 * BLOCKING AND ASYNCHRONOUS
 *   Every operation ends in (const struct rcm_call *call, rcm_work **ret_work). With ret_work
 *   NULL the call returns when this rank's part is done: its buffers may be reused, its results
 *   are there. Otherwise the call returns at once, the operation goes on in the background
 *   without further calls, and *ret_work is tested with rcm_work_test, waited for with
 *   rcm_work_wait and given back with rcm_work_free. Waiting does not free; freeing an unfinished
 *   work detaches it: the operation still runs, without a report. A call that fails makes no work.
 *   Several works are waited for at once; one calls back, has a descriptor for an event loop, comes
 *   into a queue when it is complete; and one of a persistent call is started again and again.
 *
 * OWNERSHIP
 *   The creator frees. Buffers stay the caller's; the library reads the send buffer and writes
 *   the receive buffer until the operation completes, and the caller touches neither before then
 *   (reading the send buffer is fine).
 *
 * ALIASING
 *   In place is send == recv, the same pointer (of block collectives see there). Any other overlap
 *   of buffers of operations in flight is undefined.
 *
 * COUNTS AND SIZES
 *   Counts are numbers of elements of the given type, size_t, and may exceed 2^31; a count whose
 *   bytes overflow size_t is RCM_ERR_INVALID. Zero is legal and still synchronises, and the
 *   buffers may be NULL then.
 *
 * SAME BITS
 *   The result of a reduction has the same bits on every rank, and on every run of the same call
 *   with the same data, number of ranks and settings.
 *
 * FLOATING-POINT ENVIRONMENT
 *   Results do not depend on the environment of the thread that calls. A function that waits, moves
 *   data or computes runs in the default environment: rounding to nearest, denormals kept,
 *   exceptions masked. When it returns, the thread's control bits are as before (MXCSR on x86-64,
 *   FPCR on aarch64); flags of exceptions are unspecified. The library's threads run in the default
 *   environment. GPU kernels keep denormals and round division correctly, too: nvcc compiles them
 *   without -ftz=true, -prec-div=false and -use_fast_math.
 *   Functions of the program that the library calls start in the default environment. The changes
 *   that an operator, or a callback on the library's thread, makes to it are undone afterwards; a
 *   store's function makes none. A callback that is called at once (rcm_work_on_complete) has the
 *   environment of the thread that calls.
 *
 * THREADS
 *   One thread at a time issues or starts collectives on a communicator; a blocking call does so
 *   until it has returned, also for a callback (rcm_work_on_complete), and so does a call that
 *   waits by rcm_call.wait_ms. Once that has returned RCM_PENDING, any thread may issue the next
 *   collective while another waits for the work (rcm_work_wait). Sends, receives, probes and
 *   batches may be issued by any threads at any time, also beside a collective; the messages of
 *   one thread to one rank under one tag arrive in the order in which it sent them, and receives of
 *   one thread take them in the order in which it posted them. Testing and waiting on works,
 *   canceling them, rcm_abort and rcm_comm_error are legal from any thread at any time.
 *   Communicators are independent of each other.
 *   No call ends its thread in the middle: pthread_cancel takes effect at the next cancellation
 *   point behind the call, which ends by its deadline. The thread's cancelability type must be the
 *   deferred one. Functions of the program that a call runs cannot be canceled either.
 *   A thread of the library has a stack of 1 MiB, or of 8 MiB where it calls a CUDA driver or
 *   libpmix, whatever `ulimit -s` is. If one cannot be started, RCM_ERR_RESOURCE names the limit.
 *
 * DEVICE MEMORY
 *   Buffers of a call may be memory of the rank's CUDA device: it is the one of
 *   rcm_init_options.device. All buffers of a collective on all ranks are, or none: within a call
 *   a mixture is RCM_ERR_INVALID, between ranks RCM_ERR_MISMATCH, which names both. The ends of a
 *   message (rcm_send, rcm_recv) may differ. Results have the same bits as those of host memory.
 *   The operation begins after what is enqueued on rcm_call.stream, and does not wait for what is
 *   enqueued there later; nothing is enqueued on that stream. When the call, or the work's wait,
 *   returns, the result is there for every stream. Of a stream that does not get there the deadline
 *   passes like that of a rank: afterwards nothing of the operation begins, and the buffers are the
 *   caller's. A stream that is being captured into a graph is RCM_ERR_INVALID. User-defined
 *   operators, the forms with _bytes and rcm_reduce_local are for host memory. The library finds
 *   out of which kind a buffer is from the driver, if the process has one: if libcuda.so.1 was
 *   loaded before rcm_init, before a communicator was made of another one, or before
 *   rcm_mem_register or a call that names a stream or RCM_NO_STREAM; or rcm_init_options.device or
 *   rcm_mem_alloc_kind asked for it. Else buffers are taken for host memory, and nothing is loaded.
 *
 * DEADLINES
 *   Every wait has one: rcm_call.timeout_ms, else the communicator's (rcm_comm_set_timeout), which
 *   is at first that of rcm_init, 30 minutes by default. When it passes the operation fails with
 *   RCM_ERR_TIMEOUT and the text names the rank that was waited for; one of the ranks that waited
 *   logs (RINGCOMM_LOG, warn) a table of what each rank is doing. Without progress it logs the same
 *   after RINGCOMM_WARN_AFTER seconds, 30 by default.
 *
 * ERRORS
 *   A wrong argument is RCM_ERR_INVALID; nothing has been sent and the communicator is as before.
 *   So it is after RCM_ERR_UNSUPPORTED, RCM_ERR_CANCELED and RCM_ERR_TRUNCATED (a message longer
 *   than the receive buffer; its first bytes are there). After any other error of an operation, and
 *   after RCM_ERR_INVALID for a buffer (see BAD BUFFERS), the ranks may disagree on what happened,
 *   so the communicator keeps that first error, every rank is told of it, every operation in flight
 *   completes with it, every later call returns it, and only rcm_comm_error, rcm_comm_missing,
 *   rcm_comm_shrink, rcm_mem_*, rcm_leave and rcm_destroy are of use.
 *   rcm_comm_error says which rank was the origin. A rank that dies is named by all others within a
 *   second. A host from which nothing comes for 15 s (RINGCOMM_PEER_TIMEOUT), because it is down or
 *   the network is cut, is lost: both sides say so; a shorter cut is only a delay. A process that
 *   is merely stopped is not lost, on whatever host: it is waited for until the operation's
 *   deadline, which names it. The library never calls exit or abort, installs no signal handler,
 *   and raises no SIGPIPE or SIGXFSZ.
 *
 * NETWORKS
 *   - Two ranks need one direction in which TCP connections can begin, whichever it is, and
 *     whichever of the two first needs the other. Where the rank that cannot begin comes first, the
 *     other one must need the link within RINGCOMM_PEER_TIMEOUT, or it is lost. The store's server
 *     must be reached by all.
 *   - Every TCP connection has keepalive: one that is idle sends something at least every 120 s
 *     (the first time after 60 s), so that no firewall or address translator that waits for 240 s
 *     forgets it. A connection to the store that was lost all the same is made again, once for each
 *     call that finds it lost.
 *   - Addresses are published by a rule: that from which the store is reached first, then others in
 *     its network, then that of the default route, then the rest; at most 32. IPv6 link-local
 *     addresses are not used: they mean nothing on another host.
 *   - Where the store's server is at a loopback address and all ranks are on this host, the ranks
 *     listen at loopback addresses only, unless RINGCOMM_IFACE names others.
 *
 * BAD BUFFERS
 *   Buffers are not looked at before they are used. One of which a part cannot be read, or, where
 *   it is written to, not written (it is not mapped, or read-only) is an error of this rank's call:
 *   - Where this process copies or computes, it is a signal (SIGSEGV, SIGBUS), as with any memory,
 *     in the calling thread or in the library's; between ranks of one host always. The other ranks
 *     name this one as dead.
 *   - Where the kernel copies, as it does most of each large message (8 KiB and more) over tcp, it
 *     is RCM_ERR_INVALID, with address and length in the text, and this rank is the origin on all
 *     ranks. Parts of the data may have gone out by then, so unlike a wrong argument it ends the
 *     communicator, as any other error does, and rcm_comm_error has it. No rank takes such data for
 *     right ones; the connections stay, and rcm_comm_shrink keeps all ranks.
 *   Which of the two comes over tcp depends on size, operation and timing.
 *
 * DESCRIPTORS
 *   The library makes no descriptor below 3, also in a program that closed those, and all are
 *   close-on-exec. Exempt are those that libraries which it uses make (resolver, libibverbs,
 *   libcuda, PMIx), and the moment in which the kernel hands one out and it is moved. The log goes
 *   to descriptor 2 only if that is open when rcm_init is called, has stayed so at each line, and
 *   is not close-on-exec, as a file or connection that got the number mostly is.
 *   A program that closes descriptors which are not its own (closefrom) closes the library's too:
 *   all ranks get an error, there RCM_ERR_SYSTEM within about a second, with a sentence that says
 *   so. From then on the library leaves the numbers alone, which may be those of other files by
 *   now; in that second it may still read from, write to or close them.
 *
 * AFTER AN ERROR OR ABORT
 *   Contents of receive buffers of unfinished operations are undefined. The library does not
 *   touch any caller's buffer after rcm_destroy returned.
 *
 * FORK
 *   A communicator belongs to the process that made it, and so do its works, its memory of
 *   rcm_mem_alloc, stores and requests: after fork() the child gets
 *   RCM_ERR_FORKED from every call that takes one of them, and no other rank is told. Nothing of
 *   it happens when the child ends, by exit, return from main, or a signal. Exempt are:
 *   - rcm_destroy, rcm_destroy_begin, rcm_work_free, rcm_store_close, rcm_init_cancel and
 *     rcm_comm_request_cancel free the child's copy, in any order, and close nothing that the child
 *     has opened. What the parent's connections and threads
 *     had in memory stays until the child ends.
 *   - rcm_rank, rcm_size, rcm_local_rank, rcm_local_size, rcm_world_rank, rcm_comm_translate,
 *     rcm_comm_name, rcm_comm_timeout, rcm_comm_sequence, rcm_work_sequence and rcm_store_url
 *     return what they return in the parent; rcm_comm_algorithm and rcm_comm_transport return "".
 *   Memory of rcm_mem_alloc may be one with the parent's: what the child writes there the parent
 *   reads. Calls that take none of these work in the child as in any process.
 *   A child that no handler of pthread_atfork sees (_Fork, raw clone) gets the same, where the
 *   kernel has MADV_WIPEONFORK (Linux 4.14). A communicator of its own is safe there only where
 *   the C library allows malloc and threads. Such a child keeps copies of the parent's connections
 *   until it ends, executes a program or closes them. If the parent is killed before that, the
 *   other ranks take it for a silent rank: they wait until their deadline.
 *   A child that shares the parent's memory (vfork, posix_spawn, CLONE_VM) must call nothing but
 *   exec and _exit: calls there are undefined. An exit there does nothing of the parent's.
 *
 * STRUCTS THAT GROW
 *   begin with uint32_t size, set by the caller to sizeof; the _INIT macros do it. They get new
 *   fields at their end, so program and library may be of different versions:
 *   - A program built with an older header gives a smaller struct. Fields that it does not have
 *     count as 0, which means what was before them; of a struct that the library fills (rcm_error,
 *     rcm_message, rcm_protocol_info, rcm_collective_info) only the bytes that the program has are
 *     written. Every size from that of the first version on is accepted.
 *   - A program built with a newer header gives a larger struct. It is accepted if what the library
 *     does not know is 0, as the _INIT macros leave it, else RCM_ERR_INVALID says that the library
 *     is older than the program. In a struct that the library fills those bytes become 0.
 *   size itself is never written. More than 4096 is RCM_ERR_INVALID. Other structs do not grow.
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

/* Of the _INIT macros: all 0 but size. Designated initialisers are no C++ before C++20, and
 * warn. */
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

/* ---- Status -------------------------------------------------------------------------------- */

/* Name, number, sentence. Zero is success, positive is "not yet", negative is an error. */
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

/* "RCM_ERR_PEER". Static memory; "RCM_?" for a number that is no status. Any thread. */
const char *rcm_status_name(rcm_status status);

/* The sentence of the table above. Static memory. Any thread. */
const char *rcm_status_text(rcm_status status);

/* What the last failed call of this thread found, in words: argument and value, rank, address. A
 * call that succeeds, or returns RCM_PENDING, leaves the words as they were. Thread-local memory,
 * valid until the next call of this library by the same thread; "" if no call failed yet. */
const char *rcm_last_error(void);

/* "0.1.0", of the library that is loaded, which may be newer than this header. */
const char *rcm_version(void);

/* ---- The log ------------------------------------------------------------------------------- */

/*
 * Lines of the log go to stderr, those of RINGCOMM_LOG's level ("warn") and above, or to a function
 * of the program's. Both are of the process, for all its communicators.
 */
enum rcm_log_level { RCM_LOG_ERROR = 0, RCM_LOG_WARN = 1, RCM_LOG_INFO = 2, RCM_LOG_DEBUG = 3 };

/*
 * Gets one line: its level, the rank that it is of (-1: none is known), and its text, which has no
 * newline and is valid until the function returns. It is called by the thread that logs, one of the
 * program's in a call or one of the library's, by one at a time. The library may hold locks then:
 * the function calls none of its functions but rcm_log_set, rcm_log_set_level and those that only
 * return names or texts, and waits for no thread that may be in the library. Until it returns
 * others that log wait. What is logged while it runs, by its own thread, goes to stderr.
 */
typedef void (*rcm_log_function)(void *arg, enum rcm_log_level level, int rank, const char *text);

/* From now on function gets the lines, with arg; NULL: stderr gets them again. When it returns, the
 * function before is not running, nor is it called any more; only where it replaces itself it runs
 * to its end. A child after fork() has the function, too. It is RCM_OK. Any thread, at any time,
 * also before rcm_init. */
RCM_CHECKED rcm_status rcm_log_set(rcm_log_function function, void *arg);

/* From now on lines of this level and of more important ones are logged, whatever RINGCOMM_LOG is.
 * RCM_ERR_INVALID: level is none. Any thread, at any time. */
RCM_CHECKED rcm_status rcm_log_set_level(enum rcm_log_level level);

/* ---- Types and operators ------------------------------------------------------------------- */

/*
 * 16- and 8-bit floats are passed as their bits. float16: IEEE binary16; bfloat16: the upper half
 * of a float; float8_e5m2: the upper half of a float16; float8_e4m3fn: 4 bits of exponent with bias
 * 7, no infinity, S1111111 is the NaN, the largest number is 448. bool: one byte; every value but 0
 * counts as true, results are 0 or 1.
 * Complex numbers and pairs are the structs below. A pair is a value and where it was found.
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

/* Name, number, bytes, C type. Numbers are part of the wire and never reused. */
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
        RCM_OPAQUE = 1 << 30 /* and the bytes of an element: see rcm_dtype_opaque */
} rcm_dtype;

/*
 * The type of elements of so many bytes that the library does not interpret: a struct, a matrix, a
 * packed record. It is passed where any other type is, of every operation; its number, name
 * ("opaque12") and size are the same in all processes, so ranks that differ in the size get
 * RCM_ERR_MISMATCH. Its operators are those of rcm_op_create, so reductions are for host memory. No
 * element is ever divided between two calls of the operator.
 *
 * bytes: 1 to RCM_OPAQUE_MAX, else RCM_ERR_INVALID. A reduction needs elements that fit a slot
 * (RINGCOMM_SLOT_BYTES, 128 KiB unless there are more than 64 ranks), else RCM_ERR_UNSUPPORTED
 * names both sizes; so does an algorithm that the call names and that needs room for several. In
 * the operator an element is as aligned as the largest power of two that divides its bytes, at most
 * 8, or as the caller's buffers. Any thread. Source: MPI_Type_contiguous of MPI_BYTE.
 */
#define RCM_OPAQUE_MAX 65536
RCM_CHECKED rcm_status rcm_dtype_opaque(size_t bytes, rcm_dtype *ret_dtype);

/*
 * Element by element, in an order of operands that is the same on every rank. Which are defined for
 * which types (rcm_op_defined answers for one; the others are RCM_ERR_INVALID with a sentence):
 *
 *                  integers  bool  floats  complex  pairs
 *   sum, prod         x       x      x        x              integers wrap; bool: or, and
 *   min, max          x       x      x                       -0 is less than +0; bool: and, or
 *   band, bor, bxor   x       x                              bit by bit; bool: as the next ones
 *   land, lor, lxor   x       x                              of what is not 0; the result is 0 or 1
 *   avg               x              x        x              the sum divided by the number of ranks
 *   premul_sum                       x        x              created, see rcm_op_create_premul_sum
 *   minloc, maxloc                                    x      the least or largest value with its
 *                                                            index; of equal ones the lowest index
 *
 * Floats: a result that is a NaN is always the same positive quiet one, whichever operand or
 * operation it came of; min, max, minloc and maxloc are a NaN if any operand is one. Each operation
 * is rounded once, to nearest, ties to even. 16- and 8-bit floats are computed in float32 as long
 * as a rank adds up operands in one step, and rounded when the step's result is stored. What is too
 * large becomes an infinity, but for float8_e4m3fn, which has none, +-448. A product of complex
 * numbers is (ac - bd) + (ad + bc)i by these operations; each part follows the rules for floats.
 * All this is of two operands or more: the result of one (of a communicator of one rank, of scan on
 * rank 0, of exscan on rank 1) has the bits of that one, also as a NaN, and as a bool or by land,
 * lor and lxor where they are not 0 or 1. minloc and maxloc count -0 as less than +0 as well.
 *
 * avg is of collectives whose results hold the contributions of all ranks, so not of scan, exscan
 * and rcm_reduce_local. The step that completes a sum divides it, before it is rounded to a 16- or
 * 8-bit float; of integers the sum wraps, and the quotient is truncated toward zero.
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
/* One of these numbers, or, above 256, one that rcm_op_create or
 * rcm_op_create_premul_sum made. */
typedef int32_t rcm_op;

/* RCM_OK, or RCM_ERR_INVALID with a sentence why op is not defined for dtype. Any thread. */
RCM_CHECKED rcm_status rcm_op_defined(rcm_op op, rcm_dtype dtype);

/*
 * Operators that the program creates. They belong to the process, are good for all its
 * communicators, and are passed where any other operator is; a number names one operator, also
 * after it was freed. Each rank creates its own. Ranks compare their names, as they do types: one
 * that calls with another operator gets RCM_ERR_MISMATCH. Any thread, all of them; the operators of
 * a process are those of its child after fork() too.
 */
#define RCM_OP_NAME_MAX 24 /* bytes of a name, with the NUL at its end */

/*
 * A function of the program's: inout[i] becomes in[i] op inout[i] for each i < count. It has to be
 * associative, and the same on all ranks. With RCM_OP_COMMUTATIVE in flags operands may also be
 * exchanged. Without it the result is that of the contributions in the order of ranks, of which any
 * may be combined first: (a op b) op (c op d). Then only algorithms are used that keep that order
 * (ringcomm-plan --list shows them: one that does not is RCM_ERR_UNSUPPORTED where the call or
 * RINGCOMM_ALGORITHM names it, and passed over where RINGCOMM_TUNING does);
 * every collective that reduces has some, for all ranks and hosts.
 *
 * The function is called for any number of elements at a time, from any position on, as aligned as
 * the type or the caller's buffers; in and inout do not overlap. It runs in the thread that
 * calls, waits for, or tests an operation, or in one of the library's, for one communicator in one
 * thread at a time, and does not wait. There every function that issues an operation, waits for
 * one, or makes or ends a communicator is RCM_ERR_INVALID, of whatever communicator. Those that
 * only answer (rcm_rank, rcm_comm_error), rcm_work_test, rcm_abort and rcm_reduce_local work as
 * ever. context is passed to it, and stays the program's: it is used until the operator is freed
 * and the last work that uses it has ended.
 *
 * name: 1 to 23 bytes of ASCII, compared between ranks, as is whether it is commutative. dtype: the
 * only type that it is for, or RCM_ANY_DTYPE; of structs of the program rcm_dtype_opaque makes
 * one. Host memory only, else RCM_ERR_UNSUPPORTED. Also of rcm_reduce_local. Source: MPI_Op_create.
 */
typedef void (*rcm_op_function)(const void *in, void *inout, size_t count, rcm_dtype dtype,
                                void *context);
#define RCM_OP_COMMUTATIVE 1u
#define RCM_ANY_DTYPE      ((rcm_dtype)0)
RCM_CHECKED rcm_status rcm_op_create(rcm_op_function function, void *context, uint32_t flags,
                                     const char *name, rcm_dtype dtype, rcm_op *ret_op);

/*
 * A sum whose inputs are scaled: each rank's input is multiplied by the scale of that rank's
 * operator, once, before it is added. dtype: a float or complex type, the only one that the
 * operator is for; the scale is real + imaginary * i, and imaginary is 0 if dtype is not complex.
 * It is rounded to float32 if dtype is shorter than float64 or complex128. Scales may differ
 * between ranks, and are not compared. Of every collective that reduces, but not of
 * rcm_reduce_local. What a rank contributes is rounded to dtype once it is scaled; otherwise all is
 * as for sum, but that a result of one contribution, of one rank say, is scaled as well.
 * RCM_ERR_INVALID if dtype is of another kind.
 * Source: ncclRedOpCreatePreMulSum, PREMUL_SUM of torch.distributed.
 */
RCM_CHECKED rcm_status rcm_op_create_premul_sum(double real, double imaginary, rcm_dtype dtype,
                                                rcm_op *ret_op);

/* Its number is of no use any more. What uses the operator, also a persistent work, is not harmed:
 * it lives until the last of these has ended. RCM_ERR_INVALID if op is none, was freed, or was not
 * created. */
RCM_CHECKED rcm_status rcm_op_free(rcm_op op);

/* Bytes of one element, 0 for a number that is no type. */
size_t rcm_dtype_size(rcm_dtype dtype);
/* "float32", "sum"; "?" for a number that is none. Static memory, but of an operator that was
 * created: valid until it is freed; of an opaque type: until this thread has read four others. */
const char *rcm_dtype_name(rcm_dtype dtype);
const char *rcm_op_name(rcm_op op);
/* The inverse; RCM_ERR_INVALID for an unknown name. */
RCM_CHECKED rcm_status rcm_dtype_from_name(const char *name, rcm_dtype *ret_dtype);
RCM_CHECKED rcm_status rcm_op_from_name(const char *name, rcm_op *ret_op);

/* ---- Stores: how ranks find each other ----------------------------------------------------- */

/*
 * A store is a small shared dictionary from keys to byte strings, used to bring ranks together
 * and free for the program's own use under other keys. The TCP and file stores speak the wire
 * protocol and the file format of torch.distributed's TCPStore and FileStore (dialect of current
 * torch), so either side can serve the other. All functions may be called from any thread.
 * timeout_ms < 0 waits for ever; 0 asks once.
 */
typedef struct rcm_store rcm_store;

/* Opens by URL:
 *   hash:                             in this process only: for ranks that are threads
 *   file:///path?world_size=N         a file on a file system all ranks see
 *   tcp://host:port?rank=R&world_size=N
 *                                     rank 0 serves, others connect; port 0 is legal for rank 0,
 *                                     rcm_store_url then tells the port
 *   tcp://host:port?server=0|1        says outright whether to serve
 * Deadline: timeout_ms for the connection, else 30 s. With a secret (RINGCOMM_SECRET) both sides
 * prove that they know it before anything else. Caller closes. */
RCM_CHECKED rcm_status rcm_store_open(const char *url, int64_t timeout_ms, rcm_store **ret_store);

/* A view of `store` in which every key starts with prefix + "/". Does not own `store`, which must
 * live longer. Caller closes. */
RCM_CHECKED rcm_status rcm_store_prefix(rcm_store *store, const char *prefix,
                                        rcm_store **ret_store);

/*
 * A store of the program's own functions: a dictionary that it has already, of another library or a
 * cluster's. Needed are set, try_get and compare_set, of which rcm_store_add and rcm_store_append
 * are made. wait may be NULL: then the key is looked at again and again, up to every 50 ms. Where
 * remove (rcm_store_delete) or count is NULL it is RCM_ERR_UNSUPPORTED.
 *
 * The functions take `arg`, do what the rcm_store_ function of their name does, and return its
 * statuses: try_get RCM_ERR_NOT_FOUND, wait RCM_ERR_TIMEOUT. Values that they return are malloc'd,
 * and freed by the library. timeout_ms as there. rcm_init waits in short slices, each a call of
 * wait of some 500 ms and 1 ms more for each rank, between which it looks at other things:
 * RCM_ERR_TIMEOUT at the end of one is no failure, and no reason to log anything. They are called
 * in the threads that call the library's functions, of rcm_init_begin in one of its own; several at
 * once if the program does.
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
    void (*close)(void *arg); /* by rcm_store_close */
    /* Why the function that has just failed in this thread did, in words, which rcm_last_error then
     * has; they are copied before another function is called. NULL, or NULL from it: not known. */
    const char *(*reason)(void *arg);
};
#define RCM_STORE_FUNCTIONS_INIT RCM_SIZED_INIT(rcm_store_functions)
/* functions is copied. Caller closes. */
RCM_CHECKED rcm_status rcm_store_custom(const struct rcm_store_functions *functions,
                                        rcm_store **ret_store);

/* The URL by which other processes reach this store; "" for hash. Lives as long as the store. */
const char *rcm_store_url(const rcm_store *store);

/* Frees the store; the serving one stops serving. NULL is a no-op. */
void rcm_store_close(rcm_store *store);

/* Sets key to len bytes, overwriting; wakes waiters. Key: at most 8 KiB; value: at most 8 MiB. */
RCM_CHECKED rcm_status rcm_store_set(rcm_store *store, const char *key, const void *value,
                                     size_t len);
/* Waits until key exists, then returns its value: malloc'd, caller frees, with a NUL behind it
 * that is not counted in len. RCM_ERR_TIMEOUT names the key. */
RCM_CHECKED rcm_status rcm_store_get(rcm_store *store, const char *key, int64_t timeout_ms,
                                     void **ret_value, size_t *ret_len);
/* The same without waiting: RCM_ERR_NOT_FOUND if the key does not exist. */
RCM_CHECKED rcm_status rcm_store_try_get(rcm_store *store, const char *key, void **ret_value,
                                         size_t *ret_len);
/* Adds delta to the integer (decimal text) under key, a missing key counting as 0; returns the
 * sum. Atomic. RCM_ERR_INVALID if the value is no integer. */
RCM_CHECKED rcm_status rcm_store_add(rcm_store *store, const char *key, int64_t delta,
                                     int64_t *ret_value);
/* Waits until all keys exist. RCM_ERR_TIMEOUT names the first missing key. */
RCM_CHECKED rcm_status rcm_store_wait(rcm_store *store, const char *const *keys, size_t nkeys,
                                      int64_t timeout_ms);
/* Sets key to `desired` if its value equals `expected`, or if it does not exist and expected is
 * empty. *ret_value is the value afterwards (malloc'd, caller frees), *ret_swapped tells whether
 * it was set. A missing key with a non-empty `expected` is RCM_ERR_NOT_FOUND. */
RCM_CHECKED rcm_status rcm_store_compare_set(rcm_store *store, const char *key,
                                             const void *expected, size_t expected_len,
                                             const void *desired, size_t desired_len,
                                             int *ret_swapped, void **ret_value, size_t *ret_len);
/* *ret_deleted: whether the key existed. */
RCM_CHECKED rcm_status rcm_store_delete(rcm_store *store, const char *key, int *ret_deleted);
/* Number of keys that users set (internal ones are not counted). With a prefix: of the whole
 * store underneath, as in torch. */
RCM_CHECKED rcm_status rcm_store_count(rcm_store *store, size_t *ret_count);
/* Appends to the value of key; a missing key counts as empty. */
RCM_CHECKED rcm_status rcm_store_append(rcm_store *store, const char *key, const void *value,
                                        size_t len);

struct rcm_blob {
    void *data;
    size_t len;
};
/* get of nkeys keys in as few round trips as the store allows. On success every blob's data is
 * malloc'd, the caller frees each; on failure nothing is left allocated. */
RCM_CHECKED rcm_status rcm_store_multi_get(rcm_store *store, const char *const *keys, size_t nkeys,
                                           int64_t timeout_ms, struct rcm_blob *ret_values);
RCM_CHECKED rcm_status rcm_store_multi_set(rcm_store *store, const char *const *keys,
                                           const struct rcm_blob *values, size_t nkeys);

/* ---- Life cycle ---------------------------------------------------------------------------- */

typedef struct rcm_comm rcm_comm;
typedef struct rcm_work rcm_work;

/*
 * An id by which the ranks of one rcm_init meet: made by one process, which hands it to the others
 * by any means it has, as bytes. That process serves the store, at the addresses of its interfaces
 * that are up (RINGCOMM_IFACE: of this one), on a free port (RINGCOMM_PORTS: of these), with the
 * environment's secret. It need not be a rank. If it is, its rank ends the store with the
 * communicator's end; else the store is there until rcm_unique_id_free, or until the process ends.
 * So an id is for one rcm_init of each rank. An id that is used up, or was freed, is refused: in
 * the process that made it by RCM_ERR_INVALID at once, elsewhere by RCM_ERR_PEER after some seconds
 * in which nothing listens at its addresses.
 */
#define RCM_UNIQUE_ID_BYTES 128
struct rcm_unique_id {
    char bytes[RCM_UNIQUE_ID_BYTES];
};
/* Source: ncclGetUniqueId. Any thread. */
RCM_CHECKED rcm_status rcm_unique_id_get(struct rcm_unique_id *ret_id);
/* Ends the store of an id that is not needed any more: of a job that does not start, or, where the
 * process is no rank, once rcm_init has returned on all ranks. Ranks that are in rcm_init with it
 * lose their store. id stays the caller's. RCM_ERR_INVALID: it is none. RCM_ERR_NOT_FOUND: this
 * process did not make it, or it was freed, or a rank of this process has come with it, whose the
 * store is then. Any thread. */
RCM_CHECKED rcm_status rcm_unique_id_free(const struct rcm_unique_id *id);

/* Everything may be left at its default (zero, NULL, rank -1): the environment then decides, see
 * the names on the right. A field that is set wins over the environment. Of url, store and
 * unique_id at most one is set. */
struct rcm_init_options {
    uint32_t size;
    int32_t rank;          /* RINGCOMM_RANK, RANK, the launcher's; -1: from the environment */
    int32_t world_size;    /* RINGCOMM_WORLD_SIZE, WORLD_SIZE, the launcher's; 0: likewise */
    int32_t reserved;      /* 0 */
    const char *url;       /* RINGCOMM_URL; else env:// (MASTER_ADDR, MASTER_PORT) */
    rcm_store *store;      /* an open store instead of a URL; must outlive the call only */
    const char *host_id;   /* RINGCOMM_HOST_ID; only ranks of equal host_id use shared memory */
    const char *secret;    /* RINGCOMM_SECRET, or the content of RINGCOMM_SECRET_FILE */
    const char *transport; /* RINGCOMM_TRANSPORT: "auto", or a list of rcm_transport_at's names */
    const char *algorithm; /* RINGCOMM_ALGORITHM: "" or "all_reduce=ring:32K-,scan=chain" */
    int64_t timeout_ms;    /* RINGCOMM_TIMEOUT, in seconds there; 0: 30 minutes; <0: for ever */
    const struct rcm_unique_id *unique_id; /* instead of a URL: where the ranks meet */
    /* RINGCOMM_DEVICE: the rank's CUDA device, by number ("1") or UUID ("GPU-..."), which must be
     * there; "auto": that of its number on its host, modulo how many there are, once it is needed;
     * "none". */
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
 * have published their address. options may be NULL. With the env:// form rank 0 serves the TCP
 * store at MASTER_ADDR:MASTER_PORT unless TORCHELASTIC_USE_AGENT_STORE=True says that a launcher
 * does. Without these two, ranks of a launcher meet by its own means: of mpirun of Open MPI (all
 * ranks on one machine), mpirun of MPICH and others that speak PMI-1 (PMI_FD), srun of Slurm; the
 * n-th rcm_init of every rank then meets, so every rank calls it equally often.
 * Ranks come from the first of: options; RINGCOMM_RANK and RINGCOMM_WORLD_SIZE; RANK and
 * WORLD_SIZE; OMPI_COMM_WORLD_RANK and _SIZE; PMI_RANK and PMI_SIZE; in a step of Slurm
 * SLURM_PROCID and SLURM_STEP_NUM_TASKS. A missing variable, or two that contradict each other,
 * is RCM_ERR_CONFIG and named in rcm_last_error().
 * Options that give rank, world_size and a place to meet (store, unique_id, url) describe a world
 * of their own, such as a second one of some ranks of a launcher's job, or one with ranks of two
 * jobs: the launcher's local ranks, job id and restart count do not count there.
 * Two jobs that meet at one place (MASTER_PORT, a file) are told apart by their ids:
 * RINGCOMM_JOB_ID, any text that is the same on all ranks of a job and no other job's; else the
 * launcher's: TORCHELASTIC_RUN_ID, and where its job has as many ranks PMIX_NAMESPACE,
 * PMI_JOBID, or SLURM_JOB_ID and SLURM_STEP_ID. The job whose rank 0 comes first goes on, of the
 * other every rank gets RCM_ERR_CONFIG with both ids (its rank 0, if it would serve the store, the
 * error of a port in use). A rank without an id among ranks with one is an error of all. Without
 * ids, a second process that comes as a rank that is there fails the rcm_init of all ranks that are
 * not through with it. Ranks that were told by hand where to meet wait a second for that in their
 * first rcm_init. So without ids jobs of equal size may still mix if the ranks of one that the
 * other has come more than a second later. Libraries of different versions on the wire do not work
 * together: RCM_ERR_MISMATCH on all ranks names a rank, its host and both versions. A transport
 * that a rank cannot have, say for a limit of its process, is not used with that rank; where two
 * ranks are left without one, as where one has no address that the other's host can reach, all
 * ranks get RCM_ERR_UNSUPPORTED, which names them and what is missing. Ranks that have
 * not come after RINGCOMM_WARN_AFTER seconds are logged; a rank of rank 0's machine, or rank 0,
 * that joined and ended before all had is RCM_ERR_PEER. A rank 0 that ended before this process
 * began may have been of an earlier job, which left its store behind: RCM_ERR_CONFIG, saying both.
 * Ranks with different TORCHELASTIC_RESTART_COUNTs get RCM_ERR_CONFIG with both counts.
 * The deadline covers all calls of the store together. A call of options.store that has begun is
 * waited for; after the deadline others begin only to tell the other ranks, for some seconds. Where
 * the store was slow, RCM_ERR_TIMEOUT names it and how long its calls took.
 *
 * Source of the environment names: torch.distributed's env:// initialisation, torchrun, and the
 * launchers named.
 */
RCM_CHECKED rcm_status rcm_init(const struct rcm_init_options *options, rcm_comm **ret_comm);

/*
 * rcm_init in the background: begin returns at once, and a thread of the library does the rest.
 * Other ranks may call either of them. options, with its strings, is copied; a store in it must
 * outlive the request.
 *   test     RCM_PENDING, or what rcm_init returned, with its sentence in rcm_last_error();
 *            *ret_comm is the communicator, the caller's from then on
 *   wait     the same when it is through; RCM_PENDING if timeout_ms passed first (<0: never)
 *   cancel   gives the request back, in any state, also when it is through. One that is not ends
 *            within about a second, in the background, or in the call if options had a store; and
 *            rcm_init of the other ranks fails with a sentence that says so. A communicator that
 *            was not taken is aborted
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
 * Ends a communicator. Collective, with the communicator's timeout as deadline: waits for this
 * rank's unfinished operations, also those that callbacks issue meanwhile, and for all ranks; after
 * an error or abort it does not wait. A receive that gets no message is waited for like any other,
 * so rcm_work_cancel comes before, or rcm_destroy fails with RCM_ERR_TIMEOUT.
 * Connections (and the store, where this rank serves it) end with the last communicator that came
 * from the same rcm_init, when all ranks that are connected to this one have taken leave of it; the
 * rank that serves the store waits for all, until they have left that too (or have said to it that
 * they cannot reach it), but no longer than 5 s for one that still uses other communicators: nobody
 * needs the store for these. A rank of comm
 * that dies before is RCM_ERR_PEER, and named within a second; one that dies later is not missed.
 * So where a rank dies in rcm_destroy some of the others may get that error and some RCM_OK, which
 * says that all ranks had called rcm_destroy and finished their operations.
 * Frees comm, but not in a callback (RCM_ERR_INVALID); works must be freed before or after, their
 * status stays readable. NULL is a no-op.
 */
RCM_CHECKED rcm_status rcm_destroy(rcm_comm *comm);

/*
 * rcm_destroy in the background: returns at once, and a thread of the library does the rest. Other
 * ranks may call either of them. *ret_request is a request as of the communicators that are made
 * from others (see REQUESTS below), without a communicator. From then on comm is not the caller's:
 * only its works may still be tested, waited for and freed. A cancel makes comm fail on all its
 * ranks with RCM_ERR_CANCELED, which names this rank, and does not wait for its end. The process
 * waits for the request before it exits, or exits within the operation, which is a death.
 * RCM_ERR_INVALID: ret_request is NULL; in an operator's function. RCM_ERR_RESOURCE: there is no
 * thread. comm stays the caller's then. Legal in a callback.
 */
typedef struct rcm_comm_request rcm_comm_request;
RCM_CHECKED rcm_status rcm_destroy_begin(rcm_comm *comm, rcm_comm_request **ret_request);

/*
 * Ends a communicator for this rank alone, and waits for nobody. What it has sent can still be
 * received; later operations of the other ranks that need this rank fail with RCM_ERR_PEER and a
 * text that says that it has left, soon after they have come to wait for it (a receive from any
 * source when all others have left); where its process has ended, and was never connected to
 * theirs, the text says that it is lost. So does their rcm_destroy of comm: all ranks of a
 * communicator destroy it, or all leave it. rcm_comm_shrink goes on without this rank. Receives
 * that no message has matched end with RCM_ERR_CANCELED; those whose message is coming are waited
 * for, until their deadline or comm's timeout. If another operation is unfinished here, it is
 * rcm_abort (RCM_ERR_ABORTED). With the last communicator that
 * came from the same rcm_init this process takes leave of all others, for which it stays at most
 * 0.3 s until its farewell has been acknowledged, and half a second for the store. What it has sent
 * from memory of its device to ranks of this host lies there until they receive it, for which it
 * stays, too, at most 5 s: a receive that comes later is RCM_ERR_PEER. Frees comm in every case but
 * RCM_ERR_INVALID (NULL, or in a callback) and RCM_ERR_FORKED.
 *
 * A process that calls exit(), or returns from main, with communicators, but without unfinished
 * operations, says the same farewell, but does not stay for what lies in memory of its device.
 * _exit, exec and signals are deaths.
 */
RCM_CHECKED rcm_status rcm_leave(rcm_comm *comm);

/*
 * Ends all operations of comm on all ranks with RCM_ERR_ABORTED, from any thread, without
 * waiting. Local buffers are the caller's again when the works have completed (rcm_work_wait) or
 * rcm_destroy returned. No-op if comm already failed.
 */
RCM_CHECKED rcm_status rcm_abort(rcm_comm *comm, const char *reason);

/* This rank's number, 0..size-1, and the number of ranks. -1 for NULL. Any thread. */
int rcm_rank(const rcm_comm *comm);
int rcm_size(const rcm_comm *comm);
/* Number of ranks on this rank's host, and this rank's position among them. Ranks of one host have
 * one host_id and share memory. rcm_init proves that they can: ranks of two users without a secret,
 * in a sandbox, or on cloned machines with one host_id cannot. These are on different hosts, and
 * one rank of the host_id warns. If RINGCOMM_TRANSPORT has no shared memory, host_id alone counts.
 */
int rcm_local_rank(const rcm_comm *comm);
int rcm_local_size(const rcm_comm *comm);
/* The number that this rank of comm had from rcm_init: another one in a communicator that was made
 * from others. -1 if there is no such rank. Any thread. */
int rcm_world_rank(const rcm_comm *comm, int rank);

/* The first error that made comm unusable. */
struct rcm_error {
    uint32_t size;
    rcm_status status;  /* RCM_OK if there is none */
    int32_t origin;     /* rank where it began (the dead one, for RCM_ERR_PEER), -1 unknown */
    int32_t sys_errno;  /* errno of the system call that failed, 0 if none */
    uint64_t sequence;  /* number of the operation of comm, from 1; 0 if not in one */
    char operation[32]; /* "all_reduce"; "" if not in one */
    char text[512];     /* what happened, in a sentence */
};
#define RCM_ERROR_INIT RCM_SIZED_INIT(rcm_error)
/* Copies the record; returns its status. Any thread, any time before rcm_destroy. */
rcm_status rcm_comm_error(const rcm_comm *comm, struct rcm_error *ret_error);
/* The ranks that were missing from the rcm_monitored_barrier by whose timeout comm failed, the same
 * on all ranks: writes the first cap of them to ret_ranks, in ascending order, and how many there
 * are to *ret_count, 0 if comm has not failed by one. ret_ranks may be NULL if cap is 0. Any
 * thread, any time before rcm_destroy. */
RCM_CHECKED rcm_status rcm_comm_missing(const rcm_comm *comm, int *ret_ranks, size_t cap,
                                        size_t *ret_count);

/*
 * Runs fn(rank, arg) in nranks (at most 4096) new local processes (fork), with the environment set
 * so that rcm_init(NULL, ...) joins them; each exits with fn's result (0..125). The parent serves
 * the store and waits until timeout_ms (<0: for ever); the first failure or the deadline ends the
 * others (SIGTERM, after 3 s SIGKILL). *ret_failed_rank is the first that failed, -1 if none, and
 * *ret_exit its exit status (128 + signal if it was killed). Where SIGCHLD is ignored, or a handler
 * or another thread collects all children, a rank that returned from fn or called exit reports its
 * status itself; of one that ended otherwise *ret_exit is 125. Call it before the process has
 * threads. Returns RCM_OK if all exited with 0, RCM_ERR_PEER if one failed, RCM_ERR_TIMEOUT.
 */
RCM_CHECKED rcm_status rcm_spawn(int nranks, int (*fn)(int rank, void *arg), void *arg,
                                 int64_t timeout_ms, int *ret_failed_rank, int *ret_exit);

/* ---- Calls and works ----------------------------------------------------------------------- */

struct rcm_message;
/* The call checks its arguments and makes a work, but does not begin: rcm_work_start does. */
#define RCM_PERSISTENT 1u
/* With device memory: what its buffers hold is there already, and no stream is waited for. */
#define RCM_NO_STREAM 2u
/* With ret_work and wait_ms 0: asynchronous, but no work if the operation is complete at once. As
 * with wait_ms it returns RCM_OK or the operation's error, with NULL in *ret_work, or RCM_PENDING
 * and the work; it looks no longer than a call spins before it sleeps (RINGCOMM_SPIN_US). In a
 * callback on the library's thread, and without ret_work, it does not count. */
#define RCM_TRY_NOW 4u
/* timeout_ms 0 is no time, not the communicator's: what is not complete within about a millisecond
 * fails with RCM_ERR_TIMEOUT, and all that follows from that. Also of calls that make a
 * communicator, and of probes. */
#define RCM_EXACT_TIMEOUT 8u

/* Per-call settings; NULL means defaults. */
struct rcm_call {
    uint32_t size;
    uint32_t flags;        /* of RCM_PERSISTENT, RCM_NO_STREAM, RCM_TRY_NOW, RCM_EXACT_TIMEOUT */
    int64_t timeout_ms;    /* 0: the communicator's, but see RCM_EXACT_TIMEOUT; <0: for ever */
    const char *algorithm; /* NULL: chosen by price; the same on every rank */
    /* With ret_work: so long, in milliseconds, the call waits for its work itself (<0: as long as
     * it takes). It returns RCM_OK or the operation's error, with NULL in *ret_work, if that is
     * complete by then; else RCM_PENDING and the work, as if the call had been asynchronous. So a
     * program can wait with an eye on something else: rcm_work_wait goes on with it. 0: an
     * asynchronous call. Without ret_work it does not count, but for rcm_probe and rcm_mprobe. */
    int64_t wait_ms;
    /* Of a receive (rcm_recv, rcm_mrecv, rcm_sendrecv): what came is written there when it is
     * complete, until when that must live. NULL: not wanted. Other operations do not look at it. */
    struct rcm_message *message;
    /* With device memory (see DEVICE MEMORY): the operation begins after what is enqueued on this
     * CUstream (cudaStream_t) of the rank's device when the call, or rcm_work_start, is made; NULL:
     * on the legacy default stream. NULL with host memory. CU_STREAM_LEGACY and
     * CU_STREAM_PER_THREAD are the default streams of the device's primary context; the latter is
     * that of the thread that makes the call, or rcm_work_start. */
    void *stream;
    /* Why the call failed: written if it returns an error, and so has made no work, by the time it
     * returns; else left as it is. It is the caller's, and its size is set. status and text are
     * what the call returned and rcm_last_error says; the rest is as of rcm_comm_error where the
     * communicator has failed with that status, else 0, "", and the origin that is known, or -1.
     * NULL: not wanted. */
    struct rcm_error *error;
};
#define RCM_CALL_INIT RCM_SIZED_INIT(rcm_call)

/* Is it done? RCM_OK, RCM_PENDING, or the operation's error. Does not block. */
rcm_status rcm_work_test(rcm_work *work);
/* Waits until it is done; RCM_PENDING if timeout_ms passed first (<0: only the operation's own
 * deadline counts). The operation goes on then. Several threads may wait. */
RCM_CHECKED rcm_status rcm_work_wait(rcm_work *work, int64_t timeout_ms);
/* Like rcm_work_test without driving anything. */
rcm_status rcm_work_status(const rcm_work *work);
/* Ends a receive that has no message yet: its work is then complete with RCM_ERR_CANCELED, the
 * buffer is the caller's, and a message that comes later is for the next receive. RCM_OK: the work
 * is complete, so or, if it was too late, as it would have been (rcm_work_status tells which).
 * RCM_PENDING: its message is coming, and it goes on. Other works than receives: RCM_ERR_INVALID;
 * persistent ones: RCM_ERR_UNSUPPORTED. Source: MPI_Cancel. */
RCM_CHECKED rcm_status rcm_work_cancel(rcm_work *work);
/* Of a complete receive, or rcm_sendrecv: the sender's rank, its tag, the bytes of the message (of
 * a truncated one more than were received). RCM_PENDING: it is not complete; the error of one that
 * failed, and RCM_ERR_INVALID for other works; nothing is written then. Any thread. */
struct rcm_message {
    uint32_t size;
    int32_t source;
    uint64_t tag;
    size_t bytes;
};
#define RCM_MESSAGE_INIT RCM_SIZED_INIT(rcm_message)
RCM_CHECKED rcm_status rcm_work_message(const rcm_work *work, struct rcm_message *ret_message);
/*
 * Starts a persistent work, for the first time or again: the operation of the call that made it,
 * with the same arguments, of which nothing is checked or chosen anew. Asynchronous; all that is
 * said of works holds for each run of it. Sends, receives and collectives can be persistent, also
 * rcm_coalesced of at least one part; rcm_sendrecv, rcm_batch and the forms with _bytes are
 * RCM_ERR_UNSUPPORTED then. Collectives count where they are started, so all ranks start the same
 * ones in the same order; a rank may pair a start with a plain call of the others. The arrays of
 * counts, lists and parts are the call's only, as ever.
 *   - Until it is started it counts as complete. While it runs, a start is RCM_ERR_INVALID.
 *   - A callback is of the run that is under way, or the last one; a descriptor is readable from
 *     the completion of a run to the next start; in the completion queue the work comes once for
 *     each run, unless it is started again before it is taken out.
 *   - rcm_work_free frees it, after its run if it is running. After rcm_destroy it does not start.
 * Source: MPI_Start, and MPI_Allreduce_init and its like (MPI 4.0).
 */
RCM_CHECKED rcm_status rcm_work_start(rcm_work *work);
/* Why it failed: status, origin and text as of rcm_comm_error where the communicator has failed,
 * but the work's own operation and sequence. Returns its status; RCM_PENDING: it is not complete,
 * and nothing is written. Any thread. */
rcm_status rcm_work_error(const rcm_work *work, struct rcm_error *ret_error);
/* The number of a collective among those of its communicator, from 1, the same on all ranks; of
 * rcm_coalesced that of the last part. 0 of a send or receive, and for NULL. Any thread. */
uint64_t rcm_work_sequence(const rcm_work *work);
/* How many collectives were issued on comm: the number of the last one. The thread that issues. */
uint64_t rcm_comm_sequence(const rcm_comm *comm);
/* Gives the work back; unfinished: detaches it. NULL is a no-op. */
void rcm_work_free(rcm_work *work);

/*
 * Several works, of any communicators. NULL entries are ignored. timeout_ms as in rcm_work_wait.
 *   wait_all   waits until all are complete: RCM_OK, or the error of the first in the array that
 *              failed, of which rcm_last_error() tells more. RCM_PENDING if timeout_ms passed; 0
 *              asks whether all are
 *   wait_any   waits until one is: *ret_index is its position and the call returns its status; of
 *              several the first in the array. If all entries are NULL, RCM_OK and *ret_index is n
 *   test_any   the same without waiting
 * Nothing is freed. Any thread; none polls: a thread sleeps until an operation is complete.
 * Source: MPI_Waitall, MPI_Waitany, MPI_Testany.
 */
RCM_CHECKED rcm_status rcm_work_wait_all(rcm_work *const *works, size_t n, int64_t timeout_ms);
RCM_CHECKED rcm_status rcm_work_wait_any(rcm_work *const *works, size_t n, int64_t timeout_ms,
                                         size_t *ret_index);
RCM_CHECKED rcm_status rcm_work_test_any(rcm_work *const *works, size_t n, size_t *ret_index);

/*
 * Calls fn(arg, status) once when the work is complete, on the library's thread of this rank; if it
 * is complete already, at once, in the call. Several callbacks of a work come in the order in which
 * they were asked for. They are called in any case, also if the work was freed meanwhile or its
 * communicator fails, and before rcm_destroy returns. fn may not block: no blocking operation, no
 * rcm_work_wait with a timeout other than 0, and of what makes or ends a communicator, prepares one
 * or waits for a request only the forms that begin or test (all others are RCM_ERR_INVALID there):
 * all communication of the rank waits for it. It may issue operations with ret_work, if no other
 * thread does, test and free works. Any thread.
 */
RCM_CHECKED rcm_status rcm_work_on_complete(rcm_work *work,
                                            void (*fn)(void *arg, rcm_status status), void *arg);
/* Gives the work back, as rcm_work_free does, and calls released(arg, status) when it is complete:
 * then its buffers are the caller's again. After an error the work is still the caller's. */
RCM_CHECKED rcm_status rcm_work_detach(rcm_work *work,
                                       void (*released)(void *arg, rcm_status status), void *arg);
/* A descriptor that becomes readable (poll, epoll) when the work is complete, and stays so. Made by
 * the first call; the library's, closed by rcm_work_free: not to be read, written or closed. Who
 * needs one for each of many works uses the queue below. RCM_ERR_RESOURCE if there are no more
 * descriptors. Any thread. */
RCM_CHECKED rcm_status rcm_work_fd(rcm_work *work, int *ret_fd);

/*
 * The completion queue of a communicator: from the first call on, every work that comm hands out
 * goes into it when it is complete, in that order. *ret_fd is readable while it is not empty; the
 * library's, until rcm_destroy. rcm_comm_next_completion takes the next work out, the same pointer
 * that the call returned, which the caller frees as ever: RCM_AGAIN if there is none. A work that
 * is freed before does not come. Any thread; each work comes to one of them.
 */
RCM_CHECKED rcm_status rcm_comm_completions(rcm_comm *comm, int *ret_fd);
RCM_CHECKED rcm_status rcm_comm_next_completion(rcm_comm *comm, rcm_work **ret_work);

/*
 * A completion queue of the process, for works of any communicators. Each work is given to it with
 * an argument of the program; one thread can so complete the futures of all groups.
 *   - Each giving is reported once: also if the work is complete by then, fails, is canceled, is
 *     dropped by rcm_leave or rcm_destroy (before these return), or ends by an abort or the death
 *     of a rank. Reports come in the order of completion, of works of one rcm_init.
 *   - Works of all kinds can be given: collectives, messages, batches; a persistent one is given
 *     anew for each run, after rcm_work_start. A work that is given twice is reported twice.
 *   - The work stays the program's, which frees it after its report, or before: then the report
 *     comes all the same, and rcm_completion.work is only a number.
 * The queue belongs to its creator; it needs no communicator, and may be there before the first and
 * after the last one. All functions but rcm_queue_free: any thread, any number of them at a time,
 * also in callbacks, where rcm_queue_wait does not wait. After fork() the child has no use of it
 * but rcm_queue_free; else RCM_ERR_FORKED.
 */
typedef struct rcm_queue rcm_queue;
struct rcm_completion {
    void *arg;         /* of rcm_queue_give */
    rcm_work *work;    /* that was given */
    rcm_status status; /* with which it is complete; rcm_work_error has more */
};
RCM_CHECKED rcm_status rcm_queue_create(rcm_queue **ret_queue);
/* An error gives nothing: RCM_ERR_NOMEM, RCM_ERR_INVALID. */
RCM_CHECKED rcm_status rcm_queue_give(rcm_queue *queue, rcm_work *work, void *arg);
/* Takes up to cap completions out: waits until there is one, and takes what is there by then.
 * *ret_n is how many, 0 unless RCM_OK is returned. RCM_PENDING: timeout_ms passed (<0: it does not;
 * 0: it only looks). RCM_ERR_CANCELED: the queue was freed meanwhile. RCM_ERR_INVALID: cap is 0. It
 * makes nothing go on: asynchronous operations do by themselves. */
RCM_CHECKED rcm_status rcm_queue_wait(rcm_queue *queue, struct rcm_completion *completions,
                                      size_t cap, int64_t timeout_ms, size_t *ret_n);
/* A descriptor that is readable while the queue is not empty. Made by the first call; the
 * library's, until rcm_queue_free. RCM_ERR_RESOURCE if there are no more descriptors. */
RCM_CHECKED rcm_status rcm_queue_fd(rcm_queue *queue, int *ret_fd);
/* Frees it, with what was not taken out. Works that were given go on, and are not reported. Threads
 * in rcm_queue_wait return; no thread begins another call with it. NULL is a no-op. */
void rcm_queue_free(rcm_queue *queue);

/* ---- Communicators from others -------------------------------------------------------------- */

/*
 * Makes a communicator of n ranks of parent: rank i of the new one is rank ranks[i] of parent.
 * Collective among these ranks alone: each calls it with the same list in the same order and the
 * same tag, and it returns when all have, with call->timeout_ms (else parent's) as deadline; of
 * call nothing else counts. The other ranks need not call it. One that does gets a handle at once,
 * without waiting: rcm_rank is -1, rcm_size n, and every operation on it is complete at once with
 * RCM_OK, does nothing and writes nothing, probes neither (and so with communicators that are made
 * from it); it is freed by rcm_destroy.
 *   - tag, any number, tells apart what several threads make at the same time of the same ranks,
 *     or of lists that share ranks. One thread that makes one after the other can give 0.
 *   - The new one has parent's settings and timeout. It shares connections and memory for messages
 *     with the others from the same rcm_init, and is independent of them otherwise: operations,
 *     their order, errors, deadlines and rcm_abort are each communicator's own. The death of a
 *     process ends every communicator in which it is a rank.
 *   - parent must live during the call only: communicators are destroyed in any order.
 *   - An error concerns this call, not parent. RCM_ERR_TIMEOUT: a member has not come; the text
 *     names it. RCM_ERR_MISMATCH: when the deadline passed that member was in this function with
 *     the same tag and another list; the text has both. RCM_ERR_PEER: a member died or has left.
 *     All members that were waiting get the same error, and it may be called again by all.
 * Any thread. Source: MPI_Comm_create_group; new_group of torch.distributed.
 */
RCM_CHECKED rcm_status rcm_comm_subset(rcm_comm *parent, const int *ranks, int n, uint64_t tag,
                                       const struct rcm_call *call, rcm_comm **ret_comm);

/*
 * Makes a communicator of the ranks of each colour, in the order of their keys, and of their ranks
 * where keys are equal. Collective: all ranks of parent call it (an all_gather, then as
 * rcm_comm_subset). colour < 0: this rank is in none, and gets a handle as there, of size 0.
 * Source: MPI_Comm_split.
 */
RCM_CHECKED rcm_status rcm_comm_split(rcm_comm *parent, int colour, int key,
                                      const struct rcm_call *call, rcm_comm **ret_comm);
/* The ranks of each host, in their order: their numbers are those of rcm_local_rank. Collective.
 * Source: MPI_Comm_split_type with MPI_COMM_TYPE_SHARED. */
RCM_CHECKED rcm_status rcm_comm_split_hosts(rcm_comm *parent, const struct rcm_call *call,
                                            rcm_comm **ret_comm);
/* All ranks of parent again. Collective. Source: MPI_Comm_dup. */
RCM_CHECKED rcm_status rcm_comm_duplicate(rcm_comm *parent, const struct rcm_call *call,
                                          rcm_comm **ret_comm);

/*
 * REQUESTS. The same calls in the background: begin checks the arguments, counts among the calls on
 * parent, and returns at once; a short-lived thread of the library does the rest. Other ranks may
 * call either form. Lists are copied.
 *   test     RCM_PENDING, or what the call would have returned, with its sentence in
 *            rcm_last_error(); *ret_comm is the communicator, the caller's from then on. Of
 *            rcm_destroy_begin ret_comm is not used and may be NULL
 *   wait     the same when it is through; RCM_PENDING if timeout_ms passed first (<0: never)
 *   cancel   gives the request back, in any state, also when it is through. If it is not, its call
 *            ends on all its ranks with RCM_ERR_CANCELED, which names this rank, also on those that
 *            call it later. A rank that has made the communicator by then gets the same from its
 *            first operation on it, and so where one was not taken. It returns when this rank's
 *            part has ended, within about a second; only the all_gather of a split goes on until
 *            all ranks have called it. In a callback it does not wait for that
 * ORDER. rcm_comm_split, _split_hosts and _duplicate, in either form, count as one collective of
 * parent each: all its ranks call, or begin, them in the same order among its collectives and each
 * other. A begun one counts where it was begun; parent is free for the next call at once. The n-th
 * rcm_comm_subset of a list and tag is the n-th one on each of these ranks, and the n-th
 * rcm_comm_shrink of a communicator is the n-th one on each rank: those that were canceled count,
 * and after them parent is as before. So a rank that has not made a call when another one cancels
 * it makes it all the same, gets RCM_ERR_CANCELED, and then makes the next one.
 * parent lives until the request is through or canceled. begin may be called in a callback; one
 * that fails for lack of a thread (RCM_ERR_RESOURCE) is a cancel for the other ranks, and of a
 * split the failure of parent. test, wait and cancel: any thread.
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

/* Which rank of `to` the given rank of `from` is, both from the same rcm_init; -1 if it is none.
 * Also of handles of rcm_comm_subset on ranks that are no members. Any thread. */
int rcm_comm_translate(const rcm_comm *from, int rank, const rcm_comm *to);

/* What comm is called in texts of errors and reports of hangs, and by ringcomm-info --live; this
 * rank's own matter. At first "world", or which ranks of the world it has: "ranks 0-3, tag 7".
 * name: 1 to RCM_NAME_MAX - 1 bytes; copied. Any thread. */
#define RCM_NAME_MAX 64
RCM_CHECKED rcm_status rcm_comm_set_name(rcm_comm *comm, const char *name);
/* "" for NULL. Lives as long as comm, and changes with rcm_comm_set_name. */
const char *rcm_comm_name(const rcm_comm *comm);
/* The deadline of operations of comm that are called from now on with rcm_call.timeout_ms 0, in
 * milliseconds; <0: for ever. 0 is RCM_ERR_INVALID. This rank's own matter; any thread. */
RCM_CHECKED rcm_status rcm_comm_set_timeout(rcm_comm *comm, int64_t timeout_ms);
int64_t rcm_comm_timeout(const rcm_comm *comm);
/* How long a waiting call on comm spins before its thread sleeps, in microseconds: 0 (sleep at
 * once) to 1,000,000; -1, the default, is RINGCOMM_SPIN_US. A longer spin saves the wake-up of
 * about 40 us when ranks come later than that, and uses the CPU meanwhile. Communicators made from
 * comm later have the same value. It concerns this rank only. Any thread.
 * Errors: RCM_ERR_INVALID for another value. */
RCM_CHECKED rcm_status rcm_comm_set_spin(rcm_comm *comm, int64_t us);

/*
 * Makes a communicator of the ranks of comm that are left, in their old order with ranks 0..k-1,
 * after some have died or left, or comm failed for another reason. Collective among the rest: each
 * calls it, with call->timeout_ms (else comm's) as deadline; of call nothing else counts. It needs
 * no store, and any rank may die before, during and after it, rank 0 too.
 *   - comm is ended by it: operations that are still running fail on all ranks (RCM_ERR_ABORTED if
 *     comm had not failed), and what is on its way is dropped. Nothing but rcm_destroy and another
 *     shrink is of use afterwards; destroy may come at any time, also after the new one's, and
 *     does not wait.
 *   - Every survivor gets the same ranks. A rank that dies meanwhile may be among them: then the
 *     new communicator fails like any other, and is shrunk in turn. So a program loops: work,
 *     and when that fails, shrink, destroy the old one, and work on the new one.
 *   - The new one has the settings of comm. Connections that exist are used, others are made when
 *     needed. rcm_world_rank tells which rank is which.
 *   - RCM_ERR_TIMEOUT: a rank is alive and has not called it; rcm_last_error() names it, the same
 *     one on every rank that called. It may be called again then, by all.
 *   - RCM_ERR_PEER: this rank is alive, but the others hold it for lost (it was stopped or cut off
 *     for too long) and go on without it; it will not get in again. Of two groups that cannot reach
 *     each other the larger goes on, of equal ones that with the lowest rank, as far as each
 *     can see that the other's processes are there; hosts that do not answer count as dead.
 * Source: MPI_Comm_shrink of ULFM (User Level Failure Mitigation).
 */
RCM_CHECKED rcm_status rcm_comm_shrink(rcm_comm *comm, const struct rcm_call *call,
                                       rcm_comm **ret_comm);
/* The same in the background, see REQUESTS: comm is ended by the call. */
RCM_CHECKED rcm_status rcm_comm_shrink_begin(rcm_comm *comm, const struct rcm_call *call,
                                             rcm_comm_request **ret_request);

/*
 * The same, which leaves out n ranks that may be alive, say because they hang: world_ranks are
 * their numbers in the world (rcm_world_rank), in any order. The others agree without them,
 * whatever they do; n may be 0. All others give the same ranks: a difference is RCM_ERR_MISMATCH on
 * all that called, with two ranks and what they gave, and it may be called again by all.
 *   - An excluded rank whose operation or next call finds comm failed gets that error, which names
 *     the rank that shrinks and this function, unless comm had failed before. Its own
 *     rcm_comm_shrink of comm is RCM_ERR_PEER, which names the rank that excluded it and this
 *     function, as long as one of the others is there. It will not get in again.
 *   - Ranks that are dead or have left may be excluded, too. Two groups that exclude each other
 * both go on.
 *   - RCM_ERR_INVALID: world_ranks is NULL and n is not 0, n < 0, a rank that is none of comm, or
 *     this one, or one that is there twice. comm is as before then.
 */
RCM_CHECKED rcm_status rcm_comm_shrink_excluding(rcm_comm *comm, const int *world_ranks, int n,
                                                 const struct rcm_call *call, rcm_comm **ret_comm);
RCM_CHECKED rcm_status rcm_comm_shrink_excluding_begin(rcm_comm *comm, const int *world_ranks,
                                                       int n, const struct rcm_call *call,
                                                       rcm_comm_request **ret_request);

/* ---- Collectives --------------------------------------------------------------------------- */

/* Numbers are part of the wire and never reused. */
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
 * recv[i] on every rank becomes send[i] of all ranks combined by op, i < count.
 * Buffers: count elements each; send == recv is in place.
 * Algorithms: ring (Patarasuk and Yuan 2009), halving_doubling (Rabenseifner 2004), double_tree
 * (Sanders, Speck and Traeff 2009), circulant (Traeff 2025), recursive_doubling, binomial, one_shot
 * and two_shot (one host), two_level (several). `ringcomm-plan all_reduce --list` describes them.
 */
RCM_CHECKED rcm_status rcm_all_reduce(rcm_comm *comm, const void *send, void *recv, size_t count,
                                      rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                                      rcm_work **ret_work);

/*
 * buffer on every rank becomes buffer of rank root. The root may return before the others have
 * called, or wait for them.
 * Algorithms: binomial, chain and double_tree (pipelined), flat and direct (one host), two_level.
 */
RCM_CHECKED rcm_status rcm_broadcast(rcm_comm *comm, void *buffer, size_t count, rcm_dtype dtype,
                                     int root, const struct rcm_call *call, rcm_work **ret_work);

/*
 * Returns on no rank before it was called on every rank. It drains the communicator's earlier
 * collectives: it starts on a rank when all those that were issued there before it are complete, so
 * when it is complete on any rank, they are on all ranks. Collectives issued after an asynchronous
 * one do not start before it does. Sends and receives are not waited for.
 * Algorithms: dissemination (Hensgen, Finkel and Manber 1988), binomial, flat (one host),
 * two_level.
 */
RCM_CHECKED rcm_status rcm_barrier(rcm_comm *comm, const struct rcm_call *call,
                                   rcm_work **ret_work);

/*
 * A barrier that tells which ranks do not come. When the deadline passes on a rank that waits in
 * it, the ranks are asked what they do, and all get RCM_ERR_TIMEOUT with the same list of those
 * that are missing, as text (rcm_comm_error: "ranks 1, 3-5 are missing: rank 1 (pid 4711 on node7)
 * is in recv from rank 3 (tag 7), ...", as much as fits) and as numbers (rcm_comm_missing). The
 * error's origin is the rank that the others wait for, through others perhaps. Missing are the
 * ranks that have not called it, whatever they wait for, and those of which that is not known
 * because they do not answer; if there are none of these, those that have called it and do not
 * answer any more. A rank that dies is RCM_ERR_PEER, as everywhere.
 *   - flags: 0, or RCM_FIRST_MISSING: only the lowest missing rank is listed, and is the origin.
 *     The same on all ranks. It does not make the call return earlier.
 *   - The timeout ends the communicator, as any other does.
 *   - Otherwise as rcm_barrier. To make the list takes up to half a second, with 16 ranks or
 *     more up to a second, and longer as long as ranks still answer. Of more than 27936 ranks there
 *     is none.
 * Source: torch.distributed.monitored_barrier; there only rank 0 knows the list, RCM_FIRST_MISSING
 * is wait_all_ranks=False, and rank 0 itself must come.
 */
#define RCM_FIRST_MISSING 1u
RCM_CHECKED rcm_status rcm_monitored_barrier(rcm_comm *comm, uint32_t flags,
                                             const struct rcm_call *call, rcm_work **ret_work);

/*
 * The collectives below move blocks of count elements, one for each rank or each pair of ranks. p
 * is the number of ranks; a buffer of p blocks holds them one after the other, that of rank 0
 * first. A buffer that the text does not give to a rank is not looked at there and may be NULL. In
 * place: where both buffers are of the same length, send == recv; else the smaller one is this
 * rank's block of the larger one. Each rank passes the same count, dtype, op and root.
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

/* Block r of recv (p blocks) = block of this rank's number of send (p blocks) of rank r.
 * Algorithms: pairwise, also with 8 exchanges at a time, bruck with radix 2, 4 and 8, two_level by
 * several leaders of each host or by one. */
RCM_CHECKED rcm_status rcm_all_to_all(rcm_comm *comm, const void *send, void *recv, size_t count,
                                      rcm_dtype dtype, const struct rcm_call *call,
                                      rcm_work **ret_work);

/* recv on rank r = op over send of ranks 0..r, in rank order, count elements each. A rank may
 * return before those after it have called, or wait for them. Algorithms: direct, chain
 * (pipelined), recursive_doubling (Hillis and Steele 1986). */
RCM_CHECKED rcm_status rcm_scan(rcm_comm *comm, const void *send, void *recv, size_t count,
                                rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                                rcm_work **ret_work);

/* The same without the rank's own: recv on rank r = op over send of ranks 0..r-1, in rank order.
 * Rank 0 has no result, its recv is not touched. Algorithms: as of rcm_scan. */
RCM_CHECKED rcm_status rcm_exscan(rcm_comm *comm, const void *send, void *recv, size_t count,
                                  rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                                  rcm_work **ret_work);

/*
 * inout[i] = in[i] op inout[i], i < count, on this rank alone: nothing is sent, no communicator is
 * needed. By the code that collectives reduce with, so with the same bits. The buffers may not
 * overlap. Any thread. Source: MPI_Reduce_local.
 */
RCM_CHECKED rcm_status rcm_reduce_local(const void *in, void *inout, size_t count, rcm_dtype dtype,
                                        rcm_op op);

/*
 * Blocks of unequal length. The functions below do the same as those of their name, but each block
 * has its own count, and a place of its own: with _v, at element displs[i] of its buffer (displs
 * NULL: one after the other), with _list, at send[i] or recv[i]. A call with _v on one rank and
 * with _list on another is one collective. Counts are in elements; displs and counts have one entry
 * for each rank, and are not used after the call has returned. Blocks of no elements are legal, and
 * their pointers may be NULL.
 *
 * A count is given on each rank that has the block, and must be the same there: of scatter_v and
 * gather_v by the root and the rank of the block, of all_to_all_v by sender and receiver, of
 * all_gather_v and reduce_scatter_v by all ranks. Where not, all get RCM_ERR_MISMATCH, and the text
 * names two ranks and their counts; of all_gather_v and reduce_scatter_v only if they differ in one
 * of the first 16.
 *
 * In place: the single block, if it is this rank's block of the other buffer (same address). There
 * is none for all_to_all_v: RCM_ERR_UNSUPPORTED. Other overlaps of blocks of send with blocks of
 * recv are RCM_ERR_INVALID, as far as they are seen; blocks of recv that overlap each other are
 * undefined.
 *
 * The text of an error names the argument, as in "recv_counts[3]".
 * Source: MPI_Scatterv and its like (MPI 4.0, chapter 6).
 */

/* Root: block r of send, send_counts[r] elements, to rank r. The others' send, send_counts and
 * send_displs are not looked at. Algorithm: direct. */
RCM_CHECKED rcm_status rcm_scatter_v(rcm_comm *comm, const void *send, const size_t *send_counts,
                                     const size_t *send_displs, void *recv, size_t recv_count,
                                     rcm_dtype dtype, int root, const struct rcm_call *call,
                                     rcm_work **ret_work);
RCM_CHECKED rcm_status rcm_scatter_list(rcm_comm *comm, const void *const *send,
                                        const size_t *send_counts, void *recv, size_t recv_count,
                                        rcm_dtype dtype, int root, const struct rcm_call *call,
                                        rcm_work **ret_work);

/* Block r of the root's recv, recv_counts[r] elements, from rank r. The others' recv, recv_counts
 * and recv_displs are not looked at. Algorithm: direct. */
RCM_CHECKED rcm_status rcm_gather_v(rcm_comm *comm, const void *send, size_t send_count, void *recv,
                                    const size_t *recv_counts, const size_t *recv_displs,
                                    rcm_dtype dtype, int root, const struct rcm_call *call,
                                    rcm_work **ret_work);
RCM_CHECKED rcm_status rcm_gather_list(rcm_comm *comm, const void *send, size_t send_count,
                                       void *const *recv, const size_t *recv_counts,
                                       rcm_dtype dtype, int root, const struct rcm_call *call,
                                       rcm_work **ret_work);

/* Block r of recv, recv_counts[r] elements, from rank r, on all ranks. Algorithms: as
 * rcm_all_gather; the longest block should not be much longer than the others, for all are cut into
 * as many slices. */
RCM_CHECKED rcm_status rcm_all_gather_v(rcm_comm *comm, const void *send, size_t send_count,
                                        void *recv, const size_t *recv_counts,
                                        const size_t *recv_displs, rcm_dtype dtype,
                                        const struct rcm_call *call, rcm_work **ret_work);
RCM_CHECKED rcm_status rcm_all_gather_list(rcm_comm *comm, const void *send, size_t send_count,
                                           void *const *recv, const size_t *recv_counts,
                                           rcm_dtype dtype, const struct rcm_call *call,
                                           rcm_work **ret_work);

/* recv (recv_count elements) on rank r = op over all ranks of block r of send (send_counts[r]).
 * Algorithms: as rcm_reduce_scatter, and as there of the longest block. */
RCM_CHECKED rcm_status rcm_reduce_scatter_v(rcm_comm *comm, const void *send,
                                            const size_t *send_counts, const size_t *send_displs,
                                            void *recv, size_t recv_count, rcm_dtype dtype,
                                            rcm_op op, const struct rcm_call *call,
                                            rcm_work **ret_work);
RCM_CHECKED rcm_status rcm_reduce_scatter_list(rcm_comm *comm, const void *const *send,
                                               const size_t *send_counts, void *recv,
                                               size_t recv_count, rcm_dtype dtype, rcm_op op,
                                               const struct rcm_call *call, rcm_work **ret_work);

/* Block r of recv, recv_counts[r] elements, from rank r: its block of this rank's number, of which
 * its send_counts has as many. Algorithm: direct. */
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
 * One collective on each of n pairs of buffers, as n calls one after the other, but with one work:
 * it is done when all are. Parts may differ in count and type; n and each part's count and type are
 * the same on all ranks. collective: any of the above whose blocks are of one length; of a part of
 * a broadcast, recv is the buffer. op and root, if it has such, are of all parts. No parts: nothing
 * is done. parts is not used after the call has returned, the buffers are. If one part fails so do
 * all. The text of an error names the part: "parts[3]: recv is NULL ...".
 * Source: the coalesced collectives of torch.distributed.
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
 * Bytes whose lengths the library exchanges. What a rank receives is memory from malloc, one block
 * with all in it, which the caller frees with free(): block i is data[offsets[i]] to
 * data[offsets[i + 1] - 1], with nothing between blocks. *ret_bytes is written when the operation
 * is complete (and becomes NULL in the call), so it lives at least until then; it stays NULL on a
 * rank that receives nothing, and where the operation fails. A rank that has no memory for what
 * comes ends the communicator (RCM_ERR_NOMEM). The lengths travel first, so each takes two
 * collectives one after the other. Algorithms: those of the collective, for the lengths and where
 * call->algorithm says one, and of its form with _v, by cost.
 */
struct rcm_bytes {
    size_t n; /* blocks */
    const size_t *offsets;
    unsigned char *data;
};

/* One block, the root's send, on all ranks but the root. */
RCM_CHECKED rcm_status rcm_broadcast_bytes(rcm_comm *comm, const void *send, size_t bytes, int root,
                                           struct rcm_bytes **ret_bytes,
                                           const struct rcm_call *call, rcm_work **ret_work);
/* One block, the root's send[r] of bytes[r] bytes, on rank r, the root too. The others' send and
 * bytes are not looked at. */
RCM_CHECKED rcm_status rcm_scatter_bytes(rcm_comm *comm, const void *const *send,
                                         const size_t *bytes, int root,
                                         struct rcm_bytes **ret_bytes, const struct rcm_call *call,
                                         rcm_work **ret_work);
/* p blocks, that of rank r being its send, on the root. */
RCM_CHECKED rcm_status rcm_gather_bytes(rcm_comm *comm, const void *send, size_t bytes, int root,
                                        struct rcm_bytes **ret_bytes, const struct rcm_call *call,
                                        rcm_work **ret_work);
/* The same on all ranks. */
RCM_CHECKED rcm_status rcm_all_gather_bytes(rcm_comm *comm, const void *send, size_t bytes,
                                            struct rcm_bytes **ret_bytes,
                                            const struct rcm_call *call, rcm_work **ret_work);

/* ---- Point to point ------------------------------------------------------------------------ */

#define RCM_ANY_TAG    UINT64_MAX
#define RCM_ANY_SOURCE (-1)

/*
 * Sends count elements to rank dst under tag (any number below RCM_ANY_TAG). Done when buffer
 * may be reused, which may be before or after the receiver has it: a blocking send may wait for
 * the matching receive. To oneself: legal if the receive is asynchronous or already posted.
 * A rank that runs ahead is slowed: of messages to one rank for which no receive was posted there
 * some thousands, or 1 MiB (with more than 64 ranks less, 64 MiB among all), are kept there, and
 * 65536 more (with more than 16 ranks less, a million among all, but at least 1024) are announced
 * there; the others wait in their sender until receives are posted, whatever their tag.
 */
RCM_CHECKED rcm_status rcm_send(rcm_comm *comm, const void *buffer, size_t count, rcm_dtype dtype,
                                int dst, uint64_t tag, const struct rcm_call *call,
                                rcm_work **ret_work);

/* The same, but done only when the matching receive has been posted and has met the message,
 * however small: so the receiver has called it. To oneself: legal as a blocking call only if the
 * receive was posted before. Source: MPI_Ssend. */
RCM_CHECKED rcm_status rcm_ssend(rcm_comm *comm, const void *buffer, size_t count, rcm_dtype dtype,
                                 int dst, uint64_t tag, const struct rcm_call *call,
                                 rcm_work **ret_work);

/*
 * Receives from rank src, or with RCM_ANY_SOURCE from any rank, this one too, the next message
 * under tag, or with RCM_ANY_TAG the next of any tag, of at most count elements. A message belongs
 * to the receive that was posted first of those that it is for, a receive gets the message that
 * came first; of one sender those of a tag come in the order in which they were sent, of several
 * none starves another. A receive from any source connects to all ranks, and from then on a look
 * for messages is one at each of them. Like every other operation it fails when any rank of comm
 * dies, whoever that is; it goes on when one leaves (rcm_leave), and fails when all others have. A
 * longer message is RCM_ERR_TRUNCATED, does not harm the communicator, and the first count elements
 * are there. rcm_work_message tells the size that came; a shorter message leaves the rest of the
 * buffer as it was.
 */
RCM_CHECKED rcm_status rcm_recv(rcm_comm *comm, void *buffer, size_t count, rcm_dtype dtype,
                                int src, uint64_t tag, const struct rcm_call *call,
                                rcm_work **ret_work);

/* Send to one rank and receive from one, perhaps the same, together: as rcm_send and rcm_recv, but
 * neither waits for the other, so ranks that all call it do not wait in a circle. */
RCM_CHECKED rcm_status rcm_sendrecv(rcm_comm *comm, const void *send, size_t send_count, int dst,
                                    uint64_t send_tag, void *recv, size_t recv_count, int src,
                                    uint64_t recv_tag, rcm_dtype dtype, const struct rcm_call *call,
                                    rcm_work **ret_work);

/*
 * Several sends and receives with one work, which is done when all are. They are issued together,
 * in any order: none waits for another, so any sends and receives that match across the ranks end
 * well, also each with others of an rcm_batch, and also of several communicators. All are checked
 * before the first is issued; the text of an error names it: "transfers[3]: dst 9 is no rank ...".
 * Two to one rank under one tag are in the order of the array. If one fails the others go on, and
 * the work has the error of the first that failed. No transfers: nothing is done. The array is not
 * used after the call has returned, buffers and messages are. Any thread.
 * torch.distributed's batch_isend_irecv(ops) is one call with ret_work. What stands between
 * ncclGroupStart() and ncclGroupEnd() is one array of its ncclSend and ncclRecv; collectives beside
 * them are called with a ret_work of their own, which never waits.
 */
enum rcm_transfer_kind { RCM_TRANSFER_SEND = 1, RCM_TRANSFER_SSEND = 2, RCM_TRANSFER_RECV = 3 };
struct rcm_transfer {
    enum rcm_transfer_kind kind;
    int peer;       /* as dst of rcm_send, src of rcm_recv */
    rcm_comm *comm; /* NULL: that of the call */
    void *buffer;   /* of a send only read */
    size_t count;
    uint64_t tag;
    rcm_dtype dtype;
    struct rcm_message *message; /* of a receive, as in rcm_call */
};
RCM_CHECKED rcm_status rcm_batch(rcm_comm *comm, const struct rcm_transfer *transfers, size_t n,
                                 const struct rcm_call *call, rcm_work **ret_work);

/*
 * What a receive with this src and tag would get, without receiving it: sender, tag and length are
 * written to *ret_message, if that is not NULL. A message for which a receive is posted is not
 * seen.
 *   probe    waits until there is one; of call timeout_ms counts, and wait_ms, if it is above 0:
 *            after so long the call returns RCM_PENDING, nothing is written or taken, and it can be
 *            made again. Each call has the whole of timeout_ms
 *   iprobe   RCM_OK: there is one; RCM_PENDING: not yet, and nothing is written
 *   mprobe, improbe   the same, and take it out: no other receive or probe gets it, but rcm_mrecv
 *            with *ret_matched. So of several threads each receives the message that it has seen
 *   mrecv    receives it, once; one that is not received lives until comm is destroyed.
 *            RCM_ERR_INVALID, of the call or its work, if comm has no such one; like a wrong
 *            argument, that leaves everything as it was
 * src may be RCM_ANY_SOURCE, tag RCM_ANY_TAG, with all that rcm_recv says of them. Any thread, but
 * not in a callback.
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

/* The same as rcm_send, rcm_ssend and rcm_recv, always asynchronous: ret_work must not be NULL. */
RCM_CHECKED rcm_status rcm_isend(rcm_comm *comm, const void *buffer, size_t count, rcm_dtype dtype,
                                 int dst, uint64_t tag, rcm_work **ret_work);
RCM_CHECKED rcm_status rcm_issend(rcm_comm *comm, const void *buffer, size_t count, rcm_dtype dtype,
                                  int dst, uint64_t tag, rcm_work **ret_work);
RCM_CHECKED rcm_status rcm_irecv(rcm_comm *comm, void *buffer, size_t count, rcm_dtype dtype,
                                 int src, uint64_t tag, rcm_work **ret_work);

/* ---- Memory -------------------------------------------------------------------------------- */

/*
 * Memory for buffers that are used again and again: at least `bytes`, page-aligned, zeroed. Ranks
 * of the same host map each other's, so operations on it copy once, or not at all, where other
 * memory is mostly copied twice: the larger the buffers the more it gains. It is good for any use,
 * with buffers of other kinds and any pointers into it; whether other ranks use such memory does
 * not matter. Local to this rank, not collective. It lives until rcm_mem_free, or until the last
 * communicator that came from the same rcm_init is destroyed.
 *
 * Other ranks touch it only in operations that were given it. But after an operation has failed or
 * was aborted, a rank that has not heard of it yet may still read or write the operation's buffers
 * there, until they are freed: their contents are undefined.
 *
 * RCM_ERR_RESOURCE or RCM_ERR_NOMEM if there is not enough: its pages are taken at once.
 * RCM_ERR_INVALID if bytes is 0 or more than an address space has. Any thread, also after comm has
 * failed.
 */
RCM_CHECKED rcm_status rcm_mem_alloc(rcm_comm *comm, size_t bytes, void **ret_memory);

/* The same of a kind: rcm_mem_alloc, or memory of the rank's device, of at least `bytes`, zeroed,
 * which begins at a multiple of 2 MiB and is a multiple of that long. RCM_ERR_UNSUPPORTED, with a
 * sentence: there is no device. RCM_ERR_TIMEOUT: the driver has not come back by comm's deadline;
 * what it brings then is given back. Given back by rcm_mem_free. Source: cuMemAlloc. */
enum rcm_mem_kind { RCM_MEM_HOST = 0, RCM_MEM_DEVICE = 1 };
RCM_CHECKED rcm_status rcm_mem_alloc_kind(rcm_comm *comm, enum rcm_mem_kind kind, size_t bytes,
                                          void **ret_memory);

/* Gives it back. memory: from rcm_mem_alloc of comm, or of another communicator from the same
 * rcm_init. RCM_ERR_INVALID if it is not, or while an unfinished operation uses it; it stays then.
 * RCM_ERR_TIMEOUT: the driver, which waits for all work on the device, has not come back by comm's
 * deadline; the memory is not the caller's any more, and freed when it does. Ranks of this host
 * that may have device memory open are waited for until that deadline, no longer than
 * RINGCOMM_PEER_TIMEOUT; what one keeps open, or had open when it died, stays until this process
 * ends, and is RCM_OK. RCM_ERR_RESOURCE, RCM_ERR_NOMEM: it stays, and can be given back later.
 * NULL is a no-op. Any thread, also after comm has failed. */
RCM_CHECKED rcm_status rcm_mem_free(rcm_comm *comm, void *memory);

/*
 * Registers memory of any origin, host or device memory: `bytes` of it from `memory` on. What lies
 * in one registration as a whole goes without a copy on this rank: host memory by RDMA, memory of
 * the rank's device to ranks of the same host, which read it where it lies. Host memory gains
 * nothing between ranks of one host, and over tcp (there large messages are read from any memory,
 * and rcm_mem_alloc gains the most). It changes no result, and other ranks need not do the same.
 * Local to this rank, not collective. Registering takes time and, for RDMA, locks pages in memory
 * (ulimit -l), so it is for buffers that are used again and again; the library registers none by
 * itself, and remembers none that was deregistered.
 *
 * The memory stays the caller's, and is not freed or unmapped before rcm_mem_deregister: else
 * operations go to pages that are not at that address any more, and give wrong data with RCM_OK.
 * For device memory RCM_ERR_INVALID says so where it costs nothing: from a call, where there is no
 * device memory at the buffer's address any more; from rcm_mem_register of the same range, where
 * another allocation is there. With RINGCOMM_CHECK_MEMORY=1 each call looks, by questions to the
 * driver that take time: it is RCM_ERR_INVALID if the registration that the buffer lies in, also
 * one of rcm_mem_alloc_kind, has another allocation or none; of host memory, if part of it is not
 * mapped. Host memory that was unmapped and mapped again at the same address is not noticed, nor
 * what is freed while an operation uses it. Ranges may overlap and lie
 * in one another, each a registration of its own; the same range again is registered as often, and
 * takes as many calls of rcm_mem_deregister. Memory of rcm_mem_alloc is registered by itself:
 * to register part of it is RCM_ERR_INVALID. What is left ends with the last communicator that came
 * from the same rcm_init.
 *
 * After an operation has failed or was aborted, a rank that has not heard of it yet may still read
 * or write its registered buffers until rcm_mem_deregister has returned; what they contain is
 * undefined until then. A forked child does not touch memory that its parent has registered: with
 * RDMA it may not be there.
 *
 * RCM_ERR_INVALID if memory is NULL, or bytes is 0 or more than can be read there; RCM_ERR_RESOURCE
 * with the limit if there is no room, or for more than 65536 registrations. For device memory the
 * rank's device is opened: RCM_ERR_UNSUPPORTED, with a sentence, if it has none; RCM_ERR_TIMEOUT:
 * the driver has not come back by comm's deadline. Any thread, also after comm has failed. Source:
 * ncclCommRegister.
 */
RCM_CHECKED rcm_status rcm_mem_register(rcm_comm *comm, void *memory, size_t bytes);

/*
 * Undoes one rcm_mem_register of the same range, of comm or another communicator from the same
 * rcm_init. After the last one no other rank touches the memory any more, and nothing is sent from
 * it: what is still under way is waited for, no longer than RINGCOMM_PEER_TIMEOUT. RCM_ERR_INVALID
 * if that range is not registered, or if that would be the last time while an unfinished operation
 * uses it; it stays registered then. Any thread, also after comm has failed; not in a callback.
 */
RCM_CHECKED rcm_status rcm_mem_deregister(rcm_comm *comm, void *memory, size_t bytes);

/* ---- Preparing ----------------------------------------------------------------------------- */

/*
 * Connects, ahead of the first call, everything that the given collective needs where the larger
 * buffer of a rank has `bytes`, so that the first call is as fast as the later ones. Collective.
 * algorithm NULL: the one that would be chosen.
 */
RCM_CHECKED rcm_status rcm_comm_prepare(rcm_comm *comm, enum rcm_collective collective,
                                        size_t bytes, int root, const char *algorithm);
/* The same for buffers of a kind of memory: of the rank's device, which is opened
 * (RCM_ERR_UNSUPPORTED, with a sentence: there is none), also what its links need for that. All
 * ranks name the same kind. */
RCM_CHECKED rcm_status rcm_comm_prepare_kind(rcm_comm *comm, enum rcm_mem_kind kind,
                                             enum rcm_collective collective, size_t bytes, int root,
                                             const char *algorithm);

/* ---- Looking at the library ---------------------------------------------------------------- */

/* A setting, its value and where that came from ("default", "environment", "option"). */
struct rcm_setting {
    const char *name; /* "RINGCOMM_TIMEOUT" */
    const char *value;
    const char *default_value;
    const char *origin;
    const char *help;
};
/* The i-th setting as the environment now has it; RCM_ERR_NOT_FOUND past the last. Secrets are
 * shown as "(set)". Strings live until the next call by the same thread. */
RCM_CHECKED rcm_status rcm_setting_at(size_t i, struct rcm_setting *ret_setting);

/* A constant by which it is chosen which way data goes between ranks of one host, or, behind these,
 * by which it is predicted how long an algorithm takes. Rank 0's are those of the whole job. */
struct rcm_protocol_info {
    uint32_t size;
    const char *name;          /* "get.roomy": where each rank of a host has a CPU of its own;
                                  "get.oversubscribed": where they share CPUs */
    const char *value;         /* the sizes that take this way: "64K-", "0-32K", "never"; or
                                  microseconds: "0.3" */
    const char *default_value; /* built in for this CPU */
    const char *origin;        /* RINGCOMM_PROTOCOL, RINGCOMM_TUNING, or "built in for Intel" */
    const char *help;
};
#define RCM_PROTOCOL_INFO_INIT RCM_SIZED_INIT(rcm_protocol_info)
/* The i-th constant as the environment now has it; RCM_ERR_NOT_FOUND past the last, RCM_ERR_CONFIG
 * where rcm_init would fail with it, with the same sentence. Strings live until the next call by
 * the same thread. */
RCM_CHECKED rcm_status rcm_protocol_at(size_t i, struct rcm_protocol_info *ret_info);

/* The identity that rcm_init would find for this process, as the environment now has it: "rank",
 * "world_size", "local_rank", "local_world_size", "url", where it meets the others, and "job_id".
 */
struct rcm_launch_item {
    const char *name;
    const char *value;  /* "" if not told */
    const char *origin; /* the variable or launcher that gave it: "RANK", "OMPI_COMM_WORLD_SIZE" */
};
/* The i-th of these; RCM_ERR_NOT_FOUND past the last, RCM_ERR_CONFIG where rcm_init would fail with
 * it, with the same sentence. Strings live until the next call by the same thread. */
RCM_CHECKED rcm_status rcm_launch_at(size_t i, struct rcm_launch_item *ret_item);

/* The i-th transport: whether this process can use it, for two ranks, and, if not, why not. */
struct rcm_transport_info {
    const char *name;
    int usable;
    const char *reason; /* a sentence; what it is if usable, why not otherwise */
};
RCM_CHECKED rcm_status rcm_transport_at(size_t i, struct rcm_transport_info *ret_info);

/* Whose data a rank's result of a reduction holds. */
enum rcm_contributors {
    RCM_CONTRIBUTORS_ALL = 0,   /* that of all ranks */
    RCM_CONTRIBUTORS_UP_TO = 1, /* of ranks 0 to itself */
    RCM_CONTRIBUTORS_BEFORE = 2 /* of the ranks before it; rank 0 has no result and no buffer */
};

/* The i-th collective: which buffers it has, in blocks of count elements. */
struct rcm_collective_info {
    uint32_t size;
    enum rcm_collective collective;
    const char *name;
    int send_blocks, recv_blocks;   /* 0: no such buffer, 1, or RCM_BLOCK_PER_RANK */
    int send_at_root, recv_at_root; /* only the root has it */
    int rooted, reduces;
    int uneven; /* blocks have a count each */
    int apart;  /* it is never in place */
    /* What a link carries: busbw = algbw * (busbw_one + busbw_per_rank / number of ranks), where
     * algbw is of the larger buffer, as in nccl-tests (doc/PERFORMANCE.md there). */
    double busbw_one, busbw_per_rank;
    enum rcm_contributors contributors; /* where it reduces */
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
 * if comm is of no use. Static memory. The thread that issues collectives. */
const char *rcm_comm_algorithm(rcm_comm *comm, enum rcm_collective collective, size_t bytes);
/* The transport that serves `peer`, known after the first contact; "" before; once device memory
 * goes there by one of its own, both: "shm+cuda_ipc". Static memory. Any thread. */
const char *rcm_comm_transport(rcm_comm *comm, int peer);

/* What this rank sent and received on a communicator by one transport. Bytes are those of messages:
 * elements, and of sends and receives also the library's headers, but not those of the transport. A
 * message to all ranks of a host at once is sent once. */
struct rcm_traffic {
    const char *transport; /* static */
    uint64_t sent, sent_bytes;
    uint64_t received, received_bytes; /* messages that were used up; peers may be further */
    /* With RINGCOMM_TRACE, else 0: what steps of collectives waited for ranks by this transport,
     * and what they took. In lanes that run side by side both go on at a time. */
    uint64_t wait_ns, move_ns;
    uint64_t reserved[2]; /* 0 */
};
#define RCM_COUNTERS_TRANSPORTS 8
struct rcm_counters {
    uint32_t size;
    uint32_t ntransports; /* those in use are transports[0 .. ntransports) */
    uint64_t collectives; /* begun */
    /* Memory of the communicator, in bytes: slots of its channels (those that this rank shares with
     * others of its host count at the rank that writes them), and plans bound to buffers. */
    uint64_t slot_bytes, plan_bytes;
    struct rcm_traffic transports[RCM_COUNTERS_TRANSPORTS];
};
#define RCM_COUNTERS_INIT RCM_SIZED_INIT(rcm_counters)
/* Since comm was made, also where it has failed; all 0 where this rank is no member. While
 * operations run the numbers are not of one moment. Any thread, but not from a callback while
 * another thread waits for it. Stops no operation. RCM_ERR_INVALID: see STRUCTS THAT GROW. */
RCM_CHECKED rcm_status rcm_comm_counters(rcm_comm *comm, struct rcm_counters *ret_counters);

#ifdef __cplusplus
}
#endif

#endif
