/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/session/token.h"
#include "random.h"
#include "sessions/signer.h"

#define PLACE(s, t, p)                                                                                                 \
    {                                                                                                                  \
        .system = s, .timeline = t, .position = p                                                                      \
    }

static const uint8_t secrets[3][WEIR_SESSION_KEY_MIN] = { "first", "second", "third" };
static const struct weir_session_key keys[3] = { { 10, secrets[0], WEIR_SESSION_KEY_MIN },
                                                 { 20, secrets[1], WEIR_SESSION_KEY_MIN },
                                                 { 30, secrets[2], WEIR_SESSION_KEY_MIN } };

struct text {
    char bytes[WEIR_SESSION_TOKEN_MAX + 16];
    size_t size;
};

static struct weir_signer *signer_of(unsigned first, unsigned count)
{
    struct weir_signer *signer;
    assert_int_equal(weir_signer_create(keys + first, count, &signer, NULL), 0);
    return signer;
}

static struct text written(const struct weir_session_token *token, const struct weir_signer *signer)
{
    struct text text = { { 0 }, 0 };
    assert_int_equal(weir_session_token_write(token, signer ? weir_signer_of(signer) : NULL, text.bytes, &text.size),
                     0);
    assert_true(text.size <= WEIR_SESSION_TOKEN_MAX);
    assert_int_equal(text.bytes[text.size], 0);
    return text;
}

static int reading(const struct text *text, const struct weir_signer *signer, struct weir_session_token *ret_token)
{
    return weir_session_token_read(text->bytes, text->size, signer ? weir_signer_of(signer) : NULL, ret_token);
}

static void assert_same(const struct weir_session_token *a, const struct weir_session_token *b)
{
    assert_true(a->wrote_ns == b->wrote_ns && a->stamp_ns == b->stamp_ns && a->clock == b->clock);
    assert_int_equal(a->count, b->count);
    for (unsigned i = 0; i < a->count; i++) {
        assert_true(a->places[i].system == b->places[i].system && a->places[i].position == b->places[i].position);
        assert_true(a->places[i].run == b->places[i].run && a->places[i].timeline == b->places[i].timeline);
        assert_true(a->places[i].standby == b->places[i].standby && a->places[i].branch == b->places[i].branch);
    }
}

/* Of any size: about as many small numbers as large ones. */
static uint64_t random_number(struct test_random *random)
{
    return test_random_u64(random) >> test_random_below(random, 64);
}

static struct weir_session_token random_token(struct test_random *random)
{
    struct weir_session_token token = { .wrote_ns = random_number(random) - 1,
                                        .stamp_ns = random_number(random),
                                        .clock = random_number(random) };
    for (uint64_t i = test_random_below(random, WEIR_SESSION_PLACES_MAX + 1); i > 0; i--) {
        struct weir_place place = { .system = random_number(random) | 1,
                                    .position = random_number(random),
                                    .run = test_random_below(random, 2) ? random_number(random) : 0,
                                    .timeline = (uint32_t)random_number(random) | 1,
                                    .standby = test_random_below(random, 2) };
        place.branch = place.timeline > 1 && test_random_below(random, 2) ? (uint32_t)random_number(random) : 0;
        assert_int_equal(weir_session_token_add(&token, &place, NULL), 0);
    }
    return token;
}

static struct weir_session_token longest_token(void)
{
    struct weir_session_token token = { UINT64_MAX, UINT64_MAX, UINT64_MAX, WEIR_SESSION_PLACES_MAX, { { 0 } } };
    for (unsigned i = 0; i < WEIR_SESSION_PLACES_MAX; i++)
        token.places[i] = (struct weir_place){ UINT64_MAX, UINT64_MAX, UINT64_MAX - i, UINT32_MAX, true, UINT32_MAX };
    return token;
}

static void token__comes_back_from_its_text(void **state)
{
    struct test_random random = { test_random_seed() };
    struct weir_signer *signer = signer_of(0, 2);
    (void)state;
    for (unsigned i = 0; i < 2000; i++) {
        struct weir_session_token token = random_token(&random), again = { .count = 77 };
        struct text text = written(&token, i % 2 ? signer : NULL);
        assert_int_equal(reading(&text, i % 2 ? signer : NULL, &again), 0);
        assert_same(&token, &again);
    }
    weir_signer_destroy(signer);
}

/* There is but one first timeline. */
static void token__of_a_branch_of_the_first_timeline_is_none(void **state)
{
    (void)state;
    struct weir_session_token token = { .count = 1,
                                        .places = { { .system = 9, .position = 8, .timeline = 2, .branch = 5 } } };
    for (uint32_t timeline = 2; timeline > 0; timeline--) {
        token.places[0].timeline = timeline;
        struct weir_session_token again;
        const struct text text = written(&token, NULL);
        assert_int_equal(reading(&text, NULL, &again) == 0, timeline == 2);
    }
}

static void token__of_two_has_the_latest_of_each_time(void **state)
{
    (void)state;
    static const struct weir_session_token a = { .wrote_ns = 5, .stamp_ns = 9, .clock = 3 };
    static const struct weir_session_token b = { .wrote_ns = 7, .stamp_ns = 2, .clock = 8 };
    for (int swapped = 0; swapped < 2; swapped++) {
        struct weir_session_token merged = swapped ? b : a;
        assert_int_equal(weir_session_token_merge(&merged, swapped ? &a : &b, NULL), 0);
        assert_true(merged.wrote_ns == 7 && merged.stamp_ns == 9 && merged.clock == 8 && merged.count == 0);
    }
}

/* What cannot be merged stands by system, timeline, position, run and branch, in whatever order it came. */
static void token__is_in_order_whatever_came_first(void **state)
{
    struct test_random random = { test_random_seed() };
    (void)state;
    for (unsigned round = 0; round < 500; round++) {
        struct weir_session_token token = { .count = 0 };
        uint32_t branches[WEIR_SESSION_PLACES_MAX];
        for (uint32_t i = 0; i < WEIR_SESSION_PLACES_MAX; i++) { /* each a branch of its own */
            uint64_t at = test_random_below(&random, i + 1);
            branches[i] = branches[at];
            branches[at] = 9 + i;
        }
        for (uint32_t i = 0; i < WEIR_SESSION_PLACES_MAX; i++) {
            const struct weir_place place = { .system = 7 + test_random_below(&random, 2),
                                              .timeline = (uint32_t)(2 + test_random_below(&random, 2)),
                                              .position = 80 + test_random_below(&random, 2),
                                              .run = 5 + test_random_below(&random, 2),
                                              .branch = branches[i] };
            assert_int_equal(weir_session_token_add(&token, &place, NULL), 0);
        }
        assert_int_equal(token.count, WEIR_SESSION_PLACES_MAX);
        uint64_t before = 0;
        for (unsigned i = 0; i < token.count; i++) {
            const struct weir_place *place = &token.places[i];
            uint64_t rank = (((place->system * 10 + place->timeline) * 100 + place->position) * 10 + place->run) * 100 +
                            place->branch;
            assert_true(rank > before);
            before = rank;
        }
    }
}

static void token__fits_into_its_bound_at_its_longest(void **state)
{
    struct weir_session_token token = longest_token(), again;
    struct weir_signer *signer = signer_of(0, 1);
    struct text text = written(&token, signer);
    (void)state;
    assert_true(text.size > WEIR_SESSION_TOKEN_MAX - 80);
    assert_int_equal(reading(&text, signer, &again), 0);
    assert_same(&token, &again);
    printf("longest %zu", text.size);
    token = (struct weir_session_token){ .count = 1, .places = { PLACE(UINT64_C(7570000000000000000), 1, 0x3000148) } };
    printf(", usual %zu characters\n", written(&token, signer).size);
    weir_signer_destroy(signer);
}

/* Every bit of the text, which may make it no base64url, and every bit of what it stands for. */
static void token__with_any_bit_changed_is_refused(void **state)
{
    struct test_random random = { test_random_seed() };
    struct weir_session_token tokens[3] = { longest_token(), { 0 }, random_token(&random) }, again = { .count = 77 };
    struct weir_signer *signer = signer_of(0, 3);
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct text text = written(&tokens[i], signer);
        for (size_t bit = 0; bit < 8 * text.size; bit++) {
            text.bytes[bit / 8] = (char)(text.bytes[bit / 8] ^ 1 << bit % 8);
            int error = reading(&text, signer, &again);
            assert_true(error == WEIR_EPROTO || error == WEIR_EFORGED);
            text.bytes[bit / 8] = (char)(text.bytes[bit / 8] ^ 1 << bit % 8);
        }
        assert_int_equal(again.count, 77);
        assert_int_equal(reading(&text, signer, &again), 0);
        again.count = 77;
    }
    weir_signer_destroy(signer);
}

static void token__with_another_character_anywhere_is_refused(void **state)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/. ";
    struct weir_session_token token = { .clock = 3, .count = 1, .places = { PLACE(9, 1, 80) } }, again;
    struct weir_signer *signer = signer_of(0, 3);
    (void)state;
    for (; token.clock < 3 << 21; token.clock <<= 7) { /* all three lengths modulo 3 */
        struct text text = written(&token, signer), changed = text;
        for (size_t i = 0; i < text.size; changed.bytes[i] = text.bytes[i], i++)
            for (const char *c = alphabet; *c; c++) {
                changed.bytes[i] = *c;
                assert_true(*c == text.bytes[i] || reading(&changed, signer, &again) != 0);
            }
    }
    weir_signer_destroy(signer);
}

static void token__cut_short_or_with_more_behind_is_refused(void **state)
{
    struct weir_session_token token = longest_token(), small = { 0 }, again = { .count = 77 };
    struct weir_signer *signer = signer_of(0, 1);
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        const struct weir_signer *by = i % 2 ? signer : NULL;
        struct text text = written(i < 2 ? &token : &small, by), changed = text;
        for (changed.size = 0; changed.size < text.size; changed.size++)
            assert_int_not_equal(reading(&changed, by, &again), 0);
        for (const char *more = "A=\n_\0 "; changed.size < text.size + 4; more++) {
            changed.bytes[changed.size++] = *more;
            assert_int_not_equal(reading(&changed, by, &again), 0);
        }
    }
    char oversized[WEIR_SESSION_TOKEN_MAX + 4];
    memset(oversized, 'A', sizeof oversized);
    for (size_t size = 0; size <= sizeof oversized; size++)
        assert_int_equal(weir_session_token_read(oversized, size, NULL, &again), WEIR_EPROTO);
    assert_int_equal(again.count, 77);
    weir_signer_destroy(signer);
}

/* Keys rotate: what an old key signed is read while the key is on the list. */
static void token__is_read_with_any_key_of_the_list_and_written_with_the_first(void **state)
{
    struct weir_session_token token = { .clock = 5 }, again;
    struct weir_signer *old = signer_of(0, 1), *both = signer_of(0, 2), *new = signer_of(1, 2), *last = signer_of(2, 1);
    struct text by_old = written(&token, old), by_new = written(&token, new), by_both = written(&token, both);
    (void)state;
    assert_memory_equal(by_old.bytes, by_both.bytes, sizeof by_old.bytes);
    assert_int_equal(reading(&by_old, both, &again), 0);
    assert_int_equal(reading(&by_new, both, &again), 0);
    assert_int_equal(reading(&by_new, new, &again), 0);
    assert_int_equal(reading(&by_old, new, &again), WEIR_EFORGED);
    assert_int_equal(reading(&by_new, last, &again), WEIR_EFORGED);
    weir_signer_destroy(old);
    weir_signer_destroy(both);
    weir_signer_destroy(new);
    weir_signer_destroy(last);
}

static void token__of_another_key_with_the_same_id_is_forged(void **state)
{
    struct weir_session_token token = { .clock = 5 }, again;
    struct weir_session_key other = keys[0];
    struct weir_signer *ours = signer_of(0, 1), *theirs;
    (void)state;
    other.key = secrets[1];
    assert_int_equal(weir_signer_create(&other, 1, &theirs, NULL), 0);
    struct text text = written(&token, theirs);
    assert_int_equal(reading(&text, ours, &again), WEIR_EFORGED);
    weir_signer_destroy(ours);
    weir_signer_destroy(theirs);
}

static void token__signed_and_unsigned_do_not_mix(void **state)
{
    struct weir_session_token token = { .clock = 5 }, again;
    struct weir_signer *signer = signer_of(0, 1);
    struct text with = written(&token, signer), without = written(&token, NULL);
    (void)state;
    assert_int_equal(reading(&with, NULL, &again), WEIR_EFORGED);
    assert_int_equal(reading(&without, signer, &again), WEIR_EFORGED);
    weir_signer_destroy(signer);
}

/* Unsigned, so that it is the reader of the body that refuses. */
static void token__with_a_body_that_is_not_the_shortest_is_refused(void **state)
{
    static const struct {
        const char *text; /* base64url of what the comment says */
        int error;
    } cases[] = {
        { "AgAAAAAA", 0 },                                     /* version, key, four zeros */
        { "AgEAAAAA", WEIR_EPROTO },                           /* a key's name, unsigned */
        { "AwAAAAAA", WEIR_EPROTO },                           /* version 3 */
        { "AAAAAAAA", WEIR_EPROTO },                           /* version 0 */
        { "AgCAAAAAAA", WEIR_EPROTO },                         /* 0 in two bytes */
        { "AgCBAAAAAA", WEIR_EPROTO },                         /* 1 in two bytes */
        { "AgAAAAAI", WEIR_EPROTO },                           /* eight places, and none follows */
        { "AgAAAAAJ", WEIR_EPROTO },                           /* nine */
        { "AgAAAAAAAA", WEIR_EPROTO },                         /* one byte too many */
        { "AgD__________38AAA", WEIR_EPROTO },                 /* 2^63 - 1, and a byte is missing */
        { "AgD___________8BAAAA", 0 },                         /* 2^64 - 1 */
        { "AgD___________8CAAAA", WEIR_EPROTO },               /* 2^64 and more */
        { "AgAAAAABAQAAAAAAAAAAAQE", 0 },                      /* system 1, no flags, timeline 1, position 1 */
        { "AgAAAAABAAAAAAAAAAAAAQE", WEIR_EPROTO },            /* system 0 */
        { "AgAAAAABAQAAAAAAAAAAAAE", WEIR_EPROTO },            /* timeline 0 */
        { "AgAAAAABAQAAAAAAAAAEAQE", WEIR_EPROTO },            /* a flag of nobody's */
        { "AgAAAAABAQAAAAAAAAABAQEAAAAAAAAAAA", WEIR_EPROTO }, /* run 0 */
        { "AgAAAAABAQAAAAAAAAABAQEBAAAAAAAAAA", 0 },           /* run 1 */
        { "AgAAAAABAQAAAAAAAAAAgICAgBAB", WEIR_EPROTO },       /* timeline 2^32 */
        { "AgAAAAABAQAAAAAAAAAAgYCAgBAB", WEIR_EPROTO },       /* timeline 2^32 + 1 */
        { "AgAAAAAJAQAAAAAAAAAAAQEBAAAAAAAAAAABAQEAAAAAAAAAAAEBAQAAAAAAAAAAAQEBAAAAAAAAAAABAQEAAAAAAAAAAAEBAQAAAAAAAAAA"
          "AQEBAAAAAAAAAAABAQEAAAAAAAAAAAEB",
          WEIR_EPROTO }, /* nine places, and nine follow */
    };
    struct weir_session_token again;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int error = weir_session_token_read(cases[i].text, strlen(cases[i].text), NULL, &again);
        if (error != cases[i].error)
            fail_msg("case %zu: %d", i, error);
    }
}

static int mac_fails(void *context, unsigned key, const void *message, size_t size, uint8_t *ret_mac)
{
    (void)context;
    (void)key;
    (void)message;
    (void)size;
    (void)ret_mac;
    return WEIR_ENOMEM;
}

static void token__fails_where_its_signer_does(void **state)
{
    const struct weir_session_signer broken = { .key_count = 1, .key_ids = { 10 }, .mac = mac_fails };
    struct weir_session_token token = { .clock = 5 }, again = { .count = 77 };
    struct weir_signer *signer = signer_of(0, 1);
    struct text text = written(&token, signer);
    size_t size = 5;
    (void)state;
    assert_int_equal(weir_session_token_write(&token, &broken, text.bytes + 100, &size), WEIR_ENOMEM);
    assert_int_equal(size, 5);
    assert_int_equal(weir_session_token_read(text.bytes, text.size, &broken, &again), WEIR_ENOMEM);
    assert_int_equal(again.count, 77);
    weir_signer_destroy(signer);
}

/* ---- what it holds ---- */

static void token__holds_several_systems_and_places_that_nobody_can_merge(void **state)
{
    struct weir_session_token token = { 0 }, full;
    struct weir_known known = { 0 };
    (void)state;
    for (uint32_t i = WEIR_SESSION_PLACES_MAX; i > 0; i--)
        assert_int_equal(weir_session_token_add(&token, &(struct weir_place)PLACE(9, 10 + i, 8), NULL), 0);
    for (uint32_t i = 0; i < WEIR_SESSION_PLACES_MAX; i++)
        assert_int_equal(token.places[i].timeline, 11 + i);
    full = token;
    assert_int_equal(weir_session_token_add(&token, &(struct weir_place)PLACE(8, 99, 8), NULL), WEIR_ELIMIT);
    assert_memory_equal(&token, &full, sizeof token);
    const struct weir_session_token other = { .wrote_ns = 5, .count = 1, .places = { PLACE(8, 99, 8) } };
    assert_int_equal(weir_session_token_merge(&token, &other, NULL), WEIR_ELIMIT);
    assert_memory_equal(&token, &full, sizeof token);
    assert_int_equal(weir_session_token_add(&token, &(struct weir_place)PLACE(9, 12, 16), NULL), 0);
    /* What could not be merged then can be now. */
    weir_known_history(
        &known, 9, &(struct weir_history){ .timeline = 18, .count = 2, .ancestors = { { 11, 8, 0 }, { 12, 8, 0 } } });
    assert_int_equal(weir_session_token_add(&token, &(struct weir_place)PLACE(8, 99, 8), &known), 0);
    assert_int_equal(token.count, WEIR_SESSION_PLACES_MAX - 1);
    assert_true(token.places[0].system == 8);
    for (uint32_t i = 1; i < token.count; i++)
        assert_int_equal(token.places[i].timeline, 11 + i);
}

static void token__is_as_good_as_its_worst_place(void **state)
{
    struct weir_session_token token = { 0 };
    struct weir_shown standby = { .system = 9, .timeline = 5, .position = 80, .received = 80 };
    struct weir_known known = { 0 };
    (void)state;
    weir_known_history(&known, 9, &(struct weir_history){ .timeline = 5, .count = 1, .ancestors = { { 3, 40, 0 } } });
    weir_known_history(&known, 9, &(struct weir_history){ .timeline = 6, .count = 1, .ancestors = { { 5, 72, 0 } } });
    assert_int_equal(weir_session_token_compare(&token, &standby, &known), WEIR_PLACE_OK);
    const struct {
        struct weir_place place;
        enum weir_place_verdict verdict;
    } steps[] = {
        { PLACE(8, 1, 800), WEIR_PLACE_FOREIGN }, { PLACE(9, 5, 80), WEIR_PLACE_OK },
        { PLACE(9, 5, 88), WEIR_PLACE_BEHIND },   { PLACE(9, 7, 80), WEIR_PLACE_UNPROVEN },
        { PLACE(9, 6, 80), WEIR_PLACE_DIVERGED }, { PLACE(9, 3, 48), WEIR_PLACE_LOST },
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        assert_int_equal(weir_session_token_add(&token, &steps[i].place, &known), 0);
        assert_int_equal(weir_session_token_compare(&token, &standby, &known), steps[i].verdict);
    }
    standby.system = 7;
    assert_int_equal(weir_session_token_compare(&token, &standby, &known), WEIR_PLACE_FOREIGN);
}

static void token__accepts_a_loss_and_goes_on_from_what_there_is(void **state)
{
    struct weir_session_token token = { .clock = 4 };
    const struct weir_shown primary = {
        .system = 9, .timeline = 2, .position = 80, .flushed = 80, .run = 5, .primary = true, .settled = true
    };
    struct weir_known known = { 0 };
    (void)state;
    weir_known_history(&known, 9, &(struct weir_history){ .timeline = 2, .count = 1, .ancestors = { { 1, 40, 0 } } });
    assert_int_equal(weir_session_token_add(&token, &(struct weir_place)PLACE(9, 1, 48), &known), 0);
    assert_int_equal(weir_session_token_add(&token, &(struct weir_place)PLACE(9, 7, 8), &known), 0);
    assert_int_equal(weir_session_token_add(&token, &(struct weir_place)PLACE(9, 2, 56), &known), 0);
    assert_int_equal(weir_session_token_add(&token, &(struct weir_place)PLACE(8, 1, 48), &known), 0);
    assert_int_equal(weir_session_token_compare(&token, &primary, &known), WEIR_PLACE_LOST);
    assert_int_equal(weir_session_token_accept(&token, &primary, &known), 2);
    assert_int_equal(weir_session_token_compare(&token, &primary, &known), WEIR_PLACE_OK);
    assert_int_equal(token.count, 2);
    assert_true(token.places[1].timeline == 2 && token.places[1].position == 80 && token.clock == 4);
    assert_int_equal(weir_session_token_accept(&token, &primary, &known), 0);
    assert_int_equal(token.count, 2);
}

static void token__of_another_system_than_what_is_known_is_not_merged_by_it(void **state)
{
    struct weir_session_token token = { 0 };
    struct weir_known known = { 0 };
    (void)state;
    weir_known_history(&known, 9, &(struct weir_history){ .timeline = 2, .count = 1, .ancestors = { { 1, 40, 0 } } });
    assert_int_equal(weir_session_token_add(&token, &(struct weir_place)PLACE(8, 1, 40), &known), 0);
    assert_int_equal(weir_session_token_add(&token, &(struct weir_place)PLACE(8, 2, 48), &known), 0);
    assert_int_equal(token.count, 2);
    assert_int_equal(weir_session_token_add(&token, &(struct weir_place)PLACE(9, 1, 40), &known), 0);
    assert_int_equal(weir_session_token_add(&token, &(struct weir_place)PLACE(9, 2, 48), &known), 0);
    assert_int_equal(token.count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token__comes_back_from_its_text),
        cmocka_unit_test(token__of_a_branch_of_the_first_timeline_is_none),
        cmocka_unit_test(token__of_two_has_the_latest_of_each_time),
        cmocka_unit_test(token__is_in_order_whatever_came_first),
        cmocka_unit_test(token__fits_into_its_bound_at_its_longest),
        cmocka_unit_test(token__with_any_bit_changed_is_refused),
        cmocka_unit_test(token__with_another_character_anywhere_is_refused),
        cmocka_unit_test(token__cut_short_or_with_more_behind_is_refused),
        cmocka_unit_test(token__is_read_with_any_key_of_the_list_and_written_with_the_first),
        cmocka_unit_test(token__of_another_key_with_the_same_id_is_forged),
        cmocka_unit_test(token__signed_and_unsigned_do_not_mix),
        cmocka_unit_test(token__with_a_body_that_is_not_the_shortest_is_refused),
        cmocka_unit_test(token__fails_where_its_signer_does),
        cmocka_unit_test(token__holds_several_systems_and_places_that_nobody_can_merge),
        cmocka_unit_test(token__is_as_good_as_its_worst_place),
        cmocka_unit_test(token__accepts_a_loss_and_goes_on_from_what_there_is),
        cmocka_unit_test(token__of_another_system_than_what_is_known_is_not_merged_by_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
