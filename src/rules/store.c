/* SPDX-License-Identifier: Apache-2.0
 *
 * What both stores have in common: the spec says which one it is, arguments are checked before anything is asked, and a
 * deadline that has passed asks nothing. Lists are gathered whole before the first row is handed on. Called by the
 * server's and the program's halves that know what a version is for; the stores are behind store_inside.h. */
#include "rules/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fault.h"
#include "base/fault_format.h"
#include "rules/store_inside.h"

#define MS UINT64_C(1000000)
#define POLL_MIN_NS (10 * MS)
#define POLL_MAX_NS (60000 * MS)
#define POLL_SQLITE_NS (50 * MS)
#define POLL_POSTGRES_NS (1000 * MS)
#define FAILED_NS (1000 * MS) /* after a look that failed, where a usual one would be later */

static int late(struct weir_fault *ret_fault)
{
    return weir_fault_set(ret_fault, WEIR_EDOWN, "deadline", "has passed: nothing was asked");
}

/* ---- opening ---- */

/* What follows the scheme; NULL: another one. */
static const char *behind(const char *spec, const char *scheme)
{
    size_t size = strlen(scheme);
    return strncmp(spec, scheme, size) == 0 ? spec + size : NULL;
}

int weir_rule_store_open(const struct weir_rule_store_options *options, struct weir_rule_store **ret_store,
                         struct weir_fault *ret_fault)
{
    const char *spec = options->spec ? options->spec : "", *path = behind(spec, "sqlite:");
    struct weir_rule_store *store = NULL;
    uint64_t usual_ns = path ? POLL_SQLITE_NS : POLL_POSTGRES_NS;
    if (options->poll_ns != 0 && (options->poll_ns < POLL_MIN_NS || options->poll_ns > POLL_MAX_NS))
        return weir_fault_set(ret_fault, WEIR_ERANGE, "poll_ns", "must be 10ms to 60s");
    if (!path && !behind(spec, "postgresql://") && !behind(spec, "postgres://"))
        return weir_fault_set(ret_fault, WEIR_EINVAL, "spec", "must be sqlite:PATH or postgresql://HOST/DATABASE");
    int error = path ? weir_rule_sqlite_open(path, &store, ret_fault)
                     : weir_rule_postgres_open(spec, options->table, &store, ret_fault);
    if (error)
        return error;
    store->create = options->create;
    store->poll_ns = options->poll_ns ? options->poll_ns : usual_ns;
    store->schema = WEIR_RULE_SCHEMA;
    store->steps = NULL; /* there is one schema */
    store->exceptions_max = WEIR_EXCEPTIONS_MAX;
    store->changes_max = WEIR_EXCEPTION_CHANGES_MAX;
    *ret_store = store;
    return 0;
}

void weir_rule_store_close(struct weir_rule_store *store)
{
    if (store)
        store->ops->close(store);
}

const char *weir_rule_store_name(const struct weir_rule_store *store)
{
    return store->name;
}

/* ---- versions ---- */

int weir_rule_store_head(struct weir_rule_store *store, uint64_t deadline_ns, struct weir_rule_head *ret_head,
                         struct weir_fault *ret_fault)
{
    if (weir_rule_now_ns() >= deadline_ns)
        return late(ret_fault);
    int error = store->ops->head(store, deadline_ns, ret_head, ret_fault);
    uint64_t next_ns = error ? weir_min_u64(store->poll_ns, FAILED_NS) : store->poll_ns;
    store->look_ns = weir_add_sat(weir_rule_now_ns(), next_ns);
    return error;
}

/* The text must be what its checksum says. */
int weir_rule_store_read(struct weir_rule_store *store, uint64_t number, uint64_t deadline_ns,
                         struct weir_rule_version *ret_version, char **ret_text, struct weir_fault *ret_fault)
{
    struct weir_rule_version version;
    uint8_t checksum[WEIR_RULE_CHECKSUM_SIZE];
    char *text = NULL;
    if (number < 1 || number > WEIR_RULE_VERSIONS_MAX)
        return weir_fault_format(ret_fault, WEIR_ENOENT, "version", "there is no version %llu",
                                 (unsigned long long)number);
    if (weir_rule_now_ns() >= deadline_ns)
        return late(ret_fault);
    int error = store->ops->read(store, number, deadline_ns, &version, &text, ret_fault);
    if (error)
        return error;
    error = weir_rule_checksum((struct weir_slice){ text, version.text_size }, checksum);
    if (!error && memcmp(checksum, version.checksum, sizeof checksum) != 0)
        error = weir_fault_format(ret_fault, WEIR_ECORRUPT, "version", "the text of version %llu is damaged",
                                  (unsigned long long)number);
    if (error) {
        free(text);
        return error;
    }
    *ret_version = version;
    *ret_text = text;
    return 0;
}

int weir_rule_store_list(struct weir_rule_store *store, uint64_t from, size_t count_max, uint64_t deadline_ns,
                         weir_rule_take_version *take, void *context, struct weir_fault *ret_fault)
{
    if (count_max < 1 || count_max > WEIR_RULE_LIST_MAX)
        return weir_fault_format(ret_fault, WEIR_ERANGE, "count_max", "must be 1 to %d", WEIR_RULE_LIST_MAX);
    if (weir_rule_now_ns() >= deadline_ns)
        return late(ret_fault);
    if (from == 0 || from > WEIR_RULE_VERSIONS_MAX)
        from = WEIR_RULE_VERSIONS_MAX;
    struct weir_rule_versions versions = { .list = calloc(count_max, sizeof *versions.list), .room = count_max };
    if (!versions.list)
        return weir_fault_set(ret_fault, WEIR_ENOMEM, "", "out of memory");
    int error = store->ops->list(store, from, deadline_ns, &versions, ret_fault);
    for (size_t i = 0; !error && i < versions.count && take(context, &versions.list[i]); i++)
        ;
    free(versions.list);
    return error;
}

struct decided {
    uint64_t found, lowest;
};

static bool take_decided(void *context, const struct weir_rule_version *version)
{
    struct decided *decided = context;
    decided->lowest = version->number;
    if (version->kind != WEIR_RULE_PROPOSED)
        decided->found = version->number;
    return decided->found == 0;
}

int weir_rule_store_decided(struct weir_rule_store *store, uint64_t from, uint64_t deadline_ns, uint64_t *ret_number,
                            struct weir_fault *ret_fault)
{
    struct decided decided = { 0 };
    int error = 0;
    /* Few at first, for a row that is damaged hides those that are listed with it. */
    for (size_t count = 1; !error && decided.found == 0 && from > 0;
         count = weir_min_u64(2 * count, WEIR_RULE_LIST_MAX)) {
        decided.lowest = 0;
        error = weir_rule_store_list(store, from, count, deadline_ns, take_decided, &decided, ret_fault);
        from = weir_sub_sat(decided.lowest, 1);
    }
    if (!error)
        *ret_number = decided.found;
    return error;
}

int weir_rule_store_append(struct weir_rule_store *store, const struct weir_rule_change *change, uint64_t deadline_ns,
                           struct weir_rule_appended *ret_appended, struct weir_fault *ret_fault)
{
    uint8_t checksum[WEIR_RULE_CHECKSUM_SIZE] = { 0 };
    int error = weir_rule_change_check(change, ret_fault);
    if (!error && !weir_rule_kind_copies(change->kind))
        error = weir_rule_checksum(change->text, checksum);
    if (error)
        return error;
    if (weir_rule_now_ns() >= deadline_ns)
        return late(ret_fault);
    return store->ops->append(store, change, checksum, deadline_ns, ret_appended, ret_fault);
}

/* ---- who enforces what ---- */

int weir_rule_store_tell(struct weir_rule_store *store, const struct weir_rule_told *told, uint64_t deadline_ns,
                         struct weir_fault *ret_fault)
{
    if (!weir_rule_node_valid(told->node, strnlen(told->node, sizeof told->node)))
        return weir_fault_format(ret_fault, WEIR_EINVAL, "node", "must be 1 to %d of A-Z a-z 0-9 _ - .",
                                 WEIR_RULE_NODE_MAX);
    if (told->version < 1 || told->version > WEIR_RULE_VERSIONS_MAX)
        return weir_fault_format(ret_fault, WEIR_ERANGE, "version", "must be 1 to %d", WEIR_RULE_VERSIONS_MAX);
    if (told->since_ns > INT64_MAX)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "since_ns", "must be at most 2^63 - 1");
    if (weir_rule_now_ns() >= deadline_ns)
        return late(ret_fault);
    return store->ops->tell(store, told, deadline_ns, ret_fault);
}

int weir_rule_store_told(struct weir_rule_store *store, bool newest_only, uint64_t deadline_ns,
                         weir_rule_take_told *take, void *context, struct weir_fault *ret_fault)
{
    struct weir_rule_notes notes = { 0 };
    if (weir_rule_now_ns() >= deadline_ns)
        return late(ret_fault);
    int error = store->ops->told(store, newest_only, deadline_ns, &notes, ret_fault);
    for (size_t i = 0; !error && i < notes.count && take(context, &notes.list[i]); i++)
        ;
    free(notes.list);
    return error;
}

/* ---- waiting, and the schema ---- */

bool weir_rule_store_wait(struct weir_rule_store *store, uint64_t until_ns)
{
    for (;;) {
        uint64_t now_ns = weir_rule_now_ns();
        if (now_ns >= store->look_ns)
            return true;
        if (now_ns >= until_ns)
            return false;
        if (store->ops->pause(store, weir_min_u64(until_ns, store->look_ns)))
            return true;
    }
}

int weir_rule_store_migrate(struct weir_rule_store *store, unsigned to, uint64_t deadline_ns,
                            struct weir_fault *ret_fault)
{
    if (to < 1 || to > store->schema)
        return weir_fault_format(ret_fault, WEIR_ERANGE, "schema", "must be 1 to %u: this weir knows no other",
                                 store->schema);
    if (weir_rule_now_ns() >= deadline_ns)
        return late(ret_fault);
    return store->ops->migrate(store, to, deadline_ns, ret_fault);
}
