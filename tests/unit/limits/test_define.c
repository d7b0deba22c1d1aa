/* SPDX-License-Identifier: Apache-2.0
 *
 * weir_limiter_define: what of a definition makes it another limit, what is in the fault, whose time zone is whose; and
 * limits that are off, or that more is asked of than there may be. */
#include <stdlib.h>

#include "limits/memory.h"
#include "permit_fixture.h"

/* ---- what is another limit ---- */

static struct weir_limit_spec daily(void)
{
    struct weir_limit_spec spec = limit_of(WEIR_FIXED_WINDOW, 10, 2 * DAY, 0);
    spec.calendar = WEIR_CALENDAR_DAY;
    spec.calendar_count = 2;
    spec.tz = "Europe/Berlin";
    spec.spread_ns = HOUR;
    return spec;
}

enum change {
    NOTHING,
    ALGORITHM,
    COUNT,
    PERIOD,
    BURST,
    ALIGN,
    CALENDAR,
    CALENDAR_COUNT,
    TZ,
    SPREAD,
    COUNT_MODE,
    MODE,
    ON_FULL,
    ON_CHANGE,
    CHANGES
};

static void change(struct weir_limit_spec *spec, enum change what)
{
    switch (what) {
    case NOTHING:
    case CHANGES:
        break;
    case ALGORITHM:
        spec->algorithm = WEIR_LEAKY_BUCKET;
        break;
    case COUNT:
        spec->count++;
        break;
    case PERIOD:
        spec->period_ns++;
        break;
    case BURST:
        spec->burst++;
        break;
    case ALIGN:
        spec->align = WEIR_ALIGN_FIRST;
        break;
    case CALENDAR:
        spec->calendar = WEIR_CALENDAR_WEEK;
        break;
    case CALENDAR_COUNT:
        spec->calendar_count = 3;
        break;
    case TZ:
        spec->tz = "Europe/Dublin";
        break;
    case SPREAD:
        spec->spread_ns++;
        break;
    case COUNT_MODE:
        spec->count_mode = WEIR_COUNT_ATTEMPTS;
        break;
    case MODE:
        spec->mode = WEIR_MODE_SHADOW;
        break;
    case ON_FULL:
        spec->on_full = WEIR_ON_FULL_REFUSE;
        break;
    case ON_CHANGE:
        spec->on_change = WEIR_ON_CHANGE_RESET;
        break;
    }
}

/* Its id tells: that of one that stays the same is the same. */
static void whatever_changes_makes_it_another_limit(void **state)
{
    (void)state;
    static const enum change of_bucket[] = { NOTHING,    ALGORITHM, COUNT,   PERIOD,   BURST,
                                             COUNT_MODE, MODE,      ON_FULL, ON_CHANGE };
    static const enum change of_calendar[] = { NOTHING, COUNT, CALENDAR, CALENDAR_COUNT, TZ, SPREAD };
    static const enum change of_window[] = { NOTHING, ALIGN, PERIOD };
    static const struct {
        const enum change *changes;
        size_t count;
    } kinds[] = { { of_bucket, sizeof of_bucket / sizeof of_bucket[0] },
                  { of_calendar, sizeof of_calendar / sizeof of_calendar[0] },
                  { of_window, sizeof of_window / sizeof of_window[0] } };
    const struct weir_limit_spec specs[] = { limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 20), daily(),
                                             limit_of(WEIR_FIXED_WINDOW, 10, HOUR, 0) };
    for (size_t kind = 0; kind < 3; kind++)
        for (size_t i = 0; i < kinds[kind].count; i++) {
            struct weir_limit_spec spec = specs[kind];
            struct fixture f = fixture_create(&spec, 1);
            const weir_limit_id before = f.ids[0];
            change(&spec, kinds[kind].changes[i]);
            fixture_define(&f, &spec, 1, T0);
            if ((f.ids[0] == before) != (kinds[kind].changes[i] == NOTHING))
                fail_msg("kind %zu, change %zu", kind, i);
            fixture_destroy(&f);
        }
}

static void each_limit_has_its_own_time_zone(void **state)
{
    (void)state;
    static const char *const zones[] = { "Europe/Berlin", "Asia/Tokyo", NULL, "Europe/Berlin", "UTC" };
    static const uint64_t hours[] = { 23, 15, 0, 23, 0 }; /* UTC, at which a day begins in winter */
    struct weir_limit_spec specs[5];
    struct weir_verdict verdicts[5];
    for (size_t i = 0; i < 5; i++) {
        specs[i] = limit_of(WEIR_FIXED_WINDOW, 10, DAY, 0);
        specs[i].calendar = WEIR_CALENDAR_DAY;
        specs[i].tz = zones[i];
    }
    struct fixture f = fixture_create(specs, 5);
    (void)ask_all(&f, "k", 1, 20 * DAY + 12 * HOUR, 0, verdicts);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(verdicts[i].reset_after_ns, ((hours[i] + 12) % 24) * HOUR);
    assert_int_equal(f.limiter->zones_count, 2); /* each file once */
    specs[0].tz = "Antarctica/Troll";            /* where walls are put back so far that a day is longer than most */
    fixture_define(&f, specs, 2, T0);
    assert_int_equal(weir_record_at(f.limiter, weir_id_number(f.ids[0]))->terms.limit.ahead_max -
                         weir_record_at(f.limiter, weir_id_number(f.ids[1]))->terms.limit.ahead_max,
                     weir_ticks_of(HOUR / 2, weir_record_at(f.limiter, weir_id_number(f.ids[0]))->terms.limit.shift,
                                   WEIR_TICKS_SPAN_MAX));
    fixture_destroy(&f);
}

/* ---- faults ---- */

static void a_fault_names_the_limit_as_far_as_it_goes(void **state)
{
    (void)state;
    char name[WEIR_LIMIT_NAME_MAX + 2];
    struct weir_limit_def def = { .name = name, .spec = limit_of(WEIR_TOKEN_BUCKET, 1, 0, 0) };
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 1, HOUR, 0);
    struct weir_fault fault;
    weir_limit_id id = 0;
    const size_t room = sizeof fault.field - 1 - strlen(".period");
    for (size_t length = 0; length <= WEIR_LIMIT_NAME_MAX + 1; length++) {
        const bool sized = length >= 1 && length <= WEIR_LIMIT_NAME_MAX;
        const size_t fits = sized ? room : sizeof fault.field - 1 - strlen(".name");
        char field[256];
        memset(name, 'n', length);
        name[length] = '\0';
        (void)snprintf(field, sizeof field, "%.*s.%s", (int)(length < fits ? length : fits), name,
                       sized ? "period" : "name");
        assert_int_equal(weir_limiter_define(f.limiter, &def, 1, NULL, &id, &fault), WEIR_ERANGE);
        assert_string_equal(fault.field, field);
        assert_true(fault.text[0] != '\0');
        assert_int_equal(weir_limiter_define(f.limiter, &def, 1, NULL, &id, NULL), WEIR_ERANGE);
    }
    def.name = NULL;
    assert_int_equal(weir_limiter_define(f.limiter, &def, 1, NULL, &id, &fault), WEIR_ERANGE);
    assert_string_equal(fault.field, ".name");
    assert_int_equal(id, 0);
    assert_true(ask(&f, 1, T0).admitted); /* the limits before are in force */
    fixture_destroy(&f);
}

/* ---- the background ---- */

/* Somebody else is at it: there may be more to do. */
static void who_finds_the_background_busy_comes_again(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    const struct weir_time time = at(T0);
    assert_false(weir_limiter_maintain(f.limiter, &time, 1));
    pthread_mutex_lock(&f.limiter->background);
    assert_true(weir_limiter_maintain(f.limiter, &time, 1));
    pthread_mutex_unlock(&f.limiter->background);
    assert_false(weir_limiter_maintain(f.limiter, &time, 1));
    fixture_destroy(&f);
}

/* Entries that become wide where no place for that is left: they stay while they may, then they go, and nobody waits
 * for them for ever. */
static void who_finds_no_wider_place_goes_in_the_end(void **state)
{
    (void)state;
    const struct weir_limiter_options options = { .memory_max = WEIR_MEMORY_MIN };
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, 100 * DAY, 0);
    struct fixture f = fixture_create_with(&options, &spec, 1);
    const struct weir_time time = at(T0);
    struct weir_limiter_stats stats;
    struct weir_verdict verdict;
    for (uint64_t i = 0; i < 4000; i++) {
        struct weir_charge charge = numbered(&f, 0, i);
        charge.cost = 9;
        assert_int_equal(weir_limiter_decide_many(f.limiter, &charge, 1, &time, 0, &verdict), 0);
    }
    for (uint64_t count = 10; count < 14; count++) {
        spec = limit_of(WEIR_SLIDING_COUNTER, count, 100 * DAY, 0);
        spec.on_full = WEIR_ON_FULL_REFUSE;
        fixture_define(&f, &spec, 1, T0);
        while (weir_limiter_maintain(f.limiter, &time, 64)) {
        }
        assert_int_equal(f.limiter->widenings_begun, f.limiter->widenings_done);
    }
    weir_limiter_stats(f.limiter, &stats);
    assert_true(f.limiter->widenings_begun > 100);
    assert_in_range(stats.keys, 100, 4000 - 1);
    fixture_destroy(&f);
}

/* ---- asking ---- */

static void a_limit_that_is_off_is_not_there(void **state)
{
    (void)state;
    struct weir_limit_spec specs[3] = { limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0),
                                        limit_of(WEIR_TOKEN_BUCKET, 5, HOUR, 0),
                                        limit_of(WEIR_TOKEN_BUCKET, 7, HOUR, 0) };
    specs[0].mode = specs[2].mode = WEIR_MODE_OFF;
    struct fixture f = fixture_create(specs, 3);
    struct weir_limiter_stats stats;
    struct weir_verdict verdicts[3];
    struct weir_decision decision;
    const struct weir_time time = at(T0);
    for (uint64_t i = 0; i < 2; i++)
        for (unsigned flags = 0; flags < 2; flags++) {
            const struct weir_charge off = charge_of(&f, 0, "k", 100);
            assert_int_equal(weir_limiter_decide(f.limiter, &off, 1, &time, flags ? WEIR_PEEK : 0, &decision, verdicts),
                             0);
            assert_true(decision.admitted && verdicts[0].admitted && verdicts[0].shadow && !verdicts[0].full);
            assert_int_equal(decision.deciding, 1); /* none of one */
            assert_int_equal(decision.retry_after_ns + decision.delay_ns, 0);
            assert_int_equal(verdicts[0].capacity, 10);
            assert_int_equal(verdicts[0].remaining, 10);
            assert_int_equal(verdicts[0].reset_after_ns, 0);
        }
    weir_limiter_stats(f.limiter, &stats);
    assert_int_equal(stats.inserted, 0);
    decision = ask_all(&f, "k", 6, T0, 0, verdicts);
    assert_false(decision.admitted);
    assert_int_equal(decision.deciding, 1); /* the second of three */
    assert_int_equal(verdicts[2].remaining, 7);
    decision = ask_all(&f, "k", 5, T0, 0, verdicts);
    assert_true(decision.admitted);
    assert_int_equal(decision.deciding, 1);
    assert_int_equal(verdicts[1].remaining, 0);
    assert_int_equal(verdicts[2].remaining, 7);
    specs[1].mode = WEIR_MODE_OFF;
    fixture_define(&f, specs, 3, T0);
    decision = ask_all(&f, "k", 5, T0, 0, verdicts);
    assert_true(decision.admitted);
    assert_int_equal(decision.deciding, 3); /* none of them */
    fixture_destroy(&f);
}

/* Without a time the process's clock counts: what has been charged a moment ago still is. */
static void without_a_time_it_is_now(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_CONCURRENCY, 10, HOUR, 0);
    struct fixture f = fixture_create(&spec, 1);
    struct weir_charge charge = charge_of(&f, 0, "k", 1);
    struct weir_verdict verdict;
    uint64_t lease_ns, units;
    assert_int_equal(weir_limiter_decide_many(f.limiter, &charge, 1, NULL, 0, &verdict), 0);
    assert_int_equal(verdict.remaining, 9);
    assert_int_equal(weir_limiter_renew(f.limiter, &charge.key, 1, verdict.ticket, NULL, &lease_ns), 0);
    assert_in_range(lease_ns, HOUR - MINUTE, HOUR);
    assert_int_equal(weir_limiter_release(f.limiter, &charge.key, 1, verdict.ticket, NULL, &units), 0);
    assert_int_equal(units, 1);
    spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    assert_int_equal(
        weir_limiter_define(f.limiter, &(struct weir_limit_def){ .name = "0", .spec = spec }, 1, NULL, f.ids, NULL), 0);
    charge = charge_of(&f, 0, "k", 4);
    assert_true(weir_limiter_admit(f.limiter, &charge, NULL));
    assert_int_equal(weir_limiter_refund(f.limiter, &charge, 1, NULL, &units), 0);
    assert_int_equal(units, 1);
    (void)weir_limiter_maintain(f.limiter, NULL, SIZE_MAX);
    charge.cost = 0;
    assert_int_equal(weir_limiter_decide_many(f.limiter, &charge, 1, NULL, WEIR_PEEK, &verdict), 0);
    assert_int_equal(verdict.remaining, 7);
    fixture_destroy(&f);
}

static void more_than_there_may_be_is_out_of_range(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct weir_charge *charges = calloc(WEIR_BATCH_MAX + 1, sizeof *charges);
    struct weir_verdict *verdicts = calloc(WEIR_BATCH_MAX + 1, sizeof *verdicts);
    struct weir_decision decision;
    const struct weir_time time = at(T0);
    assert_true(charges && verdicts);
    for (uint64_t i = 0; i <= WEIR_BATCH_MAX; i++) {
        charges[i] = numbered(&f, 0, i);
        charges[i].cost = 0;
    }
    for (size_t more = 0; more < 2; more++) {
        const int error = more ? WEIR_ERANGE : 0;
        assert_int_equal(
            weir_limiter_decide_many(f.limiter, charges, WEIR_BATCH_MAX + more, &time, WEIR_PEEK, verdicts), error);
        assert_int_equal(
            weir_limiter_decide(f.limiter, charges, WEIR_CHARGES_MAX + more, &time, 0, &decision, verdicts), error);
        charges[1].cost = (uint64_t)WEIR_COST_MAX + more;
        for (size_t from = 0; from < 2; from++) /* of several, and of one */
            assert_int_equal(weir_limiter_decide(f.limiter, charges + from, 2 - from, &time, 0, &decision, verdicts),
                             error);
        assert_int_equal(weir_limiter_decide_many(f.limiter, charges, 2, &time, 0, verdicts), error);
        charges[1].cost = 0;
    }
    const struct weir_key key = charges[1].key;
    charges[1].key = charges[0].key;
    assert_int_equal(weir_limiter_decide(f.limiter, charges, 2, &time, 0, &decision, verdicts), WEIR_EDUP);
    charges[1].key = key;
    assert_int_equal(weir_limiter_decide(f.limiter, charges, 0, &time, 0, &decision, verdicts), 0);
    assert_true(decision.admitted && decision.deciding == 0);
    free(charges);
    free(verdicts);
    fixture_destroy(&f);
}

/* The table's lines and the rings of logs. */
static void memory_that_is_used_is_told(void **state)
{
    (void)state;
    const struct weir_limit_spec specs[] = { limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0),
                                             limit_of(WEIR_SLIDING_LOG, 100, HOUR, 0) };
    struct fixture f = fixture_create(specs, 2);
    struct weir_limiter_stats stats;
    struct weir_verdict verdict;
    const struct weir_time time = at(T0);
    for (uint64_t rings = 0; rings < 3; rings++) {
        weir_limiter_stats(f.limiter, &stats);
        assert_int_equal(stats.memory_max, (size_t)4 << 20);
        assert_int_equal(stats.memory_used - rings * 8 * sizeof(uint64_t),
                         f.limiter->table.count * sizeof(struct weir_line));
        assert_int_equal(stats.slots, f.limiter->table.count * WEIR_LINE_SLOTS);
        assert_int_equal(stats.keys, rings);
        assert_int_equal(stats.inserted, rings);
        const struct weir_charge charge = numbered(&f, 1, rings);
        assert_int_equal(weir_limiter_decide_many(f.limiter, &charge, 1, &time, 0, &verdict), 0);
    }
    fixture_destroy(&f);
}

/* Of logs by the memory for all of them; of permits by the part that a name has of it, overrides not counted. */
static void a_limit_that_is_never_reached_is_told(void **state)
{
    (void)state;
    for (int permits = 0; permits < 2; permits++)
        for (size_t names = 1; names <= 3; names++)
            for (uint64_t over = 0; over < 2; over++) {
                static const char *const variants[] = { "", "b", "c" }, *const called[] = { "a", "a2", "a3" };
                struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 1, HOUR, 0);
                struct weir_limit_def defs[4] = { { .name = "b", .spec = limit_of(WEIR_TOKEN_BUCKET, 1, HOUR, 0) } };
                uint32_t room;
                struct weir_fault fault;
                weir_limit_id ids[4];
                char text[sizeof fault.text];
                assert_int_equal(weir_logs_longest(f.limiter->logs_bytes, permits ? names : 0, &room), 0);
                room = permits ? room / 2 : room;
                for (size_t i = 0; i < names; i++)
                    defs[i + 1] = (struct weir_limit_def){
                        .name = called[i], .spec = limit_of(permits ? WEIR_CONCURRENCY : WEIR_SLIDING_LOG, 1, HOUR, 0)
                    };
                if (names == 2) /* an override has its limit's part */
                    assert_int_equal(weir_logs_longest(f.limiter->logs_bytes, permits ? 1 : 0, &room), 0);
                if (names == 2) {
                    room = permits ? room / 2 : room;
                    defs[2].name = "a";
                    defs[2].variant = variants[1];
                }
                defs[names].spec.count = room + over;
                assert_int_equal(weir_limiter_define(f.limiter, defs, names + 1, NULL, ids, &fault), 0);
                (void)snprintf(text, sizeof text, "is never reached: log_memory_max has room for %u of one key", room);
                assert_string_equal(fault.text, over ? text : "");
                assert_string_equal(fault.field, !over        ? ""
                                                 : names == 1 ? "a.count"
                                                 : names == 2 ? "a.count"
                                                              : "a3.count");
                fixture_destroy(&f);
            }
}

/* Whose counts are found by a hash of the name: by those of many names, too. */
static void each_name_keeps_its_permits(void **state)
{
    (void)state;
    enum { NAMES = 3000 };
    static struct weir_limit_def defs[NAMES];
    static weir_limit_id ids[NAMES];
    static char called[NAMES][8];
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 1, HOUR, 0);
    const struct weir_time time = at(T0);
    for (uint64_t count = 2; count < 5; count++) {
        for (unsigned i = 0; i < NAMES; i++) {
            (void)snprintf(called[i], sizeof called[i], "%u", i);
            defs[i] = (struct weir_limit_def){ .name = called[i], .spec = limit_of(WEIR_CONCURRENCY, count, HOUR, 0) };
        }
        assert_int_equal(weir_limiter_define(f.limiter, defs, NAMES, &time, ids, NULL), 0);
        for (unsigned i = 0; i < NAMES; i++) {
            const struct weir_slice value = { "k", 1 };
            struct weir_charge charge = { .limit = ids[i], .cost = 1 };
            struct weir_limit_stats stats;
            assert_int_equal(weir_limiter_key(f.limiter, ids[i], &value, 1, &charge.key), 0);
            assert_true(weir_limiter_admit(f.limiter, &charge, &time));
            assert_int_equal(weir_limiter_limit_stats(f.limiter, ids[i], &stats), 0);
            assert_int_equal(stats.permits_given, count - 1);
            assert_int_equal(stats.permits_out, count - 1);
        }
    }
    fixture_destroy(&f);
}

/* Also where it was not the first at its place, and who was has gone. */
static void a_name_is_found_behind_one_that_has_gone(void **state)
{
    (void)state;
    static const uint8_t secret[16] = "sixteen bytes :)";
    const struct weir_limiter_options options = { .memory_max = (size_t)4 << 20, .secret = secret };
    const struct weir_sip_key key = weir_sip_key_load(secret);
    struct weir_limit_spec spec = limit_of(WEIR_CONCURRENCY, 2, HOUR, 0);
    struct fixture f = fixture_create_with(&options, &spec, 1);
    static unsigned of[WEIR_LOGS_OWNERS];
    char called[2][12] = { "", "" };
    struct weir_limit_def defs[2] = { { .name = called[0], .spec = spec }, { .name = called[1], .spec = spec } };
    weir_limit_id ids[2];
    struct weir_limit_stats stats;
    const struct weir_time time = at(T0);
    for (unsigned i = 1; !called[1][0]; i++) { /* two of one place */
        (void)snprintf(called[1], sizeof called[1], "%u", i);
        unsigned *other = &of[weir_siphash(&key, called[1], strlen(called[1])) % WEIR_LOGS_OWNERS];
        if (*other)
            (void)snprintf(called[0], sizeof called[0], "%u", *other);
        else
            called[1][0] = '\0';
        *other = i;
    }
    assert_int_equal(weir_limiter_define(f.limiter, defs, 2, &time, ids, NULL), 0);
    const struct weir_slice value = { "k", 1 };
    struct weir_charge charge = { .limit = ids[1], .cost = 1 };
    assert_int_equal(weir_limiter_key(f.limiter, ids[1], &value, 1, &charge.key), 0);
    assert_true(weir_limiter_admit(f.limiter, &charge, &time));
    for (defs[1].spec.count = 3; defs[1].spec.count < 8; defs[1].spec.count++) {
        assert_int_equal(weir_limiter_define(f.limiter, &defs[1], 1, &time, ids, NULL), 0);
        assert_int_equal(weir_limiter_limit_stats(f.limiter, ids[0], &stats), 0);
        assert_int_equal(stats.permits_given, 1);
        assert_int_equal(stats.permits_out, 1);
    }
    fixture_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_changes_makes_it_another_limit),
        cmocka_unit_test(each_limit_has_its_own_time_zone),
        cmocka_unit_test(a_fault_names_the_limit_as_far_as_it_goes),
        cmocka_unit_test(who_finds_the_background_busy_comes_again),
        cmocka_unit_test(who_finds_no_wider_place_goes_in_the_end),
        cmocka_unit_test(a_limit_that_is_off_is_not_there),
        cmocka_unit_test(without_a_time_it_is_now),
        cmocka_unit_test(more_than_there_may_be_is_out_of_range),
        cmocka_unit_test(memory_that_is_used_is_told),
        cmocka_unit_test(a_limit_that_is_never_reached_is_told),
        cmocka_unit_test(each_name_keeps_its_permits),
        cmocka_unit_test(a_name_is_found_behind_one_that_has_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
