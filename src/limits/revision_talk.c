/* SPDX-License-Identifier: Apache-2.0
 *
 * Datagrams, numbers big endian: "WGR1", u8 kind, from, to, N; the body; 16 bytes of an HMAC over all before them.
 * Bodies:
 *
 *     SAYS   for each limit 16 bytes of its id, and the head of its definition
 *     WANTS  id, u64 number, u32 offset
 *     PART   id, u64 number, u32 size of all, u32 offset, bytes */
#include "limits/revision_talk.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/checked.h"
#include "wire/gossip.h"

#define MAGIC "WGR1"
#define HEAD ((size_t)8)
#define SIGNATURE ((size_t)WEIR_GOSSIP_MAC_SIZE)
#define ITEM (16 + (size_t)WEIR_REVISION_HEAD)
#define WANTS_BODY ((size_t)28)
#define PART_BODY ((size_t)32)
#define CHUNK ((size_t)1200)
#define WINDOW 8 /* parts at once */

enum kind { SAYS = 1, WANTS, PART };

_Static_assert(HEAD + WEIR_REVISION_TALK_SAID * ITEM + SIGNATURE <= WEIR_REVISION_TALK_MAX, "what is said fits");
_Static_assert(HEAD + PART_BODY + CHUNK + SIGNATURE <= WEIR_REVISION_TALK_MAX, "a part fits");

/* A definition that is too long for one datagram, on its way. */
struct fetch {
    uint64_t id[2], number;
    uint32_t from;
    uint8_t *bytes; /* NULL: there is none */
    size_t size, have;
    uint64_t end_ns;
};

struct weir_revision_talk {
    struct weir_revision_talk_options options;
    uint8_t secret[WEIR_GOSSIP_SECRET_SIZE];
    uint64_t started_ns, next_ns;
    size_t said;              /* which limit is said next */
    bool clueless[UINT8_MAX]; /* nodes that say that they know of nothing */
    struct fetch fetch;
    uint8_t out[WEIR_REVISION_TALK_MAX];
};

int weir_revision_talk_create(const struct weir_revision_talk_options *options, struct weir_revision_talk **ret_talk)
{
    struct weir_revision_talk *talk = calloc(1, sizeof(*talk));
    if (!talk)
        return WEIR_ENOMEM;
    weir_assert(options->nodes <= UINT8_MAX && options->node < options->nodes);
    talk->options = *options;
    memcpy(talk->secret, options->secret, sizeof(talk->secret));
    talk->options.secret = talk->secret;
    talk->started_ns = talk->next_ns = options->now_ns;
    *ret_talk = talk;
    return 0;
}

void weir_revision_talk_destroy(struct weir_revision_talk *talk)
{
    if (!talk)
        return;
    free(talk->fetch.bytes);
    free(talk);
}

/* ---- numbers ---- */

static uint64_t get(const uint8_t **at, unsigned size)
{
    *at += size;
    return weir_big_get(*at - size, size);
}

static void get_id(const uint8_t **at, uint64_t ret_id[2])
{
    ret_id[0] = get(at, 8);
    ret_id[1] = get(at, 8);
}

static uint8_t *put_id(uint8_t *at, const uint64_t id[2])
{
    return weir_big_put(weir_big_put(at, id[0], 8), id[1], 8);
}

/* ---- saying ---- */

static uint8_t *begin(struct weir_revision_talk *talk, enum kind kind)
{
    memcpy(talk->out, MAGIC, 4);
    talk->out[4] = (uint8_t)kind;
    talk->out[5] = (uint8_t)talk->options.node;
    talk->out[7] = (uint8_t)talk->options.nodes;
    return talk->out + HEAD;
}

static void send_to(struct weir_revision_talk *talk, uint32_t to, const uint8_t *end)
{
    size_t size = (size_t)(end - talk->out);
    talk->out[6] = (uint8_t)to;
    if (!weir_gossip_mac(talk->secret, talk->out, size, talk->out + size))
        return; /* it is said again */
    talk->options.send(talk->options.context, to, talk->out, size + SIGNATURE);
}

static void say(struct weir_revision_talk *talk)
{
    size_t count = weir_revisions_count(talk->options.revisions);
    uint8_t *at = begin(talk, SAYS);
    for (size_t i = 0; i < count && i < WEIR_REVISION_TALK_SAID; i++) {
        struct weir_revision_brief brief;
        talk->said = talk->said + 1 < count ? talk->said + 1 : 0;
        if (!weir_revisions_brief(talk->options.revisions, talk->said, &brief) || !brief.known)
            continue;
        at = put_id(at, brief.id);
        memcpy(at, brief.head, sizeof(brief.head));
        at += sizeof(brief.head);
    }
    for (uint32_t to = 0; to < talk->options.nodes; to++) {
        if (to != talk->options.node)
            send_to(talk, to, at);
    }
}

static void want(struct weir_revision_talk *talk, uint32_t from, const uint64_t id[2], uint64_t number, size_t offset)
{
    uint8_t *at = weir_big_put(put_id(begin(talk, WANTS), id), number, 8);
    send_to(talk, from, weir_big_put(at, offset, 4));
}

static void fetch_end(struct fetch *fetch)
{
    free(fetch->bytes);
    *fetch = (struct fetch){ 0 };
}

static bool is_alone(const struct weir_revision_talk *talk, uint64_t now_ns)
{
    bool all = true;
    for (uint32_t node = 0; node < talk->options.nodes; node++)
        all = all && (node == talk->options.node || talk->clueless[node]);
    return talk->options.may_be_alone && (all || now_ns - talk->started_ns >= WEIR_REVISION_ALONE_NS);
}

uint64_t weir_revision_talk_turn(struct weir_revision_talk *talk, const struct weir_time *time)
{
    struct fetch *fetch = &talk->fetch;
    if (time->now_ns < talk->next_ns)
        return talk->next_ns;
    talk->next_ns = time->now_ns + WEIR_REVISION_TALK_NS;
    if (is_alone(talk, time->now_ns))
        weir_revisions_alone(talk->options.revisions, time->wall_ns);
    say(talk);
    if (fetch->bytes && time->now_ns >= fetch->end_ns)
        fetch_end(fetch); /* it is said again that there is one */
    else if (fetch->bytes)
        want(talk, fetch->from, fetch->id, fetch->number, fetch->have);
    return talk->next_ns;
}

/* ---- hearing ---- */

static void hear_says(struct weir_revision_talk *talk, uint32_t from, const uint8_t *at, const uint8_t *end,
                      const struct weir_time *time)
{
    talk->clueless[from] = at == end;
    for (; (size_t)(end - at) >= ITEM; at += WEIR_REVISION_HEAD) {
        uint64_t id[2];
        get_id(&at, id);
        if (weir_revisions_hear(talk->options.revisions, id, at, WEIR_REVISION_HEAD, false, time->wall_ns) ==
            WEIR_REVISION_NEWER)
            want(talk, from, id, weir_big_get(at + 4, 8), 0);
    }
}

static void hear_wants(struct weir_revision_talk *talk, uint32_t from, const uint8_t *at)
{
    uint64_t id[2], number;
    uint8_t *bytes;
    size_t size;
    get_id(&at, id);
    uint64_t wanted = get(&at, 8);
    size_t offset = get(&at, 4);
    if (weir_revisions_bytes(talk->options.revisions, id, &bytes, &size, &number))
        return;
    for (int i = 0; i < WINDOW && number == wanted && offset < size; i++) {
        size_t chunk = size - offset < CHUNK ? size - offset : CHUNK;
        uint8_t *out = weir_big_put(put_id(begin(talk, PART), id), number, 8);
        out = weir_big_put(weir_big_put(out, size, 4), offset, 4);
        memcpy(out, bytes + offset, chunk);
        send_to(talk, from, out + chunk);
        offset += chunk;
    }
    free(bytes);
}

/* The first part of a long one begins it, unless another is on its way. */
static void fetch_begin(struct fetch *fetch, uint32_t from, const uint64_t id[2], uint64_t number, size_t size,
                        uint64_t now_ns)
{
    if (fetch->bytes || !(fetch->bytes = malloc(size)))
        return;
    fetch->id[0] = id[0];
    fetch->id[1] = id[1];
    fetch->number = number;
    fetch->from = from;
    fetch->size = size;
    fetch->end_ns = now_ns + 10 * WEIR_NS_PER_SECOND;
}

static void hear_part(struct weir_revision_talk *talk, uint32_t from, const uint8_t *at, const uint8_t *end,
                      const struct weir_time *time)
{
    struct fetch *fetch = &talk->fetch;
    uint64_t id[2];
    get_id(&at, id);
    uint64_t number = get(&at, 8);
    size_t size = get(&at, 4), offset = get(&at, 4);
    size_t chunk = (size_t)(end - at);
    if (chunk == 0 || size > WEIR_REVISION_BYTES_MAX || offset > size || chunk > size - offset)
        return;
    if (chunk == size) {
        (void)weir_revisions_hear(talk->options.revisions, id, at, size, true, time->wall_ns);
        return;
    }
    if (offset == 0)
        fetch_begin(fetch, from, id, number, size, time->now_ns);
    if (!fetch->bytes || fetch->id[0] != id[0] || fetch->id[1] != id[1] || fetch->number != number ||
        fetch->size != size || fetch->from != from || offset != fetch->have)
        return;
    memcpy(fetch->bytes + offset, at, chunk);
    fetch->have += chunk;
    if (fetch->have == size) {
        (void)weir_revisions_hear(talk->options.revisions, id, fetch->bytes, size, true, time->wall_ns);
        fetch_end(fetch);
    } else if (fetch->have / CHUNK % WINDOW == 0) {
        want(talk, from, id, number, fetch->have);
    }
}

bool weir_revision_talk_heard(struct weir_revision_talk *talk, const void *datagram, size_t size,
                              const struct weir_time *time)
{
    const uint8_t *bytes = datagram;
    if (size < 4 || memcmp(bytes, MAGIC, 4) != 0)
        return false;
    if (size < HEAD + SIGNATURE || size > WEIR_REVISION_TALK_MAX)
        return true;
    uint8_t right[WEIR_GOSSIP_MAC_SIZE];
    const uint8_t *end = bytes + size - SIGNATURE, *at = bytes + HEAD;
    if (!weir_gossip_mac(talk->secret, bytes, size - SIGNATURE, right) || !weir_gossip_mac_equal(right, end) ||
        bytes[6] != talk->options.node || bytes[7] != talk->options.nodes || bytes[5] >= talk->options.nodes ||
        bytes[5] == talk->options.node)
        return true;
    if (bytes[4] == SAYS)
        hear_says(talk, bytes[5], at, end, time);
    else if (bytes[4] == WANTS && (size_t)(end - at) == WANTS_BODY)
        hear_wants(talk, bytes[5], at);
    else if (bytes[4] == PART && (size_t)(end - at) > PART_BODY)
        hear_part(talk, bytes[5], at, end, time);
    return true;
}
