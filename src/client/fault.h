/* SPDX-License-Identifier: Apache-2.0
 *
 * Filling a weir_fault and returning the error in one line. */
#ifndef WEIR_CLIENT_FAULT_H
#define WEIR_CLIENT_FAULT_H

#include <stdarg.h>
#include <stdio.h>

#include "weir/error.h"

__attribute__((format(printf, 4, 5))) static inline int weir_client_fail(struct weir_fault *fault, int error,
                                                                         const char *field, const char *format, ...)
{
    if (fault) {
        va_list list;
        (void)snprintf(fault->field, sizeof(fault->field), "%s", field);
        va_start(list, format);
        (void)vsnprintf(fault->text, sizeof(fault->text), format, list);
        va_end(list);
    }
    return error;
}

#endif
