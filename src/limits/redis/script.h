/* SPDX-License-Identifier: Apache-2.0
 *
 * The redis engine's arithmetic: one Lua script that decides inside the server, in one atomic step on its clock, and
 * the codec of its arguments and its reply. Pure: no sockets, no clock; the client (redis.h) carries the bytes.
 *
 *     weir_script_call_init(&call, request, "weir", now_ns); the server's, by weir_script_clock_guess
 *     weir_script_call_add(&call, i);                        each op of the request whose key lies in this slot
 *     do {
 *         weir_script_call_encode(&call, sha1);              send call.argv: EVALSHA …
 *         error = weir_script_call_decode(&call, bytes, size);    the reply, one bulk string
 *     } while (error == WEIR_EAGAIN);                        nothing was charged; the codec bounds the rounds itself
 *     weir_script_call_deinit(&call);
 *     weir_script_finish(request);                           when all slots have answered
 *
 * What it does: the script and core/limit do the same arithmetic. The script answers with each key's state before the
 * decision, its time and its yes or no; decode computes the verdict's numbers with core/limit itself, and a yes that
 * is not core/limit's is WEIR_ECORRUPT. What is rare (a limit that was changed since the key was written, a node's ask)
 * takes two rounds: the first brings the state, core computes, the second writes it if nobody was faster.
 *
 * Requests over several slots: one call per slot, each with the request's id. A slot whose call charged while another
 * refused gets weir_script_call_roll_back: it refunds once, however often it comes, and a charge that comes after it
 * (from a connection that was slow) is refused.
 *
 * Every key has an expiry, set in the same step: no kill leaves an immortal key. The keys of a call lie in one slot:
 * PREFIX:{tag}:NAME:ID, PREFIX:{tag}:request:ID.
 *
 * Thread rule: one call belongs to one thread. */
#pragma once

#include "limits/remote.h"

/* The script's text, for SCRIPT LOAD, and its SHA1 in hex. It refuses request->test_now_ns; the text in which the line
 * "local TEST = false" says true takes it. */
extern const char weir_script_text[];
extern const size_t weir_script_text_size;
extern const char weir_script_sha1[41];

#define WEIR_SCRIPT_PREFIX_MAX 64
#define WEIR_SCRIPT_ROUNDS_MAX 32 /* then WEIR_EBUSY: nothing was charged */
#define WEIR_SCRIPT_ARGS_MAX (3 + WEIR_CHARGES_MAX + 1 + 1)
#define WEIR_SCRIPT_REQUEST_TTL_MS 60000 /* how long the server remembers a request id */

/* What a call remembers of one op from round to round. */
struct weir_script_op {
    size_t index;      /* of the request's ops */
    uint32_t revision; /* that its value is to say */
    uint8_t seen[40];  /* names the value that core saw, */
    size_t seen_size;  /* if there was one (else 0), */
    uint8_t *written;  /* and what is to be written in its place; NULL: nothing */
    size_t written_size;
    uint64_t ttl_ms;                 /* of it */
    struct weir_share_answer answer; /* ASK: true once `written` is; as are, whatever they are of: */
    struct weir_verdict verdict;
    uint64_t units;
    struct weir_verdict judged; /* DECIDE: as it would stand, were it not charged */
};

struct weir_script_call {
    struct weir_remote_request *request;
    const char *prefix; /* the caller's, stays alive */
    uint64_t id[2];     /* the request's id; zeros (init): the charge is not remembered */
    bool again;         /* the charge was found done before: the numbers are as of now */
    uint64_t now_ns;    /* the server's time, ns since 1970: a guess by which windows are chosen, then its own word */
    uint64_t heard_ns;  /* the server's time in the reply that was decoded last; 0: none was */
    size_t count;
    unsigned rounds;
    bool whole, charges; /* what is to be written makes the request done, and charged */
    bool answered, gives_back;

    /* What to send; valid until the next encode, roll_back or deinit. */
    int argc;
    const char *argv[WEIR_SCRIPT_ARGS_MAX];
    size_t sizes[WEIR_SCRIPT_ARGS_MAX];
    char *memory;

    /* Last, and touched only as far as ops are added: who keeps many calls may give them no more room than that. */
    struct weir_script_op ops[WEIR_CHARGES_MAX];
};

/* WEIR_EDUP: two DECIDE ops on one key. WEIR_ERANGE: no op, too many, or a cost above WEIR_COST_MAX. */
int weir_script_check(const struct weir_remote_request *request);

/* ret_key has room for WEIR_SCRIPT_KEY_MAX bytes; returns how many are used (no NUL). The cluster slot is that of what
 * lies between the braces: the tag in 16 hex digits. */
#define WEIR_SCRIPT_KEY_MAX (WEIR_SCRIPT_PREFIX_MAX + 16 + WEIR_LIMIT_NAME_MAX + 32 + 8)
size_t weir_script_key(const char *prefix, const struct weir_remote_op *op, char *ret_key);

void weir_script_call_init(struct weir_script_call *call, struct weir_remote_request *request, const char *prefix,
                           uint64_t now_ns);
void weir_script_call_add(struct weir_script_call *call, size_t index);
void weir_script_call_deinit(struct weir_script_call *call);

/* Fills argc, argv and sizes; `sha1` is 40 hex digits and stays alive. WEIR_ENOMEM. */
int weir_script_call_encode(struct weir_script_call *call, const char *sha1);

/* Takes the reply. 0: the ops of this call are filled (verdict; units given back; answer), as is
 * request->engine_now_ns. WEIR_EAGAIN: encode and send again, nothing was charged. WEIR_EBUSY: too many rounds.
 * WEIR_ECORRUPT: a value that is not ours (it was left as it is, nothing was charged), or a reply that cannot be.
 * WEIR_EUNKNOWN: the request had been given back before it came. WEIR_ENOMEM. */
int weir_script_call_decode(struct weir_script_call *call, const void *reply, size_t size);
/* After WEIR_EAGAIN: a round was answered now. Moves the request's deadline as it allows (remote.h). */
void weir_script_call_next_round(const struct weir_script_call *call, uint64_t now_ns);

/* What is known of the server's clock; all zero: nothing yet. Calls begin with its guess. A guess that lies in another
 * window than the server costs the call a second round, which may come too late: so each reply tells the time, that of
 * a first round too. */
struct weir_script_clock {
    uint64_t told_ns, at_ns; /* what it showed, and when on the caller's own clock */
};
/* `now_ns` of the caller's own clock, which never steps; `wall_ns` until a reply has told. */
uint64_t weir_script_clock_guess(const struct weir_script_clock *clock, uint64_t now_ns, uint64_t wall_ns);
/* A reply to the call was decoded now, whatever it said. */
void weir_script_clock_hear(struct weir_script_clock *clock, const struct weir_script_call *call, uint64_t now_ns);

/* Whether the ops of this DECIDE call, which decode said 0 to, admit (shadow and off aside). */
bool weir_script_call_admits(const struct weir_script_call *call);

/* A DECIDE call with an id: gives back what it charged, or, should it come later, forbids it. Fills argc as encode
 * does, and needs neither the request nor its ops afterwards, so the call may be kept and sent until a reply comes.
 * The verdicts become those from before the charge. Limits that count attempts keep what was charged unless `never`
 * (the refusing slot says a wait without end). */
int weir_script_call_roll_back(struct weir_script_call *call, const char *sha1, bool never);

/* Fills request->decision from the verdicts of all ops (DECIDE and PEEK), as limits/combine.h says. */
void weir_script_finish(struct weir_remote_request *request);
