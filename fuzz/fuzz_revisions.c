/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes, signed as the cluster's own, as a definition at the engine and as a datagram of another node: they are
 * taken or not, and what is told on is what was taken. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "limits/revision_talk.h"
#include "wire/gossip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t secret[WEIR_GOSSIP_SECRET_SIZE] = { 7 };
static const struct weir_time now = { 5 * WEIR_NS_PER_SECOND, 1700000000 * WEIR_NS_PER_SECOND };

static void on_send(void *context, uint32_t node, const void *datagram, size_t size)
{
    (void)context;
    (void)datagram;
    weir_assert(node < 3 && size <= WEIR_REVISION_TALK_MAX);
}

/* `magic`, the bytes, their signature: exactly as many, so that ASan sees a look beyond them. */
static uint8_t *sign(const char *magic, const uint8_t *data, size_t size, size_t *ret_size)
{
    uint8_t *bytes = malloc(4 + size + WEIR_GOSSIP_MAC_SIZE);
    memcpy(bytes, magic, 4);
    memcpy(bytes + 4, data, size);
    weir_assert(weir_gossip_mac(secret, bytes, 4 + size, bytes + 4 + size));
    *ret_size = 4 + size + WEIR_GOSSIP_MAC_SIZE;
    return bytes;
}

static void hear(struct weir_revisions *revisions, struct weir_revision_talk *talk, const uint8_t *data, size_t size)
{
    struct weir_revision_brief brief;
    size_t signed_size;
    weir_assert(weir_revisions_brief(revisions, 0, &brief));
    uint8_t *bytes = sign("WRV1", data, size, &signed_size);
    (void)weir_revisions_hear(revisions, brief.id, bytes, signed_size, true, now.wall_ns);
    free(bytes);
    (void)weir_revisions_hear(revisions, brief.id, data, size, true, now.wall_ns);
    bytes = sign("WGR1", data, size, &signed_size);
    weir_assert(weir_revision_talk_heard(talk, bytes, signed_size, &now));
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_revisions *revisions;
    struct weir_revision_talk *talk;
    struct weir_revision_own own = { "x", { "file", 4 }, 0 };
    struct weir_revision_brief brief;
    weir_assert(weir_revisions_create(secret, "a", &revisions) == 0);
    weir_assert(weir_revisions_own(revisions, &own, 1, now.wall_ns) == 0);
    weir_revisions_alone(revisions, now.wall_ns);
    const struct weir_revision_talk_options options = {
        .revisions = revisions, .secret = secret, .nodes = 3, .may_be_alone = true, .now_ns = 1, .send = on_send
    };
    weir_assert(weir_revision_talk_create(&options, &talk) == 0);
    hear(revisions, talk, data, size);
    (void)weir_revision_talk_turn(talk, &now);

    uint8_t *bytes;
    size_t told;
    uint64_t number;
    weir_assert(weir_revisions_brief(revisions, 0, &brief) && brief.known);
    weir_assert(weir_revisions_bytes(revisions, brief.id, &bytes, &told, &number) == 0);
    weir_assert(weir_revisions_hear(revisions, brief.id, bytes, told, true, now.wall_ns) == WEIR_REVISION_SAME);
    free(bytes);
    weir_revision_talk_destroy(talk);
    weir_revisions_destroy(revisions);
    return 0;
}
