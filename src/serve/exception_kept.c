/* SPDX-License-Identifier: Apache-2.0
 *
 * The file is one of rules/kept.c, which is replaced whole and checked whole, with this in the place of a text: a line
 * that says what it is, then the number and the id of the last change, the secret of the hashes, the names of levels
 * (how many, in one byte; then each behind its length, in one byte), and of each key its hash, and a word of its end in
 * ticks and of the number of its level, 0 for a ban: the lowest byte. Numbers are little endian. A million keys fit.
 *
 * The first version of the file had no names, and instead of the word the end in nanoseconds, for all were bans: it is
 * still read. Called by follower.c. */
#include <stdlib.h>
#include <string.h>

#include "base/fault_format.h"
#include "rules/kept.h"
#include "serve/exception_follower.h"

static const char MAGIC[] = "weir-exceptions 2\n", MAGIC_1[] = "weir-exceptions 1\n";
#define MAGIC_SIZE (sizeof(MAGIC) - 1)
#define HEAD_SIZE (MAGIC_SIZE + 8 + WEIR_RULE_CHANGE_SIZE + WEIR_EXCEPTED_KEYS_SECRET_SIZE)
#define NAMES_SIZE_MAX (1 + (size_t)WEIR_EXCEPTED_KEYS_NAMES_MAX * (1 + WEIR_LEVEL_NAME_MAX))
#define ONE_SIZE 16
#define TICK_NS WEIR_EXCEPTED_KEYS_TICK_NS
#define PAGE 256

_Static_assert(HEAD_SIZE + NAMES_SIZE_MAX + (size_t)ONE_SIZE * WEIR_EXCEPTIONS_MAX <= WEIR_RULE_TEXT_MAX,
               "all of them fit");

static uint8_t *put_u64(uint8_t *at, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        *at++ = (uint8_t)(value >> (8 * i));
    return at;
}

static uint64_t get_u64(const uint8_t *at)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
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

int weir_exception_follower_keep(const struct weir_exception_follower *follower, const char *path,
                                 struct weir_fault *ret_fault)
{
    struct weir_rule_head head = { .number = 1 }; /* the file's, which has one: not of a version */
    const size_t size = HEAD_SIZE + NAMES_SIZE_MAX + ONE_SIZE * weir_excepted_keys_count(follower->keys);
    uint8_t *bytes = malloc(size), *at = bytes;
    size_t place = 0, count;
    if (!bytes)
        return weir_fault_format(ret_fault, WEIR_ENOMEM, "", "out of memory");
    memcpy(at, MAGIC, MAGIC_SIZE);
    at = put_u64(at + MAGIC_SIZE, follower->number);
    memcpy(at, follower->change, sizeof(follower->change));
    weir_excepted_keys_secret(follower->keys, at + sizeof(follower->change));
    at = put_names(bytes + HEAD_SIZE, follower->keys);
    struct weir_excepted_key page[PAGE];
    while ((count = weir_excepted_keys_list(follower->keys, &place, page, PAGE)) > 0)
        for (size_t i = 0; i < count; i++)
            at = put_u64(put_u64(at, page[i].hash), page[i].until_ns / TICK_NS << 8 | page[i].level);
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
    const uint8_t *keys, *end;
    bool words; /* else ends */
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

static bool file_read(const uint8_t *bytes, size_t size, struct file *ret_file)
{
    if (size < HEAD_SIZE)
        return false;
    ret_file->words = memcmp(bytes, MAGIC, MAGIC_SIZE) == 0;
    ret_file->keys = bytes + HEAD_SIZE;
    ret_file->end = bytes + size;
    ret_file->names_count = 0;
    if (!ret_file->words && memcmp(bytes, MAGIC_1, MAGIC_SIZE) != 0)
        return false;
    if (ret_file->words && !names_read(ret_file->keys, ret_file->end, ret_file))
        return false;
    const size_t left = (size_t)(ret_file->end - ret_file->keys);
    if (left % ONE_SIZE != 0 || left / ONE_SIZE > WEIR_EXCEPTIONS_MAX)
        return false;
    for (const uint8_t *at = ret_file->keys; ret_file->words && at < ret_file->end; at += ONE_SIZE)
        if ((get_u64(at + 8) & 0xff) > ret_file->names_count)
            return false;
    return true;
}

static int keys_load(struct weir_excepted_keys *keys, const struct file *file, uint64_t wall_ns)
{
    int error = 0;
    for (const uint8_t *at = file->keys; !error && at < file->end; at += ONE_SIZE) {
        const uint64_t word = get_u64(at + 8);
        const size_t level = file->words ? word & 0xff : 0;
        error = weir_excepted_keys_put(keys, get_u64(at), level ? file->names[level - 1] : NULL,
                                       file->words ? (word >> 8) * TICK_NS : word, wall_ns);
    }
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
    follower->number = get_u64(at);
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
