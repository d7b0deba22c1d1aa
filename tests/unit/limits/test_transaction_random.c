/* SPDX-License-Identifier: Apache-2.0
 *
 * limits/transaction at random: of requests that come, wait, leave and are lost together, all or nothing is charged. */
#include "transaction_world.h"

static struct world the_world; /* too large for a stack */

#define ASKERS 8

struct asker {
    struct world *w;
    struct weir_transaction *pending;
    uint64_t cost[LIMITS], charged[LIMITS][KEYS], unsure[LIMITS][KEYS];
    size_t key;
    bool decides;
};

/* What of it stands: all where it was admitted, nothing where not; but of what was not heard nobody knows. */
static void count(struct asker *asker, const struct weir_transaction *transaction)
{
    const bool admitted = weir_transaction_decision(transaction).admitted;
    for (size_t i = 0; i < transaction->count && asker->decides; i++) {
        const struct weir_part *part = &transaction->parts[i];
        if (transaction->unknown && part->kind == WEIR_PART_ENGINE)
            asker->unsure[part->number][asker->key] += part->charge.cost;
        else if (admitted && part->verdict.admitted && !part->fell_back)
            asker->charged[part->number][asker->key] += part->charge.cost;
    }
}

static void on_asker(struct weir_transaction *transaction, void *context)
{
    struct asker *asker = context;
    count(asker, transaction);
    asker->pending = NULL;
    weir_transaction_end(transaction);
}

static void leave(struct asker *asker)
{
    for (size_t i = 0; i < asker->pending->count && asker->decides; i++)
        asker->unsure[asker->pending->parts[i].number][asker->key] += asker->pending->parts[i].charge.cost;
    weir_transaction_abandon(asker->pending);
    asker->pending = NULL;
}

static void random_ask(struct world *w, struct asker *asker, struct test_random *random)
{
    asker->key = test_random_below(random, KEYS);
    asker->decides = test_random_below(random, 8) > 0;
    struct weir_transaction *transaction = begin(w, asker->decides ? WEIR_TRANSACTION_DECIDE : WEIR_TRANSACTION_PEEK);
    for (size_t limit = 0; limit <= GOSSIPED; limit++)
        if (test_random_below(random, 2) || (limit == GOSSIPED && transaction->count == 0))
            add(w, transaction, limit, asker->key, test_random_below(random, 4));
    asker->pending = run(w, transaction);
    if (asker->pending)
        weir_transaction_then(asker->pending, on_asker, asker);
    else
        count(asker, transaction);
}

/* The sum of it all, when nobody is under way and all that was held has gone back. */
static void expect_charged(struct world *w, const struct asker *askers)
{
    for (size_t limit = 0; limit <= GOSSIPED; limit++) {
        for (size_t key = 0; key < KEYS; key++) {
            uint64_t least = 0, unsure = 0;
            for (size_t i = 0; i < ASKERS; i++) {
                least += askers[i].charged[limit][key];
                unsure += askers[i].unsure[limit][key];
            }
            const uint64_t used = world_used(w, limit, key), capacity = w->limits[limit].spec.burst;
            const uint64_t most = limit == BATCHED ? capacity + w->limits[BATCHED].slack : capacity;
            const bool asked = limit == LEASED || limit == BATCHED; /* an answer that was lost keeps units */
            assert_in_range(used, weir_min_u64(least, capacity), asked ? capacity : least + unsure);
            assert_true(least <= most);
        }
    }
}

static void test_at_random_all_or_nothing_is_charged(void **state)
{
    (void)state;
    const uint64_t seed = test_random_seed();
    for (unsigned round = 0; round < 60; round++) {
        struct test_random random = { seed + round };
        struct asker askers[ASKERS] = { 0 };
        struct world *w = &the_world;
        world_init(w, seed + round, 40, WEIR_ON_FAILURE_CLOSED);
        w->remote.jitter_ns = test_random_below(&random, 12) * MS + 1;
        w->remote.lost = test_random_below(&random, 3) ? 0 : 100;
        for (unsigned i = 0; i < 400; i++) {
            struct asker *asker = &askers[test_random_below(&random, ASKERS)];
            w->remote.down = w->remote.lost > 0 && i % 100 > 80;
            if (!asker->pending)
                random_ask(w, asker, &random);
            else if (test_random_below(&random, 4) == 0)
                leave(asker);
            world_run(w, test_random_below(&random, 6) * MS);
        }
        w->remote.down = false;
        w->remote.lost = 0;
        world_run(w, 10 * SECOND);
        assert_int_equal(w->of.under_way, 0);
        assert_int_equal(w->of.under_way_of[0] + w->of.under_way_of[1], 0);
        assert_int_equal(w->timers_count, 0);
        world_close(w);
        expect_charged(w, askers);
        world_deinit(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_at_random_all_or_nothing_is_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
