/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a timeline's history: refused, or a chain that ascends and by which places can be compared. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "core/session/place.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct weir_history *history)
{
    uint32_t last = 0;
    weir_assert(history->count <= WEIR_ANCESTORS_MAX);
    for (unsigned i = 0; i < history->count; i++) {
        weir_assert(history->ancestors[i].timeline > last && history->ancestors[i].timeline < history->timeline);
        last = history->ancestors[i].timeline;
    }
}

/* What lies within every end is part of the history, and what lies beyond one is not. */
static void use(const struct weir_history *history)
{
    struct weir_known known = { 0 };
    const struct weir_shown primary = {
        .system = 1, .position = UINT64_MAX, .run = 1, .timeline = history->timeline, .primary = true, .settled = true
    };
    uint64_t least = UINT64_MAX;
    weir_known_history(&known, 1, history);
    for (unsigned i = history->count; i-- > 0;) {
        const struct weir_ancestor *ancestor = &history->ancestors[i];
        least = ancestor->end < least ? ancestor->end : least;
        struct weir_place place = { .system = 1, .position = least, .timeline = ancestor->timeline };
        weir_assert(weir_place_compare(&place, &primary, &known) == WEIR_PLACE_OK);
        place.position = least + 1;
        weir_assert(least == UINT64_MAX || weir_place_compare(&place, &primary, &known) == WEIR_PLACE_LOST);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t timelines[] = { 0, 1, 2, 5, 100, UINT32_MAX };
    for (size_t i = 0; i < sizeof timelines / sizeof timelines[0]; i++) {
        struct weir_history history = { .timeline = 77 };
        if (weir_history_parse(timelines[i], (const char *)data, size, &history) != 0) {
            weir_assert(history.timeline == 77);
            continue;
        }
        weir_assert(history.timeline == timelines[i] && timelines[i] != 0);
        check(&history);
        use(&history);
    }
    return 0;
}
