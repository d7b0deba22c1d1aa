/* SPDX-License-Identifier: Apache-2.0
 *
 * Each event of a key (a reservation, its end, a reply, a time that has come) is a step of the key's state machine
 * (share_step.c). The host then does what the step asks for: it sends an ask, and sets when the key is woken. A reply
 * wakes the requests that wait for the key. How many asks that no request waits for may be under way follows the
 * engine: one more for each prompt reply, one less for a slow one, half as many after a failure. A key that leaves
 * the table, for want of room, is out of its lists and goes on until it has told what it owes, for about ten seconds
 * at most. Called by serve/sharer.c and, for requests, by transaction.c and transaction_part.c. */
#include "limits/share_host.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/checked.h"
#include "base/siphash.h"
#include "base/units.h"
#include "limits/share_keys.h"

#define KEYS_MAX_DEFAULT ((size_t)100000)
#define GONE_MAX ((size_t)4096)               /* keys that have left the table and still settle */
#define GONE_MAX_NS (10 * WEIR_NS_PER_SECOND) /* how long one tries to */
#define TURN_MAX 1024                         /* keys per turn; the rest in the next */
#define ROOM_MAX ((size_t)1024)               /* asks under way beyond which keys do not speak unasked */
#define CONTENDED_NS (500 * WEIR_NS_PER_MS)   /* how long an ask goes on beyond its deadline where others are faster */
#define QUIET_NS (25 * WEIR_NS_PER_MS)        /* for so long after an ask failed keys do not speak unasked */

struct weir_share_host {
    struct weir_share_host_options options;
    struct weir_share_keys keys;
    struct weir_sip_key stint_secret;
    uint64_t stints;
    uint64_t armed_ns; /* what the caller was asked for; WEIR_NEVER */
    size_t asking;
    /* How many asks may be under way for a key to speak unasked: one more for each prompt answer, one less for a slow
     * one, half as many after a failure, so that after an outage all keys come back at the pace of the engine. */
    size_t room;
    uint64_t quiet_until_ns;
    bool closing, closed; /* closed: `done` was called */
    bool telling;         /* within `done`, which may close the remote: what is under way ends in it */
    uint64_t close_ns;
    void (*done)(void *context);
    void *done_context;
    struct weir_share_host_stats stats;
};

static uint64_t now_of(const struct weir_share_host *host)
{
    return host->options.now_ns ? host->options.now_ns(host->options.context) : weir_time_read().now_ns;
}

/* Never used before: a secret function of a count, the lowest bits left to the machine. */
static uint64_t next_stint(struct weir_share_host *host)
{
    uint64_t stint = 0;
    while (stint == 0) {
        host->stints++;
        stint = weir_siphash(&host->stint_secret, &host->stints, sizeof(host->stints));
        stint &= ~((UINT64_C(1) << WEIR_SHARE_STINT_BITS) - 1);
    }
    return stint;
}

static void rearm(struct weir_share_host *host)
{
    uint64_t next_ns = weir_max_u64(weir_share_keys_next_ns(&host->keys), host->quiet_until_ns);
    if (host->asking >= host->room) /* an answer will arm it */
        next_ns = WEIR_NEVER;
    if (host->closing)
        next_ns = weir_min_u64(next_ns, host->close_ns);
    if (next_ns >= host->armed_ns || host->closed)
        return;
    host->armed_ns = next_ns;
    host->options.wake(host->options.context, next_ns);
}

/* ---- steps ---- */

static bool ask(struct weir_share_key *key, const struct weir_share_ask *ask, uint64_t now_ns);

/* Prompt: a window of twice the size is still answered in time. */
static void heard(struct weir_share_host *host, uint64_t left_ns, uint64_t deadline_ns)
{
    bool prompt = left_ns >= deadline_ns - deadline_ns / 4;
    host->room = prompt ? weir_min_u64(host->room + 1, ROOM_MAX) : weir_max_u64(host->room - 1, 1);
    host->stats.answers++;
}

static void unheard(struct weir_share_host *host, uint64_t now_ns)
{
    host->room = weir_max_u64(host->room / 2, 1);
    host->quiet_until_ns = now_ns + QUIET_NS;
    host->stats.lost++;
}

/* Steps and does what the effects say, except that it wakes nobody. */
static void step(struct weir_share_key *key, const struct weir_share_event *event, uint64_t now_ns,
                 struct weir_share_effects *ret_effects)
{
    struct weir_share_keys *keys = &key->host->keys;
    weir_share_key_step(key, &key->host->stats, event, now_ns, ret_effects);
    if (ret_effects->send && !ask(key, &ret_effects->ask, now_ns)) {
        const struct weir_share_event lost = { .kind = WEIR_SHARE_UNANSWERED,
                                               .seq = ret_effects->ask.seq,
                                               .undone = true };
        struct weir_share_effects after;
        weir_share_key_step(key, &key->host->stats, &lost, now_ns, &after);
        ret_effects->wake_ns = after.wake_ns;
        ret_effects->idle = after.idle;
        unheard(key->host, now_ns);
    }
    key->wake_ns = ret_effects->wake_ns;
    weir_share_keys_wake(keys, key);
    weir_share_keys_set_idle(keys, key, ret_effects->idle);
}

/* ---- ends ---- */

static void end(struct weir_share_key *key)
{
    struct weir_share_host *host = key->host;
    if (key->leased) {
        host->stats.held -= key->as.leased.machine.pocket + key->as.leased.machine.reserved;
        host->stats.forfeited += key->as.leased.machine.pocket + key->as.leased.machine.doubt;
    } else {
        host->stats.held -= key->as.batched.machine.pocket + key->as.batched.machine.reserved;
        host->stats.unsettled -= key->as.batched.machine.unsettled;
        host->stats.untold += key->as.batched.machine.unsettled;
    }
    weir_share_keys_remove(&host->keys, key);
    weir_remote_limit_drop(key->limit);
    free(key);
}

/* A key that has left the table ends when it owes nothing, or when it has tried for long enough. */
static void end_if_settled(struct weir_share_key *key, uint64_t now_ns)
{
    if (key->gone && !key->asking && (key->idle || key->wake_ns == 0 || now_ns >= key->gone_ns || key->host->closed))
        end(key);
}

static void leave(struct weir_share_key *key, uint64_t now_ns)
{
    struct weir_share_effects effects;
    weir_share_keys_leave(&key->host->keys, key);
    key->gone_ns = now_ns + GONE_MAX_NS;
    step(key, &(struct weir_share_event){ .kind = WEIR_SHARE_LEAVE }, now_ns, &effects);
    end_if_settled(key, now_ns);
}

static void leave_if_unwanted(struct weir_share_key *key, uint64_t now_ns)
{
    if (key->unwanted && !key->gone && key->users == 0 && !key->waiting_first &&
        key->host->keys.gone_count < GONE_MAX) /* else it stays and goes idle by itself */
        leave(key, now_ns);
}

/* Each of the list, which the key may leave meanwhile. */
static void for_each(struct weir_share_list *list, void (*act)(struct weir_share_key *key, uint64_t now_ns),
                     uint64_t now_ns)
{
    for (struct weir_share_key *key = list->first, *next; key; key = next) {
        next = key->next;
        act(key, now_ns);
    }
}

/* Of a closing host: nothing is left to settle, or there is no more time. Frees the host when nothing is under way. */
static void close_if_settled(struct weir_share_host *host, uint64_t now_ns)
{
    if (!host->closing || host->telling)
        return;
    if (!host->closed && (host->keys.gone_count == 0 || now_ns >= host->close_ns)) {
        host->closed = true;
        for_each(&host->keys.gone, end_if_settled, now_ns);
        host->telling = true;
        host->done(host->done_context);
        host->telling = false;
    }
    if (!host->closed || host->keys.gone_count > 0)
        return;
    weir_share_keys_deinit(&host->keys);
    free(host);
}

/* ---- asks ---- */

static void waiting_remove(struct weir_share_key *key, struct weir_share_waiter *waiter)
{
    *(waiter->prev ? &waiter->prev->next : &key->waiting_first) = waiter->next;
    *(waiter->next ? &waiter->next->prev : &key->waiting_last) = waiter->prev;
    waiter->queue = NULL;
    key->host->stats.waiting--;
}

/* Those that wait now, not those that come back meanwhile. */
static void wake_waiting(struct weir_share_key *key, int status)
{
    struct weir_share_waiter *last = key->waiting_last;
    key->users++; /* it stays while its waiters are called */
    for (bool more = last != NULL; more && key->waiting_first;) {
        struct weir_share_waiter *waiter = key->waiting_first;
        more = waiter != last;
        waiting_remove(key, waiter);
        waiter->ready(waiter, status);
    }
    key->users--;
}

static void on_done(struct weir_remote_request *request)
{
    struct weir_share_key *key = request->context;
    struct weir_share_host *host = key->host;
    struct weir_share_effects effects;
    const uint64_t now_ns = now_of(host);
    int status = request->status;
    struct weir_share_answer answer = key->op.answer;
    struct weir_share_event event = { .kind = status ? WEIR_SHARE_UNANSWERED : WEIR_SHARE_HEARD,
                                      .seq = key->op.ask.seq,
                                      .undone = status == WEIR_EDOWN || status == WEIR_EBUSY,
                                      .answer = status ? NULL : &answer };
    key->asking = false;
    host->asking--;
    weir_remote_limit_drop(key->op.limit);
    if (status)
        unheard(host, now_ns);
    else
        heard(host, weir_sub_sat(request->deadline_ns, now_ns), key->deadline_ns);
    host->stats.stale += !status && answer.stale;
    step(key, &event, now_ns, &effects);
    /* Others were faster all the time, and the engine has not failed. */
    bool busy = status == WEIR_EBUSY || (status == WEIR_EUNKNOWN && request->contended && now_ns >= request->until_ns);
    wake_waiting(key, status == WEIR_ECORRUPT ? WEIR_EDOWN : busy ? 0 : status);
    if (key->gone)
        end_if_settled(key, now_ns);
    else
        leave_if_unwanted(key, now_ns);
    rearm(host);
    close_if_settled(host, now_ns);
}

static bool ask(struct weir_share_key *key, const struct weir_share_ask *ask, uint64_t now_ns)
{
    struct weir_remote *remote = key->host->options.remote;
    if (key->asking || key->host->closed)
        return false;
    key->op = (struct weir_remote_op){ .limit = key->limit, .key = key->key, .ask = *ask };
    key->request = (struct weir_remote_request){
        .verb = WEIR_REMOTE_ASK,
        .ops = &key->op,
        .count = 1,
        .deadline_ns = now_ns + key->deadline_ns,
        .round_ns = key->deadline_ns,
        .until_ns = now_ns + key->deadline_ns +
                    weir_min_u64(CONTENDED_NS, ask->ttl_ns / 4), /* not past what it brings */
        .done = on_done,
        .context = key,
    };
    if (remote->ops->submit(remote, &key->request))
        return false;
    weir_remote_limit_hold(key->op.limit); /* until the answer: the key may follow other terms before */
    key->asking = true;
    key->host->asking++;
    key->host->stats.asks++;
    return true;
}

/* ---- keys ---- */

static struct weir_share_key *make(struct weir_share_host *host, const struct weir_share_terms *terms,
                                   const struct weir_remote_key *key)
{
    struct weir_share_key *made = calloc(1, sizeof(*made));
    if (!made)
        return NULL;
    made->host = host;
    made->key = *key;
    made->leased = terms->leased;
    if (made->leased)
        weir_leased_init(&made->as.leased.machine, next_stint(host));
    else
        weir_batched_init(&made->as.batched.machine, next_stint(host));
    weir_share_key_follow(made, terms);
    return made;
}

/* One that comes back before it has settled goes on as it was: made anew, it could spend its slack once more. */
static int insert(struct weir_share_host *host, const struct weir_share_terms *terms, const struct weir_remote_key *key,
                  uint64_t now_ns, struct weir_share_key **ret_key)
{
    struct weir_share_keys *keys = &host->keys;
    if (keys->count == keys->count_max) {
        struct weir_share_key *victim = weir_share_keys_victim(keys);
        if (!victim || keys->gone_count == GONE_MAX) {
            host->stats.refused_full++;
            return WEIR_ELIMIT;
        }
        host->stats.evicted++;
        leave(victim, now_ns);
    }
    *ret_key = weir_share_keys_find_gone(keys, key, terms->leased);
    if (*ret_key) {
        weir_share_keys_return(keys, *ret_key);
        return 0;
    }
    *ret_key = make(host, terms, key);
    if (!*ret_key)
        return WEIR_ENOMEM;
    weir_share_keys_insert(keys, *ret_key);
    return 0;
}

/* ---- requests ---- */

int weir_share_host_reserve(struct weir_share_host *host, const struct weir_share_terms *terms,
                            const struct weir_remote_key *key, uint64_t units, bool peek, uint64_t now_ns,
                            enum weir_share_say *ret_say, struct weir_verdict *ret_verdict)
{
    struct weir_share_effects effects;
    struct weir_share_key *found = weir_share_keys_find(&host->keys, key);
    if (found && found->leased != terms->leased) {
        /* Another way of sharing since the reload: the old one settles, as soon as nobody is in the middle of it. */
        found->unwanted = true;
        if (found->users > 0 || found->waiting_first || host->keys.gone_count == GONE_MAX)
            return WEIR_ELIMIT;
        leave(found, now_ns);
        found = NULL;
    }
    if (!found && peek) {
        *ret_say = WEIR_SHARE_WAIT;
        return 0;
    }
    if (!found) {
        int error = insert(host, terms, key, now_ns, &found);
        if (error)
            return error;
    }
    if (!weir_share_key_follows(found, terms))
        weir_share_key_follow(found, terms);
    if (peek) {
        weir_share_key_look(found, units, now_ns, &effects);
    } else {
        found->unwanted = false;
        weir_share_keys_touch(&host->keys, found);
        step(found, &(struct weir_share_event){ .kind = WEIR_SHARE_RESERVE, .units = units }, now_ns, &effects);
        found->users += effects.say == WEIR_SHARE_YES;
        rearm(host);
    }
    if (effects.say == WEIR_SHARE_WAIT && !peek && !found->asking)
        return WEIR_EDOWN;
    *ret_say = effects.say;
    *ret_verdict = effects.verdict;
    return 0;
}

void weir_share_host_wait(struct weir_share_host *host, const struct weir_remote_key *key,
                          struct weir_share_waiter *waiter)
{
    struct weir_share_key *found = weir_share_keys_find(&host->keys, key);
    weir_assert(found && found->asking);
    waiter->queue = found;
    waiter->next = NULL;
    waiter->prev = found->waiting_last;
    *(found->waiting_last ? &found->waiting_last->next : &found->waiting_first) = waiter;
    found->waiting_last = waiter;
    host->stats.waiting++;
}

int weir_share_waiter_leave(struct weir_share_waiter *waiter)
{
    struct weir_share_key *key = waiter->queue;
    if (key)
        waiting_remove(key, waiter);
    return key && key->request.contended ? WEIR_EBUSY : WEIR_EUNKNOWN;
}

static enum weir_share_say end_reservation(struct weir_share_host *host, const struct weir_remote_key *key,
                                           enum weir_share_event_kind kind, uint64_t units, uint64_t now_ns)
{
    struct weir_share_effects effects;
    struct weir_share_key *found = weir_share_keys_find(&host->keys, key);
    weir_assert(found && found->users > 0); /* who has reserved keeps the key */
    step(found, &(struct weir_share_event){ .kind = kind, .units = units }, now_ns, &effects);
    found->users--;
    leave_if_unwanted(found, now_ns);
    rearm(host);
    return effects.say;
}

bool weir_share_host_commit(struct weir_share_host *host, const struct weir_remote_key *key, uint64_t units,
                            uint64_t now_ns)
{
    return WEIR_SHARE_NO != end_reservation(host, key, WEIR_SHARE_COMMIT, units, now_ns);
}

void weir_share_host_cancel(struct weir_share_host *host, const struct weir_remote_key *key, uint64_t units,
                            uint64_t now_ns)
{
    (void)end_reservation(host, key, WEIR_SHARE_CANCEL, units, now_ns);
}

void weir_share_host_turn(struct weir_share_host *host, uint64_t now_ns)
{
    host->armed_ns = WEIR_NEVER;
    for (int i = 0; i < TURN_MAX && host->asking < host->room && now_ns >= host->quiet_until_ns; i++) {
        struct weir_share_effects effects;
        struct weir_share_key *key = weir_share_keys_due(&host->keys, now_ns);
        if (!key)
            break;
        step(key, &(struct weir_share_event){ .kind = WEIR_SHARE_TICK }, now_ns, &effects);
        end_if_settled(key, now_ns);
    }
    rearm(host);
    close_if_settled(host, now_ns);
}

/* ---- life ---- */

int weir_share_host_retire(struct weir_share_host *host, const char *const *kept, size_t count)
{
    const char **names = malloc((count + 1) * sizeof(names[0]));
    if (!names)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < count; i++)
        names[i] = kept[i];
    weir_share_keys_keep(&host->keys, names, count);
    free(names);
    const uint64_t now_ns = now_of(host);
    for_each(&host->keys.idle, leave_if_unwanted, now_ns);
    for_each(&host->keys.active, leave_if_unwanted, now_ns);
    rearm(host);
    return 0;
}

int weir_share_host_create(const struct weir_share_host_options *options, struct weir_share_host **ret_host)
{
    uint8_t secret[16];
    if (options->secret)
        memcpy(secret, options->secret, sizeof(secret));
    else if (getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
        return WEIR_EIO;
    struct weir_share_host *host = calloc(1, sizeof(*host));
    if (!host)
        return WEIR_ENOMEM;
    host->options = *options;
    host->options.secret = NULL; /* the caller's */
    host->stint_secret = weir_sip_key_load(secret);
    host->armed_ns = WEIR_NEVER;
    host->room = ROOM_MAX;
    int error = weir_share_keys_init(&host->keys, options->keys_max ? options->keys_max : KEYS_MAX_DEFAULT, GONE_MAX);
    if (error) {
        free(host);
        return error;
    }
    *ret_host = host;
    return 0;
}

void weir_share_host_close(struct weir_share_host *host, uint64_t drain_ns, void (*done)(void *context), void *context)
{
    const uint64_t now_ns = now_of(host);
    host->done = done;
    host->done_context = context;
    host->closing = true;
    host->close_ns = weir_add_sat(now_ns, drain_ns);
    for_each(&host->keys.idle, leave, now_ns);
    for_each(&host->keys.active, leave, now_ns);
    if (host->keys.gone_count == 0)
        host->close_ns = now_ns;
    rearm(host);
}

void weir_share_host_stats(const struct weir_share_host *host, struct weir_share_host_stats *ret_stats)
{
    *ret_stats = host->stats;
    ret_stats->keys = host->keys.count;
    ret_stats->keys_max = host->keys.count_max;
}
