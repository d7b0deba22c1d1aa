/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread asks in slices, so that it hears of what is in force, and of the end, within one. What it asked is used
 * outside of the mutex; what others see is copied under it. Called by cli/serve_rules.c; the log's look at it is in
 * watch_look.c. */
#include "serve/follower.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/fault_format.h"
#include "base/units.h"
#include "rules/kept.h"

#define SLICE_NS (100 * WEIR_NS_PER_MS)

struct weir_follower {
    struct weir_rule_store *store;
    char *kept; /* NULL: nothing is */
    uint64_t timeout_ns;
    char node[WEIR_RULE_NODE_MAX + 1];
    void (*changed)(void *context);
    void *context;
    pthread_t thread;
    bool started;
    struct weir_rule_head seen; /* the thread's: it was looked at */

    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t wake;
    bool stopping;
    struct weir_rule_head newest, in_force;
    char *text; /* of `newest` */
    size_t size;
    uint64_t in_force_ns;
    bool untold, unkept; /* what is in force */
    struct weir_follower_view view;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * WEIR_NS_PER_SECOND + (uint64_t)t.tv_nsec;
}

/* ---- reading ---- */

static void put_newest(struct weir_follower *follower, const struct weir_rule_head *head, char *text, size_t size)
{
    free(follower->text);
    follower->newest = *head;
    follower->text = text;
    follower->size = size;
    follower->view.newest = head->number;
}

/* The version of this head, or of a newer one, which may have come meanwhile. */
static int read_head(struct weir_follower *follower, struct weir_rule_head *head, char **ret_text, size_t *ret_size,
                     struct weir_fault *ret_fault)
{
    struct weir_rule_version version;
    int error = weir_rule_store_read(follower->store, head->number, now_ns() + follower->timeout_ns, &version, ret_text,
                                     ret_fault);
    if (error)
        return error;
    memcpy(head->checksum, version.checksum, sizeof(head->checksum));
    *ret_size = version.text_size;
    return 0;
}

static int read_store(struct weir_follower *follower, struct weir_fault *ret_fault)
{
    struct weir_rule_head head;
    char *text = NULL;
    size_t size = 0;
    int error = weir_rule_store_head(follower->store, now_ns() + follower->timeout_ns, &head, ret_fault);
    if (!error && head.number == 0)
        return weir_fault_format(ret_fault, WEIR_ENOENT, "rules", "%.90s has no rules yet",
                                 weir_rule_store_name(follower->store));
    if (!error)
        error = read_head(follower, &head, &text, &size, ret_fault);
    if (!error)
        put_newest(follower, &head, text, size);
    return error;
}

int weir_follower_go_back(struct weir_follower *follower, struct weir_fault *ret_fault)
{
    struct weir_rule_head head;
    char *text = NULL;
    size_t size = 0;
    weir_assert(!follower->started);
    if (!follower->kept)
        return weir_fault_format(ret_fault, WEIR_ENOENT, "rules.kept", "names no file where they are kept here");
    int error = weir_rule_kept_read(follower->kept, &head, &text, &size, ret_fault);
    if (error)
        return error;
    put_newest(follower, &head, text, size);
    follower->view.from_kept = true;
    return 0;
}

/* The store cannot be asked, or was made anew and has nothing: what is kept here, if it is there. */
static int read_either(struct weir_follower *follower, struct weir_fault *ret_fault)
{
    struct weir_fault kept = { 0 };
    int error = read_store(follower, ret_fault);
    if (error == 0)
        return 0;
    if (weir_follower_go_back(follower, &kept) == 0) {
        follower->view.failing = true;
        (void)snprintf(follower->view.fault, sizeof(follower->view.fault), "%s %s", ret_fault->field, ret_fault->text);
        return 0;
    }
    const struct weir_fault store = *ret_fault;
    if (follower->kept)
        (void)weir_fault_format(ret_fault, error, "rules", "%.90s; kept here: %.50s", store.text, kept.text);
    return error;
}

int weir_follower_open(const struct weir_follower_options *options, struct weir_follower **ret_follower,
                       struct weir_fault *ret_fault)
{
    struct weir_follower *follower = calloc(1, sizeof(*follower));
    if (!follower)
        return weir_fault_format(ret_fault, WEIR_ENOMEM, "rules", "out of memory");
    pthread_condattr_t monotonic;
    pthread_mutex_init(&follower->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&follower->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    follower->timeout_ns = options->timeout_ns;
    follower->kept = options->kept ? strdup(options->kept) : NULL;
    const struct weir_rule_store_options store = { .spec = options->spec,
                                                   .table = options->table,
                                                   .poll_ns = options->poll_ns };
    int error = options->kept && !follower->kept ? weir_fault_format(ret_fault, WEIR_ENOMEM, "rules", "out of memory")
                                                 : weir_rule_store_open(&store, &follower->store, ret_fault);
    if (!error) {
        follower->view.store = weir_rule_store_name(follower->store);
        error = read_either(follower, ret_fault);
    }
    if (error) {
        weir_follower_destroy(follower);
        return error;
    }
    *ret_follower = follower;
    return 0;
}

void weir_follower_destroy(struct weir_follower *follower)
{
    if (!follower)
        return;
    weir_assert(!follower->started);
    weir_rule_store_close(follower->store);
    pthread_cond_destroy(&follower->wake);
    pthread_mutex_destroy(&follower->mutex);
    free(follower->text);
    free(follower->kept);
    free(follower);
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

/* A version that came: read, and if it is one to follow, told to the server. */
static int follow(struct weir_follower *follower, const struct weir_rule_head *head, struct weir_fault *ret_fault)
{
    struct weir_rule_head read = *head;
    char *text = NULL;
    size_t size = 0;
    if (head->number == 0)
        return weir_fault_format(ret_fault, WEIR_ENOENT, "rules", "it has no rules any more");
    int error = read_head(follower, &read, &text, &size, ret_fault);
    if (error)
        return error;
    pthread_mutex_lock(&follower->mutex);
    put_newest(follower, &read, text, size);
    bool ahead = is_ahead(&read, &follower->in_force);
    follower->view.behind = !ahead && !weir_rule_head_same(&read, &follower->in_force);
    pthread_mutex_unlock(&follower->mutex);
    follower->seen = *head;
    if (ahead)
        follower->changed(follower->context);
    return 0;
}

/* Writes down what is in force, if that is still the text that was read last: else the next one comes soon. */
static void keep(struct weir_follower *follower)
{
    struct weir_fault fault = { 0 };
    struct weir_rule_head head;
    char *text = NULL;
    size_t size = 0;
    pthread_mutex_lock(&follower->mutex);
    bool due = follower->unkept && weir_rule_head_same(&follower->newest, &follower->in_force);
    pthread_mutex_unlock(&follower->mutex);
    if (!due || weir_follower_newest(follower, &head, &text, &size))
        return;
    int error = follower->kept ? weir_rule_kept_write(follower->kept, &head, (struct weir_slice){ text, size }, &fault)
                               : 0;
    free(text);
    pthread_mutex_lock(&follower->mutex);
    follower->unkept = follower->unkept && (error != 0 || !weir_rule_head_same(&head, &follower->in_force));
    follower->view.keep_failing = error != 0;
    (void)snprintf(follower->view.keep_fault, sizeof(follower->view.keep_fault), "%s", fault.text);
    pthread_mutex_unlock(&follower->mutex);
}

static int tell(struct weir_follower *follower, struct weir_fault *ret_fault)
{
    struct weir_rule_told told = { 0 };
    pthread_mutex_lock(&follower->mutex);
    bool due = follower->untold;
    told.version = follower->in_force.number;
    told.since_ns = follower->in_force_ns;
    pthread_mutex_unlock(&follower->mutex);
    if (!due)
        return 0;
    memcpy(told.node, follower->node, sizeof(told.node));
    int error = weir_rule_store_tell(follower->store, &told, now_ns() + follower->timeout_ns, ret_fault);
    pthread_mutex_lock(&follower->mutex);
    if (!error && follower->in_force.number == told.version && follower->in_force_ns == told.since_ns)
        follower->untold = false;
    pthread_mutex_unlock(&follower->mutex);
    return error;
}

static bool note(struct weir_follower *follower, int error, const struct weir_fault *fault)
{
    pthread_mutex_lock(&follower->mutex);
    follower->view.failing = error != 0;
    if (error)
        (void)snprintf(follower->view.fault, sizeof(follower->view.fault), "%s %s", fault->field, fault->text);
    bool stopping = follower->stopping;
    pthread_mutex_unlock(&follower->mutex);
    return !stopping;
}

/* After a failure: for a slice, or until the end. */
static void rest(struct weir_follower *follower)
{
    const uint64_t until_ns = now_ns() + SLICE_NS;
    const struct timespec at = { .tv_sec = (time_t)(until_ns / WEIR_NS_PER_SECOND),
                                 .tv_nsec = (long)(until_ns % WEIR_NS_PER_SECOND) };
    pthread_mutex_lock(&follower->mutex);
    for (int waited = 0; !follower->stopping && waited == 0;)
        waited = pthread_cond_timedwait(&follower->wake, &follower->mutex, &at);
    pthread_mutex_unlock(&follower->mutex);
}

static void *follower_main(void *argument)
{
    struct weir_follower *follower = argument;
    for (bool on = true; on;) {
        struct weir_fault fault = { 0 }, untold = { 0 };
        struct weir_rule_head head;
        keep(follower);
        int told = tell(follower, &untold);
        int error = weir_rule_store_wait(follower->store, &follower->seen, now_ns() + SLICE_NS, &head, &fault);
        if (error) /* a slice may be too short for a store that is only slow */
            error = weir_rule_store_head(follower->store, now_ns() + follower->timeout_ns, &head, &fault);
        if (!error && !weir_rule_head_same(&head, &follower->seen))
            error = follow(follower, &head, &fault);
        on = note(follower, error ? error : told, error ? &fault : &untold);
        if ((error || told) && on)
            rest(follower);
    }
    return NULL;
}

int weir_follower_start(struct weir_follower *follower, const char *node, void (*changed)(void *context), void *context)
{
    weir_assert(!follower->started && strlen(node) > 0 && strlen(node) <= WEIR_RULE_NODE_MAX);
    (void)snprintf(follower->node, sizeof(follower->node), "%s", node);
    follower->changed = changed;
    follower->context = context;
    follower->seen = follower->newest;
    sigset_t all, before;
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    follower->started = pthread_create(&follower->thread, NULL, follower_main, follower) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return follower->started ? 0 : WEIR_ENOMEM;
}

void weir_follower_in_force(struct weir_follower *follower, const struct weir_rule_head *head, uint64_t wall_ns)
{
    pthread_mutex_lock(&follower->mutex);
    if (!weir_rule_head_same(&follower->in_force, head)) {
        follower->in_force = *head;
        follower->in_force_ns = wall_ns;
        follower->untold = follower->unkept = true;
        follower->view.in_force = head->number;
        follower->view.behind = follower->view.behind && !weir_rule_head_same(&follower->newest, head);
    }
    pthread_mutex_unlock(&follower->mutex);
}

void weir_follower_finish(struct weir_follower *follower)
{
    struct weir_fault fault = { 0 };
    if (!follower || !follower->started)
        return;
    pthread_mutex_lock(&follower->mutex);
    follower->stopping = true;
    pthread_cond_signal(&follower->wake);
    pthread_mutex_unlock(&follower->mutex);
    pthread_join(follower->thread, NULL);
    follower->started = false;
    keep(follower);
    (void)tell(follower, &fault);
}

void weir_follower_view(struct weir_follower *follower, struct weir_follower_view *ret_view)
{
    pthread_mutex_lock(&follower->mutex);
    *ret_view = follower->view;
    pthread_mutex_unlock(&follower->mutex);
}
