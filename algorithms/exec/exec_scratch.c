/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scratch of runs: memory of the kind that a run is bound to, kept with the run. Device scratch
 * becomes available some time after the run has started; no step begins before. The executor owns
 * it until its end and passes it from run to run. If the device has no memory left, scratch is host
 * memory, which operations can access as well.
 *
 * Not here: which steps use it (plan.h), how it is allocated on a device (kernels/scratch.h).
 */
#include <stdlib.h>
#include "exec_internal.h"
#include "log.h"

void rcmi_run_scratch_free(struct rcmi_run *run) {
    if (!run->device_scratch)
        free(run->scratch.bytes);
    rcmi_scratch_give(&run->exec->scratches, run->device_scratch);
    run->device_scratch = NULL;
    run->scratch = rcmi_mem_host(NULL, 0);
}

static rcm_status scratch_host(struct rcmi_run *run, size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes) != 0)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %zu bytes of scratch", bytes);
    run->scratch = rcmi_mem_host(memory, bytes);
    return RCM_OK;
}

static rcm_status scratch_device(struct rcmi_run *run, size_t bytes) {
    struct rcmi_exec *exec = run->exec;
    run->scratch.kind = run->bind.in.kind;
    run->scratch.device = run->bind.in.device;
    return rcmi_scratch_take(&exec->scratches, rcmi_mem_kind_row(run->bind.in.kind),
                             *exec->operations.device, bytes, &run->device_scratch,
                             &run->scratch.len);
}

rcm_status rcmi_run_scratch_bind(struct rcmi_run *run) {
    const struct rcmi_plan *plan = run->bind.plan;
    const enum rcmi_mem_kind kind = run->bind.in.kind;
    const size_t longest =
        rcmi_chunk_max(run->bind.count, run->element_bytes, plan->parts) * run->element_bytes;
    const size_t slice = longest < run->slice_bytes ? longest : run->slice_bytes;
    rcm_status status = RCM_OK;
    run->scratch_chunk = (slice + 63) / 64 * 64;
    const size_t bytes = plan->nscratch * run->stripes * run->scratch_chunk;
    if (bytes > run->scratch.len || (bytes > 0 && kind != run->scratch.kind)) {
        rcmi_run_scratch_free(run);
        status = kind == RCMI_MEM_HOST ? scratch_host(run, bytes) : scratch_device(run, bytes);
    }
    run->base[RCMI_SCRATCH] = run->scratch;
    return status;
}

rcm_status rcmi_run_scratch_look(struct rcmi_run *run) {
    rcm_status status = rcmi_scratch_look(run->device_scratch, &run->scratch.bytes);
    if (status < 0) {
        const size_t bytes = run->scratch.len;
        rcmi_log(RCMI_LOG_INFO, "%zu bytes of scratch are allocated in host memory: %s", bytes,
                 rcm_last_error());
        rcmi_run_scratch_free(run);
        status = scratch_host(run, bytes);
    }
    run->base[RCMI_SCRATCH] = run->scratch;
    return status;
}
