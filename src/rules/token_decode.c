/* SPDX-License-Identifier: Apache-2.0
 *
 * Called by section_decode.c. A token is read by a table of fields; its rights are words that become bits, and it must
 * not have the name or the secret of one before it. weir_right_name of config.h is here, beside the words. What callers
 * send is compared with the tokens in serve/auth.c. */
#include "rules/token_decode.h"

#include <string.h>

#include "rules/secret_decode.h"

static int secret_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target)
{
    return weir_secret_decode(decode, value, field->name, WEIR_SECRET_TOKEN, target);
}

static int secret_file_read(struct weir_decode *decode, const struct weir_yaml_node *value,
                            const struct weir_field *field, void *target)
{
    return weir_secret_file_decode(decode, value, field->name, WEIR_SECRET_TOKEN, target);
}

static const char *const right_words[] = { "check",   "refund", "reset", "metrics", "lock",
                                           "session", "all",    "admin", NULL };
static const unsigned right_values[] = { WEIR_RIGHT_CHECK, WEIR_RIGHT_REFUND,  WEIR_RIGHT_RESET, WEIR_RIGHT_METRICS,
                                         WEIR_RIGHT_LOCK,  WEIR_RIGHT_SESSION, WEIR_RIGHT_ALL,   WEIR_RIGHT_ADMIN };

const char *weir_right_name(unsigned right)
{
    size_t at = 0;
    while (right_words[at + 1] && right_values[at] != right)
        at++;
    return right_words[at];
}

static int rights_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target)
{
    static const struct weir_field word = { .name = "a right", .names = right_words };
    unsigned rights = 0;
    int error = weir_decode_kind(decode, value, WEIR_YAML_LIST, field->name);
    for (const struct weir_yaml_node *item = value->first; item && !error; item = item->next) {
        unsigned index = 0;
        error = weir_decode_word(decode, item, &word, &index);
        rights |= right_values[index];
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
    int error = weir_decode_list(decode, value, field->name, 0, WEIR_TOKENS_MAX, sizeof(*config->tokens),
                                 &config->tokens);
    if (error)
        return error;
    for (const struct weir_yaml_node *item = value->first; item; item = item->next)
        if (!weir_decode_goes_on(decode, token_decode(decode, item, config), &error))
            break;
    return error;
}
