/* SPDX-License-Identifier: Apache-2.0
 *
 * A configuration whose limits are as the newest definitions have them, and the bytes in which those travel. */
#include "rules/revise.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#define WALL_NS (UINT64_C(1700000000) * WEIR_NS_PER_SECOND)
#define HEAD                                                                                                           \
    "cluster_secret: 00112233445566778899aabbccddeeff\n"                                                               \
    "engine: { redis: { servers: [\"127.0.0.1:1\"] } }\n"                                                              \
    "limits:\n"

static const uint8_t secret[16] = { 1, 2, 3 }, other_secret[16] = { 9 };

static struct weir_config *parse(const char *limits)
{
    char text[8192];
    struct weir_config *config;
    struct weir_config_fault fault;
    snprintf(text, sizeof(text), HEAD "%s", limits);
    if (weir_config_parse(text, strlen(text), &config, &fault))
        fail_msg("%u:%u: %s", fault.mark.line, fault.mark.column, fault.text);
    return config;
}

static struct weir_revisions *make(const uint8_t *key, const char *name, const struct weir_config *config)
{
    struct weir_revisions *revisions;
    struct weir_revision_own own[8];
    assert_int_equal(weir_revisions_create(key, name, &revisions), 0);
    assert_int_equal(weir_revisions_own(revisions, own, weir_config_owned(config, own), WALL_NS), 0);
    return revisions;
}

static void reload(struct weir_revisions *revisions, const struct weir_config *config)
{
    struct weir_revision_own own[8];
    assert_int_equal(weir_revisions_own(revisions, own, weir_config_owned(config, own), WALL_NS), 0);
}

/* `to` hears all that `from` knows; what it says of the last one. */
static enum weir_revision_say tell(struct weir_revisions *from, struct weir_revisions *to)
{
    struct weir_revision_brief brief;
    enum weir_revision_say say = WEIR_REVISION_SAME;
    for (size_t i = 0; weir_revisions_brief(from, i, &brief); i++) {
        uint8_t *bytes = NULL;
        size_t size = 0;
        uint64_t number;
        (void)weir_revisions_bytes(from, brief.id, &bytes, &size, &number);
        say = weir_revisions_hear(to, brief.id, bytes, size, true, WALL_NS);
        free(bytes);
    }
    return say;
}

static void what_another_node_made_the_newest_stands_in_the_configuration(void **state)
{
    (void)state;
    struct weir_config *old = parse("  - { name: x, rate: 3000/day, key: [user] }\n  - { name: y, rate: 1/s }\n");
    struct weir_config *new = parse("  - name: x   # more\n    key: [user]\n    rate: 6000/day\n"
                                    "    match: { route: \"/a \\\"b\\\" \\u00e9\", host: \"\" }\n"
                                    "    overrides: [ { user: \"big*\", rate: 5/s } ]\n");
    struct weir_revisions *a = make(secret, "a", new), *b = make(secret, "b", old);
    weir_revisions_alone(b, WALL_NS);
    (void)tell(b, a); /* y is not known there */
    assert_int_equal(tell(a, b), WEIR_REVISION_SAME);
    assert_int_equal(weir_config_revise(old, b, WALL_NS), 0);
    const struct weir_config_limit *x = &old->limits[0], *y = &old->limits[1], *its = &new->limits[0];
    assert_int_equal(x->spec.count, 6000);
    assert_int_equal(x->overrides_count, 1);
    assert_string_equal(x->overrides[0].variant, its->overrides[0].variant);
    assert_int_equal(x->match_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(x->match[i].attribute, its->match[i].attribute);
        assert_int_equal(x->match[i].pattern.size, its->match[i].pattern.size);
        assert_memory_equal(x->match[i].pattern.data, its->match[i].pattern.data, its->match[i].pattern.size);
    }
    assert_string_equal(x->revision_node, "a");
    assert_int_equal(x->revision, 1700000000);
    assert_false(x->undecidable);
    assert_int_equal(y->revision, 1);
    assert_string_equal(y->revision_node, "b");
    weir_revisions_destroy(a);
    weir_revisions_destroy(b);
    weir_config_destroy(old);
    weir_config_destroy(new);
}

/* What a node took over from another it goes on watching: that one's next definition is seen, and taken over too. */
static void what_was_taken_over_is_watched_on(void **state)
{
    (void)state;
    struct weir_config *old = parse("  - { name: x, rate: 3000/day }\n  - { name: y, rate: 1/s }\n"),
                       *next = parse("  - { name: x, rate: 6000/day }\n"),
                       *last = parse("  - { name: x, rate: 9000/day }\n");
    struct weir_revisions *a = make(secret, "a", next), *b = make(secret, "b", old);
    struct weir_revision_own own[8];
    weir_revisions_alone(b, WALL_NS);
    assert_int_equal(weir_config_revise(old, b, WALL_NS), 0);
    assert_true(weir_config_is_newest(old, b, WALL_NS));
    (void)tell(b, a);
    for (int i = 0; i < 2; i++) {
        reload(a, i == 0 ? next : last);
        assert_int_equal(tell(a, b), WEIR_REVISION_SAME);
        assert_false(weir_config_is_newest(old, b, WALL_NS));
        assert_int_equal(weir_config_revise(old, b, WALL_NS), 0);
        assert_true(weir_config_is_newest(old, b, WALL_NS));
        assert_int_equal(old->limits[0].spec.count, i == 0 ? 6000 : 9000);
        assert_int_equal(weir_config_owned(old, own), 2);
    }
    weir_revisions_destroy(a);
    weir_revisions_destroy(b);
    weir_config_destroy(old);
    weir_config_destroy(next);
    weir_config_destroy(last);
}

static void a_reload_is_in_force_at_once_and_under_its_number(void **state)
{
    (void)state;
    struct weir_config *old = parse("  - { name: x, rate: 3000/day }\n"),
                       *new = parse("  - { name: x, rate: 9/day }\n");
    struct weir_revisions *a = make(secret, "a", old);
    weir_revisions_alone(a, WALL_NS);
    uint64_t generation = weir_revisions_generation(a);
    assert_int_equal(weir_config_revise(new, a, WALL_NS), 0);
    assert_int_equal(new->limits[0].spec.count, 9);
    assert_int_equal(new->limits[0].revision, 1700000000);
    assert_int_equal(weir_revisions_generation(a), generation); /* it has only looked */
    reload(a, new);
    assert_true(weir_revisions_generation(a) > generation);
    assert_int_equal(weir_config_revise(new, a, WALL_NS), 0);
    assert_int_equal(new->limits[0].revision, 1700000000);
    assert_int_equal(weir_config_revise(old, a, WALL_NS), 0); /* as a reload back would have it */
    assert_int_equal(old->limits[0].spec.count, 3000);
    assert_int_equal(old->limits[0].revision, 1700000001);
    weir_revisions_destroy(a);
    weir_config_destroy(old);
    weir_config_destroy(new);
}

/* Also for a time without a channel (split), and whoever is heard first. */
static void what_a_reload_takes_out_and_brings_back_is_the_newest(void **state)
{
    (void)state;
    struct weir_config *old = parse("  - { name: x, rate: 3000/day }\n"),
                       *new = parse("  - { name: x, rate: 9/day }\n"),
                       *without = parse("  - { name: x, rate: 9/day, sharing: split }\n");
    struct weir_revisions *a = make(secret, "a", old), *b = make(secret, "b", old), *stale = make(secret, "c", old);
    weir_revisions_alone(a, WALL_NS);
    weir_revisions_alone(stale, WALL_NS);
    reload(a, new);
    (void)tell(a, b);
    reload(a, without);
    (void)tell(stale, a); /* who has not heard of the newest must not make it forgotten */
    assert_int_equal(weir_config_revise(old, a, WALL_NS), 0);
    assert_int_equal(old->limits[0].revision, 1700000001);
    reload(a, old);
    (void)tell(stale, a);
    (void)tell(b, a);
    (void)tell(a, b);
    assert_int_equal(weir_config_revise(old, b, WALL_NS), 0);
    assert_int_equal(old->limits[0].spec.count, 3000);
    assert_int_equal(old->limits[0].revision, 1700000001);
    assert_string_equal(old->limits[0].revision_node, "a");
    weir_revisions_destroy(a);
    weir_revisions_destroy(b);
    weir_revisions_destroy(stale);
    weir_config_destroy(old);
    weir_config_destroy(new);
    weir_config_destroy(without);
}

static void what_is_remembered_of_limits_taken_out_is_bounded(void **state)
{
    (void)state;
    struct weir_revisions *revisions;
    char names[3][100][8];
    assert_int_equal(weir_revisions_create(secret, "a", &revisions), 0);
    for (size_t round = 0; round < 3; round++) {
        struct weir_revision_own own[100];
        for (size_t i = 0; i < 100; i++) {
            snprintf(names[round][i], sizeof(names[round][i]), "%zu.%zu", round, i);
            own[i] = (struct weir_revision_own){ names[round][i], { "x", 1 }, 0 };
        }
        assert_int_equal(weir_revisions_own(revisions, own, 100, WALL_NS), 0);
        weir_revisions_alone(revisions, WALL_NS);
        assert_int_equal(weir_revisions_count(revisions), 100 + (round > 0) * WEIR_REVISIONS_GONE_MAX);
    }
    assert_int_equal(weir_revisions_own(revisions, NULL, 0, WALL_NS), 0);
    assert_int_equal(weir_revisions_count(revisions), WEIR_REVISIONS_GONE_MAX);
    size_t last = 0; /* those that went last are remembered: what comes back as it was is not made the newest again */
    for (size_t i = 0; i < 100; i++) {
        const struct weir_revision_own own = { names[2][i], { "x", 1 }, 0 };
        struct weir_revision_found found;
        assert_int_equal(weir_revisions_find(revisions, &own, WALL_NS, &found), 0);
        last += found.number > 0;
    }
    assert_int_equal(last, WEIR_REVISIONS_GONE_MAX);
    weir_revisions_destroy(revisions);
}

static void before_the_others_are_heard_it_is_the_files_and_has_no_number(void **state)
{
    (void)state;
    struct weir_config *config = parse("  - { name: x, rate: 3000/day }\n");
    struct weir_revisions *a = make(secret, "a", config);
    assert_int_equal(weir_config_revise(config, a, WALL_NS), 0);
    assert_int_equal(config->limits[0].revision, 0);
    assert_int_equal(config->limits[0].spec.count, 3000);
    weir_revisions_destroy(a);
    weir_config_destroy(config);
}

/* As many limits as may be meet every request; the newest definition of one beside them would be one more. */
static void one_limit_more_that_every_request_meets_is_not_decided_by(void **state)
{
    (void)state;
    char limits[8000] = "  - { name: x, rate: 9/day, match: { route: /a } }\n";
    for (int i = 0; i < WEIR_CHARGES_MAX; i++) {
        size_t used = strlen(limits);
        snprintf(limits + used, sizeof limits - used,
                 "  - { name: a%d, rate: 1/s, key: [user], missing: share, sharing: split }\n", i);
    }
    struct weir_config *config = parse(limits), *other = parse("  - { name: x, rate: 8/day }\n");
    struct weir_revisions *a = make(secret, "a", config), *b = make(secret, "b", other);
    weir_revisions_alone(a, WALL_NS);
    (void)tell(a, b);
    (void)tell(b, a);
    assert_int_equal(weir_config_revise(config, a, WALL_NS), 0);
    assert_string_equal(config->limits[0].revision_node, "b");
    assert_true(config->limits[0].undecidable);
    weir_revisions_destroy(a);
    weir_revisions_destroy(b);
    weir_config_destroy(config);
    weir_config_destroy(other);
}

/* Who may write at the engine, and has no secret, copies the definition of one limit to where another's stands. */
static void a_definition_of_another_limit_is_not_believed(void **state)
{
    (void)state;
    struct weir_config *file = parse("  - { name: x, rate: 1/s }\n  - { name: y, rate: 7/day }\n"),
                       *newer = parse("  - { name: x, rate: 9/s }\n  - { name: y, rate: 7/day }\n");
    struct weir_revisions *a = make(secret, "a", file), *b = make(secret, "b", file);
    weir_revisions_check_names(a, weir_revise_name_of);
    weir_revisions_alone(a, WALL_NS);
    weir_revisions_alone(b, WALL_NS);
    reload(b, newer);
    unsigned corrupt = 0;
    for (size_t of = 0; of < 2; of++) {
        struct weir_revision_brief from, to;
        assert_true(weir_revisions_brief(b, of, &from));
        for (size_t at = 0; at < 2; at++) {
            uint8_t *bytes;
            size_t size;
            uint64_t number;
            assert_true(weir_revisions_brief(a, at, &to));
            assert_int_equal(weir_revisions_bytes(b, from.id, &bytes, &size, &number), 0);
            enum weir_revision_say say = weir_revisions_hear(a, to.id, bytes, size, true, 2 * WALL_NS);
            assert_true(say != WEIR_REVISION_NEWER);
            corrupt += say == WEIR_REVISION_CORRUPT; /* where it would have been the newest */
            free(bytes);
        }
    }
    assert_true(corrupt > 0);
    assert_int_equal(weir_config_revise(file, a, 2 * WALL_NS), 0);
    assert_int_equal(file->limits[0].spec.count, 9);
    assert_int_equal(file->limits[1].spec.count, 7);
    assert_false(file->limits[0].undecidable || file->limits[1].undecidable);
    weir_revisions_destroy(a);
    weir_revisions_destroy(b);
    weir_config_destroy(file);
    weir_config_destroy(newer);
}

static void what_another_cluster_signed_is_not_believed(void **state)
{
    (void)state;
    struct weir_config *config = parse("  - { name: x, rate: 3000/day }\n"),
                       *other = parse("  - { name: x, rate: 1/s }\n");
    struct weir_revisions *a = make(secret, "a", config), *stray = make(other_secret, "z", other);
    struct weir_revision_brief ours, theirs;
    weir_revisions_alone(a, WALL_NS);
    weir_revisions_alone(stray, 2 * WALL_NS);
    assert_true(weir_revisions_brief(a, 0, &ours) && weir_revisions_brief(stray, 0, &theirs));
    assert_memory_not_equal(ours.id, theirs.id, sizeof(ours.id));
    uint8_t *bytes;
    size_t size;
    uint64_t number;
    assert_int_equal(weir_revisions_bytes(stray, theirs.id, &bytes, &size, &number), 0);
    assert_int_equal(weir_revisions_hear(a, ours.id, bytes, size, true, WALL_NS), WEIR_REVISION_CORRUPT);
    free(bytes);
    assert_int_equal(weir_revisions_bytes(a, ours.id, &bytes, &size, &number), 0);
    for (size_t i = 0; i < size; i++) { /* every byte counts, and so does the end */
        struct weir_revisions *fresh = make(secret, "b", config);
        bytes[i] ^= 1;
        assert_int_equal(weir_revisions_hear(fresh, ours.id, bytes, size, true, WALL_NS), WEIR_REVISION_CORRUPT);
        bytes[i] ^= 1;
        assert_true(weir_revisions_hear(fresh, ours.id, bytes, i, true, WALL_NS) != WEIR_REVISION_SAME);
        weir_revisions_destroy(fresh);
    }
    free(bytes);
    weir_revisions_destroy(a);
    weir_revisions_destroy(stray);
    weir_config_destroy(config);
    weir_config_destroy(other);
}

static void split_and_what_one_process_keeps_have_no_channel(void **state)
{
    (void)state;
    struct weir_revision_own own[8];
    struct weir_config *config = parse("  - { name: x, rate: 3000/day, sharing: split }\n  - { name: y, rate: 1/s }\n");
    assert_int_equal(weir_config_owned(config, own), 1);
    assert_string_equal(own[0].name, "y");
    weir_config_destroy(config);
    static const char alone[] = "limits: [ { name: x, rate: 1/s } ]\n";
    assert_int_equal(weir_config_parse(alone, sizeof(alone) - 1, &config, NULL), 0);
    assert_int_equal(weir_config_owned(config, own), 0);
    weir_config_destroy(config);
}

/* Written out and read anew it is the same text: so nodes count layout and comments for nothing. */
static void layout_does_not_make_another_definition(void **state)
{
    (void)state;
    struct weir_config *a = parse("  - { name: x, rate: 3000/day, match: { a: 'b\xc3\xa9', c: \"\\x07\" } }\n"),
                       *b = NULL;
    struct weir_config *c = parse("  - name: \"x\" # hello\n    rate: 3000/day\n    match:\n      a: \"b\\u00e9\"\n"
                                  "      c: \"\\a\"\n");
    assert_string_equal(a->limits[0].text.data, c->limits[0].text.data);
    assert_int_equal(weir_config_again(a, &b, NULL), 0);
    assert_string_equal(a->limits[0].text.data, b->limits[0].text.data);
    weir_config_destroy(a);
    weir_config_destroy(b);
    weir_config_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_another_node_made_the_newest_stands_in_the_configuration),
        cmocka_unit_test(what_was_taken_over_is_watched_on),
        cmocka_unit_test(a_reload_is_in_force_at_once_and_under_its_number),
        cmocka_unit_test(what_a_reload_takes_out_and_brings_back_is_the_newest),
        cmocka_unit_test(what_is_remembered_of_limits_taken_out_is_bounded),
        cmocka_unit_test(before_the_others_are_heard_it_is_the_files_and_has_no_number),
        cmocka_unit_test(one_limit_more_that_every_request_meets_is_not_decided_by),
        cmocka_unit_test(a_definition_of_another_limit_is_not_believed),
        cmocka_unit_test(what_another_cluster_signed_is_not_believed),
        cmocka_unit_test(split_and_what_one_process_keeps_have_no_channel),
        cmocka_unit_test(layout_does_not_make_another_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
