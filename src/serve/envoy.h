/* SPDX-License-Identifier: Apache-2.0
 *
 * Envoy's questions decided by weir's limits: a descriptor is a request whose attributes are its entries, and the
 * domain as the attribute `domain`. All descriptors of a question are admitted, or none is charged; with `envoy: {
 * count_all }` each is decided by itself. gRPC and HTTP ask here alike. */
#pragma once

#include "serve/decide_together.h"
#include "wire/envoy.h"

#define WEIR_ENVOY_REPLACING_MAX (WEIR_ENVOY_DESCRIPTORS_MAX * WEIR_MATCH_REPLACING_MAX)

/* One limit of an answer. */
struct weir_envoy_part {
    const char *name, *level;
    const struct weir_limit_spec *spec;
    struct weir_verdict verdict;
    enum weir_fallback_policy fallback;
    uint32_t slot; /* where it is counted */
};

/* Of one descriptor. */
struct weir_envoy_each {
    uint64_t parts; /* bit i: parts[i] is of it */
    bool met;       /* some limit applies, even if its mode is off */
    bool over;      /* refused without a part that says so: it meets no limit */
    bool overrides; /* it brings its own limit */
    uint64_t hits;  /* 0: it only looks, or gives back */
    struct weir_limit_spec spec;
    struct weir_bucket bucket;
    struct weir_key key;
    uint64_t cost; /* 0: it is only looked at */
};

struct weir_envoy_ask;

/* Descriptors that are decided together, and wait for an engine. */
struct weir_envoy_group {
    struct weir_envoy_ask *ask;
    struct weir_transaction *pending;
    bool heard; /* it has been decided */
    size_t count;
    uint8_t members[WEIR_TOGETHER_MAX];
    struct weir_together each[WEIR_TOGETHER_MAX];
};

/* A question under way. */
struct weir_envoy_ask {
    struct weir_loop *loop;
    size_t count;
    struct weir_envoy_each each[WEIR_ENVOY_DESCRIPTORS_MAX];
    size_t parts_count;
    struct weir_envoy_part parts[WEIR_CHARGES_MAX];

    size_t waiting; /* groups */
    size_t groups_count;
    struct weir_envoy_group *groups; /* of those that wait, on the heap; NULL: none did */
    void (*done)(struct weir_envoy_ask *ask, void *context);
    void *context;
};

/* Of one loop. */
struct weir_envoy_work {
    struct weir_envoy_request request;
    struct weir_attribute attributes[WEIR_ENVOY_ALL_MAX + 2 * WEIR_ENVOY_DESCRIPTORS_MAX];
    char keys[WEIR_ENVOY_DESCRIPTORS_MAX][WEIR_PATTERN_MAX];     /* of each descriptor: "tenant,path" */
    char names[WEIR_ENVOY_ALL_MAX][WEIR_ATTRIBUTE_NAME_MAX + 1]; /* of entries whose key stands there twice */
    struct weir_question questions[WEIR_ENVOY_DESCRIPTORS_MAX];
    struct weir_match scratch;
    size_t replacing_count; /* limits of the question that replace others */
    const struct weir_rule *replacing[WEIR_ENVOY_REPLACING_MAX];
    struct weir_outcome outcome;
    struct weir_together together[WEIR_TOGETHER_MAX];
    struct weir_envoy_ask ask;
    struct weir_told told[WEIR_CHARGES_MAX];
    struct weir_envoy_answer answer;
    char fields[64 << 10]; /* what the headers of `answer` point into */
};

/* Decides work->request. 0, and *ret_later is NULL: work->answer is the answer. Else it comes later: *ret_later is the
 * question, on the heap, and `done` is called once, from within no call of the caller's: weir_envoy_hear has the
 * answer. Errors: those of weir_decide_together; WEIR_EINVAL of an override that no bucket can have. */
int weir_envoy_decide(struct weir_loop *loop, struct weir_envoy_work *work, const struct weir_time *time,
                      void (*done)(struct weir_envoy_ask *ask, void *context), void *context,
                      struct weir_envoy_ask **ret_later, struct weir_fault *ret_fault);

/* The answer of what came later, in work->answer, until weir_envoy_end. An error as weir_limiter_decide. */
int weir_envoy_hear(struct weir_envoy_ask *ask, struct weir_envoy_work *work);

/* Ends what came later; what has not come yet comes to nobody, and what the engine charges for it stays charged. */
void weir_envoy_end(struct weir_envoy_ask *ask);

/* Whether a question gives units back, which takes a right of its own. */
bool weir_envoy_refunds(const struct weir_envoy_request *request);
