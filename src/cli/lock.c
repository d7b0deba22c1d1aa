/* SPDX-License-Identifier: Apache-2.0
 *
 * The verb `weir lock`, called by main.c. The words show, release and restored go to lock_ask.c. For `weir lock NAME`
 * with a command it reads the options, acquires the lock over RESP (weir/lock.h, implemented in src/client), and hands
 * it to weir_lock_run (lock_run.c), which runs the command and releases the lock; where the lock was not granted it
 * says why. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli/lock_ask.h"
#include "cli/lock_run.h"
#include "cli/option.h"
#include "cli/plain.h"
#include "cli/verbs.h"
#include "client/ask.h"
#include "client/clock.h"
#include "rules/config.h"
#include "weir/limit.h"

static const char help[] =
    "Usage: weir lock NAME [OPTION ...] -- COMMAND [ARGUMENT ...]\n"
    "       weir lock show NAME | release NAME --owner ID | restored      (each has its own --help)\n"
    "\n"
    "Runs COMMAND while this machine, of all that ask the same server, holds the lock NAME. The lease is renewed "
    "while\n"
    "COMMAND runs. If that fails, COMMAND gets TERM a quarter of the lease before this holder's own deadline and KILL "
    "at\n"
    "it; so it does while weir lock itself is stopped, or has been killed.\n"
    "\n"
    "  --ttl TIME       the lease, 2s to 1day (15s): for how long others wait if this machine dies\n"
    "  --wait TIME      for the holder to go, in order of arrival, up to 1day (0: do not wait)\n"
    "  --owner ID       who holds it (HOST:PID:RANDOM); the same owner asking again keeps the lock and its token\n"
    "  --seen N         the incarnation of a mark that fenced you; the server raises its own above it\n"
    "  --progress TIME  COMMAND must write a byte to the descriptor WEIR_PROGRESS_FD at least so often, or the lock "
    "is\n"
    "                   not renewed\n"
    "  --server ADDR    where weir answers RESP (127.0.0.1:6380): HOST:PORT, [IPV6]:PORT or unix:/path;\n"
    "                   show, release and restored ask where it answers HTTP (127.0.0.1:8080)\n"
    "  --token TOKEN    who asks; better in the environment as WEIR_TOKEN, or in\n"
    "  --token-file F   a file, where ps does not show it\n"
    "  --timeout TIME   for an answer, beyond the wait (5s)\n"
    "  -E N, --held-exit N   the exit code if another holds it (75)\n"
    "  --name NAME      a name that begins with '-', or is one of the words above\n"
    "\n"
    "COMMAND finds the token in its environment: WEIR_FENCE (INCARNATION.NUMBER), WEIR_FENCE_INCARNATION,\n"
    "WEIR_FENCE_NUMBER, and WEIR_LOCK_NAME. A lock alone protects nothing from a holder that paused: install the "
    "token\n"
    "at what is written to before the first read, and have each write checked there (docs/fencing.md).\n"
    "\n"
    "Exit code: COMMAND's, or 128 + the signal that ended it. 75 another holds the lock, 69 no answer: COMMAND was "
    "not\n"
    "run. 70 the lock was lost while it ran. 126 COMMAND cannot be run, 127 it is not there. 2 wrong arguments.\n"
    "\n"
    "Examples:\n"
    "  weir lock nightly-backup -- /usr/local/bin/backup\n"
    "  weir lock deploy --wait 10min --ttl 30s --server locks.internal:6380 -- make deploy\n"
    "  weir lock report -E 0 -- ./report    # cron: whoever comes second does nothing\n"
    "  weir lock import --progress 30s -- sh -c 'for f in *; do load \"$f\"; echo >&$WEIR_PROGRESS_FD; done'\n";

struct flags {
    struct weir_locks_options server;
    struct weir_lock_options lock;
    const char *name;
    const char *token_file, *owner;
    uint64_t ttl_ns;
    uint64_t held_exit;
};

static const struct {
    const char *word;
    int (*run)(int argc, char **argv);
} words[] = { { "show", weir_lock_show }, { "release", weir_lock_give_back }, { "restored", weir_lock_restored } };
#define WORDS_COUNT (sizeof(words) / sizeof(words[0]))

/* `weir lock shwo NAME` has no command either. */
static void word_meant(const char *name)
{
    struct weir_nearest nearest = { .text = name, .size = strlen(name) };
    char hint[80];
    for (size_t i = 0; i < WORDS_COUNT; i++)
        weir_nearest_offer(&nearest, words[i].word);
    if (nearest.word)
        fprintf(stderr, "weir: lock has no '%s'%s\n", name, weir_nearest_format(&nearest, "", hint, sizeof(hint)));
}

static int complain(const char *option, const char *text)
{
    fprintf(stderr, "weir: %s %s\n", option, text);
    return WEIR_EXIT_ERROR;
}

/* A duration in ms: shorter parts are refused, as no option here means anything by them. */
static int time_read(const char *name, const char *value, uint64_t max_ms, uint64_t *ret_ms)
{
    struct weir_fault fault;
    uint64_t ns = 0;
    if (strcmp(value, "0") != 0 && weir_duration_parse(value, &ns, &fault) != 0)
        return weir_option_wrong(name, fault.text);
    if (ns % WEIR_NS_PER_MS != 0 || ns / WEIR_NS_PER_MS > max_ms)
        return weir_option_wrong(name, "must be whole milliseconds, up to 1day");
    *ret_ms = ns / WEIR_NS_PER_MS;
    return 0;
}

static int timeout_read(void *flags, const char *name, char *value)
{
    uint64_t ms = 0;
    int failed = time_read(name, value, WEIR_LOCK_WAIT_MAX_MS, &ms);
    if (!failed && ms == 0)
        return weir_option_wrong(name, "must be more than 0");
    ((struct flags *)flags)->server.timeout_ms = (unsigned)ms;
    return failed;
}

/* 0 is no short way to say 15s: everything that counts from the lease would count from nothing. */
static int ttl_read(void *flags, const char *name, char *value)
{
    uint64_t ms = 0;
    int failed = time_read(name, value, WEIR_LOCK_TTL_MAX_MS, &ms);
    if (!failed && ms < WEIR_LOCK_TTL_MIN_MS)
        return weir_option_wrong(name, "must be 2s to 1day");
    ((struct flags *)flags)->lock.ttl_ms = ms;
    return failed;
}

static int wait_read(void *flags, const char *name, char *value)
{
    return time_read(name, value, WEIR_LOCK_WAIT_MAX_MS, &((struct flags *)flags)->lock.wait_ms);
}

static int progress_read(void *flags, const char *name, char *value)
{
    return time_read(name, value, WEIR_LOCK_TTL_MAX_MS, &((struct flags *)flags)->lock.progress_ms);
}

/* What stands before "--"; the name may come anywhere in it. WEIR_OPTIONS_READ, or the exit code. */
static int flags_read(int argc, char **argv, struct flags *flags)
{
    const struct weir_option options[] = {
        { "ttl", .read = ttl_read },
        { "wait", .read = wait_read },
        { "progress", .read = progress_read },
        { "owner", .text = &flags->owner },
        { "seen", .number = &flags->lock.seen_incarnation, .most = UINT64_C(1) << 62, .unshown = true },
        { "server", .text = &flags->server.address },
        { "token", .text = &flags->server.token },
        { "token-file", .text = &flags->token_file },
        { "timeout", .read = timeout_read },
        { "held-exit", 'E', .number = &flags->held_exit, .most = 255, .unshown = true },
        { "name", .text = &flags->name },
        WEIR_OPTIONS_HELP,
    };
    const int read = weir_options_read(argc, argv, options, flags, help, "weir lock --help");
    if (read != WEIR_OPTIONS_READ)
        return read;
    if (!flags->name && optind < argc)
        flags->name = argv[optind++];
    if (!flags->name)
        return complain("lock", "needs a NAME (try weir lock --help)");
    if (optind < argc) {
        word_meant(flags->name);
        return complain(argv[optind], "is one argument too many: the command comes after --");
    }
    return WEIR_OPTIONS_READ;
}

/* "HOST:PID:RANDOM": who reads `weir lock show` finds the holder, and no two are the same. */
static bool owner_make(char *buffer, size_t size)
{
    char host[128] = "";
    uint64_t random;
    if (gethostname(host, sizeof(host) - 1) != 0 || getrandom(&random, sizeof(random), 0) != sizeof(random))
        return false;
    (void)snprintf(buffer, size, "%s:%ld:%016" PRIx64, host, (long)getpid(), random);
    return true;
}

/* By whom, where it can be known within a second. */
static void holder_print(struct weir_locks *locks, const char *name, const char *shown)
{
    struct weir_holder holder;
    if (!weir_lock_look(locks, (struct weir_slice){ name, strlen(name) }, WEIR_NS_PER_SECOND, &holder)) {
        fprintf(stderr, "weir: %s: is held by another\n", shown);
        return;
    }
    fprintf(stderr, "weir: %s: is held by ", shown);
    weir_plain_print(stderr, (struct weir_slice){ holder.owner, holder.owner_size });
    fprintf(stderr, " for %" PRIu64 " ms more, if it does not renew\n", holder.lease_ms);
}

static int refusal_print(struct weir_locks *locks, const struct flags *flags, int error)
{
    struct weir_fault fault;
    char name[WEIR_PLAIN_SIZE(WEIR_LOCK_NAME_MAX)], text[WEIR_PLAIN_SIZE(sizeof(fault.text))];
    weir_locks_fault(locks, &fault);
    (void)weir_plain(flags->name, name, sizeof(name));
    (void)weir_plain(fault.text, text, sizeof(text));
    if (error == WEIR_EHELD || error == WEIR_ELIMIT) {
        if (error == WEIR_EHELD)
            holder_print(locks, flags->name, name);
        else
            fprintf(stderr, "weir: %s: %s\n", name, text);
        return (int)flags->held_exit;
    }
    if (error == WEIR_ERANGE || error == WEIR_EINVAL) {
        fprintf(stderr, "weir: %s %s\n", fault.field, text);
        return WEIR_EXIT_ERROR;
    }
    fprintf(stderr, "weir: %s: %s: %s\n", name,
            error == WEIR_EUNKNOWN ? "unknown whether it was granted" : "not granted", text);
    return WEIR_LOCK_EXIT_UNKNOWN;
}

static int run_locked(struct flags *flags, char **command)
{
    struct weir_locks *locks = NULL;
    struct weir_lock *lock = NULL;
    struct weir_fault fault;
    int error = weir_locks_connect(&flags->server, &locks, &fault);
    if (error) {
        char text[WEIR_PLAIN_SIZE(sizeof(fault.text))];
        fprintf(stderr, "weir: %s: %s\n", flags->server.address, weir_plain(fault.text, text, sizeof(text)));
        fputs("weir: --server is the address of RESP here (port 6380), and that of HTTP for show, release, restored\n",
              stderr);
        return error == WEIR_EINVAL ? WEIR_EXIT_ERROR : WEIR_LOCK_EXIT_UNKNOWN;
    }
    int code;
    error = weir_lock_acquire(locks, flags->name, strlen(flags->name), &flags->lock, &lock);
    if (error) {
        code = refusal_print(locks, flags, error);
    } else {
        const struct weir_lock_run run = { .name = flags->name,
                                           .command = command,
                                           .ttl_ns = flags->lock.ttl_ms * WEIR_NS_PER_MS,
                                           .progress = flags->lock.progress_ms > 0 };
        code = weir_lock_run(lock, &run);
    }
    weir_locks_disconnect(locks);
    return code;
}

static int run_main(int argc, char **argv)
{
    char owner[WEIR_LOCK_OWNER_MAX];
    struct flags flags = { .server = { .address = "127.0.0.1:6380", .token = getenv("WEIR_TOKEN") },
                           .lock = { .ttl_ms = 15000, .renew = true },
                           .held_exit = WEIR_LOCK_EXIT_HELD };
    int count = 1;
    while (count < argc && strcmp(argv[count], "--") != 0)
        count++;
    char **command = argv + count + (count < argc ? 1 : 0);
    argv[count] = NULL;
    const int read = flags_read(count, argv, &flags);
    if (read != WEIR_OPTIONS_READ)
        return read;
    if (!*command) {
        word_meant(flags.name);
        return complain("lock", "needs a COMMAND after -- (try weir lock --help)");
    }
    char *token = flags.token_file ? weir_token_file_read(flags.token_file) : NULL;
    if (flags.token_file && !token)
        return WEIR_EXIT_ERROR;
    flags.server.token = token ? token : flags.server.token && *flags.server.token ? flags.server.token : NULL;
    if (!flags.owner && owner_make(owner, sizeof(owner)))
        flags.owner = owner;
    flags.lock.owner = flags.owner;
    flags.lock.owner_size = flags.owner ? strlen(flags.owner) : 0;
    int code = run_locked(&flags, command);
    free(token);
    return code;
}

int weir_cli_lock(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < WORDS_COUNT; i++) {
        if (strcmp(argv[1], words[i].word) == 0)
            return words[i].run(argc - 1, argv + 1);
    }
    return run_main(argc, argv);
}
