/* SPDX-License-Identifier: Apache-2.0
 *
 * The judge of recorded sessions: did each one see what it was promised? The four session guarantees of Terry et al.,
 * "Session Guarantees for Weakly Consistent Replicated Data" (1994), each within one session and for one key:
 *
 *   monotonic reads: a read shows at least what an earlier read showed;
 *   read your writes: a read shows at least what an earlier write made;
 *   writes follow reads: a write comes after what an earlier read showed;
 *   monotonic writes: a write comes after an earlier write.
 *
 * A key's value carries a version: 1 for the first write, each next one greater by one, handed out under the row's
 * lock. "At least" and "after" are said of versions. Across keys nothing is judged.
 *
 * Earlier is what ended before the other started: operations whose times overlap, or touch, are not judged against
 * each other. Every bound of the judge's memory is an error when it is reached, and after an error it judges no more,
 * so that no verdict rests upon a part of a history.
 *
 * Pure: no clock, no memory of its own. Thread rule: plain values. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_JUDGE_OVERLAP_MAX                                                                                         \
    8 /* operations of one session that overlap: of reads or writes of one key, of violations */

enum weir_judge_kind {
    WEIR_JUDGE_READ,    /* showed `version`; 0: there was no row */
    WEIR_JUDGE_WRITE,   /* acknowledged; made `version`, from 1 */
    WEIR_JUDGE_STALE,   /* a read that the policy knew to be too old, and said so: not judged, and expects nothing */
    WEIR_JUDGE_UNKNOWN, /* a write without an answer: it took effect at some time, or never. Not judged, as above */
    WEIR_JUDGE_LOST, /* the session was told that what it had seen is lost. What started before the end of this is void
                           for what ended after the start of this, on every key */
    WEIR_JUDGE_CUT,  /* of no session: a failover; `version` is the key's highest that survived. From before it began
                           until it was over, on the recorder's clock */
    WEIR_JUDGE_KINDS
};

enum weir_guarantee {
    WEIR_MONOTONIC_READS,
    WEIR_READ_YOUR_WRITES,
    WEIR_WRITES_FOLLOW_READS,
    WEIR_MONOTONIC_WRITES,
    WEIR_GUARANTEES
};

struct weir_judge_event {
    enum weir_judge_kind kind;
    uint32_t server;  /* READ, WRITE, STALE: an index of the caller's servers */
    uint64_t session; /* from 1; CUT: 0 */
    uint64_t key;     /* from 1; LOST: 0 */
    uint64_t version;
    uint64_t start_ns, end_ns; /* start_ns <= end_ns, of one clock for all */
    uint64_t id;               /* the caller's, for messages: a line, say */
};

struct weir_judge_violation {
    struct weir_judge_event event;
    unsigned broken;   /* 1 << weir_guarantee, each that it broke */
    uint64_t expected; /* the least version that would have broken none */
    uint64_t earlier;  /* the id of an event that has it expected */
};

struct weir_judge_server {
    uint64_t reads, violated, stale; /* `violated` of `reads`; `stale` besides */
};

struct weir_judge_counts {
    uint64_t reads, writes, stale, unknown, lost, cuts;
    uint64_t
        lost_without_need; /* of `lost`: nothing that the session had seen or written was cut off. Says something only
                                   where cuts are fed */
    uint64_t violated;     /* reads and writes */
    uint64_t broken[WEIR_GUARANTEES];
};

/* What the judge keeps: of a session and a key that it read or wrote, of a session (key 0), of a key that was cut
 * (session 0). The caller makes them all zero. */
struct weir_judge_slot {
    uint64_t session, key; /* both 0: free */
    union {
        struct {
            uint64_t losts;           /* the session's when this was written; later ones make it void */
            struct weir_judge_track { /* of reads, and of writes: */
                uint64_t version, id; /* the highest of those that ended before the last start */
                unsigned count;       /* and those that had not ended then */
                struct weir_judge_open {
                    uint64_t version, id, end_ns;
                } open[WEIR_JUDGE_OVERLAP_MAX];
            } tracks[2];
        } cell;
        struct {
            uint64_t start_ns; /* of its last event */
            uint64_t losts, lost_end_ns;
            bool cut_off;      /* something that it saw or wrote, and it was not told yet */
            unsigned suspects; /* violations, unless it turns out that it was being told LOST meanwhile */
            struct weir_judge_violation suspect[WEIR_JUDGE_OVERLAP_MAX];
        } session;
        struct {
            uint64_t survived, end_ns;
        } cut;
    } u;
};

struct weir_judge {
    struct weir_judge_slot *slots; /* the caller's */
    size_t slot_count;
    struct weir_judge_server *servers; /* the caller's, zero at first */
    uint32_t server_count;
    void (*tell)(void *context, const struct weir_judge_violation *violation); /* NULL: only count */
    void *context;
    struct weir_judge_counts counts;
    uint64_t start_ns; /* the latest that was fed */
    int failed;
    const char *fault; /* what failed, for people; NULL: nothing */
};

/* Slots: one for each session, one for each pair of a session and a key, one for each key that is cut; a few more keep
 * it fast. O(1) per event, but a cut looks at every slot. */
void weir_judge_init(struct weir_judge *judge, struct weir_judge_slot *slots, size_t slot_count,
                     struct weir_judge_server *servers, uint32_t server_count);

/* The next event. A session's come in the order of their starts; where there are cuts, all events do.
 * A violation is told when an event of its session is fed that started after it ended, or by weir_judge_finish.
 *
 * WEIR_ELIMIT: no slot is free, or more than WEIR_JUDGE_OVERLAP_MAX operations of a session overlap.
 * WEIR_EINVAL: not in order, or not an event as described above. After either, `fault` says which, the judge takes no
 * more, and every call returns the same error. */
int weir_judge_feed(struct weir_judge *judge, struct weir_judge_event event);

/* There is no more: tells what is left to tell; then the counts are whole. 0, or the error of before. */
int weir_judge_finish(struct weir_judge *judge);

/* "monotonic reads". */
const char *weir_guarantee_name(enum weir_guarantee guarantee);
