/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes of an experiment: each asks the kernel to die with the one that started it (PR_SET_PDEATHSIG), so that a
 * chain of them ends however its head does. The parent waits for the experiment, for Ctrl-C and for the time that it is
 * given, and removes the folder. The stand lies in memory that both share. Called by lab.c and by the experiments. */
#include "cli/lab_stand.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"

bool weir_lab_fail(struct weir_lab_stand *stand, const char *why, ...)
{
    va_list arguments;
    va_start(arguments, why);
    (void)vsnprintf(stand->error, sizeof(stand->error), why, arguments);
    va_end(arguments);
    return false;
}

uint64_t weir_lab_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * WEIR_NS_PER_MS + (uint64_t)now.tv_nsec;
}

void weir_lab_sleep_ns(uint64_t ns)
{
    struct timespec left = { .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

uint16_t weir_lab_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
                 getsockname(fd, (struct sockaddr *)&address, &size) == 0;
    if (fd >= 0)
        (void)close(fd);
    return found ? ntohs(address.sin_port) : 0;
}

/* ---- programs ---- */

static bool is_program(const char *folder, size_t size, const char *name, char ret_path[PATH_MAX])
{
    int length = snprintf(ret_path, PATH_MAX, "%.*s/%s", (int)size, folder, name);
    return size > 0 && length > 0 && length < PATH_MAX && access(ret_path, X_OK) == 0;
}

bool weir_lab_program_find(const char *name, char ret_path[PATH_MAX])
{
    const char *path = getenv("PATH");
    for (const char *at = path ? path : "/usr/bin:/bin"; *at;) {
        size_t size = strcspn(at, ":");
        if (is_program(at, size, name, ret_path))
            return true;
        at += size + (at[size] == ':');
    }
    glob_t found;
    char pattern[PATH_MAX];
    (void)snprintf(pattern, sizeof(pattern), "/usr/lib/postgresql/*/bin/%s", name);
    if (glob(pattern, 0, NULL, &found) != 0)
        return false;
    bool is = found.gl_pathc > 0 && access(found.gl_pathv[found.gl_pathc - 1], X_OK) == 0;
    if (is)
        (void)snprintf(ret_path, PATH_MAX, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
    return is;
}

bool weir_lab_weir_find(char ret_path[PATH_MAX])
{
    char own[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", own, sizeof(own));
    while (size > 0 && own[size - 1] != '/')
        size--;
    if (size <= 0)
        return false;
    return is_program(own, (size_t)size, "weir", ret_path) ||
           is_program(own, (size_t)size, "../../bin/weir", ret_path) || weir_lab_program_find("weir", ret_path);
}

/* PostgreSQL refuses to run as root. */
static bool is_of_postgres(const char *path)
{
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    return strcmp(name, "postgres") == 0 || strcmp(name, "initdb") == 0 || strncmp(name, "pg_", 3) == 0;
}

static void become_postgres(void)
{
    const struct passwd *user = geteuid() == 0 ? getpwnam("postgres") : NULL;
    if (user && (setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0))
        _exit(126);
}

_Noreturn static void program_exec(const char *path, const char *log, const char *const *words)
{
    int null = open("/dev/null", O_RDONLY), out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (null < 0 || out < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(out, STDERR_FILENO) < 0)
        _exit(126);
    (void)close_range(STDERR_FILENO + 1, UINT_MAX, 0);
    if (is_of_postgres(path))
        become_postgres();
    /* A change of the user takes it back. PostgreSQL leaves shared memory behind where it is killed. */
    (void)prctl(PR_SET_PDEATHSIG, is_of_postgres(path) ? SIGQUIT : SIGKILL);
    char *arguments[32];
    size_t count = 0;
    for (; words[count] && count + 1 < sizeof(arguments) / sizeof(arguments[0]); count++)
        arguments[count] = strdup(words[count]);
    arguments[0] = strdup(path); /* initdb looks for others beside itself */
    arguments[count] = NULL;
    (void)execv(path, arguments);
    _exit(127);
}

static pid_t child_make(struct weir_lab_stand *stand)
{
    (void)fflush(NULL);
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        (void)weir_lab_fail(stand, "no process could be started: %s", strerror(errno));
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(126);
    }
    return pid;
}

pid_t weir_lab_fork(struct weir_lab_stand *stand, int (*work)(void *context), void *context)
{
    pid_t pid = child_make(stand);
    if (pid == 0) {
        /* What libraries say of servers that are crashed on purpose is not for the reader. */
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (null >= 0)
            (void)dup2(null, STDERR_FILENO);
        _exit(work(context));
    }
    return pid > 0 ? pid : 0;
}

pid_t weir_lab_start(struct weir_lab_stand *stand, const char *name, const char *const *words)
{
    char path[PATH_MAX], log[WEIR_LAB_PATH_SIZE + 64];
    if (strchr(words[0], '/'))
        (void)snprintf(path, sizeof(path), "%s", words[0]);
    else if (!weir_lab_program_find(words[0], path))
        return weir_lab_fail(stand, "%s is not in PATH", words[0]), 0;
    (void)snprintf(log, sizeof(log), "%s/%s.log", stand->folder, name);
    pid_t pid = child_make(stand);
    if (pid == 0)
        program_exec(path, log, words);
    return pid > 0 ? pid : 0;
}

void weir_lab_kill(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

bool weir_lab_runs(pid_t pid)
{
    return waitpid(pid, NULL, WNOHANG) == 0;
}

/* The last line that a program printed; "" where there is none. */
static void log_last(const struct weir_lab_stand *stand, const char *name, char ret_line[160])
{
    char path[WEIR_LAB_PATH_SIZE + 64], line[160];
    (void)snprintf(path, sizeof(path), "%s/%s.log", stand->folder, name);
    FILE *file = fopen(path, "r");
    ret_line[0] = '\0';
    while (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0])
            memcpy(ret_line, line, sizeof(line));
    }
    if (file)
        (void)fclose(file);
}

bool weir_lab_complete(struct weir_lab_stand *stand, const char *name, const char *const *words)
{
    pid_t pid = weir_lab_start(stand, name, words);
    int status = 0;
    if (pid == 0)
        return false;
    for (uint64_t end_ns = weir_lab_now_ns() + WEIR_LAB_READY_NS; waitpid(pid, &status, WNOHANG) == 0;) {
        if (weir_lab_now_ns() > end_ns) {
            weir_lab_kill(pid);
            return weir_lab_fail(stand, "%s did not end", words[0]);
        }
        weir_lab_sleep_ns(2 * WEIR_NS_PER_MS);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    char said[160];
    log_last(stand, name, said);
    return weir_lab_fail(stand, "%s failed%s%s", words[0], said[0] ? ": " : "", said);
}

/* ---- the experiment as a whole ---- */

static int file_remove(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

/* What was started ends a moment after the experiment, and may have made a file meanwhile. */
static void folder_remove(const char *folder)
{
    for (int tries = 0; tries < 100 && nftw(folder, file_remove, 16, FTW_DEPTH | FTW_PHYS) != 0; tries++) {
        if (access(folder, F_OK) != 0)
            return;
        weir_lab_sleep_ns(20 * WEIR_NS_PER_MS);
    }
}

static bool folder_make(struct weir_lab_stand *stand)
{
    const char *temporary = getenv("TMPDIR");
    (void)snprintf(stand->folder, sizeof(stand->folder), "%s/weir-lab-XXXXXX",
                   temporary && strlen(temporary) < 128 ? temporary : "/tmp");
    if (!mkdtemp(stand->folder))
        return weir_lab_fail(stand, "%s: %s", stand->folder, strerror(errno));
    /* Root's servers run as others, and come through here. */
    return chmod(stand->folder, geteuid() == 0 ? 0711 : 0700) == 0;
}

/* Until the experiment ends, somebody ends us, or its time is up: whether it was good. */
static bool experiment_wait(struct weir_lab_stand *stand, pid_t pid, const sigset_t *signals)
{
    uint64_t end_ns = weir_lab_now_ns() + WEIR_LAB_SECONDS_MAX * 1000 * WEIR_NS_PER_MS;
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0) {
        const struct timespec room = { .tv_nsec = 20 * (long)WEIR_NS_PER_MS };
        int signal = sigtimedwait(signals, NULL, &room);
        bool late = weir_lab_now_ns() > end_ns;
        if (!late && (signal < 0 || signal == SIGCHLD))
            continue;
        weir_lab_kill(pid);
        return late ? weir_lab_fail(stand, "the experiment did not end within %d s", WEIR_LAB_SECONDS_MAX)
                    : weir_lab_fail(stand, "ended by a signal");
    }
    if (ended == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (!stand->error[0])
        (void)weir_lab_fail(stand, "the experiment broke off");
    return false;
}

bool weir_lab_stand_run(bool (*run)(struct weir_lab_stand *stand), uint64_t seed, struct weir_lab_report *ret_report)
{
    struct weir_lab_stand *stand = mmap(NULL, sizeof(*stand), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                                        0);
    sigset_t signals, before;
    if (stand == MAP_FAILED)
        return false;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGHUP);
    (void)sigaddset(&signals, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &signals, &before);
    stand->seed = seed;
    stand->report.source = WEIR_LAB_REAL;
    bool good = folder_make(stand);
    pid_t pid = good ? child_make(stand) : -1;
    if (pid == 0) {
        (void)setpgid(0, 0); /* Ctrl-C is the parent's: it ends us */
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        (void)signal(SIGPIPE, SIG_IGN);
        _exit(run(stand) ? 0 : 1);
    }
    good = good && pid > 0 && experiment_wait(stand, pid, &signals);
    if (stand->folder[0])
        folder_remove(stand->folder);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (good)
        *ret_report = stand->report;
    else
        fprintf(stderr, "weir: %s\n", stand->error);
    (void)munmap(stand, sizeof(*stand));
    return good;
}
