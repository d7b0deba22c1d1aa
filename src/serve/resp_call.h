/* SPDX-License-Identifier: Apache-2.0
 *
 * What the RESP commands share: a connection's session, a loop's working memory, and the call of one command. */
#pragma once

#include "serve/conn.h"
#include "serve/decide.h"
#include "serve/permit.h"
#include "wire/resp.h"

#define WEIR_RESP_BATCH 64       /* CL.THROTTLE commands decided together; more adds nothing */
#define WEIR_RESP_QUEUE_MAX 1024 /* commands between MULTI and EXEC */
#define WEIR_RESP_QUEUE_BYTES_MAX ((size_t)256 << 10)
#define WEIR_RESP_NAME_MAX 64 /* CLIENT SETNAME */

/* Commands between MULTI and EXEC: per command its count of arguments, per argument its size and its bytes. */
struct weir_resp_queue {
    uint8_t *bytes;
    size_t size, capacity;
    size_t count;
};

/* An answer that must not go yet: it is being decided, or others before it are. */
struct weir_resp_later;

#define WEIR_RESP_LATER_MAX 256 /* of one connection; the next command is not taken before one of them has gone */

/* Of one connection. */
struct weir_resp_session {
    struct weir_resp_progress progress;
    uint64_t id;
    bool resp3;
    bool queueing;     /* MULTI has been said */
    bool queue_failed; /* a command could not be queued: EXEC will refuse */
    struct weir_resp_queue queue;
    struct weir_resp_queue exec; /* being run by EXEC */
    size_t exec_at, exec_left;   /* where, and how many commands are left */
    struct weir_resp_later *later_first, *later_last;
    size_t later_count;
    size_t later_locks;    /* of them: lock commands under way */
    size_t later_acquires; /* of those: WEIR.LOCK */
    char name[WEIR_RESP_NAME_MAX];
};

/* The last parameters of CL.THROTTLE, compiled: clients repeat themselves, and compiling divides. */
struct weir_resp_compiled {
    int64_t max_burst, count, period_s;
    struct weir_bucket bucket; /* burst 0: nothing yet */
};

/* How the last parameters were written ("15\r\n$2\r\n30\r\n$2\r\n60"): the same bytes mean the same bucket, without
 * reading a number. size 0: none. */
struct weir_resp_recent {
    size_t size;
    uint8_t text[48];
    struct weir_bucket bucket;
};

struct weir_resp_batch {
    size_t count;
    struct weir_bucket buckets[WEIR_RESP_BATCH];
    struct weir_key keys[WEIR_RESP_BATCH];
    struct weir_slice texts[WEIR_RESP_BATCH]; /* of the keys, in the input: a batch ends with it */
    uint64_t costs[WEIR_RESP_BATCH];
    struct weir_verdict verdicts[WEIR_RESP_BATCH];
};

#define WEIR_RESP_COMPILED 64

/* Of one loop. */
struct weir_resp_work {
    struct weir_resp_command command;
    struct weir_resp_batch batch;
    struct weir_resp_compiled compiled[WEIR_RESP_COMPILED];
    struct weir_resp_recent recent;
    struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
    struct weir_outcome outcome;
    struct weir_permit_told permit;
};

/* One command being run. */
struct weir_resp_call {
    struct weir_conn *conn;
    struct weir_resp_session *session;
    struct weir_resp_work *work;
    const struct weir_slice *args; /* args[0] is the command's name */
    size_t count;
    const struct weir_time *time;
    bool in_exec; /* other answers belong to the same array: nothing of it waits for other clients, or is held */
};

/* ---- answers ---- */

void weir_resp_reply_simple(const struct weir_resp_call *call, const char *text);
void weir_resp_reply_error(const struct weir_resp_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* cut to 256 bytes */
void weir_resp_reply_integer(const struct weir_resp_call *call, int64_t value);
void weir_resp_reply_bulk(const struct weir_resp_call *call, const void *data, size_t size);
void weir_resp_reply_text(const struct weir_resp_call *call, const char *text); /* a bulk string */
void weir_resp_reply_array(const struct weir_resp_call *call, size_t count);
void weir_resp_reply_map(const struct weir_resp_call *call, size_t pairs);
void weir_resp_reply_null(const struct weir_resp_call *call);

/* What a client sent, cut and made fit to be shown: no byte of it may move a reader's cursor or break its decoder. */
struct weir_resp_shown {
    char text[65];
};
const char *weir_resp_show(struct weir_slice text, struct weir_resp_shown *ret_shown);

/* "ERR FIELD TEXT" of a fault, or the error's own text where it has none. */
void weir_resp_reply_fault(const struct weir_resp_call *call, int error, const struct weir_fault *fault);

/* ---- commands: resp_throttle.c, resp_check.c, resp_locks.c, resp_session.c ---- */

/* Joins the batch; its answer comes with weir_resp_batch_flush, which every other answer must wait for. */
void weir_resp_throttle(const struct weir_resp_call *call);
void weir_resp_batch_flush(const struct weir_resp_call *call);
void weir_resp_del(const struct weir_resp_call *call);
void weir_resp_reply_throttle(const struct weir_resp_call *call, const struct weir_verdict *verdict);

/* The same where the counters are at the engine: resp_cell.c. True: the answer comes later. */
bool weir_resp_cell_is_shared(const struct weir_resp_call *call);
bool weir_resp_cell_throttle(const struct weir_resp_call *call, const struct weir_limit_spec *spec, uint64_t quantity);
bool weir_resp_cell_del(const struct weir_resp_call *call);
struct weir_transaction;
void weir_resp_reply_cell(const struct weir_resp_call *call, const struct weir_transaction *pending);

void weir_resp_check(const struct weir_resp_call *call);
void weir_resp_peek(const struct weir_resp_call *call);
void weir_resp_refund(const struct weir_resp_call *call);
void weir_resp_release(const struct weir_resp_call *call);
void weir_resp_renew(const struct weir_resp_call *call);

void weir_resp_reserve(const struct weir_resp_call *call);
void weir_resp_settle(const struct weir_resp_call *call);
void weir_resp_extend(const struct weir_resp_call *call);

void weir_resp_lock(const struct weir_resp_call *call);
void weir_resp_relock(const struct weir_resp_call *call);
void weir_resp_unlock(const struct weir_resp_call *call);
void weir_resp_locks(const struct weir_resp_call *call);

void weir_resp_ping(const struct weir_resp_call *call);
void weir_resp_echo(const struct weir_resp_call *call);
void weir_resp_hello(const struct weir_resp_call *call);
void weir_resp_auth(const struct weir_resp_call *call);
void weir_resp_select(const struct weir_resp_call *call);
void weir_resp_client(const struct weir_resp_call *call);
void weir_resp_command_info(const struct weir_resp_call *call);
void weir_resp_config(const struct weir_resp_call *call);
void weir_resp_info(const struct weir_resp_call *call);
void weir_resp_quit(const struct weir_resp_call *call);
void weir_resp_reset(const struct weir_resp_call *call);

/* ---- answers that come later: resp_later.c ---- */

struct weir_transaction;
struct weir_lock_ask;
struct weir_lock_wish;

/* The answer of this call comes when `pending` is done. */
void weir_resp_later_transaction(const struct weir_resp_call *call, struct weir_transaction *pending);
/* Asks the manager of locks; the answer of this call comes when that has answered. Errors: as weir_lock_ask_create,
 * and then the caller answers. */
int weir_resp_later_lock(const struct weir_resp_call *call, const struct weir_lock_wish *wish);
/* Whether a lock command may be under way together with those before it. Those that acquire may, unless one of them may
 * have to wait for other clients: what came later would be done first (but more for the same name queue up behind it).
 * Others wait until what was to be acquired before them is. */
bool weir_resp_later_takes_lock(const struct weir_resp_call *call, bool acquires);
void weir_resp_reply_lock(const struct weir_resp_call *call, const struct weir_lock_ask *ask); /* resp_locks.c */
/* The answer has been written, to a connection that had `pending_before` bytes to send: where others must go before it,
 * it is taken back until then. `waiter`: it is held, too (hold.h); NULL. */
void weir_resp_later_written(const struct weir_resp_call *call, size_t pending_before, struct weir_hold_waiter *waiter);
/* Writes what may go now. */
void weir_resp_later_flush(struct weir_conn *conn);
void weir_resp_later_drop(struct weir_conn *conn); /* the connection ends */

/* What a check's or a refund's outcome looks like. */
void weir_resp_reply_outcome(const struct weir_resp_call *call, const struct weir_outcome *outcome);
void weir_resp_reply_refunds(const struct weir_resp_call *call, const struct weir_match *match, const uint64_t *units);

/* ---- as weir_protocol's: resp_hand.c ---- */

bool weir_resp_hand(struct weir_conn *conn, uint8_t **ret_state, size_t *ret_size);
int weir_resp_take(struct weir_conn *conn, const uint8_t *state, size_t size);

/* ---- running ---- */

/* Runs or queues a command: finds it, checks its arguments' number and the caller's rights. False: not now, answers of
 * commands before it have yet to come (weir_conn_gate). */
bool weir_resp_run(const struct weir_resp_call *call);

/* ---- MULTI: resp_queue.c ---- */

void weir_resp_multi(const struct weir_resp_call *call);
void weir_resp_exec(const struct weir_resp_call *call);
void weir_resp_discard(const struct weir_resp_call *call);
void weir_resp_queue_add(const struct weir_resp_call *call);
void weir_resp_queue_fail(struct weir_resp_session *session);
void weir_resp_queue_reset(struct weir_resp_session *session);
bool weir_resp_exec_go_on(const struct weir_resp_call *call); /* false: a command of EXEC is not to be run yet */
void weir_resp_exec_drop(struct weir_resp_session *session);
