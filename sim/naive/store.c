/* SPDX-License-Identifier: Apache-2.0
 *
 * The counters are an array, which is walked for each command. A counter that has expired is emptied on the way; where
 * all are taken, the one with the lowest name goes. Called by naive/ask.c, which carries the commands as messages. */
#include "sim/naive/store.h"

static struct naive_counter *counter_of(struct naive_store *store, uint64_t name, uint64_t now_ns)
{
    struct naive_counter *place = &store->counters[0];
    for (unsigned i = 0; i < WEIR_NAIVE_COUNTERS_MAX; i++) {
        struct naive_counter *counter = &store->counters[i];
        if (counter->expires_ns != 0 && counter->expires_ns <= now_ns)
            *counter = (struct naive_counter){ .name = 0 };
        if (counter->count > 0 && counter->name == name)
            return counter;
        if (counter->count == 0 || (place->count > 0 && counter->name < place->name))
            place = counter;
    }
    *place = (struct naive_counter){ .name = name };
    return place;
}

void weir_naive_store_run(struct naive_store *store, struct naive_command *command, uint64_t period_ns, uint64_t now_ns)
{
    struct naive_counter *counter = counter_of(store, command->counter, now_ns);
    switch (command->verb) {
    case NAIVE_GET:
        break;
    case NAIVE_INCR:
        counter->count++;
        break;
    case NAIVE_EXPIRE:
        if (counter->count > 0)
            counter->expires_ns = now_ns + period_ns;
        break;
    case NAIVE_COUNT:
        /* Two periods: a window by a clock that is behind is not forgotten while it lasts. */
        if (counter->count++ == 0)
            counter->expires_ns = now_ns + 2 * period_ns;
        break;
    }
    command->value = counter->count;
}
