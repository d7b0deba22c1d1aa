/* SPDX-License-Identifier: Apache-2.0
 *
 * The rings have one writer and one reader each. The thread holds one message at a time: it is filled from the rings,
 * sent until it went or is given up, and then the next one is filled; what comes meanwhile waits in the rings. `mutex`
 * guards what the thread is told and what it tells. Called by serve/http_trace.c, which writes records, and by
 * serve/server.c; observe/trace.c encodes them. */
#include "observe/tracer.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/checked.h"
#include "base/fault_format.h"
#include "base/siphash.h"
#include "observe/counter.h"
#include "weir/version.h"

#define LOOK_NS UINT64_C(100000000) /* how often the rings are looked at */
#define HEAD_MAX 1024               /* of a message: its resource and scope */
#define MESSAGE_MAX ((size_t)WEIR_TRACER_BATCH * WEIR_TRACE_ENCODED_MAX + HEAD_MAX)

struct ring {
    _Alignas(64) _Atomic uint64_t written; /* by the loop */
    _Atomic uint64_t full;
    struct weir_trace *records; /* by the loop, before the first is written */
    uint64_t randoms;
    _Alignas(64) _Atomic uint64_t taken; /* by the thread */
};

/* The message being sent; the thread's alone. */
struct message {
    uint8_t *data;
    size_t size;
    size_t count;      /* spans; 0: there is none */
    uint64_t begun_ns; /* when it was first tried; 0: not yet */
};

struct weir_tracer {
    struct ring *rings;
    size_t loops;
    struct weir_sip_key key; /* of random numbers */
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    pthread_t thread;
    bool started;
    struct weir_tracer_target last; /* that was aimed at, without its post; url "": none */
    /* Under the mutex: */
    bool stopping, aimed;
    uint64_t stop_ns;
    struct weir_tracer_target *next; /* where `aimed` */
    struct weir_tracer_view view;
    /* The thread's: */
    struct weir_tracer_target *target;
    struct message message;
    struct weir_post_answer answer;
    uint64_t seen_ns; /* when something was first seen in the rings; 0: nothing */
    uint64_t wait_ns; /* before the next try; 0: the last one went */
    uint64_t try_ns;  /* not before */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- targets ---- */

int weir_tracer_target_create(const char *url, const char *service, const char *node, uint64_t timeout_ns,
                              struct weir_tracer_target **ret_target, struct weir_fault *ret_fault)
{
    struct weir_tracer_target *target = calloc(1, sizeof(*target));
    if (!target)
        return weir_fault_format(ret_fault, WEIR_ENOMEM, "endpoint", "out of memory");
    (void)snprintf(target->url, sizeof(target->url), "%s", url);
    (void)snprintf(target->service, sizeof(target->service), "%s", service);
    (void)snprintf(target->node, sizeof(target->node), "%s", node ? node : "");
    target->timeout_ns = timeout_ns;
    int error = weir_post_open(url, WEIR_OTLP_CONTENT_TYPE, &target->post, ret_fault);
    if (error)
        free(target);
    else
        *ret_target = target;
    return error;
}

void weir_tracer_target_destroy(struct weir_tracer_target *target)
{
    if (!target)
        return;
    target->post->ops->close(target->post);
    free(target);
}

static bool is_same(const struct weir_tracer_target *a, const struct weir_tracer_target *b)
{
    return strcmp(a->url, b->url) == 0 && strcmp(a->service, b->service) == 0 && strcmp(a->node, b->node) == 0 &&
           a->timeout_ns == b->timeout_ns;
}

/* ---- a loop's ---- */

static uint64_t random_of(struct weir_tracer *tracer, size_t loop)
{
    const uint64_t words[] = { loop, tracer->rings[loop].randoms++ };
    return weir_siphash(&tracer->key, words, sizeof(words));
}

uint64_t weir_tracer_random(struct weir_tracer *tracer, size_t loop)
{
    weir_assert(loop < tracer->loops);
    return random_of(tracer, loop);
}

void weir_tracer_add(struct weir_tracer *tracer, size_t loop, const struct weir_trace *trace)
{
    weir_assert(loop < tracer->loops);
    struct ring *ring = &tracer->rings[loop];
    const uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    /* Acquire: the thread has read what stood in the place that is written next. */
    const uint64_t waiting = written - atomic_load_explicit(&ring->taken, memory_order_acquire);
    if (!ring->records)
        ring->records = calloc(WEIR_TRACER_RING, sizeof(ring->records[0]));
    if (!ring->records || waiting == WEIR_TRACER_RING) {
        weir_count(&ring->full, 1);
        return;
    }
    ring->records[written % WEIR_TRACER_RING] = *trace;
    atomic_store_explicit(&ring->written, written + 1, memory_order_release);
}

/* ---- the thread's: a message ---- */

static uint64_t waiting_in(const struct ring *ring)
{
    return atomic_load_explicit(&ring->written, memory_order_acquire) -
           atomic_load_explicit(&ring->taken, memory_order_relaxed);
}

static uint64_t waiting(const struct weir_tracer *tracer)
{
    uint64_t count = 0;
    for (size_t i = 0; i < tracer->loops; i++)
        count += waiting_in(&tracer->rings[i]);
    return count;
}

static bool begin_message(const struct weir_tracer_target *target, struct weir_otlp *otlp, uint8_t *data)
{
    const struct weir_otlp_attribute resource[] = {
        { .name = "service.name", .kind = WEIR_OTLP_TEXT, .text = target->service },
        { .name = "service.version", .kind = WEIR_OTLP_TEXT, .text = WEIR_VERSION },
        { .name = "service.instance.id",
          .kind = target->node[0] ? WEIR_OTLP_TEXT : WEIR_OTLP_NONE,
          .text = target->node },
    };
    return weir_otlp_begin(otlp, data, MESSAGE_MAX, resource, sizeof(resource) / sizeof(resource[0]), "weir",
                           WEIR_VERSION);
}

/* Takes records until the message is full, or the ring empty. */
static void take(struct ring *ring, struct weir_otlp *otlp, size_t *count)
{
    for (uint64_t left = waiting_in(ring); left > 0 && *count < WEIR_TRACER_BATCH; left--) {
        const uint64_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
        bool fits = weir_trace_encode(&ring->records[taken % WEIR_TRACER_RING], otlp);
        weir_assert(fits); /* MESSAGE_MAX is enough for WEIR_TRACER_BATCH */
        (*count)++;
        atomic_store_explicit(&ring->taken, taken + 1, memory_order_release);
    }
}

/* The next try is later than this one, by a quarter more or less at random, so that nodes do not come together. */
static void put_off(struct weir_tracer *tracer, const char *fault)
{
    const uint64_t now = now_ns();
    tracer->wait_ns = tracer->wait_ns ? weir_min_u64(2 * tracer->wait_ns, WEIR_TRACER_WAIT_MAX_NS)
                                      : WEIR_TRACER_WAIT_MIN_NS;
    const uint64_t spread_ns = random_of(tracer, tracer->loops) % (tracer->wait_ns / 2 + 1);
    tracer->try_ns = now + tracer->wait_ns - tracer->wait_ns / 4 + spread_ns;
    pthread_mutex_lock(&tracer->mutex);
    tracer->view.failing = true;
    (void)snprintf(tracer->view.fault, sizeof(tracer->view.fault), "%s", fault);
    pthread_mutex_unlock(&tracer->mutex);
}

static void fill(struct weir_tracer *tracer)
{
    struct message *message = &tracer->message;
    struct weir_otlp otlp;
    if (message->count > 0 || waiting(tracer) == 0)
        return;
    if (!message->data)
        message->data = malloc(MESSAGE_MAX);
    if (!message->data) { /* the rings fill up, and what is dropped there is counted */
        put_off(tracer, "out of memory");
        return;
    }
    bool begun = begin_message(tracer->target, &otlp, message->data);
    weir_assert(begun);
    /* Another loop first each time, so that a busy one does not fill every message. */
    const size_t first = (size_t)(random_of(tracer, tracer->loops) % tracer->loops);
    for (size_t i = 0; i < tracer->loops; i++)
        take(&tracer->rings[(first + i) % tracer->loops], &otlp, &message->count);
    message->size = weir_otlp_end(&otlp);
    message->begun_ns = 0;
    tracer->seen_ns = 0;
}

enum outcome { SENT, REFUSED, NOT_NOW };

/* Which answers ask for the same message again: OTLP, "Retryable Response Codes". */
static enum outcome judge(int status)
{
    if (status >= 200 && status < 300)
        return SENT;
    return status == 429 || status == 502 || status == 503 || status == 504 ? NOT_NOW : REFUSED;
}

static void drop_message(struct weir_tracer *tracer, uint64_t *counter)
{
    pthread_mutex_lock(&tracer->mutex);
    *counter += tracer->message.count;
    pthread_mutex_unlock(&tracer->mutex);
    tracer->message.count = 0;
}

static void note_sent(struct weir_tracer *tracer)
{
    uint64_t rejected = 0;
    const uint64_t count = tracer->message.count;
    /* Who answers 2xx with what is no answer has taken them, as far as anybody knows. */
    if (!weir_otlp_answer_read(tracer->answer.body, tracer->answer.size, &rejected))
        rejected = 0;
    rejected = weir_min_u64(rejected, count);
    pthread_mutex_lock(&tracer->mutex);
    tracer->view.sent += count - rejected;
    tracer->view.refused += rejected;
    tracer->view.failing = false;
    pthread_mutex_unlock(&tracer->mutex);
    tracer->message.count = 0;
    tracer->wait_ns = 0;
}

static void send_message(struct weir_tracer *tracer, uint64_t timeout_ns)
{
    struct weir_tracer_target *target = tracer->target;
    struct weir_fault fault = { 0 };
    char said[64];
    if (tracer->message.begun_ns == 0)
        tracer->message.begun_ns = now_ns();
    tracer->answer.status = 0;
    tracer->answer.retry_after_ns = 0;
    int error = target->post->ops->send(target->post, tracer->message.data, tracer->message.size, timeout_ns,
                                        &tracer->answer, &fault);
    const enum outcome outcome = error ? NOT_NOW : judge(tracer->answer.status);
    pthread_mutex_lock(&tracer->mutex);
    tracer->view.messages++;
    pthread_mutex_unlock(&tracer->mutex);
    if (outcome == SENT) {
        note_sent(tracer);
        return;
    }
    (void)snprintf(said, sizeof(said), "it answers %d", tracer->answer.status);
    put_off(tracer, error ? fault.text : said);
    if (outcome == REFUSED) {
        drop_message(tracer, &tracer->view.refused);
        return;
    }
    const uint64_t asked_ns = weir_min_u64(tracer->answer.retry_after_ns, WEIR_TRACER_GIVE_UP_NS);
    tracer->try_ns = weir_max_u64(tracer->try_ns, now_ns() + asked_ns);
    if (tracer->try_ns - tracer->message.begun_ns > WEIR_TRACER_GIVE_UP_NS)
        drop_message(tracer, &tracer->view.lost);
}

/* ---- the thread ---- */

static void sleep_until(uint64_t at_ns)
{
    const struct timespec at = { .tv_sec = (time_t)(at_ns / 1000000000), .tv_nsec = (long)(at_ns % 1000000000) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
        ;
}

/* Sends all there is until then; what is left is lost. */
static void flush(struct weir_tracer *tracer, uint64_t until_ns)
{
    tracer->try_ns = 0;
    tracer->wait_ns = 0;
    for (uint64_t now = now_ns(); now < until_ns; now = now_ns()) {
        fill(tracer);
        if (tracer->message.count == 0)
            break;
        if (tracer->try_ns > now)
            sleep_until(weir_min_u64(tracer->try_ns, until_ns));
        else
            send_message(tracer, weir_min_u64(until_ns - now, tracer->target->timeout_ns));
    }
    drop_message(tracer, &tracer->view.lost);
    for (size_t i = 0; i < tracer->loops; i++) {
        struct ring *ring = &tracer->rings[i];
        tracer->message.count += waiting_in(ring);
        atomic_store_explicit(&ring->taken, atomic_load_explicit(&ring->written, memory_order_relaxed),
                              memory_order_release);
    }
    drop_message(tracer, &tracer->view.lost);
}

/* Fills a message when there are enough records for it, or the first has waited long enough, and sends it. */
static void turn(struct weir_tracer *tracer)
{
    const uint64_t now = now_ns(), count = waiting(tracer);
    if (count > 0 && tracer->seen_ns == 0)
        tracer->seen_ns = now;
    if (count >= WEIR_TRACER_BATCH || (count > 0 && now - tracer->seen_ns >= WEIR_TRACER_DELAY_NS - LOOK_NS))
        fill(tracer);
    if (tracer->message.count > 0 && now >= tracer->try_ns)
        send_message(tracer, tracer->target->timeout_ns);
}

/* Waits for the next look, or for what it is told. */
static void await(struct weir_tracer *tracer)
{
    const uint64_t until_ns = now_ns() + LOOK_NS;
    const struct timespec until = { .tv_sec = (time_t)(until_ns / 1000000000),
                                    .tv_nsec = (long)(until_ns % 1000000000) };
    int waited = 0;
    while (!tracer->stopping && !tracer->aimed && waited == 0)
        waited = tracer->target ? pthread_cond_timedwait(&tracer->wake, &tracer->mutex, &until)
                                : pthread_cond_wait(&tracer->wake, &tracer->mutex);
}

static void *tracer_main(void *argument)
{
    struct weir_tracer *tracer = argument;
    for (;;) {
        pthread_mutex_lock(&tracer->mutex);
        /* With a message's worth there is nothing to wait for. */
        if (!(tracer->target && tracer->wait_ns == 0 && waiting(tracer) >= WEIR_TRACER_BATCH))
            await(tracer);
        const bool stopping = tracer->stopping, aimed = tracer->aimed;
        const uint64_t stop_ns = tracer->stop_ns;
        struct weir_tracer_target *next = tracer->next;
        tracer->aimed = false;
        tracer->next = NULL;
        pthread_mutex_unlock(&tracer->mutex);
        if (aimed) {
            if (tracer->target && !next)
                flush(tracer, (stopping ? stop_ns : now_ns()) + tracer->target->timeout_ns);
            weir_tracer_target_destroy(tracer->target);
            tracer->target = next;
            tracer->try_ns = 0;
        }
        if (stopping && tracer->target)
            flush(tracer, stop_ns + tracer->target->timeout_ns);
        if (stopping)
            return NULL;
        if (tracer->target)
            turn(tracer);
    }
}

static bool start(struct weir_tracer *tracer)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    tracer->started = pthread_create(&tracer->thread, NULL, tracer_main, tracer) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return tracer->started;
}

/* ---- life ---- */

int weir_tracer_create(size_t loops, struct weir_tracer **ret_tracer)
{
    uint8_t secret[16];
    weir_assert(loops > 0);
    if (getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
        return WEIR_EIO;
    struct weir_tracer *tracer = calloc(1, sizeof(*tracer));
    if (!tracer)
        return WEIR_ENOMEM;
    tracer->loops = loops;
    tracer->key = weir_sip_key_load(secret);
    /* One more: of the thread's random numbers. */
    tracer->rings = aligned_alloc(_Alignof(struct ring), (loops + 1) * sizeof(struct ring));
    if (!tracer->rings) {
        free(tracer);
        return WEIR_ENOMEM;
    }
    memset(tracer->rings, 0, (loops + 1) * sizeof(struct ring));
    pthread_condattr_t monotonic;
    pthread_mutex_init(&tracer->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&tracer->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    *ret_tracer = tracer;
    return 0;
}

void weir_tracer_aim(struct weir_tracer *tracer, struct weir_tracer_target *target)
{
    if (target ? is_same(&tracer->last, target) : !tracer->started) {
        weir_tracer_target_destroy(target);
        return;
    }
    const bool has_thread = tracer->started || start(tracer);
    tracer->last = target && has_thread ? *target : (struct weir_tracer_target){ 0 };
    pthread_mutex_lock(&tracer->mutex);
    struct weir_tracer_target *unused = tracer->next;
    tracer->next = target;
    tracer->aimed = true;
    tracer->view.on = target != NULL;
    tracer->view.failing = target && (tracer->view.failing || !has_thread);
    if (!has_thread)
        (void)snprintf(tracer->view.fault, sizeof(tracer->view.fault), "there is no thread for it");
    pthread_cond_signal(&tracer->wake);
    pthread_mutex_unlock(&tracer->mutex);
    weir_tracer_target_destroy(unused);
}

uint64_t weir_tracer_finish(struct weir_tracer *tracer)
{
    if (!tracer->started)
        return 0;
    pthread_mutex_lock(&tracer->mutex);
    const uint64_t lost = tracer->view.lost;
    tracer->stopping = true;
    tracer->stop_ns = now_ns();
    pthread_cond_signal(&tracer->wake);
    pthread_mutex_unlock(&tracer->mutex);
    pthread_join(tracer->thread, NULL);
    tracer->started = false;
    return tracer->view.lost - lost;
}

void weir_tracer_destroy(struct weir_tracer *tracer)
{
    if (!tracer)
        return;
    (void)weir_tracer_finish(tracer);
    weir_tracer_target_destroy(tracer->target);
    weir_tracer_target_destroy(tracer->next);
    for (size_t i = 0; i < tracer->loops; i++)
        free(tracer->rings[i].records);
    free(tracer->rings);
    free(tracer->message.data);
    pthread_cond_destroy(&tracer->wake);
    pthread_mutex_destroy(&tracer->mutex);
    free(tracer);
}

void weir_tracer_view(struct weir_tracer *tracer, struct weir_tracer_view *ret_view)
{
    pthread_mutex_lock(&tracer->mutex);
    *ret_view = tracer->view;
    pthread_mutex_unlock(&tracer->mutex);
    for (size_t i = 0; i < tracer->loops; i++) {
        const uint64_t full = weir_counted(&tracer->rings[i].full);
        ret_view->full += full;
        ret_view->sampled += weir_counted(&tracer->rings[i].written) + full;
    }
}
