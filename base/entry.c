/* SPDX-License-Identifier: BSD-3-Clause */
/* User code that the library calls: see entry.h. */
#include "entry.h"

#if defined(__x86_64__)
enum {
    X87_CONTROL = 0x0F3F, /* exception masks, precision, rounding */
    X87_DEFAULT = 0x037F,
    X87_MASKS = 0x3F,
};

static uint16_t x87_get(void) {
    uint16_t word;
    __asm__ volatile("fnstcw %0" : "=m"(word)::"memory");
    return word;
}

static void x87_set(uint16_t word) {
    __asm__ volatile("fldcw %0" ::"m"(word) : "memory");
}

static bool x87_differs(uint16_t a, uint16_t b) {
    return ((a ^ b) & X87_CONTROL) != 0;
}

static void x87_begin(struct rcmi_foreign *foreign) {
    foreign->x87 = x87_get();
    if (x87_differs(foreign->x87, X87_DEFAULT))
        x87_set(X87_DEFAULT);
}

static void x87_end(const struct rcmi_foreign *foreign) {
    if (!x87_differs(x87_get(), foreign->x87))
        return;
    /* Restoring a control word with an unmasked exception whose flag is raised would cause a
     * signal. */
    if ((foreign->x87 & X87_MASKS) != X87_MASKS)
        __asm__ volatile("fnclex" ::: "memory");
    x87_set(foreign->x87);
}
#else
static void x87_begin(struct rcmi_foreign *foreign) {
    foreign->x87 = 0;
}

static void x87_end(const struct rcmi_foreign *foreign) {
    (void)foreign;
}
#endif

void rcmi_foreign_begin(struct rcmi_foreign *foreign) {
    foreign->own = rcmi_fp_get();
    x87_begin(foreign);
}

void rcmi_foreign_end(const struct rcmi_foreign *foreign) {
    x87_end(foreign);
    if (rcmi_fp_differs(rcmi_fp_get()))
        rcmi_fp_set(foreign->own);
}

_Atomic int rcmi_operator_calls;
static _Thread_local int calls_here;

void rcmi_operator_call_begin(void) {
    calls_here++;
    atomic_fetch_add_explicit(&rcmi_operator_calls, 1, memory_order_relaxed);
}

void rcmi_operator_call_end(void) {
    atomic_fetch_sub_explicit(&rcmi_operator_calls, 1, memory_order_relaxed);
    calls_here--;
}

bool rcmi_operator_call_is_here(void) {
    return calls_here > 0;
}
