/* SPDX-License-Identifier: BSD-3-Clause */
/* See wire.h. All ranks run on machines of the same byte order; the handshake refuses others. */
#include "wire.h"
#include "error.h"
#include <string.h>

void rcmi_failure_encode(uint32_t epoch, const struct rcm_error *error,
                         struct rcmi_failure *ret_failure) {
    memset(ret_failure, 0, sizeof(*ret_failure));
    ret_failure->magic = RCMI_FAILURE_MAGIC;
    ret_failure->epoch = epoch;
    ret_failure->status = error->status;
    ret_failure->origin = error->origin;
    ret_failure->sys_errno = error->sys_errno;
    ret_failure->sequence = error->sequence;
    memcpy(ret_failure->operation, error->operation, sizeof(ret_failure->operation));
    memcpy(ret_failure->text, error->text, sizeof(ret_failure->text));
}

static bool status_is_error(int32_t status) {
    return status < 0 && strcmp(rcm_status_name((rcm_status)status), "RCM_?") != 0;
}

bool rcmi_failure_decode(const void *bytes, size_t len, struct rcmi_failure *ret_failure,
                         struct rcm_error *ret_error) {
    if (len != sizeof(*ret_failure))
        return false;
    memcpy(ret_failure, bytes, sizeof(*ret_failure));
    if (ret_failure->magic != RCMI_FAILURE_MAGIC || !status_is_error(ret_failure->status))
        return false;
    memset(ret_error, 0, sizeof(*ret_error));
    ret_error->size = sizeof(*ret_error);
    ret_error->status = (rcm_status)ret_failure->status;
    ret_error->origin = ret_failure->origin; /* a rank: the caller checks */
    ret_error->sys_errno = ret_failure->sys_errno;
    ret_error->sequence = ret_failure->sequence;
    memcpy(ret_error->operation, ret_failure->operation, sizeof(ret_error->operation) - 1);
    memcpy(ret_error->text, ret_failure->text, sizeof(ret_error->text) - 1);
    rcmi_text_clean(ret_error->operation);
    rcmi_text_clean(ret_error->text);
    return true;
}

bool rcmi_inquiry_decode(const void *bytes, size_t len, struct rcmi_inquiry *ret_inquiry) {
    if (len != sizeof(*ret_inquiry))
        return false;
    memcpy(ret_inquiry, bytes, sizeof(*ret_inquiry));
    return ret_inquiry->magic == RCMI_INQUIRY_MAGIC && ret_inquiry->state <= RCMI_INQUIRY_IDLE &&
           ret_inquiry->reason <= RCMI_INQUIRY_WARNING && ret_inquiry->reports <= 1 &&
           ret_inquiry->npeers <= RCMI_INQUIRY_PEERS;
}

bool rcmi_record_decode(const void *bytes, size_t len, struct rcmi_record *ret_record) {
    if (len != sizeof(*ret_record))
        return false;
    memcpy(ret_record, bytes, sizeof(*ret_record));
    ret_record->algorithm[sizeof(ret_record->algorithm) - 1] = '\0';
    rcmi_text_clean(ret_record->algorithm);
    return ret_record->magic == RCMI_RECORD_MAGIC && ret_record->sequence != 0;
}
