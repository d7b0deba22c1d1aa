/* SPDX-License-Identifier: Apache-2.0
 *
 * One loop, until the command has ended: hand the lock's deadline on to the guard (lock_guard.c), end the command if
 * the deadline comes too near, wait for a signal, the timer or a byte of progress. Signals are passed on to the
 * command's process group. Afterwards that group is killed and the command reaped before the lock is released. Called
 * by lock.c; the lease is renewed by the library's thread (client/lock.c). */
#include "cli/lock_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "cli/lock_guard.h"
#include "client/clock.h"
#include "weir/limit.h"

#define OURS_MAX 5                     /* variables that we add */
#define LOOK_MAX_NS WEIR_NS_PER_SECOND /* how late a loss that the renewals find out is noticed */

struct run {
    struct weir_lock *lock;
    const struct weir_lock_run *given;
    struct weir_guard guard;
    char **environment;
    size_t ours;        /* of the environment, at its front: allocated */
    sigset_t before;    /* the signals that were blocked when we came */
    void (*pipe)(int);  /* what was done then with a pipe that nobody reads */
    int signals, timer; /* descriptors */
    int progress[2];    /* read end, write end; -1 without */
    pid_t child;        /* and its group */
    bool terminal;      /* we were in its foreground, and the command is now */
    bool ended;         /* by us, with TERM or KILL, for the lock's sake */
    bool killed;
};

static int complain(const char *what)
{
    fprintf(stderr, "weir: %s: %s\n", what, strerror(errno));
    return WEIR_LOCK_EXIT_CANNOT_RUN;
}

/* While the command runs nobody is waited for: whoever reads this may have stopped to, and the deadline goes on. */
static void say(const char *text)
{
    struct pollfd taken = { .fd = STDERR_FILENO, .events = POLLOUT };
    if (poll(&taken, 1, 0) == 1)
        fprintf(stderr, "weir: %s\n", text);
}

/* ---- the environment ---- */

__attribute__((format(printf, 1, 2))) static char *variable(const char *format, ...)
{
    char *text = NULL;
    va_list list;
    va_start(list, format);
    int size = vasprintf(&text, format, list);
    va_end(list);
    return size < 0 ? NULL : text;
}

static bool is_ours(const char *text)
{
    return strncmp(text, "WEIR_FENCE", 10) == 0 || strncmp(text, "WEIR_LOCK_NAME=", 15) == 0 ||
           strncmp(text, "WEIR_PROGRESS_FD=", 17) == 0;
}

/* A copy: the library's thread may read the environment, so it is not changed. */
static bool environment_make(struct run *run)
{
    size_t count = 0;
    while (environ[count])
        count++;
    char **list = calloc(count + OURS_MAX + 1, sizeof(*list));
    if (!list)
        return false;
    size_t at = 0;
    struct weir_token token = weir_lock_token(run->lock);
    list[at++] = variable("WEIR_FENCE=%" PRIu64 ".%" PRIu64, token.incarnation, token.number);
    list[at++] = variable("WEIR_FENCE_INCARNATION=%" PRIu64, token.incarnation);
    list[at++] = variable("WEIR_FENCE_NUMBER=%" PRIu64, token.number);
    list[at++] = variable("WEIR_LOCK_NAME=%s", run->given->name);
    if (run->given->progress)
        list[at++] = variable("WEIR_PROGRESS_FD=%d", run->progress[1]);
    bool whole = true;
    for (size_t i = 0; i < at; i++)
        whole = whole && list[i];
    run->ours = at;
    for (size_t i = 0; i < count; i++) {
        if (!is_ours(environ[i]))
            list[at++] = environ[i];
    }
    run->environment = list;
    return whole;
}

/* ---- the command's process ---- */

_Noreturn static void command_exec(const struct run *run)
{
    (void)setpgid(0, 0);
    if (run->terminal)
        (void)tcsetpgrp(STDIN_FILENO, getpid());
    (void)signal(SIGTTOU, SIG_DFL);
    /* Should weir lock die, so does the command; the guard sees to the rest of the group. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!weir_guard_enter(&run->guard))
        _exit(WEIR_LOCK_EXIT_LOST);
    if (run->given->progress)
        (void)fcntl(run->progress[1], F_SETFD, 0);
    (void)signal(SIGPIPE, run->pipe);
    (void)sigprocmask(SIG_SETMASK, &run->before, NULL);
    (void)execvpe(run->given->command[0], run->given->command, run->environment);
    int failure = errno;
    dprintf(STDERR_FILENO, "weir: %s: %s\n", run->given->command[0], strerror(failure));
    _exit(failure == ENOENT ? WEIR_LOCK_EXIT_NOT_FOUND : WEIR_LOCK_EXIT_CANNOT_RUN);
}

static void group_signal(const struct run *run, int signal)
{
    (void)kill(-run->child, signal);
}

/* The command gets the terminal where we had it and would read from it, as a shell gives it to a job. */
static void terminal_give(struct run *run)
{
    if (run->terminal && tcgetpgrp(STDIN_FILENO) == getpgrp())
        (void)tcsetpgrp(STDIN_FILENO, run->child);
}

static void terminal_take(struct run *run)
{
    if (run->terminal && tcgetpgrp(STDIN_FILENO) == run->child)
        (void)tcsetpgrp(STDIN_FILENO, getpgrp());
}

/* Stops with the command, so that a shell gets its terminal back. Whoever continues us continues it, if the lock is
 * still ours by then. */
static void stop_together(struct run *run)
{
    terminal_take(run);
    (void)raise(SIGSTOP);
    if (weir_lock_mine(run->lock)) {
        terminal_give(run);
        group_signal(run, SIGCONT);
    }
}

static int command_start(struct run *run)
{
    run->child = fork();
    if (run->child == 0)
        command_exec(run);
    if (run->child < 0)
        return complain("fork");
    (void)setpgid(run->child, run->child); /* whichever of the two comes first */
    terminal_give(run);
    if (run->given->progress) {
        (void)close(run->progress[1]);
        run->progress[1] = -1;
    }
    return 0;
}

/* ---- while it runs ---- */

/* The command must not run unguarded: without a guard it is asked to end, and a new one is tried for again. */
static void guard_keep(struct run *run, uint64_t end_ns)
{
    bool replaced = false;
    if (weir_guard_keep(&run->guard, run->child, end_ns, &replaced)) {
        if (replaced)
            say("the guard of the lock had died or was stopped: another has taken its place");
    } else if (!run->ended) {
        say("the lock has no guard any more, and there is no other: the command is asked to end");
        run->ended = true;
        group_signal(run, SIGTERM);
        group_signal(run, SIGCONT);
    }
}

/* Renewals move the deadline; it is handed on to the guard, and the command is ended where they do not. Before
 * anything else whenever we wake: we may have been stopped for long. */
static uint64_t deadline_keep(struct run *run)
{
    uint64_t now_ns = weir_clock_now_ns(); /* first, so that the sum is early rather than late */
    uint64_t left_ns = weir_lock_left_ms(run->lock) * WEIR_NS_PER_MS;
    uint64_t warn_ns = run->given->ttl_ns / 4;
    weir_guard_extend(&run->guard, left_ns ? now_ns + left_ns : 0);
    if (left_ns > 0)
        guard_keep(run, now_ns + left_ns);
    if (left_ns == 0) {
        if (!run->killed)
            say("the lock is lost: the command is killed");
        group_signal(run, SIGKILL);
        run->ended = run->killed = true;
        return LOOK_MAX_NS;
    }
    if (left_ns <= warn_ns && !run->ended) {
        say("the lock could not be renewed: the command is asked to end");
        run->ended = true;
        group_signal(run, SIGTERM);
        group_signal(run, SIGCONT); /* one that is stopped would not hear it */
    }
    left_ns = run->ended ? left_ns : left_ns - warn_ns;
    return weir_min_u64(left_ns, weir_min_u64(run->given->ttl_ns / 12, LOOK_MAX_NS));
}

static void signal_pass(struct run *run)
{
    struct signalfd_siginfo info;
    if (read(run->signals, &info, sizeof(info)) != sizeof(info) || info.ssi_signo == SIGCHLD)
        return;
    int number = (int)info.ssi_signo;
    group_signal(run, number);
    if (number == SIGTSTP)
        stop_together(run);
    else if (number == SIGTERM || number == SIGHUP)
        group_signal(run, SIGCONT);
}

static void progress_read(struct run *run)
{
    char bytes[512];
    ssize_t got = read(run->progress[0], bytes, sizeof(bytes));
    if (got > 0) {
        weir_lock_advance(run->lock);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        (void)close(run->progress[0]);
        run->progress[0] = -1;
    }
}

static void wait_for(struct run *run, uint64_t time_ns)
{
    uint64_t at_ns = weir_clock_now_ns() + time_ns;
    const struct itimerspec at = { .it_value = { .tv_sec = (time_t)(at_ns / WEIR_NS_PER_SECOND),
                                                 .tv_nsec = (long)(at_ns % WEIR_NS_PER_SECOND) } };
    struct pollfd events[3] = { { .fd = run->signals, .events = POLLIN },
                                { .fd = run->timer, .events = POLLIN },
                                { .fd = run->progress[0], .events = POLLIN } };
    (void)timerfd_settime(run->timer, TFD_TIMER_ABSTIME, &at, NULL);
    if (poll(events, 3, -1) <= 0)
        return;
    if (events[0].revents)
        signal_pass(run);
    if (events[2].revents)
        progress_read(run);
}

/* As the first process of a container we are given whatever lost its parent, and nobody else buries it. */
static void strangers_reap(const struct run *run)
{
    for (;;) {
        siginfo_t info = { 0 };
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0 ||
            info.si_pid == run->child || info.si_pid == run->guard.pid)
            return;
        (void)waitpid(info.si_pid, NULL, WNOHANG);
    }
}

/* True: it has ended and is not reaped yet, so that its number is still its own. */
static bool command_ended(struct run *run)
{
    siginfo_t info = { 0 };
    if (waitid(P_PID, (id_t)run->child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == run->child)
        return true;
    info.si_pid = 0;
    if (waitid(P_PID, (id_t)run->child, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid == run->child && run->terminal)
        stop_together(run);
    return false;
}

/* ---- all of it ---- */

static int begin(struct run *run)
{
    sigset_t signals;
    static const int passed[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCHLD };
    (void)sigemptyset(&signals);
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
        (void)sigaddset(&signals, passed[i]);
    (void)sigprocmask(SIG_BLOCK, &signals, &run->before);
    /* Who started us may ignore it, and so do we then: the command would vanish when it ends, with its exit code. */
    (void)signal(SIGCHLD, SIG_DFL);
    run->pipe = signal(SIGPIPE, SIG_IGN); /* what we say is for people: the command does not hang on who reads it */
    (void)signal(SIGTTOU, SIG_IGN);       /* we hand the terminal on from its background */
    run->terminal = isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
    run->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    run->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    if (run->signals < 0 || run->timer < 0)
        return complain("descriptors");
    if (run->given->progress && (pipe2(run->progress, O_CLOEXEC) != 0 || fcntl(run->progress[0], F_SETFL, O_NONBLOCK)))
        return complain("pipe");
    if (!environment_make(run))
        return complain("environment");
    uint64_t now_ns = weir_clock_now_ns();
    if (weir_guard_start(&run->guard, now_ns + weir_lock_left_ms(run->lock) * WEIR_NS_PER_MS) != 0)
        return complain("guard");
    int code = command_start(run);
    if (code)
        weir_guard_stop(&run->guard);
    return code;
}

/* What it left behind in its group would go on without the lock. */
static int reap(struct run *run)
{
    int status = 0;
    group_signal(run, SIGKILL);
    weir_guard_stop(&run->guard);
    while (waitpid(run->child, &status, 0) < 0 && errno == EINTR)
        ;
    terminal_take(run);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int release(struct run *run, int code)
{
    int error = weir_lock_release(run->lock);
    if (run->ended || error == WEIR_ELOST) {
        if (!run->ended)
            say("the lock was lost while the command ran");
        return WEIR_LOCK_EXIT_LOST;
    }
    if (error)
        say("nobody answers: the lock returns when its lease ends");
    return code;
}

static void end(struct run *run)
{
    for (size_t i = 0; run->environment && i < run->ours; i++)
        free(run->environment[i]);
    free(run->environment);
    const int open[] = { run->signals, run->timer, run->progress[0], run->progress[1] };
    for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
        if (open[i] >= 0)
            (void)close(open[i]);
    }
}

int weir_lock_run(struct weir_lock *lock, const struct weir_lock_run *given)
{
    struct run run = { .lock = lock, .given = given, .signals = -1, .timer = -1, .progress = { -1, -1 } };
    int code = begin(&run);
    if (!code) {
        uint64_t time_ns = deadline_keep(&run);
        for (; !command_ended(&run); time_ns = deadline_keep(&run)) {
            strangers_reap(&run);
            wait_for(&run, time_ns);
        }
        code = reap(&run);
    }
    code = release(&run, code);
    end(&run);
    return code;
}
