/* SPDX-License-Identifier: Apache-2.0
 *
 * Filling a struct weir_fault with a text as printf makes it, and telling it in one line. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "weir/error.h"

/* Fills *ret_fault, if there is one, cut to fit; returns `error`. */
__attribute__((format(printf, 4, 5))) static inline int weir_fault_format(struct weir_fault *ret_fault, int error,
                                                                          const char *field, const char *format, ...)
{
    if (ret_fault) {
        va_list list;
        (void)snprintf(ret_fault->field, sizeof(ret_fault->field), "%s", field);
        va_start(list, format);
        (void)vsnprintf(ret_fault->text, sizeof(ret_fault->text), format, list);
        va_end(list);
    }
    return error;
}

/* What people are told before the text; "" where the text is a sentence by itself: "there is no version 7". */
static inline const char *weir_fault_subject(const struct weir_fault *fault)
{
    const bool whole = strncmp(fault->text, "there is ", 9) == 0 || strncmp(fault->text, "the ", 4) == 0;
    return whole ? "" : fault->field;
}

/* "store weir_rules: ...", in one piece. */
static inline void weir_fault_line(const struct weir_fault *fault, char *buffer, size_t size)
{
    const char *subject = weir_fault_subject(fault);
    (void)snprintf(buffer, size, "%s%s%s", subject, subject[0] ? " " : "", fault->text);
}
