/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what a node has kept of exceptions (serve/exception_kept.c), behind the checksum that the file has: they
 * are taken for that or refused, and what is taken over is what a list of it says. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "serve/exception_follower.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_exception_follower follower;
    uint8_t *copy = malloc(size + 1); /* of its own size, for ASan */
    if (!copy || weir_exception_follower_init(&follower) != 0) {
        free(copy);
        return 0;
    }
    if (size > 0)
        memcpy(copy, data, size);
    int error = weir_exception_follower_take(&follower, copy, size, 1);
    struct weir_excepted_key list[64];
    size_t at = 0, count, whole = 0, levels = 0;
    while ((count = weir_excepted_keys_list(follower.keys, &at, list, 64)) > 0)
        for (size_t i = 0; i < count; i++, whole++) {
            struct weir_excepted excepted;
            const bool holds = list[i].until_ns == 0 || list[i].until_ns > 1;
            weir_assert(weir_excepted_keys_find(follower.keys, list[i].hash, 1, &excepted) == holds);
            weir_assert(!holds || (excepted.level != NULL) == (list[i].level > 0));
            levels += list[i].level > 0;
        }
    weir_assert(whole == weir_excepted_keys_count(follower.keys));
    weir_assert(levels == weir_excepted_keys_levels(follower.keys));
    uint64_t hash, mark;
    size_t resets = 0;
    for (at = 0; weir_excepted_keys_list_reset(follower.keys, &at, &hash, &mark); resets++)
        weir_assert(mark >= 2 && weir_excepted_keys_mark(follower.keys, hash) == mark);
    weir_assert(resets == weir_excepted_keys_resets(follower.keys));
    weir_assert(!error || whole + resets == 0);
    weir_exception_follower_deinit(&follower);
    free(copy);
    return 0;
}
