/* SPDX-License-Identifier: Apache-2.0
 *
 * Session tokens: what a session has seen, over several systems, as an opaque signed string. Pure.
 *
 * Merged by maximum along a history, never by the order of the strings. Places of one system that cannot be merged
 * (one of them was cut off, or the history is not known yet) stand side by side until they can: a session that saw
 * what was lost is told so, whichever message came last.
 *
 * The string: base64url (RFC 4648, section 5, no padding) of one byte of version (1: signed, 2: not), one byte that
 * names the key (unsigned: 0), the body, and, if signed, the first 16 bytes of the HMAC-SHA-256 (RFC 2104) of
 * everything before. For a cookie or a header. Who signs is the caller's: core/ has no cryptography. Keys rotate: the
 * first of the list signs, all of them verify.
 *
 * The body: wrote_ns, stamp_ns, clock, the number of places, and of each: system (8 bytes, little endian), flags (1:
 * with run, 2: standby, 4: with branch), timeline, position, run (8 bytes), branch (4 bytes). Numbers without a size
 * are of 7 bits a byte, the lowest first, in as few bytes as they need: a text has one token and a token one text. */
#pragma once

#include "core/session/place.h"
#include "weir/session.h"

#define WEIR_SESSION_PLACES_MAX 8
#define WEIR_SESSION_MAC_SIZE 16

struct weir_session_token {
    uint64_t wrote_ns; /* wall time of the last write; 0 = none. For strategy window */
    uint64_t stamp_ns; /* wall time of the newest thing seen, by the clock of whoever wrote it. For strategy physical */
    uint64_t clock;    /* logical. For strategy lamport */
    unsigned count;
    struct weir_place places[WEIR_SESSION_PLACES_MAX]; /* system, then timeline, position, run ascend */
};

/* Moves the token to contain `place`, and merges what can be by what is known now. `known` may be NULL: nothing known.
 * 0; WEIR_ELIMIT: it stands beside WEIR_SESSION_PLACES_MAX others already: nothing is changed. */
int weir_session_token_add(struct weir_session_token *token, const struct weir_place *place,
                           const struct weir_known *known);

/* Adds all that `other` holds; wrote_ns, stamp_ns, clock: the greater. Places of a system that `known` is not of are
 * merged only where they are of one timeline. WEIR_ELIMIT as above. Commutative, associative, idempotent while no bound
 * is reached, in what a token demands of a server (but perhaps of a primary to be settled): where that is OK for the
 * merged token it is for both. */
int weir_session_token_merge(struct weir_session_token *token, const struct weir_session_token *other,
                             const struct weir_known *known);

/* All places of the server's system, the worst first: LOST, DIVERGED, UNPROVEN, BEHIND, OK. FOREIGN if there are places
 * but none of this system; an empty token is OK. */
enum weir_place_verdict weir_session_token_compare(const struct weir_session_token *token,
                                                   const struct weir_shown *shown, const struct weir_known *known);

/* Drops the places of `shown`'s system that are LOST there, or UNPROVEN (the caller has waited for the history in
 * vain), and adds what it shows: the session accepts its loss. Returns how many were dropped. */
unsigned weir_session_token_accept(struct weir_session_token *token, const struct weir_shown *shown,
                                   const struct weir_known *known);

struct weir_session_signer {
    unsigned key_count;                     /* 1 to WEIR_SESSION_KEYS_MAX */
    uint8_t key_ids[WEIR_SESSION_KEYS_MAX]; /* distinct; the first signs */
    /* HMAC-SHA-256 of `message` under key number `key` of the list, its first bytes. 0 or an error. */
    int (*mac)(void *context, unsigned key, const void *message, size_t size, uint8_t ret_mac[WEIR_SESSION_MAC_SIZE]);
    void *context;
};

/* text: WEIR_SESSION_TOKEN_MAX bytes, which is enough for every token; no terminator is written. signer NULL: unsigned
 * (inside one process only). Fails where the signer does, with its error. */
int weir_session_token_write(const struct weir_session_token *token, const struct weir_session_signer *signer,
                             char *text, size_t *ret_size);

/* 0; WEIR_EPROTO: not such a string; WEIR_EFORGED: an unknown key or a wrong signature (compared in constant time), or
 * unsigned where a signer is given, or signed where none is. Or the signer's error. */
int weir_session_token_read(const char *text, size_t size, const struct weir_session_signer *signer,
                            struct weir_session_token *ret_token);
