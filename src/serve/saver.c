/* SPDX-License-Identifier: Apache-2.0
 *
 * The file is locked by flock on PATH.lock, which the kernel gives back however the process ends. The thread writes a
 * few lines of the table and then pauses for some times as long, so that it takes a small part of a core. What it does
 * is counted under the mutex, for the log and /metrics. The writing itself is limits/snapshot_write.c's. */
#include "serve/saver.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/assert.h"
#include "base/checked.h"
#include "base/fault_format.h"
#include "base/plural.h"
#include "rules/config.h"
#include "weir/snapshot.h"

#define STEP_LINES 1024
/* After each step so many times as long as it took, while there is time. */
#define PAUSE_TIMES 6
#define PATH_SIZE 4096

struct weir_saver {
    char path[PATH_SIZE];
    uint64_t every_ns;
    int lock_fd;
    struct weir_snapshot_reader *reader; /* NULL: nothing is to be restored */
    bool has_permits;
    struct weir_permit_secret permits;
    char said[256];
    bool warns; /* what is said */
    struct weir_limiter *limiter;
    pthread_t thread;
    bool started;
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t wake;
    bool stopping;
    struct weir_saver_view view;
};

_Static_assert(sizeof(struct weir_permit_secret) <= WEIR_SNAPSHOT_NOTE_MAX, "it is what is noted");

/* ---- the start ---- */

static int cannot(const char *what, const char *path, struct weir_fault *ret_fault)
{
    return weir_fault_format(ret_fault, WEIR_EIO, "snapshot", "cannot %s %.100s: %s", what, path, strerror(errno));
}

/* Where the file is or shall be, by its whole path: a link there is followed, so that what it names is replaced. */
static int find_path(struct weir_saver *saver, const char *path, struct weir_fault *ret_fault)
{
    char folder[PATH_SIZE], whole[PATH_MAX];
    struct stat status;
    bool is_link = lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
    const char *slash = strrchr(path, '/');
    (void)snprintf(folder, sizeof(folder), "%.*s",
                   slash == path ? 1
                   : slash       ? (int)(slash - path)
                                 : 1,
                   slash ? path : ".");
    if (!realpath(is_link ? path : folder, whole))
        return cannot("find", is_link ? path : folder, ret_fault);
    size_t size = strlen(whole) + (is_link ? 0 : strlen(slash ? slash : path) + 1);
    if (size > PATH_SIZE - 100)
        return weir_fault_format(ret_fault, WEIR_ERANGE, "snapshot", "is too long a path: %zu bytes", size);
    (void)snprintf(saver->path, sizeof(saver->path), "%s", whole);
    if (!is_link)
        (void)snprintf(saver->path + strlen(whole), sizeof(saver->path) - strlen(whole), "%s%s",
                       slash || strcmp(whole, "/") == 0 ? "" : "/", slash ? slash : path);
    return 0;
}

/* That no snapshot can be written is better heard now than in an hour. */
static int try_beside(const struct weir_saver *saver, struct weir_fault *ret_fault)
{
    char beside[PATH_SIZE + 8];
    (void)snprintf(beside, sizeof(beside), "%s.new", saver->path);
    (void)unlink(beside); /* of one that was killed */
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return cannot("make", beside, ret_fault);
    close(fd);
    (void)unlink(beside);
    return 0;
}

static bool is_one_file(int one, int other)
{
    struct stat a, b;
    return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int take_lock(struct weir_saver *saver, int handed_fd, struct weir_fault *ret_fault)
{
    char path[PATH_SIZE + 8];
    (void)snprintf(path, sizeof(path), "%s.lock", saver->path);
    saver->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (saver->lock_fd < 0)
        return cannot("open", path, ret_fault);
    /* A lock that was handed over is this one: it belongs to what was opened, whoever opened it. */
    if (handed_fd >= 0 && is_one_file(handed_fd, saver->lock_fd)) {
        close(saver->lock_fd);
        saver->lock_fd = fcntl(handed_fd, F_DUPFD_CLOEXEC, 0);
        return saver->lock_fd < 0 ? cannot("keep", path, ret_fault) : 0;
    }
    if (flock(saver->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return weir_fault_format(ret_fault, WEIR_EHELD, "snapshot", "another weir keeps its counters in %.80s",
                                 saver->path);
    return cannot("lock", path, ret_fault);
}

/* What cannot be used is kept, but not in the way of the next. */
static void put_aside(struct weir_saver *saver, const char *why)
{
    char aside[PATH_SIZE + 16];
    (void)snprintf(aside, sizeof(aside), "%s.ignored", saver->path);
    bool moved = rename(saver->path, aside) == 0;
    saver->warns = true;
    (void)snprintf(saver->said, sizeof(saver->said), "%.150s; all keys are fresh%s", why,
                   moved ? ", and it is kept as .ignored" : "");
}

static int open_snapshot(struct weir_saver *saver, struct weir_fault *ret_fault)
{
    struct weir_fault fault = { 0 };
    int error = weir_snapshot_open(saver->path, &saver->reader, &fault);
    if (error == WEIR_ENOENT) {
        (void)snprintf(saver->said, sizeof(saver->said), "counters will be kept in %.200s", saver->path);
        return 0;
    }
    if (error == WEIR_ECORRUPT || error == WEIR_ERANGE) {
        put_aside(saver, fault.text);
        return 0;
    }
    if (error)
        return weir_fault_format(ret_fault, error, "snapshot", "%s", fault.text);
    memcpy(&saver->permits, weir_snapshot_note(saver->reader), sizeof(saver->permits));
    saver->has_permits = true;
    return 0;
}

/* What is there is not looked at yet. */
static int open_at(const char *path, uint64_t every_ns, int handed_fd, struct weir_saver **ret_saver,
                   struct weir_fault *ret_fault)
{
    struct weir_saver *saver = calloc(1, sizeof(*saver));
    pthread_condattr_t monotonic;
    if (!saver)
        return weir_fault_format(ret_fault, WEIR_ENOMEM, "snapshot", "out of memory");
    saver->every_ns = every_ns;
    saver->view.path = saver->path;
    saver->lock_fd = -1;
    pthread_mutex_init(&saver->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&saver->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int error = find_path(saver, path, ret_fault);
    if (!error)
        error = take_lock(saver, handed_fd, ret_fault);
    if (!error)
        error = try_beside(saver, ret_fault);
    if (error) {
        weir_saver_destroy(saver);
        return error;
    }
    *ret_saver = saver;
    return 0;
}

int weir_saver_open(const char *path, uint64_t every_ns, struct weir_saver **ret_saver, struct weir_fault *ret_fault)
{
    struct weir_saver *saver = NULL;
    int error = open_at(path, every_ns, -1, &saver, ret_fault);
    if (!error)
        error = open_snapshot(saver, ret_fault);
    if (error) {
        weir_saver_destroy(saver);
        return error;
    }
    *ret_saver = saver;
    return 0;
}

int weir_saver_open_handed(const char *path, uint64_t every_ns, int lock_fd, struct weir_saver **ret_saver,
                           struct weir_fault *ret_fault)
{
    return open_at(path, every_ns, lock_fd, ret_saver, ret_fault);
}

int weir_saver_check(const char *path, struct weir_fault *ret_fault)
{
    struct weir_saver *saver = calloc(1, sizeof(*saver));
    int error = saver ? find_path(saver, path, ret_fault)
                      : weir_fault_format(ret_fault, WEIR_ENOMEM, "", "out of memory");
    if (!error) {
        error = weir_snapshot_open(saver->path, &saver->reader, ret_fault);
        weir_snapshot_close(saver->reader);
    }
    free(saver);
    return error == WEIR_EPROTO || error == WEIR_EIO || error == WEIR_ENOMEM ? error : 0;
}

void weir_saver_destroy(struct weir_saver *saver)
{
    if (!saver)
        return;
    weir_assert(!saver->started);
    weir_snapshot_close(saver->reader);
    pthread_cond_destroy(&saver->wake);
    pthread_mutex_destroy(&saver->mutex);
    if (saver->lock_fd >= 0)
        close(saver->lock_fd);
    free(saver);
}

const uint8_t *weir_saver_secret(const struct weir_saver *saver)
{
    return saver->reader ? weir_snapshot_secret(saver->reader) : NULL;
}

bool weir_saver_permits(const struct weir_saver *saver, struct weir_permit_secret *ret_secret)
{
    if (saver->has_permits)
        *ret_secret = saver->permits;
    return saver->has_permits;
}

int weir_saver_restore(struct weir_saver *saver, struct weir_limiter *limiter, struct weir_fault *ret_fault)
{
    struct weir_moment moment;
    struct weir_snapshot_stats stats;
    weir_moment_read(&moment);
    int error = weir_snapshot_restore(saver->reader, limiter, &moment, &stats, ret_fault);
    weir_snapshot_close(saver->reader);
    saver->reader = NULL;
    if (error) {
        char why[256];
        (void)snprintf(why, sizeof(why), "%.80s: %.31s %.100s", saver->path, ret_fault->field, ret_fault->text);
        saver->has_permits = false;
        put_aside(saver, why);
        return error;
    }
    saver->warns = stats.lost > 0;
    saver->view.wall_ns = weir_sub_sat(moment.wall_ns, stats.away_ns);
    char age[WEIR_DURATION_SIZE], lost[64] = "", fresh[64] = "";
    weir_duration_format(stats.away_ns / (WEIR_NS_PER_SECOND / 1000), age, sizeof(age));
    if (stats.lost > 0)
        (void)snprintf(lost, sizeof(lost), "; %" PRIu64 " found no place", stats.lost);
    if (stats.fresh > 0)
        (void)snprintf(fresh, sizeof(fresh), "; %" PRIu64 " more are fresh by now", stats.fresh);
    (void)snprintf(saver->said, sizeof(saver->said), "counters of %" PRIu64 " key%s from %.100s, %s old%s%s",
                   stats.keys, weir_s(stats.keys), saver->path, age, fresh, lost);
    return 0;
}

const char *weir_saver_said(const struct weir_saver *saver, bool *ret_warns)
{
    *ret_warns = saver->warns;
    return saver->said;
}

/* ---- writing ---- */

/* Waits until then, or until it is to stop; true: it is. Under the mutex. */
static bool wait_until(struct weir_saver *saver, uint64_t at_ns)
{
    const struct timespec at = { .tv_sec = (time_t)(at_ns / WEIR_NS_PER_SECOND),
                                 .tv_nsec = (long)(at_ns % WEIR_NS_PER_SECOND) };
    int waited = 0;
    while (!saver->stopping && waited == 0)
        waited = pthread_cond_timedwait(&saver->wake, &saver->mutex, &at);
    return saver->stopping;
}

/* Step by step; with `paced`, with pauses, and given up when it is to stop. */
static int write_steps(struct weir_saver *saver, struct weir_snapshot_writer *writer, bool paced,
                       struct weir_snapshot_stats *ret_stats, struct weir_fault *ret_fault)
{
    struct weir_moment moment;
    int error = WEIR_EAGAIN;
    while (error == WEIR_EAGAIN) {
        weir_moment_read(&moment);
        error = weir_snapshot_step(writer, STEP_LINES, &moment, ret_stats, ret_fault);
        if (!paced || error != WEIR_EAGAIN)
            continue;
        uint64_t ended_ns = uv_hrtime();
        pthread_mutex_lock(&saver->mutex);
        bool stop = wait_until(saver, ended_ns + PAUSE_TIMES * (ended_ns - moment.now_ns));
        pthread_mutex_unlock(&saver->mutex);
        if (stop)
            return WEIR_EAGAIN;
    }
    return error;
}

static void save(struct weir_saver *saver, bool paced)
{
    struct weir_snapshot_writer *writer = NULL;
    struct weir_snapshot_stats stats = { 0 };
    struct weir_fault fault = { 0 };
    struct weir_moment begun;
    weir_moment_read(&begun);
    int error = weir_snapshot_begin(saver->limiter, saver->path, &saver->permits, sizeof(saver->permits), &writer,
                                    &fault);
    if (!error)
        error = write_steps(saver, writer, paced, &stats, &fault);
    weir_snapshot_end(writer);
    if (error == WEIR_EAGAIN) /* given up for the last one */
        return;
    uint64_t took_ns = uv_hrtime() - begun.now_ns;
    pthread_mutex_lock(&saver->mutex);
    struct weir_saver_view *view = &saver->view;
    view->failing = error != 0;
    if (error) {
        view->failed++;
        (void)snprintf(view->fault, sizeof(view->fault), "%s", fault.text);
    } else {
        view->done++;
        view->keys = stats.keys;
        view->bytes = stats.bytes;
        view->took_ns = took_ns;
        view->wall_ns = begun.wall_ns;
    }
    pthread_mutex_unlock(&saver->mutex);
}

static void *saver_main(void *argument)
{
    struct weir_saver *saver = argument;
    uint64_t due_ns = uv_hrtime() + saver->every_ns;
    for (;;) {
        pthread_mutex_lock(&saver->mutex);
        bool stop = wait_until(saver, due_ns);
        pthread_mutex_unlock(&saver->mutex);
        if (stop)
            return NULL;
        save(saver, true);
        due_ns = weir_max_u64(due_ns + saver->every_ns, uv_hrtime());
    }
}

int weir_saver_start(struct weir_saver *saver, struct weir_limiter *limiter, const struct weir_permit_secret *permits)
{
    saver->limiter = limiter;
    saver->permits = *permits;
    sigset_t all, before;
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    saver->started = pthread_create(&saver->thread, NULL, saver_main, saver) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return saver->started ? 0 : WEIR_ENOMEM;
}

static void stop(struct weir_saver *saver)
{
    pthread_mutex_lock(&saver->mutex);
    saver->stopping = true;
    pthread_cond_signal(&saver->wake);
    pthread_mutex_unlock(&saver->mutex);
    pthread_join(saver->thread, NULL);
    saver->started = saver->stopping = false;
}

void weir_saver_finish(struct weir_saver *saver)
{
    if (!saver->started)
        return;
    stop(saver);
    save(saver, false);
}

void weir_saver_pause(struct weir_saver *saver)
{
    if (saver->started)
        stop(saver);
}

int weir_saver_go_on(struct weir_saver *saver)
{
    const struct weir_permit_secret permits = saver->permits;
    return weir_saver_start(saver, saver->limiter, &permits);
}

int weir_saver_lock(const struct weir_saver *saver)
{
    return saver->lock_fd;
}

void weir_saver_leave(struct weir_saver *saver)
{
    weir_assert(!saver->started);
    pthread_mutex_lock(&saver->mutex);
    saver->view.done = 0;
    saver->view.failing = false;
    pthread_mutex_unlock(&saver->mutex);
}

void weir_saver_view(struct weir_saver *saver, struct weir_saver_view *ret_view)
{
    pthread_mutex_lock(&saver->mutex);
    *ret_view = saver->view;
    pthread_mutex_unlock(&saver->mutex);
}
