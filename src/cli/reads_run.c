/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of a check: look at the servers and make the table (reads_table.c), start the pollers of sessions and
 * the sessions (reads_work.c), sample the lag until the time is over or a signal comes, end the sessions, drop the
 * table, then count (reads_count.c) and print. The table is dropped before anything is printed, because printing may
 * block. Called by reads.c. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "cli/plain.h"
#include "cli/reads_work.h"
#include "cli/verbs.h"
#include "net/postgres_ask.h"
#include "sessions/servers.h"
#include "weir/error.h"

#define POLL_NS UINT64_C(20000000)
#define FREEZE_NS UINT64_C(1000000000)
#define TIMEOUT_NS UINT64_C(1000000000)
#define PROGRESS_NS UINT64_C(500000000)
#define PROGRESS_AFTER_NS UINT64_C(5000000000) /* shorter runs are over before anybody wonders */

/* ---- lag ---- */

static int lag_init(struct weir_reads_lag *lag, const struct weir_reads_plan *plan)
{
    *lag = (struct weir_reads_lag){ .max = (size_t)(plan->duration_ns / WEIR_READS_SAMPLE_NS) + 1 };
    lag->samples = calloc(lag->max * plan->server_count, sizeof(lag->samples[0]));
    lag->out = calloc(lag->max * plan->server_count, sizeof(lag->out[0]));
    return lag->samples && lag->out ? 0 : WEIR_ENOMEM;
}

static void lag_deinit(struct weir_reads_lag *lag)
{
    free(lag->samples);
    free(lag->out);
}

static const struct weir_route_server *server_find(const struct weir_snapshot *snapshot, const char *name)
{
    for (unsigned i = 0; i < snapshot->count; i++) {
        if (strcmp(snapshot->states[i].name, name) == 0)
            return &snapshot->servers[i];
    }
    return NULL;
}

static void lag_sample(struct weir_reads_lag *lag, const struct weir_reads_plan *plan, struct weir_servers *servers)
{
    if (lag->count == lag->max)
        return;
    const struct weir_snapshot *snapshot = weir_servers_look(servers);
    for (unsigned i = 0; i < plan->server_count; i++) {
        const struct weir_route_server *server = server_find(snapshot, plan->names[i]);
        uint64_t lag_ns = server && server->usable ? server->lag_ns : UINT64_MAX;
        size_t at = lag->count * plan->server_count + i;
        lag->samples[at] = lag_ns == UINT64_MAX ? WEIR_READS_UNKNOWN
                                                : (uint32_t)weir_min_u64(lag_ns / 1000, WEIR_READS_UNKNOWN - 1);
        lag->out[at] = !server || !server->usable;
    }
    weir_servers_release(servers, snapshot);
    lag->count++;
}

static int pollers_open(const struct weir_reads_plan *plan, struct weir_servers **ret_servers)
{
    struct weir_replicas_server servers[WEIR_READS_SERVERS_MAX];
    struct weir_fault fault = { .text = "" };
    char text[WEIR_PLAIN_SIZE(sizeof(fault.text))];
    for (unsigned i = 0; i < plan->server_count; i++)
        servers[i] = (struct weir_replicas_server){ .name = plan->names[i], .conninfo = plan->conninfos[i] };
    const struct weir_servers_options options = { .servers = servers,
                                                  .server_count = plan->server_count,
                                                  .poll_ns = POLL_NS,
                                                  .freeze_ns = FREEZE_NS,
                                                  .timeout_ns = TIMEOUT_NS };
    int error = weir_servers_open(&options, ret_servers, &fault);
    if (error)
        fprintf(stderr, "weir: %s %s\n", fault.field, weir_plain(fault.text, text, sizeof(text)));
    return error;
}

/* ---- the run ---- */

static void progress_show(const struct weir_reads_plan *plan, const struct weir_reads_work *work, uint64_t ran_ns)
{
    fprintf(stderr, "\r\033[K%" PRIu64 " s of %" PRIu64 " s: %" PRIu64 " reads and writes", ran_ns / 1000000000,
            weir_div_ceil(plan->duration_ns, 1000000000), weir_reads_work_done(work));
}

/* Until the time is over or a signal came; true: one came. */
static bool watch(const struct weir_reads_plan *plan, const struct weir_reads_work *work, struct weir_servers *servers,
                  const sigset_t *signals, struct weir_reads_lag *lag)
{
    const uint64_t begin_ns = weir_ask_now_ns();
    const bool shows = isatty(STDERR_FILENO) && plan->duration_ns >= PROGRESS_AFTER_NS;
    uint64_t sample_ns = begin_ns + WEIR_READS_SAMPLE_NS, shown_ns = begin_ns;
    bool signalled = false;
    for (uint64_t now_ns = begin_ns; !signalled && now_ns - begin_ns < plan->duration_ns; now_ns = weir_ask_now_ns()) {
        uint64_t left_ns = weir_min_u64(weir_sub_sat(sample_ns, now_ns), begin_ns + plan->duration_ns - now_ns);
        const struct timespec wait = { .tv_sec = (time_t)(left_ns / 1000000000),
                                       .tv_nsec = (long)(left_ns % 1000000000) };
        signalled = sigtimedwait(signals, NULL, &wait) > 0;
        now_ns = weir_ask_now_ns();
        if (now_ns >= sample_ns) {
            lag_sample(lag, plan, servers);
            sample_ns = weir_max_u64(sample_ns + WEIR_READS_SAMPLE_NS, now_ns);
        }
        if (shows && now_ns - shown_ns >= PROGRESS_NS) {
            progress_show(plan, work, now_ns - begin_ns);
            shown_ns = now_ns;
        }
    }
    if (shows)
        fputs("\r\033[K", stderr);
    return signalled;
}

static int report_make(struct weir_reads_report *report, const struct weir_reads_work *work)
{
    const struct weir_reads_plan *plan = report->plan;
    int error = weir_reads_behind_fill(report);
    for (int mode = 0; !error && mode < WEIR_READS_MODES; mode++) {
        if (!plan->modes[mode])
            continue;
        const struct weir_reads_ops ops = weir_reads_work_ops(work, (enum weir_reads_mode)mode);
        error = weir_reads_judge(report, (enum weir_reads_mode)mode, &ops);
        report->results[mode].fault = weir_reads_work_fault(work, (enum weir_reads_mode)mode);
    }
    if (error)
        fprintf(stderr, "weir: what was seen cannot be judged: %s\n", weir_error_text(error));
    return error ? WEIR_EXIT_ERROR : 0;
}

static int report_show(const struct weir_reads_report *report)
{
    const struct weir_reads_plan *plan = report->plan;
    int code = 0;
    if (plan->json)
        code = weir_reads_print_json(report);
    else
        weir_reads_print(report);
    if (plan->plot && weir_reads_plot(report) != 0) {
        fprintf(stderr, "weir: %s: %s\n", plan->plot, strerror(errno));
        code = WEIR_EXIT_ERROR;
    }
    return code;
}

static int run(const struct weir_reads_table *table, const sigset_t *signals, struct weir_reads_report *report,
               struct weir_reads_work **ret_work)
{
    const struct weir_reads_plan *plan = table->plan;
    struct weir_servers *servers = NULL;
    struct weir_reads_lag *lag = report->lag;
    char text[WEIR_READS_TEXT_SIZE], plain[WEIR_PLAIN_SIZE(WEIR_READS_TEXT_SIZE)];
    if (pollers_open(plan, &servers) != 0)
        return WEIR_EXIT_ERROR;
    uint64_t begin_ns = weir_ask_now_ns();
    if (weir_reads_work_begin(table, ret_work, text) != 0) {
        fprintf(stderr, "weir: %s\n", weir_plain(text, plain, sizeof(plain)));
        weir_servers_close(servers);
        return WEIR_EXIT_ERROR;
    }
    bool signalled = watch(plan, *ret_work, servers, signals, lag);
    report->ran_ns = weir_min_u64(weir_ask_now_ns() - begin_ns, plan->duration_ns);
    weir_reads_work_end(*ret_work);
    weir_servers_close(servers);
    return signalled ? WEIR_READS_EXIT_SIGNAL : 0;
}

static int run_and_report(const struct weir_reads_table *table, const sigset_t *signals, int version)
{
    struct weir_reads_lag lag;
    struct weir_reads_report report = { .plan = table->plan, .version = version, .lag = &lag };
    struct weir_reads_work *work = NULL;
    int code = WEIR_EXIT_ERROR, dropped = 0, failed;
    if (lag_init(&lag, table->plan) == 0)
        code = run(table, signals, &report, &work);
    else
        fputs("weir: out of memory\n", stderr);
    /* Before anything is printed, which may block or fail. */
    if (!table->plan->keep)
        dropped = weir_reads_table_drop(table);
    failed = work ? report_make(&report, work) : code;
    if (work && !failed)
        failed = report_show(&report);
    weir_reads_report_deinit(&report);
    weir_reads_work_destroy(work);
    lag_deinit(&lag);
    return code ? code : failed ? failed : dropped;
}

int weir_reads_run(const struct weir_reads_plan *plan)
{
    struct weir_reads_table table;
    sigset_t signals, before;
    int version = 0;
    /* Blocked in all threads: this one takes them, between two samples, and the table is dropped whenever one comes. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    if (weir_reads_servers_check(plan, &version) != 0)
        return WEIR_EXIT_ERROR;
    sigprocmask(SIG_BLOCK, &signals, &before);
    int code = weir_reads_table_make(plan, &signals, &table);
    if (!code)
        code = run_and_report(&table, &signals, version);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return code;
}
