/* SPDX-License-Identifier: Apache-2.0
 *
 * A key is looked up in the versions by which nodes decide, so that a ban that could never meet a request is refused
 * when it is made.
 * Called by cli/exceptions.c and serve/exceptions_answer.c. */
#include "rules/exception_edit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/fault_format.h"
#include "base/nearest.h"
#include "rules/literal.h"
#include "weir/limiter.h"
#include "wire/json.h"
#include "wire/text.h"

#define TRIES 3
#define BACK_MAX 100 /* versions for some nodes that are looked through, as a node does (serve/follower_seek.h) */

/* ---- until when ---- */

/* Two digits, at most `most`. */
static bool two_read(const char *text, unsigned most, int64_t *ret_number)
{
    if (text[0] < '0' || text[0] > '9' || text[1] < '0' || text[1] > '9')
        return false;
    *ret_number = 10 * (text[0] - '0') + (text[1] - '0');
    return *ret_number <= (int64_t)most;
}

/* "Z", "+01:00", "-05:30". */
static bool offset_read(const char *text, int64_t *ret_s)
{
    int64_t hours = 0, minutes = 0;
    *ret_s = 0;
    if (strcmp(text, "Z") == 0 || strcmp(text, "z") == 0)
        return true;
    if ((text[0] != '+' && text[0] != '-') || strlen(text) != 6 || text[3] != ':' || !two_read(text + 1, 23, &hours) ||
        !two_read(text + 4, 59, &minutes))
        return false;
    *ret_s = (hours * 3600 + minutes * 60) * (text[0] == '-' ? -1 : 1);
    return true;
}

/* WEIR_EINVAL: it is no time; WEIR_ERANGE: none that nanoseconds since 1970 can tell. */
static int moment_read(const char *text, uint64_t *ret_ns)
{
    struct tm tm = { 0 };
    int64_t offset_s = 0;
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M", &tm);
    if (rest && rest[0] == ':')
        rest = strptime(rest, ":%S", &tm);
    if (!rest || !offset_read(rest, &offset_s))
        return WEIR_EINVAL;
    struct tm day = { .tm_year = tm.tm_year, .tm_mon = tm.tm_mon, .tm_mday = tm.tm_mday };
    (void)timegm(&day); /* makes 1 March of 29 February where there is none */
    if (day.tm_mday != tm.tm_mday)
        return WEIR_EINVAL;
    int64_t at_s = (int64_t)timegm(&tm) - offset_s;
    if (at_s > INT64_MAX / (int64_t)WEIR_NS_PER_SECOND)
        return WEIR_ERANGE;
    *ret_ns = at_s > 0 ? (uint64_t)at_s * WEIR_NS_PER_SECOND : 0;
    return 0;
}

int weir_exception_until(const char *text, uint64_t wall_ns, uint64_t *ret_until_ns, struct weir_fault *ret_fault)
{
    struct weir_fault fault = { 0 };
    uint64_t length_ns = 0;
    int error = moment_read(text, ret_until_ns);
    if (error == WEIR_ERANGE)
        return weir_fault_format(ret_fault, error, "until",
                                 "%.40s is too late: 2262-04-11T23:47:16Z at the latest; without a time it is for good",
                                 text);
    if (!error)
        return *ret_until_ns > wall_ns
                   ? 0
                   : weir_fault_format(ret_fault, WEIR_ERANGE, "until", "%.40s is not in the future", text);
    error = weir_duration_parse(text, &length_ns, &fault);
    if (error == WEIR_EINVAL)
        return weir_fault_format(ret_fault, error, "until",
                                 "\"%.40s\" must be a time such as 2026-11-28T18:00:00Z, or a duration such as 6hour",
                                 text);
    if (error)
        return weir_fault_format(ret_fault, error, "until", "%s", fault.text);
    if (length_ns == 0)
        return weir_fault_format(ret_fault, WEIR_ERANGE, "until", "must be longer than nothing");
    *ret_until_ns = weir_add_sat(wall_ns, length_ns);
    return 0;
}

/* ---- which key ---- */

static int add(struct weir_exception_key *key, struct weir_slice name, struct weir_slice value, unsigned prefix,
               struct weir_fault *ret_fault)
{
    char text[WEIR_LITERAL_TEXT_MAX], absent[WEIR_EXCEPTION_ABSENT_MAX];
    if (value.size == WEIR_VALUE_ABSENT) {
        value = weir_exception_absent(name, absent);
        name.size = 0;
    } else {
        value = weir_literal_canonical(value, prefix, text);
        key->values_size += value.size;
    }
    if (weir_exception_key_add(key->bytes, sizeof(key->bytes), &key->size, name) &&
        weir_exception_key_add(key->bytes, sizeof(key->bytes), &key->size, value))
        return 0;
    return weir_fault_format(ret_fault, WEIR_ERANGE, "key", "must be at most %d bytes with its names",
                             WEIR_EXCEPTION_KEY_MAX);
}

static int wrong_key(const struct weir_config_limit *limit, struct weir_fault *ret_fault)
{
    char names[120] = "";
    size_t size = 0;
    for (size_t i = 0; i < limit->key_count && size < sizeof(names); i++)
        size += (size_t)snprintf(names + size, sizeof(names) - size, "%s%s", i > 0 ? ", " : "", limit->key[i]);
    return weir_fault_format(ret_fault, WEIR_EINVAL, "key", "must be the whole key of limit \"%.40s\": %s", limit->name,
                             limit->key_count > 0 ? names : "it has none, so no attribute is named");
}

static bool lacks(const struct weir_exception_named *named)
{
    for (size_t i = 0; i < named->count; i++)
        if (named->attributes[i].value.size == WEIR_VALUE_ABSENT)
            return true;
    return false;
}

static int key_of(const struct weir_config_limit *limit, const struct weir_exception_named *named,
                  struct weir_exception_key *ret_key, struct weir_fault *ret_fault)
{
    ret_key->size = ret_key->values_size = 0;
    if (named->count != limit->key_count)
        return wrong_key(limit, ret_fault);
    for (size_t i = 0; i < limit->key_count; i++) {
        const struct weir_attribute *attribute = weir_attribute_find(named->attributes, named->count, limit->key[i]);
        if (!attribute)
            return wrong_key(limit, ret_fault);
        int error = add(ret_key, attribute->name, attribute->value, limit->ipv6_prefix, ret_fault);
        if (error)
            return error;
    }
    return 0;
}

/* Of a limit that there is not. */
static int key_as_named(const struct weir_exception_named *named, struct weir_exception_key *ret_key,
                        struct weir_fault *ret_fault)
{
    int error = 0;
    ret_key->size = ret_key->values_size = 0;
    for (size_t i = 0; !error && i < named->count; i++)
        error = add(ret_key, named->attributes[i].name, named->attributes[i].value, 128, ret_fault);
    return error;
}

static const struct weir_config_limit *limit_of(const struct weir_config *config, const char *name)
{
    for (size_t i = 0; i < config->limits_count; i++)
        if (strcmp(config->limits[i].name, name) == 0)
            return &config->limits[i];
    return NULL;
}

static bool has_level(const struct weir_config_limit *limit, const char *level)
{
    for (size_t i = 0; i < limit->overrides_count; i++)
        if (limit->overrides[i].level && strcmp(limit->overrides[i].level, level) == 0)
            return true;
    return false;
}

static int wrong_level(const struct weir_config_limit *limit, const char *level, struct weir_fault *ret_fault)
{
    struct weir_nearest nearest = { .text = level, .size = strlen(level) };
    char names[100] = "";
    size_t size = 0;
    for (size_t i = 0; i < limit->overrides_count; i++) {
        const char *known = limit->overrides[i].level;
        if (!known)
            continue;
        weir_nearest_offer(&nearest, known);
        if (size < sizeof(names))
            size += (size_t)snprintf(names + size, sizeof(names) - size, "%s%s", size > 0 ? ", " : "", known);
    }
    if (nearest.word)
        return weir_fault_format(ret_fault, WEIR_ENOENT, "level",
                                 "must be of limit \"%.32s\", which has no level \"%.32s\"; did you mean \"%s\"?",
                                 limit->name, level, nearest.word);
    return weir_fault_format(ret_fault, WEIR_ENOENT, "level",
                             "must be of limit \"%.40s\", which has no level \"%.32s\"; it has %s", limit->name, level,
                             size > 0 ? names : "none");
}

/* What is asked of the limit, too. */
struct need {
    const char *level; /* it has this; NULL: nothing */
    bool counts;       /* it does not give permits, which are given back, and are no counter that could be fresh */
};

static int key_in(const struct weir_config *config, const struct weir_exception_named *named, const struct need *need,
                  bool lenient, struct weir_exception_key *ret_key, struct weir_fault *ret_fault)
{
    const struct weir_config_limit *limit = limit_of(config, named->limit);
    if (limit && need->level && !has_level(limit, need->level))
        return wrong_level(limit, need->level, ret_fault);
    if (limit && need->counts && limit->spec.algorithm == WEIR_CONCURRENCY)
        return weir_fault_format(
            ret_fault, WEIR_EINVAL, "limit",
            "\"%.60s\" gives permits, which are not reset: they are given back, or their lease ends", limit->name);
    if (limit && need->counts && lacks(named) && limit->missing != WEIR_MISSING_SHARE)
        return weir_fault_format(
            ret_fault, WEIR_EINVAL, "key",
            "must have a value of each attribute: limit \"%.60s\" has no counter for requests that "
            "lack one (missing: share)",
            limit->name);
    if (limit)
        return key_of(limit, named, ret_key, ret_fault);
    return lenient ? key_as_named(named, ret_key, ret_fault)
                   : weir_fault_format(ret_fault, WEIR_ENOENT, "limit",
                                       "must be in the newest version of the rules, which has no limit \"%.60s\"",
                                       named->limit);
}

/* The version *number or the newest before it that nodes decide by. *number becomes that of one before it, by which
 * other nodes may decide; 0: there is none. */
static int version_read(const struct weir_rule_editor *editor, uint64_t *number, struct weir_config **ret_config,
                        struct weir_fault *ret_fault)
{
    struct weir_rule_version version;
    char *text = NULL;
    int error = weir_rule_editor_decided(editor, *number, &version, &text, ret_fault);
    *number = 0;
    if (!error && !text)
        error = weir_fault_format(ret_fault, WEIR_ENOENT, "limit", "there are no rules yet: weir rules apply");
    if (error)
        return error;
    struct weir_config_faults *faults = calloc(1, sizeof(*faults));
    error = faults ? weir_config_with_rules(editor->config, (struct weir_slice){ text, version.text_size }, ret_config,
                                            faults)
                   : WEIR_ENOMEM;
    if (error) {
        error = weir_fault_format(ret_fault, error, "limit", "the newest version of the rules cannot be used: %.120s",
                                  faults ? faults->list[0].text : "out of memory");
    } else {
        *number = (*ret_config)->rule_nodes_count > 0 ? version.number - 1 : 0;
    }
    free(faults);
    free(text);
    return error;
}

static int key_of_version(const struct weir_rule_editor *editor, uint64_t *number,
                          const struct weir_exception_named *named, const struct need *need, bool lenient,
                          struct weir_exception_key *ret_key, struct weir_fault *ret_fault)
{
    struct weir_config *config = NULL;
    int error = version_read(editor, number, &config, ret_fault);
    if (!error)
        error = key_in(config, named, need, lenient && config->rule_nodes_count == 0, ret_key, ret_fault);
    weir_config_destroy(config);
    return error;
}

static int find_key(const struct weir_rule_editor *editor, const struct weir_exception_named *named,
                    const struct need *need, bool lenient, struct weir_exception_key *ret_key,
                    struct weir_fault *ret_fault)
{
    struct weir_rule_head head;
    struct weir_fault before;
    int error = weir_rule_store_head(editor->store, weir_rule_editor_deadline(editor), &head, ret_fault);
    if (error)
        return error;
    uint64_t number = head.number;
    error = key_of_version(editor, &number, named, need, lenient, ret_key, ret_fault);
    for (unsigned back = 0; error && number > 0 && back < BACK_MAX; back++)
        if (key_of_version(editor, &number, named, need, lenient, ret_key, &before) == 0)
            error = 0; /* what the newest one lacks is told, if all do */
    return error;
}

int weir_exception_find_key(const struct weir_rule_editor *editor, const struct weir_exception_named *named,
                            bool lenient, struct weir_exception_key *ret_key, struct weir_fault *ret_fault)
{
    const struct need none = { NULL, false };
    return find_key(editor, named, &none, lenient, ret_key, ret_fault);
}

/* ---- changing ---- */

/* Once it is not known, a store that cannot be asked does not make it known. */
static int except(const struct weir_rule_editor *editor, const struct weir_exception_change *change,
                  uint64_t *ret_number, struct weir_fault *ret_fault)
{
    bool unknown = false;
    int error = WEIR_EUNKNOWN;
    for (int i = 0; i < TRIES && (error == WEIR_EUNKNOWN || (error && unknown)); i++) {
        error = weir_rule_store_except(editor->store, change, weir_rule_editor_deadline(editor), ret_number, ret_fault);
        unknown = unknown || error == WEIR_EUNKNOWN;
    }
    return error && unknown ? WEIR_EUNKNOWN : error;
}

/* One that was made when the limit counted by other attributes, or in another order: as the list of bans shows it. */
static int unban_old(const struct weir_rule_editor *editor, const struct weir_exception_named *named,
                     struct weir_exception_change *change, struct weir_exception_key *key, uint64_t *ret_number)
{
    struct weir_fault fault;
    if (!key || key_as_named(named, key, &fault))
        return WEIR_EINVAL;
    change->key = (struct weir_slice){ key->bytes, key->size };
    return except(editor, change, ret_number, &fault);
}

int weir_exception_put(const struct weir_rule_editor *editor, const struct weir_exception_edit *edit,
                       uint64_t *ret_number, struct weir_fault *ret_fault)
{
    struct weir_exception_change change = { .kind = edit->kind,
                                            .limit = edit->named->limit,
                                            .level = edit->level,
                                            .until_ns = edit->until_ns,
                                            .wall_ns = edit->wall_ns,
                                            .author = edit->author,
                                            .comment = edit->comment };
    const struct need need = { edit->level, edit->kind == WEIR_EXCEPTION_RESET };
    if (weir_rule_change_id(change.change) != 0)
        return weir_fault_format(ret_fault, WEIR_EIO, "", "no random bytes");
    int error = weir_exception_check(&change, ret_fault); /* before the store is asked for its rules */
    struct weir_exception_key *key = error ? NULL : malloc(sizeof(*key));
    if (!error && !key)
        error = weir_fault_format(ret_fault, WEIR_ENOMEM, "", "out of memory");
    if (!error)
        error = find_key(editor, edit->named, &need, edit->kind == WEIR_EXCEPTION_UNBAN, key, ret_fault);
    if (!error && edit->kind != WEIR_EXCEPTION_RESET && lacks(edit->named))
        error = weir_fault_format(ret_fault, WEIR_EINVAL, "key", "%s",
                                  "must have a value of each attribute: a request that lacks one can only be reset");
    if (!error && edit->kind != WEIR_EXCEPTION_UNBAN && key->values_size > WEIR_KEY_BYTES_MAX)
        error = weir_fault_format(ret_fault, WEIR_ERANGE, "key",
                                  "has values of %zu bytes, and no request has more than %d under one key",
                                  key->values_size, WEIR_KEY_BYTES_MAX);
    if (!error) {
        change.key = (struct weir_slice){ key->bytes, key->size };
        error = except(editor, &change, ret_number, ret_fault);
    }
    if (edit->kind == WEIR_EXCEPTION_UNBAN && (error == WEIR_EINVAL || error == WEIR_ENOENT) &&
        unban_old(editor, edit->named, &change, key, ret_number) == 0)
        error = 0;
    free(key);
    return error;
}

/* ---- listing ---- */

static json_t *moment(uint64_t wall_ns)
{
    char when[WEIR_TEXT_UTC_SIZE + 1];
    struct weir_text text = weir_text_init(when, sizeof(when));
    weir_text_utc(&text, wall_ns);
    return json_stringn(when, text.size);
}

/* Any bytes; what is not UTF-8 is shown by U+FFFD. */
static json_t *string_of(struct weir_slice value)
{
    json_t *string = json_stringn(value.data, value.size);
    char *copy = string ? NULL : strndup(value.data, value.size);
    if (copy)
        string = weir_json_text(copy);
    free(copy);
    return string;
}

static json_t *key_json(struct weir_slice key)
{
    json_t *object = json_object();
    struct weir_slice rest = key, name, value;
    while (weir_exception_key_next(&rest, &name) && weir_exception_key_next(&rest, &value)) {
        struct weir_slice absent;
        const bool lacks_one = weir_exception_is_absent(name, value, &absent);
        if (lacks_one)
            name = absent;
        char *text = strndup(name.data, name.size);
        if (text)
            (void)json_object_set_new(object, text, lacks_one ? json_null() : string_of(value));
        free(text);
    }
    return object;
}

static bool take(void *context, const struct weir_exception *exception)
{
    json_t *one;
    if (exception->damaged)
        one = json_pack("{s:I,s:b}", "change", (json_int_t)exception->number, "damaged", true);
    else
        one = json_pack("{s:I,s:s,s:s,s:o,s:o,s:o,s:s,s:s}", "change", (json_int_t)exception->number, "what",
                        weir_exception_kind_name((enum weir_exception_kind)exception->kind), "limit", exception->limit,
                        "key", key_json(exception->key), "until",
                        exception->until_ns > 0 ? moment(exception->until_ns) : json_null(), "when",
                        moment(exception->wall_ns), "author", exception->author, "comment", exception->comment);
    if (one && !exception->damaged && exception->level[0])
        (void)json_object_set_new(one, "level", json_string(exception->level));
    return one && json_array_append_new(context, one) == 0;
}

/* Known levels are of a version by which some node decides. */
static void mark_known(const struct weir_config *config, json_t *list)
{
    json_t *one;
    size_t i;
    json_array_foreach(list, i, one)
    {
        const char *level = json_string_value(json_object_get(one, "level"));
        const struct weir_config_limit *limit = level
                                                    ? limit_of(config, json_string_value(json_object_get(one, "limit")))
                                                    : NULL;
        if (limit && has_level(limit, level))
            (void)json_object_del(one, "unknown");
    }
}

static void mark_all(json_t *list, bool unknown, bool *ret_any)
{
    json_t *one;
    size_t i;
    *ret_any = false;
    json_array_foreach(list, i, one)
    {
        if (!json_object_get(one, "level"))
            continue;
        *ret_any = true;
        if (unknown)
            (void)json_object_set_new(one, "unknown", json_true());
        else
            (void)json_object_del(one, "unknown");
    }
}

/* A level that the rules do not have (any more) does nothing, which is seen here alone. */
static void mark_unknown(const struct weir_rule_editor *editor, json_t *list)
{
    struct weir_rule_head head;
    struct weir_fault ignored = { 0 };
    bool any;
    mark_all(list, true, &any);
    int error = any ? weir_rule_store_head(editor->store, weir_rule_editor_deadline(editor), &head, &ignored) : 0;
    uint64_t number = any && !error ? head.number : 0;
    for (unsigned back = 0; number > 0 && !error && back < BACK_MAX; back++) {
        struct weir_config *config = NULL;
        error = version_read(editor, &number, &config, &ignored);
        if (!error)
            mark_known(config, list);
        weir_config_destroy(config);
    }
    if (error)
        mark_all(list, false, &any);
}

int weir_exception_list(const struct weir_rule_editor *editor, const struct weir_exception_query *query,
                        json_t **ret_list, struct weir_fault *ret_fault)
{
    json_t *list = json_array();
    if (!list)
        return weir_fault_format(ret_fault, WEIR_ENOMEM, "", "out of memory");
    int error = weir_rule_store_exceptions(editor->store, query, weir_rule_editor_deadline(editor), take, list,
                                           ret_fault);
    if (error) {
        json_decref(list);
        return error;
    }
    mark_unknown(editor, list);
    *ret_list = list;
    return 0;
}
