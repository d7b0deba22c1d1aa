/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes after the MAC was right (a member gone mad): reading stays inside them, what is read and written again is
 * read the same, and a host that hears it neither stops nor says more than it knows. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "limits/gossip_host.h"
#include "wire/gossip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t secret[WEIR_GOSSIP_SECRET_SIZE] = "sixteen bytes :)";

static void drop(void *context, uint32_t node, const void *datagram, size_t size)
{
    (void)context;
    (void)datagram;
    weir_assert(node < 3 && size <= WEIR_GOSSIP_DATAGRAM_MAX);
}

/* The words as they are, under a head and a MAC that are right. */
static void seal(struct weir_gossip_writer *writer, const uint8_t *words, size_t size, uint64_t seq)
{
    const struct weir_gossip_head head = { .nodes = 3,
                                           .from = 1,
                                           .to = 0,
                                           .epoch = 7 + seq / 4,
                                           .seq = seq,
                                           .sent_ns = seq,
                                           .echo_epoch = 5,
                                           .echo_ns = 100 * seq,
                                           .until = seq,
                                           .complete = true,
                                           .synced = true };
    const struct weir_gossip_probe probe = { true, 2, 2 };
    weir_gossip_write_start(writer);
    writer->words = size > 0 ? words[0] : 0;
    if (size > 1) {
        memcpy(&writer->bytes[writer->size], words + 1, size - 1);
        writer->size += size - 1;
    }
    weir_gossip_write_end(writer, &head, &probe, secret);
}

static void again(const struct weir_gossip_word *word)
{
    struct weir_gossip_writer writer;
    struct weir_gossip_reader reader;
    const struct weir_gossip_head head = { .nodes = 3, .epoch = 1, .seq = 1 };
    const struct weir_gossip_probe probe = { false, WEIR_GOSSIP_NOBODY, WEIR_GOSSIP_NOBODY };
    struct weir_gossip_head got;
    struct weir_gossip_probe got_probe;
    struct weir_gossip_word read;
    weir_gossip_write_start(&writer);
    weir_assert(weir_gossip_write_word(&writer, word));
    weir_gossip_write_end(&writer, &head, &probe, secret);
    weir_assert(weir_gossip_read(&reader, writer.bytes, writer.size, secret, &got, &got_probe) == 0);
    weir_assert(weir_gossip_read_word(&reader, &read) == 1);
    weir_assert(read.id[0] == word->id[0] && read.window == word->window && read.used == word->used);
    for (size_t j = 0; j < WEIR_GOSSIP_NODES_MAX; j++) {
        weir_assert(!read.entries[j] == !word->entries[j]);
        weir_assert(!word->entries[j] || memcmp(read.entries[j], word->entries[j], sizeof *word->entries[j]) == 0);
    }
}

static struct weir_gossip_host *host_of(const struct weir_remote_limit *limit)
{
    static const char *const names[] = { "a", "b", "c" };
    const struct weir_gossip_host_options options = { .secret = secret,
                                                      .nodes = 3,
                                                      .names = names,
                                                      .keys_max = 8,
                                                      .now_ns = WEIR_NS_PER_SECOND,
                                                      .epoch = 5,
                                                      .send = drop };
    const uint64_t slack = 3;
    const struct weir_time time = { WEIR_NS_PER_SECOND, WEIR_NS_PER_SECOND };
    struct weir_gossip_host *host;
    weir_assert(weir_gossip_host_create(&options, &host, NULL) == 0);
    weir_gossip_host_limits(host, &limit, &slack, 1, &time);
    return host;
}

/* The key that node 0 has is the one whose id the words may name: bytes 0 to 15. */
static void hear(const struct weir_remote_limit *limit, const uint8_t *data, size_t size)
{
    struct weir_gossip_host *host = host_of(limit);
    struct weir_remote_key key = { .phase = 0 };
    struct weir_time time = { WEIR_NS_PER_SECOND, WEIR_NS_PER_SECOND };
    enum weir_share_say say;
    struct weir_verdict verdict;
    if (size > 16)
        for (size_t i = 0; i < 16; i++)
            key.id[i / 8] |= (uint64_t)data[1 + i] << 8 * (i % 8);
    for (uint64_t seq = 1; seq < 12; seq++) {
        struct weir_gossip_writer writer;
        seal(&writer, data, size, seq);
        time.now_ns += WEIR_NS_PER_SECOND;
        time.wall_ns = time.now_ns;
        weir_assert(weir_gossip_host_reserve(host, limit, 3, &key, 1, false, &time, &say, &verdict) == 0);
        if (say == WEIR_SHARE_YES)
            weir_gossip_host_commit(host, &key, 1, &time);
        weir_gossip_host_heard(host, writer.bytes, writer.size, &time);
        weir_gossip_host_turn(host, &time);
    }
    weir_gossip_host_destroy(host);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_gossip_writer writer;
    struct weir_gossip_reader reader;
    struct weir_gossip_head head;
    struct weir_gossip_probe probe;
    struct weir_gossip_word word;
    if (weir_gossip_read(&reader, data, size, secret, &head, &probe) == 0)
        weir_assert(size >= WEIR_GOSSIP_HEAD_SIZE + WEIR_GOSSIP_MAC_SIZE);
    if (size > 2000)
        return 0;
    seal(&writer, data, size, 1);
    weir_assert(weir_gossip_read(&reader, writer.bytes, writer.size, secret, &head, &probe) == 0);
    while (weir_gossip_read_word(&reader, &word) > 0)
        again(&word);
    const struct weir_limit_spec specs[] = {
        { .count = 10, .period_ns = 10 * WEIR_NS_PER_SECOND },
        { .algorithm = WEIR_FIXED_WINDOW, .count = 10, .period_ns = 4 * WEIR_NS_PER_SECOND },
        { .algorithm = WEIR_SLIDING_COUNTER, .count = 10, .period_ns = 4 * WEIR_NS_PER_SECOND },
    };
    struct weir_remote_limit limit;
    weir_assert(weir_remote_limit_init(&limit, "shared", &specs[size % 3], NULL) == 0);
    hear(&limit, data, size);
    weir_remote_limit_deinit(&limit);
    return 0;
}
