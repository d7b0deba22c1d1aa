/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of its memory a table has touched, as the kernel tells it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "table/internal.h"

#define NOW UINT64_C(1000000000000)
#define SECOND UINT64_C(1000000000)
#define LIMIT 20u

static void forgotten(void *context, uint32_t limit, uint64_t a, uint64_t b, bool evicted)
{
    (void)context;
    (void)limit;
    (void)a;
    (void)b;
    (void)evicted;
}

static size_t resident_bytes(const struct weir_table *table)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = table->mapped / page;
    unsigned char *seen = malloc(pages);
    size_t resident = 0;
    assert_non_null(seen);
    assert_int_equal(mincore(table->lines, pages * page, seen), 0);
    for (size_t i = 0; i < pages; i++)
        resident += seen[i] & 1;
    free(seen);
    return resident * page;
}

static bool are_large_pages_forced(void)
{
    char text[64] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    bool forced = file && fgets(text, sizeof text, file) && strstr(text, "[always]");
    if (file)
        (void)fclose(file);
    return forced;
}

/* To clear a large page takes milliseconds, which would be the first decision's. What is touched ahead is as much as
 * there is. */
static void a_small_table_touches_no_large_page(void **state)
{
    (void)state;
    struct weir_table table;
    struct weir_held held;
    uint64_t wait_ns;
    if (are_large_pages_forced())
        return;
    assert_int_equal(weir_table_init(&table, (size_t)64 << 20, SECOND, NOW, forgotten, NULL), 0);
    const size_t bytes = table.count * sizeof(struct weir_line);
    for (uint64_t key = 1; key < 1000; key++) {
        const uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);
        assert_int_equal(weir_table_hold(&table, hash, LIMIT, WEIR_ABSENT_INSERT, NOW, &held, &wait_ns), WEIR_HOLD_OK);
        weir_table_release(&held, LIMIT, NOW + SECOND);
    }
    assert_in_range(resident_bytes(&table), 4096, bytes + 8192);
    weir_table_prefault(&table);
    assert_in_range(resident_bytes(&table), bytes, 2 * bytes + 8192);
    weir_table_deinit(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_small_table_touches_no_large_page) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
