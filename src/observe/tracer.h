/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes records of decisions (observe/trace.h) from the loops and sends them to a receiver of traces, as OTLP over
 * HTTP.
 *
 * A loop writes a record into a ring of its own, and goes on: it never waits, neither for the receiver nor for a lock.
 * A thread of the tracer's own empties the rings, at most WEIR_TRACER_DELAY_NS after a record came, and sends up to
 * WEIR_TRACER_BATCH of them in one message. It starts when a receiver is first named.
 *
 * Bounds: WEIR_TRACER_RING records wait for each loop; one more is dropped and counted. A message that the receiver
 * cannot take now (no answer, 429, 502, 503, 504) is sent again, with waits that double from WEIR_TRACER_WAIT_MIN_NS to
 * WEIR_TRACER_WAIT_MAX_NS, or as long as Retry-After says, for WEIR_TRACER_GIVE_UP_NS; then its spans are lost, and
 * counted. One that it refuses (any other status but 2xx) is not sent again. At the end the rings are emptied for as
 * long as one message may take, in all.
 *
 * Thread rule: weir_tracer_add and weir_tracer_random from the loop with that number; weir_tracer_view from any thread;
 * all else from the thread that created it. */
#pragma once

#include "net/post.h"
#include "observe/trace.h"

#define WEIR_TRACER_RING 2048
#define WEIR_TRACER_BATCH 512
#define WEIR_TRACER_DELAY_NS UINT64_C(1000000000)
#define WEIR_TRACER_WAIT_MIN_NS UINT64_C(500000000)
#define WEIR_TRACER_WAIT_MAX_NS UINT64_C(8000000000)
#define WEIR_TRACER_GIVE_UP_NS UINT64_C(30000000000)
#define WEIR_TRACER_SERVICE_MAX 127
#define WEIR_TRACER_NODE_MAX 64

/* Where records are sent, and as whose. */
struct weir_tracer_target {
    struct weir_post *post;
    char url[WEIR_POST_URL_MAX + 1];
    char service[WEIR_TRACER_SERVICE_MAX + 1];
    char node[WEIR_TRACER_NODE_MAX + 1]; /* "": one of one */
    uint64_t timeout_ns;
};

/* `node`: NULL where there is one only. Errors of weir_post_open. */
int weir_tracer_target_create(const char *url, const char *service, const char *node, uint64_t timeout_ns,
                              struct weir_tracer_target **ret_target, struct weir_fault *ret_fault);
void weir_tracer_target_destroy(struct weir_tracer_target *target); /* NULL is allowed */

struct weir_tracer;

int weir_tracer_create(size_t loops, struct weir_tracer **ret_tracer); /* WEIR_ENOMEM, WEIR_EIO: no random numbers */
void weir_tracer_destroy(struct weir_tracer *tracer);                  /* NULL is allowed; ends it as finish does */

/* From now on this is the target; it is taken over. The same one again changes nothing. NULL: there is none any more;
 * what was written down is still sent to the one before, for as long as one message may take. */
void weir_tracer_aim(struct weir_tracer *tracer, struct weir_tracer_target *target);

/* Once no loop adds any more: sends what there is, and ends the thread. Returns how many spans were lost in that. */
uint64_t weir_tracer_finish(struct weir_tracer *tracer);

/* ---- a loop's ---- */

uint64_t weir_tracer_random(struct weir_tracer *tracer, size_t loop);
void weir_tracer_add(struct weir_tracer *tracer, size_t loop, const struct weir_trace *trace);

/* ---- reading ---- */

struct weir_tracer_view {
    bool on;           /* there is a target */
    uint64_t sampled;  /* decisions of which there was to be a span */
    uint64_t sent;     /* spans that the receiver took */
    uint64_t full;     /* dropped: the ring was full, or memory was out */
    uint64_t lost;     /* the receiver could not be asked for too long */
    uint64_t refused;  /* by the receiver */
    uint64_t messages; /* sent, again ones included */
    bool failing;      /* the last message did not go; `fault` says why */
    char fault[160];
};
void weir_tracer_view(struct weir_tracer *tracer, struct weir_tracer_view *ret_view);
