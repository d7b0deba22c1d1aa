/* SPDX-License-Identifier: Apache-2.0
 *
 * `weir rules list`: the limits of a version, a line each, as they would decide (stored.c compiles them). Called by
 * versions_verbs.c. What a request would meet is said by explain.c. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/limit_text.h"
#include "cli/plain.h"
#include "cli/stored.h"
#include "cli/verbs.h"
#include "cli/versions.h"
#include "rules/limit_decode.h"
#include "rules/sharing_decode.h"

enum column { LIMIT, RATE, CAPACITY, ALGORITHM, KEY, SHARING, MODE, OVERRIDES, ROLLOUT, COLUMNS };

static const char *const titles[COLUMNS] = { "limit",   "rate", "capacity",  "algorithm", "key",
                                             "sharing", "mode", "overrides", "rollout" };

static json_t *key_of(const struct weir_config_limit *limit)
{
    json_t *key = json_array();
    for (size_t i = 0; i < limit->key_count; i++)
        (void)json_array_append_new(key, json_string(limit->key[i]));
    return key;
}

static json_t *row_of(const struct weir_ruleset *ruleset, size_t index)
{
    const struct weir_config_limit *limit = &ruleset->config->limits[index];
    const struct weir_rule *rule = weir_rules_limit(ruleset->rules, index);
    const struct weir_rule *rollout = weir_rules_rollout(ruleset->rules, index);
    char rate[64];
    weir_rate_format(&rule->whole, rate, sizeof(rate));
    return json_pack("{s:s,s:s,s:I,s:s,s:o,s:s,s:s,s:I,s:o}", titles[LIMIT], limit->name, titles[RATE], rate,
                     titles[CAPACITY], (json_int_t)weir_limit_capacity(&rule->whole), titles[ALGORITHM],
                     weir_algorithm_name(rule->whole.algorithm), titles[KEY], key_of(limit), titles[SHARING],
                     rule->terms.mode ? rule->terms.mode : "none", titles[MODE], weir_mode_words[rule->whole.mode],
                     titles[OVERRIDES], (json_int_t)(limit->overrides_count - (rollout ? 1 : 0)), titles[ROLLOUT],
                     rollout ? weir_rollout_json(rollout) : json_null());
}

/* Cut to fit. */
static void cell_of(const json_t *row, enum column column, char *buffer, size_t size)
{
    const json_t *value = json_object_get(row, titles[column]), *part;
    size_t i, at = 0;
    buffer[0] = '\0';
    if (json_is_integer(value))
        (void)snprintf(buffer, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_string(value))
        (void)snprintf(buffer, size, "%s", json_string_value(value));
    json_array_foreach(value, i, part)
    {
        if (at < size)
            at += (size_t)snprintf(buffer + at, size - at, "%s%s", i > 0 ? "," : "", json_string_value(part));
    }
    if (json_is_object(value)) /* of a rollout */
        (void)snprintf(buffer, size, "%.4g %%: %s", json_number_value(json_object_get(value, "percent")),
                       json_string_value(json_object_get(value, "rate")));
    else if (json_is_null(value))
        (void)snprintf(buffer, size, "none");
    if (json_is_array(value) && !buffer[0])
        (void)snprintf(buffer, size, "(one counter)");
}

/* Without the last column where no limit has a rollout. */
static unsigned columns_of(const json_t *list)
{
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row)
    {
        if (json_is_object(json_object_get(row, titles[ROLLOUT])))
            return COLUMNS;
    }
    return ROLLOUT;
}

static void print(const json_t *list)
{
    const unsigned columns = columns_of(list);
    size_t widths[COLUMNS], i;
    char cell[400];
    json_t *row;
    for (unsigned column = 0; column < columns; column++)
        widths[column] = strlen(titles[column]);
    json_array_foreach(list, i, row)
    {
        for (unsigned column = 0; column < columns; column++) {
            cell_of(row, (enum column)column, cell, sizeof(cell));
            widths[column] = strlen(cell) > widths[column] ? strlen(cell) : widths[column];
        }
    }
    for (unsigned column = 0; column < columns; column++)
        printf("%-*s%s", column + 1 < columns ? (int)widths[column] : 0, titles[column],
               column + 1 < columns ? "  " : "\n");
    json_array_foreach(list, i, row)
    {
        for (unsigned column = 0; column < columns; column++) {
            cell_of(row, (enum column)column, cell, sizeof(cell));
            printf("%-*s%s", column + 1 < columns ? (int)widths[column] : 0, cell, column + 1 < columns ? "  " : "\n");
        }
    }
}

static bool list_of(const struct weir_ruleset *ruleset, bool json)
{
    json_t *list = json_array();
    for (size_t i = 0; i < weir_rules_count(ruleset->rules); i++)
        (void)json_array_append_new(list, row_of(ruleset, i));
    bool done = list && json_array_size(list) == weir_rules_count(ruleset->rules);
    if (done && json) {
        (void)json_dumpf(list, stdout, JSON_COMPACT);
        putchar('\n');
    } else if (done) {
        done = weir_plain_json(list);
        if (done)
            print(list);
    }
    json_decref(list);
    return done;
}

int weir_versions_list(const struct weir_versions *versions, uint64_t number)
{
    struct weir_ruleset ruleset = { 0 };
    struct weir_stored stored;
    struct weir_config_faults *faults = calloc(1, sizeof(*faults));
    char text[1024], plain[WEIR_PLAIN_SIZE(sizeof(text))];
    int error = faults ? weir_stored_ruleset(versions->config_file, NULL, number, &ruleset, faults, &stored)
                       : WEIR_ENOMEM;
    bool done = !error && !stored.untold[0];
    if (error && faults) {
        weir_config_fault_format(&faults->list[0], stored.name[0] ? stored.name : versions->config_file, text,
                                 sizeof(text));
        fprintf(stderr, "%s\n", weir_plain(text, plain, sizeof(plain)));
    } else if (!done && faults) {
        fprintf(stderr, "weir: %s\n", weir_plain(stored.untold, plain, sizeof(plain)));
    }
    if (done)
        done = list_of(&ruleset, versions->json);
    weir_ruleset_deinit(&ruleset);
    free(faults);
    return done ? WEIR_EXIT_OK : WEIR_EXIT_ERROR;
}
