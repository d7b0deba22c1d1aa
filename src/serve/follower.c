/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread asks in slices, so that it hears of what is in force, and of the end, within one. What it asked is used
 * outside of the mutex; what others see is copied under it. Called by cli/serve_rules.c; the log's look at it is in
 * watch_look.c. */
#include "serve/follower.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/assert.h"
#include "base/checked.h"
#include "base/fault_format.h"
#include "base/units.h"
#include "rules/kept.h"
#include "serve/exception_follower.h"
#include "serve/follower_seek.h"

#define SLICE_NS (100 * WEIR_NS_PER_MS)
#define MANY 10000                         /* exceptions: their file is not written for each change */
#define CATCH_UP_NS (250 * WEIR_NS_PER_MS) /* for one question while nobody decides */
#define AGAIN_NS (5 * WEIR_NS_PER_SECOND)  /* what could not be kept, or told, is tried again */

struct weir_follower {
    struct weir_rule_store *store;
    char *kept;            /* NULL: nothing is */
    char *exceptions_kept; /* the same */
    uint64_t timeout_ns;
    char node[WEIR_RULE_NODE_MAX + 1];
    void (*changed)(void *context);
    void *context;
    pthread_t thread;
    bool started;
    char *before; /* as weir_follower_before says */
    size_t before_size;
    struct weir_rule_head seen, begun;                          /* the thread's: it was looked at; by it this starts */
    uint64_t keep_after_ns, tell_after_ns, exceptions_after_ns; /* the thread's */
    atomic_bool left;                          /* a successor keeps and tells in the place of this one */
    struct weir_exception_follower exceptions; /* the thread's; but for its keys, which loops ask */

    pthread_mutex_t mutex; /* of all below */
    bool stopping;
    struct weir_rule_head newest, in_force;
    char *text; /* of `newest` */
    size_t size;
    uint64_t made_ns;
    uint64_t in_force_ns;
    bool untold;  /* what is in force */
    char *unkept; /* its text, until it is kept */
    size_t unkept_size;
    struct weir_follower_view view;
};

/* ---- reading ---- */

/* `made_ns`: by the clock of whoever made it; 0: not known. */
static void put_newest(struct weir_follower *follower, const struct weir_rule_head *head, char *text, size_t size,
                       uint64_t made_ns)
{
    free(follower->text);
    follower->newest = *head;
    follower->made_ns = made_ns;
    follower->text = text;
    follower->size = size;
    follower->view.newest = head->number;
}

static struct weir_follower_seeker seeker_of(const struct weir_follower *follower)
{
    return (struct weir_follower_seeker){ follower->store, follower->node, follower->timeout_ns };
}

static int read_store(struct weir_follower *follower, struct weir_fault *ret_fault)
{
    const struct weir_follower_seeker seeker = seeker_of(follower);
    struct weir_follower_found found;
    struct weir_rule_head head;
    int error = weir_rule_store_head(follower->store, uv_hrtime() + follower->timeout_ns, &head, ret_fault);
    if (!error && head.number == 0)
        error = weir_fault_format(ret_fault, WEIR_ENOENT, "rules", "%.90s has no rules yet",
                                  weir_rule_store_name(follower->store));
    if (!error)
        error = weir_follower_seek(&seeker, &head, 0, &found, ret_fault);
    if (error)
        return error;
    follower->seen = head;
    follower->view.looked = head.number;
    follower->view.others = found.others;
    if (!found.text)
        return weir_fault_format(ret_fault, WEIR_ENOENT, "rules", "%.90s has no version that is for node %.64s",
                                 weir_rule_store_name(follower->store), follower->node);
    put_newest(follower, &found.head, found.text, found.size, found.made_ns);
    follower->begun = found.head;
    follower->view.from_kept = false;
    return 0;
}

/* What is kept here takes the place of what the store has. `if_ahead`: only if that is behind it. */
static int put_kept(struct weir_follower *follower, bool if_ahead, struct weir_fault *ret_fault)
{
    struct weir_rule_head head;
    char *text = NULL;
    size_t size = 0;
    if (!follower->kept)
        return weir_fault_format(ret_fault, WEIR_ENOENT, "rules.kept", "names no file where they are kept here");
    int error = weir_rule_kept_read(follower->kept, &head, &text, &size, ret_fault);
    if (error)
        return error;
    if (if_ahead && !weir_follower_is_behind(&follower->newest, follower->view.looked, &head)) {
        follower->before = text;
        follower->before_size = memcmp(head.store, follower->newest.store, sizeof(head.store)) == 0 ? size : 0;
        return 0;
    }
    put_newest(follower, &head, text, size, 0);
    follower->seen = follower->begun = head;
    follower->view.looked = head.number;
    follower->view.from_kept = true;
    return 0;
}

int weir_follower_go_back(struct weir_follower *follower, struct weir_fault *ret_fault)
{
    weir_assert(!follower->started);
    if (!follower->view.from_kept)
        return put_kept(follower, false, ret_fault);
    return follower->view.failing ? WEIR_ENOENT : read_store(follower, ret_fault); /* which is behind it */
}

/* The store cannot be asked, or was made anew and has nothing: what is kept here, if it is there. */
static int read_either(struct weir_follower *follower, struct weir_fault *ret_kept, struct weir_fault *ret_fault)
{
    int error = read_store(follower, ret_fault);
    if (error == 0) {
        (void)put_kept(follower, true, ret_kept);
        return 0;
    }
    if (put_kept(follower, false, ret_kept) == 0) {
        follower->view.failing = true;
        weir_fault_line(ret_fault, follower->view.fault, sizeof(follower->view.fault));
        return 0;
    }
    return error;
}

/* Whatever became of it, what was read before is in force. */
static void look_for_exceptions(struct weir_follower *follower, const uint8_t id[WEIR_RULE_CHANGE_SIZE],
                                uint64_t timeout_ns)
{
    struct weir_exception_follower *exceptions = &follower->exceptions;
    struct weir_fault fault = { 0 };
    int error = weir_exception_follower_look(exceptions, follower->store, id, timeout_ns, weir_time_read().wall_ns,
                                             &fault);
    pthread_mutex_lock(&follower->mutex);
    follower->view.exceptions_failing = error != 0;
    weir_exception_follower_see(exceptions, &follower->view);
    if (error)
        (void)snprintf(follower->view.exceptions_fault, sizeof(follower->view.exceptions_fault), "%s %s", fault.field,
                       fault.text[0] ? fault.text : weir_error_text(error));
    pthread_mutex_unlock(&follower->mutex);
}

/* Those that are kept here, for the store cannot be asked for them. */
static void load_exceptions(struct weir_follower *follower)
{
    struct weir_fault kept = { .text = "rules.kept names no file where they are kept here" };
    struct weir_follower_view *view = &follower->view;
    if (follower->exceptions_kept)
        (void)weir_exception_follower_load(&follower->exceptions, follower->exceptions_kept, weir_time_read().wall_ns,
                                           &kept);
    else if (follower->kept)
        (void)snprintf(kept.text, sizeof(kept.text), "out of memory");
    weir_exception_follower_see(&follower->exceptions, view);
    if (!view->exceptions_failing)
        (void)snprintf(view->exceptions_fault, sizeof(view->exceptions_fault), "%s", view->fault);
    view->exceptions_failing = true;
    size_t size = strlen(view->exceptions_fault);
    if (!follower->exceptions.known)
        (void)snprintf(view->exceptions_fault + size, sizeof(view->exceptions_fault) - size, "; kept here: %s",
                       kept.text);
}

int weir_follower_open(const struct weir_follower_options *options, struct weir_follower **ret_follower,
                       struct weir_fault *ret_fault)
{
    struct weir_follower *follower = calloc(1, sizeof(*follower));
    if (!follower)
        return weir_fault_format(ret_fault, WEIR_ENOMEM, "rules", "out of memory");
    pthread_mutex_init(&follower->mutex, NULL);
    follower->timeout_ns = options->timeout_ns;
    weir_assert(strlen(options->node) > 0 && strlen(options->node) <= WEIR_RULE_NODE_MAX);
    (void)snprintf(follower->node, sizeof(follower->node), "%s", options->node);
    follower->kept = options->kept ? strdup(options->kept) : NULL;
    if (options->kept && asprintf(&follower->exceptions_kept, "%s.exceptions", options->kept) < 0)
        follower->exceptions_kept = NULL;
    const struct weir_rule_store_options store = { .spec = options->spec,
                                                   .table = options->table,
                                                   .poll_ns = options->poll_ns };
    int error = options->kept && !follower->kept ? WEIR_ENOMEM : weir_exception_follower_init(&follower->exceptions);
    error = error ? weir_fault_format(ret_fault, error, "rules", "out of memory")
                  : weir_rule_store_open(&store, &follower->store, ret_fault);
    if (!error) {
        follower->view.store = weir_rule_store_name(follower->store);
        struct weir_fault kept = { 0 };
        error = read_either(follower, &kept, ret_fault);
        if (error && follower->kept && options->kept_fault)
            *options->kept_fault = kept;
    }
    if (!error && !follower->view.failing && follower->exceptions_kept)
        weir_exception_follower_expect(&follower->exceptions, follower->exceptions_kept, follower->newest.store);
    if (!error && !follower->view.failing)
        look_for_exceptions(follower, follower->newest.store, follower->timeout_ns);
    if (!error && (follower->view.failing || follower->view.exceptions_failing))
        load_exceptions(follower);
    if (error) {
        weir_follower_destroy(follower);
        return error;
    }
    *ret_follower = follower;
    return 0;
}

struct weir_slice weir_follower_before(const struct weir_follower *follower)
{
    return (struct weir_slice){ follower->before_size > 0 ? follower->before : NULL, follower->before_size };
}

void weir_follower_catch_up(struct weir_follower *follower)
{
    const uint64_t timeout_ns = weir_min_u64(follower->timeout_ns, CATCH_UP_NS);
    struct weir_rule_head head;
    struct weir_fault fault;
    weir_assert(!follower->started);
    if (!follower->view.failing && !weir_rule_store_head(follower->store, uv_hrtime() + timeout_ns, &head, &fault) &&
        head.number > 0)
        look_for_exceptions(follower, head.store, timeout_ns);
}

void weir_follower_destroy(struct weir_follower *follower)
{
    if (!follower)
        return;
    weir_assert(!follower->started);
    weir_rule_store_close(follower->store);
    pthread_mutex_destroy(&follower->mutex);
    free(follower->text);
    free(follower->before);
    free(follower->unkept);
    free(follower->kept);
    free(follower->exceptions_kept);
    weir_exception_follower_deinit(&follower->exceptions);
    free(follower);
}

const struct weir_excepted_keys *weir_follower_excepted(const struct weir_follower *follower)
{
    return follower->exceptions.keys;
}

int weir_follower_newest(struct weir_follower *follower, struct weir_rule_head *ret_head, char **ret_text,
                         size_t *ret_size)
{
    pthread_mutex_lock(&follower->mutex);
    char *copy = malloc(follower->size + 1);
    if (copy) {
        memcpy(copy, follower->text, follower->size);
        copy[follower->size] = '\0';
        *ret_head = follower->newest;
        *ret_text = copy;
        *ret_size = follower->size;
    }
    pthread_mutex_unlock(&follower->mutex);
    return copy ? 0 : WEIR_ENOMEM;
}

/* ---- the thread ---- */

static bool is_ahead(const struct weir_rule_head *head, const struct weir_rule_head *in_force)
{
    return memcmp(head->store, in_force->store, sizeof(head->store)) != 0 || head->number > in_force->number;
}

/* A version that came. What came with it, or since the store was asked last, may be the one for this node: it is looked
 * for back to what was looked at or is in force. If there is one to follow, that is told to the server. */
static int follow(struct weir_follower *follower, const struct weir_rule_head *head, struct weir_fault *ret_fault)
{
    const struct weir_follower_seeker seeker = seeker_of(follower);
    struct weir_follower_found found;
    if (head->number == 0)
        return weir_fault_format(ret_fault, WEIR_ENOENT, "rules", "it has no rules any more");
    const bool looked = memcmp(head->store, follower->seen.store, sizeof(head->store)) == 0;
    pthread_mutex_lock(&follower->mutex);
    const bool decides = memcmp(head->store, follower->in_force.store, sizeof(head->store)) == 0;
    const uint64_t known = weir_max_u64(looked ? follower->seen.number : 0, decides ? follower->in_force.number : 0);
    pthread_mutex_unlock(&follower->mutex);
    int error = weir_follower_seek(&seeker, head, weir_min_u64(known, head->number - 1), &found, ret_fault);
    if (error)
        return error;
    const bool ours = found.text != NULL;
    const struct weir_rule_head *compared = ours ? &found.head : head;
    pthread_mutex_lock(&follower->mutex);
    const bool ahead = is_ahead(compared, follower->in_force.number ? &follower->in_force : &follower->begun);
    if (ours)
        put_newest(follower, &found.head, found.text, found.size, found.made_ns);
    if (found.others)
        follower->view.others = found.others;
    follower->view.looked = head->number;
    follower->view.behind = !ahead && !weir_rule_head_same(compared, &follower->in_force);
    pthread_mutex_unlock(&follower->mutex);
    follower->seen = *head;
    if (ahead && ours)
        follower->changed(follower->context);
    return 0;
}

/* Writes down what is in force. */
static void keep(struct weir_follower *follower)
{
    struct weir_fault fault = { 0 };
    pthread_mutex_lock(&follower->mutex);
    const struct weir_rule_head head = follower->in_force;
    char *text = !atomic_load(&follower->left) && uv_hrtime() >= follower->keep_after_ns ? follower->unkept : NULL;
    const struct weir_slice slice = { text, follower->unkept_size };
    if (text)
        follower->unkept = NULL;
    pthread_mutex_unlock(&follower->mutex);
    if (!text)
        return;
    int error = weir_rule_kept_write(follower->kept, &head, slice, &fault);
    follower->keep_after_ns = error ? uv_hrtime() + AGAIN_NS : 0;
    pthread_mutex_lock(&follower->mutex);
    if (error && !follower->unkept) { /* nothing newer has come */
        follower->unkept = text;
        follower->unkept_size = slice.size;
        text = NULL;
    }
    follower->view.keep_failing = error != 0;
    (void)snprintf(follower->view.keep_fault, sizeof(follower->view.keep_fault), "%s", fault.text);
    pthread_mutex_unlock(&follower->mutex);
    free(text);
}

/* Where there never was one, there is no file. Of many, some wait for each other: it is written whole. */
static void keep_exceptions(struct weir_follower *follower)
{
    struct weir_exception_follower *exceptions = &follower->exceptions;
    struct weir_fault fault = { 0 };
    if (atomic_load(&follower->left) || !exceptions->changed || !follower->exceptions_kept ||
        uv_hrtime() < follower->exceptions_after_ns)
        return;
    exceptions->changed = exceptions->number > 0 || access(follower->exceptions_kept, F_OK) == 0;
    if (!exceptions->changed)
        return;
    int error = weir_exception_follower_keep(exceptions, follower->exceptions_kept, &fault);
    exceptions->changed = error != 0;
    if (error || weir_excepted_keys_count(exceptions->keys) + weir_excepted_keys_resets(exceptions->keys) > MANY)
        follower->exceptions_after_ns = uv_hrtime() + AGAIN_NS;
    pthread_mutex_lock(&follower->mutex);
    follower->view.exceptions_unkept = error != 0;
    (void)snprintf(follower->view.exceptions_keep_fault, sizeof(follower->view.exceptions_keep_fault), "%s",
                   fault.text);
    pthread_mutex_unlock(&follower->mutex);
}

/* Who may read only, or has a server that does, follows all the same. */
static void tell(struct weir_follower *follower)
{
    struct weir_rule_told told = { 0 };
    struct weir_fault fault = { 0 };
    pthread_mutex_lock(&follower->mutex);
    bool due = !atomic_load(&follower->left) && follower->untold && uv_hrtime() >= follower->tell_after_ns;
    told.version = follower->in_force.number;
    told.since_ns = follower->in_force_ns;
    pthread_mutex_unlock(&follower->mutex);
    if (!due)
        return;
    memcpy(told.node, follower->node, sizeof(told.node));
    int error = weir_rule_store_tell(follower->store, &told, uv_hrtime() + follower->timeout_ns, &fault);
    follower->tell_after_ns = error ? uv_hrtime() + AGAIN_NS : 0;
    pthread_mutex_lock(&follower->mutex);
    if (!error && follower->in_force.number == told.version && follower->in_force_ns == told.since_ns)
        follower->untold = false;
    follower->view.tell_failing = error != 0;
    (void)snprintf(follower->view.tell_fault, sizeof(follower->view.tell_fault), "%s %s", fault.field, fault.text);
    pthread_mutex_unlock(&follower->mutex);
}

static int look(struct weir_follower *follower)
{
    struct weir_fault fault = { 0 };
    struct weir_rule_head head;
    int error = weir_rule_store_head(follower->store, uv_hrtime() + follower->timeout_ns, &head, &fault);
    if (!error && head.number > 0) /* one made anew, and empty, ends nothing */
        look_for_exceptions(follower, head.store, follower->timeout_ns);
    if (!error && !weir_rule_head_same(&head, &follower->seen))
        error = follow(follower, &head, &fault);
    pthread_mutex_lock(&follower->mutex);
    follower->view.failing = error != 0;
    if (error)
        weir_fault_line(&fault, follower->view.fault, sizeof(follower->view.fault));
    pthread_mutex_unlock(&follower->mutex);
    return error;
}

static bool is_stopping(struct weir_follower *follower)
{
    pthread_mutex_lock(&follower->mutex);
    bool stopping = follower->stopping;
    pthread_mutex_unlock(&follower->mutex);
    return stopping;
}

static void *follower_main(void *argument)
{
    struct weir_follower *follower = argument;
    int error = 0;
    while (!is_stopping(follower)) {
        keep(follower);
        keep_exceptions(follower);
        if (weir_rule_store_wait(follower->store, uv_hrtime() + SLICE_NS))
            error = look(follower);
        if (!error)
            tell(follower);
    }
    return NULL;
}

int weir_follower_start(struct weir_follower *follower, void (*changed)(void *context), void *context)
{
    weir_assert(!follower->started);
    follower->changed = changed;
    follower->context = context;
    sigset_t all, before;
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    follower->started = pthread_create(&follower->thread, NULL, follower_main, follower) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return follower->started ? 0 : WEIR_ENOMEM;
}

void weir_follower_in_force(struct weir_follower *follower, const struct weir_rule_head *head, struct weir_slice text,
                            uint64_t wall_ns)
{
    char *copy = NULL;
    pthread_mutex_lock(&follower->mutex);
    if (!weir_rule_head_same(&follower->in_force, head)) {
        /* What it took to come here. What stood there before the start has waited for nobody. */
        follower->view.delay_known = follower->in_force.number > 0 && follower->made_ns > 0 &&
                                     weir_rule_head_same(&follower->newest, head);
        follower->view.delay_ns = weir_sub_sat(wall_ns, follower->made_ns);
        follower->in_force = *head;
        follower->in_force_ns = wall_ns;
        follower->untold = true;
        follower->view.in_force = head->number;
        follower->view.behind = follower->view.behind && !weir_rule_head_same(&follower->newest, head);
        if (follower->kept)
            copy = malloc(text.size + 1); /* without memory the one before stays kept */
        if (copy)
            memcpy(copy, text.data, text.size);
        free(follower->unkept);
        follower->unkept = copy;
        follower->unkept_size = text.size;
    }
    pthread_mutex_unlock(&follower->mutex);
}

void weir_follower_leave(struct weir_follower *follower)
{
    atomic_store(&follower->left, true);
}

void weir_follower_finish(struct weir_follower *follower)
{
    if (!follower || !follower->started)
        return;
    pthread_mutex_lock(&follower->mutex);
    follower->stopping = true;
    pthread_mutex_unlock(&follower->mutex);
    pthread_join(follower->thread, NULL);
    follower->started = false;
    follower->keep_after_ns = follower->tell_after_ns = follower->exceptions_after_ns = 0;
    keep(follower);
    keep_exceptions(follower);
    tell(follower);
}

void weir_follower_view(struct weir_follower *follower, struct weir_follower_view *ret_view)
{
    pthread_mutex_lock(&follower->mutex);
    *ret_view = follower->view;
    pthread_mutex_unlock(&follower->mutex);
}
