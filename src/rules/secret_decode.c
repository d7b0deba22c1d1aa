/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the bytes of a secret and copies it into the arena. A file is read without a buffer of stdio, and the copy on
 * the stack is wiped. An error says where the secret stands and what it must look like, never the secret itself. Called
 * by token_decode.c, engine_decode.c, locks_decode.c and sessions_decode.c. */
#include "rules/secret_decode.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/regular.h"

#define TOKEN_MIN 16

static bool is_legal(enum weir_secret_kind kind, struct weir_slice secret)
{
    const unsigned char *bytes = secret.data;
    size_t min = kind == WEIR_SECRET_TOKEN ? TOKEN_MIN : 1;
    bool legal = secret.size >= min && secret.size <= WEIR_SECRET_MAX;
    for (size_t i = 0; legal && i < secret.size; i++)
        legal = kind == WEIR_SECRET_TOKEN ? bytes[i] > ' ' && bytes[i] < 0x7f : bytes[i] >= ' ' && bytes[i] != 0x7f;
    return legal;
}

static int secret_check(struct weir_decode *decode, struct weir_mark mark, enum weir_secret_kind kind,
                        struct weir_slice secret)
{
    if (is_legal(kind, secret))
        return 0;
    if (kind == WEIR_SECRET_TOKEN)
        return weir_config_fail(decode->fault, WEIR_ERANGE, mark,
                                "a secret must be %d to %d printable ASCII characters without spaces", TOKEN_MIN,
                                WEIR_SECRET_MAX);
    return weir_config_fail(decode->fault, WEIR_ERANGE, mark,
                            "a password must be 1 to %d bytes without control characters", WEIR_SECRET_MAX);
}

int weir_secret_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const char *name,
                       enum weir_secret_kind kind, struct weir_slice *ret_secret)
{
    struct weir_slice secret = { NULL, value->text.size };
    int error = weir_decode_kind(decode, value, WEIR_YAML_SCALAR, name);
    if (!error)
        error = secret_check(decode, value->mark, kind, value->text);
    if (error)
        return error;
    secret.data = weir_arena_copy(decode->arena, value->text.data, value->text.size);
    if (!secret.data)
        return weir_decode_nomem(decode);
    *ret_secret = secret;
    return 0;
}

/* The start of a file, past any buffer of stdio's, which nobody would wipe. */
static int file_read(struct weir_decode *decode, struct weir_mark mark, const char *name, const char *path, char *text,
                     size_t room, size_t *ret_size)
{
    int error = 0;
    const char *why = weir_regular_fault(path);
    FILE *file = why ? NULL : fopen(path, "rbe");
    if (file)
        (void)setvbuf(file, NULL, _IONBF, 0);
    *ret_size = file ? fread(text, 1, room, file) : 0;
    if (!file || ferror(file))
        error = weir_config_fail(decode->fault, WEIR_EIO, mark, "%s \"%.200s\" cannot be read: %s", name, path,
                                 why ? why : strerror(errno));
    if (file)
        (void)fclose(file);
    return error;
}

static const struct weir_secret_read *read_before(const struct weir_secret_read *list, const char *path)
{
    while (list && strcmp(list->path, path) != 0)
        list = list->next;
    return list;
}

/* A copy of it, also for who makes another configuration of the same text. */
static int keep(struct weir_decode *decode, const char *path, struct weir_slice secret, struct weir_slice *ret_secret)
{
    struct weir_secret_read *read = weir_arena_alloc(decode->arena, 1, sizeof(*read));
    const char *name = weir_arena_copy(decode->arena, path, strlen(path) + 1);
    secret.data = weir_arena_copy(decode->arena, secret.data, secret.size);
    if (!read || !name || !secret.data)
        return weir_decode_nomem(decode);
    *read = (struct weir_secret_read){ decode->config->secrets, name, secret };
    decode->config->secrets = read;
    *ret_secret = secret;
    return 0;
}

int weir_secret_file_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const char *name,
                            enum weir_secret_kind kind, struct weir_slice *ret_secret)
{
    char path[PATH_MAX];
    char text[WEIR_SECRET_MAX + 2];
    const char *written = value->text.data;
    size_t length = 0;
    int error = weir_decode_kind(decode, value, WEIR_YAML_SCALAR, name);
    if (error)
        return error;
    bool relative = written[0] != '/' && decode->directory;
    int size = snprintf(path, sizeof(path), "%s%s", relative ? decode->directory : "", written);
    if (size < 0 || (size_t)size >= sizeof(path) || memchr(written, '\0', value->text.size))
        return weir_config_fail(decode->fault, WEIR_ERANGE, value->mark, "%s must be a path", name);
    const struct weir_secret_read *before = read_before(decode->secrets, path);
    if (!before)
        error = file_read(decode, value->mark, name, path, text, sizeof(text), &length);
    if (error)
        return error;
    const char *newline = memchr(text, '\n', length);
    const struct weir_slice secret = before ? before->secret
                                            : (struct weir_slice){ text, newline ? (size_t)(newline - text) : length };
    error = secret_check(decode, value->mark, kind, secret);
    if (!error)
        error = keep(decode, path, secret, ret_secret);
    explicit_bzero(text, sizeof(text));
    return error;
}

int weir_password_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                         void *target)
{
    return weir_secret_decode(decode, value, field->name, WEIR_SECRET_PASSWORD, target);
}

int weir_password_file_decode(struct weir_decode *decode, const struct weir_yaml_node *value,
                              const struct weir_field *field, void *target)
{
    return weir_secret_file_decode(decode, value, field->name, WEIR_SECRET_PASSWORD, target);
}
