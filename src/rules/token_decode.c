/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/token_decode.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define SECRET_MIN 16
#define SECRET_MAX 512

static int secret_check(struct weir_decode *decode, struct weir_mark mark, struct weir_slice secret)
{
    const unsigned char *bytes = secret.data;
    bool legal = secret.size >= SECRET_MIN && secret.size <= SECRET_MAX;
    for (size_t i = 0; legal && i < secret.size; i++)
        legal = bytes[i] > ' ' && bytes[i] < 0x7f;
    if (legal)
        return 0;
    return weir_config_fail(decode->fault, WEIR_ERANGE, mark,
                            "a secret must be %d to %d printable ASCII characters without spaces", SECRET_MIN,
                            SECRET_MAX);
}

static int secret_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target)
{
    struct weir_slice secret = { NULL, value->text.size };
    int error = weir_decode_kind(decode, value, WEIR_YAML_SCALAR, field->name);
    if (!error)
        error = secret_check(decode, value->mark, value->text);
    if (error)
        return error;
    secret.data = weir_arena_copy(decode->arena, value->text.data, value->text.size);
    if (!secret.data)
        return weir_decode_nomem(decode);
    memcpy(target, &secret, sizeof(secret));
    return 0;
}

/* The first line of a file, so that `echo secret > file` works. */
static int secret_file_read(struct weir_decode *decode, const struct weir_yaml_node *value,
                            const struct weir_field *field, void *target)
{
    char path[PATH_MAX];
    char text[SECRET_MAX + 2];
    const char *name = value->text.data;
    int error = weir_decode_kind(decode, value, WEIR_YAML_SCALAR, field->name);
    if (error)
        return error;
    bool relative = name[0] != '/' && decode->directory;
    int size = snprintf(path, sizeof(path), "%s%s", relative ? decode->directory : "", name);
    if (size < 0 || (size_t)size >= sizeof(path) || memchr(name, '\0', value->text.size))
        return weir_config_fail(decode->fault, WEIR_ERANGE, value->mark, "secret_file must be a path");
    FILE *file = fopen(path, "rbe");
    size_t length = file ? fread(text, 1, sizeof(text), file) : 0;
    bool failed = !file || ferror(file);
    if (failed)
        error = weir_config_fail(decode->fault, WEIR_EIO, value->mark, "secret_file \"%.200s\" cannot be read: %s",
                                 path, strerror(errno));
    if (file)
        (void)fclose(file);
    if (error)
        return error;
    const char *newline = memchr(text, '\n', length);
    struct weir_slice secret = { text, newline ? (size_t)(newline - text) : length };
    error = secret_check(decode, value->mark, secret);
    if (!error) {
        secret.data = weir_arena_copy(decode->arena, text, secret.size);
        memcpy(target, &secret, sizeof(secret));
        error = secret.data ? 0 : weir_decode_nomem(decode);
    }
    explicit_bzero(text, sizeof(text));
    return error;
}

static int rights_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target)
{
    static const char *const words[] = { "check", "refund", "reset", "metrics", "all", NULL };
    static const unsigned values[] = { WEIR_RIGHT_CHECK, WEIR_RIGHT_REFUND, WEIR_RIGHT_RESET, WEIR_RIGHT_METRICS,
                                       WEIR_RIGHT_ALL };
    static const struct weir_field word = { .name = "a right", .names = words };
    unsigned rights = 0;
    int error = weir_decode_kind(decode, value, WEIR_YAML_LIST, field->name);
    for (const struct weir_yaml_node *item = value->first; item && !error; item = item->next) {
        unsigned index = 0;
        error = weir_decode_word(decode, item, &word, &index);
        rights |= values[index];
    }
    if (!error)
        memcpy(target, &rights, sizeof(rights));
    return error;
}

#define OF(member) offsetof(struct weir_config_token, member)

static const struct weir_field token_fields[] = {
    { "name", weir_decode_text, OF(name), true, 1, WEIR_LIMIT_NAME_MAX, NULL },
    { "secret", secret_read, OF(secret), false, 0, 0, NULL },
    { "secret_file", secret_file_read, OF(secret), false, 0, 0, NULL },
    { "rights", rights_read, OF(rights), false, 0, 0, NULL },
};

static int token_decode(struct weir_decode *decode, const struct weir_yaml_node *node, struct weir_config *config)
{
    struct weir_config_token token = { .rights = WEIR_RIGHT_CHECK };
    int error = weir_decode_map(decode, node, "a token", token_fields, sizeof(token_fields) / sizeof(token_fields[0]),
                                &token);
    if (error)
        return error;
    if (!weir_yaml_find(node, "secret") == !weir_yaml_find(node, "secret_file"))
        return weir_config_fail(decode->fault, WEIR_EPROTO, node->mark, "a token must have secret or secret_file");
    struct weir_config_token *tokens = config->tokens;
    for (size_t i = 0; i < config->tokens_count; i++)
        if (strcmp(tokens[i].name, token.name) == 0 ||
            (tokens[i].secret.size == token.secret.size &&
             memcmp(tokens[i].secret.data, token.secret.data, token.secret.size) == 0))
            return weir_config_fail(decode->fault, WEIR_EEXIST, node->mark,
                                    "token \"%s\" has the name or the secret of another", token.name);
    tokens[config->tokens_count++] = token;
    return 0;
}

int weir_tokens_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target)
{
    struct weir_config *config = target;
    int error = weir_decode_kind(decode, value, WEIR_YAML_LIST, field->name);
    if (error)
        return error;
    if (value->count > WEIR_TOKENS_MAX)
        return weir_config_fail(decode->fault, WEIR_ELIMIT, value->mark, "tokens must be at most %d", WEIR_TOKENS_MAX);
    config->tokens = weir_arena_alloc(decode->arena, value->count, sizeof(*config->tokens));
    if (value->count && !config->tokens)
        return weir_decode_nomem(decode);
    for (const struct weir_yaml_node *item = value->first; item && !error; item = item->next)
        error = token_decode(decode, item, config);
    return error;
}
