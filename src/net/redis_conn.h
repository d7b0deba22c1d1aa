/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection's commands and replies: calls wait in a queue, are written as late as possible, and are answered in the
 * order in which they were written. A call that was never written can still be taken back, so that what is reported as
 * not sent was not sent.
 *
 * Two queues wait: `urgent` (greetings, scripts, redirected commands' prefixes) and `waiting`, which goes only when the
 * owner has said weir_redis_conn_admit, and as far as its head need not yield.
 *
 * Thread rule: the loop's thread. A call may be answered from within flush, cancel never answers. */
#pragma once

#include <stdbool.h>

#include "net/redis_link.h"
#include "net/redis_reply.h"

#define WEIR_REDIS_STAGED_MAX ((size_t)64 << 10) /* bytes written ahead of the socket; one command more at most */

/* Bytes to be sent. */
struct weir_redis_output {
    char *data;
    size_t begin, end, capacity; /* data[begin..end) is not sent yet */
};

/* One command; false when memory is out (nothing is changed). */
bool weir_redis_output_command(struct weir_redis_output *output, int argc, const char *const *argv,
                               const size_t *sizes);
/* The same of strings. */
bool weir_redis_output_words(struct weir_redis_output *output, int argc, const char *const *argv);

bool weir_redis_output_bytes(struct weir_redis_output *output, const void *data, size_t size);

struct weir_redis_call;

struct weir_redis_queue {
    struct weir_redis_call *first, *last;
    size_t count;
};

/* One command and its reply; embedded in what it is for. */
struct weir_redis_call {
    struct weir_redis_call *next, *prev;
    struct weir_redis_queue *queue; /* where it stands; NULL = nowhere */
    /* Appends its one command; false: it cannot, and is answered as not sent. */
    bool (*write)(struct weir_redis_call *call, struct weir_redis_output *output);
    /* Once: the reply, which is freed afterwards, or NULL if none will come. `sent`: the server may have run it. */
    void (*answered)(struct weir_redis_call *call, const redisReply *reply, bool sent);
    uint64_t end;         /* of its bytes, in all bytes of this connection */
    uint64_t patience_ns; /* unanswered by then (uv_hrtime), the connection is no good */
    bool yields;          /* waits, with all behind it, while the owner `holds` */
};

struct weir_redis_conn_owner {
    void (*opened)(void *context);
    /* Not by weir_redis_conn_close. The owner must close; all calls are still in their queues. */
    void (*broken)(void *context, const char *why);
    bool (*holds)(void *context); /* calls that yield are not to be written now */
    void *context;
};

struct weir_redis_conn {
    struct weir_redis_conn_owner owner;
    struct weir_redis_link *link; /* NULL = closed */
    struct weir_redis_reader reader;
    struct weir_redis_output output;
    struct weir_redis_queue urgent, waiting, sent;
    uint64_t written, taken; /* bytes of this connection: written by us, and taken by the socket */
    uint64_t openings;       /* so far: tells one from the next */
    bool open, admits;
};

/* The texts of `place` stay alive while it is open. WEIR_ENOMEM, WEIR_EIO (errno). */
int weir_redis_conn_open(struct weir_redis_conn *conn, uv_loop_t *loop, const struct weir_redis_place *place,
                         const struct weir_redis_conn_owner *owner);

/* Answers all calls with no reply. May be called from everywhere, also when closed. */
void weir_redis_conn_close(struct weir_redis_conn *conn);
void weir_redis_conn_deinit(struct weir_redis_conn *conn); /* when closed */

void weir_redis_conn_admit(struct weir_redis_conn *conn); /* the greeting is over */

void weir_redis_conn_urgent(struct weir_redis_conn *conn, struct weir_redis_call *call);
void weir_redis_conn_wait(struct weir_redis_conn *conn, struct weir_redis_call *call);
void weir_redis_conn_wait_first(struct weir_redis_conn *conn, struct weir_redis_call *call); /* before all others */

/* Takes a call back; false: it has been written and will be answered. */
bool weir_redis_conn_cancel(struct weir_redis_conn *conn, struct weir_redis_call *call);

/* Writes and sends what it can. `batch_end`, not NULL, is called once after each batch of waiting calls that was
 * written, and may write one call more with weir_redis_conn_write. */
void weir_redis_conn_flush(struct weir_redis_conn *conn, void (*batch_end)(void *context));
void weir_redis_conn_write(struct weir_redis_conn *conn, struct weir_redis_call *call);

bool weir_redis_conn_idle(const struct weir_redis_conn *conn);                     /* nothing waits, nothing is sent */
bool weir_redis_conn_stalled(const struct weir_redis_conn *conn, uint64_t now_ns); /* an answer is long overdue */
