/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocations that are opened by descriptors (those of cuMemCreate). A message cannot carry a
 * descriptor. Therefore the allocation is announced to the peer before the first message in it, and
 * the peer answers whether it is open:
 *
 *      writer                               reader
 *        first message: by a slot
 *        MEMORY, descriptor     ----->        the device's thread opens it
 *        slots meanwhile        <-----        OPENED, or REFUSED: slots for ever
 *        read in place
 *        CLOSE                  ----->
 *                               <-----        CLOSED
 *
 * So no message fails because a peer cannot open memory. A peer that ends leaves no descriptor
 * behind: one in flight is closed with the socket.
 */
#include "cuda_ipc.h"
#include "log.h"

/* ---- Our allocations, at the peer ------------------------------------------------------------ */

/* buffer 0: returns a free entry. NULL: none. */
static struct ipc_exported *exported_find(struct ipc_peer *peer, uint64_t buffer) {
    for (int i = 0; i < IPC_DESCRIPTORS; i++)
        if (peer->exported[i].buffer == buffer)
            return &peer->exported[i];
    return NULL;
}

static void exported_begin(struct ipc_peer *peer, const struct rcmi_export *export) {
    struct ipc_exported *exported = exported_find(peer, 0);
    if (exported && !peer->left &&
        ipc_notice_send(peer, NOTICE_MEMORY, &export->handle, export->fd))
        *exported = (struct ipc_exported){.buffer = export->handle.buffer};
}

bool ipc_exported_is_open(struct ipc_peer *peer, const struct rcmi_export *export) {
    pthread_mutex_lock(&peer->lock);
    const struct ipc_exported *exported = exported_find(peer, export->handle.buffer);
    if (!exported)
        exported_begin(peer, export);
    const bool open = exported && exported->open;
    pthread_mutex_unlock(&peer->lock);
    return open;
}

/* An allocation that the peer refused is not offered again. Logged once. */
void ipc_exported_answered(struct ipc_peer *peer, uint64_t buffer, bool open) {
    static atomic_flag logged = ATOMIC_FLAG_INIT;
    struct ipc_exported *exported = buffer ? exported_find(peer, buffer) : NULL;
    if (!exported)
        return; /* already closed again */
    exported->open = open;
    if (!open && !atomic_flag_test_and_set(&logged))
        rcmi_log(RCMI_LOG_WARN,
                 "registered device memory is copied before rank %d reads it: it did not open an "
                 "allocation of cuMemCreate; its log has the reason with RINGCOMM_LOG=debug "
                 "(logged once)",
                 peer->rank);
}

void ipc_exported_end(struct ipc_peer *peer, uint64_t buffer) {
    struct ipc_exported *exported = buffer ? exported_find(peer, buffer) : NULL;
    if (exported)
        *exported = (struct ipc_exported){.buffer = 0};
}

/* ---- The peer's allocations, here ------------------------------------------------------------ */

static struct ipc_imported *imported_free(struct ipc_peer *peer) {
    for (int i = 0; i < IPC_DESCRIPTORS; i++)
        if (peer->imported[i].handle.buffer == 0)
            return &peer->imported[i];
    return NULL;
}

static bool imported_answer(const struct ipc_peer *peer, enum ipc_notice kind, uint64_t buffer) {
    const struct rcmi_device_handle handle = {.buffer = buffer};
    if (kind == NOTICE_REFUSED)
        rcmi_log(RCMI_LOG_DEBUG, "device memory of rank %d is not opened: %s", peer->rank,
                 rcm_last_error());
    return ipc_notice_send(peer, kind, &handle, -1);
}

static rcm_status imported_open(struct ipc_peer *peer, struct ipc_imported *imported,
                                const struct rcmi_device_handle *handle, int fd) {
    if (imported && peer->imports && !peer->down)
        return rcmi_imports_open(peer->imports, handle, fd);
    rcmi_fd_close(&fd);
    if (peer->down)
        return rcmi_fail(RCM_ERR_RESOURCE, 0, "the link to it ends");
    if (!peer->imports)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                         "its descriptor arrived before the link was accepted");
    return rcmi_fail(RCM_ERR_RESOURCE, 0, "%d of its allocations are open by descriptors already",
                     IPC_DESCRIPTORS);
}

void ipc_imported_begin(struct ipc_peer *peer, const struct rcmi_device_handle *handle, int fd) {
    struct ipc_imported *imported = imported_free(peer);
    if (imported_open(peer, imported, handle, fd) == RCM_AGAIN)
        *imported = (struct ipc_imported){.handle = *handle};
    else
        (void)imported_answer(peer, NOTICE_REFUSED, handle->buffer); /* if lost: slots as well */
}

static void imported_look(struct ipc_peer *peer, struct ipc_imported *imported) {
    const uint64_t buffer = imported->handle.buffer;
    const void *bytes;
    const rcm_status status =
        rcmi_imports_get(peer->imports, &imported->handle, 0, 0, &imported->import, &bytes);
    if (status == RCM_AGAIN || status == RCM_OK)
        return;
    (void)imported_answer(peer, NOTICE_REFUSED, buffer);
    *imported = (struct ipc_imported){.import = NULL};
}

void ipc_imported_go_on(struct ipc_peer *peer) {
    for (int i = 0; i < IPC_DESCRIPTORS; i++) {
        struct ipc_imported *imported = &peer->imported[i];
        if (imported->handle.buffer != 0 && !imported->import)
            imported_look(peer, imported);
        if (imported->import && !imported->opened_sent)
            imported->opened_sent = imported_answer(peer, NOTICE_OPENED, imported->handle.buffer);
    }
}

void ipc_imported_drop(struct ipc_peer *peer, uint64_t buffer) {
    for (int i = 0; i < IPC_DESCRIPTORS; i++) {
        struct ipc_imported *imported = &peer->imported[i];
        if (imported->handle.buffer == 0 || (buffer != 0 && imported->handle.buffer != buffer))
            continue;
        if (imported->import)
            rcmi_import_put(imported->import);
        *imported = (struct ipc_imported){.import = NULL};
    }
}
