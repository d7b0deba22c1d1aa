/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is refused most: keys by refused requests, and by refused requests that came before the time that the refusal
 * before them had told (observe/retries.h). Each thread counts in sketches of its own (observe/sketch.h) and shows a
 * copy of them; who asks adds up the copies.
 *
 * Windows: counts are of the hour that runs and of the one before it; hours are counted from the start. So what is told
 * is of one hour at least, or of the time since the start, and of two at most.
 *
 * Cost: each thread looks at WEIR_TOP_LOOKS refusals a second and ranking; one of a key that is new costs up to 0.3 us.
 * Of more it looks at one in 2, 4, ... WEIR_TOP_ONE_IN_MAX, drawn at random, and that one counts for as many: 10 to
 * 20 ns for each refusal then (bench/top.c). Counts are estimates: of N of a key, nearly always within
 * 4 sqrt(one_in * N).
 *
 * Bounds: WEIR_TOP_ROOM keys for each thread, ranking and hour; what that means for the counts is in sketch.h. Of what
 * a key is called WEIR_TOP_TEXT_MAX bytes are kept. About 1.4 MB for each thread, as keys arrive.
 *
 * Thread rule: what takes a loop's number only from that loop's thread; weir_top_read from any. Between them is one
 * lock for each thread, which a reader holds for the time of a sum, and for which a thread that counts never waits but
 * in weir_top_configure. */
#pragma once

#include "observe/sketch_sum.h"
#include "weir/limiter.h"

#define WEIR_TOP_ROOM 2048
#define WEIR_TOP_TEXT_MAX 64
#define WEIR_TOP_WINDOW_NS (3600 * WEIR_NS_PER_SECOND)
#define WEIR_TOP_SHOW_NS WEIR_NS_PER_SECOND /* so old what is read may be, if the loop shows as it is told to */
#define WEIR_TOP_READ_MAX 100
#define WEIR_TOP_LOOKS 10000
#define WEIR_TOP_ONE_IN_MAX 256
#define WEIR_TOP_ANY UINT32_MAX

#define WEIR_TOP_BY_LIST(X)                                                                                            \
    X(REFUSED, "refused")                                                                                              \
    X(EARLY, "early")

enum weir_top_by {
#define WEIR_TOP_BY_ENUM(name, text) WEIR_TOP_##name,
    WEIR_TOP_BY_LIST(WEIR_TOP_BY_ENUM)
#undef WEIR_TOP_BY_ENUM
        WEIR_TOP_BYS
};
const char *weir_top_by_name(enum weir_top_by by);

/* How keys are named: they may be of people. */
enum weir_top_keys {
    WEIR_TOP_HASH, /* by a number that means nothing elsewhere */
    WEIR_TOP_TEXT,
    WEIR_TOP_OFF, /* nothing is counted */
    WEIR_TOP_KEYS
};

/* What a key is called: its values one behind the other, each behind a byte with its length. */
struct weir_top_label {
    uint32_t slot; /* of the limit, in the metrics */
    uint8_t count; /* values, at most WEIR_KEY_VALUES_MAX */
    uint8_t size;
    bool known; /* else the rest says nothing */
    bool cut;   /* some value was longer, or there are more */
    uint8_t bytes[WEIR_TOP_TEXT_MAX];
};

/* From the values of a key; one of size WEIR_VALUE_ABSENT is absent. */
void weir_top_label_init(struct weir_top_label *label, const struct weir_slice *values, size_t count);

/* Value number `index` below label->count; size WEIR_VALUE_ABSENT. */
struct weir_slice weir_top_label_value(const struct weir_top_label *label, size_t index);

struct weir_top;

int weir_top_create(size_t loops, uint64_t now_ns, struct weir_top **ret_top); /* WEIR_ENOMEM, WEIR_EIO: no secret */
void weir_top_destroy(struct weir_top *top);                                   /* NULL is allowed */

/* ---- a loop's ---- */

/* How keys are named from now on; a change begins anew. Every loop begins with WEIR_TOP_OFF. */
void weir_top_configure(struct weir_top *top, size_t loop, enum weir_top_keys keys, uint64_t now_ns);

/* Nothing is counted where this says WEIR_TOP_OFF; labels are wanted where it says WEIR_TOP_TEXT. */
enum weir_top_keys weir_top_keys(const struct weir_top *top, size_t loop);

struct weir_top_refusal {
    uint64_t hash; /* of the limit and the key */
    uint32_t slot; /* of the limit */
    uint64_t now_ns, retry_after_ns;
};

/* One of this key is about to be counted: what that needs of memory is fetched meanwhile. */
void weir_top_prefetch(const struct weir_top *top, uint64_t hash);

/* Counts one; not with WEIR_TOP_OFF. Whether the key is new here, and a label is wanted. */
bool weir_top_refused(struct weir_top *top, size_t loop, const struct weir_top_refusal *refusal);
/* Of the key just counted; its slot is known already. */
void weir_top_label(struct weir_top *top, size_t loop, const struct weir_top_label *label);

/* Whether something was counted that is not shown yet, and a copy of it for readers. False: readers are reading, it is
 * not shown. */
bool weir_top_is_unshown(const struct weir_top *top, size_t loop);
bool weir_top_show(struct weir_top *top, size_t loop, uint64_t now_ns);

/* ---- anybody's ---- */

struct weir_top_row {
    uint64_t shown_hash; /* of this process alone: where the key lies in the table is not told */
    uint64_t count, error;
    struct weir_top_label label;
};

/* A key's hash as it is told: of this process alone. */
uint64_t weir_top_shown(const struct weir_top *top, uint64_t hash);

struct weir_top_read {
    uint64_t since_ns;     /* CLOCK_MONOTONIC */
    uint64_t total;        /* refusals, or early retries, of all keys */
    uint64_t unlisted_max; /* no key that is not in the sketches came more often */
    uint32_t one_in;       /* refusals looked at, at the busiest; 1: all, and what sketch.h promises holds */
    size_t count;
    struct weir_top_row rows[WEIR_TOP_READ_MAX];
};

/* The first `rows_max` (at most WEIR_TOP_READ_MAX) of one limit's keys, or of all. WEIR_ENOMEM. */
int weir_top_read(struct weir_top *top, enum weir_top_by by, uint32_t slot, uint64_t now_ns, size_t rows_max,
                  struct weir_top_read *ret_read);
