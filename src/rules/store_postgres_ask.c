/* SPDX-License-Identifier: Apache-2.0
 *
 * One question to the server: asked again while what stood in its way passes, believed only where weir could have
 * written what it answers. Called by store_postgres.c and store_postgres_exceptions.c. */
#include <libpq-fe.h>
#include <string.h>

#include "base/fault.h"
#include "base/fault_format.h"
#include "rules/store_postgres.h"

#define TRIES_MAX 4 /* the tables were changed, a deadlock with a stranger */

struct answer {
    const struct weir_rule_question *question;
    uint8_t id[WEIR_RULE_CHANGE_SIZE];
    bool odd; /* what was answered is none of weir's */
};

/* Never refuses what it is given: that would make the outcome unknown. */
static bool take_all(void *context, size_t index, const struct pg_result *result)
{
    struct answer *answer = context;
    if (index == WEIR_RULE_SQL_GUARD)
        answer->odd |= PQntuples(result) != 1 || !weir_rule_row_bytes(result, 0, 0, answer->id, sizeof answer->id);
    else if (index > WEIR_RULE_SQL_GUARD && answer->question->take)
        answer->odd |= !answer->question->take(answer->question->context, index - WEIR_RULE_SQL_GUARD - 1, result);
    return true;
}

/* The next try may do. */
static bool is_passing(struct weir_rule_postgres *postgres, enum weir_pg_outcome outcome)
{
    const char *state = postgres->link.state;
    if (outcome != WEIR_PG_REFUSED)
        return false;
    if (strcmp(state, WEIR_RULE_SQL_GROUND_GONE) == 0 || strcmp(state, "42P01") == 0) {
        weir_pg_link_drop(&postgres->link); /* so that the tables are looked at anew */
        return true;
    }
    return strcmp(state, "40P01") == 0 || strcmp(state, "40001") == 0;
}

int weir_rule_postgres_ask(struct weir_rule_postgres *postgres, const struct weir_rule_question *question,
                           uint64_t deadline_ns, struct weir_fault *ret_fault)
{
    enum weir_pg_outcome outcome = WEIR_PG_UNSENT;
    for (int i = 0; i < TRIES_MAX; i++) {
        struct answer answer = { .question = question };
        int error = weir_rule_postgres_ready(postgres, deadline_ns, ret_fault);
        if (error)
            return error;
        weir_rule_sql_begin(&postgres->text, weir_rule_postgres_timeout_ms(deadline_ns));
        weir_rule_sql_guard(&postgres->text, postgres->named, postgres->store.schema);
        question->write(&postgres->text, postgres->named, question->argument);
        if (postgres->text.failed)
            return weir_fault_set(ret_fault, WEIR_ENOMEM, "", "out of memory");
        outcome = weir_pg_link_run(&postgres->link, postgres->text.data, deadline_ns, take_all, &answer);
        if (outcome == WEIR_PG_DONE && answer.odd)
            return weir_fault_format(ret_fault, WEIR_ECORRUPT, "store", "%.100s: a row is none that weir wrote",
                                     postgres->named);
        if (outcome == WEIR_PG_DONE) {
            memcpy(postgres->id, answer.id, sizeof postgres->id);
            return 0;
        }
        if (!is_passing(postgres, outcome))
            break;
    }
    return weir_rule_postgres_fault(postgres, outcome, question->writes, ret_fault);
}
