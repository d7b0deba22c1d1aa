/* SPDX-License-Identifier: Apache-2.0 */
#include "recorded.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weir/error.h"

static const char *const kind_names[WEIR_JUDGE_KINDS] = { "read", "write", "stale", "unknown", "lost", "cut" };

static int fail(struct recorded *recorded, unsigned line, const char *what, const char *detail)
{
    (void)snprintf(recorded->fault, sizeof(recorded->fault), "%s%s", what, detail);
    recorded->faulty_line = line;
    return WEIR_EPROTO;
}

/* Room for one more; NULL without memory. */
static void *grown(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    size_t wanted = *room > 0 ? 2 * *room : 64;
    void *more = realloc(array, wanted * size);
    if (more)
        *room = wanted;
    return more;
}

/* The number of a name, from 1; 0 without memory. There are few enough names to look at all. */
static size_t name_number(struct recorded_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->names[i], name) == 0)
            return i + 1;
    }
    char **more = realloc(names->names, (names->count + 1) * sizeof(*more));
    if (!more)
        return 0;
    names->names = more;
    more[names->count] = strdup(name);
    return more[names->count] ? ++names->count : 0;
}

static int header_read(struct recorded *recorded, const json_t *object, unsigned line)
{
    const char *about = json_string_value(json_object_get(object, "about"));
    if (line != 1 || !about)
        return fail(recorded, line, "neither an operation nor a header", "");
    (void)snprintf(recorded->about, sizeof(recorded->about), "%s", about);
    recorded->line = (uint64_t)json_integer_value(json_object_get(object, "line"));
    recorded->lost = (uint64_t)json_integer_value(json_object_get(object, "lost"));
    recorded->without_need = (uint64_t)json_integer_value(json_object_get(object, "lost_without_need"));
    size_t i;
    json_t *name;
    json_array_foreach(json_object_get(object, "broken"), i, name)
    {
        for (unsigned j = 0; j < WEIR_GUARANTEES; j++) {
            if (json_is_string(name) && strcmp(json_string_value(name), weir_guarantee_name(j)) == 0)
                recorded->broken |= 1U << j;
        }
    }
    return 0;
}

static int number_read(struct recorded *recorded, const json_t *object, unsigned line, const char *key, bool needed,
                       uint64_t *ret_number)
{
    const json_t *value = json_object_get(object, key);
    if (value ? !json_is_integer(value) || json_integer_value(value) < 0 : needed)
        return fail(recorded, line, key, ": must be a whole number of 0 or more");
    *ret_number = (uint64_t)json_integer_value(value);
    return 0;
}

/* The name of `key`, as a number; *ret_number stays 0 where there is none and none is needed. */
static int name_read(struct recorded *recorded, const json_t *object, unsigned line, const char *key, bool needed,
                     struct recorded_names *names, uint64_t *ret_number)
{
    const char *name = json_string_value(json_object_get(object, key));
    if (!needed)
        return 0;
    if (!name)
        return fail(recorded, line, key, ": must be a name");
    *ret_number = name_number(names, name);
    return *ret_number == 0 ? WEIR_ENOMEM : 0;
}

static int event_read(struct recorded *recorded, const json_t *object, unsigned line)
{
    const char *op = json_string_value(json_object_get(object, "op"));
    if (!op)
        return header_read(recorded, object, line);
    struct weir_judge_event event = { .kind = WEIR_JUDGE_READ, .id = line };
    while (event.kind < WEIR_JUDGE_KINDS && strcmp(kind_names[event.kind], op) != 0)
        event.kind++;
    if (event.kind == WEIR_JUDGE_KINDS)
        return fail(recorded, line, "there is no operation ", op);
    bool cut = event.kind == WEIR_JUDGE_CUT, lost = event.kind == WEIR_JUDGE_LOST;
    bool versioned = event.kind == WEIR_JUDGE_READ || event.kind == WEIR_JUDGE_WRITE || cut;
    uint64_t server = 0;
    int failed = number_read(recorded, object, line, "start_ns", true, &event.start_ns);
    if (failed == 0)
        failed = number_read(recorded, object, line, "end_ns", true, &event.end_ns);
    if (failed == 0)
        failed = number_read(recorded, object, line, "version", versioned, &event.version);
    if (failed == 0)
        failed = name_read(recorded, object, line, "session", !cut, &recorded->sessions, &event.session);
    if (failed == 0)
        failed = name_read(recorded, object, line, "key", !lost, &recorded->keys, &event.key);
    if (failed == 0)
        failed = name_read(recorded, object, line, "server", !cut && !lost, &recorded->servers, &server);
    if (failed != 0)
        return failed;
    event.server = server > 0 ? (uint32_t)(server - 1) : 0;
    struct weir_judge_event *events = grown(recorded->events, recorded->count, &recorded->room,
                                            sizeof(*recorded->events));
    if (!events)
        return WEIR_ENOMEM;
    recorded->events = events;
    events[recorded->count++] = event;
    return 0;
}

static int line_read(struct recorded *recorded, const char *text, unsigned line)
{
    json_error_t error;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        return fail(recorded, line, "not JSON: ", error.text);
    int failed = json_is_object(object) ? event_read(recorded, object, line)
                                        : fail(recorded, line, "not an object", "");
    json_decref(object);
    return failed;
}

static int by_start(const void *a, const void *b)
{
    const struct weir_judge_event *x = a, *y = b;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

int recorded_load(const char *path, struct recorded *ret_recorded)
{
    struct recorded recorded = { .count = 0 };
    FILE *file = fopen(path, "r");
    int failed = file ? 0 : WEIR_EIO;
    char *text = NULL;
    size_t room = 0;
    for (unsigned line = 1; failed == 0 && getline(&text, &room, file) != -1; line++) {
        if (text[strspn(text, " \t\r\n")] != '\0')
            failed = line_read(&recorded, text, line);
    }
    if (failed == 0 && ferror(file))
        failed = WEIR_EIO;
    if (file)
        (void)fclose(file);
    free(text);
    if (failed != 0 && recorded.fault[0] == '\0')
        (void)snprintf(recorded.fault, sizeof(recorded.fault), "%s", weir_error_text(failed));
    if (failed != 0)
        recorded_free(&recorded);
    else if (recorded.count > 0)
        qsort(recorded.events, recorded.count, sizeof(*recorded.events), by_start);
    *ret_recorded = recorded;
    return failed;
}

static void names_free(struct recorded_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->names[i]);
    free(names->names);
    *names = (struct recorded_names){ .count = 0 };
}

void recorded_free(struct recorded *recorded)
{
    free(recorded->events);
    recorded->events = NULL;
    recorded->count = recorded->room = 0;
    names_free(&recorded->sessions);
    names_free(&recorded->keys);
    names_free(&recorded->servers);
}

/* ---- judging ---- */

static void told(void *context, const struct weir_judge_violation *violation)
{
    struct recorded_verdict *verdict = context;
    size_t count = verdict->judge.counts.violated - 1; /* this one is counted already */
    struct weir_judge_violation *more = grown(verdict->violations, count, &verdict->room, sizeof(*more));
    if (!more)
        abort();
    verdict->violations = more;
    more[count] = *violation;
}

/* One for each session, each key and each pair of the two, but of pairs no more than there are events. */
static size_t slots_needed(const struct recorded *recorded)
{
    size_t sessions = recorded->sessions.count, keys = recorded->keys.count;
    size_t pairs = sessions > 0 && keys > recorded->count / sessions ? recorded->count : sessions * keys;
    return (sessions + keys + pairs) * 3 / 2 + 1;
}

int recorded_judge(const struct recorded *recorded, size_t slot_count, struct recorded_verdict *ret_verdict,
                   uint64_t *ret_line)
{
    struct recorded_verdict verdict = { .room = 0 };
    if (slot_count == 0)
        slot_count = slots_needed(recorded);
    size_t server_count = recorded->servers.count > 0 ? recorded->servers.count : 1;
    struct weir_judge_slot *slots = calloc(slot_count, sizeof(*slots));
    verdict.servers = calloc(server_count, sizeof(*verdict.servers));
    if (!slots || !verdict.servers) {
        free(slots);
        free(verdict.servers);
        return WEIR_ENOMEM;
    }
    weir_judge_init(&verdict.judge, slots, slot_count, verdict.servers, (uint32_t)server_count);
    verdict.judge.tell = told;
    verdict.judge.context = &verdict;
    *ret_line = 0;
    for (size_t i = 0; i < recorded->count && *ret_line == 0; i++) {
        if (weir_judge_feed(&verdict.judge, recorded->events[i]) != 0)
            *ret_line = recorded->events[i].id;
    }
    int failed = weir_judge_finish(&verdict.judge);
    free(slots);
    verdict.judge.slots = NULL;
    verdict.judge.context = NULL;
    *ret_verdict = verdict;
    return failed;
}

void recorded_verdict_free(struct recorded_verdict *verdict)
{
    free(verdict->servers);
    free(verdict->violations);
    verdict->servers = NULL;
    verdict->violations = NULL;
}
