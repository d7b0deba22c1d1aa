/* SPDX-License-Identifier: Apache-2.0
 *
 * The table against a slow model: who is evicted was the cheapest of its lines, and everybody else is found again as it
 * was, whoever came, moved, grew, walked or rebased meanwhile. */
#include <errno.h>
#include <sys/mman.h>

#include "table_model.h"

/* ---- what is done to it ---- */

/* Lets go of a held entry with a new state. Those of narrow ones say nothing more. */
static void release(struct key *key, struct weir_held *held)
{
    static uint64_t number;
    const struct weir_kind *kind = kind_of(key);
    int64_t ahead = (int64_t)below(20 * SECOND) - (int64_t)SECOND;
    key->fresh = ticks_of(world.now_ns, kind->shift) + (kind->shift >= 0
                                                            ? (wide_int)ahead * ((wide_int)1 << kind->shift)
                                                            : (wide_int)(ahead / (1 << -kind->shift)));
    key->fresh += below(2); /* not of the ns */
    key->a = kind->wide ? below(40) : 0;
    key->b = kind->wide ? ++number << 32 | below(12) : 0; /* so that no two are alike */
    if (kind->units == WEIR_UNITS_B || kind->units == WEIR_UNITS_A_AND_B)
        key->b = kind->wide ? below(150) : 0;
    held->a = key->a;
    held->b = key->b;
    key->held = false;
    weir_table_release(held, limits[key->of].limit, (uint64_t)key->fresh & WEIR_TICKS_MASK);
}

/* Where only they stand, who refuse to go, a newcomer is told for how long. */
static uint64_t wait_of(const struct key *newcomer, bool evict)
{
    unsigned width = kind_of(newcomer)->wide ? 2 : 1;
    int64_t least = INT64_MAX;
    for (int home = 0; home < 2; home++) {
        uint64_t number = weir_table_home(&world.table, newcomer->hash, home, world.table.count);
        int64_t worst[WEIR_LINE_SLOTS] = { INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN };
        bool stuck[WEIR_LINE_SLOTS] = { false }, kept[WEIR_LINE_SLOTS] = { false };
        for (unsigned i = 0; i < WEIR_LINE_SLOTS; i++) {
            const struct weir_line *line = &world.table.lines[number];
            unsigned main = weir_slot_tag(&line->slot[i]) & WEIR_TAG_CONTINUATION ? i - 1 : i;
            for (unsigned k = 0; k < KEYS; k++) {
                struct weir_pair seen;
                if (!world.keys[k].present ||
                    weir_table_find(&world.table, world.keys[k].hash, &seen) != &line->slot[main])
                    continue;
                const struct key *key = &world.keys[k];
                assert_false(width == 1 && !key->held && is_dead(key)); /* it could have gone */
                kept[i / width] |= key->held || kind_of(key)->kept;
                stuck[i / width] |= key->held;
                if ((!evict || kind_of(key)->kept) && until_ns(key) > worst[i / width])
                    worst[i / width] = until_ns(key);
            }
        }
        for (unsigned i = 0; i < WEIR_LINE_SLOTS / width; i++) {
            assert_true(stuck[i] || worst[i] > INT64_MIN); /* or there was room */
            assert_true(!evict || kept[i]);
            if (!stuck[i] && worst[i] < least)
                least = worst[i];
        }
    }
    return least == INT64_MAX ? 1 : (uint64_t)(least > 0 ? least : 0) + SKEW + 1;
}

/* Of those who stood in the newcomer's lines nobody would have been forgiven less. */
static void check_cheapest(const struct key *newcomer, const struct key *victim)
{
    for (unsigned i = 0; i < KEYS; i++) {
        const struct key *key = &world.keys[i];
        if (!key->present || key == newcomer || key->held || kind_of(key)->kept)
            continue;
        for (int home = 0; home < 2; home++)
            if (stands_in(key, weir_table_home(&world.table, newcomer->hash, home, world.table.count)))
                assert_true(forgiven_ns(victim) <= forgiven_ns(key) + ROUNDING_NS);
    }
    world.cheapest++;
}

static void come(struct key *key, enum weir_absent absent, bool keep)
{
    const struct key *victims[2];
    struct weir_held *held = &world.held[key - world.keys];
    uint64_t wait_ns = 0;
    bool grown = world.table.count == world.table.lines_max, was = key->present;
    if (key->held)
        return;
    if (!key->present)
        key->of = below(100) < world.kept_percent ? LIMITS - 1 : (unsigned)below(LIMITS - 1);
    enum weir_hold result = weir_table_hold(&world.table, key->hash, limits[key->of].limit, absent, world.now_ns, held,
                                            &wait_ns);
    if (result == WEIR_HOLD_ABSENT) {
        assert_true(absent == WEIR_ABSENT_LEAVE && !was);
    } else if (result == WEIR_HOLD_FULL) {
        assert_true(!was && absent != WEIR_ABSENT_LEAVE);
        assert_int_equal(world.table.count, world.table.lines_max);
        assert_int_equal(sweep(NULL), 0);
        assert_int_equal(wait_ns, wait_of(key, absent == WEIR_ABSENT_INSERT));
        world.full++;
        world.full_of_kept += absent == WEIR_ABSENT_INSERT;
    } else {
        assert_int_equal(result, WEIR_HOLD_OK);
        assert_int_equal(held->newcomer, !was);
        assert_int_equal(held->wide, kind_of(key)->wide);
        assert_int_equal(weir_pair_limit(held->pair), limits[key->of].limit);
        if (was) {
            assert_int_equal(weir_pair_fresh_at(held->pair), (uint64_t)key->fresh & WEIR_TICKS_MASK);
        } else {
            key->fresh = ticks_of(world.now_ns, kind_of(key)->shift);
            key->present = true;
            key->a = key->b = 0;
            world.inserted++;
        }
        assert_int_equal(held->a, key->a);
        assert_int_equal(held->b, key->b);
        key->held = true;
        unsigned count = sweep(victims);
        assert_true(count == 0 || (!was && absent == WEIR_ABSENT_INSERT && world.table.count == world.table.lines_max));
        if (count == 1 && grown && !kind_of(key)->wide)
            check_cheapest(key, victims[0]);
        assert_true(count < 2 || kind_of(key)->wide);
        if (!keep)
            release(key, held);
    }
}

/* A held entry goes, or becomes of another limit, wide or narrow. */
static void change(struct key *key)
{
    const struct key *victims[2];
    struct weir_held *held = &world.held[key - world.keys];
    unsigned to = (unsigned)below(LIMITS);
    if (!key->held)
        return;
    if (below(3) == 0) {
        weir_table_drop(&world.table, held);
        key->held = key->present = false;
        return;
    }
    if (limits[to].kind.wide && !held->wide) {
        uint64_t home = held->pair.tag & WEIR_TAG_SECOND;
        if (!weir_table_widen(&world.table, held, world.now_ns)) {
            assert_int_equal(held->pair.tag & WEIR_TAG_SECOND, home);
            assert_false(held->wide);
            to = key->of;
        } else {
            assert_true(held->wide && held->a == 0 && held->b == 0);
            world.widened++;
        }
    } else if (!limits[to].kind.wide && held->wide) {
        weir_table_narrow(&world.table, held);
        assert_false(held->wide);
    }
    key->of = to;
    release(key, held);
    sweep(victims);
}

static void let_go(void)
{
    for (unsigned i = 0; i < KEYS; i++)
        if (world.keys[i].held)
            release(&world.keys[i], &world.held[i]);
}

/* ---- a walk ---- */

static bool wants(void *context, uint32_t limit)
{
    (void)context;
    return limit == limits[0].limit || limit == limits[4].limit;
}

static void visit(void *context, struct weir_held *held)
{
    unsigned found = 0;
    (void)context;
    for (unsigned i = 0; i < KEYS; i++) {
        struct weir_pair pair;
        struct key *key = &world.keys[i];
        if (!key->present || weir_table_find(&world.table, key->hash, &pair) != held->slot)
            continue;
        found++;
        key->met++;
        assert_true(wants(NULL, limits[key->of].limit));
        assert_true(held->wide == kind_of(key)->wide && held->a == key->a && held->b == key->b);
        if (below(4) == 0) {
            key->present = false;
            weir_table_drop(&world.table, held);
        } else {
            release(key, held);
        }
    }
    assert_int_equal(found, 1);
}

/* Who was wanted and there from its begin to its end is met, whoever comes meanwhile; the dead are gone. */
static void walk(void)
{
    uint64_t cursor = 0;
    let_go();
    for (unsigned i = 0; i < KEYS; i++) {
        world.keys[i].met = 0;
        world.keys[i].throughout = world.keys[i].present && wants(NULL, limits[world.keys[i].of].limit);
    }
    size_t lines = 1 + below(300);
    uint64_t count = world.table.count;
    while (weir_table_walk(&world.table, &cursor, lines, world.now_ns, wants, visit, NULL)) {
        struct key *key = &world.keys[below(KEYS)];
        const struct key *victims[2];
        sweep(victims);
        key->throughout = false;
        come(key, WEIR_ABSENT_INSERT_FREE, false);
    }
    assert_int_equal(cursor, 0);
    sweep(NULL);
    for (unsigned i = 0; i < KEYS; i++) {
        struct key *key = &world.keys[i];
        assert_true(key->met <= 1 || !key->throughout || world.table.count > count); /* it moved, to a new line */
        assert_true(key->met > 0 || !key->present || !key->throughout);              /* gone: it was dead */
    }
}

/* Of all that are told about, none would be forgiven less than the one that it holds. */
static void hold_any(void)
{
    struct weir_held held;
    uint64_t cursor = below(1000), before = cursor;
    const struct key *best = NULL;
    sweep(NULL);
    for (unsigned i = 0; i < KEYS; i++) {
        const struct key *key = &world.keys[i];
        if (key->present && !key->held && kind_of(key)->notified && (!kind_of(key)->kept || is_dead(key)) &&
            (!best || forgiven_ns(key) < forgiven_ns(best)))
            best = key;
    }
    bool any = weir_table_hold_any(&world.table, &cursor, SIZE_MAX, world.now_ns, &held);
    assert_int_equal(cursor, before + world.table.count);
    assert_int_equal(any, best != NULL);
    for (unsigned i = 0; i < KEYS && any; i++) {
        struct key *key = &world.keys[i];
        struct weir_pair pair;
        if (!key->present || weir_table_find(&world.table, key->hash, &pair) != held.slot)
            continue;
        assert_true(kind_of(key)->notified && (!kind_of(key)->kept || is_dead(key)));
        assert_true(forgiven_ns(key) <= forgiven_ns(best) + ROUNDING_NS);
        assert_true(held.wide && held.a == key->a && held.b == key->b);
        key->held = true;
        release(key, &held);
        any = false;
    }
    assert_false(any); /* it was one of ours */
}

static void pass_time(void)
{
    world.now_ns += below(30) ? below(SECOND) : below(40) * 3600 * SECOND;
    if (!weir_table_in_reach(&world.table, world.now_ns) || below(400) == 0) {
        let_go();
        weir_table_rebase(&world.table, world.now_ns);
        assert_int_equal(world.table.base_ns, world.now_ns);
        sweep(NULL);
        for (unsigned i = 0; i < KEYS; i++)
            assert_false(world.keys[i].present && is_dead(&world.keys[i]));
    }
}

static void step(void)
{
    struct key *key = &world.keys[below(KEYS)];
    switch (below(40)) {
    case 0:
        walk();
        break;
    case 1:
        hold_any();
        break;
    case 2:
        (void)weir_table_grow(&world.table, (unsigned)below(3), world.now_ns);
        sweep(NULL); /* while it is the time at which they went */
        weir_table_prefault(&world.table);
        break;
    case 3:
    case 4:
        pass_time();
        break;
    case 5:
    case 6:
        come(key, WEIR_ABSENT_LEAVE, true);
        break;
    case 7:
    case 8:
        come(key, WEIR_ABSENT_INSERT_FREE, below(8) == 0);
        break;
    case 9:
        let_go();
        break;
    default:
        come(key, WEIR_ABSENT_INSERT, below(8) == 0);
        if (key->held && below(2))
            change(key);
    }
}

static void whoever_goes_was_dead_or_the_cheapest_and_all_others_are_found_as_they_were(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    world.random.state = test_random_seed();
    for (unsigned round = 0; round < 4; round++) {
        static const size_t lines[] = { 64, 65, 300, 64 };
        world.kept_percent = round < 3 ? 5 : 80;
        world.now_ns = NOW + below(1000);
        memset(world.keys, 0, sizeof world.keys);
        world.inserted = world.evicted = world.forgotten_ns = 0;
        assert_int_equal(weir_table_init(&world.table, lines[round] * sizeof(struct weir_line) + below(64), SKEW,
                                         world.now_ns, on_forgotten, NULL),
                         0);
        assert_int_equal(world.table.lines_max, lines[round]);
        for (unsigned i = 0; i < LIMITS; i++)
            weir_table_set_kind(&world.table, limits[i].limit, limits[i].kind, limits[i].capacity);
        for (unsigned i = 0; i < KEYS; i++)
            world.keys[i].hash = test_random_u64(&world.random);
        for (unsigned i = 0; i < 4000; i++)
            step();
        let_go();
        sweep(NULL);
        weir_table_check(&world.table);
        weir_table_deinit(&world.table);
    }
    assert_true(world.full > 0 && world.full_of_kept > 0 && world.cheapest > 0 && world.widened > 0);
}

/* One at a time: who comes while another grows it has nothing to do. */
static void only_one_grows_it(void **state)
{
    (void)state;
    struct weir_table *table = &world.table;
    assert_int_equal(weir_table_init(table, 300 * sizeof(struct weir_line), SKEW, NOW, on_forgotten, NULL), 0);
    const uint64_t count = table->count;
    table->growing = 1;
    assert_int_equal(weir_table_grow(table, 4, NOW), 0);
    assert_true(table->count == count && table->growing == 1);
    table->growing = 0;
    assert_int_equal(weir_table_grow(table, 4, NOW), 4);
    assert_true(table->count == count + 4 && table->growing == 0);
    weir_table_deinit(table);
}

static void forget_nothing(void *context, uint32_t limit, uint64_t a, uint64_t b, bool evicted)
{
    (void)context, (void)limit, (void)a, (void)b, (void)evicted;
}

static bool count_shown(void *context, uint64_t hash, const struct weir_held *seen)
{
    (void)hash, (void)seen;
    ++*(unsigned *)context;
    return true;
}

/* It moved past a reading, and was forgotten since. */
static void who_has_gone_is_not_read(void **state)
{
    (void)state;
    struct weir_table table;
    uint64_t cursor = 0;
    unsigned shown = 0;
    assert_int_equal(weir_table_init(&table, 64 << 10, SKEW, NOW, forget_nothing, NULL), 0);
    table.passed[table.passed_head++] = UINT64_C(5) << 40 | WEIR_PASSED_NOTED;
    while (weir_table_read(&table, &cursor, 100, count_shown, &shown)) {
    }
    assert_int_equal(shown, 0);
    assert_int_equal(table.passed_tail, 1);
    weir_table_deinit(&table);
}

static void the_memory_goes_with_the_table(void **state)
{
    (void)state;
    struct weir_table table;
    unsigned char there;
    assert_int_equal(weir_table_init(&table, 64 << 10, SKEW, NOW, forget_nothing, NULL), 0);
    void *memory = table.lines;
    assert_int_equal(mincore(memory, 1, &there), 0);
    weir_table_deinit(&table);
    assert_int_equal(mincore(memory, 1, &there), -1);
    assert_int_equal(errno, ENOMEM);
}

/* Of empty places it takes the one beside another's, and leaves pairs to wide ones. */
static void a_narrow_newcomer_fits_in_snugly(void **state)
{
    (void)state;
    struct weir_table table;
    struct weir_held held[3], last;
    uint64_t wait_ns;
    assert_int_equal(weir_table_init(&table, 64 << 10, SKEW, NOW, forget_nothing, NULL), 0);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(weir_table_hold(&table, (i + 1) << 40, 1, WEIR_ABSENT_INSERT, NOW, &held[i], &wait_ns),
                         WEIR_HOLD_OK);
        assert_ptr_equal(held[i].slot, &table.lines[0].slot[i]);
    }
    weir_table_drop(&table, &held[0]);
    weir_table_drop(&table, &held[1]);
    assert_int_equal(weir_table_hold(&table, UINT64_C(9) << 40, 1, WEIR_ABSENT_INSERT, NOW, &last, &wait_ns),
                     WEIR_HOLD_OK);
    assert_ptr_equal(last.slot, &table.lines[0].slot[3]);
    weir_table_drop(&table, &last);
    weir_table_drop(&table, &held[2]);
    weir_table_deinit(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_gone_is_not_read),
        cmocka_unit_test(the_memory_goes_with_the_table),
        cmocka_unit_test(a_narrow_newcomer_fits_in_snugly),
        cmocka_unit_test(whoever_goes_was_dead_or_the_cheapest_and_all_others_are_found_as_they_were),
        cmocka_unit_test(only_one_grows_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
