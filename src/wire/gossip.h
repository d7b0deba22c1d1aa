/* SPDX-License-Identifier: Apache-2.0
 *
 * Gossip datagrams: a head and words (core/share/gossip.h), authenticated.
 *
 *     bytes  what                                       numbers are little endian
 *     4      "WG1\0"
 *     8      flags, nodes, from, to, ask + 1, told + 1, 0, 0
 *     8 * 9  epoch, seq, sent_ns, echo_epoch, echo_ns, have, since, until, cut
 *     2      words that follow
 *     ...    words: id (16), limit (8), then as varints (LEB128) phase (sliding_counter: count), window
 *            (sliding_counter: end_after_ns), used, entries; each entry node (1, ascending), epoch (8), count and
 *            count - base as varints
 *     16     HMAC-SHA256 of all before, cut to 16 bytes; the key is the cluster secret (RFC 2104, section 5 on the cut)
 *
 * Whoever lacks the key can make no datagram; sender, receiver, start and sequence number are under the MAC, so what is
 * replayed, or sent on to another node, is recognised (weir_gossip_hear). Contents are not secret.
 *
 * Thread rule: values only. Bounds: WEIR_GOSSIP_DATAGRAM_MAX bytes. */
#pragma once

#include "core/share/gossip.h"

#define WEIR_GOSSIP_DATAGRAM_MAX 4096
#define WEIR_GOSSIP_DATAGRAM_USUAL 1400 /* fits one frame; only a word with many entries is given more */
#define WEIR_GOSSIP_SECRET_SIZE 16
#define WEIR_GOSSIP_MAC_SIZE 16
#define WEIR_GOSSIP_HEAD_SIZE 86
#define WEIR_GOSSIP_NOBODY UINT32_MAX

/* HMAC-SHA256 with the cluster's secret, cut to 16 bytes. False: no memory. */
bool weir_gossip_mac(const uint8_t secret[WEIR_GOSSIP_SECRET_SIZE], const void *bytes, size_t size,
                     uint8_t ret_mac[WEIR_GOSSIP_MAC_SIZE]);
bool weir_gossip_mac_equal(const uint8_t one[WEIR_GOSSIP_MAC_SIZE], const uint8_t other[WEIR_GOSSIP_MAC_SIZE]);

/* What rides along for membership (core/share/membership.h). */
struct weir_gossip_probe {
    bool ping;
    uint32_t ask, told; /* or WEIR_GOSSIP_NOBODY */
};

struct weir_gossip_writer {
    uint8_t bytes[WEIR_GOSSIP_DATAGRAM_MAX];
    size_t size;
    uint32_t words;
};

void weir_gossip_write_start(struct weir_gossip_writer *writer);
/* False: it does not fit any more, nothing was written. The first word always fits. */
bool weir_gossip_write_word(struct weir_gossip_writer *writer, const struct weir_gossip_word *word);
/* Writes the head and the MAC: writer->bytes[0 .. size) is the datagram. */
void weir_gossip_write_end(struct weir_gossip_writer *writer, const struct weir_gossip_head *head,
                           const struct weir_gossip_probe *probe, const uint8_t secret[WEIR_GOSSIP_SECRET_SIZE]);

struct weir_gossip_reader {
    const uint8_t *at, *end;
    uint32_t words;
    struct weir_gossip_entry entries[WEIR_GOSSIP_NODES_MAX]; /* that the newest word points to */
};

/* WEIR_EINVAL: the MAC is wrong (or it is no datagram of ours). WEIR_EPROTO: it is right, the contents are not. */
int weir_gossip_read(struct weir_gossip_reader *reader, const void *datagram, size_t size,
                     const uint8_t secret[WEIR_GOSSIP_SECRET_SIZE], struct weir_gossip_head *ret_head,
                     struct weir_gossip_probe *ret_probe);
/* 1: a word; 0: there are no more; WEIR_EPROTO. */
int weir_gossip_read_word(struct weir_gossip_reader *reader, struct weir_gossip_word *ret_word);
