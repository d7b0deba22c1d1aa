/* SPDX-License-Identifier: Apache-2.0
 *
 * The log of exceptions in PostgreSQL, a table that the first change makes: whether it is there and fit to be used is
 * looked at once for each connection, and again by the guard of each question. Called by store.c, by way of the ops in
 * store_postgres.c. */
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/fault_format.h"
#include "rules/store_postgres.h"

#define RACES_MAX 64 /* other writers were faster */

static struct weir_rule_postgres *postgres_of(struct weir_rule_store *store)
{
    return (struct weir_rule_postgres *)store;
}

/* ---- the table ---- */

static void write_template(struct weir_pg_text *text, const char *table, const void *argument)
{
    weir_pg_text_add(text, argument, table);
}

static bool take_text(void *context, size_t index, const struct pg_result *result)
{
    char *text = context;
    (void)index;
    text[0] = '\0';
    if (PQntuples(result) == 1 && PQnfields(result) > 0 && !PQgetisnull(result, 0, 0))
        (void)snprintf(text, WEIR_PG_FAULT_SIZE, "%s", PQgetvalue(result, 0, 0));
    return true;
}

static int ask_text(struct weir_rule_postgres *postgres, const char *template, bool writes, uint64_t deadline_ns,
                    char ret_text[WEIR_PG_FAULT_SIZE], struct weir_fault *ret_fault)
{
    const struct weir_rule_question question = {
        .write = write_template, .argument = template, .take = take_text, .context = ret_text, .writes = writes
    };
    ret_text[0] = '\0';
    return weir_rule_postgres_ask(postgres, &question, deadline_ns, ret_fault);
}

/* Nobody takes a table of some other role's: one made by who may only change rules would be refused by the nodes. */
static int make(struct weir_rule_postgres *postgres, uint64_t deadline_ns, struct weir_fault *ret_fault)
{
    char text[WEIR_PG_FAULT_SIZE];
    int error = ask_text(postgres, weir_rule_sql_exceptions_maker, false, deadline_ns, text, ret_fault);
    if (error)
        return error;
    if (text[0])
        return weir_fault_format(
            ret_fault, WEIR_EDOWN, "store",
            "there is no table of exceptions, and %.63s, whose the other tables are, must make it: "
            "docs/exceptions.md",
            text);
    error = ask_text(postgres, weir_rule_sql_exceptions_create, true, deadline_ns, text, ret_fault);
    return error == WEIR_EUNKNOWN ? WEIR_EDOWN : error; /* nothing of the change was asked yet */
}

/* *ret_there: it can be used. */
static int look(struct weir_rule_postgres *postgres, bool makes, uint64_t deadline_ns, bool *ret_there,
                struct weir_fault *ret_fault)
{
    char text[WEIR_PG_FAULT_SIZE];
    int error = weir_rule_postgres_ready(postgres, deadline_ns, ret_fault);
    *ret_there = !error && postgres->exceptions_good;
    if (error || *ret_there)
        return error;
    error = ask_text(postgres, weir_rule_sql_exceptions_there, false, deadline_ns, text, ret_fault);
    bool there = strcmp(text, "t") == 0;
    if (!error && !there && makes) {
        error = make(postgres, deadline_ns, ret_fault);
        there = true;
    }
    if (!error && there)
        error = ask_text(postgres, weir_rule_sql_exceptions_judge, false, deadline_ns, text, ret_fault);
    if (!error && there && text[0])
        error = weir_fault_set(ret_fault, WEIR_ECORRUPT, "store", text);
    postgres->exceptions_good = *ret_there = !error && there;
    return error;
}

/* The column for names of levels, which only the table's owner can add. */
static int look_for_level(struct weir_rule_postgres *postgres, uint64_t deadline_ns, struct weir_fault *ret_fault)
{
    char text[WEIR_PG_FAULT_SIZE];
    struct weir_fault fault = { 0 };
    if (postgres->exceptions_level)
        return 0;
    int error = ask_text(postgres, weir_rule_sql_exceptions_level, false, deadline_ns, text, ret_fault);
    if (!error && strcmp(text, "t") != 0) {
        error = ask_text(postgres, weir_rule_sql_exceptions_level_create, true, deadline_ns, text, &fault);
        if (error == WEIR_EUNKNOWN) /* nothing of the change was asked yet */
            error = WEIR_EDOWN;
        if (error)
            (void)weir_fault_format(ret_fault, error, "store",
                                    "the table of exceptions has no column level_name yet: %.80s", fault.text);
    }
    postgres->exceptions_level = !error;
    return error;
}

/* The guard has found the table changed: the look at it says how. */
static int look_again(struct weir_rule_postgres *postgres, int error, uint64_t deadline_ns,
                      struct weir_fault *ret_fault)
{
    struct weir_fault fault = { 0 };
    bool there = false;
    if (!error || strcmp(postgres->link.state, WEIR_RULE_SQL_GROUND_GONE) != 0)
        return error;
    int found = look(postgres, false, deadline_ns, &there, &fault);
    if (found)
        *ret_fault = fault;
    return found ? found : error;
}

/* ---- rows ---- */

struct texts {
    char limit[WEIR_LIMIT_NAME_MAX + 1], author[WEIR_RULE_AUTHOR_MAX + 1], comment[WEIR_RULE_COMMENT_MAX + 1];
    char key[WEIR_EXCEPTION_STORED_MAX + 1], level[WEIR_LEVEL_NAME_MAX + 1];
};

/* At most room - 1 bytes, and a NUL behind them. */
static bool get_bytes(const PGresult *result, int row, int column, char *ret_bytes, size_t room, size_t *ret_size)
{
    size_t size = (size_t)PQgetlength(result, row, column) / 2;
    if (size >= room || !weir_rule_row_bytes(result, row, column, ret_bytes, size))
        return false;
    ret_bytes[size] = '\0';
    *ret_size = size;
    return true;
}

static bool get_string(const PGresult *result, int row, int column, char *ret_text, size_t room)
{
    size_t size = 0;
    return get_bytes(result, row, column, ret_text, room, &size) && strlen(ret_text) == size;
}

/* It is no secret, and not encoded. */
static bool get_level(const PGresult *result, int row, int column, char *ret_level, size_t room)
{
    return (size_t)snprintf(ret_level, room, "%s", PQgetvalue(result, row, column)) < room;
}

/* Its pointers are to `texts`. */
static void get_row(const PGresult *result, int row, struct texts *texts, struct weir_exception *ret_exception)
{
    struct weir_exception exception = { .limit = texts->limit,
                                        .author = texts->author,
                                        .comment = texts->comment,
                                        .key = { texts->key, 0 },
                                        .level = texts->level };
    uint64_t kind = 0;
    const bool whole = PQnfields(result) == 10 && weir_rule_row_number(result, row, 0, &exception.number) &&
                       weir_rule_row_number(result, row, 1, &kind) && kind <= INT16_MAX &&
                       weir_rule_row_number(result, row, 2, &exception.wall_ns) &&
                       weir_rule_row_number(result, row, 3, &exception.until_ns) &&
                       weir_rule_row_bytes(result, row, 4, exception.change, sizeof exception.change) &&
                       get_string(result, row, 5, texts->limit, sizeof texts->limit) &&
                       get_bytes(result, row, 6, texts->key, sizeof texts->key, &exception.key.size) &&
                       get_string(result, row, 7, texts->author, sizeof texts->author) &&
                       get_string(result, row, 8, texts->comment, sizeof texts->comment) &&
                       get_level(result, row, 9, texts->level, sizeof texts->level);
    exception.kind = (int)kind;
    if (whole && weir_exception_valid(&exception))
        *ret_exception = exception;
    else
        *ret_exception = (struct weir_exception){ .number = exception.number, .damaged = true };
}

/* ---- reading ---- */

struct listing {
    const struct weir_exception_select *select;
    struct texts *texts;
};

static void write_list(struct weir_pg_text *text, const char *table, const void *argument)
{
    const struct listing *listing = argument;
    weir_pg_text_add(text, weir_rule_sql_exceptions_guard, table);
    weir_rule_sql_exceptions(text, table, listing->select);
}

static bool take_list(void *context, size_t index, const struct pg_result *result)
{
    const struct listing *listing = context;
    const struct weir_exception_select *select = listing->select;
    bool more = index == 1;
    for (int row = 0; more && row < PQntuples(result); row++) {
        struct weir_exception exception;
        get_row(result, row, listing->texts, &exception);
        more = select->take(select->context, &exception);
    }
    return index <= 1;
}

int weir_rule_postgres_exceptions(struct weir_rule_store *store, const struct weir_exception_select *select,
                                  uint64_t deadline_ns, struct weir_fault *ret_fault)
{
    struct weir_rule_postgres *postgres = postgres_of(store);
    struct listing listing = { .select = select };
    const struct weir_rule_question question = {
        .write = write_list, .argument = &listing, .take = take_list, .context = &listing
    };
    bool there = false;
    int error = look(postgres, false, deadline_ns, &there, ret_fault);
    if (error || !there)
        return error;
    listing.texts = malloc(sizeof *listing.texts);
    if (!listing.texts)
        return weir_fault_set(ret_fault, WEIR_ENOMEM, "", "out of memory");
    error = weir_rule_postgres_ask(postgres, &question, deadline_ns, ret_fault);
    free(listing.texts);
    return look_again(postgres, error, deadline_ns, ret_fault);
}

/* ---- changing ---- */

struct changing {
    const struct weir_rule_store *store;
    const struct weir_exception_change *change;
    const uint8_t *digest;
    struct texts *texts;
    bool anew;                         /* what holds is counted, row by row */
    struct weir_exception_state state; /* before it */
    bool known, other;                 /* the id is there; and of another change */
    uint64_t number;                   /* of the change, if it is there */
};

static void write_change(struct weir_pg_text *text, const char *table, const void *argument)
{
    const struct changing *changing = argument;
    weir_pg_text_add(text, weir_rule_sql_exceptions_guard, table);
    weir_rule_sql_except(text, table, changing->store, changing->change, changing->digest, changing->anew);
}

static bool take_change(void *context, size_t index, const struct pg_result *result)
{
    struct changing *changing = context;
    struct weir_exception exception;
    uint64_t before = 0;
    switch (index) {
    case 0:
        return true;
    case 1:
        if (PQntuples(result) != 1 || PQnfields(result) != 5 ||
            !weir_rule_row_number(result, 0, 0, &changing->state.newest) ||
            !weir_rule_row_number(result, 0, 1, &changing->state.holding) ||
            !weir_rule_row_number(result, 0, 2, &before) ||
            !weir_rule_row_number(result, 0, 3, &changing->state.levels))
            return false;
        changing->state.held_before = before != 0;
        return true;
    case 2:
        changing->known = PQntuples(result) == 1;
        if (!changing->known)
            return PQntuples(result) == 0;
        get_row(result, 0, changing->texts, &exception);
        changing->number = exception.number;
        changing->other = !weir_exception_is_of(&exception, changing->change);
        return true;
    default:
        return false;
    }
}

/* It is full, as far as is known, and counting a million takes longer than it may: who asks hears what is in the
 * way. */
static int uncounted(const struct changing *changing, struct weir_fault *ret_fault)
{
    const struct weir_fault cause = *ret_fault;
    return weir_fault_format(ret_fault, WEIR_ELIMIT, "exceptions",
                             "%" PRIu64 " hold, which is the most; whether some have ended was not counted (rules: "
                             "timeout): %.60s",
                             changing->store->exceptions_max, cause.text);
}

/* Once more, where others were faster, or some that are counted may have expired. */
static int change_once(struct weir_rule_postgres *postgres, struct changing *changing, uint64_t deadline_ns,
                       bool *ret_again, struct weir_fault *ret_fault)
{
    const struct weir_rule_question question = {
        .write = write_change, .argument = changing, .take = take_change, .context = changing, .writes = true
    };
    int error = weir_rule_postgres_ask(postgres, &question, deadline_ns, ret_fault);
    *ret_again = false;
    if (error)
        return error == WEIR_EDOWN && changing->anew ? uncounted(changing, ret_fault) : error;
    if (changing->known)
        return changing->other ? weir_fault_set(ret_fault, WEIR_EINVAL, "change", "the id is that of another change")
                               : 0;
    error = weir_exception_bound(changing->store, changing->change, &changing->state, ret_fault);
    const bool may_have_room = error == WEIR_ELIMIT && !changing->anew &&
                               weir_exception_is_full(changing->store, changing->change, &changing->state);
    *ret_again = !error || may_have_room;
    changing->anew = changing->anew || may_have_room;
    return error ? error : weir_fault_set(ret_fault, WEIR_EDOWN, "store", "other changes were under way: ask again");
}

int weir_rule_postgres_except(struct weir_rule_store *store, const struct weir_exception_change *change,
                              const uint8_t *digest, uint64_t deadline_ns, uint64_t *ret_number,
                              struct weir_fault *ret_fault)
{
    struct weir_rule_postgres *postgres = postgres_of(store);
    struct changing changing = { .store = store, .change = change, .digest = digest };
    bool there = false, again = true;
    int error = look(postgres, true, deadline_ns, &there, ret_fault);
    if (!error && change->kind == WEIR_EXCEPTION_LEVEL)
        error = look_for_level(postgres, deadline_ns, ret_fault);
    if (error)
        return error;
    changing.texts = malloc(sizeof *changing.texts);
    if (!changing.texts)
        return weir_fault_set(ret_fault, WEIR_ENOMEM, "", "out of memory");
    for (int i = 0; again && i < RACES_MAX && weir_rule_now_ns() < deadline_ns; i++)
        error = change_once(postgres, &changing, deadline_ns, &again, ret_fault);
    free(changing.texts);
    if (error != WEIR_EUNKNOWN)
        error = look_again(postgres, error, deadline_ns, ret_fault);
    if (!error)
        *ret_number = changing.number;
    return error;
}
