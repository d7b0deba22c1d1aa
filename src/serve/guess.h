/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens that callers show, and how often an address may show wrong ones: WEIR_GUESSES_MAX different ones at once and
 * so many a minute. From an address that has used them up a token is not looked at, right or wrong, until there is one
 * to spare again; but one that the address has shown before is, for it is no guess: a client with an old token harms
 * nobody beside it, and who is known there stays. All of this is kept in the limiter, in its bounded memory. */
#pragma once

#include "serve/conn.h"

#define WEIR_GUESSES_MAX 10
#define WEIR_GUESSES_OF_CONN_MAX 10 /* wrong tokens of any kind; RESP's connections end with one more */

#define WEIR_GUESS_FROM_TEXT_MAX 64

struct weir_guesses {
    struct weir_bucket of_address, of_token;
    uint8_t secret[16];         /* begins its keys, which no caller can name */
    _Atomic uint64_t calm_from; /* ns; after it no address lacks a guess, and no bucket need be looked at */
    /* Where the last wrong and the last unseen one came from: the /64 of an IPv6 address; of IPv4 2^32 + the address,
     * which is in 0000::/8 and so nobody's; UINT64_MAX over a Unix socket. Set before the token is counted. */
    _Atomic uint64_t wrong_from, unseen_from;
};

/* For people, of wrong_from or unseen_from: "192.0.2.7", "2001:db8:0:7::/64", "::1" or "a Unix socket". */
void weir_guess_from_text(uint64_t from, char ret_text[WEIR_GUESS_FROM_TEXT_MAX]);

int weir_guesses_init(struct weir_guesses *guesses); /* WEIR_EIO: no random numbers */

/* The rights of a token that `conn` shows; 0: it is none of ours, or, *ret_wait_ns > 0, it was not looked at, and may
 * be after that wait. *ret_digest is set where rights are returned. */
unsigned weir_guess(struct weir_conn *conn, struct weir_slice token, const struct weir_time *time,
                    struct weir_auth_digest *ret_digest, uint64_t *ret_wait_ns);
