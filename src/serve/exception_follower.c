/* SPDX-License-Identifier: Apache-2.0
 *
 * Each question begins with the last change that is known, so that its answer tells whether the store still has it. Of
 * a key the newest change decides, so a change that comes twice does no harm. Called by follower.c, on its thread. */
#include "serve/exception_follower.h"

#include <string.h>
#include <uv.h>

#include "base/checked.h"
#include "base/units.h"
#include "serve/follower.h"

#define ENDED_NS (UINT64_C(3600) * WEIR_NS_PER_SECOND) /* what ended so long ago is not put there at all */

int weir_exception_follower_init(struct weir_exception_follower *follower)
{
    *follower = (struct weir_exception_follower){ 0 };
    return weir_excepted_keys_create(WEIR_EXCEPTIONS_MAX, &follower->keys);
}

void weir_exception_follower_deinit(struct weir_exception_follower *follower)
{
    weir_excepted_keys_destroy(follower->keys);
}

/* ---- one page ---- */

struct page {
    struct weir_exception_follower *follower;
    uint64_t wall_ns;
    size_t count;
    bool behind; /* the first is not the last change that was known */
    bool no_memory;
};

/* Whatever else holds for the key holds on. */
static void reset(struct page *page, uint64_t hash, const struct weir_exception *exception)
{
    struct weir_exception_follower *follower = page->follower;
    int error = weir_excepted_keys_reset(follower->keys, hash, weir_exception_mark(exception->change), page->wall_ns);
    follower->over += error == WEIR_ELIMIT;
    page->no_memory = error == WEIR_ENOMEM;
}

static void put(struct page *page, const struct weir_exception *exception)
{
    struct weir_exception_follower *follower = page->follower;
    const uint64_t hash = weir_excepted_keys_hash(follower->keys, exception->limit, exception->key);
    if (exception->kind == WEIR_EXCEPTION_RESET) {
        reset(page, hash, exception);
        return;
    }
    const bool ended = exception->until_ns > 0 && weir_add_sat(exception->until_ns, ENDED_NS) <= page->wall_ns;
    const bool level = exception->kind == WEIR_EXCEPTION_LEVEL;
    follower->unknown += exception->kind > WEIR_EXCEPTION_RESET;
    if ((exception->kind != WEIR_EXCEPTION_BAN && !level) || ended) {
        weir_excepted_keys_remove(follower->keys, hash);
        return;
    }
    int error = weir_excepted_keys_put(follower->keys, hash, level ? exception->level : NULL, exception->until_ns,
                                       page->wall_ns);
    if (error == WEIR_ELIMIT) /* what held before holds no more */
        weir_excepted_keys_remove(follower->keys, hash);
    follower->over += error == WEIR_ELIMIT;
    page->no_memory = error == WEIR_ENOMEM;
}

static bool take(void *context, const struct weir_exception *exception)
{
    struct page *page = context;
    struct weir_exception_follower *follower = page->follower;
    const bool first = page->count++ == 0;
    if (first && follower->number > 0) { /* it is known; if it still is that one */
        page->behind = exception->number != follower->number ||
                       (!exception->damaged &&
                        memcmp(exception->change, follower->change, sizeof(follower->change)) != 0);
        return !page->behind;
    }
    if (exception->damaged)
        follower->damaged++;
    else
        put(page, exception);
    if (page->no_memory)
        return false;
    follower->number = exception->number;
    memcpy(follower->change, exception->change, sizeof(follower->change));
    follower->changed = true;
    return true;
}

/* From the last known change on, page by page. *ret_behind: that is not there any more. */
static int read_on(struct weir_exception_follower *follower, struct weir_rule_store *store, uint64_t timeout_ns,
                   uint64_t wall_ns, bool *ret_behind, struct weir_fault *ret_fault)
{
    struct page page;
    int error;
    do {
        page = (struct page){ .follower = follower, .wall_ns = wall_ns };
        const bool known = follower->number > 0;
        const struct weir_exception_query query = { .from = follower->number, .count_max = WEIR_EXCEPTION_LIST_MAX };
        error = weir_rule_store_exceptions(store, &query, uv_hrtime() + timeout_ns, take, &page, ret_fault);
        *ret_behind = page.behind || (!error && known && page.count == 0);
        if (!error && page.no_memory)
            error = WEIR_ENOMEM;
    } while (!error && !*ret_behind && page.count == WEIR_EXCEPTION_LIST_MAX);
    return error;
}

/* ---- all of it ---- */

/* What it has stays, and is asked, until the last page has come. */
static int read_anew(struct weir_exception_follower *follower, struct weir_rule_store *store, uint64_t timeout_ns,
                     uint64_t wall_ns, struct weir_fault *ret_fault)
{
    const struct weir_exception_follower before = *follower;
    bool behind = false;
    follower->number = follower->damaged = follower->unknown = follower->over = 0;
    weir_excepted_keys_begin(follower->keys);
    int error = read_on(follower, store, timeout_ns, wall_ns, &behind, ret_fault);
    if (error || behind) { /* it changed again meanwhile: at the next look */
        weir_excepted_keys_abandon(follower->keys);
        *follower = before;
        return error;
    }
    weir_excepted_keys_commit(follower->keys);
    follower->changed = true;
    follower->is_full = false; /* what has no room now has none */
    return 0;
}

int weir_exception_follower_look(struct weir_exception_follower *follower, struct weir_rule_store *store,
                                 const uint8_t id[WEIR_RULE_CHANGE_SIZE], uint64_t timeout_ns, uint64_t wall_ns,
                                 struct weir_fault *ret_fault)
{
    const uint64_t over = follower->over;
    const bool known = follower->known;
    bool behind = !follower->known || memcmp(follower->store, id, sizeof(follower->store)) != 0;
    int error = behind ? 0 : read_on(follower, store, timeout_ns, wall_ns, &behind, ret_fault);
    follower->is_full = follower->is_full || (over == 0 && follower->over > 0);
    if (!error && (behind || follower->is_full)) {
        error = read_anew(follower, store, timeout_ns, wall_ns, ret_fault);
        if (!error) {
            follower->known = true;
            memcpy(follower->store, id, sizeof(follower->store));
            follower->gone_back += known ? behind : follower->number < follower->expected;
        }
    }
    return error;
}

void weir_exception_follower_see(const struct weir_exception_follower *follower, struct weir_follower_view *ret_view)
{
    ret_view->exceptions_change = follower->number;
    ret_view->exceptions_count = weir_excepted_keys_count(follower->keys);
    ret_view->exceptions_levels = weir_excepted_keys_levels(follower->keys);
    ret_view->exceptions_resets = weir_excepted_keys_resets(follower->keys);
    ret_view->exceptions_damaged = follower->damaged;
    ret_view->exceptions_unknown = follower->unknown;
    ret_view->exceptions_over = follower->over;
    ret_view->exceptions_gone_back = follower->gone_back;
}
