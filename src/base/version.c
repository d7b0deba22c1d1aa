/* SPDX-License-Identifier: Apache-2.0
 *
 * What the library says that it is. In a file of its own, so that a program sees the library it runs with, not the
 * header it was compiled with. Called by applications. */
#include "weir/version.h"

int weir_version_number(void)
{
    return WEIR_VERSION_NUMBER;
}

const char *weir_version(void)
{
    return WEIR_VERSION;
}
