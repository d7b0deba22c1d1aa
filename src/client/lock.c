/* SPDX-License-Identifier: Apache-2.0
 *
 * The holder's handle (weir/lock.h). Its arithmetic is core/lease/deadline.h; here are the clock, the lock around it
 * and the thread that renews. */
#include "weir/lock.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fault_format.h"
#include "base/hex.h"
#include "base/reserved.h"
#include "client/ask.h"
#include "client/clock.h"
#include "client/link.h"
#include "core/lease/deadline.h"
#include "core/lease/incarnation.h"

#define WAITED_PARTS 10                      /* a grant that took more than a tenth of its lease was waited for */
#define RETRY_MAX_NS (1000 * WEIR_NS_PER_MS) /* the longest pause before a failed renewal is tried again */
#define GIVE_BACK_MIN_NS WEIR_NS_PER_SECOND

struct weir_lock {
    struct weir_lock *self; /* writable through a const handle: asking "still mine?" may find that it is not */
    struct weir_locks *locks;
    uint64_t ttl_ms;
    struct weir_token token;
    uint64_t progress_ns; /* 0: renewals are not tied to progress */
    bool renews;
    pthread_t thread;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    struct weir_deadline deadline;
    uint64_t advanced_ns;
    bool stopping;
    size_t name_size, owner_size;
    uint8_t owner[WEIR_LOCK_OWNER_MAX];
    uint8_t name[];
};

static struct weir_lock_call ask_of(const struct weir_lock *lock, const char *verb, uint64_t timeout_ns)
{
    return (struct weir_lock_call){ .verb = verb,
                                    .name = { lock->name, lock->name_size },
                                    .owner = { lock->owner, lock->owner_size },
                                    .timeout_ns = timeout_ns };
}

/* ---- still mine? ---- */

/* With the mutex held. */
static bool mine(struct weir_lock *lock, uint64_t now_ns)
{
    if (weir_deadline_mine(&lock->deadline, now_ns))
        return true;
    weir_deadline_lose(&lock->deadline);
    return false;
}

struct weir_token weir_lock_token(const struct weir_lock *lock)
{
    return lock->token;
}

static uint64_t left_ns(const struct weir_lock *lock)
{
    struct weir_lock *self = lock->self;
    (void)pthread_mutex_lock(&self->mutex);
    uint64_t now_ns = weir_clock_now_ns(); /* with the mutex held: waiting for it is no reason to be optimistic */
    uint64_t left = mine(self, now_ns) ? weir_deadline_left_ns(&self->deadline, now_ns) : 0;
    (void)pthread_mutex_unlock(&self->mutex);
    return left;
}

uint64_t weir_lock_left_ms(const struct weir_lock *lock)
{
    return left_ns(lock) / WEIR_NS_PER_MS;
}

bool weir_lock_mine(const struct weir_lock *lock)
{
    return left_ns(lock) > 0;
}

void weir_lock_advance(struct weir_lock *lock)
{
    (void)pthread_mutex_lock(&lock->mutex);
    lock->advanced_ns = weir_clock_now_ns();
    (void)pthread_mutex_unlock(&lock->mutex);
}

/* ---- renewal ---- */

static int lose(struct weir_lock *lock, const char *why)
{
    struct weir_fault fault;
    (void)pthread_mutex_lock(&lock->mutex);
    weir_deadline_lose(&lock->deadline);
    (void)pthread_mutex_unlock(&lock->mutex);
    int error = weir_fault_format(&fault, WEIR_ELOST, "lock", "%s", why);
    weir_locks_fail(lock->locks, &fault);
    return error;
}

static int renew(struct weir_lock *lock, uint64_t timeout_ns)
{
    struct weir_said said;
    struct weir_lock_call ask = ask_of(lock, "WEIR.RELOCK", timeout_ns);
    ask.ttl_ms = lock->ttl_ms;
    if (!weir_lock_mine(lock))
        return lose(lock, "its own deadline has passed");
    int error = weir_lock_ask(lock->locks, &ask, &said);
    if (error) /* of a server that says no for another reason, too: nothing was renewed */
        return error == WEIR_EUNKNOWN ? error : WEIR_EDOWN;
    if (!said.granted)
        return lose(lock, "the server says that it is not held by this owner any more");
    if (weir_token_compare(said.token, lock->token) != 0)
        return lose(lock, "the server has granted it anew: another process uses the same owner");
    (void)pthread_mutex_lock(&lock->mutex);
    bool extended = weir_deadline_extend(&lock->deadline, said.sent_ns, said.lease_ns, weir_clock_now_ns());
    (void)pthread_mutex_unlock(&lock->mutex);
    return extended ? 0 : lose(lock, "its own deadline passed before the renewal was answered");
}

int weir_lock_renew(struct weir_lock *lock)
{
    return renew(lock, weir_locks_timeout_ns(lock->locks));
}

static void sleep_for(struct weir_lock *lock, uint64_t time_ns)
{
    struct timespec end;
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    uint64_t at_ns = (uint64_t)end.tv_nsec + time_ns;
    end.tv_sec += (time_t)(at_ns / (1000 * WEIR_NS_PER_MS));
    end.tv_nsec = (long)(at_ns % (1000 * WEIR_NS_PER_MS));
    (void)pthread_cond_timedwait(&lock->changed, &lock->mutex, &end);
}

/* How long the next renewal is away, 0 when it is due. Never more than a sixth of the lease: the condition's clock may
 * stand still while the machine sleeps, the lease does not. */
static uint64_t renewal_left_ns(const struct weir_lock *lock, uint64_t retry_ns, uint64_t now_ns)
{
    const struct weir_deadline *deadline = &lock->deadline;
    uint64_t due_ns = weir_max_u64(weir_deadline_renew_at_ns(deadline), retry_ns);
    bool stalled = lock->progress_ns && now_ns > weir_add_sat(lock->advanced_ns, lock->progress_ns);
    uint64_t left_ns = weir_sub_sat(due_ns, now_ns);
    if (stalled) /* looks again soon: it may advance before the lease ends */
        left_ns = weir_max_u64(left_ns, weir_min_u64(deadline->lease_ns / 12, RETRY_MAX_NS));
    return weir_min_u64(left_ns, deadline->lease_ns / 6);
}

static void *renewing(void *argument)
{
    struct weir_lock *lock = argument;
    uint64_t retry_ns = 0;
    (void)pthread_mutex_lock(&lock->mutex);
    for (;;) {
        uint64_t now_ns = weir_clock_now_ns();
        if (lock->stopping || !mine(lock, now_ns))
            break;
        uint64_t left_ns = renewal_left_ns(lock, retry_ns, now_ns);
        if (left_ns > 0) {
            sleep_for(lock, left_ns);
            continue;
        }
        /* An attempt takes at most a quarter of the lease, so that a server that hangs leaves time for another; none
         * goes on beyond the deadline, when its answer would be of no use. */
        uint64_t lease_ns = lock->deadline.lease_ns;
        uint64_t timeout_ns = weir_min_u64(weir_locks_timeout_ns(lock->locks), lease_ns / 4);
        timeout_ns = weir_min_u64(timeout_ns, weir_deadline_left_ns(&lock->deadline, now_ns));
        (void)pthread_mutex_unlock(&lock->mutex);
        (void)renew(lock, timeout_ns);
        /* After a success, too: a server that grants less than it is asked for must not be asked without end. */
        retry_ns = weir_clock_now_ns() + weir_min_u64(lease_ns / 12, RETRY_MAX_NS);
        (void)pthread_mutex_lock(&lock->mutex);
    }
    (void)pthread_mutex_unlock(&lock->mutex);
    return NULL;
}

/* The program's signals are for its own threads. */
static int thread_start(struct weir_lock *lock)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&lock->thread, NULL, renewing, lock);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? WEIR_ENOMEM : 0;
}

static void thread_stop(struct weir_lock *lock)
{
    (void)pthread_mutex_lock(&lock->mutex);
    lock->stopping = true;
    (void)pthread_cond_signal(&lock->changed);
    (void)pthread_mutex_unlock(&lock->mutex);
}

/* ---- acquire and release ---- */

static int wrong(struct weir_locks *locks, int error, const char *field, const char *text)
{
    struct weir_fault fault;
    (void)weir_fault_format(&fault, error, field, "%s", text);
    weir_locks_fail(locks, &fault);
    return error;
}

static int options_check(struct weir_locks *locks, size_t name_size, const struct weir_lock_options *options)
{
    bool owned = options->owner != NULL;
    if (weir_reserved_used(options->reserved, sizeof options->reserved))
        return wrong(locks, WEIR_EINVAL, "reserved", WEIR_RESERVED_TEXT);
    if (name_size < 1 || name_size > WEIR_LOCK_NAME_MAX)
        return wrong(locks, WEIR_ERANGE, "name", "must be 1 to 1024 bytes");
    if (owned ? options->owner_size < 1 || options->owner_size > WEIR_LOCK_OWNER_MAX : options->owner_size != 0)
        return wrong(locks, WEIR_ERANGE, "owner", "must be 1 to 256 bytes");
    if (options->ttl_ms && (options->ttl_ms < WEIR_LOCK_TTL_MIN_MS || options->ttl_ms > WEIR_LOCK_TTL_MAX_MS))
        return wrong(locks, WEIR_ERANGE, "ttl_ms", "must be 2000 to 86400000");
    if (options->wait_ms > WEIR_LOCK_WAIT_MAX_MS)
        return wrong(locks, WEIR_ERANGE, "wait_ms", "must be at most 86400000");
    if (options->seen_incarnation > WEIR_INCARNATION_MAX)
        return wrong(locks, WEIR_ERANGE, "seen_incarnation", "must be at most 2^62: it is of no mark of weir's");
    if (options->progress_ms && !options->renew)
        return wrong(locks, WEIR_EINVAL, "progress_ms", "is for locks that are renewed (renew)");
    if (options->progress_ms > WEIR_LOCK_TTL_MAX_MS)
        return wrong(locks, WEIR_ERANGE, "progress_ms", "must be at most 86400000");
    return 0;
}

static int owner_make(struct weir_lock *lock, const struct weir_lock_options *options)
{
    uint8_t random[16];
    if (options->owner) {
        memcpy(lock->owner, options->owner, options->owner_size);
        lock->owner_size = options->owner_size;
        return 0;
    }
    if (getentropy(random, sizeof(random)) != 0)
        return wrong(lock->locks, WEIR_EDOWN, "owner", "the system has no random bytes to make one of");
    weir_hex_write((char *)lock->owner, random, sizeof(random));
    lock->owner_size = 2 * sizeof(random);
    return 0;
}

static bool sync_init(struct weir_lock *lock)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    bool made = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                pthread_cond_init(&lock->changed, &attributes) == 0;
    (void)pthread_condattr_destroy(&attributes);
    if (made && pthread_mutex_init(&lock->mutex, NULL) != 0) {
        (void)pthread_cond_destroy(&lock->changed);
        made = false;
    }
    return made;
}

static void lock_free(struct weir_lock *lock)
{
    (void)pthread_cond_destroy(&lock->changed);
    (void)pthread_mutex_destroy(&lock->mutex);
    free(lock);
}

static int lock_make(struct weir_locks *locks, const void *name, size_t name_size,
                     const struct weir_lock_options *options, struct weir_lock **ret_lock)
{
    struct weir_lock *lock = calloc(1, sizeof(*lock) + name_size);
    if (!lock || !sync_init(lock)) {
        free(lock);
        return wrong(locks, WEIR_ENOMEM, "", "out of memory");
    }
    lock->self = lock;
    lock->locks = locks;
    lock->ttl_ms = options->ttl_ms ? options->ttl_ms : 15000;
    lock->progress_ns = options->progress_ms * WEIR_NS_PER_MS;
    lock->renews = options->renew;
    lock->name_size = name_size;
    memcpy(lock->name, name, name_size);
    int error = owner_make(lock, options);
    if (error)
        lock_free(lock);
    else
        *ret_lock = lock;
    return error;
}

/* The lease of one who waited began when the holder went, which may be long after the asking that the deadline counts
 * from. So it is renewed at once, and the deadline counts from there. */
static int confirm(struct weir_lock *lock)
{
    struct weir_said said;
    struct weir_lock_call ask = ask_of(lock, "WEIR.RELOCK", weir_locks_timeout_ns(lock->locks));
    ask.ttl_ms = lock->ttl_ms;
    int error = weir_lock_ask(lock->locks, &ask, &said);
    if (error)
        return weir_lock_mine(lock) ? 0
                                    : wrong(lock->locks, WEIR_EUNKNOWN, "lock", "was granted, perhaps not for long");
    if (!said.granted || weir_token_compare(said.token, lock->token) != 0)
        return wrong(lock->locks, WEIR_EHELD, "lock", "was granted, and lost before the grant was confirmed");
    weir_deadline_begin(&lock->deadline, said.sent_ns, said.lease_ns);
    return 0;
}

static int grant(struct weir_lock *lock, const struct weir_lock_options *options)
{
    struct weir_said said;
    struct weir_lock_call ask = ask_of(lock, "WEIR.LOCK", weir_locks_timeout_ns(lock->locks));
    ask.ttl_ms = lock->ttl_ms;
    ask.wait_ns = options->wait_ms * WEIR_NS_PER_MS;
    ask.seen = options->seen_incarnation;
    int error = weir_lock_ask(lock->locks, &ask, &said);
    if (!error && !said.granted)
        error = wrong(lock->locks, WEIR_EHELD, "lock", "is held by another");
    if (error)
        return error;
    lock->token = said.token;
    lock->advanced_ns = weir_clock_now_ns();
    weir_deadline_begin(&lock->deadline, said.sent_ns, said.lease_ns);
    bool waited = options->wait_ms > 0 && lock->advanced_ns - said.sent_ns > said.lease_ns / WAITED_PARTS;
    return waited ? confirm(lock) : 0;
}

int weir_lock_acquire(struct weir_locks *locks, const void *name, size_t name_size,
                      const struct weir_lock_options *options, struct weir_lock **ret_lock)
{
    struct weir_lock *lock = NULL;
    int error = options_check(locks, name_size, options);
    if (!error)
        error = lock_make(locks, name, name_size, options, &lock);
    if (error)
        return error;
    error = grant(lock, options);
    if (error) {
        lock_free(lock);
        return error;
    }
    if (lock->renews && thread_start(lock) != 0) {
        lock->renews = false;
        (void)weir_lock_release(lock);
        return wrong(locks, WEIR_ENOMEM, "", "no thread to renew with");
    }
    *ret_lock = lock;
    return 0;
}

int weir_lock_release(struct weir_lock *lock)
{
    struct weir_said said;
    if (!lock)
        return 0;
    if (lock->renews)
        thread_stop(lock);
    /* A renewal may be under way beside it. Whichever comes first, a renewal of what was released is refused. After the
     * lease there is little to give back (a server that was restarted holds it longer): so for a server that says
     * nothing, nobody waits much longer than that. */
    uint64_t rest_ns = left_ns(lock);
    uint64_t timeout_ns = weir_min_u64(weir_locks_timeout_ns(lock->locks), weir_max_u64(rest_ns, GIVE_BACK_MIN_NS));
    struct weir_lock_call ask = ask_of(lock, "WEIR.UNLOCK", timeout_ns);
    int error = weir_lock_ask(lock->locks, &ask, &said);
    if (error)
        error = error == WEIR_EUNKNOWN ? error : WEIR_EDOWN;
    else if (rest_ns == 0 || (!said.granted && !said.repeated))
        error = WEIR_ELOST;
    else if (!said.granted) /* free now, by the first of two questions or before it */
        error = WEIR_EUNKNOWN;
    if (lock->renews)
        (void)pthread_join(lock->thread, NULL);
    lock_free(lock);
    return error;
}
