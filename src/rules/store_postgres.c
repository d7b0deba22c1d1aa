/* SPDX-License-Identifier: Apache-2.0
 *
 * Versions and notes in PostgreSQL: one question, one transaction, one round trip. Called by store.c, in a program by
 * way of the module (modules/late.c). store_postgres_table.c has the connection, store_postgres_text.c the SQL. */
#include "rules/store_postgres.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fault.h"
#include "base/fault_format.h"

#define MS UINT64_C(1000000)

static struct weir_rule_postgres *postgres_of(struct weir_rule_store *store)
{
    return (struct weir_rule_postgres *)store;
}

/* ---- reading ---- */

static void write_head(struct weir_pg_text *text, const char *table, const void *argument)
{
    (void)argument;
    weir_rule_sql_head(text, table);
}

static bool take_head(void *context, size_t index, const struct pg_result *result)
{
    return index == 0 && weir_rule_row_head(result, context);
}

static int head(struct weir_rule_store *store, uint64_t deadline_ns, struct weir_rule_head *ret_head,
                struct weir_fault *ret_fault)
{
    struct weir_rule_head head;
    const struct weir_rule_question question = { .write = write_head, .take = take_head, .context = &head };
    int error = weir_rule_postgres_ask(postgres_of(store), &question, deadline_ns, ret_fault);
    if (error)
        return error;
    memcpy(head.store, postgres_of(store)->id, sizeof head.store);
    *ret_head = head;
    return 0;
}

struct reading {
    struct weir_rule_version version;
    char *text;
    struct weir_rule_head head;
    bool found, no_memory;
};

static void write_read(struct weir_pg_text *text, const char *table, const void *argument)
{
    weir_rule_sql_read(text, table, *(const uint64_t *)argument);
}

static bool take_read(void *context, size_t index, const struct pg_result *result)
{
    struct reading *reading = context;
    if (index == 1)
        return weir_rule_row_head(result, &reading->head);
    if (index != 0 || PQnfields(result) != 10 || PQntuples(result) > 1)
        return false;
    free(reading->text);
    reading->text = NULL;
    reading->found = PQntuples(result) == 1;
    if (!reading->found)
        return true;
    if (!weir_rule_row_version(result, 0, &reading->version))
        return false;
    size_t size = (size_t)reading->version.text_size;
    reading->text = malloc(size + 1);
    reading->no_memory = !reading->text;
    if (reading->no_memory)
        return true;
    reading->text[size] = '\0';
    return weir_rule_row_bytes(result, 0, 9, reading->text, size);
}

static int read_version(struct weir_rule_store *store, uint64_t number, uint64_t deadline_ns,
                        struct weir_rule_version *ret_version, char **ret_text, struct weir_fault *ret_fault)
{
    struct reading reading = { .text = NULL };
    const struct weir_rule_question question = {
        .write = write_read, .argument = &number, .take = take_read, .context = &reading
    };
    int error = weir_rule_postgres_ask(postgres_of(store), &question, deadline_ns, ret_fault);
    if (!error && reading.no_memory)
        error = weir_fault_set(ret_fault, WEIR_ENOMEM, "", "out of memory");
    if (!error && !reading.found && number <= reading.head.number)
        error = weir_fault_format(ret_fault, WEIR_ECORRUPT, "store", "version %llu is missing among others",
                                  (unsigned long long)number);
    if (!error && !reading.found)
        error = weir_fault_format(ret_fault, WEIR_ENOENT, "version", "there is no version %llu; the newest is %llu",
                                  (unsigned long long)number, (unsigned long long)reading.head.number);
    if (error) {
        free(reading.text);
        return error;
    }
    *ret_version = reading.version;
    *ret_text = reading.text;
    return 0;
}

struct listing {
    uint64_t from;
    struct weir_rule_versions *versions;
};

static void write_list(struct weir_pg_text *text, const char *table, const void *argument)
{
    const struct listing *listing = argument;
    weir_rule_sql_list(text, table, listing->from, listing->versions->room);
}

static bool take_list(void *context, size_t index, const struct pg_result *result)
{
    struct weir_rule_versions *versions = context;
    size_t rows = (size_t)PQntuples(result);
    if (index != 0 || rows > versions->room)
        return false;
    for (versions->count = 0; versions->count < rows; versions->count++)
        if (!weir_rule_row_version(result, (int)versions->count, &versions->list[versions->count]))
            return false;
    return true;
}

static int list(struct weir_rule_store *store, uint64_t from, uint64_t deadline_ns, struct weir_rule_versions *versions,
                struct weir_fault *ret_fault)
{
    const struct listing listing = { from, versions };
    const struct weir_rule_question question = {
        .write = write_list, .argument = &listing, .take = take_list, .context = versions
    };
    return weir_rule_postgres_ask(postgres_of(store), &question, deadline_ns, ret_fault);
}

/* ---- appending ---- */

struct appending {
    const struct weir_rule_change *change;
    const uint8_t *checksum;
    bool made, known;
    struct weir_rule_version version; /* of the change, if it is there */
    struct weir_rule_head head;
    uint64_t origins; /* how many versions are number `of` */
};

static void write_append(struct weir_pg_text *text, const char *table, const void *argument)
{
    const struct appending *appending = argument;
    weir_rule_sql_append(text, table, appending->change, appending->checksum);
}

static bool take_append(void *context, size_t index, const struct pg_result *result)
{
    struct appending *appending = context;
    int rows = PQntuples(result);
    switch (index) {
    case 0:
        appending->made = rows == 1;
        return rows <= 1;
    case 1:
        appending->known = rows == 1;
        return rows == 0 || (rows == 1 && weir_rule_row_version(result, 0, &appending->version));
    case 2:
        return weir_rule_row_head(result, &appending->head);
    case 3:
        return rows == 1 && weir_rule_row_number(result, 0, 0, &appending->origins);
    default:
        return false;
    }
}

/* What came of it. */
static int judge_append(const struct appending *appending, struct weir_rule_appended *ret_appended,
                        struct weir_fault *ret_fault)
{
    const struct weir_rule_change *change = appending->change;
    struct weir_rule_appended appended = { .said = WEIR_RULE_APPENDED, .head = appending->head };
    if (appending->known && !weir_rule_is_of(&appending->version, change, appending->checksum))
        return weir_fault_format(ret_fault, WEIR_EINVAL, "change", "the id is that of version %llu, another change",
                                 (unsigned long long)appending->version.number);
    if (appending->known) {
        appended.again = !appending->made;
        appended.number = appending->version.number;
    } else if (appending->head.number != change->expected) {
        appended.said = WEIR_RULE_CONFLICT;
    } else if (change->expected >= WEIR_RULE_VERSIONS_MAX) {
        return weir_fault_format(ret_fault, WEIR_ELIMIT, "store", "has %d versions, which is the most",
                                 WEIR_RULE_VERSIONS_MAX);
    } else if (change->of > 0 && appending->origins == 0) {
        return weir_fault_format(ret_fault, WEIR_ECORRUPT, "store", "version %llu is missing among others",
                                 (unsigned long long)change->of);
    } else { /* another writer was there, and took it back */
        return weir_fault_set(ret_fault, WEIR_EDOWN, "store", "another change was under way: ask again");
    }
    *ret_appended = appended;
    return 0;
}

static int append(struct weir_rule_store *store, const struct weir_rule_change *change, const uint8_t *checksum,
                  uint64_t deadline_ns, struct weir_rule_appended *ret_appended, struct weir_fault *ret_fault)
{
    struct appending appending = { .change = change, .checksum = checksum };
    const struct weir_rule_question question = {
        .write = write_append, .argument = &appending, .take = take_append, .context = &appending, .writes = true
    };
    int error = weir_rule_postgres_ask(postgres_of(store), &question, deadline_ns, ret_fault);
    if (error)
        return error;
    memcpy(appending.head.store, postgres_of(store)->id, sizeof appending.head.store);
    return judge_append(&appending, ret_appended, ret_fault);
}

/* ---- notes ---- */

static void write_tell(struct weir_pg_text *text, const char *table, const void *argument)
{
    weir_rule_sql_tell(text, table, argument);
}

static int tell(struct weir_rule_store *store, const struct weir_rule_told *told, uint64_t deadline_ns,
                struct weir_fault *ret_fault)
{
    const struct weir_rule_question question = { .write = write_tell, .argument = told, .writes = true };
    return weir_rule_postgres_ask(postgres_of(store), &question, deadline_ns, ret_fault);
}

struct hearing {
    bool newest_only, no_memory;
    struct weir_rule_notes *notes;
};

static void write_told(struct weir_pg_text *text, const char *table, const void *argument)
{
    weir_rule_sql_told(text, table, ((const struct hearing *)argument)->newest_only);
}

static bool take_told(void *context, size_t index, const struct pg_result *result)
{
    struct hearing *hearing = context;
    hearing->notes->count = 0;
    for (int row = 0; row < PQntuples(result) && !hearing->no_memory; row++) {
        struct weir_rule_told told;
        if (!weir_rule_row_told(result, row, &told))
            return false;
        hearing->no_memory = weir_rule_notes_add(hearing->notes, &told) != 0;
    }
    return index == 0;
}

static int told(struct weir_rule_store *store, bool newest_only, uint64_t deadline_ns, struct weir_rule_notes *notes,
                struct weir_fault *ret_fault)
{
    struct hearing hearing = { .newest_only = newest_only, .notes = notes };
    const struct weir_rule_question question = {
        .write = write_told, .argument = &hearing, .take = take_told, .context = &hearing
    };
    int error = weir_rule_postgres_ask(postgres_of(store), &question, deadline_ns, ret_fault);
    return !error && hearing.no_memory ? weir_fault_set(ret_fault, WEIR_ENOMEM, "", "out of memory") : error;
}

/* ---- waiting ---- */

static bool take_oid(void *context, size_t index, const struct pg_result *result)
{
    return index != WEIR_RULE_SQL_GUARD || weir_rule_row_number(result, 0, 0, context);
}

/* The channel is the table's own: its name may have more bytes than a channel's. A standby cannot listen, and a pooler
 * may say that it does: looking now and then does for both. */
static void begin_listening(struct weir_rule_postgres *postgres)
{
    uint64_t oid = 0, deadline_ns = weir_rule_now_ns() + 1000 * MS;
    postgres->listening = true;
    weir_rule_sql_begin(&postgres->text, weir_rule_postgres_timeout_ms(deadline_ns));
    weir_pg_text_add(&postgres->text, "; SELECT '@'::regclass::oid", postgres->named);
    if (postgres->text.failed ||
        weir_pg_link_run(&postgres->link, postgres->text.data, deadline_ns, take_oid, &oid) != WEIR_PG_DONE)
        return;
    weir_pg_text_clear(&postgres->text);
    weir_pg_text_add(&postgres->text, "LISTEN weir_rules_", "");
    weir_pg_text_number(&postgres->text, oid);
    if (!postgres->text.failed)
        (void)weir_pg_link_run(&postgres->link, postgres->text.data, deadline_ns, NULL, NULL);
}

static bool take_notes(PGconn *conn)
{
    bool any = false;
    for (PGnotify *notify; (notify = PQnotifies(conn)); any = true)
        PQfreemem(notify);
    return any;
}

/* Where it only begins to listen, what came before that only a look tells. */
static bool rest(struct weir_rule_store *store, uint64_t until_ns)
{
    struct weir_rule_postgres *postgres = postgres_of(store);
    PGconn *conn = postgres->link.conn;
    uint64_t now_ns = weir_rule_now_ns();
    if (!conn) {
        uint64_t again_ns = postgres->rest_until_ns > now_ns ? postgres->rest_until_ns : until_ns;
        weir_rule_sleep_until(weir_min_u64(until_ns, again_ns));
        return false;
    }
    if (!postgres->listening) {
        begin_listening(postgres);
        return true;
    }
    while (now_ns < until_ns) {
        if (take_notes(conn))
            return true;
        struct pollfd socket = { .fd = PQsocket(conn), .events = POLLIN };
        uint64_t left_ms = weir_min_u64(weir_div_ceil(until_ns - now_ns, MS), 60000);
        if (socket.fd < 0 || (poll(&socket, 1, (int)left_ms) > 0 && !PQconsumeInput(conn)))
            return true; /* the look connects again */
        now_ns = weir_rule_now_ns();
    }
    return take_notes(conn);
}

/* ---- the interface ---- */

static int migrate(struct weir_rule_store *store, unsigned to, uint64_t deadline_ns, struct weir_fault *ret_fault)
{
    int error = weir_rule_postgres_ready(postgres_of(store), deadline_ns, ret_fault);
    return error ? error : weir_rule_postgres_move(postgres_of(store), to, deadline_ns, ret_fault);
}

static void destroy(struct weir_rule_store *store)
{
    struct weir_rule_postgres *postgres = postgres_of(store);
    weir_pg_link_deinit(&postgres->link);
    free(postgres->text.data);
    free(postgres->table);
    free(postgres);
}

static const struct weir_rule_store_ops postgres_ops = { .head = head,
                                                         .read = read_version,
                                                         .list = list,
                                                         .append = append,
                                                         .tell = tell,
                                                         .told = told,
                                                         .except = weir_rule_postgres_except,
                                                         .exceptions = weir_rule_postgres_exceptions,
                                                         .migrate = migrate,
                                                         .pause = rest,
                                                         .close = destroy };

/* Where it is, without who asks. */
static void name(struct weir_rule_postgres *postgres)
{
    char *message = NULL, part[3][80] = { "localhost", "5432", "" };
    static const char *const keywords[] = { "host", "port", "dbname" };
    PQconninfoOption *options = PQconninfoParse(postgres->link.conninfo, &message);
    PQfreemem(message);
    for (PQconninfoOption *option = options; option && option->keyword; option++)
        for (size_t i = 0; i < 3; i++)
            if (option->val && strcmp(option->keyword, keywords[i]) == 0)
                (void)snprintf(part[i], sizeof part[i], "%s", option->val);
    PQconninfoFree(options);
    (void)snprintf(postgres->store.name, sizeof postgres->store.name, "postgresql %s:%s/%s %s", part[0], part[1],
                   part[2], postgres->table);
    for (char *at = postgres->store.name; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
}

int weir_rule_postgres_open(const char *url, const char *table, struct weir_rule_store **ret_store,
                            struct weir_fault *ret_fault)
{
    const char *wanted = table ? table : "weir_rules";
    if (!weir_pg_table_valid(wanted))
        return weir_fault_set(ret_fault, WEIR_EINVAL, "table",
                              "must be NAME or SCHEMA.NAME of a-z, 0-9 and _, each at most 50 bytes");
    struct weir_rule_postgres *postgres = calloc(1, sizeof *postgres);
    char *kept = strdup(wanted);
    int error = postgres && kept ? weir_pg_link_init(&postgres->link, url) : WEIR_ENOMEM;
    if (error) {
        free(postgres);
        free(kept);
        return error == WEIR_EINVAL
                   ? weir_fault_set(ret_fault, error, "spec", "must be a URL as libpq takes it: postgresql://HOST/DB")
                   : weir_fault_set(ret_fault, error, "", "out of memory");
    }
    postgres->store.ops = &postgres_ops;
    postgres->table = kept;
    name(postgres);
    *ret_store = &postgres->store;
    return 0;
}
