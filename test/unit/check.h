/* SPDX-License-Identifier: BSD-3-Clause */
/* Included by every unit test: cmocka with its headers, and checks that print status names. */
#ifndef UNIT_CHECK_H
#define UNIT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ringcomm.h"

/* Compares names, so that a failure prints them. */
#define check_status(expected, call)                                                               \
    assert_string_equal(rcm_status_name(expected), rcm_status_name(call))
#define check_ok(call) check_status(RCM_OK, call)

#define check_error_names(part) assert_non_null(strstr(rcm_last_error(), part))

#endif
