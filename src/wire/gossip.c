/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer leaves room for the head, appends words, and fills in head and MAC at the end. The reader checks size and
 * first bytes, then the MAC, then the head; words are read one at a time. Each number has one form. Called by
 * limits/gossip_talk.c; revisions.c and revision_talk.c there sign with the same MAC. */
#include "wire/gossip.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#define MAGIC "WG1" /* with its zero */
#define MAGIC_SIZE 4
#define NUMBERS 9 /* of 8 bytes, in the head */
#define WORDS_AT (MAGIC_SIZE + 8 + 8 * NUMBERS)
#define VARINT_MAX 10
#define WORD_FIXED (24 + 4 * VARINT_MAX)
#define ENTRY_MAX (9 + 2 * VARINT_MAX)
#define COUNT_MAX (UINT64_C(1) << 62)

enum { FLAG_COMPLETE = 1, FLAG_SYNCED = 2, FLAG_PING = 4, FLAGS_ALL = 7 };

_Static_assert(WORDS_AT + 2 == WEIR_GOSSIP_HEAD_SIZE, "the head is what the header says");
_Static_assert(WEIR_GOSSIP_HEAD_SIZE + WORD_FIXED + WEIR_GOSSIP_NODES_MAX * ENTRY_MAX + WEIR_GOSSIP_MAC_SIZE <=
                   WEIR_GOSSIP_DATAGRAM_MAX,
               "the first word always fits");

bool weir_gossip_mac(const uint8_t secret[WEIR_GOSSIP_SECRET_SIZE], const void *bytes, size_t size,
                     uint8_t ret_mac[WEIR_GOSSIP_MAC_SIZE])
{
    uint8_t full[EVP_MAX_MD_SIZE];
    unsigned full_size = 0;
    if (!HMAC(EVP_sha256(), secret, WEIR_GOSSIP_SECRET_SIZE, bytes, size, full, &full_size))
        return false;
    memcpy(ret_mac, full, WEIR_GOSSIP_MAC_SIZE);
    return true;
}

bool weir_gossip_mac_equal(const uint8_t one[WEIR_GOSSIP_MAC_SIZE], const uint8_t other[WEIR_GOSSIP_MAC_SIZE])
{
    return CRYPTO_memcmp(one, other, WEIR_GOSSIP_MAC_SIZE) == 0;
}

/* ---- writing ---- */

static uint8_t *put_u64(uint8_t *at, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        *at++ = (uint8_t)(value >> 8 * i);
    return at;
}

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

void weir_gossip_write_start(struct weir_gossip_writer *writer)
{
    writer->size = WEIR_GOSSIP_HEAD_SIZE;
    writer->words = 0;
}

bool weir_gossip_write_word(struct weir_gossip_writer *writer, const struct weir_gossip_word *word)
{
    uint8_t *start = &writer->bytes[writer->size], *at = start;
    size_t entries = 0;
    for (size_t j = 0; j < WEIR_GOSSIP_NODES_MAX; j++)
        entries += word->entries[j] && word->entries[j]->epoch > 0;
    size_t most = writer->size + WORD_FIXED + entries * ENTRY_MAX + WEIR_GOSSIP_MAC_SIZE;
    if (writer->words > 0 && (most > WEIR_GOSSIP_DATAGRAM_USUAL || writer->words == UINT16_MAX))
        return false;
    at = put_u64(put_u64(put_u64(at, word->id[0]), word->id[1]), word->limit);
    at = put_varint(put_varint(at, word->phase), word->window);
    at = put_varint(put_varint(at, weir_min_u64(word->used, COUNT_MAX)), entries);
    for (size_t j = 0; j < WEIR_GOSSIP_NODES_MAX; j++) {
        const struct weir_gossip_entry *entry = word->entries[j];
        if (!entry || entry->epoch == 0)
            continue;
        weir_assert(entry->base <= entry->count);
        *at++ = (uint8_t)j;
        at = put_varint(put_varint(put_u64(at, entry->epoch), entry->count), entry->count - entry->base);
    }
    writer->size += (size_t)(at - start);
    writer->words++;
    return true;
}

void weir_gossip_write_end(struct weir_gossip_writer *writer, const struct weir_gossip_head *head,
                           const struct weir_gossip_probe *probe, const uint8_t secret[WEIR_GOSSIP_SECRET_SIZE])
{
    const uint64_t numbers[NUMBERS] = { head->epoch, head->seq,   head->sent_ns, head->echo_epoch, head->echo_ns,
                                        head->have,  head->since, head->until,   head->cut };
    uint8_t *at = writer->bytes;
    memcpy(at, MAGIC, MAGIC_SIZE);
    at += MAGIC_SIZE;
    *at++ = (uint8_t)((head->complete ? FLAG_COMPLETE : 0) | (head->synced ? FLAG_SYNCED : 0) |
                      (probe->ping ? FLAG_PING : 0));
    *at++ = (uint8_t)head->nodes;
    *at++ = (uint8_t)head->from;
    *at++ = (uint8_t)head->to;
    *at++ = (uint8_t)(probe->ask + 1); /* 0: nobody */
    *at++ = (uint8_t)(probe->told + 1);
    *at++ = 0;
    *at++ = 0;
    for (size_t i = 0; i < NUMBERS; i++)
        at = put_u64(at, numbers[i]);
    *at++ = (uint8_t)writer->words;
    *at++ = (uint8_t)(writer->words >> 8);
    if (!weir_gossip_mac(secret, writer->bytes, writer->size, &writer->bytes[writer->size]))
        memset(&writer->bytes[writer->size], 0, WEIR_GOSSIP_MAC_SIZE); /* nobody will believe it */
    writer->size += WEIR_GOSSIP_MAC_SIZE;
}

/* ---- reading ---- */

static uint64_t get_u64(const uint8_t *at)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

/* One number has one form: no padding, no more than 64 bits. */
static bool take_varint(struct weir_gossip_reader *reader, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && reader->at < reader->end; shift += 7) {
        uint64_t byte = *reader->at++;
        if (shift == 63 && byte > 1)
            return false;
        value |= (byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret_value = value;
            return byte > 0 || shift == 0;
        }
    }
    return false;
}

static bool read_head(const uint8_t *at, struct weir_gossip_head *head, struct weir_gossip_probe *probe)
{
    uint8_t flags = at[4];
    *head = (struct weir_gossip_head){
        .nodes = at[5],
        .from = at[6],
        .to = at[7],
        .complete = flags & FLAG_COMPLETE,
        .synced = flags & FLAG_SYNCED,
    };
    *probe = (struct weir_gossip_probe){ flags & FLAG_PING, at[8] ? at[8] - 1U : WEIR_GOSSIP_NOBODY,
                                         at[9] ? at[9] - 1U : WEIR_GOSSIP_NOBODY };
    uint64_t *const numbers[NUMBERS] = { &head->epoch, &head->seq,   &head->sent_ns, &head->echo_epoch, &head->echo_ns,
                                         &head->have,  &head->since, &head->until,   &head->cut };
    for (size_t i = 0; i < NUMBERS; i++)
        *numbers[i] = get_u64(at + MAGIC_SIZE + 8 + 8 * i);
    return flags <= FLAGS_ALL && at[10] == 0 && at[11] == 0 && head->nodes <= WEIR_GOSSIP_NODES_MAX &&
           head->from < head->nodes && head->to < head->nodes && at[8] <= head->nodes && at[9] <= head->nodes &&
           head->epoch > 0 && head->seq > 0 && head->since <= head->until;
}

int weir_gossip_read(struct weir_gossip_reader *reader, const void *datagram, size_t size,
                     const uint8_t secret[WEIR_GOSSIP_SECRET_SIZE], struct weir_gossip_head *ret_head,
                     struct weir_gossip_probe *ret_probe)
{
    const uint8_t *bytes = datagram;
    uint8_t right[WEIR_GOSSIP_MAC_SIZE];
    if (size < WEIR_GOSSIP_HEAD_SIZE + WEIR_GOSSIP_MAC_SIZE || size > WEIR_GOSSIP_DATAGRAM_MAX ||
        memcmp(bytes, MAGIC, MAGIC_SIZE) != 0)
        return WEIR_EINVAL;
    size -= WEIR_GOSSIP_MAC_SIZE;
    if (!weir_gossip_mac(secret, bytes, size, right) || CRYPTO_memcmp(right, bytes + size, WEIR_GOSSIP_MAC_SIZE) != 0)
        return WEIR_EINVAL;
    struct weir_gossip_head head;
    struct weir_gossip_probe probe;
    if (!read_head(bytes, &head, &probe))
        return WEIR_EPROTO;
    *ret_head = head;
    *ret_probe = probe;
    reader->at = bytes + WEIR_GOSSIP_HEAD_SIZE;
    reader->end = bytes + size;
    reader->words = bytes[WORDS_AT] | (uint32_t)bytes[WORDS_AT + 1] << 8;
    return 0;
}

/* Nodes ascend: none is named twice. */
static bool read_entry(struct weir_gossip_reader *reader, uint32_t *least, struct weir_gossip_word *word)
{
    uint64_t count, young;
    if (reader->end - reader->at < 9)
        return false;
    uint8_t node = *reader->at++;
    if (node < *least || node >= WEIR_GOSSIP_NODES_MAX)
        return false;
    *least = node + 1U;
    struct weir_gossip_entry *entry = &reader->entries[node];
    entry->epoch = get_u64(reader->at);
    reader->at += 8;
    if (!take_varint(reader, &count) || !take_varint(reader, &young) || young > count || count > COUNT_MAX ||
        entry->epoch == 0)
        return false;
    entry->count = count;
    entry->base = count - young;
    word->entries[node] = entry;
    return true;
}

int weir_gossip_read_word(struct weir_gossip_reader *reader, struct weir_gossip_word *ret_word)
{
    if (reader->words == 0)
        return reader->at == reader->end ? 0 : WEIR_EPROTO;
    uint64_t entries;
    if (reader->end - reader->at < 24)
        return WEIR_EPROTO;
    struct weir_gossip_word word = { .id = { get_u64(reader->at), get_u64(reader->at + 8) },
                                     .limit = get_u64(reader->at + 16) };
    reader->at += 24;
    if (!take_varint(reader, &word.phase) || !take_varint(reader, &word.window) || !take_varint(reader, &word.used) ||
        !take_varint(reader, &entries) || entries > WEIR_GOSSIP_NODES_MAX || word.used > COUNT_MAX)
        return WEIR_EPROTO;
    uint32_t least = 0;
    for (uint64_t i = 0; i < entries; i++)
        if (!read_entry(reader, &least, &word))
            return WEIR_EPROTO;
    reader->words--;
    *ret_word = word;
    return 1;
}
