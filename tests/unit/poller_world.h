/* SPDX-License-Identifier: Apache-2.0
 *
 * PostgreSQL servers for tests of the pollers and of what is made of their answers: what a server says to each question
 * is written down here, and how often it was asked. Defines what lies below the pollers, and the clock. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <libpq-fe.h>

#include "sessions/branch_table.h"
#include "sessions/servers_inside.h"
#include "weir/error.h"

#define SYSTEM 7
#define MS UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)
#define DAY (86400 * SECOND)
#define FAKES 4

struct fake {
    bool down, sender_down, sender_breaks;
    int fixed_error;
    int error;   /* of the next question how far it is; once */
    bool breaks; /* with every question */
    struct weir_shown shown;
    const char *timeline, *history, *number, *clock; /* NULL: the server refuses the question */
    bool settles;
    int settling_error, table_error;
    struct weir_branches branches;
    unsigned connects, senders, asked, timelines, histories, nudges, looks, tables, clocks;
};

static struct {
    pthread_mutex_t mutex;
    struct fake servers[FAKES]; /* of "host=0" and so on */
    int open;                   /* connections */
    uint64_t now_ns;            /* 0: the machine's own clock, */
    uint64_t ahead_ns;          /* and so much */
} world = { .mutex = PTHREAD_MUTEX_INITIALIZER };

struct pg_conn {
    unsigned server;
    bool sender;
};

static struct fake *fake_of(const struct pg_conn *conn)
{
    return &world.servers[conn->server];
}

static uint64_t real_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

uint64_t weir_ask_now_ns(void)
{
    pthread_mutex_lock(&world.mutex);
    uint64_t now_ns = world.now_ns, ahead_ns = world.ahead_ns;
    pthread_mutex_unlock(&world.mutex);
    return now_ns ? now_ns : real_now_ns() + ahead_ns;
}

/* ---- connections ---- */

int weir_ask_connect(const char *conninfo, const char *const *extra, uint64_t deadline_ns, struct pg_conn **ret_conn,
                     char ret_text[WEIR_ASK_TEXT_SIZE])
{
    (void)deadline_ns;
    struct pg_conn *conn = calloc(1, sizeof *conn);
    assert_non_null(conn);
    *conn = (struct pg_conn){ (unsigned)(conninfo[5] - '0') % FAKES, extra && strcmp(extra[0], "replication") == 0 };
    pthread_mutex_lock(&world.mutex);
    struct fake *fake = fake_of(conn);
    bool refused = conn->sender ? fake->sender_down : fake->down;
    conn->sender ? fake->senders++ : fake->connects++;
    world.open += refused ? 0 : 1;
    pthread_mutex_unlock(&world.mutex);
    if (!refused) {
        *ret_conn = conn;
        return 0;
    }
    snprintf(ret_text, WEIR_ASK_TEXT_SIZE, "%s", conn->sender ? "no replication" : "refused");
    free(conn);
    return WEIR_EIO;
}

void PQfinish(PGconn *conn)
{
    if (!conn)
        return;
    pthread_mutex_lock(&world.mutex);
    world.open--;
    pthread_mutex_unlock(&world.mutex);
    free(conn);
}

int weir_shown_fixed(struct pg_conn *conn, uint64_t deadline_ns, struct weir_shown_fixed *ret_fixed)
{
    (void)deadline_ns;
    *ret_fixed = (struct weir_shown_fixed){ .system = SYSTEM, .page_size = 8192, .segment_size = 1 << 24 };
    return fake_of(conn)->fixed_error;
}

const char *weir_shown_why_not(int error)
{
    return weir_error_text(error);
}

/* ---- questions ---- */

int weir_shown_ask(struct pg_conn *conn, struct weir_shown_fixed *fixed, uint64_t deadline_ns, struct weir_shown *ret)
{
    (void)fixed, (void)deadline_ns;
    pthread_mutex_lock(&world.mutex);
    struct fake *fake = fake_of(conn);
    int error = fake->breaks || fake->down ? WEIR_EIO : fake->error;
    fake->error = 0;
    fake->asked++;
    *ret = fake->shown;
    pthread_mutex_unlock(&world.mutex);
    return error;
}

/* A row of two texts of which the second is the one, or one; NULL: an error of the server. */
static PGresult *row(const char *text, int fields)
{
    PGresult *result = PQmakeEmptyPGresult(NULL, text ? PGRES_TUPLES_OK : PGRES_FATAL_ERROR);
    char name[] = "a";
    PGresAttDesc columns[2] = { { .name = name }, { .name = name } };
    char *copy = text ? strdup(text) : NULL;
    if (copy) {
        PQsetResultAttrs(result, fields, columns);
        PQsetvalue(result, 0, 0, copy, (int)strlen(copy));
        if (fields == 2)
            PQsetvalue(result, 0, 1, copy, (int)strlen(copy));
    }
    free(copy);
    return result;
}

int weir_ask(struct pg_conn *conn, const char *text, uint64_t deadline_ns, struct pg_result **ret_result)
{
    (void)deadline_ns;
    pthread_mutex_lock(&world.mutex);
    struct fake *fake = fake_of(conn);
    bool broken = conn->sender && fake->sender_breaks;
    if (broken) {
        *ret_result = NULL;
    } else if (conn->sender && strcmp(text, "IDENTIFY_SYSTEM") == 0) {
        fake->timelines++;
        *ret_result = row(fake->timeline, 2);
    } else if (conn->sender) {
        char expected[40];
        snprintf(expected, sizeof expected, "TIMELINE_HISTORY %u", (unsigned)fake->shown.timeline);
        fake->histories++;
        *ret_result = row(strcmp(text, expected) == 0 ? fake->history : NULL, 2);
    } else if (strcmp(text, "clock") == 0) {
        fake->clocks++;
        *ret_result = row(fake->clock, 1);
    } else if (strstr(text, "pg_logical_emit_message")) {
        fake->nudges++;
        *ret_result = row("", 1);
    } else {
        *ret_result = row(fake->number, 1);
    }
    pthread_mutex_unlock(&world.mutex);
    return broken ? WEIR_EIO : 0;
}

int weir_settling_look(struct weir_settling *settling, struct pg_conn *conn, uint64_t deadline_ns, bool *ret_settled)
{
    (void)deadline_ns;
    if (!settling->begun_ns)
        settling->begun_ns = weir_ask_now_ns();
    fake_of(conn)->looks++;
    *ret_settled = fake_of(conn)->settles;
    return fake_of(conn)->settling_error;
}

void weir_settling_end(struct weir_settling *settling)
{
    *settling = (struct weir_settling){ 0 };
}

int weir_branch_table_look(struct pg_conn *conn, const char *table, const struct weir_shown *shown,
                           uint64_t deadline_ns, struct weir_branches *ret_branches, char ret_fault[WEIR_ASK_TEXT_SIZE])
{
    (void)table, (void)shown, (void)deadline_ns;
    struct fake *fake = fake_of(conn);
    fake->tables++;
    *ret_branches = fake->branches;
    if (fake->table_error)
        snprintf(ret_fault, WEIR_ASK_TEXT_SIZE, "no table");
    return fake->table_error;
}

/* ---- what servers show ---- */

static inline struct weir_shown primary(uint32_t timeline, uint64_t run, uint64_t position)
{
    return (struct weir_shown){ .system = SYSTEM,
                                .timeline = timeline,
                                .position = position,
                                .flushed = position,
                                .run = run,
                                .started = run,
                                .primary = true,
                                .settled = true };
}

static inline struct weir_shown standby(uint32_t timeline, uint64_t position)
{
    return (struct weir_shown){ .system = SYSTEM,
                                .timeline = timeline,
                                .position = position,
                                .received = position,
                                .started = 3,
                                .streams = true };
}
