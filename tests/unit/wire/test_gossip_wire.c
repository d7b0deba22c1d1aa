/* SPDX-License-Identifier: Apache-2.0
 *
 * wire/gossip: what is written is read; what is not exactly that is refused. */
#include <string.h>

#include "fixture.h"
#include "random.h"
#include "wire/gossip.h"

static const uint8_t secret[WEIR_GOSSIP_SECRET_SIZE] = "sixteen bytes :)";

static struct weir_gossip_head head_of(struct test_random *random)
{
    return (struct weir_gossip_head){
        .nodes = 64,
        .from = (uint32_t)test_random_below(random, 64),
        .to = (uint32_t)test_random_below(random, 64),
        .epoch = test_random_u64(random) | 1,
        .seq = test_random_u64(random) | 1,
        .sent_ns = test_random_u64(random),
        .echo_epoch = test_random_u64(random),
        .echo_ns = test_random_u64(random),
        .have = test_random_u64(random),
        .since = 5,
        .until = 5 + test_random_below(random, 1000),
        .cut = test_random_u64(random),
        .complete = test_random_below(random, 2),
        .synced = test_random_below(random, 2),
    };
}

static struct weir_gossip_word word_of(struct test_random *random, struct weir_gossip_entry *entries)
{
    struct weir_gossip_word word = { .id = { test_random_u64(random), test_random_u64(random) },
                                     .limit = test_random_u64(random),
                                     .phase = test_random_u64(random) >> test_random_below(random, 64),
                                     .window = test_random_u64(random) >> test_random_below(random, 64),
                                     .used = test_random_u64(random) >> (2 + test_random_below(random, 62)) };
    for (size_t j = 0; j < WEIR_GOSSIP_NODES_MAX; j++) {
        if (test_random_below(random, 3) == 0)
            continue;
        entries[j].epoch = test_random_u64(random) | 1;
        entries[j].count = test_random_u64(random) >> (2 + test_random_below(random, 62));
        entries[j].base = test_random_below(random, entries[j].count + 1);
        word.entries[j] = &entries[j];
    }
    return word;
}

static void assert_same_word(const struct weir_gossip_word *a, const struct weir_gossip_word *b)
{
    assert_memory_equal(a->id, b->id, sizeof a->id);
    assert_true(a->limit == b->limit && a->phase == b->phase && a->window == b->window && a->used == b->used);
    for (size_t j = 0; j < WEIR_GOSSIP_NODES_MAX; j++) {
        assert_int_equal(!a->entries[j], !b->entries[j]);
        if (a->entries[j])
            assert_memory_equal(a->entries[j], b->entries[j], sizeof *a->entries[j]);
    }
}

static void test_round_trip(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    static struct weir_gossip_entry entries[8][WEIR_GOSSIP_NODES_MAX];
    for (unsigned run = 0; run < 2000; run++) {
        struct weir_gossip_writer writer;
        struct weir_gossip_word words[8], read;
        struct weir_gossip_head head = head_of(&random), got;
        struct weir_gossip_probe probe = { test_random_below(&random, 2), (uint32_t)test_random_below(&random, 64),
                                           WEIR_GOSSIP_NOBODY },
                                 got_probe;
        size_t count = 0, fit = 0;
        weir_gossip_write_start(&writer);
        for (; count < 8; count++) {
            words[count] = word_of(&random, entries[count]);
            if (!weir_gossip_write_word(&writer, &words[count]))
                break;
            fit++;
        }
        assert_true(fit > 0);
        weir_gossip_write_end(&writer, &head, &probe, secret);
        assert_true(writer.size <= WEIR_GOSSIP_DATAGRAM_MAX);
        struct weir_gossip_reader reader;
        assert_int_equal(weir_gossip_read(&reader, writer.bytes, writer.size, secret, &got, &got_probe), 0);
        assert_true(got.nodes == head.nodes && got.from == head.from && got.to == head.to && got.epoch == head.epoch &&
                    got.seq == head.seq && got.sent_ns == head.sent_ns && got.echo_epoch == head.echo_epoch &&
                    got.echo_ns == head.echo_ns && got.have == head.have && got.since == head.since &&
                    got.until == head.until && got.cut == head.cut && got.complete == head.complete &&
                    got.synced == head.synced);
        assert_true(got_probe.ping == probe.ping && got_probe.ask == probe.ask && got_probe.told == probe.told);
        for (size_t i = 0; i < fit; i++) {
            assert_int_equal(weir_gossip_read_word(&reader, &read), 1);
            assert_same_word(&words[i], &read);
        }
        assert_int_equal(weir_gossip_read_word(&reader, &read), 0);
    }
}

static void write_one(struct weir_gossip_writer *writer)
{
    struct test_random random = { 7 };
    struct weir_gossip_head head = head_of(&random);
    struct weir_gossip_entry entries[WEIR_GOSSIP_NODES_MAX];
    struct weir_gossip_word word = word_of(&random, entries);
    struct weir_gossip_probe probe = { true, 1, 2 };
    weir_gossip_write_start(writer);
    assert_true(weir_gossip_write_word(writer, &word));
    weir_gossip_write_end(writer, &head, &probe, secret);
}

static int try_read(const void *datagram, size_t size, const uint8_t *with)
{
    struct weir_gossip_reader reader;
    struct weir_gossip_head head;
    struct weir_gossip_probe probe;
    struct weir_gossip_word word;
    int more = weir_gossip_read(&reader, datagram, size, with, &head, &probe);
    if (more)
        return more;
    while ((more = weir_gossip_read_word(&reader, &word)) > 0) {
    }
    return more;
}

/* A forged datagram: every bit counts, every length but the right one is refused, and so is another key. */
static void test_forged_is_refused(void **state)
{
    (void)state;
    struct weir_gossip_writer writer;
    write_one(&writer);
    assert_int_equal(try_read(writer.bytes, writer.size, secret), 0);
    for (size_t bit = 0; bit < writer.size * 8; bit++) {
        writer.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(try_read(writer.bytes, writer.size, secret), WEIR_EINVAL);
        writer.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t size = 0; size < writer.size; size++)
        assert_int_equal(try_read(writer.bytes, size, secret), WEIR_EINVAL);
    static uint8_t longer[WEIR_GOSSIP_DATAGRAM_MAX + 1];
    memcpy(longer, writer.bytes, writer.size);
    assert_int_equal(try_read(longer, writer.size + 1, secret), WEIR_EINVAL);
    assert_int_equal(try_read(longer, sizeof longer, secret), WEIR_EINVAL);
    uint8_t other[WEIR_GOSSIP_SECRET_SIZE] = { 0 };
    assert_int_equal(try_read(writer.bytes, writer.size, other), WEIR_EINVAL);
}

/* Who has the key and writes nonsense is refused too: whatever the bytes, reading stays inside them. */
static void test_malformed_is_refused(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    struct weir_gossip_writer good, bad;
    struct weir_gossip_reader reader;
    struct weir_gossip_head head;
    struct weir_gossip_probe probe;
    struct weir_gossip_word word;
    write_one(&good);
    unsigned refused = 0;
    for (unsigned run = 0; run < 20000; run++) {
        bad = good;
        assert_int_equal(weir_gossip_read(&reader, good.bytes, good.size, secret, &head, &probe), 0);
        size_t at = (size_t)test_random_below(&random, good.size - WEIR_GOSSIP_HEAD_SIZE - WEIR_GOSSIP_MAC_SIZE);
        bad.bytes[WEIR_GOSSIP_HEAD_SIZE + at] = (uint8_t)test_random_u64(&random);
        bad.size = WEIR_GOSSIP_HEAD_SIZE + at + 1 + (size_t)test_random_below(&random, 40);
        bad.words = 1;
        weir_gossip_write_end(&bad, &head, &probe, secret);
        assert_int_equal(weir_gossip_read(&reader, bad.bytes, bad.size, secret, &head, &probe), 0);
        int more = weir_gossip_read_word(&reader, &word);
        assert_true(more == 1 || more == WEIR_EPROTO);
        refused += more != 1 || weir_gossip_read_word(&reader, &word) != 0;
    }
    assert_true(refused > 10000);
    bad = good;
    head.from = 64; /* of 64 */
    bad.size -= WEIR_GOSSIP_MAC_SIZE;
    weir_gossip_write_end(&bad, &head, &probe, secret);
    assert_int_equal(try_read(bad.bytes, bad.size, secret), WEIR_EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_forged_is_refused),
        cmocka_unit_test(test_malformed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
