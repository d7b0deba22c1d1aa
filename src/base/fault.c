/* SPDX-License-Identifier: Apache-2.0
 *
 * weir_fault_set: without <stdio.h>, for core/ needs it and has none. Texts with numbers in them are made by
 * fault_format.h. */
#include "base/fault.h"

#include <stddef.h>

static void copy(char *to, size_t size, const char *from)
{
    size_t i = 0;
    for (; from[i] && i + 1 < size; i++)
        to[i] = from[i];
    for (; i < size; i++)
        to[i] = 0;
}

int weir_fault_set(struct weir_fault *ret_fault, int error, const char *field, const char *text)
{
    if (ret_fault) {
        copy(ret_fault->field, sizeof ret_fault->field, field);
        copy(ret_fault->text, sizeof ret_fault->text, text);
    }
    return error;
}
