/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads that never go back: sessions over a primary and its replicas, for C and libpq.
 *
 *     struct weir_replicas *replicas;
 *     struct weir_session *session;
 *     struct weir_read read;
 *     weir_replicas_open(&(struct weir_replicas_options){ .servers = servers, .server_count = 3 }, &replicas, &fault);
 *     weir_session_open(replicas, &(struct weir_session_options){ .id = "ada", .id_size = 3 }, &session);
 *     weir_session_join(session, cookie, cookie_size);            what this user has seen elsewhere
 *     weir_session_write(session, &conn);                         the primary: PQexec(conn, "UPDATE …")
 *     weir_session_read(session, &read);                         a replica that shows it: PQexec(read.conn, "SELECT …")
 *     weir_session_token(session, cookie, &cookie_size);          what it has seen now
 *     weir_session_close(session);
 *
 * Promised, per row: monotonic reads (a read never shows less than an earlier one of the session) and read your writes,
 * across connections, processes and devices that hand the token on. Monotonic writes and writes follow reads hold too,
 * because writes go to one primary. Across rows PostgreSQL's own order of visibility, which differs from the order of
 * its log, is the bound (docs/reads.md). When a failover or a crash has cut off what the session saw, no server can
 * show it: WEIR_ECUTOFF, never an older value. So it is where nobody can prove that it was not cut off (Branches, in
 * docs/reads-postgres.md). weir_session_accept goes on from what there is.
 *
 * How: a read that may need it is preceded by one statement on the same connection that asks how far the server is;
 * with a connection that has been asked once and a token that has not moved elsewhere, nothing is asked. Where the
 * session stays on one server the position is taken lazily: when it moves or its token is taken. For that the session
 * keeps the connection; weir_session_rest gives it back.
 *
 * Thread rule: weir_replicas: any thread. weir_session, and the connections it hands out: one thread at a time.
 * After fork() the child may use neither.
 *
 * Privileges: the roles need pg_read_all_stats (or pg_monitor) to see a standby's timeline at once (without it a check
 * waits for the poller), and REPLICATION to learn the history of timelines (without it what was seen before a failover
 * is WEIR_ECUTOFF). Without both, standbys are not read.
 *
 * Source: Terry et al., "Session Guarantees for Weakly Consistent Replicated Data", 1994. Needs libpq and libcrypto:
 * link with weir-session. */
#ifndef WEIR_SESSION_H
#define WEIR_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) && !defined(WEIR_CORE_BUILD)
#pragma GCC visibility push(default)
#endif

struct pg_conn; /* libpq's PGconn and PGresult */
struct pg_result;

#define WEIR_SESSION_TOKEN_MAX 480 /* bytes of the longest token: characters of base64url, no terminator */
#define WEIR_SESSION_ID_MAX 1024
#define WEIR_SESSION_WAIT_MAX_MS 60000
#define WEIR_SESSION_KEYS_MAX 8
#define WEIR_SESSION_KEY_MIN 16 /* bytes */
#define WEIR_SESSION_KEY_MAX 128

/* ---- the servers ---- */

struct weir_replicas;

struct weir_replicas_server {
    const char *name; /* unique, 1 to 63 bytes; hashed for sticky choices: keep it when the address changes */
    /* Of libpq: "host=… port=… dbname=… user=…" or a URL. Primary or standby: it is asked which. */
    const char *conninfo;
};

struct weir_session_key {
    uint8_t id; /* distinct; part of each token */
    const void *key;
    size_t key_size; /* WEIR_SESSION_KEY_MIN to _MAX bytes, random */
};

struct weir_replicas_options {
    const struct weir_replicas_server *servers;
    unsigned server_count;    /* 1 to 64; a server that does not answer yet is no error */
    unsigned poll_ms;         /* each server is asked so often how far it is; 10 to 10000; 0 = 50 */
    unsigned freeze_ms;       /* a standby that has not moved for so long while its primary has is not read; 0 = 1000 */
    unsigned timeout_ms;      /* to connect and to answer a question of ours; 0 = 1000 */
    unsigned connections_max; /* open ones per server, of all sessions; 0 = 32. At the bound the call is refused */
    /* For LAMPORT: a query whose one value is a server's logical clock, a bigint; asked of each server with every poll
     * and with every check (deploy/reads/lamport.sql has one). NULL = none: then LAMPORT is WEIR_EINVAL. */
    const char *clock_query;
    const struct weir_session_key
        *keys; /* the first signs, all verify; none: tokens are not signed: keep them inside */
    unsigned key_count;
    /* "schema.table", made by deploy/reads/branches.sql, in the database of the conninfos: proves which promotion a
     * timeline comes from where nobody saw it (docs/reads-postgres.md, Branches). NULL = none. Else WEIR_EINVAL. */
    const char *branch_table;
    uint64_t reserved[WEIR_RESERVED]; /* 0 */
};

/* WEIR_EINVAL, WEIR_ERANGE, WEIR_EEXIST (a name twice): an argument, named by the fault; WEIR_ENOMEM. Does not wait for
 * the servers. */
WEIR_MUST_CHECK int weir_replicas_open(const struct weir_replicas_options *options, struct weir_replicas **ret_replicas,
                                       struct weir_fault *ret_fault);
void weir_replicas_close(struct weir_replicas *replicas); /* NULL is allowed; after its sessions */

/* While in use. WEIR_EEXIST, WEIR_ELIMIT, WEIR_ENOENT. Sessions at a removed server move with their next read. */
int weir_replicas_add(struct weir_replicas *replicas, const struct weir_replicas_server *server,
                      struct weir_fault *ret_fault);
int weir_replicas_remove(struct weir_replicas *replicas, const char *name);

/* ---- one session ---- */

struct weir_session;

/* How the server of a read is chosen. Only TRACKED keeps the promises above; the others are what is done elsewhere,
 * here to be compared (docs/reads.md). LAMPORT keeps them for rows whose writers move the clock (deploy/reads). */
enum weir_session_strategy {
    WEIR_SESSION_TRACKED,  /* a replica that is known to show what the session has seen */
    WEIR_SESSION_STICKY,   /* always the same one, by rendezvous hashing of the session's id */
    WEIR_SESSION_WINDOW,   /* the primary for window_ms after a write, then as STICKY */
    WEIR_SESSION_PHYSICAL, /* a replica whose last commit's time is not before the newest that was seen */
    WEIR_SESSION_LAMPORT,  /* a replica whose logical clock has reached the session's */
};

/* What to do where the server at hand is behind. Each but ERROR first takes another replica that is not. */
enum weir_session_behind {
    WEIR_BEHIND_LEADER, /* wait for a replica up to wait_ms, then the primary, if it provably shows at least as much */
    WEIR_BEHIND_WAIT,   /* wait up to wait_ms, then WEIR_EBEHIND. Here, with STALE and with ERROR the primary is never
                           read, even if no replica answers, unless it is the only server */
    WEIR_BEHIND_OTHER,  /* another replica or the primary at once, else WEIR_EBEHIND */
    WEIR_BEHIND_STALE,  /* wait up to wait_ms, then read what there is, marked `stale`: one that stands still last */
    WEIR_BEHIND_ERROR,  /* WEIR_EBEHIND at once */
};

struct weir_session_options {
    const void *id; /* of the user; the same one goes to the same replica. NULL = a random one */
    size_t id_size; /* up to WEIR_SESSION_ID_MAX */
    enum weir_session_strategy strategy;
    enum weir_session_behind behind;
    unsigned wait_ms;                 /* up to WEIR_SESSION_WAIT_MAX_MS; 0 = 500 */
    unsigned window_ms;               /* of WINDOW; 0 = 1000 */
    bool reads_do_not_move;           /* only read your writes: what a read has seen does not move the token */
    uint64_t reserved[WEIR_RESERVED]; /* 0 */
};

WEIR_MUST_CHECK int weir_session_open(struct weir_replicas *replicas, const struct weir_session_options *options,
                                      struct weir_session **ret_session);
void weir_session_close(
    struct weir_session *session); /* NULL is allowed. What it saw since its last token is forgotten */

/* Adds what another token has seen: of the cookie, of the other device. In any order, as often as you like: it never
 * goes back. 0; WEIR_EPROTO: not a token; WEIR_EFORGED: not signed by one of the keys; WEIR_ELIMIT. */
WEIR_MUST_CHECK int weir_session_join(struct weir_session *session, const char *token, size_t size);

struct weir_read {
    /* The session's, until its next call. Leave no transaction open on it; never PQfinish or PQreset it: where it
     * breaks, call again. Others get it later as it is: what you SET, LISTEN or prepare on it stays. */
    struct pg_conn *conn;
    const char *server; /* its name, for logs; as long as conn */
    double waited_ms;   /* for a server to catch up; 0 = one was far enough at once */
    bool leader;
    bool stale;                       /* older than what was seen, by WEIR_BEHIND_STALE; it does not move the token */
    uint64_t reserved[WEIR_RESERVED]; /* 0 */
};

/* A connection for reads. Blocks up to wait_ms and timeout_ms. WEIR_EBEHIND: none shows enough yet; WEIR_ECUTOFF: none
 * ever will; WEIR_EFOREIGN: the token is of another system; WEIR_EDOWN: no server answers, or for writing: no primary;
 * WEIR_EBUSY: a transaction is open on the connection that was handed out last (an answer not read, a COMMIT not sent);
 * WEIR_ELIMIT: connections_max; WEIR_ENOMEM. */
WEIR_MUST_CHECK int weir_session_read(struct weir_session *session, struct weir_read *ret_read);

/* One read with its place, in one round trip: for those who take the token after each. Like weir_session_read,
 * PQexecParams on its connection, and the question that weir_session_token would have to ask. One statement that only
 * reads, and may be run again. */
struct weir_query {
    const char *text;
    /* Prepared under this name on each connection that does not know it yet; choose another for another text. NULL =
     * not prepared. */
    const char *name;
    int param_count; /* the rest as for PQexecParams */
    const unsigned *types;
    const char *const *values;
    const int *lengths;
    const int *formats;
    int result_format;
    uint64_t reserved[WEIR_RESERVED]; /* 0 */
};

/* *ret_result: libpq's; PQclear it. 0 also where the server refused the statement: see PQresultStatus. ret_read may be
 * NULL. Errors as weir_session_read; WEIR_EIO: the connection broke before the answer: ask again. */
WEIR_MUST_CHECK int weir_session_query(struct weir_session *session, const struct weir_query *query,
                                       struct pg_result **ret_result, struct weir_read *ret_read);

/* The primary, for writes and for reads that want it. What is committed there moves the token. Errors as above.
 * A standby may show a commit a moment before its primary does (with synchronous replication for as long as the standby
 * that is waited for is missing). A write waits for it by its row's lock, and so does a read that locks (FOR SHARE); a
 * plain read here does not, and may miss it. Reads that must not: weir_session_read, which sees to it at the primary
 * too.
 *
 * A primary that was replaced and does not know takes writes until a server is asked that knows better, at the latest
 * after poll_ms. They are lost with it, and the session is told: WEIR_ECUTOFF. To keep it from writing is fencing, the
 * failover's business. */
WEIR_MUST_CHECK int weir_session_write(struct weir_session *session, struct pg_conn **ret_conn);

/* The session's token now: asks the connections that were used since how far they are. token: WEIR_SESSION_TOKEN_MAX
 * bytes. Errors as weir_session_read.
 *
 * A connection that broke before it could be asked leaves a gap: what was seen there (a COMMIT without an answer too)
 * is bounded by what the primary has written by now, if it is still the one that it was. That is asked here and by the
 * next read or write. If it is not the same one any more, nothing can be proven: WEIR_ECUTOFF. If none can be asked
 * yet: WEIR_EUNKNOWN here, WEIR_EBEHIND there. (Not covered: a standby that is promoted beside its living primary, read
 * from by a connection of before, and gone, all between two polls.) */
int weir_session_token(struct weir_session *session, char *token, size_t *ret_size);

/* As weir_session_token, without the text, and gives the connections back: before a long pause. */
int weir_session_rest(struct weir_session *session);

/* After WEIR_ECUTOFF: forget what was lost and go on from what the primary shows now. Where it fails (WEIR_EDOWN)
 * nothing is forgotten. */
WEIR_MUST_CHECK int weir_session_accept(struct weir_session *session);

/* What was wrong last, for people: which server is how far behind. Empty where nothing was. */
void weir_session_fault(const struct weir_session *session, struct weir_fault *ret_fault);

#if defined(__GNUC__) && !defined(WEIR_CORE_BUILD)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
