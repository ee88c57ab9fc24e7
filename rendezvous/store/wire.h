/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wire protocol of the TCP store: that of current torch.distributed's TCPStore, extended by
 * three operations.
 *
 * A request is an opcode byte and its fields, all in the machine's byte order. key and value are a
 * uint64 length and bytes; number is an int64; a list is a uint64 count and that many items. Keys
 * of users begin with "/". A client starts with VALIDATE and a magic number. The dialect of torch
 * 1.13 and 2.0 has no VALIDATE, and its SET is 0.
 *
 *   op           fields            reply
 *   VALIDATE     uint32 magic      none
 *   SET          key value         none            (followed by a PING, as its acknowledgement)
 *   COMPARE_SET  key value value   value           expected, desired; the value afterwards
 *   GET          key               value           empty if the key is missing
 *   ADD          key number        number
 *   CHECK        list of key       byte            0 all exist, 1 not
 *   WAIT         list of key       byte            0 when all exist
 *   GETNUMKEYS                     number
 *   DELETE_KEY   key               number          1 if it existed
 *   APPEND       key value         none
 *   MULTI_GET    list of key       values
 *   MULTI_SET    list of key value none
 *   CANCEL_WAIT                    byte            1
 *   PING         uint32            uint32          the same
 *   QUEUE_PUSH   key value         none
 *   QUEUE_POP    key               number [value]  the number of items before, and the first
 *   QUEUE_LEN    key               number
 *   LIST_KEYS                      number, values
 *   BARRIER      key number        byte            0 when `number` clients have called it
 *   XADD         key number        byte number     0 done, 1 not an integer or too large
 *   XCOMPARE_SET key value value   byte value      0 kept, 1 set, 2 missing
 *   XAPPEND      key value         byte            0 done, 1 it would be too long
 *
 * A server with the X operations replies 0 to a CHECK of RCMI_WIRE_FEATURES, a key that no user can
 * have. GET is not used for this: torch servers not on libuv close the connection at a GET of a
 * missing key.
 */
#ifndef RCMI_WIRE_H
#define RCMI_WIRE_H

#include <stdint.h>
#include "store.h"

enum rcmi_wire_op {
    RCMI_WIRE_VALIDATE = 0,
    RCMI_WIRE_SET,
    RCMI_WIRE_COMPARE_SET,
    RCMI_WIRE_GET,
    RCMI_WIRE_ADD,
    RCMI_WIRE_CHECK,
    RCMI_WIRE_WAIT,
    RCMI_WIRE_GETNUMKEYS,
    RCMI_WIRE_DELETE_KEY,
    RCMI_WIRE_APPEND,
    RCMI_WIRE_MULTI_GET,
    RCMI_WIRE_MULTI_SET,
    RCMI_WIRE_CANCEL_WAIT,
    RCMI_WIRE_PING,
    RCMI_WIRE_QUEUE_PUSH,
    RCMI_WIRE_QUEUE_POP,
    RCMI_WIRE_QUEUE_LEN,
    RCMI_WIRE_LIST_KEYS,
    RCMI_WIRE_BARRIER,
    RCMI_WIRE_XADD = 0x40,
    RCMI_WIRE_XCOMPARE_SET,
    RCMI_WIRE_XAPPEND,
};

#define RCMI_WIRE_MAGIC 0x3C85F7CEu

#define RCMI_WIRE_KEY_MAX   (RCMI_STORE_KEY_MAX + 1) /* with the "/" */
#define RCMI_WIRE_VALUE_MAX ((uint64_t)RCMI_STORE_VALUE_MAX)
#define RCMI_WIRE_LIST_MAX  131072                       /* keys of a call */
#define RCMI_WIRE_BYTES_MAX ((size_t)128 * 1024 * 1024)  /* of all keys of a call */
#define RCMI_WIRE_REPLY_MAX ((uint64_t)64 * 1024 * 1024) /* of one value that a client accepts */

#define RCMI_WIRE_FEATURES "ringcomm/features"
#define RCMI_WIRE_INIT     "init/" /* torch counts the ranks that connected under this key */

enum { RCMI_WIRE_READY = 0, RCMI_WIRE_NOT_READY = 1 };            /* CHECK */
enum { RCMI_WIRE_STOP_WAITING = 0, RCMI_WIRE_WAIT_CANCELED = 1 }; /* WAIT, CANCEL_WAIT */

#endif
