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

enum column { LIMIT, RATE, CAPACITY, ALGORITHM, KEY, SHARING, MODE, OVERRIDES, LEVELS, ROLLOUT, COLUMNS };

static const char *const titles[COLUMNS] = { "limit",   "rate", "capacity",  "algorithm", "key",
                                             "sharing", "mode", "overrides", "levels",    "rollout" };

static json_t *key_of(const struct weir_config_limit *limit)
{
    json_t *key = json_array();
    for (size_t i = 0; i < limit->key_count; i++)
        (void)json_array_append_new(key, json_string(limit->key[i]));
    return key;
}

static json_t *levels_of(const struct weir_rules *rules, size_t index)
{
    json_t *levels = json_array();
    for (size_t i = 0; i < weir_rules_levels(rules, index); i++)
        (void)json_array_append_new(levels, json_string(weir_rules_level_at(rules, index, i, NULL)->level));
    return levels;
}

static json_t *row_of(const struct weir_ruleset *ruleset, size_t index)
{
    const struct weir_config_limit *limit = &ruleset->config->limits[index];
    const struct weir_rule *rule = weir_rules_limit(ruleset->rules, index);
    const struct weir_rule *rollout = weir_rules_rollout(ruleset->rules, index);
    char rate[64];
    weir_rate_format(&rule->whole, rate, sizeof(rate));
    return json_pack("{s:s,s:s,s:I,s:s,s:o,s:s,s:s,s:I,s:o,s:o}", titles[LIMIT], limit->name, titles[RATE], rate,
                     titles[CAPACITY], (json_int_t)weir_limit_capacity(&rule->whole), titles[ALGORITHM],
                     weir_algorithm_name(rule->whole.algorithm), titles[KEY], key_of(limit), titles[SHARING],
                     rule->terms.mode ? rule->terms.mode : "none", titles[MODE], weir_mode_words[rule->whole.mode],
                     titles[OVERRIDES], (json_int_t)(limit->overrides_count - limit->levels_count - (rollout ? 1 : 0)),
                     titles[LEVELS], levels_of(ruleset->rules, index), titles[ROLLOUT],
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
        (void)snprintf(buffer, size, column == KEY ? "(one counter)" : "none");
}

/* Levels and rollouts where some limit has them. */
static bool has_column(const json_t *list, enum column column)
{
    size_t i;
    json_t *row;
    if (column != LEVELS && column != ROLLOUT)
        return true;
    json_array_foreach(list, i, row)
    {
        const json_t *value = json_object_get(row, titles[column]);
        if (json_is_object(value) || json_array_size(value) > 0)
            return true;
    }
    return false;
}

static size_t columns_of(const json_t *list, enum column ret_columns[COLUMNS])
{
    size_t count = 0;
    for (unsigned column = 0; column < COLUMNS; column++)
        if (has_column(list, (enum column)column))
            ret_columns[count++] = (enum column)column;
    return count;
}

static void print_cell(const char *cell, size_t width, bool last)
{
    printf("%-*s%s", last ? 0 : (int)width, cell, last ? "\n" : "  ");
}

static void print(const json_t *list)
{
    enum column columns[COLUMNS];
    const size_t count = columns_of(list, columns);
    size_t widths[COLUMNS], i;
    char cell[400];
    json_t *row;
    for (size_t at = 0; at < count; at++)
        widths[at] = strlen(titles[columns[at]]);
    json_array_foreach(list, i, row)
    {
        for (size_t at = 0; at < count; at++) {
            cell_of(row, columns[at], cell, sizeof(cell));
            widths[at] = strlen(cell) > widths[at] ? strlen(cell) : widths[at];
        }
    }
    for (size_t at = 0; at < count; at++)
        print_cell(titles[columns[at]], widths[at], at + 1 == count);
    json_array_foreach(list, i, row)
    {
        for (size_t at = 0; at < count; at++) {
            cell_of(row, columns[at], cell, sizeof(cell));
            print_cell(cell, widths[at], at + 1 == count);
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
