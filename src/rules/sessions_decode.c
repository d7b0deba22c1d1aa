/* SPDX-License-Identifier: Apache-2.0
 *
 * Called by config.c through the table of sections. URLs are read as passwords are (secret_decode.c), because they may
 * hold one, and are not shown in errors. When all keys are read, sessions_check refuses those that contradict each
 * other. Nothing is connected here: the servers are opened by serve/sessions.c. */
#include "rules/sessions_decode.h"

#include <string.h>

#include "core/session/branches.h"
#include "rules/secret_decode.h"

#define SECOND WEIR_NS_PER_SECOND
#define MS (SECOND / 1000)
#define OF(member) offsetof(struct weir_config_sessions, member)
#define SERVER_NAME_MAX 63
#define KEY_ID_MAX 255
#define BRANCH_TABLE_MAX (2 * WEIR_BRANCH_NAME_MAX + 1)
#define FREEZE_POLLS_MIN 2 /* a standby that was asked once may have stood still by chance */

/* ---- servers ---- */

/* It goes into metrics and messages, and says which replica is meant for as long as there is one. */
static int name_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                     void *target)
{
    static const char legal[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
    int error = weir_decode_text(decode, value, field, target);
    if (!error && strspn(value->text.data, legal) != value->text.size)
        error = weir_config_fail(decode->fault, WEIR_EINVAL, value->mark,
                                 "the name \"%.63s\" must be made of letters, digits, _, - and .",
                                 (const char *)value->text.data);
    return error;
}

#define AT(member) offsetof(struct weir_config_session_server, member)

static const struct weir_field server_fields[] = {
    { "name", name_read, AT(name), true, 1, SERVER_NAME_MAX, NULL },
    { "url", weir_password_decode, AT(url), false, 0, 0, NULL },
    { "url_file", weir_password_file_decode, AT(url), false, 0, 0, NULL },
};

#undef AT

static int server_decode(struct weir_decode *decode, const struct weir_yaml_node *node,
                         struct weir_config_sessions *sessions)
{
    struct weir_config_session_server server = { 0 };
    int error = weir_decode_map(decode, node, "a server", server_fields, WEIR_COUNT_OF(server_fields), &server);
    if (error)
        return error;
    if (!weir_yaml_find(node, "url") == !weir_yaml_find(node, "url_file"))
        return weir_config_fail(decode->fault, WEIR_EPROTO, node->mark, "a server must have url or url_file");
    for (size_t i = 0; i < sessions->servers_count; i++)
        if (strcmp(sessions->servers[i].name, server.name) == 0)
            return weir_config_fail(decode->fault, WEIR_EEXIST, node->mark, "the name \"%s\" is taken by another",
                                    server.name);
    sessions->servers[sessions->servers_count++] = server;
    return 0;
}

static int servers_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                        void *target)
{
    struct weir_config_sessions *sessions = target;
    int error = weir_decode_list(decode, value, field->name, 1, WEIR_SERVERS_MAX, sizeof(*sessions->servers),
                                 &sessions->servers);
    for (const struct weir_yaml_node *item = value->first; item && !error; item = item->next)
        error = server_decode(decode, item, sessions);
    return error;
}

/* ---- keys ---- */

static int key_file_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                         void *target)
{
    struct weir_slice key = { NULL, 0 };
    int error = weir_secret_file_decode(decode, value, field->name, WEIR_SECRET_PASSWORD, &key);
    if (!error && (key.size < WEIR_SESSION_KEY_MIN || key.size > WEIR_SESSION_KEY_MAX))
        error = weir_config_fail(decode->fault, WEIR_ERANGE, value->mark,
                                 "the first line of a key's file must be %d to %d bytes: openssl rand -hex 32",
                                 WEIR_SESSION_KEY_MIN, WEIR_SESSION_KEY_MAX);
    if (!error)
        memcpy(target, &key, sizeof(key));
    return error;
}

#define AT(member) offsetof(struct weir_config_session_key, member)

static const struct weir_field key_fields[] = {
    { "id", weir_decode_u32, AT(id), true, 0, KEY_ID_MAX, NULL },
    { "file", key_file_read, AT(key), true, 0, 0, NULL },
};

#undef AT

static int key_decode(struct weir_decode *decode, const struct weir_yaml_node *node,
                      struct weir_config_sessions *sessions)
{
    struct weir_config_session_key key = { 0 };
    int error = weir_decode_map(decode, node, "a key", key_fields, WEIR_COUNT_OF(key_fields), &key);
    if (error)
        return error;
    for (size_t i = 0; i < sessions->keys_count; i++)
        if (sessions->keys[i].id == key.id)
            return weir_config_fail(decode->fault, WEIR_EEXIST, node->mark, "the id %u is taken by another key",
                                    key.id);
    sessions->keys[sessions->keys_count++] = key;
    return 0;
}

static int keys_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                     void *target)
{
    struct weir_config_sessions *sessions = target;
    int error = weir_decode_list(decode, value, field->name, 1, WEIR_SESSION_KEYS_MAX, sizeof(*sessions->keys),
                                 &sessions->keys);
    for (const struct weir_yaml_node *item = value->first; item && !error; item = item->next)
        error = key_decode(decode, item, sessions);
    return error;
}

/* ---- users ---- */

static bool begins(struct weir_slice text, const char *with)
{
    return text.size > strlen(with) && memcmp(text.data, with, strlen(with)) == 0;
}

/* Size 0: in memory. */
static int users_check(struct weir_decode *decode, struct weir_mark mark, struct weir_slice *users)
{
    if (users->size == 6 && memcmp(users->data, "memory", 6) == 0) {
        *users = (struct weir_slice){ NULL, 0 };
        return 0;
    }
    if (begins(*users, "redis://") || begins(*users, "postgresql://") || begins(*users, "postgres://"))
        return 0;
    return weir_config_fail(decode->fault, WEIR_EINVAL, mark, /* it may hold a password: not shown */
                            "users must be memory, redis://… or postgresql://…");
}

static int users_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                      void *target)
{
    int error = weir_password_decode(decode, value, field, target);
    return error ? error : users_check(decode, value->mark, target);
}

static int users_file_read(struct weir_decode *decode, const struct weir_yaml_node *value,
                           const struct weir_field *field, void *target)
{
    int error = weir_password_file_decode(decode, value, field, target);
    return error ? error : users_check(decode, value->mark, target);
}

static int branch_table_read(struct weir_decode *decode, const struct weir_yaml_node *value,
                             const struct weir_field *field, void *target)
{
    int error = weir_decode_text(decode, value, field, target);
    if (!error && !weir_branches_is_name(value->text.data, value->text.size))
        error = weir_config_fail(decode->fault, WEIR_EINVAL, value->mark, "branch_table " WEIR_BRANCH_NAME_RULE);
    return error;
}

/* ---- the section ---- */

static const struct weir_field sessions_fields[] = {
    { "servers", servers_read, 0, true, 0, 0, NULL },
    { "users", users_read, OF(users), false, 0, 0, NULL },
    { "users_file", users_file_read, OF(users), false, 0, 0, NULL },
    { "users_max", weir_decode_u64, OF(users_max), false, 1, 100000000, NULL },
    { "ttl", weir_decode_duration, OF(ttl_ns), false, SECOND, 366 * 86400 * SECOND, NULL },
    { "keys", keys_read, 0, false, 0, 0, NULL },
    { "poll", weir_decode_duration, OF(poll_ns), false, 10 * MS, 10 * SECOND, NULL },
    { "freeze", weir_decode_duration, OF(freeze_ns), false, 20 * MS, 600 * SECOND, NULL },
    { "timeout", weir_decode_duration, OF(timeout_ns), false, 50 * MS, 60 * SECOND, NULL },
    { "window", weir_decode_duration, OF(window_ns), false, MS, 3600 * SECOND, NULL },
    { "branch_table", branch_table_read, OF(branch_table), false, 1, BRANCH_TABLE_MAX, NULL },
    { "waiters_max", weir_decode_u32, OF(waiters_max), false, 1, 1000000, NULL },
};

static int sessions_check(struct weir_decode *decode, const struct weir_yaml_node *map,
                          const struct weir_config_sessions *sessions)
{
    const struct weir_yaml_node *file = weir_yaml_find(map, "users_file"), *ttl = weir_yaml_find(map, "ttl"),
                                *max = weir_yaml_find(map, "users_max");
    if (file && weir_yaml_find(map, "users"))
        return weir_config_fail(decode->fault, WEIR_EINVAL, file->mark, "users and users_file exclude each other");
    if (ttl && sessions->users.size == 0)
        return weir_config_fail(decode->fault, WEIR_EINVAL, ttl->mark,
                                "ttl is for users in redis or postgresql: memory has users_max");
    if (max && sessions->users.size > 0)
        return weir_config_fail(decode->fault, WEIR_EINVAL, max->mark,
                                "users_max is for users: memory; redis and postgresql have ttl");
    if (sessions->freeze_ns < FREEZE_POLLS_MIN * sessions->poll_ns)
        return weir_config_fail(decode->fault, WEIR_ERANGE, map->mark,
                                "freeze must be at least %d times poll, to tell a frozen standby from one that was "
                                "asked too soon",
                                FREEZE_POLLS_MIN);
    return 0;
}

int weir_sessions_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                         void *target)
{
    struct weir_config *config = target;
    int error = weir_decode_map(decode, value, field->name, sessions_fields, WEIR_COUNT_OF(sessions_fields),
                                &config->sessions);
    return error ? error : sessions_check(decode, value, &config->sessions);
}
