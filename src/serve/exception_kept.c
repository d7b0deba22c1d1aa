/* SPDX-License-Identifier: Apache-2.0
 *
 * The file is one of rules/kept.c, which is replaced whole and checked whole, with this in the place of a text: a line
 * that says what it is, then the number and the id of the last change, the secret of the hashes, the names of levels
 * (how many, in one byte; then each behind its length, in one byte), and of each key its hash, and a word of its end in
 * ticks and of the number of its level, 0 for a ban: the lowest byte. Numbers are little endian. A million keys fit.
 * Where keys were reset it is version 3: behind the names stands how many are banned or have a level, and behind these
 * of each key that was reset its hash and its mark.
 *
 * The first version of the file had no names, and instead of the word the end in nanoseconds, for all were bans. All
 * versions are read, and the third is written only where it has to be, for a weir of before resets reads the second.
 * Called by follower.c. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fault_format.h"
#include "rules/kept.h"
#include "serve/exception_follower.h"

static const char MAGIC[] = "weir-exceptions 2\n", MAGIC_1[] = "weir-exceptions 1\n", MAGIC_3[] = "weir-exceptions 3\n";
#define MAGIC_SIZE (sizeof(MAGIC) - 1)
#define HEAD_SIZE (MAGIC_SIZE + 8 + WEIR_RULE_CHANGE_SIZE + WEIR_EXCEPTED_KEYS_SECRET_SIZE)
#define NAMES_SIZE_MAX (1 + (size_t)WEIR_EXCEPTED_KEYS_NAMES_MAX * (1 + WEIR_LEVEL_NAME_MAX))
#define ONE_SIZE 16
#define TICK_NS WEIR_EXCEPTED_KEYS_TICK_NS
#define PAGE 256

_Static_assert(HEAD_SIZE + NAMES_SIZE_MAX + 8 + (size_t)ONE_SIZE * WEIR_EXCEPTIONS_MAX <= WEIR_RULE_TEXT_MAX,
               "all of them fit");

static uint8_t *put_number(uint8_t *at, uint64_t value)
{
    return weir_little_put(at, value, 8);
}

static uint64_t get_number(const uint8_t *at)
{
    return weir_little_get(at, 8);
}

static uint8_t *put_names(uint8_t *at, const struct weir_excepted_keys *keys)
{
    const size_t count = weir_excepted_keys_names(keys);
    *at++ = (uint8_t)count;
    for (size_t i = 1; i <= count; i++) {
        const char *name = weir_excepted_keys_name(keys, i);
        const size_t size = strlen(name);
        *at++ = (uint8_t)size;
        memcpy(at, name, size);
        at += size;
    }
    return at;
}

static uint8_t *put_keys(uint8_t *at, const struct weir_excepted_keys *keys)
{
    struct weir_excepted_key page[PAGE];
    size_t place = 0, count;
    uint64_t hash, mark;
    while ((count = weir_excepted_keys_list(keys, &place, page, PAGE)) > 0)
        for (size_t i = 0; i < count; i++)
            at = put_number(put_number(at, page[i].hash), page[i].until_ns / TICK_NS << 8 | page[i].level);
    place = 0;
    while (weir_excepted_keys_list_reset(keys, &place, &hash, &mark))
        at = put_number(put_number(at, hash), mark);
    return at;
}

int weir_exception_follower_keep(const struct weir_exception_follower *follower, const char *path,
                                 struct weir_fault *ret_fault)
{
    struct weir_rule_head head = { .number = 1 }; /* the file's, which has one: not of a version */
    const size_t count = weir_excepted_keys_count(follower->keys), resets = weir_excepted_keys_resets(follower->keys);
    const size_t size = HEAD_SIZE + NAMES_SIZE_MAX + 8 + ONE_SIZE * (count + resets);
    uint8_t *bytes = malloc(size), *at = bytes;
    if (!bytes)
        return weir_fault_format(ret_fault, WEIR_ENOMEM, "", "out of memory");
    memcpy(at, resets > 0 ? MAGIC_3 : MAGIC, MAGIC_SIZE);
    at = put_number(at + MAGIC_SIZE, follower->number);
    memcpy(at, follower->change, sizeof(follower->change));
    weir_excepted_keys_secret(follower->keys, at + sizeof(follower->change));
    at = put_names(bytes + HEAD_SIZE, follower->keys);
    if (resets > 0)
        at = put_number(at, count);
    at = put_keys(at, follower->keys);
    const struct weir_slice text = { bytes, (size_t)(at - bytes) };
    memcpy(head.store, follower->store, sizeof(head.store));
    int error = weir_rule_checksum(text, head.checksum);
    if (!error)
        error = weir_rule_kept_write(path, &head, text, ret_fault);
    free(bytes);
    return error;
}

/* What a file says, or it is none of weir's. */
struct file {
    const uint8_t *keys, *resets, *end; /* the resets stand behind the keys */
    bool words;                         /* else ends */
    size_t names_count;
    char names[WEIR_EXCEPTED_KEYS_NAMES_MAX][WEIR_LEVEL_NAME_MAX + 1];
};

static bool names_read(const uint8_t *at, const uint8_t *end, struct file *ret_file)
{
    if (at == end)
        return false;
    ret_file->names_count = *at++;
    for (size_t i = 0; i < ret_file->names_count; i++) {
        const size_t size = at < end ? *at++ : 0;
        if ((size_t)(end - at) < size || !weir_level_name_valid((const char *)at, size))
            return false;
        memcpy(ret_file->names[i], at, size);
        ret_file->names[i][size] = '\0';
        at += size;
    }
    ret_file->keys = at;
    return true;
}

static bool is_version(const uint8_t *bytes, const char *magic)
{
    return memcmp(bytes, magic, MAGIC_SIZE) == 0;
}

/* Where the keys that were reset begin. */
static bool resets_find(bool any, struct file *file)
{
    file->resets = file->end;
    if (!any)
        return true;
    if ((size_t)(file->end - file->keys) < 8)
        return false;
    const uint64_t count = get_number(file->keys);
    file->keys += 8;
    if (count > (uint64_t)(file->end - file->keys) / ONE_SIZE)
        return false;
    file->resets = file->keys + count * ONE_SIZE;
    return true;
}

static bool file_read(const uint8_t *bytes, size_t size, struct file *ret_file)
{
    if (size < HEAD_SIZE)
        return false;
    const bool resets = is_version(bytes, MAGIC_3);
    ret_file->words = resets || is_version(bytes, MAGIC);
    ret_file->keys = bytes + HEAD_SIZE;
    ret_file->end = bytes + size;
    ret_file->names_count = 0;
    if (!ret_file->words && !is_version(bytes, MAGIC_1))
        return false;
    if (ret_file->words && !names_read(ret_file->keys, ret_file->end, ret_file))
        return false;
    if (!resets_find(resets, ret_file))
        return false;
    const size_t left = (size_t)(ret_file->end - ret_file->keys);
    if (left % ONE_SIZE != 0 || left / ONE_SIZE > WEIR_EXCEPTIONS_MAX)
        return false;
    for (const uint8_t *at = ret_file->keys; ret_file->words && at < ret_file->resets; at += ONE_SIZE)
        if ((get_number(at + 8) & 0xff) > ret_file->names_count)
            return false;
    for (const uint8_t *at = ret_file->resets; at < ret_file->end; at += ONE_SIZE)
        if (get_number(at + 8) < 2) /* no mark */
            return false;
    return true;
}

static int keys_load(struct weir_excepted_keys *keys, const struct file *file, uint64_t wall_ns)
{
    /* The file has them in the order of their hashes. A table that grew with them would have all in one heap, and each
     * one more would be looked for from one end of it to the other. */
    int error = weir_excepted_keys_reserve(keys, (size_t)(file->resets - file->keys) / ONE_SIZE,
                                           (size_t)(file->end - file->resets) / ONE_SIZE);
    for (const uint8_t *at = file->keys; !error && at < file->resets; at += ONE_SIZE) {
        const uint64_t word = get_number(at + 8);
        const size_t level = file->words ? word & 0xff : 0;
        error = weir_excepted_keys_put(keys, get_number(at), level ? file->names[level - 1] : NULL,
                                       file->words ? (word >> 8) * TICK_NS : word, wall_ns);
    }
    for (const uint8_t *at = file->resets; !error && at < file->end; at += ONE_SIZE)
        error = weir_excepted_keys_reset(keys, get_number(at), get_number(at + 8), wall_ns);
    return error;
}

int weir_exception_follower_take(struct weir_exception_follower *follower, const uint8_t *bytes, size_t size,
                                 uint64_t wall_ns)
{
    struct file file;
    if (!file_read(bytes, size, &file))
        return WEIR_EPROTO;
    const uint8_t *at = bytes + MAGIC_SIZE;
    weir_excepted_keys_use_secret(follower->keys, at + 8 + sizeof(follower->change));
    int error = keys_load(follower->keys, &file, wall_ns);
    if (error)
        return error;
    follower->number = get_number(at);
    memcpy(follower->change, at + 8, sizeof(follower->change));
    follower->known = true;
    return 0;
}

int weir_exception_follower_load(struct weir_exception_follower *follower, const char *path, uint64_t wall_ns,
                                 struct weir_fault *ret_fault)
{
    struct weir_rule_head head;
    char *text = NULL;
    size_t size = 0;
    int error = weir_rule_kept_read(path, &head, &text, &size, ret_fault);
    if (error)
        return error;
    error = weir_exception_follower_take(follower, (const uint8_t *)text, size, wall_ns);
    if (error == WEIR_EPROTO)
        (void)weir_fault_format(ret_fault, error, "path", "%.110s has no exceptions of weir's", path);
    else if (error)
        (void)weir_fault_format(ret_fault, error, "", "out of memory");
    else
        memcpy(follower->store, head.store, sizeof(follower->store));
    free(text);
    return error;
}

void weir_exception_follower_expect(struct weir_exception_follower *follower, const char *path,
                                    const uint8_t id[WEIR_RULE_CHANGE_SIZE])
{
    struct weir_rule_head head;
    struct weir_fault fault;
    struct file file;
    char *text = NULL;
    size_t size = 0;
    if (weir_rule_kept_read(path, &head, &text, &size, &fault))
        return;
    if (memcmp(head.store, id, sizeof(head.store)) == 0 && file_read((const uint8_t *)text, size, &file))
        follower->expected = get_number((const uint8_t *)text + MAGIC_SIZE);
    free(text);
}
