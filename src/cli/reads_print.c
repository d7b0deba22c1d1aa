/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the report as tables for people, or as one JSON object. A table is filled cell by cell first and printed
 * afterwards, so that each column is as wide as its widest cell. Nothing is counted here: the numbers are made in
 * reads_count.c. Called by reads_run.c. */
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "cli/plain.h"
#include "cli/reads.h"
#include "cli/verbs.h"

#define COLUMNS_MAX (1 + WEIR_READS_SERVERS_MAX)
#define ROWS_MAX (1 + WEIR_READS_SERVERS_MAX)
#define CELL_SIZE 72

_Static_assert(WEIR_READS_MODES <= WEIR_READS_SERVERS_MAX, "a table has a row for each strategy, or for each server");

/* A table whose columns are as wide as what stands in them; the first is aligned left. */
struct grid {
    char cells[ROWS_MAX][COLUMNS_MAX][CELL_SIZE];
    unsigned rows, columns;
};

__attribute__((format(printf, 2, 3))) static void cell_add(struct grid *grid, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(grid->cells[grid->rows - 1][grid->columns++], CELL_SIZE, format, arguments);
    va_end(arguments);
}

static void row_begin(struct grid *grid, const char *head)
{
    grid->rows++;
    grid->columns = 0;
    cell_add(grid, "%s", head);
}

/* The names of the columns: "strategy|reads|writes". */
static void heads_begin(struct grid *grid, const char *heads)
{
    grid->rows = 1;
    grid->columns = 0;
    for (size_t at = 0, length; heads[at]; at += length + (heads[at + length] != '\0')) {
        length = strcspn(heads + at, "|");
        cell_add(grid, "%.*s", (int)length, heads + at);
    }
}

static void grid_print(const char *title, const struct grid *grid)
{
    int widths[COLUMNS_MAX] = { 0 };
    for (unsigned row = 0; row < grid->rows; row++) {
        for (unsigned column = 0; column < grid->columns; column++) {
            int width = (int)strlen(grid->cells[row][column]);
            widths[column] = width > widths[column] ? width : widths[column];
        }
    }
    printf("\n%s\n", title);
    for (unsigned row = 0; row < grid->rows; row++) {
        printf("  %-*s", widths[0], grid->cells[row][0]);
        for (unsigned column = 1; column < grid->columns; column++)
            printf("   %*s", widths[column], grid->cells[row][column]);
        putchar('\n');
    }
}

static double percent(uint64_t part, uint64_t all)
{
    return all == 0 ? 0 : 100.0 * (double)part / (double)all;
}

/* Milliseconds: two digits below 10, none from 100 on. */
static void ms_add(struct grid *grid, uint64_t ns, bool known)
{
    double ms = (double)ns / 1e6;
    if (!known)
        cell_add(grid, "-");
    else
        cell_add(grid, "%.*f ms", ms < 10 ? 2 : ms < 100 ? 1 : 0, ms);
}

static void seen_print(const struct weir_reads_report *report)
{
    struct grid grid;
    heads_begin(&grid, "strategy|reads|writes|went back|missed own write|of all reads|failed");
    for (int mode = 0; mode < WEIR_READS_MODES; mode++) {
        const struct weir_reads_result *result = &report->results[mode];
        if (!report->plan->modes[mode])
            continue;
        row_begin(&grid, weir_reads_mode_name((enum weir_reads_mode)mode));
        cell_add(&grid, "%" PRIu64, result->reads);
        cell_add(&grid, "%" PRIu64, result->writes);
        cell_add(&grid, "%" PRIu64, result->judged.broken[WEIR_MONOTONIC_READS]);
        cell_add(&grid, "%" PRIu64, result->judged.broken[WEIR_READ_YOUR_WRITES]);
        cell_add(&grid, "%.2f %%", percent(weir_reads_violated(result), result->reads));
        cell_add(&grid, "%" PRIu64, result->failed);
    }
    grid_print("What the sessions saw: reads older than what the same session had read or written", &grid);
}

static void cost_print(const struct weir_reads_report *report)
{
    struct grid grid;
    heads_begin(&grid, "strategy|at the primary|waited|wait p50|wait p99|read p50|read p99|write p50");
    for (int mode = 0; mode < WEIR_READS_MODES; mode++) {
        const struct weir_reads_result *result = &report->results[mode];
        if (!report->plan->modes[mode])
            continue;
        row_begin(&grid, weir_reads_mode_name((enum weir_reads_mode)mode));
        cell_add(&grid, "%.1f %%", percent(result->by_server[0], result->reads));
        cell_add(&grid, "%" PRIu64, result->waits);
        ms_add(&grid, result->wait_p50_ns, result->waits > 0);
        ms_add(&grid, result->wait_p99_ns, result->waits > 0);
        ms_add(&grid, result->read_p50_ns, result->reads > 0);
        ms_add(&grid, result->read_p99_ns, result->reads > 0);
        ms_add(&grid, result->write_p50_ns, result->writes > 0);
    }
    grid_print("What it cost: reads at the primary, and waits for a replica to catch up", &grid);
}

static void load_print(const struct weir_reads_report *report)
{
    const struct weir_reads_plan *plan = report->plan;
    struct grid grid;
    heads_begin(&grid, "strategy|primary");
    for (unsigned i = 1; i < plan->server_count; i++)
        cell_add(&grid, "%s", plan->names[i]);
    for (int mode = 0; mode < WEIR_READS_MODES; mode++) {
        const struct weir_reads_result *result = &report->results[mode];
        if (!plan->modes[mode])
            continue;
        row_begin(&grid, weir_reads_mode_name((enum weir_reads_mode)mode));
        for (unsigned i = 0; i < plan->server_count; i++)
            cell_add(&grid, "%.1f %%", percent(result->by_server[i], result->reads));
    }
    grid_print("Where the reads went", &grid);
}

static void behind_print(const struct weir_reads_report *report)
{
    const struct weir_reads_plan *plan = report->plan;
    struct grid grid;
    heads_begin(&grid, "replica|p50|p99|most|unknown|not in use");
    for (unsigned i = 1; i < plan->server_count; i++) {
        const struct weir_reads_behind *behind = &report->behind[i];
        bool known = behind->unknown < 1 && report->lag->count > 0;
        row_begin(&grid, plan->names[i]);
        ms_add(&grid, behind->p50_us * 1000, known);
        ms_add(&grid, behind->p99_us * 1000, known);
        ms_add(&grid, behind->max_us * 1000, known);
        cell_add(&grid, "%.1f %%", 100 * behind->unknown);
        cell_add(&grid, "%.1f %%", 100 * behind->out);
    }
    grid_print("How far the replicas were behind", &grid);
}

static void faults_print(const struct weir_reads_report *report)
{
    for (int mode = 0; mode < WEIR_READS_MODES; mode++) {
        const struct weir_reads_result *result = &report->results[mode];
        if (!report->plan->modes[mode])
            continue;
        const char *name = weir_reads_mode_name((enum weir_reads_mode)mode);
        uint64_t writes = result->judged.broken[WEIR_WRITES_FOLLOW_READS] +
                          result->judged.broken[WEIR_MONOTONIC_WRITES];
        char fault[WEIR_PLAIN_SIZE(WEIR_READS_TEXT_SIZE)];
        if (result->failed > 0)
            printf("%s: %" PRIu64 " failed, as: %s\n", name, result->failed,
                   weir_plain(result->fault, fault, sizeof(fault)));
        if (result->judged.lost > 0)
            printf("%s: told %" PRIu64 " time%s that a failover had cut off what was seen\n", name, result->judged.lost,
                   weir_s(result->judged.lost));
        if (writes > 0)
            printf("%s: %" PRIu64 " write%s came before what had been seen: a failover cut it off\n", name, writes,
                   weir_s(writes));
    }
}

void weir_reads_print(const struct weir_reads_report *report)
{
    const struct weir_reads_plan *plan = report->plan;
    printf("%.1f s at %s (PostgreSQL %d) and %u replica%s; of each strategy %u session%s with %u request%s a second, "
           "%u %% "
           "of them writes\n",
           (double)report->ran_ns / 1e9, plan->names[0], report->version / 10000, plan->server_count - 1,
           plan->server_count == 2 ? "" : "s", plan->sessions, plan->sessions == 1 ? "" : "s", plan->rate,
           plan->rate == 1 ? "" : "s", plan->writes_percent);
    seen_print(report);
    cost_print(report);
    load_print(report);
    behind_print(report);
    putchar('\n');
    faults_print(report);
    puts("What did not happen here may happen when a replica is slower than it was (docs/reads.md).");
}

/* ---- JSON ---- */

static json_t *ms_json(uint64_t ns, bool known)
{
    return known ? json_real((double)ns / 1e6) : json_null();
}

static json_t *times_json(const struct weir_reads_result *result)
{
    bool waited = result->waits > 0, read = result->reads > 0;
    return json_pack("{s:I,s:o,s:o,s:o,s:o,s:o,s:o}", "waits", (json_int_t)result->waits, "wait_p50_ms",
                     ms_json(result->wait_p50_ns, waited), "wait_p99_ms", ms_json(result->wait_p99_ns, waited),
                     "wait_max_ms", ms_json(result->wait_max_ns, waited), "read_p50_ms",
                     ms_json(result->read_p50_ns, read), "read_p99_ms", ms_json(result->read_p99_ns, read),
                     "write_p50_ms", ms_json(result->write_p50_ns, result->writes > 0));
}

static json_t *strategy_json(const struct weir_reads_report *report, enum weir_reads_mode mode)
{
    const struct weir_reads_result *result = &report->results[mode];
    const struct weir_judge_counts *judged = &result->judged;
    json_t *servers = json_object(), *timeline = json_array();
    for (unsigned i = 0; i < report->plan->server_count; i++)
        (void)json_object_set_new(servers, report->plan->names[i],
                                  json_pack("{s:I,s:I}", "reads", (json_int_t)result->by_server[i], "violated",
                                            (json_int_t)result->violated_by[i]));
    for (unsigned i = 0; i < WEIR_READS_BUCKETS; i++)
        (void)json_array_append_new(timeline, json_integer(result->timeline[i]));
    json_t *object = json_pack(
        "{s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:s}", "name", weir_reads_mode_name(mode), "reads",
        (json_int_t)result->reads, "writes", (json_int_t)result->writes, "went_back",
        (json_int_t)judged->broken[WEIR_MONOTONIC_READS], "missed_own_write",
        (json_int_t)judged->broken[WEIR_READ_YOUR_WRITES], "writes_before_reads",
        (json_int_t)judged->broken[WEIR_WRITES_FOLLOW_READS], "writes_before_writes",
        (json_int_t)judged->broken[WEIR_MONOTONIC_WRITES], "violated", (json_int_t)judged->violated, "lost",
        (json_int_t)judged->lost, "failed", (json_int_t)result->failed, "stale", (json_int_t)judged->stale,
        "violated_share", percent(weir_reads_violated(result), result->reads) / 100, "on_primary",
        percent(result->by_server[0], result->reads) / 100, "fault", result->fault);
    json_t *times = times_json(result);
    (void)json_object_update(object, times);
    json_decref(times);
    (void)json_object_set_new(object, "servers", servers);
    (void)json_object_set_new(object, "violated_over_time", timeline);
    return object;
}

static json_t *replica_json(const struct weir_reads_report *report, unsigned server)
{
    const struct weir_reads_behind *behind = &report->behind[server];
    bool known = behind->unknown < 1 && report->lag->count > 0;
    return json_pack("{s:s,s:o,s:o,s:o,s:f,s:f}", "name", report->plan->names[server], "lag_p50_ms",
                     ms_json(behind->p50_us * 1000, known), "lag_p99_ms", ms_json(behind->p99_us * 1000, known),
                     "lag_max_ms", ms_json(behind->max_us * 1000, known), "unknown", behind->unknown, "not_in_use",
                     behind->out);
}

int weir_reads_print_json(const struct weir_reads_report *report)
{
    const struct weir_reads_plan *plan = report->plan;
    json_t *strategies = json_array(), *replicas = json_array();
    for (int mode = 0; mode < WEIR_READS_MODES; mode++) {
        if (plan->modes[mode])
            (void)json_array_append_new(strategies, strategy_json(report, (enum weir_reads_mode)mode));
    }
    for (unsigned i = 1; i < plan->server_count; i++)
        (void)json_array_append_new(replicas, replica_json(report, i));
    json_t *object = json_pack("{s:f,s:s,s:i,s:i,s:i,s:i,s:o,s:o}", "seconds", (double)report->ran_ns / 1e9, "primary",
                               plan->names[0], "version", report->version, "sessions", (int)plan->sessions, "rate",
                               (int)plan->rate, "writes_percent", (int)plan->writes_percent, "strategies", strategies,
                               "replicas", replicas);
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    if (text)
        puts(text);
    else
        fputs("weir: cannot be written as JSON\n", stderr);
    bool good = text != NULL;
    free(text);
    json_decref(object);
    return good ? WEIR_EXIT_OK : WEIR_EXIT_ERROR;
}
