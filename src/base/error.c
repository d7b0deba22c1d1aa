/* SPDX-License-Identifier: Apache-2.0
 *
 * Both functions are a switch that is made from WEIR_ERROR_LIST: a new error is added to the list and nowhere else.
 * Called wherever an error is told to people: by the server, by `weir` and by programs that use the library. */
#include "weir/error.h"

const char *weir_error_name(int error)
{
    switch (error) {
    case WEIR_OK:
        return "WEIR_OK";
#define WEIR_ERROR_NAME(name, number, text)                                                                            \
    case -(number):                                                                                                    \
        return "WEIR_" #name;
        WEIR_ERROR_LIST(WEIR_ERROR_NAME)
#undef WEIR_ERROR_NAME
    default:
        return "WEIR_UNKNOWN";
    }
}

const char *weir_error_text(int error)
{
    switch (error) {
    case WEIR_OK:
        return "success";
#define WEIR_ERROR_TEXT(name, number, text)                                                                            \
    case -(number):                                                                                                    \
        return text;
        WEIR_ERROR_LIST(WEIR_ERROR_TEXT)
#undef WEIR_ERROR_TEXT
    default:
        return "unknown error";
    }
}
