/* SPDX-License-Identifier: Apache-2.0
 *
 * Positions of PostgreSQL's log: their text, and their place among its pages. */
#include "base/assert.h"
#include "base/hex.h"
#include "core/session/place.h"
#include "weir/error.h"

enum {
    PAGE_HEADER = 24,    /* SizeOfXLogShortPHD */
    SEGMENT_HEADER = 40, /* SizeOfXLogLongPHD */
    SIZE_MIN = 64,
};

static bool is_size(uint64_t size)
{
    return size >= SIZE_MIN && (size & (size - 1)) == 0;
}

bool weir_position_sizes(uint64_t page_size, uint64_t segment_size)
{
    return is_size(page_size) && is_size(segment_size) && page_size <= segment_size;
}

uint64_t weir_position_normal(uint64_t insert, uint64_t page_size, uint64_t segment_size)
{
    weir_assert(weir_position_sizes(page_size, segment_size));
    uint64_t page = insert & ~(page_size - 1);
    uint64_t header = (page & (segment_size - 1)) == 0 ? SEGMENT_HEADER : PAGE_HEADER;
    weir_assert(page <= insert && insert - page < page_size);
    return insert - page <= header ? page : insert;
}

/* One to eight digits, and nothing else. */
static bool read_half(const char *text, size_t size, uint64_t *ret_half)
{
    uint64_t half = 0;
    if (size < 1 || size > 8)
        return false;
    for (size_t i = 0; i < size; i++) {
        int digit = weir_hex_digit(text[i]);
        if (digit < 0)
            return false;
        half = half << 4 | (uint64_t)digit;
    }
    weir_assert(half <= UINT32_MAX);
    *ret_half = half;
    return true;
}

int weir_position_parse(const char *text, size_t size, uint64_t *ret_position)
{
    size_t slash = 0;
    uint64_t high, low;
    while (slash < size && text[slash] != '/')
        slash++;
    if (slash == size || !read_half(text, slash, &high) || !read_half(text + slash + 1, size - slash - 1, &low))
        return WEIR_EPROTO;
    *ret_position = high << 32 | low;
    return 0;
}
