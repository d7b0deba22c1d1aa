/* SPDX-License-Identifier: Apache-2.0
 *
 * What a change may be, and what is believed of a row: as in store_check.c. A key is a list of netstrings, so that any
 * bytes can be in a value and people can read it. Called by both stores and by whoever makes a change or follows. */
#include "rules/exception.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/fault_format.h"
#include "rules/store_inside.h"

const char *weir_exception_kind_name(enum weir_exception_kind kind)
{
    switch (kind) {
    case WEIR_EXCEPTION_BAN:
        return "ban";
    case WEIR_EXCEPTION_UNBAN:
        return "unban";
    case WEIR_EXCEPTION_LEVEL:
        return "level";
    case WEIR_EXCEPTION_RESET:
        return "reset";
    }
    return "unknown";
}

uint64_t weir_exception_mark(const uint8_t change[WEIR_RULE_CHANGE_SIZE])
{
    const uint64_t mark = weir_little_get(change, 8);
    return mark < 2 ? mark + 2 : mark;
}

/* ---- keys ---- */

bool weir_exception_key_add(char *key, size_t room, size_t *size, struct weir_slice part)
{
    char digits[24];
    size_t head = (size_t)snprintf(digits, sizeof digits, "%zu:", part.size);
    if (part.size > WEIR_EXCEPTION_KEY_MAX || room < *size || room - *size < head + part.size + 1)
        return false;
    memcpy(key + *size, digits, head);
    if (part.size > 0)
        memcpy(key + *size + head, part.data, part.size);
    key[*size + head + part.size] = ',';
    *size += head + part.size + 1;
    return true;
}

struct weir_slice weir_exception_absent(struct weir_slice name, char room[WEIR_EXCEPTION_ABSENT_MAX])
{
    const size_t size = name.size < WEIR_ATTRIBUTE_NAME_MAX ? name.size : WEIR_ATTRIBUTE_NAME_MAX;
    room[0] = '!';
    memcpy(room + 1, name.data, size);
    return (struct weir_slice){ room, 1 + size };
}

bool weir_exception_is_absent(struct weir_slice name, struct weir_slice value, struct weir_slice *ret_name)
{
    if (name.size > 0 || value.size < 2 || *(const char *)value.data != '!')
        return false;
    *ret_name = (struct weir_slice){ (const char *)value.data + 1, value.size - 1 };
    return true;
}

bool weir_exception_key_next(struct weir_slice *rest, struct weir_slice *ret_part)
{
    const char *at = rest->data, *end = at + rest->size;
    size_t size = 0;
    const char *digits = at;
    for (; at < end && *at >= '0' && *at <= '9' && at - digits < 5; at++)
        size = 10 * size + (size_t)(*at - '0');
    bool plain = at > digits && (*digits != '0' || at == digits + 1); /* one way to write each */
    if (!plain || at == end || *at != ':' || (size_t)(end - at - 1) < size + 1 || at[1 + size] != ',')
        return false;
    *ret_part = (struct weir_slice){ at + 1, size };
    at += size + 2;
    *rest = (struct weir_slice){ at, (size_t)(end - at) };
    return true;
}

bool weir_exception_key_valid(struct weir_slice key)
{
    struct weir_slice rest = key, part;
    size_t count = 0;
    if (key.size > WEIR_EXCEPTION_KEY_MAX)
        return false;
    while (rest.size > 0)
        if (!weir_exception_key_next(&rest, &part) || ++count > (size_t)2 * WEIR_KEY_VALUES_MAX)
            return false;
    return count % 2 == 0;
}

/* ---- the key of a reset, as it is stored ---- */

#define PAIR_SIZE (sizeof(WEIR_EXCEPTION_RESET_PAIR) - 1)

static bool has_pair(struct weir_slice key)
{
    return key.size >= PAIR_SIZE &&
           memcmp((const char *)key.data + key.size - PAIR_SIZE, WEIR_EXCEPTION_RESET_PAIR, PAIR_SIZE) == 0;
}

static bool stored_valid(int kind, struct weir_slice key)
{
    if (kind != WEIR_EXCEPTION_RESET)
        return weir_exception_key_valid(key);
    return has_pair(key) && weir_exception_key_valid((struct weir_slice){ key.data, key.size - PAIR_SIZE });
}

static struct weir_slice with_pair(struct weir_slice key, char room[WEIR_EXCEPTION_STORED_MAX])
{
    if (key.size > 0)
        memcpy(room, key.data, key.size);
    memcpy(room + key.size, WEIR_EXCEPTION_RESET_PAIR, PAIR_SIZE);
    return (struct weir_slice){ room, key.size + PAIR_SIZE };
}

int weir_exception_digest(const char *limit, struct weir_slice key, uint8_t ret_digest[WEIR_EXCEPTION_DIGEST_SIZE])
{
    uint8_t whole[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool done = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) &&
                EVP_DigestUpdate(context, limit, strlen(limit) + 1) && /* its NUL ends it */
                (key.size == 0 || EVP_DigestUpdate(context, key.data, key.size)) &&
                EVP_DigestFinal_ex(context, whole, NULL);
    EVP_MD_CTX_free(context);
    if (!done)
        return WEIR_ENOMEM;
    memcpy(ret_digest, whole, WEIR_EXCEPTION_DIGEST_SIZE);
    return 0;
}

/* ---- changes ---- */

static bool limit_valid(const char *name)
{
    size_t size = name ? strnlen(name, WEIR_LIMIT_NAME_MAX + 1) : 0;
    if (size < 1 || size > WEIR_LIMIT_NAME_MAX)
        return false;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)name[i] <= ' ' || (unsigned char)name[i] >= 0x7f)
            return false;
    return true;
}

static bool level_valid(int kind, const char *level)
{
    return kind == WEIR_EXCEPTION_LEVEL ? level && weir_level_name_valid(level, strlen(level)) : !level || !level[0];
}

int weir_exception_check(const struct weir_exception_change *change, struct weir_fault *ret_fault)
{
    static const char some[] = "x";
    /* What both have in common is judged in one place. */
    struct weir_rule_change common = { .kind = WEIR_RULE_APPLIED,
                                       .author = change->author,
                                       .comment = change->comment,
                                       .text = { some, 1 },
                                       .wall_ns = change->wall_ns };
    memcpy(common.change, change->change, sizeof common.change);
    if (strcmp(weir_exception_kind_name(change->kind), "unknown") == 0)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "kind", "must be ban, unban, level or reset");
    if (!limit_valid(change->limit))
        return weir_fault_format(ret_fault, WEIR_EINVAL, "limit", "must be the name of a limit, 1 to %d bytes",
                                 WEIR_LIMIT_NAME_MAX);
    if (!level_valid((int)change->kind, change->level))
        return weir_fault_format(ret_fault, WEIR_EINVAL, "level",
                                 "must be the name of a level, 1 to %d letters, digits and . _ -", WEIR_LEVEL_NAME_MAX);
    if (change->key.size > WEIR_EXCEPTION_KEY_MAX)
        return weir_fault_format(ret_fault, WEIR_ERANGE, "key", "must be at most %d bytes with its names; it has %zu",
                                 WEIR_EXCEPTION_KEY_MAX, change->key.size);
    if (!weir_exception_key_valid(change->key) || has_pair(change->key))
        return weir_fault_set(ret_fault, WEIR_EINVAL, "key", "must be names and values of attributes");
    if (change->until_ns > INT64_MAX)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "until", "must be at most 2^63 - 1 ns after 1970");
    if ((change->kind == WEIR_EXCEPTION_UNBAN || change->kind == WEIR_EXCEPTION_RESET) && change->until_ns != 0)
        return weir_fault_format(ret_fault, WEIR_EINVAL, "until", "is a ban's or a level's: %s is for good",
                                 change->kind == WEIR_EXCEPTION_UNBAN ? "an unban" : "a reset");
    if (change->until_ns != 0 && change->until_ns <= change->wall_ns)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "until", "must be in the future");
    return weir_rule_change_check(&common, ret_fault);
}

bool weir_exception_valid(const struct weir_exception *exception)
{
    return exception->number >= 1 && exception->number <= WEIR_EXCEPTION_CHANGES_MAX && exception->kind >= 1 &&
           (exception->kind != WEIR_EXCEPTION_LEVEL || level_valid(exception->kind, exception->level)) &&
           exception->wall_ns <= INT64_MAX && exception->until_ns <= INT64_MAX && limit_valid(exception->limit) &&
           (exception->kind != WEIR_EXCEPTION_RESET || exception->until_ns == 0) &&
           stored_valid(exception->kind, exception->key) &&
           weir_rule_author_valid(exception->author, strlen(exception->author)) &&
           weir_rule_comment_valid(exception->comment, strlen(exception->comment));
}

bool weir_exception_is_of(const struct weir_exception *exception, const struct weir_exception_change *change)
{
    return !exception->damaged && exception->kind == (int)change->kind && exception->until_ns == change->until_ns &&
           strcmp(exception->level, change->level ? change->level : "") == 0 &&
           strcmp(exception->limit, change->limit) == 0 && exception->key.size == change->key.size &&
           (change->key.size == 0 || memcmp(exception->key.data, change->key.data, change->key.size) == 0) &&
           strcmp(exception->author, change->author) == 0 && strcmp(exception->comment, change->comment) == 0;
}

/* ---- the store ---- */

static int late(struct weir_fault *ret_fault)
{
    return weir_fault_set(ret_fault, WEIR_EDOWN, "deadline", "has passed: nothing was asked");
}

int weir_rule_store_except(struct weir_rule_store *store, const struct weir_exception_change *change,
                           uint64_t deadline_ns, uint64_t *ret_number, struct weir_fault *ret_fault)
{
    uint8_t digest[WEIR_EXCEPTION_DIGEST_SIZE];
    char room[WEIR_EXCEPTION_STORED_MAX];
    int error = weir_exception_check(change, ret_fault);
    if (error)
        return error;
    struct weir_exception_change stored = *change;
    if (change->kind == WEIR_EXCEPTION_RESET)
        stored.key = with_pair(change->key, room);
    if (weir_exception_digest(stored.limit, stored.key, digest) != 0)
        return weir_fault_set(ret_fault, WEIR_ENOMEM, "", "out of memory");
    if (weir_rule_now_ns() >= deadline_ns)
        return late(ret_fault);
    return store->ops->except(store, &stored, digest, deadline_ns, ret_number, ret_fault);
}

struct taking {
    weir_exception_take *take;
    void *context;
};

/* Whoever asked is given the key. */
static bool take_plain(void *context, const struct weir_exception *exception)
{
    const struct taking *taking = context;
    struct weir_exception plain = *exception;
    if (!plain.damaged && plain.kind == WEIR_EXCEPTION_RESET)
        plain.key.size -= PAIR_SIZE;
    return taking->take(taking->context, &plain);
}

/* What finds the changes of one key. */
static int select_key(const struct weir_exception_query *query, struct weir_exception_select *select)
{
    char room[WEIR_EXCEPTION_STORED_MAX];
    select->one_key = query->limit && query->key.data;
    int error = select->one_key ? weir_exception_digest(query->limit, query->key, select->digest) : 0;
    return error || !select->one_key
               ? error
               : weir_exception_digest(query->limit, with_pair(query->key, room), select->reset_digest);
}

int weir_rule_store_exceptions(struct weir_rule_store *store, const struct weir_exception_query *query,
                               uint64_t deadline_ns, weir_exception_take *take, void *context,
                               struct weir_fault *ret_fault)
{
    struct taking taking = { take, context };
    struct weir_exception_select select = { .query = *query, .take = take_plain, .context = &taking };
    if (query->count_max < 1 || query->count_max > WEIR_EXCEPTION_LIST_MAX)
        return weir_fault_format(ret_fault, WEIR_ERANGE, "count_max", "must be 1 to %d", WEIR_EXCEPTION_LIST_MAX);
    if (query->newest_first && query->from == 0)
        select.query.from = INT64_MAX;
    select.query.from = select.query.from > INT64_MAX ? INT64_MAX : select.query.from;
    if (query->limit && query->key.data && query->key.size > WEIR_EXCEPTION_KEY_MAX)
        return 0; /* no key is so long */
    if (select_key(query, &select) != 0)
        return weir_fault_set(ret_fault, WEIR_ENOMEM, "", "out of memory");
    if (weir_rule_now_ns() >= deadline_ns)
        return late(ret_fault);
    return store->ops->exceptions(store, &select, deadline_ns, ret_fault);
}

bool weir_exception_is_full(const struct weir_rule_store *store, const struct weir_exception_change *change,
                            const struct weir_exception_state *state)
{
    return change->kind != WEIR_EXCEPTION_UNBAN && !state->held_before && state->holding >= store->exceptions_max;
}

/* What one writes to a key of which it knows what held before. */
int weir_exception_bound(const struct weir_rule_store *store, const struct weir_exception_change *change,
                         const struct weir_exception_state *state, struct weir_fault *ret_fault)
{
    if (change->kind == WEIR_EXCEPTION_UNBAN && !state->held_before)
        return weir_fault_format(ret_fault, WEIR_ENOENT, "key", "nothing holds for this key of limit \"%.64s\"",
                                 change->limit);
    if (state->newest >= store->changes_max)
        return weir_fault_format(ret_fault, WEIR_ELIMIT, "exceptions",
                                 "has %" PRIu64 " changes, which is the most: docs/exceptions.md says how to go on",
                                 store->changes_max);
    if (change->kind == WEIR_EXCEPTION_LEVEL && state->levels >= WEIR_EXCEPTION_LEVELS_MAX)
        return weir_fault_format(ret_fault, WEIR_ELIMIT, "level",
                                 "\"%.40s\" would be one more than the %d names of levels that a store may have: take "
                                 "one that is there",
                                 change->level, WEIR_EXCEPTION_LEVELS_MAX);
    if (weir_exception_is_full(store, change, state))
        return weir_fault_format(ret_fault, WEIR_ELIMIT, "exceptions",
                                 "%" PRIu64 " hold, which is the most: end some first (a reset is one for good)",
                                 store->exceptions_max);
    return 0;
}
