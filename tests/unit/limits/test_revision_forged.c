/* SPDX-License-Identifier: Apache-2.0
 *
 * limits/revision_talk: datagrams that no node sends, though they are signed, and those that cannot be. */
#include "revision_net.h"

/* What cannot be signed is not sent, what cannot be checked is not believed: both come later. */
static void without_memory_for_a_signature_nothing_is_said_or_believed(void **state)
{
    (void)state;
    struct net net;
    net_start(&net, "old");
    run(&net, 3 * WEIR_NS_PER_SECOND);
    own(&net, 0, "new", 3);
    net.now_ns += WEIR_REVISION_TALK_NS;
    const struct weir_time time = now_of(&net);
    (void)weir_revision_talk_turn(net.talks[0], &time);
    assert_true(net.count > 0);
    const size_t said = net.count;
    mac_fails = true;
    for (size_t i = 0; i < said; i++)
        assert_true(weir_revision_talk_heard(net.talks[net.sent[i].to], net.sent[i].bytes, net.sent[i].size, &time));
    net.count = 0;
    run(&net, 3 * WEIR_NS_PER_SECOND);
    decides_by(&net, 1, "old", "old");
    mac_fails = false;
    run(&net, WEIR_NS_PER_SECOND);
    decides_by(&net, 1, "old", "new");
    net_stop(&net);
}

/* A limit that is not known here, or of which nothing is. */
static void who_has_nothing_to_tell_answers_nothing(void **state)
{
    (void)state;
    struct net net;
    net_start(&net, "old");
    const struct weir_time time = now_of(&net);
    struct weir_revision_brief brief;
    assert_true(weir_revisions_brief(net.revisions[1], 0, &brief));
    for (int known = 0; known < 2; known++) {
        struct datagram wants = { .to = 1, .size = 8 + 28 + WEIR_GOSSIP_MAC_SIZE };
        const uint8_t head[8] = { 'W', 'G', 'R', '1', 2, 0, 1, NODES };
        memcpy(wants.bytes, head, sizeof head);
        if (known)
            (void)weir_big_put(weir_big_put(wants.bytes + 8, brief.id[0], 8), brief.id[1], 8);
        (void)weir_big_put(wants.bytes + 24, 1, 8);
        assert_true(weir_gossip_mac(secret, wants.bytes, 36, wants.bytes + 36));
        assert_true(weir_revision_talk_heard(net.talks[1], wants.bytes, wants.size, &time));
        assert_int_equal(net.count, 0);
    }
    net_stop(&net);
}

/* ---- datagrams that no node sends, though they are signed ---- */

enum { HEAD = 8, KIND = 4, FROM, TO, OF, PART_HEAD = 32, CHUNK = 1200, PART = 3 };

/* So many bytes of a definition, from `offset` on. */
static struct datagram part_of(const uint64_t id[2], uint64_t number, const uint8_t *bytes, size_t size, size_t offset,
                               size_t chunk)
{
    struct datagram part = { .to = 1, .size = HEAD + PART_HEAD + chunk };
    const uint8_t head[HEAD] = { 'W', 'G', 'R', '1', PART, 0, 1, NODES };
    memcpy(part.bytes, head, HEAD);
    uint8_t *at = weir_big_put(weir_big_put(part.bytes + HEAD, id[0], 8), id[1], 8);
    at = weir_big_put(weir_big_put(weir_big_put(at, number, 8), size, 4), offset, 4);
    memcpy(at, bytes, chunk);
    return part;
}

static void signed_comes(struct net *net, struct datagram *datagram)
{
    const struct weir_time time = now_of(net);
    assert_true(weir_gossip_mac(secret, datagram->bytes, datagram->size, datagram->bytes + datagram->size));
    assert_true(weir_revision_talk_heard(net->talks[1], datagram->bytes, datagram->size + WEIR_GOSSIP_MAC_SIZE, &time));
    if (datagram->bytes[KIND] == PART && datagram->size >= HEAD + PART_HEAD + CHUNK)
        assert_int_equal(net->count, 0); /* of so few parts none is asked for */
    net->count = 0;
}

/* Of a definition that fits into one of them. */
static void a_head_that_is_not_for_us_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint8_t value;
        bool good;
    } cases[] = {
        { OF, NODES, true },       { FROM, 2, true },         { KIND, 0, false },       { KIND, 1, false },
        { KIND, 2, false },        { KIND, 4, false },        { FROM, 1, false },       { FROM, NODES, false },
        { TO, 0, false },          { OF, NODES - 1, false },  { OF, NODES + 1, false }, { HEAD + 3, 1, false },
        { HEAD + 11, 1, false },   { HEAD + 27, 200, false }, { HEAD + 28, 1, false },  { HEAD + 31, 1, false },
        { HEAD + 31, 255, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct net net;
        struct weir_revision_brief brief;
        uint64_t number;
        uint8_t *bytes;
        size_t size;
        net_start(&net, "old");
        run(&net, 3 * WEIR_NS_PER_SECOND);
        own(&net, 0, "new", 3);
        assert_true(weir_revisions_brief(net.revisions[0], 0, &brief));
        assert_int_equal(weir_revisions_bytes(net.revisions[0], brief.id, &bytes, &size, &number), 0);
        struct datagram part = part_of(brief.id, number, bytes, size, 0, size);
        part.bytes[cases[i].at] = cases[i].value;
        signed_comes(&net, &part);
        decides_by(&net, 1, "old", cases[i].good ? "new" : "old");
        free(bytes);
        net_stop(&net);
    }
}

/* In three parts: each is the next one of what has begun, and no longer than that is. */
static void a_part_of_something_else_is_left_out(void **state)
{
    (void)state;
    static char text[2600];
    enum { ID, ID_HIGH, NUMBER, SIZE, BY, OFFSET, LONGER, TOO_LARGE, BEGINS, KINDS };
    memset(text, 'x', sizeof text - 1);
    for (int kind = 0; kind < KINDS; kind++) {
        struct net net;
        struct weir_revision_brief brief;
        uint64_t number;
        uint8_t *bytes;
        size_t size;
        net_start(&net, "old");
        run(&net, 3 * WEIR_NS_PER_SECOND);
        own(&net, 0, text, sizeof text - 1);
        assert_true(weir_revisions_brief(net.revisions[0], 0, &brief));
        assert_int_equal(weir_revisions_bytes(net.revisions[0], brief.id, &bytes, &size, &number), 0);
        assert_in_range(size, 2 * CHUNK + 1, 3 * CHUNK);
        struct datagram parts[3], other;
        for (size_t i = 0; i < 3; i++)
            parts[i] = part_of(brief.id, number, bytes + i * CHUNK, size, i * CHUNK, i < 2 ? CHUNK : size - 2 * CHUNK);
        const size_t begins = kind == TOO_LARGE ? 0 : 1, ends = kind == LONGER ? 2 : 1;
        other = parts[kind == TOO_LARGE || kind == BEGINS ? 0 : ends];
        switch (kind) {
        case ID:
        case ID_HIGH:
            other.bytes[HEAD + (kind == ID ? 0 : 8)] ^= 1;
            break;
        case NUMBER:
            other.bytes[HEAD + 23] ^= 1;
            break;
        case SIZE:
            other.bytes[HEAD + 27] ^= 1;
            break;
        case BY:
        case BEGINS:
            other.bytes[FROM] = 2;
            break;
        case OFFSET:
            other.bytes[HEAD + 31] ^= 1;
            break;
        case LONGER:
            other.size += 64;
            break;
        default:
            (void)weir_big_put(other.bytes + HEAD + 24, WEIR_REVISION_BYTES_MAX + 1, 4);
            break;
        }
        for (size_t i = 0; i < begins; i++)
            signed_comes(&net, &parts[i]);
        for (size_t i = 1; i < ends; i++)
            signed_comes(&net, &parts[i]);
        signed_comes(&net, &other);
        if (kind < LONGER) {
            signed_comes(&net, &parts[2]);
            decides_by(&net, 1, "old", "old"); /* one is missing */
        }
        for (size_t i = begins; i < 3; i++)
            if (kind != LONGER || i == 2)
                signed_comes(&net, &parts[i]);
        decides_by(&net, 1, "old", text);
        free(bytes);
        net_stop(&net);
    }
}

/* One after the other, each of three parts, a turn of its own in between. */
static void long_definitions_come_one_after_the_other(void **state)
{
    (void)state;
    static char text[2600];
    struct net net;
    struct weir_revision_brief brief;
    memset(text, 'x', sizeof text - 1);
    net_start(&net, "old");
    run(&net, 3 * WEIR_NS_PER_SECOND);
    for (int turn = 0; turn < 3; turn++) {
        uint64_t number;
        uint8_t *bytes;
        size_t size;
        net.now_ns += WEIR_NS_PER_SECOND;
        text[0] = (char)('a' + turn);
        own(&net, 0, text, sizeof text - 1);
        assert_true(weir_revisions_brief(net.revisions[0], 0, &brief));
        assert_int_equal(weir_revisions_bytes(net.revisions[0], brief.id, &bytes, &size, &number), 0);
        for (size_t i = 0; i < 3; i++) {
            struct datagram part = part_of(brief.id, number, bytes + i * CHUNK, size, i * CHUNK,
                                           i < 2 ? CHUNK : size - 2 * CHUNK);
            signed_comes(&net, &part);
            net.now_ns += WEIR_REVISION_TALK_NS;
            const struct weir_time time = now_of(&net);
            (void)weir_revision_talk_turn(net.talks[1], &time);
            assert_int_equal(net.count, NODES - 1 + (i < 2)); /* it says what it knows, and asks for the rest */
            net.count = 0;
        }
        decides_by(&net, 1, "old", text);
        free(bytes);
    }
    net_stop(&net);
}

int main(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_PERTURB, 90); /* or what one node has freed is what another is to be told */
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_memory_for_a_signature_nothing_is_said_or_believed),
        cmocka_unit_test(who_has_nothing_to_tell_answers_nothing),
        cmocka_unit_test(a_head_that_is_not_for_us_changes_nothing),
        cmocka_unit_test(a_part_of_something_else_is_left_out),
        cmocka_unit_test(long_definitions_come_one_after_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
