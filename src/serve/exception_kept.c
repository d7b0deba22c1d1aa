/* SPDX-License-Identifier: Apache-2.0
 *
 * The file is one of rules/kept.c, which is replaced whole and checked whole, with this in the place of a text: a line
 * that says what it is, then the number and the id of the last change, the secret of the hashes, and hash and end of
 * each ban, all little endian. A million of them fit. Called by follower.c. */
#include <stdlib.h>
#include <string.h>

#include "base/fault_format.h"
#include "rules/kept.h"
#include "serve/exception_follower.h"

static const char MAGIC[] = "weir-exceptions 1\n";
#define MAGIC_SIZE (sizeof(MAGIC) - 1)
#define HEAD_SIZE (MAGIC_SIZE + 8 + WEIR_RULE_CHANGE_SIZE + WEIR_BANNED_KEYS_SECRET_SIZE)
#define BAN_SIZE 16
#define PAGE 256

_Static_assert(HEAD_SIZE + (size_t)BAN_SIZE * WEIR_EXCEPTIONS_MAX <= WEIR_RULE_TEXT_MAX, "all of them fit");

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

int weir_exception_follower_keep(const struct weir_exception_follower *follower, const char *path,
                                 struct weir_fault *ret_fault)
{
    struct weir_rule_head head = { .number = 1 }; /* the file's, which has one: not of a version */
    const size_t size = HEAD_SIZE + BAN_SIZE * weir_banned_keys_count(follower->keys);
    uint8_t *bytes = malloc(size), *at = bytes;
    size_t place = 0, count;
    if (!bytes)
        return weir_fault_format(ret_fault, WEIR_ENOMEM, "", "out of memory");
    memcpy(at, MAGIC, MAGIC_SIZE);
    at = put_u64(at + MAGIC_SIZE, follower->number);
    memcpy(at, follower->change, sizeof(follower->change));
    weir_banned_keys_secret(follower->keys, at + sizeof(follower->change));
    at = bytes + HEAD_SIZE;
    struct weir_banned_key page[PAGE];
    while ((count = weir_banned_keys_list(follower->keys, &place, page, PAGE)) > 0)
        for (size_t i = 0; i < count; i++)
            at = put_u64(put_u64(at, page[i].hash), page[i].until_ns);
    const struct weir_slice text = { bytes, (size_t)(at - bytes) };
    memcpy(head.store, follower->store, sizeof(head.store));
    int error = weir_rule_checksum(text, head.checksum);
    if (!error)
        error = weir_rule_kept_write(path, &head, text, ret_fault);
    free(bytes);
    return error;
}

static int load(struct weir_exception_follower *follower, const uint8_t *bytes, size_t size, uint64_t wall_ns)
{
    const uint8_t *at = bytes + MAGIC_SIZE;
    int error = 0;
    weir_banned_keys_use_secret(follower->keys, at + 8 + sizeof(follower->change));
    for (size_t i = HEAD_SIZE; !error && i < size; i += BAN_SIZE)
        error = weir_banned_keys_put(follower->keys, get_u64(bytes + i), get_u64(bytes + i + 8), wall_ns);
    follower->number = get_u64(at);
    memcpy(follower->change, at + 8, sizeof(follower->change));
    return error;
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
    if (size < HEAD_SIZE || (size - HEAD_SIZE) % BAN_SIZE != 0 || memcmp(text, MAGIC, MAGIC_SIZE) != 0 ||
        (size - HEAD_SIZE) / BAN_SIZE > WEIR_EXCEPTIONS_MAX)
        error = weir_fault_format(ret_fault, WEIR_EPROTO, "path", "%.110s has no exceptions of weir's", path);
    if (!error && load(follower, (const uint8_t *)text, size, wall_ns))
        error = weir_fault_format(ret_fault, WEIR_ENOMEM, "", "out of memory");
    if (!error) {
        follower->known = true;
        memcpy(follower->store, head.store, sizeof(follower->store));
    }
    free(text);
    return error;
}
