/* SPDX-License-Identifier: Apache-2.0
 *
 * What an actor does: it draws what next, does it as an application would, and records what it was told. */
#include <errno.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"
#include "weir/error.h"

#define MS UINT64_C(1000000)
#define ANSWER_NS (1500 * MS)
#define BOARD_SLOTS 4

static uint64_t below(struct actor *actor, uint64_t bound)
{
    return test_random_below(&actor->random, bound);
}

static void doze(struct actor *actor, uint64_t ns_max)
{
    struct timespec pause = { .tv_nsec = (long)below(actor, ns_max) };
    nanosleep(&pause, NULL);
}

/* ---- PostgreSQL, with a deadline: an application that waits for ever would hide that nothing else does ---- */

static bool answered(PGconn *conn, uint64_t until_ns)
{
    while (PQisBusy(conn)) {
        struct pollfd socket = { .fd = PQsocket(conn), .events = POLLIN };
        uint64_t now_ns = drive_now_ns();
        if (now_ns >= until_ns)
            return false;
        if (poll(&socket, 1, (int)((until_ns - now_ns) / MS) + 1) < 0 && errno != EINTR)
            return false;
        if (socket.revents && !PQconsumeInput(conn))
            return true; /* broken: there is an answer that says so */
    }
    return true;
}

/* The last result; NULL: the connection is broken, by its server or, since that did not answer, by us. */
static PGresult *ask(PGconn *conn, const char *text)
{
    uint64_t until_ns = drive_now_ns() + ANSWER_NS;
    PGresult *last = NULL, *next = NULL;
    if (!PQsendQuery(conn, text))
        return NULL;
    for (;;) {
        if (!answered(conn, until_ns)) {
            shutdown(PQsocket(conn), SHUT_RDWR);
            until_ns = UINT64_MAX;
            continue;
        }
        next = PQgetResult(conn);
        if (!next)
            break;
        PQclear(last);
        last = next;
    }
    if (PQstatus(conn) == CONNECTION_OK)
        return last;
    PQclear(last);
    return NULL;
}

/* Did it succeed, without rows? */
static bool command(PGconn *conn, const char *text)
{
    PGresult *result = ask(conn, text);
    bool done = result && PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    return done;
}

/* ---- what it was told ---- */

/* For a line of JSON. */
static struct weir_fault fault_of(const struct actor *actor)
{
    struct weir_fault fault = { 0 };
    weir_session_fault(actor->session, &fault);
    for (char *at = fault.text; *at; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ')
            *at = '\'';
    return fault;
}

static void refused(struct actor *actor, const char *call, int error, uint64_t start_ns)
{
    struct weir_fault fault = fault_of(actor);
    drive_record(actor->drive, "refused", start_ns,
                 "\"session\":\"%s\",\"call\":\"%s\",\"error\":\"%s\",\"why\":\"%s %s\"", actor->name, call,
                 weir_error_name(error), fault.field, fault.text);
}

/* After WEIR_ECUTOFF: it forgets, as soon as there is a primary to go on from. */
static void accept_loss(struct actor *actor, const char *call, uint64_t start_ns)
{
    struct weir_fault fault = fault_of(actor);
    for (;;) {
        uint64_t again_ns = drive_now_ns();
        int error = weir_session_accept(actor->session);
        if (error == 0)
            break;
        refused(actor, "accept", error, again_ns);
        if (atomic_load(&actor->drive->over))
            return;
        doze(actor, 50 * MS);
    }
    drive_record(actor->drive, "lost", start_ns, "\"session\":\"%s\",\"call\":\"%s\",\"why\":\"%s %s\"", actor->name,
                 call, fault.field, fault.text);
    memset(actor->seen, 0, sizeof actor->seen);
    actor->accepting_ns += drive_now_ns() - start_ns;
}

static void failed(struct actor *actor, const char *call, int error, uint64_t start_ns)
{
    if (error == WEIR_ECUTOFF)
        accept_loss(actor, call, start_ns);
    else
        refused(actor, call, error, start_ns);
}

static void remember(struct actor *actor, unsigned key, uint64_t version, const char *tag)
{
    actor->seen[key].version = version;
    (void)snprintf(actor->seen[key].tag, sizeof actor->seen[key].tag, "%s", tag);
}

/* ---- reading ---- */

struct where {
    PGconn *conn;
    const char *server;
    double waited_ms;
    bool leader, stale;
    const char *more; /* of each read */
};

static void record_value(struct actor *actor, const char *op, const struct where *where, unsigned key, uint64_t version,
                         const char *tag, uint64_t start_ns)
{
    drive_record(actor->drive, op, start_ns,
                 "\"session\":\"%s\",\"key\":\"%u\",\"version\":%" PRIu64
                 ",\"tag\":\"%s\",\"server\":\"%s\",\"leader\":%s,\"waited_ms\":%.3f",
                 actor->name, key, version, tag, where->server, where->leader ? "true" : "false", where->waited_ms);
}

/* Was it one? */
static bool take_value(struct actor *actor, const struct where *where, unsigned key, const PGresult *result,
                       uint64_t start_ns)
{
    if (!result || PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1)
        return false;
    uint64_t version = strtoull(PQgetvalue(result, 0, 0), NULL, 10);
    const char *tag = PQgetvalue(result, 0, 1);
    record_value(actor, where->stale ? "stale" : "read", where, key, version, tag, start_ns);
    if (!where->stale)
        remember(actor, key, version, tag);
    return true;
}

static bool read_key(struct actor *actor, const struct where *where)
{
    char text[80];
    unsigned key = (unsigned)below(actor, actor->drive->keys);
    (void)snprintf(text, sizeof text, "SELECT version, tag FROM t WHERE key = %u%s", key, where->more);
    uint64_t start_ns = drive_now_ns();
    PGresult *result = ask(where->conn, text);
    bool good = take_value(actor, where, key, result, start_ns);
    PQclear(result);
    return good;
}

/* One statement, a few, or a transaction with one snapshot, which what is replayed meanwhile may conflict with. */
static void read_keys(struct actor *actor, const struct where *where)
{
    unsigned draw = (unsigned)below(actor, 8);
    if (draw > 0 || where->more[0]) { /* of locks one at a time: they are to wait, not to be in each other's way */
        for (unsigned i = 0; i < (draw < 6 ? 1 : 4) && read_key(actor, where); i++)
            ;
        return;
    }
    bool good = command(where->conn, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    for (unsigned i = 0; i < 3 && good; i++) {
        good = read_key(actor, where);
        doze(actor, 30 * MS);
    }
}

/* Whatever is still open; a planted mistake may have opened it. */
static void end_transaction(const struct where *where)
{
    if (PQtransactionStatus(where->conn) != PQTRANS_IDLE && PQstatus(where->conn) == CONNECTION_OK)
        (void)command(where->conn, "ROLLBACK");
}

static void do_read(struct actor *actor)
{
    struct weir_read read;
    uint64_t start_ns = drive_now_ns();
    int error = weir_session_read(actor->session, &read);
    if (error != 0) {
        failed(actor, "read", error, start_ns);
        return;
    }
    struct where where = { read.conn, read.server, read.waited_ms, read.leader, read.stale, "" };
    read_keys(actor, &where);
    end_transaction(&where);
}

/* With its place in the same round trip. */
static void do_query(struct actor *actor)
{
    char text[12];
    unsigned key = (unsigned)below(actor, actor->drive->keys);
    const char *const values[] = { text };
    const struct weir_query query = { .text = "SELECT version, tag FROM t WHERE key = $1::int",
                                      .name = below(actor, 2) ? "of_key" : NULL,
                                      .param_count = 1,
                                      .values = values };
    struct weir_read read;
    PGresult *result = NULL;
    (void)snprintf(text, sizeof text, "%u", key);
    uint64_t start_ns = drive_now_ns();
    int error = weir_session_query(actor->session, &query, &result, &read);
    if (error != 0) {
        failed(actor, "query", error, start_ns);
        return;
    }
    struct where where = { read.conn, read.server, read.waited_ms, read.leader, read.stale, "" };
    (void)take_value(actor, &where, key, result, start_ns);
    PQclear(result);
    end_transaction(&where);
}

/* ---- writing ---- */

static void write_key(struct actor *actor, const struct where *where)
{
    char text[400], tag[DRIVE_NAME_SIZE];
    unsigned key = (unsigned)below(actor, actor->drive->keys);
    (void)snprintf(tag, sizeof tag, "%.12s.%u", actor->name, ++actor->serial);
    (void)snprintf(
        text, sizeof text,
        "WITH made AS (UPDATE t SET version = version + 1, tag = '%s' WHERE key = %u RETURNING key, version, "
        "tag), logged AS (INSERT INTO log SELECT * FROM made) SELECT version FROM made",
        tag, key);
    uint64_t start_ns = drive_now_ns();
    PGresult *result = ask(where->conn, text);
    if (result && PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1) {
        uint64_t version = strtoull(PQgetvalue(result, 0, 0), NULL, 10);
        record_value(actor, "write", where, key, version, tag, start_ns);
        remember(actor, key, version, tag);
    } else if (!result) {
        drive_record(actor->drive, "unknown", start_ns, "\"session\":\"%s\",\"key\":\"%u\",\"server\":\"%s\"",
                     actor->name, key, where->server);
    } /* else it was refused: read only, say */
    PQclear(result);
}

/* At the primary, also to read there what is to be read elsewhere next. A read that locks waits for a commit that a
 * standby has shown already; one that does not is for writers that know better, and is not judged. */
static void do_lead(struct actor *actor, bool write, bool locks)
{
    PGconn *conn;
    char port[16];
    uint64_t start_ns = drive_now_ns();
    int error = weir_session_write(actor->session, &conn);
    if (error != 0) {
        failed(actor, "write", error, start_ns);
        return;
    }
    (void)snprintf(port, sizeof port, "%s", PQport(conn));
    struct where where = {
        .conn = conn, .server = port, .leader = true, .stale = !locks, .more = locks ? " FOR SHARE" : ""
    };
    if (write)
        write_key(actor, &where);
    else
        read_keys(actor, &where);
    end_transaction(&where);
}

/* ---- tokens: a few lie about for each user, old ones too, for whoever comes by ---- */

struct note {
    size_t size;
    char token[WEIR_SESSION_TOKEN_MAX];
    struct drive_version seen[DRIVE_KEYS_MAX];
};

static void do_post(struct actor *actor)
{
    struct note note;
    char path[256], made[256];
    memset(&note, 0, sizeof note);
    uint64_t start_ns = drive_now_ns();
    int error = weir_session_token(actor->session, note.token, &note.size);
    if (error != 0) {
        failed(actor, "token", error, start_ns);
        return;
    }
    memcpy(note.seen, actor->seen, sizeof note.seen);
    (void)snprintf(made, sizeof made, "%s/board/made-%s", actor->drive->folder, actor->name);
    (void)snprintf(path, sizeof path, "%s/board/%u-%u", actor->drive->folder, actor->user,
                   (unsigned)below(actor, BOARD_SLOTS));
    FILE *file = fopen(made, "wb");
    if (!file)
        return;
    bool whole = fwrite(&note, sizeof note, 1, file) == 1;
    if (fclose(file) == 0 && whole)
        (void)rename(made, path);
}

/* What the token has seen the session has to remember from now on; what is older than what it knows, as well, if it was
 * lost. */
static void inherit(struct actor *actor, const struct note *note, uint64_t start_ns)
{
    const struct where where = { .server = "token" };
    for (unsigned key = 0; key < actor->drive->keys; key++) {
        const struct drive_version *seen = &note->seen[key];
        if (seen->version == 0 || strcmp(seen->tag, actor->seen[key].tag) == 0)
            continue;
        bool newer = seen->version > actor->seen[key].version;
        record_value(actor, newer ? "read" : "inherit", &where, key, seen->version, seen->tag, start_ns);
        if (newer)
            actor->seen[key] = *seen;
    }
}

static void do_take(struct actor *actor)
{
    struct note note;
    char path[256];
    (void)snprintf(path, sizeof path, "%s/board/%u-%u", actor->drive->folder, actor->user,
                   (unsigned)below(actor, BOARD_SLOTS));
    FILE *file = fopen(path, "rb");
    if (!file)
        return;
    bool whole = fread(&note, sizeof note, 1, file) == 1;
    fclose(file);
    uint64_t start_ns = drive_now_ns();
    int error = whole ? weir_session_join(actor->session, note.token, note.size) : 0;
    if (error != 0)
        refused(actor, "join", error, start_ns);
    else if (whole)
        inherit(actor, &note, start_ns);
}

/* ---- the session ---- */

static int open_session(struct actor *actor)
{
    struct weir_session_options options = {
        .id = actor->name,
        .id_size = strlen(actor->name),
        .strategy = WEIR_SESSION_TRACKED,
        .behind = (enum weir_session_behind)below(actor, WEIR_BEHIND_ERROR + 1),
        .wait_ms = 50 + (unsigned)below(actor, 400),
    };
    return weir_session_open(actor->drive->replicas, &options, &actor->session);
}

/* Another one, with another policy, that has the token of the one before. */
static void do_renew(struct actor *actor)
{
    char token[WEIR_SESSION_TOKEN_MAX];
    size_t size;
    struct weir_session *before = actor->session;
    uint64_t start_ns = drive_now_ns();
    int error = weir_session_token(before, token, &size);
    if (error != 0) {
        failed(actor, "token", error, start_ns);
        return;
    }
    if (open_session(actor) != 0 || weir_session_join(actor->session, token, size) != 0)
        abort(); /* there is memory, and the token is ours */
    weir_session_close(before);
}

static void do_rest(struct actor *actor)
{
    uint64_t start_ns = drive_now_ns();
    int error = weir_session_rest(actor->session);
    if (error != 0)
        failed(actor, "rest", error, start_ns);
}

static void act(struct actor *actor)
{
    bool calm = atomic_load(&actor->drive->calm);
    uint64_t draw = below(actor, 100), start_ns = drive_now_ns();
    actor->accepting_ns = 0;
    if (draw < 35)
        do_read(actor);
    else if (draw < 50)
        do_query(actor);
    else if (draw < 72)
        do_lead(actor, !calm, !calm);
    else if (draw < 77)
        do_lead(actor, false, !calm);
    else if (draw < 85)
        do_post(actor);
    else if (draw < 94)
        do_take(actor);
    else if (draw < 97)
        do_rest(actor);
    else
        do_renew(actor);
    uint64_t took_ns = drive_now_ns() - start_ns - actor->accepting_ns;
    if (took_ns > 1000 * MS)
        drive_record(actor->drive, "long", start_ns, "\"session\":\"%s\",\"draw\":%" PRIu64 ",\"took_ns\":%" PRIu64,
                     actor->name, draw, took_ns);
    doze(actor, below(actor, 4) == 0 ? 20 * MS : 3 * MS);
}

void *actor_main(void *argument)
{
    struct actor *actor = argument;
    if (open_session(actor) != 0)
        abort();
    while (!atomic_load(&actor->drive->over))
        act(actor);
    weir_session_close(actor->session);
    return NULL;
}
