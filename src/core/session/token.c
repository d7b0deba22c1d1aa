/* SPDX-License-Identifier: Apache-2.0
 *
 * Places in a sorted array. Whatever is added, the whole token is merged anew (merge_all()), because places that could
 * not be merged before may be by what is known now. Called by route.c, sessions and serve/sessions_work.c; the
 * signed text is token_text.c. */
#include "core/session/token.h"

#include "base/assert.h"
#include "base/checked.h"
#include "weir/error.h"

static int order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_places(const struct weir_place *a, const struct weir_place *b)
{
    int result = order(a->system, b->system);
    if (result == 0)
        result = order(a->timeline, b->timeline);
    if (result == 0)
        result = order(a->position, b->position);
    if (result == 0)
        result = order(a->run, b->run);
    return result != 0 ? result : order(a->branch, b->branch);
}

static void remove_at(struct weir_session_token *token, unsigned at)
{
    weir_assert(at < token->count);
    token->count--;
    for (unsigned i = at; i < token->count; i++)
        token->places[i] = token->places[i + 1];
}

/* Puts the place where it belongs, or merges it with one that is there and begins again with what came of it. */
static int insert(struct weir_session_token *token, struct weir_place place, const struct weir_known *known)
{
    for (unsigned i = 0; i < token->count;)
        if (weir_place_merge(&token->places[i], &place, known, &place) == 0) {
            remove_at(token, i);
            i = 0;
        } else {
            i++;
        }
    if (token->count == WEIR_SESSION_PLACES_MAX)
        return WEIR_ELIMIT;
    unsigned at = token->count++;
    for (; at > 0 && compare_places(&token->places[at - 1], &place) > 0; at--)
        token->places[at] = token->places[at - 1];
    weir_assert(at == 0 || compare_places(&token->places[at - 1], &place) <= 0);
    weir_assert(at + 1 == token->count || compare_places(&place, &token->places[at + 1]) < 0);
    token->places[at] = place;
    return 0;
}

/* `token` and `count` more, merged from the ground: what could not be when it came may be by now. */
static int merge_all(struct weir_session_token *token, const struct weir_place *more, unsigned count,
                     const struct weir_known *known)
{
    struct weir_session_token result = *token;
    result.count = 0;
    for (unsigned i = 0; i < token->count; i++) {
        int error = insert(&result, token->places[i], known);
        weir_assert(error == 0);
    }
    for (unsigned i = 0; i < count; i++) {
        int error = insert(&result, more[i], known);
        if (error != 0)
            return error;
    }
    weir_assert(result.count <= token->count + count && result.count <= WEIR_SESSION_PLACES_MAX);
    *token = result;
    return 0;
}

int weir_session_token_add(struct weir_session_token *token, const struct weir_place *place,
                           const struct weir_known *known)
{
    weir_assert(token->count <= WEIR_SESSION_PLACES_MAX);
    weir_assert(place->system != 0 && place->timeline != 0);
    return merge_all(token, place, 1, known);
}

int weir_session_token_merge(struct weir_session_token *token, const struct weir_session_token *other,
                             const struct weir_known *known)
{
    weir_assert(token->count <= WEIR_SESSION_PLACES_MAX && other->count <= WEIR_SESSION_PLACES_MAX);
    struct weir_session_token result = *token;
    int error = merge_all(&result, other->places, other->count, known);
    if (error != 0)
        return error;
    result.wrote_ns = weir_max_u64(token->wrote_ns, other->wrote_ns);
    result.stamp_ns = weir_max_u64(token->stamp_ns, other->stamp_ns);
    result.clock = weir_max_u64(token->clock, other->clock);
    weir_assert(result.clock >= token->clock && result.wrote_ns >= other->wrote_ns);
    *token = result;
    return 0;
}

enum weir_place_verdict weir_session_token_compare(const struct weir_session_token *token,
                                                   const struct weir_shown *shown, const struct weir_known *known)
{
    enum weir_place_verdict worst = WEIR_PLACE_OK;
    bool foreign = token->count > 0;
    weir_assert(token->count <= WEIR_SESSION_PLACES_MAX);
    for (unsigned i = 0; i < token->count; i++) {
        if (token->places[i].system != shown->system)
            continue;
        worst = weir_place_worse(worst, weir_place_compare(&token->places[i], shown, known));
        foreign = false;
    }
    weir_assert(!foreign || worst == WEIR_PLACE_OK);
    return foreign ? WEIR_PLACE_FOREIGN : worst;
}

unsigned weir_session_token_accept(struct weir_session_token *token, const struct weir_shown *shown,
                                   const struct weir_known *known)
{
    unsigned dropped = 0;
    for (unsigned i = 0; i < token->count;) {
        enum weir_place_verdict verdict = weir_place_compare(&token->places[i], shown, known);
        if (verdict == WEIR_PLACE_LOST || verdict == WEIR_PLACE_UNPROVEN) {
            remove_at(token, i);
            dropped++;
        } else {
            i++;
        }
    }
    struct weir_place place;
    if (weir_place_seen(shown, &place) == 0)
        (void)weir_session_token_add(token, &place, known);
    weir_assert(dropped <= WEIR_SESSION_PLACES_MAX);
    return dropped;
}
