/* SPDX-License-Identifier: Apache-2.0
 *
 * Gathers every attribute's name with its place and sorts them without regard to case, - and _, so that names that
 * differ only in these are neighbours. The table in right_name() has the names that people give to what /v1/auth calls
 * route, method and ip. Called by warnings.c; the attributes of /v1/auth are made in wire/forwarded.c. */
#include "rules/attribute_warnings.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "rules/condition.h"

/* A name, and where it stands first. */
struct named {
    const char *name;
    struct weir_mark mark;
};

static int folded(char letter)
{
    return letter == '-' ? '_' : tolower((unsigned char)letter);
}

static int compare_folded(const char *a, const char *b)
{
    while (*a && folded(*a) == folded(*b)) {
        a++;
        b++;
    }
    return folded(*a) - folded(*b);
}

static int by_name(const void *a, const void *b)
{
    const struct named *left = a;
    const struct named *right = b;
    int order = compare_folded(left->name, right->name);
    if (!order)
        order = strcmp(left->name, right->name);
    if (!order)
        order = (left->mark.line > right->mark.line) - (left->mark.line < right->mark.line);
    return order ? order : (left->mark.column > right->mark.column) - (left->mark.column < right->mark.column);
}

static size_t gather(const struct weir_config *config, struct named *list)
{
    size_t count = 0;
    for (size_t i = 0; i < config->limits_count; i++) {
        const struct weir_config_limit *limit = &config->limits[i];
        for (size_t j = 0; j < limit->match_count; j++)
            list[count++] = (struct named){ limit->match[j].attribute, limit->match[j].mark };
        for (size_t j = 0; j < limit->key_count; j++)
            list[count++] = (struct named){ limit->key[j], limit->mark_key };
        if (limit->cost_attribute)
            list[count++] = (struct named){ limit->cost_attribute, limit->mark_cost };
    }
    return count;
}

/* What /v1/auth calls that; NULL: nothing that is known. */
static const char *right_name(const char *name)
{
    static const char *const names[][2] = {
        { "path", "route" },
        { "uri", "route" },
        { "url", "route" },
        { "request_uri", "route" },
        { "verb", "method" },
        { "http_method", "method" },
        { "request_method", "method" },
        { "client_ip", "ip" },
        { "clientip", "ip" },
        { "remote_ip", "ip" },
        { "remote_addr", "ip" },
        { "remote_address", "ip" },
        { "ip_address", "ip" },
        { "source_ip", "ip" },
        { "address", "ip" },
        { "x_forwarded_for", "ip" },
        { "x_real_ip", "ip" },
        { "route", "route" },
        { "method", "method" },
        { "ip", "ip" },
        { "authorization", "authorization" },
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (compare_folded(names[i][0], name) == 0)
            return strcmp(names[i][1], name) == 0 ? NULL : names[i][1];
    return NULL;
}

static bool has_capitals(const char *name)
{
    for (; *name; name++)
        if (isupper((unsigned char)*name))
            return true;
    return false;
}

/* Where a proxy asks /v1/auth. */
static int proxy_check(struct weir_decode *decode, const struct named *named)
{
    const char *right = right_name(named->name);
    if (right)
        return weir_decode_warn(decode, named->mark,
                                "attribute \"%s\" comes from no proxy by itself: /v1/auth calls it \"%s\"", named->name,
                                right);
    if (strcmp(named->name, "cost") == 0)
        return weir_decode_warn(decode, named->mark,
                                "attribute \"cost\" never comes over /v1/auth, where no proxy states it: call it "
                                "something else");
    if (has_capitals(named->name))
        return weir_decode_warn(decode, named->mark,
                                "attribute \"%s\" never comes from a field X-Weir-%s, whose name is taken in small "
                                "letters",
                                named->name, named->name);
    return 0;
}

static int names_check(struct weir_decode *decode, const struct named *list, size_t count)
{
    bool proxied = decode->config->http_rules.forwarded != WEIR_FORWARDED_NONE;
    int error = 0;
    for (size_t i = 0; i < count && !error; i++) {
        const struct named *before = i ? &list[i - 1] : NULL;
        if (before && strcmp(before->name, list[i].name) == 0)
            continue;
        if (proxied)
            error = proxy_check(decode, &list[i]);
        while (before && before > list && strcmp(before[-1].name, before->name) == 0)
            before--; /* where that name stands first */
        if (!error && before && compare_folded(before->name, list[i].name) == 0)
            error = weir_decode_warn(
                decode, list[i].mark,
                "attribute \"%s\" is another one than \"%s\" at line %u: names are compared byte by "
                "byte",
                list[i].name, before->name, before->mark.line);
    }
    return error;
}

/* A route that no path begins like. */
static int routes_check(struct weir_decode *decode, const struct weir_config_limit *limit)
{
    static const struct weir_condition path = { .attribute = "route", .pattern = { "/*", 2 } };
    int error = 0;
    for (size_t i = 0; i < limit->match_count && !error; i++)
        if (strcmp(limit->match[i].attribute, path.attribute) == 0 && weir_conditions_conflict(&limit->match[i], &path))
            error = weir_decode_warn(decode, limit->match[i].mark,
                                     "limit \"%s\" never matches over /v1/auth: each route there begins with \"/\"",
                                     limit->name);
    return error;
}

int weir_attributes_check(struct weir_decode *decode)
{
    const struct weir_config *config = decode->config;
    size_t room = 1;
    for (size_t i = 0; i < config->limits_count; i++)
        room += config->limits[i].match_count + config->limits[i].key_count + 1;
    struct named *list = malloc(room * sizeof(*list));
    if (!list)
        return weir_decode_nomem(decode);
    size_t count = gather(config, list);
    qsort(list, count, sizeof(*list), by_name);
    int error = names_check(decode, list, count);
    free(list);
    for (size_t i = 0; i < config->limits_count && !error && config->http_rules.forwarded != WEIR_FORWARDED_NONE; i++)
        error = routes_check(decode, &config->limits[i]);
    return error;
}
