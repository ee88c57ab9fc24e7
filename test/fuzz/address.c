/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: address blobs of peers (transport/net/address.c). */
#include "fuzz.h"
#include <string.h>
#include "../../transport/net/net.h"
#include "../../transport/registry.h"

static void check_address(const struct rcmi_address *a) {
    fuzz_require(memchr(a->host_id, 0, sizeof a->host_id), "the host identity ends");
    fuzz_require(memchr(a->hostname, 0, sizeof a->hostname), "the host name ends");
    fuzz_require(memchr(a->unix_name, 0, sizeof a->unix_name), "the Unix name ends");
    fuzz_require(memchr(a->transports, 0, sizeof a->transports), "the transports end");
    fuzz_require(a->ntcp >= 0 && a->ntcp <= RCMI_ADDRESSES_MAX, "addresses are counted");
    for (int i = 0; i < a->ntcp; i++) {
        char text[RCMI_ADDR_TEXT];
        (void)rcmi_sockaddr_loopback(&a->tcp[i]);
        fuzz_require(strlen(rcmi_sockaddr_text(&a->tcp[i], text)) < sizeof text,
                     "an address is short");
    }
    (void)rcmi_list_has(a->transports, "shm");
}

/* An address that was parsed and written parses to the same. */
static void check_again(const struct rcmi_address *a) {
    static uint8_t blob[2 * RCMI_ADDRESS_MAX];
    struct rcmi_address again;
    size_t len = 0;
    fuzz_require(rcmi_address_write(a, blob, sizeof blob, &len) == RCM_OK, "it can be written");
    if (len > RCMI_ADDRESS_MAX)
        return;
    fuzz_require(rcmi_address_parse(blob, len, &again) == RCM_OK, "it can be read again");
    fuzz_require(strcmp(again.host_id, a->host_id) == 0 && again.pid == a->pid &&
                     again.job == a->job && again.ntcp == a->ntcp &&
                     memcmp(again.life, a->life, sizeof a->life) == 0 &&
                     strcmp(again.unix_name, a->unix_name) == 0 &&
                     strcmp(again.hostname, a->hostname) == 0 &&
                     (!again.lacks[0] || strcmp(again.lacks, a->lacks) == 0),
                 "it is the same again");
}

static void check_rows(const uint8_t *data, size_t size) {
    struct rcmi_address_summary rows;
    if (rcmi_address_summary(data, size, &rows) != RCM_OK)
        return;
    const char *const texts[] = {rows.host_id, rows.transports, rows.lacks};
    for (size_t i = 0; i < 3; i++) {
        const size_t at = (size_t)((const uint8_t *)texts[i] - data);
        fuzz_require(at < size ? memchr(texts[i], 0, size - at) != NULL : !texts[i][0],
                     "a text of the rows lies in the blob, or is empty");
    }
    (void)rcmi_registry_serves(rows.transports, rows.transports, true, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct rcmi_address address;
    const char *text = NULL;
    int pid = 0;
    if (rcmi_address_host(data, size, &text) == RCM_OK)
        fuzz_require(memchr(text, 0, size - (size_t)((const uint8_t *)text - data)),
                     "a host identity lies in the blob");
    if (rcmi_address_process(data, size, &pid, &text) == RCM_OK)
        fuzz_require(pid >= 0 && memchr(text, 0, size - (size_t)((const uint8_t *)text - data)),
                     "a host name lies in the blob");
    (void)rcmi_address_look(data, size); /* reads only */
    check_rows(data, size);
    const struct rcmi_transport *memory = rcmi_address_memory(data, size);
    fuzz_require(!memory || memory->multicast, "memory is shared by a transport with multicast");
    rcm_status status = rcmi_address_parse(data, size, &address);
    fuzz_judge(status);
    if (status == RCM_OK) {
        check_address(&address);
        check_again(&address);
    }
    return 0;
}
