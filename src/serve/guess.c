/* SPDX-License-Identifier: Apache-2.0
 *
 * Two kinds of token buckets in the limiter, under keys that begin with a secret of this process: that of an address is
 * charged for each wrong token that is new there, that of an address and a token remembers for an hour that it was
 * shown. Called by conn.c for AUTH and by http.c for each request that shows a token; the list of valid tokens is in
 * auth.c. */
#include "serve/guess.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "base/checked.h"
#include "serve/loop.h"

#define MINUTE_NS (60 * WEIR_NS_PER_SECOND)
#define MEMORY_NS (60 * MINUTE_NS) /* of a token that an address has shown */

int weir_guesses_init(struct weir_guesses *guesses)
{
    struct weir_fault fault;
    const struct weir_limit_spec of_address = { .count = WEIR_GUESSES_MAX, .period_ns = MINUTE_NS };
    const struct weir_limit_spec of_token = { .count = 1, .period_ns = MEMORY_NS };
    int error = weir_bucket_init(&guesses->of_address, &of_address, &fault);
    if (!error)
        error = weir_bucket_init(&guesses->of_token, &of_token, &fault);
    weir_assert(!error);
    ssize_t size = (ssize_t)sizeof(guesses->secret);
    return getrandom(guesses->secret, sizeof(guesses->secret), 0) == size ? 0 : WEIR_EIO;
}

/* An IPv6 host has a /64 to itself. Callers over a Unix socket are one. */
static size_t put_address(const struct weir_conn *conn, uint8_t *at)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } peer;
    socklen_t size = sizeof(peer);
    if (getpeername(conn->fd, &peer.any, &size))
        return 0;
    if (peer.any.sa_family == AF_INET)
        memcpy(at, &peer.v4.sin_addr, 4);
    else if (peer.any.sa_family == AF_INET6)
        memcpy(at, &peer.v6.sin6_addr, 8);
    return peer.any.sa_family == AF_INET ? 4 : peer.any.sa_family == AF_INET6 ? 8 : 0;
}

#define FROM_V4 (UINT64_C(1) << 32)

void weir_guess_from_text(uint64_t from, char ret_text[WEIR_GUESS_FROM_TEXT_MAX])
{
    char text[INET6_ADDRSTRLEN] = "a Unix socket";
    bool four = from >> 32 == FROM_V4 >> 32;
    const struct in_addr v4 = { htonl((uint32_t)from) };
    struct in6_addr v6 = { 0 };
    for (unsigned i = 0; i < 8; i++)
        v6.s6_addr[i] = (uint8_t)(from >> (56 - 8 * i));
    v6.s6_addr[15] = from == 0;
    if (from != UINT64_MAX)
        (void)inet_ntop(four ? AF_INET : AF_INET6, four ? (const void *)&v4 : &v6, text, sizeof(text));
    /* Nobody but ::1 calls from ::/64, which reads as the unspecified address. */
    bool network = !four && from != UINT64_MAX && from != 0;
    (void)snprintf(ret_text, WEIR_GUESS_FROM_TEXT_MAX, "%s%s", text, network ? "/64" : "");
}

/* Notes where the token came from, and counts it. */
static void count_from(const struct weir_conn *conn, _Atomic uint64_t *last, _Atomic uint64_t *counter)
{
    uint8_t bytes[8];
    size_t size = put_address(conn, bytes);
    uint64_t from = 0;
    for (size_t i = 0; i < size; i++)
        from = from << 8 | bytes[i];
    atomic_store(last, size == 0 ? UINT64_MAX : size == 4 ? FROM_V4 | from : from);
    weir_count(counter, 1);
}

/* The keys of an address, and of a token that it shows. */
static void make_keys(const struct weir_conn *conn, const struct weir_auth_digest *digest, struct weir_key *ret_address,
                      struct weir_key *ret_token)
{
    const struct weir_loop *loop = conn->loop;
    uint8_t bytes[sizeof(loop->common->guesses.secret) + 8 + sizeof(digest->bytes)];
    size_t size = sizeof(loop->common->guesses.secret);
    memcpy(bytes, loop->common->guesses.secret, size);
    size += put_address(conn, bytes + size);
    int error = weir_limiter_bucket_key(loop->limiter, (struct weir_slice){ bytes, size }, ret_address);
    memcpy(bytes + size, digest->bytes, sizeof(digest->bytes));
    size += sizeof(digest->bytes);
    if (!error)
        error = weir_limiter_bucket_key(loop->limiter, (struct weir_slice){ bytes, size }, ret_token);
    weir_assert(!error); /* they are short */
}

/* Whether the bucket of a key has one to spare; takes it, unless it only looks. */
static bool has_one(const struct weir_conn *conn, const struct weir_bucket *bucket, const struct weir_key *key,
                    const struct weir_time *time, unsigned flags, uint64_t *ret_wait_ns)
{
    struct weir_verdict verdict;
    int error = weir_limiter_bucket_decide(conn->loop->limiter, bucket, key, 1, time, flags, &verdict);
    weir_assert(!error);
    *ret_wait_ns = verdict.retry_after_ns;
    return verdict.admitted;
}

/* Of a wrong token that the address shows for the first time. */
static void count_guess(struct weir_conn *conn, const struct weir_key *address, const struct weir_key *token,
                        const struct weir_time *time, uint64_t *ret_wait_ns)
{
    struct weir_guesses *guesses = &conn->loop->common->guesses;
    uint64_t none_ns;
    if (!has_one(conn, &guesses->of_address, address, time, 0, ret_wait_ns))
        return;
    (void)has_one(conn, &guesses->of_token, token, time, 0, &none_ns);
    atomic_store(&guesses->calm_from, weir_add_sat(time->now_ns, MINUTE_NS));
}

unsigned weir_guess(struct weir_conn *conn, struct weir_slice token, const struct weir_time *time,
                    struct weir_auth_digest *ret_digest, uint64_t *ret_wait_ns)
{
    struct weir_loop *loop = conn->loop;
    struct weir_guesses *guesses = &loop->common->guesses;
    struct weir_key of_address, of_token;
    uint64_t none_ns;
    *ret_wait_ns = 0;
    if (weir_auth_digest(token.data, token.size, ret_digest)) {
        /* of a size that no token has: it tells nothing */
        count_from(conn, &guesses->wrong_from, &loop->counters.tokens_wrong);
        return 0;
    }
    unsigned rights = weir_auth_check_digest(&loop->setup->auth, ret_digest);
    if (rights != 0 && conn->known)
        return rights;
    make_keys(conn, ret_digest, &of_address, &of_token);
    bool is_new = has_one(conn, &guesses->of_token, &of_token, time, WEIR_PEEK, &none_ns);
    bool calm = atomic_load(&guesses->calm_from) < time->now_ns;
    if (is_new && !calm && !has_one(conn, &guesses->of_address, &of_address, time, WEIR_PEEK, ret_wait_ns)) {
        count_from(conn, &guesses->unseen_from, &loop->counters.tokens_unseen);
        return 0;
    }
    *ret_wait_ns = 0;
    if (rights == 0)
        count_from(conn, &guesses->wrong_from, &loop->counters.tokens_wrong);
    if (rights == 0 && is_new)
        count_guess(conn, &of_address, &of_token, time, ret_wait_ns);
    else if (is_new)
        (void)has_one(conn, &guesses->of_token, &of_token, time, 0, &none_ns);
    conn->known = rights != 0;
    return rights;
}
