/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends one GET /v1/limits (client.c) and copies what the reply says of the configuration. Of its limits it keeps those
 * that another node's definition replaces or that the server does not understand. Whether a file is in force is decided
 * by the checksum of its text; its path only tells a file that changed from another file. Called by explain.c. */
#include "cli/in_force.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "cli/plain.h"
#include "wire/limits.h"

static void copy_text(const json_t *body, const char *member, char *ret_text, size_t size)
{
    const char *text = json_string_value(json_object_get(body, member));
    (void)snprintf(ret_text, size, "%s", text ? text : "");
}

/* Those whose newest definition is another node's. NULL without memory. */
static json_t *read_others(json_t *limits)
{
    json_t *others = json_object(), *limit;
    size_t index;
    json_array_foreach(limits, index, limit)
    {
        const char *name = json_string_value(json_object_get(limit, "limit"));
        bool other = json_is_true(json_object_get(limit, "replaced")) ||
                     json_is_true(json_object_get(limit, "undecidable"));
        if (other && name)
            (void)json_object_set(others, name, limit);
    }
    return others;
}

static int read_answer(const struct weir_client_answer *answer, struct weir_in_force *ret_in_force, char *ret_problem,
                       size_t problem_size)
{
    json_t *body = json_loadb(answer->body, answer->size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    const char *detail = json_string_value(json_object_get(body, "detail"));
    bool told = answer->status == 200 && json_is_string(json_object_get(body, "checksum"));
    if (told) {
        ret_in_force->known = true;
        copy_text(body, "source", ret_in_force->source, sizeof(ret_in_force->source));
        copy_text(body, "checksum", ret_in_force->checksum, sizeof(ret_in_force->checksum));
        copy_text(body, "since", ret_in_force->since, sizeof(ret_in_force->since));
        copy_text(body, "by", ret_in_force->by, sizeof(ret_in_force->by));
        copy_text(body, "node", ret_in_force->node, sizeof(ret_in_force->node));
        const json_t *version = json_object_get(json_object_get(body, "rules"), "version");
        ret_in_force->version = (uint64_t)json_integer_value(version);
        ret_in_force->others = read_others(json_object_get(body, "limits"));
    } else {
        (void)snprintf(ret_problem, problem_size, "the server answered %d%s%s", answer->status, detail ? ": " : "",
                       detail ? detail : "");
    }
    json_decref(body);
    return told ? 0 : WEIR_EPROTO;
}

int weir_in_force_ask(const struct weir_client_options *options, struct weir_in_force *ret_in_force, char *ret_problem,
                      size_t problem_size)
{
    struct weir_client_answer answer = { 0 };
    *ret_in_force = (struct weir_in_force){ 0 };
    int error = weir_client_get(options, "/v1/limits", &answer, ret_problem, problem_size);
    if (!error)
        error = read_answer(&answer, ret_in_force, ret_problem, problem_size);
    free(answer.body);
    return error;
}

void weir_in_force_note(const struct weir_in_force *in_force, const char *server, const struct weir_config *config,
                        const char *file)
{
    char checksum[WEIR_LIMITS_CHECKSUM_SIZE];
    char what[WEIR_PLAIN_SIZE(PATH_MAX)], other[WEIR_PLAIN_SIZE(PATH_MAX)],
        since[WEIR_PLAIN_SIZE(sizeof(in_force->since))];
    char by[WEIR_PLAIN_SIZE(sizeof(in_force->by))];
    size_t others = json_object_size(in_force->others);
    (void)weir_plain(file ? file : "the built-in example", what, sizeof(what));
    (void)weir_plain(in_force->source[0] ? in_force->source : "the built-in example", other, sizeof(other));
    (void)weir_plain(in_force->since, since, sizeof(since));
    (void)weir_plain(in_force->by, by, sizeof(by));
    weir_limits_checksum(config->checksum, checksum);
    if (!in_force->known)
        fprintf(stderr, "weir: of %s; no server answers at %s\n", what, server);
    else if (strcmp(checksum, in_force->checksum) == 0 && others > 0)
        fprintf(stderr,
                "weir: warning: of %s, in force at %s since %s by %s, but for %zu limit%s that other nodes define\n",
                what, server, since, by, others, weir_s(others));
    else if (strcmp(checksum, in_force->checksum) == 0)
        fprintf(stderr, "weir: of %s, in force at %s since %s by %s\n", what, server, since, by);
    else if (in_force->source[0] && file && strcmp(in_force->source, file) == 0)
        fprintf(stderr,
                "weir: warning: of %s as it is now, which is NOT in force at %s: it has changed since it was read "
                "there (%s, by %s); SIGHUP has it read again\n",
                what, server, since, by);
    else
        fprintf(stderr,
                "weir: warning: of %s, which is NOT in force at %s: that has had other limits, of %s, since %s "
                "by %s\n",
                what, server, other, since, by);
}

const json_t *weir_in_force_other(const struct weir_in_force *in_force, const char *name)
{
    return json_object_get(in_force->others, name);
}

void weir_in_force_deinit(struct weir_in_force *in_force)
{
    json_decref(in_force->others);
    in_force->others = NULL;
}
