/* SPDX-License-Identifier: Apache-2.0
 *
 * A Redis of an experiment, and a client of it that waits for each answer. */
#pragma once

#include "cli/lab_stand.h"
#include "wire/resp_answer.h"

struct weir_lab_redis {
    const char *name;
    uint16_t port;
    pid_t pid;
};

/* With an append-only file that is written through (`durable`), or without anything on the disk. Answers when it
 * returns. `name` is that of its files; started again under the same name it reads what was there. */
bool weir_lab_redis_start(struct weir_lab_stand *stand, const char *name, bool durable,
                          struct weir_lab_redis *ret_redis);

struct weir_lab_client {
    int fd;
    size_t count;
    struct weir_resp_value values[16]; /* of the last answer; their texts point into data */
    uint8_t data[16384];
};

bool weir_lab_client_open(struct weir_lab_stand *stand, uint16_t port, struct weir_lab_client *ret_client);
void weir_lab_client_close(struct weir_lab_client *client);

/* Sends a command, its words ending with NULL, and waits for the answer, which is NULL when none came. */
const struct weir_resp_value *weir_lab_ask(struct weir_lab_client *client, const char *const *words);
#define WEIR_LAB_ASK(client, ...) weir_lab_ask(client, (const char *const[]){ __VA_ARGS__, NULL })

/* The answer to the last question as a number, given as one or as text; -1 where it was neither. */
int64_t weir_lab_said_number(const struct weir_lab_client *client);
/* Whether it is text that begins so: "OK", an error's first word. */
bool weir_lab_said(const struct weir_lab_client *client, const char *text);
