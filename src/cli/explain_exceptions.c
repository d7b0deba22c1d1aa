/* SPDX-License-Identifier: Apache-2.0
 *
 * The key is made as nodes and editors make it (rules/exception.h), and the store is asked for its newest change.
 * Called by explain.c, for each limit that the request meets. */
#include "cli/explain_exceptions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plain.h"
#include "modules/module.h"
#include "wire/json.h"
#include "wire/text.h"

static void complain(struct weir_explain_exceptions *exceptions, const char *what)
{
    char plain[WEIR_PLAIN_SIZE(sizeof(((struct weir_fault *)0)->text))];
    fprintf(stderr, "weir: bans and levels cannot be read: %s\n", weir_plain(what, plain, sizeof(plain)));
    weir_explain_exceptions_deinit(exceptions);
}

void weir_explain_exceptions_init(struct weir_explain_exceptions *exceptions, const struct weir_ruleset *ruleset,
                                  const struct weir_cli_attributes *attributes)
{
    const struct weir_config_rules *rules = &ruleset->config->rules;
    const struct weir_rule_store_options options = { .spec = rules->store.data, .table = rules->table };
    const struct weir_module *module;
    struct weir_fault fault = { 0 };
    char lacks[WEIR_MODULE_SAID_SIZE];
    *exceptions = (struct weir_explain_exceptions){ .ruleset = ruleset,
                                                    .attributes = attributes,
                                                    .timeout_ns = rules->timeout_ns,
                                                    .wall_ns = weir_time_read().wall_ns };
    if (rules->store.size == 0 ||
        (strncmp(options.spec, "sqlite:", 7) != 0 && weir_module_load(WEIR_MODULE_POSTGRES, &module, lacks)))
        return; /* without the module there are no rules either, and that was said */
    if (weir_rule_store_open(&options, &exceptions->store, &fault) != 0)
        complain(exceptions, fault.text);
}

void weir_explain_exceptions_deinit(struct weir_explain_exceptions *exceptions)
{
    weir_rule_store_close(exceptions->store);
    exceptions->store = NULL;
}

/* Where an attribute is absent there may be a reset. False: it is too long. */
static bool key_of(const struct weir_explain_exceptions *exceptions, const struct weir_rule *rule,
                   char key[WEIR_EXCEPTION_KEY_MAX], size_t *ret_size)
{
    const struct weir_rules *rules = exceptions->ruleset->rules;
    struct weir_rules_key values;
    char absent[WEIR_EXCEPTION_ABSENT_MAX];
    size_t size = 0;
    weir_rules_key(rules, rule, exceptions->attributes->list, exceptions->attributes->count, &values);
    for (size_t i = 0; i < values.count; i++) {
        const char *text = weir_rules_key_name(rules, rule, i);
        struct weir_slice name = { text, strlen(text) }, value = values.values[i];
        if (value.size == WEIR_VALUE_ABSENT) {
            value = weir_exception_absent(name, absent);
            name.size = 0;
        }
        if (!weir_exception_key_add(key, WEIR_EXCEPTION_KEY_MAX, &size, name) ||
            !weir_exception_key_add(key, WEIR_EXCEPTION_KEY_MAX, &size, value))
            return false;
    }
    *ret_size = size;
    return true;
}

static bool take(void *context, const struct weir_exception *exception)
{
    struct weir_explained_exceptions *all = context;
    struct weir_explained_exception *found = exception->kind == WEIR_EXCEPTION_RESET ? &all->reset : &all->holds;
    if (exception->damaged)
        return false;
    found->kind = exception->kind;
    found->change = exception->number;
    found->wall_ns = exception->wall_ns;
    found->until_ns = exception->until_ns;
    (void)snprintf(found->level, sizeof(found->level), "%s", exception->level);
    (void)snprintf(found->author, sizeof(found->author), "%s", exception->author);
    (void)snprintf(found->comment, sizeof(found->comment), "%s", exception->comment);
    return true;
}

/* The limit's place is the level's. */
static void go_by_level(const struct weir_explain_exceptions *exceptions, struct weir_explanation *explanation,
                        struct weir_explained_exception *exception)
{
    const struct weir_rules *rules = exceptions->ruleset->rules;
    const size_t index = explanation->rule->index;
    exception->idle = true;
    for (size_t i = 0; i < weir_rules_levels(rules, index); i++) {
        struct weir_mark mark;
        const struct weir_rule *level = weir_rules_level_at(rules, index, i, &mark);
        if (strcmp(level->level, exception->level) != 0)
            continue;
        explanation->rule = level;
        explanation->mark = mark;
        explanation->reason = level->whole.mode == WEIR_MODE_OFF ? WEIR_REASON_OFF : WEIR_REASON_APPLIES;
        exception->idle = false;
    }
}

void weir_explain_exception(struct weir_explain_exceptions *exceptions, struct weir_explanation *explanation,
                            struct weir_explained_exceptions *ret_exceptions)
{
    char key[WEIR_EXCEPTION_KEY_MAX];
    size_t size = 0;
    struct weir_fault fault = { 0 };
    const struct weir_rule *rule = explanation->rule;
    const bool met = explanation->reason == WEIR_REASON_APPLIES || explanation->reason == WEIR_REASON_OFF;
    struct weir_explained_exception *holds = &ret_exceptions->holds;
    *ret_exceptions = (struct weir_explained_exceptions){ .reset = { .kind = 0 } };
    if (!exceptions->store || !met || !key_of(exceptions, rule, key, &size))
        return;
    const struct weir_exception_query query = { .newest_first = true,
                                                .holding_at_ns = exceptions->wall_ns,
                                                .limit = rule->name,
                                                .key = { key, size },
                                                .count_max = 2 }; /* a reset lies beside the other */
    int error = weir_rule_store_exceptions(exceptions->store, &query, weir_time_read().now_ns + exceptions->timeout_ns,
                                           take, ret_exceptions, &fault);
    if (error)
        complain(exceptions, fault.text[0] ? fault.text : weir_error_text(error));
    else if (holds->kind == WEIR_EXCEPTION_LEVEL)
        go_by_level(exceptions, explanation, holds);
    else
        holds->idle = holds->kind != WEIR_EXCEPTION_BAN || explanation->reason == WEIR_REASON_OFF ||
                      rule->whole.mode == WEIR_MODE_SHADOW;
    ret_exceptions->reset.idle = explanation->reason == WEIR_REASON_OFF || rule->whole.algorithm == WEIR_CONCURRENCY;
}

static void print_reset(const struct weir_explained_exception *reset, int width)
{
    char when[WEIR_TEXT_UTC_SIZE + 1], plain[WEIR_PLAIN_SIZE(WEIR_RULE_COMMENT_MAX)];
    struct weir_text text = weir_text_init(when, sizeof(when) - 1);
    weir_text_utc(&text, reset->wall_ns);
    when[text.size] = '\0';
    printf("%-*s  reset %s%s (change %" PRIu64 " by %s: ", width, "", when,
           reset->idle ? ", which does nothing: the limit gives permits, or is off" : "", reset->change,
           weir_plain(reset->author, plain, sizeof(plain)));
    printf("%s)\n", weir_plain(reset->comment, plain, sizeof(plain)));
}

void weir_explained_exception_print(const struct weir_explained_exception *exception, int width)
{
    char until[WEIR_TEXT_UTC_SIZE + 1] = "for good", plain[WEIR_PLAIN_SIZE(WEIR_RULE_COMMENT_MAX)];
    struct weir_text text = weir_text_init(until, sizeof(until) - 1);
    const bool level = exception->kind == WEIR_EXCEPTION_LEVEL;
    if (exception->kind == WEIR_EXCEPTION_RESET)
        print_reset(exception, width);
    if (exception->kind == 0 || exception->kind == WEIR_EXCEPTION_RESET)
        return;
    if (exception->until_ns > 0) {
        weir_text_utc(&text, exception->until_ns);
        until[text.size] = '\0';
    }
    printf("%-*s  %s%s %s%s", width, "",
           level                                   ? "level "
           : exception->kind == WEIR_EXCEPTION_BAN ? "BANNED"
                                                   : "?",
           exception->level, exception->until_ns > 0 ? "until " : "", until);
    if (exception->idle)
        printf(", which does nothing%s", level ? ": the limit has no such level" : ": the limit refuses nobody");
    printf(" (change %" PRIu64 " by %s: ", exception->change, weir_plain(exception->author, plain, sizeof(plain)));
    printf("%s)\n", weir_plain(exception->comment, plain, sizeof(plain)));
}

json_t *weir_explained_exception_json(const struct weir_explained_exception *exception)
{
    char until[WEIR_TEXT_UTC_SIZE + 1];
    struct weir_text text = weir_text_init(until, sizeof(until));
    if (exception->kind == 0)
        return json_null();
    const bool reset = exception->kind == WEIR_EXCEPTION_RESET;
    weir_text_utc(&text, reset ? exception->wall_ns : exception->until_ns);
    json_t *object = json_pack(
        "{s:s,s:I,s:o,s:o,s:o,s:b}", "what", weir_exception_kind_name((enum weir_exception_kind)exception->kind),
        "change", (json_int_t)exception->change, reset ? "when" : "until",
        reset || exception->until_ns > 0 ? json_stringn(until, text.size) : json_null(), "author",
        weir_json_text(exception->author), "comment", weir_json_text(exception->comment), "idle", exception->idle);
    if (exception->level[0])
        (void)json_object_set_new(object, "level", json_string(exception->level));
    return object;
}
