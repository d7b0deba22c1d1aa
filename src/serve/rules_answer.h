/* SPDX-License-Identifier: Apache-2.0
 *
 * What /v1/rules asks the store of rules, and what it answers (docs/http.md). Blocks; pure but for the store.
 *
 * Thread rule: any thread; nothing is shared but the store itself, which is opened anew. */
#pragma once

#include "rules/editor.h"
#include "rules/level_name.h"

struct weir_past;    /* observe/past.h */
struct weir_metrics; /* observe/metrics.h */

#define WEIR_RULES_COUNT 20 /* versions in one answer, unless the question says otherwise */
#define WEIR_RULES_COUNT_MAX 100

enum weir_rules_call {
    WEIR_RULES_READ,
    WEIR_RULES_VERSIONS,
    WEIR_RULES_DIFF,
    WEIR_RULES_PUT,
    WEIR_RULES_ROLLBACK,
    WEIR_RULES_APPROVE,
    WEIR_RULES_ROLLOUT,
    WEIR_RULES_REPLAY,
    WEIR_RULES_EXCEPTIONS,
    WEIR_RULES_BAN,
    WEIR_RULES_LEVEL,
    WEIR_RULES_RESET,
    WEIR_RULES_UNBAN,
};

struct weir_rules_question {
    enum weir_rules_call call;
    uint64_t version;       /* READ, and DIFF's second: 0 = the newest; VERSIONS: from it downwards; ROLLBACK, APPROVE:
                               that; EXCEPTIONS: from this change downwards, 0 = the newest; REPLAY: the one by which
                               this node decides */
    uint64_t before;        /* DIFF: the first */
    size_t count;           /* VERSIONS, EXCEPTIONS */
    uint32_t share;         /* ROLLOUT: of the keys (rules/rollout.h) */
    uint64_t expected;      /* PUT, ROLLBACK, ROLLOUT: as weir_rule_edit */
    bool any;               /* with WEIR_RULE_FROM_ANY: that was said; else it must be the first version */
    struct weir_slice text; /* PUT, ROLLOUT, REPLAY; of exceptions the key as JSON, or nothing */
    bool dry_run, propose;
    char limit[WEIR_LIMIT_NAME_MAX + 1]; /* of exceptions; "" = all */
    char level[WEIR_LEVEL_NAME_MAX + 1]; /* LEVEL */
    char until[64];                      /* BAN, LEVEL; "" = for good */
    bool all;                            /* EXCEPTIONS: also those that hold no more */
    uint64_t wall_ns;
    struct weir_past *past; /* REPLAY: of the server, as the metrics */
    struct weir_metrics *metrics;
    char author[WEIR_RULE_AUTHOR_MAX + 1], comment[WEIR_RULE_COMMENT_MAX + 1];
};

struct weir_rules_answer {
    int status;
    const char *type;
    char fields[64]; /* more header fields, each with CRLF */
    uint8_t *body;   /* from malloc; NULL: memory is out */
    size_t size;
};

/* `config` names the store. Once `stop` is true it ends with the question to the store that is under way; and after
 * WEIR_RULES_TIMEOUTS times rules.timeout in any case. */
#define WEIR_RULES_TIMEOUTS 10
void weir_rules_answer(const struct weir_config *config, const struct weir_rules_question *question,
                       const atomic_bool *stop, struct weir_rules_answer *ret_answer);
