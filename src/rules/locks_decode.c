/* SPDX-License-Identifier: Apache-2.0
 *
 * Called by config.c through the table of sections. The table `only` says which keys are for one engine; locks_check
 * refuses them with another, and says which keys an engine lacks. No store is opened here: cli/serve_locks.c does that.
 * An endpoint with a user in it is refused and not shown, because it may hold a password. */
#include "rules/locks_decode.h"

#include <limits.h>
#include <string.h>

#include "rules/secret_decode.h"

#define SECOND WEIR_NS_PER_SECOND
#define OF(member) offsetof(struct weir_config_locks, member)
#define ENDPOINT_MAX 256
#define PREFIX_MAX 128
#define TABLE_PART_MAX 50 /* leaves PostgreSQL's 63 room for what is added to it */
#define USERNAME_MAX 512

/* ---- values ---- */

/* The size of a name that needs no quotes in SQL; 0: it is none. */
static size_t table_part(const char *text)
{
    size_t size = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return size > TABLE_PART_MAX || (text[0] >= '0' && text[0] <= '9') ? 0 : size;
}

static int table_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                      void *target)
{
    int error = weir_decode_text(decode, value, field, target);
    if (error)
        return error;
    const char *text = value->text.data, *last = text;
    size_t size = table_part(last);
    if (size > 0 && last[size] == '.') {
        last += size + 1;
        size = table_part(last);
    }
    if (size == 0 || (size_t)(last + size - text) != value->text.size)
        return weir_config_fail(decode->fault, WEIR_EINVAL, value->mark,
                                "table \"%.101s\" must be NAME or SCHEMA.NAME, each made of at most 50 of a-z, 0-9 "
                                "and _, and not begin with a digit",
                                text);
    return 0;
}

static int endpoint_read(struct weir_decode *decode, const struct weir_yaml_node *item, const char **ret_endpoint)
{
    static const struct weir_field field = { .name = "an endpoint", .max = ENDPOINT_MAX };
    int error = weir_decode_text(decode, item, &field, ret_endpoint);
    if (error)
        return error;
    const char *text = item->text.data;
    bool known = strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
    if (!known || strpbrk(text, " \t\r\n@")) /* what stands before an @ would be a password: never shown */
        return weir_config_fail(decode->fault, WEIR_EINVAL, item->mark,
                                "an endpoint must be http://HOST:PORT or https://HOST:PORT, without a user");
    return 0;
}

static int endpoints_read(struct weir_decode *decode, const struct weir_yaml_node *value,
                          const struct weir_field *field, void *target)
{
    struct weir_config_locks *locks = target;
    int error = weir_decode_list(decode, value, field->name, 1, WEIR_ENDPOINTS_MAX, sizeof(*locks->endpoints),
                                 &locks->endpoints);
    for (const struct weir_yaml_node *item = value->first; item && !error; item = item->next)
        error = endpoint_read(decode, item, &locks->endpoints[locks->endpoints_count++]);
    return error;
}

/* ---- the section ---- */

static const char *const engine_words[] = { "none", "sqlite", "postgres", "etcd", NULL };

static int engine_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target)
{
    struct weir_field word = { .name = field->name, .names = engine_words + 1 };
    unsigned index = 0;
    int error = weir_decode_word(decode, value, &word, &index);
    enum weir_config_lock_engine engine = (enum weir_config_lock_engine)(index + 1);
    if (!error)
        memcpy(target, &engine, sizeof(engine));
    return error;
}

static const struct weir_field locks_fields[] = {
    { "engine", engine_read, OF(engine), true, 0, 0, NULL },
    { "path", weir_decode_text, OF(path), false, 1, PATH_MAX - 1, NULL },
    { "witness", weir_decode_text, OF(witness), false, 1, PATH_MAX - sizeof ".next", NULL },
    { "conninfo", weir_password_decode, OF(conninfo), false, 0, 0, NULL },
    { "conninfo_file", weir_password_file_decode, OF(conninfo), false, 0, 0, NULL },
    { "table", table_read, OF(table), false, 1, 2 * TABLE_PART_MAX + 1, NULL },
    { "endpoints", endpoints_read, 0, false, 0, 0, NULL },
    { "prefix", weir_decode_text, OF(prefix), false, 1, PREFIX_MAX, NULL },
    { "username", weir_decode_text, OF(username), false, 1, USERNAME_MAX, NULL },
    { "password_file", weir_password_file_decode, OF(password), false, 0, 0, NULL },
    { "ca_file", weir_decode_text, OF(ca_file), false, 1, PATH_MAX - 1, NULL },
    { "waiters_max", weir_decode_u32, OF(waiters_max), false, 1, 1000000, NULL },
    { "timeout", weir_decode_duration, OF(timeout_ns), false, SECOND / 10, 60 * SECOND, NULL },
};

/* Which engines a key is for; what is not here is for all. */
static const struct {
    const char *key;
    enum weir_config_lock_engine engine;
} only[] = {
    { "path", WEIR_LOCKS_SQLITE },    { "conninfo", WEIR_LOCKS_POSTGRES },  { "conninfo_file", WEIR_LOCKS_POSTGRES },
    { "table", WEIR_LOCKS_POSTGRES }, { "endpoints", WEIR_LOCKS_ETCD },     { "prefix", WEIR_LOCKS_ETCD },
    { "username", WEIR_LOCKS_ETCD },  { "password_file", WEIR_LOCKS_ETCD }, { "ca_file", WEIR_LOCKS_ETCD },
};

static int lacks(struct weir_decode *decode, const struct weir_yaml_node *map, const char *engine, const char *key)
{
    return weir_config_fail(decode->fault, WEIR_EPROTO, map->mark, "locks with engine: %s lacks the key \"%s\"", engine,
                            key);
}

static int locks_check(struct weir_decode *decode, const struct weir_yaml_node *map,
                       const struct weir_config_locks *locks)
{
    const char *engine = engine_words[locks->engine];
    for (size_t i = 0; i < WEIR_COUNT_OF(only); i++) {
        const struct weir_yaml_node *key = weir_yaml_find(map, only[i].key);
        if (key && only[i].engine != locks->engine)
            return weir_config_fail(decode->fault, WEIR_EINVAL, key->mark, "%s is for engine: %s, not for %s",
                                    only[i].key, engine_words[only[i].engine], engine);
    }
    const struct weir_yaml_node *file = weir_yaml_find(map, "conninfo_file");
    if (file && weir_yaml_find(map, "conninfo"))
        return weir_config_fail(decode->fault, WEIR_EINVAL, file->mark,
                                "conninfo and conninfo_file exclude each other");
    if (locks->engine == WEIR_LOCKS_SQLITE && !locks->path)
        return lacks(decode, map, engine, "path");
    if (locks->engine == WEIR_LOCKS_POSTGRES && !locks->conninfo.size)
        return lacks(decode, map, engine, "conninfo");
    if (locks->engine == WEIR_LOCKS_ETCD && !locks->endpoints_count)
        return lacks(decode, map, engine, "endpoints");
    if (locks->engine != WEIR_LOCKS_SQLITE && !locks->witness)
        return lacks(decode, map, engine, "witness");
    if (!locks->username != !locks->password.size)
        return weir_config_fail(decode->fault, WEIR_EINVAL, map->mark, "username and password_file need each other");
    return 0;
}

int weir_locks_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                      void *target)
{
    struct weir_config *config = target;
    int error = weir_decode_map(decode, value, field->name, locks_fields, WEIR_COUNT_OF(locks_fields), &config->locks);
    return error ? error : locks_check(decode, value, &config->locks);
}

const char *weir_config_lock_engine_name(enum weir_config_lock_engine engine)
{
    return engine_words[engine];
}
