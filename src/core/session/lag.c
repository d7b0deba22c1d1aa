/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures how far a standby is behind, in time; nothing is limited by it but that health.c takes out
 * who stands still. An array of samples, ascending, searched by
 * halves. When it is full every second sample of the older half goes, so that old ones lie further and further apart.
 * Called by health.c alone. */
#include "core/session/lag.h"

#include "base/assert.h"
#include "base/checked.h"

/* Every second one of the older half goes; each time it is full again, what is old has become sparser. */
static void thin(struct weir_lag *lag)
{
    unsigned half = lag->count / 2, kept = 0;
    for (unsigned i = 0; i < lag->count; i++)
        if (i >= half || i % 2 == 0)
            lag->samples[kept++] = lag->samples[i];
    weir_assert(kept < lag->count);
    lag->count = kept;
}

void weir_lag_add(struct weir_lag *lag, uint64_t position, uint64_t at_ns)
{
    while (lag->count > 0 && lag->samples[lag->count - 1].position > position)
        lag->count--;
    if (lag->count > 0 && lag->samples[lag->count - 1].position == position) {
        lag->samples[lag->count - 1].last_ns = weir_max_u64(lag->samples[lag->count - 1].last_ns, at_ns);
        return;
    }
    if (lag->count == WEIR_LAG_SAMPLES_MAX)
        thin(lag);
    lag->samples[lag->count].position = position;
    lag->samples[lag->count].first_ns = at_ns;
    lag->samples[lag->count].last_ns = at_ns;
    lag->count++;
}

/* How many samples are not beyond `position`. */
static unsigned not_beyond(const struct weir_lag *lag, uint64_t position)
{
    unsigned low = 0, high = lag->count;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (lag->samples[middle].position <= position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t weir_lag_of(const struct weir_lag *lag, uint64_t position, uint64_t at_ns)
{
    unsigned count = not_beyond(lag, position);
    if (count == 0)
        return UINT64_MAX;
    return count == lag->count ? 0 : weir_sub_sat(at_ns, lag->samples[count - 1].last_ns);
}

uint64_t weir_lag_beyond_since(const struct weir_lag *lag, uint64_t position)
{
    unsigned count = not_beyond(lag, position);
    return count < lag->count ? lag->samples[count].first_ns : 0;
}
