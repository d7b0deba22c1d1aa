/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes as hexadecimal digits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a digit of either case stands for; -1: it is none. */
static inline int weir_hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    char lower = (char)(digit | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Two digits for each byte, in lower case, without a NUL; returns the end. */
static inline char *weir_hex_write(char *text, const void *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        *text++ = digits[((const uint8_t *)bytes)[i] >> 4];
        *text++ = digits[((const uint8_t *)bytes)[i] & 15];
    }
    return text;
}

/* `size` bytes as weir_hex_write writes them. False: the text is not that; some of the bytes may be set. */
static inline bool weir_hex_read(const char *text, size_t size, void *bytes)
{
    for (size_t i = 0; i < 2 * size; i++)
        if (weir_hex_digit(text[i]) < 0 || (text[i] >= 'A' && text[i] <= 'F'))
            return false;
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)(weir_hex_digit(text[2 * i]) << 4 | weir_hex_digit(text[2 * i + 1]));
    return true;
}
