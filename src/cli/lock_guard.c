/* SPDX-License-Identifier: Apache-2.0
 *
 * The guard is a fork of `weir lock` that waits in poll() for two things: the pipe, which brings the command's process
 * group and ends when `weir lock` dies, and a timer at the deadline. When the timer fires it reads the shared deadline
 * again, and waits on if that has moved. At the deadline, or when the pipe ends, it kills the group and exits. Called
 * by lock_run.c. */
#include "cli/lock_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/clock.h"
#include "weir/error.h"
#include "weir/limit.h"

struct weir_guard_shared {
    _Atomic uint64_t end_ns;
};

/* Fires as soon as the machine wakes from a sleep that outlasted the lease, where a poll's timeout would sleep on. */
static bool timer_set(int timer, uint64_t end_ns)
{
    const struct itimerspec at = { .it_value = { .tv_sec = (time_t)(end_ns / WEIR_NS_PER_SECOND),
                                                 .tv_nsec = (long)(end_ns % WEIR_NS_PER_SECOND) } };
    return timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL) == 0;
}

/* Runs in a copy of a program with threads: only calls that are safe in a signal handler. */
_Noreturn static void watch(const struct weir_guard_shared *shared, int from)
{
    pid_t group = 0;
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)setsid(); /* what stops or ends the job of a terminal must not stop or end its guard */
    (void)prctl(PR_SET_NAME, "weir-lock-guard");
    /* Nothing is kept open for others: not the output of a pipeline, not the connection to the server. */
    if (dup2(from, 0) < 0 || close_range(1, ~0U, 0) != 0)
        _exit(1);
    int timer = timerfd_create(CLOCK_BOOTTIME, 0);
    for (;;) {
        uint64_t end_ns = atomic_load(&shared->end_ns);
        if (weir_clock_now_ns() >= end_ns)
            break;
        struct pollfd events[2] = { { .fd = 0, .events = POLLIN }, { .fd = timer, .events = POLLIN } };
        if (!timer_set(timer, end_ns) || (poll(events, 2, -1) < 0 && errno != EINTR))
            break;
        if (events[0].revents && read(0, &group, sizeof(group)) != sizeof(group))
            break;
    }
    if (group > 0)
        (void)kill(-group, SIGKILL);
    _exit(0);
}

int weir_guard_start(struct weir_guard *guard, uint64_t end_ns)
{
    int ends[2];
    struct weir_guard_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                                            -1, 0);
    if (shared == MAP_FAILED)
        return WEIR_EIO;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        (void)munmap(shared, sizeof(*shared));
        return WEIR_EIO;
    }
    atomic_init(&shared->end_ns, end_ns);
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(ends[1]);
        watch(shared, ends[0]);
    }
    (void)close(ends[0]);
    if (pid < 0) {
        (void)close(ends[1]);
        (void)munmap(shared, sizeof(*shared));
        return WEIR_EIO;
    }
    *guard = (struct weir_guard){ shared, ends[1], pid };
    return 0;
}

void weir_guard_extend(struct weir_guard *guard, uint64_t end_ns)
{
    if (guard->pid < 0)
        return;
    atomic_store(&guard->shared->end_ns, end_ns);
}

static void let_go(struct weir_guard *guard)
{
    if (guard->pid < 0)
        return;
    (void)close(guard->pipe);
    (void)munmap(guard->shared, sizeof(*guard->shared));
    guard->pid = -1;
}

bool weir_guard_keep(struct weir_guard *guard, pid_t group, uint64_t end_ns, bool *ret_replaced)
{
    int status = 0;
    pid_t heard = guard->pid < 0 ? -1 : waitpid(guard->pid, &status, WNOHANG | WUNTRACED);
    if (heard == 0)
        return true;
    if (heard > 0 && WIFSTOPPED(status)) /* whoever stopped it may stop us next, and then nobody would be left */
        weir_guard_stop(guard);
    let_go(guard);
    if (weir_guard_start(guard, end_ns) != 0)
        return false;
    if (write(guard->pipe, &group, sizeof(group)) != sizeof(group)) {
        weir_guard_stop(guard);
        return false;
    }
    *ret_replaced = true;
    return true;
}

bool weir_guard_enter(const struct weir_guard *guard)
{
    const pid_t own = getpid();
    struct pollfd alive = { .fd = guard->pipe };
    return weir_clock_now_ns() < atomic_load(&guard->shared->end_ns) && poll(&alive, 1, 0) == 0 &&
           write(guard->pipe, &own, sizeof(own)) == sizeof(own);
}

void weir_guard_stop(struct weir_guard *guard)
{
    if (guard->pid >= 0) {
        (void)kill(guard->pid, SIGKILL);
        while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    let_go(guard);
}
