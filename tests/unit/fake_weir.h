/* SPDX-License-Identifier: Apache-2.0
 *
 * A weir server that does as a test says: one lock without expiry, and a list of things to do instead. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fake_act {
    FAKE_SERVE,   /* as a server would */
    FAKE_DROP,    /* does it, and closes instead of answering */
    FAKE_SILENT,  /* does nothing and never answers */
    FAKE_UNKNOWN, /* does it, and answers -2 */
    FAKE_DENY,    /* 0: held, or not held by this owner; another has it from then on */
    FAKE_SLOW,    /* as a server would, slow_ms later */
    FAKE_PIECES,  /* the answer byte by byte */
    FAKE_ERROR,   /* "-DOWN the store fails" */
    FAKE_FULL,    /* "-LIMIT too many wait" */
    FAKE_GARBAGE, /* no RESP */
    FAKE_ODD,     /* an array that no lock service would send */
    FAKE_OTHER,   /* granted, with another number */
};

#define FAKE_COMMANDS_MAX 256
#define FAKE_CONNECTIONS_MAX 64
#define FAKE_TEXT_MAX 2048

struct fake_weir {
    int listener;
    char address[64];
    const char *server; /* as HELLO names it; "weir" */
    pthread_t accepting;
    pthread_mutex_t mutex; /* of what follows */
    pthread_t talking[FAKE_CONNECTIONS_MAX];
    int fds[FAKE_CONNECTIONS_MAX];
    size_t connections;
    enum fake_act acts[16]; /* of the next commands; then FAKE_SERVE */
    size_t acts_count, acts_at;
    uint64_t lease_ms;
    long slow_ms; /* 300 */
    bool held;
    char owner[256];
    size_t owner_size;
    uint64_t number;
    char commands[FAKE_COMMANDS_MAX][FAKE_TEXT_MAX]; /* their arguments, with blanks between; HELLO is left out */
    size_t commands_count;
    char hello[FAKE_TEXT_MAX]; /* the last */
};

void fake_weir_start(struct fake_weir *fake, uint64_t lease_ms);
void fake_weir_stop(struct fake_weir *fake); /* also when it is stopped already */

/* What to do with the next commands, instead of what was said before. */
void fake_weir_plan(struct fake_weir *fake, const enum fake_act *acts, size_t count);
#define FAKE_PLAN(fake, ...)                                                                                           \
    fake_weir_plan((fake), (const enum fake_act[]){ __VA_ARGS__ },                                                     \
                   sizeof((const enum fake_act[]){ __VA_ARGS__ }) / sizeof(enum fake_act))

/* How many commands of this verb came; and the n-th of all, copied. */
size_t fake_weir_count(struct fake_weir *fake, const char *verb);
void fake_weir_command(struct fake_weir *fake, size_t index, char text[FAKE_TEXT_MAX]);
