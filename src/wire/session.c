/* SPDX-License-Identifier: Apache-2.0
 *
 * A table has each member of a request: its name, the calls that may have it, and the function that reads it. Any other
 * is refused, with the names that the call knows. Called by serve/http_sessions.c, and by sessions_view.c for the
 * servers; a token's text is core/session/token_text.c. */
#include "wire/session.h"

#include <stdio.h>

#include "wire/http_answer.h"
#include "wire/json.h"

#define WAIT_DEFAULT_MS 500

/* ---- members ---- */

struct member {
    const char *name;
    unsigned calls; /* bits of enum weir_session_call */
    int (*read)(const json_t *value, const struct member *member, struct weir_session_question *question,
                struct weir_fault *fault);
    size_t offset, size_min, size_max; /* of texts: where they go, and their length */
    const char *const *words;          /* of words: ended by NULL; the index is the value */
};

static int read_slice(const json_t *value, const struct member *member, struct weir_slice *ret_slice,
                      struct weir_fault *fault)
{
    bool string = json_is_string(value);
    size_t size = json_string_length(value);
    if (!string || size < member->size_min || size > member->size_max)
        return weir_json_fail(fault, string ? WEIR_ERANGE : WEIR_EPROTO, member->name,
                              "must be a string of %zu to %zu bytes", member->size_min, member->size_max);
    *ret_slice = (struct weir_slice){ json_string_value(value), size };
    return 0;
}

static int read_text(const json_t *value, const struct member *member, struct weir_session_question *question,
                     struct weir_fault *fault)
{
    return read_slice(value, member, (struct weir_slice *)((uint8_t *)question + member->offset), fault);
}

static int read_user(const json_t *value, const struct member *member, struct weir_session_question *question,
                     struct weir_fault *fault)
{
    question->has_user = true;
    return read_slice(value, member, &question->user, fault);
}

static int read_index(const json_t *value, const struct member *member, unsigned *ret_index, struct weir_fault *fault)
{
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    char list[80] = "";
    size_t used = 0;
    for (unsigned i = 0; member->words[i]; i++) {
        if (strlen(text) == json_string_length(value) && strcmp(text, member->words[i]) == 0) {
            *ret_index = i;
            return 0;
        }
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", member->words[i]);
    }
    return weir_json_fail(fault, WEIR_EPROTO, member->name, "must be one of %s", list);
}

static int read_want(const json_t *value, const struct member *member, struct weir_session_question *question,
                     struct weir_fault *fault)
{
    unsigned index = 0;
    int error = read_index(value, member, &index, fault);
    question->write = index == 1;
    question->primary = index == 2;
    return error;
}

static const char *const strategy_words[] = { "tracked", "sticky", "window", NULL };
_Static_assert(WEIR_SESSION_TRACKED == 0 && WEIR_SESSION_STICKY == 1 && WEIR_SESSION_WINDOW == 2, "strategy_words");

static int read_strategy(const json_t *value, const struct member *member, struct weir_session_question *question,
                         struct weir_fault *fault)
{
    unsigned index = 0;
    int error = read_index(value, member, &index, fault);
    question->strategy = (enum weir_session_strategy)index;
    return error;
}

static const char *const behind_words[] = { "leader", "wait", "other", "stale", "error", NULL };
_Static_assert(WEIR_BEHIND_LEADER == 0 && WEIR_BEHIND_ERROR == 4, "behind_words");

static int read_behind(const json_t *value, const struct member *member, struct weir_session_question *question,
                       struct weir_fault *fault)
{
    unsigned index = 0;
    int error = read_index(value, member, &index, fault);
    question->behind = (enum weir_session_behind)index;
    return error;
}

static int read_wait(const json_t *value, const struct member *member, struct weir_session_question *question,
                     struct weir_fault *fault)
{
    return weir_json_integer(value, member->name, 0, WEIR_SESSION_WAIT_MAX_MS, &question->wait_ms, fault);
}

static int read_wrote(const json_t *value, const struct member *member, struct weir_session_question *question,
                      struct weir_fault *fault)
{
    if (!json_is_boolean(value))
        return weir_json_fail(fault, WEIR_EPROTO, member->name, "must be true or false");
    question->wrote = json_is_true(value);
    return 0;
}

static int read_list(const json_t *value, const struct member *member, size_t max, struct weir_slice *slices,
                     unsigned *ret_count, struct weir_fault *fault)
{
    if (!json_is_array(value) || json_array_size(value) > max)
        return weir_json_fail(fault, json_is_array(value) ? WEIR_ERANGE : WEIR_EPROTO, member->name,
                              "must be an array of at most %zu strings", max);
    *ret_count = 0;
    for (size_t i = 0; i < json_array_size(value); i++) {
        int error = read_slice(json_array_get(value, i), member, &slices[*ret_count], fault);
        if (error)
            return error;
        (*ret_count)++;
    }
    return 0;
}

static int read_avoid(const json_t *value, const struct member *member, struct weir_session_question *question,
                      struct weir_fault *fault)
{
    return read_list(value, member, WEIR_SESSION_AVOID_MAX, question->avoid, &question->avoid_count, fault);
}

static int places_twice(const struct weir_session_question *question, struct weir_fault *fault)
{
    return question->places_count ? weir_json_fail(fault, WEIR_EPROTO, "places", "place and places exclude each other")
                                  : 0;
}

static int read_place(const json_t *value, const struct member *member, struct weir_session_question *question,
                      struct weir_fault *fault)
{
    int error = places_twice(question, fault);
    if (!error)
        error = read_slice(value, member, &question->places[0], fault);
    question->places_count = error ? 0 : 1;
    return error;
}

static int read_places(const json_t *value, const struct member *member, struct weir_session_question *question,
                       struct weir_fault *fault)
{
    int error = places_twice(question, fault);
    return error ? error
                 : read_list(value, member, WEIR_SESSION_SEEN_MAX, question->places, &question->places_count, fault);
}

#define ROUTE (1U << WEIR_SESSION_CALL_ROUTE)
#define SEEN (1U << WEIR_SESSION_CALL_SEEN)
#define ACCEPT (1U << WEIR_SESSION_CALL_ACCEPT)
#define OF(member) offsetof(struct weir_session_question, member)

static const char *const want_words[] = { "read", "write", "primary", NULL };

static const struct member members[] = {
    { "token", ROUTE | SEEN | ACCEPT, read_text, OF(token), 0, WEIR_SESSION_TOKEN_MAX, NULL },
    { "user", ROUTE | SEEN | ACCEPT, read_user, 0, 1, WEIR_SESSION_ID_MAX, NULL },
    { "want", ROUTE, read_want, 0, 0, 0, want_words },
    { "session", ROUTE, read_text, OF(session), 1, WEIR_SESSION_ID_MAX, NULL },
    { "strategy", ROUTE, read_strategy, 0, 0, 0, strategy_words },
    { "behind", ROUTE, read_behind, 0, 0, 0, behind_words },
    { "wait_ms", ROUTE, read_wait, 0, 0, 0, NULL },
    { "stay", ROUTE, read_text, OF(stay), 1, WEIR_SESSION_NAME_MAX, NULL },
    { "avoid", ROUTE, read_avoid, 0, 1, WEIR_SESSION_NAME_MAX, NULL },
    { "place", SEEN, read_place, 0, 1, WEIR_SESSION_PLACE_MAX, NULL },
    { "places", SEEN, read_places, 0, 1, WEIR_SESSION_PLACE_MAX, NULL },
    { "wrote", SEEN, read_wrote, 0, 0, 0, NULL },
    { "server", SEEN, read_text, OF(server), 1, WEIR_SESSION_NAME_MAX, NULL },
};
#define MEMBERS (sizeof(members) / sizeof(members[0]))

/* ---- the question ---- */

static int unknown(const char *name, unsigned call, struct weir_fault *fault)
{
    char list[120] = "";
    size_t used = 0;
    for (size_t i = 0; i < MEMBERS; i++)
        if (members[i].calls & call)
            used += (size_t)snprintf(list + used, sizeof(list) - used, " %s", members[i].name);
    return weir_json_fail(fault, WEIR_EPROTO, name, "unknown member; known are%s", list);
}

static int read_member(const char *name, const json_t *value, unsigned call, struct weir_session_question *question,
                       struct weir_fault *fault)
{
    for (size_t i = 0; i < MEMBERS; i++)
        if ((members[i].calls & call) && strcmp(name, members[i].name) == 0)
            return members[i].read(value, &members[i], question, fault);
    return unknown(name, call, fault);
}

static int read_members(json_t *json, unsigned call, struct weir_session_question *question, struct weir_fault *fault)
{
    if (!json_is_object(json))
        return weir_json_fail(fault, WEIR_EPROTO, "body", "must be an object");
    for (void *at = json_object_iter(json); at; at = json_object_iter_next(json, at)) {
        int error = read_member(json_object_iter_key(at), json_object_iter_value(at), call, question, fault);
        if (error)
            return error;
    }
    if (question->has_user == (question->token.data != NULL))
        return weir_json_fail(fault, WEIR_EPROTO, "token",
                              question->has_user ? "token and user exclude each other"
                                                 : "is missing, and so is user: one of them says "
                                                   "what was seen (\"\" = nothing yet)");
    if ((call & SEEN) && question->places_count == 0)
        return weir_json_fail(fault, WEIR_EPROTO, "place", "is missing: what the place statement answered");
    bool sticky = question->strategy != WEIR_SESSION_TRACKED && !question->has_user && !question->session.size;
    if ((call & ROUTE) && sticky)
        return weir_json_fail(fault, WEIR_EPROTO, "session",
                              "is missing: sticky and window need to know whose server it is");
    return 0;
}

int weir_session_question_parse(enum weir_session_call call, const void *data, size_t size,
                                struct weir_session_question *ret_question, struct weir_fault *ret_fault)
{
    struct weir_session_question question = { .wait_ms = WAIT_DEFAULT_MS };
    int error = 0;
    json_t *json = weir_json_parse(data, size, &error, ret_fault);
    if (!json)
        return error;
    error = read_members(json, 1U << call, &question, ret_fault);
    if (error) {
        json_decref(json);
        return error;
    }
    question.json = json;
    *ret_question = question;
    return 0;
}

void weir_session_question_deinit(struct weir_session_question *question)
{
    json_decref(question->json);
    question->json = NULL;
}

/* ---- answers ---- */

static void string(struct weir_text *text, const char *member, const void *data, size_t size)
{
    weir_text_str(text, member);
    weir_text_json(text, data, size);
}

static void lag(struct weir_text *text, bool known, uint64_t lag_ms)
{
    if (known)
        weir_text_member_u64(text, ",\"lag_ms\":", lag_ms);
    else
        weir_text_lit(text, ",\"lag_ms\":null");
}

void weir_session_json_route(struct weir_text *text, const struct weir_session_told *told)
{
    weir_text_member(text, "{\"server\":", told->server);
    weir_text_str(text, told->primary ? ",\"role\":\"primary\"" : ",\"role\":\"standby\"");
    weir_text_str(text, told->stale ? ",\"verdict\":\"stale\"" : ",\"verdict\":\"ok\"");
    if (told->says_proven)
        weir_text_str(text, told->proven ? ",\"proven\":true" : ",\"proven\":false");
    lag(text, told->lag_known, told->lag_ms);
    weir_text_member_u64(text, ",\"holds_ms\":", told->holds_ms);
    string(text, ",\"check\":", told->check.data, told->check.size);
    string(text, ",\"place\":", told->place.data, told->place.size);
    string(text, ",\"token\":", told->token.data, told->token.size);
    weir_text_lit(text, "}");
}

void weir_session_json_token(struct weir_text *text, struct weir_slice token)
{
    string(text, "{\"token\":", token.data, token.size);
    weir_text_lit(text, "}");
}

void weir_session_json_problem(struct weir_text *text, int status, const char *verdict, const char *detail)
{
    weir_http_problem(text, status, detail);
    if (!text->overflow)
        text->size--; /* the closing brace */
    string(text, ",\"verdict\":", verdict, strlen(verdict));
    weir_text_lit(text, "}");
}

void weir_session_json_server(struct weir_text *text, const struct weir_session_server_told *told)
{
    weir_text_member(text, "{\"name\":", told->name);
    bool known = told->position[0] != '\0';
    if (known) {
        weir_text_member(text, ",\"role\":", told->role);
        weir_text_member_u64(text, ",\"timeline\":", told->timeline);
        weir_text_member(text, ",\"position\":", told->position);
        lag(text, told->lag_known, told->lag_ms);
        weir_text_member_u64(text, ",\"age_ms\":", told->age_ms);
    }
    weir_text_member_bool(text, ",\"usable\":", told->usable);
    weir_text_member_bool(text, ",\"frozen\":", told->frozen);
    weir_text_member_u64(text, ",\"load\":", told->load);
    if (told->fault[0])
        weir_text_member(text, ",\"fault\":", told->fault);
    weir_text_lit(text, "}");
}
