/* SPDX-License-Identifier: Apache-2.0
 *
 * What is told of a definition between nodes that hear each other, without the datagrams: which number, by whom, how
 * long it may be, and what is believed of bytes. */
#include "limits/revisions.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "wire/gossip.h"

#define WALL_NS (UINT64_C(1700000000) * WEIR_NS_PER_SECOND)

static const uint8_t secret[16] = { 1, 2, 3 };

/* Makes `first` the newest, then `second` by a reload. */
static struct weir_revisions *reloaded(const char *first, const char *second, uint64_t wall_ns, uint64_t ret_id[2])
{
    struct weir_revisions *revisions;
    struct weir_revision_brief brief;
    struct weir_revision_own limit = { "x", { first, strlen(first) }, 0 };
    assert_int_equal(weir_revisions_create(secret, "n", &revisions), 0);
    assert_int_equal(weir_revisions_own(revisions, &limit, 1, WALL_NS), 0);
    assert_true(weir_revisions_brief(revisions, 0, &brief));
    memcpy(ret_id, brief.id, sizeof(brief.id));
    (void)weir_revisions_hear(revisions, ret_id, "", 0, true, WALL_NS);
    limit.text = (struct weir_slice){ second, strlen(second) };
    assert_int_equal(weir_revisions_own(revisions, &limit, 1, wall_ns), 0);
    return revisions;
}

/* Whether it was written there or only seen there; an older one says nothing, nor do bytes that are none of ours. */
static void what_the_engine_knows_needs_no_telling(void **state)
{
    (void)state;
    uint64_t id[2], other[2], number;
    uint8_t *bytes;
    size_t size;
    struct weir_revisions *mine = reloaded("old", "mine", WALL_NS + WEIR_NS_PER_SECOND, id);
    assert_int_equal(weir_revisions_bytes(mine, id, &bytes, &size, &number), 0);
    for (int seen = 0; seen < 3; seen++) {
        uint8_t head[WEIR_REVISION_HEAD];
        size_t at = 0;
        memcpy(head, bytes, sizeof head);
        if (seen == 0)
            weir_big_put(head + 4, number - 1, 8);
        if (seen == 1)
            head[0] ^= 1;
        weir_revisions_lies_there(mine, id, head);
        assert_int_equal(weir_revisions_untold(mine, &at, other), seen < 2);
        assert_true(seen == 2 || (other[0] == id[0] && other[1] == id[1]));
        assert_false(weir_revisions_untold(mine, &at, other)); /* there is but one */
    }
    free(bytes);
    weir_revisions_destroy(mine);
}

/* That an older one was told says nothing of the newest, which nobody has heard of: it is told yet. */
static void what_was_told_is_that_number_alone(void **state)
{
    (void)state;
    uint64_t id[2], number;
    uint8_t *bytes;
    size_t size;
    struct weir_revisions *mine = reloaded("old", "mine", WALL_NS + WEIR_NS_PER_SECOND, id);
    struct weir_revisions *theirs = reloaded("old", "theirs", WALL_NS + 2 * WEIR_NS_PER_SECOND, id);
    weir_revisions_told(mine, id, 1);
    assert_int_equal(weir_revisions_bytes(theirs, id, &bytes, &size, &number), 0);
    assert_int_equal(weir_revisions_hear(mine, id, bytes, size, true, WALL_NS), WEIR_REVISION_OLDER);
    free(bytes);
    weir_revisions_destroy(mine);
    weir_revisions_destroy(theirs);
}

/* Who is alone has told all there are, and who hears its own again, or wrote it, has told somebody: who reloads later
 * is followed. */
static void who_has_told_follows_who_reloads_later(void **state)
{
    (void)state;
    enum { HEARS, ALONE, WRITES, WAYS };
    for (int way = 0; way < WAYS; way++) {
        uint64_t id[2], number;
        uint8_t *bytes;
        size_t size;
        struct weir_revisions *mine = reloaded("old", "mine", WALL_NS + WEIR_NS_PER_SECOND, id);
        struct weir_revisions *theirs = reloaded("old", "theirs", WALL_NS + 2 * WEIR_NS_PER_SECOND, id);
        if (way == ALONE)
            weir_revisions_alone(mine, WALL_NS + WEIR_NS_PER_SECOND);
        assert_int_equal(weir_revisions_bytes(mine, id, &bytes, &size, &number), 0);
        if (way == HEARS)
            assert_int_equal(weir_revisions_hear(mine, id, bytes, size, true, WALL_NS), WEIR_REVISION_SAME);
        if (way == WRITES)
            weir_revisions_told(mine, id, number);
        free(bytes);
        assert_int_equal(weir_revisions_bytes(theirs, id, &bytes, &size, &number), 0);
        assert_int_equal(weir_revisions_hear(mine, id, bytes, size, true, WALL_NS), WEIR_REVISION_SAME);
        free(bytes);
        weir_revisions_destroy(mine);
        weir_revisions_destroy(theirs);
    }
}

/* By its whole name, however long that of the one before is. */
static void the_newest_is_told_of_who_made_it(void **state)
{
    (void)state;
    static const char *const names[] = { "somewhere-else", "b", "c" };
    const struct weir_revision_own old = { "x", { "old", 3 }, 0 }, new = { "x", { "new", 3 }, 0 };
    struct weir_revisions *nodes[3];
    struct weir_revision_brief brief;
    struct weir_revision_found it;
    uint64_t number;
    uint8_t *bytes;
    size_t size;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(weir_revisions_create(secret, names[i], &nodes[i]), 0);
        assert_int_equal(weir_revisions_own(nodes[i], &old, 1, WALL_NS), 0);
    }
    weir_revisions_alone(nodes[0], WALL_NS);
    for (size_t i = 0; i < 2; i++) { /* one's by itself, then the second one's, which reloads */
        assert_true(weir_revisions_brief(nodes[i], 0, &brief));
        assert_int_equal(weir_revisions_bytes(nodes[i], brief.id, &bytes, &size, &number), 0);
        for (size_t k = i + 1; k < 3; k++)
            (void)weir_revisions_hear(nodes[k], brief.id, bytes, size, true, WALL_NS);
        free(bytes);
        assert_int_equal(weir_revisions_find(nodes[2], &old, WALL_NS, &it), 0);
        assert_string_equal(it.node, names[i]);
        free(it.text);
        assert_int_equal(weir_revisions_own(nodes[1], &new, 1, WALL_NS + WEIR_NS_PER_SECOND), 0);
    }
    const struct weir_revision_own more = { "x", { "more", 4 }, 0 }; /* that is to be reloaded */
    assert_int_equal(weir_revisions_find(nodes[0], &more, WALL_NS + 2 * WEIR_NS_PER_SECOND, &it), 0);
    assert_string_equal(it.node, names[0]);
    assert_null(it.text);
    for (size_t i = 0; i < 3; i++)
        weir_revisions_destroy(nodes[i]);
}

/* By a longer one a node goes as its own file has it. The longest that is told comes whole. */
static void a_definition_that_is_too_long_is_nobody_elses(void **state)
{
    (void)state;
    static char text[WEIR_REVISION_TEXT_MAX + 1];
    memset(text, 'x', sizeof(text));
    for (size_t over = 0; over < 2; over++) {
        uint64_t id[2], number;
        uint8_t *bytes;
        size_t size;
        const struct weir_revision_own own = { "x", { text, WEIR_REVISION_TEXT_MAX + over }, 0 };
        struct weir_revisions *revisions = reloaded("old", "mine", WALL_NS, id);
        struct weir_revision_found it = { .number = 99 };
        assert_int_equal(weir_revisions_own(revisions, &own, 1, WALL_NS), 0);
        assert_int_equal(weir_revisions_find(revisions, &own, WALL_NS, &it), 0);
        assert_null(it.text);
        assert_int_equal(it.number > 0, !over);
        assert_int_equal(weir_revisions_bytes(revisions, id, &bytes, &size, &number), 0);
        assert_true(over ? size < 1024 : size > WEIR_REVISION_TEXT_MAX); /* what is known of the one before stays */
        assert_true(size <= WEIR_REVISION_BYTES_MAX);
        const struct weir_revision_own old = { "x", { "old", 3 }, 0 };
        struct weir_revisions *other;
        assert_int_equal(weir_revisions_create(secret, "other", &other), 0);
        assert_int_equal(weir_revisions_own(other, &old, 1, WALL_NS), 0);
        assert_int_equal(weir_revisions_hear(other, id, bytes, size, true, WALL_NS), WEIR_REVISION_SAME);
        assert_int_equal(weir_revisions_find(other, &old, WALL_NS, &it), 0);
        assert_int_equal(it.size, over ? 4 : WEIR_REVISION_TEXT_MAX);
        free(it.text);
        free(bytes);
        weir_revisions_destroy(revisions);
        weir_revisions_destroy(other);
    }
}

static void put_number(uint8_t *bytes, uint64_t number)
{
    for (int i = 0; i < 8; i++)
        bytes[4 + i] = (uint8_t)(number >> (56 - 8 * i));
}

/* Of a head that no node writes nothing is believed, nor is it written over. */
static void a_head_that_is_not_ours_is_corrupt(void **state)
{
    (void)state;
    uint64_t id[2], number;
    uint8_t *bytes;
    size_t size;
    struct weir_revisions *revisions = reloaded("old", "mine", WALL_NS, id);
    assert_int_equal(weir_revisions_bytes(revisions, id, &bytes, &size, &number), 0);
    const uint64_t bad[] = { 0, WEIR_REVISION_MAX + UINT64_C(1), UINT64_C(1) << 32, UINT64_MAX };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        put_number(bytes, bad[i]);
        assert_int_equal(weir_revisions_hear(revisions, id, bytes, WEIR_REVISION_HEAD, false, WALL_NS),
                         WEIR_REVISION_CORRUPT);
    }
    const uint64_t good[] = { 1, number, number + 1, WEIR_REVISION_MAX };
    const enum weir_revision_say says[] = { WEIR_REVISION_OLDER, WEIR_REVISION_SAME, WEIR_REVISION_NEWER,
                                            WEIR_REVISION_NEWER };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        put_number(bytes, good[i]);
        assert_int_equal(weir_revisions_hear(revisions, id, bytes, WEIR_REVISION_HEAD, false, WALL_NS), says[i]);
    }
    put_number(bytes, number);
    for (size_t i = 1; i < WEIR_REVISION_HEAD; i++) /* what is cut off */
        assert_int_equal(weir_revisions_hear(revisions, id, bytes, i, false, WALL_NS), WEIR_REVISION_CORRUPT);
    for (size_t i = 0; i < 4; i++) {
        bytes[i] ^= 1;
        assert_int_equal(weir_revisions_hear(revisions, id, bytes, WEIR_REVISION_HEAD, false, WALL_NS),
                         WEIR_REVISION_CORRUPT);
        bytes[i] ^= 1;
    }
    free(bytes);
    weir_revisions_destroy(revisions);
}

/* Signed by one of us, so by another version: a definition whose sizes are not those of its bytes is none. */
static void a_definition_of_other_sizes_is_corrupt(void **state)
{
    (void)state;
    static const uint64_t by = WALL_NS + 9 * WEIR_NS_PER_SECOND;
    enum { NODE = WEIR_REVISION_HEAD, SUPERSEDED = NODE + 1 + 6, FIRST, TEXT = FIRST + 8, END = TEXT + 4 + 5 };
    static const struct {
        size_t at, cut; /* which byte is another, and how many are left out at the end */
        uint8_t value;
        bool good;
    } cases[] = {
        { 0, 0, 'W', true },
        { NODE, 0, 0, false },
        { NODE, 0, 7, false },
        { NODE, 0, 255, false },
        { SUPERSEDED, 0, 0, false },
        { SUPERSEDED, 0, 2, false },
        { SUPERSEDED, 0, WEIR_SUPERSEDED_MAX + 1, false },
        { SUPERSEDED, 0, 255, false },
        { TEXT, 0, 1, false },
        { TEXT + 3, 0, 4, false },
        { TEXT + 3, 0, 6, false },
        { TEXT + 4, 0, 'T', false }, /* not what its checksum is of */
        { 27, 0, 1, false },
        { 0, 1, 'W', false },
        { 0, END - TEXT, 'W', false },
        { 0, END - TEXT - 3, 'W', false },
        { 0, END - SUPERSEDED, 'W', false },
        { 0, END - NODE, 'W', false },
    };
    uint64_t id[2], number;
    uint8_t *bytes;
    size_t size;
    struct weir_revision_own limit = { "x", { "newer", 5 }, 0 };
    struct weir_revisions *theirs;
    struct weir_revisions *mine = reloaded("old", "mine", WALL_NS + WEIR_NS_PER_SECOND, id);
    assert_int_equal(weir_revisions_create(secret, "theirs", &theirs), 0);
    assert_int_equal(weir_revisions_own(theirs, &(struct weir_revision_own){ "x", { "mine", 4 }, 0 }, 1, by), 0);
    assert_int_equal(weir_revisions_bytes(mine, id, &bytes, &size, &number), 0);
    (void)weir_revisions_hear(theirs, id, bytes, size, true, by);
    free(bytes);
    assert_int_equal(weir_revisions_own(theirs, &limit, 1, by), 0);
    assert_int_equal(weir_revisions_bytes(theirs, id, &bytes, &size, &number), 0);
    assert_int_equal(size, END + 8 + WEIR_GOSSIP_MAC_SIZE); /* of two that were superseded */
    weir_revisions_destroy(theirs);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t bad[END + 8 + WEIR_GOSSIP_MAC_SIZE];
        const size_t whole = sizeof bad - WEIR_GOSSIP_MAC_SIZE - cases[i].cut;
        const size_t at = cases[i].at + (cases[i].at >= TEXT ? 8 : 0);
        struct weir_revisions *node = reloaded("old", "mine", WALL_NS + WEIR_NS_PER_SECOND, id);
        struct weir_revision_found it;
        weir_revisions_told(node, id, (WALL_NS + WEIR_NS_PER_SECOND) / WEIR_NS_PER_SECOND);
        memcpy(bad, bytes, sizeof bad);
        if (at == SUPERSEDED && cases[i].value == 2)
            bad[at] = 3; /* one more than there are */
        else
            bad[at] = cases[i].value;
        assert_true(weir_gossip_mac(secret, bad, whole, bad + whole));
        const enum weir_revision_say say = weir_revisions_hear(node, id, bad, whole + WEIR_GOSSIP_MAC_SIZE, true, by);
        if ((say == WEIR_REVISION_CORRUPT) != !cases[i].good)
            fail_msg("case %zu: %d", i, say);
        limit.text = (struct weir_slice){ "mine", 4 };
        assert_int_equal(weir_revisions_find(node, &limit, by, &it), 0);
        assert_int_equal(it.text != NULL, cases[i].good);
        free(it.text);
        weir_revisions_destroy(node);
    }
    free(bytes);
    weir_revisions_destroy(mine);
}

/* Nodes of every version find a definition under its name's id, and tell it by its checksum. */
static void a_name_has_the_id_that_it_always_had(void **state)
{
    (void)state;
    uint64_t id[2], number;
    uint8_t *bytes;
    size_t size;
    struct weir_revisions *revisions = reloaded("old", "mine", WALL_NS, id);
    assert_true(id[0] == UINT64_C(0xad08ea8b7ebbd5e9) && id[1] == UINT64_C(0x8d0d68e2d62c1603));
    assert_int_equal(weir_revisions_bytes(revisions, id, &bytes, &size, &number), 0);
    uint64_t checksum = 0;
    for (size_t i = 20; i < 28; i++)
        checksum = checksum << 8 | bytes[i];
    assert_true(checksum == UINT64_C(0x39f334eca569a444));
    free(bytes);
    weir_revisions_destroy(revisions);
}

/* Of a node without a name, that says nothing of the limit. */
static void the_shortest_definition_is_one(void **state)
{
    (void)state;
    const struct weir_revision_own nothing = { "x", { "", 0 }, 0 }, old = { "x", { "old", 3 }, 0 };
    struct weir_revisions *mine, *theirs;
    struct weir_revision_brief brief;
    uint64_t number;
    uint8_t *bytes;
    size_t size;
    assert_int_equal(weir_revisions_create(secret, "", &theirs), 0);
    assert_int_equal(weir_revisions_own(theirs, &nothing, 1, WALL_NS), 0);
    weir_revisions_alone(theirs, WALL_NS);
    assert_true(weir_revisions_brief(theirs, 0, &brief));
    assert_int_equal(weir_revisions_bytes(theirs, brief.id, &bytes, &size, &number), 0);
    assert_int_equal(weir_revisions_create(secret, "n", &mine), 0);
    assert_int_equal(weir_revisions_own(mine, &old, 1, WALL_NS), 0);
    for (size_t less = 0; less < size; less++)
        assert_int_equal(weir_revisions_hear(mine, brief.id, bytes, size - less, true, WALL_NS),
                         less == 0 ? WEIR_REVISION_OLDER : WEIR_REVISION_CORRUPT); /* nobody has had "old" */
    free(bytes);
    weir_revisions_destroy(mine);
    weir_revisions_destroy(theirs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_told_is_that_number_alone),
        cmocka_unit_test(who_has_told_follows_who_reloads_later),
        cmocka_unit_test(the_newest_is_told_of_who_made_it),
        cmocka_unit_test(a_definition_that_is_too_long_is_nobody_elses),
        cmocka_unit_test(a_head_that_is_not_ours_is_corrupt),
        cmocka_unit_test(a_definition_of_other_sizes_is_corrupt),
        cmocka_unit_test(a_name_has_the_id_that_it_always_had),
        cmocka_unit_test(the_shortest_definition_is_one),
        cmocka_unit_test(what_the_engine_knows_needs_no_telling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
