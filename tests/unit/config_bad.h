/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts that are no configuration, each with the fault that must come of it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rules/config.h"

struct bad {
    const char *text;
    unsigned line, column;
    int error;
    const char *message; /* is part of it */
};

static inline void expect_bad(const struct bad *bad, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct weir_config *config = (void *)&config;
        struct weir_config_fault fault = { { 99, 99 }, "" };
        int error = weir_config_parse(bad[i].text, strlen(bad[i].text), &config, &fault);
        if (error != bad[i].error || fault.mark.line != bad[i].line || fault.mark.column != bad[i].column ||
            !strstr(fault.text, bad[i].message))
            fail_msg("%s\n  gives %s %u:%u: %s\n  not %s %u:%u: ...%s...", bad[i].text, weir_error_name(error),
                     fault.mark.line, fault.mark.column, fault.text, weir_error_name(bad[i].error), bad[i].line,
                     bad[i].column, bad[i].message);
        assert_ptr_equal(config, (void *)&config); /* untouched */
    }
}

#define EXPECT_BAD(table) expect_bad(table, sizeof(table) / sizeof((table)[0]))
