/* SPDX-License-Identifier: Apache-2.0
 *
 * Filling a struct weir_fault with a text as printf makes it. */
#pragma once

#include <stdarg.h>
#include <stdio.h>

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
