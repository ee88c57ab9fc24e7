/* SPDX-License-Identifier: BSD-3-Clause */
/* See diagnosis_wire.h. All ranks run on machines of the same byte order; the handshake rejects
 * others. */
#include "diagnosis_wire.h"
#include "error.h"
#include "mem.h"
#include <string.h>

bool rcmi_inquiry_decode(const void *bytes, size_t len, struct rcmi_inquiry *ret_inquiry) {
    if (len != sizeof(*ret_inquiry))
        return false;
    memcpy(ret_inquiry, bytes, sizeof(*ret_inquiry));
    return ret_inquiry->magic == RCMI_INQUIRY_MAGIC && ret_inquiry->state <= RCMI_INQUIRY_IDLE &&
           ret_inquiry->reason <= RCMI_INQUIRY_WARNING && ret_inquiry->reports <= 1 &&
           ret_inquiry->npeers <= RCMI_INQUIRY_PEERS;
}

bool rcmi_call_record_decode(const void *bytes, size_t len, struct rcmi_call_record *ret_record) {
    if (len != sizeof(*ret_record))
        return false;
    memcpy(ret_record, bytes, sizeof(*ret_record));
    ret_record->algorithm[sizeof(ret_record->algorithm) - 1] = '\0';
    rcmi_text_clean(ret_record->algorithm);
    ret_record->op_name[sizeof(ret_record->op_name) - 1] = '\0';
    rcmi_text_clean(ret_record->op_name);
    return ret_record->magic == RCMI_CALL_RECORD_MAGIC && ret_record->sequence != 0 &&
           ret_record->ncounts <= RCMI_CALL_COUNTS && ret_record->form < RCMI_FORMS &&
           ret_record->memory < RCMI_MEM_KINDS;
}
