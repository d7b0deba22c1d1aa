/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as one JSON object: what replay_print.c shows, with every minute. Text of the log that is no UTF-8 has
 * U+FFFD in its place. Written piece by piece, for there may be half a million minutes. Called by replay_run.c. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/replay.h"

static void string_print(const char *text)
{
    uint8_t room[6 * 512 + 2];
    size_t size = strnlen(text, 512);
    struct weir_text json = weir_text_init(room, sizeof(room));
    weir_text_json(&json, text, size);
    (void)fwrite(room, 1, json.size, stdout);
}

static void member_print(const char *name, const char *text)
{
    printf("\"%s\":", name);
    if (text)
        string_print(text);
    else
        printf("null");
}

static void time_print(const char *name, uint64_t ns)
{
    char room[WEIR_TEXT_UTC_SIZE + 1];
    struct weir_text text = weir_text_init(room, WEIR_TEXT_UTC_SIZE);
    weir_text_utc(&text, ns);
    room[text.size] = '\0';
    printf("\"%s\":\"%s\"", name, room);
}

/* ,"refused":1 and what the other set refused. */
static void refused_print(const struct weir_replay_report *report, const uint64_t refused[WEIR_REPLAY_SIDES])
{
    if (report->plan->config)
        printf(",\"refused\":%" PRIu64, refused[WEIR_REPLAY_NEW]);
    if (report->plan->beside)
        printf(",\"refused_beside\":%" PRIu64, refused[WEIR_REPLAY_BESIDE]);
}

static void lines_print(const struct weir_replay_report *report)
{
    const struct weir_replay_counts *counts = report->counts;
    const struct weir_replay_bad *bad = report->bad;
    printf("{\"lines\":%" PRIu64 ",\"format\":\"%s\",", counts->lines, report->format);
    if (counts->lines > 0) {
        time_print("from", counts->first_ns);
        putchar(',');
        time_print("to", counts->last_ns);
        putchar(',');
    }
    printf("\"seconds\":%.3f,\"whole_seconds\":%s,\"went_back\":%" PRIu64 ",\"went_back_max_ns\":%" PRIu64
           ",\"without_duration\":%" PRIu64,
           report->seconds, counts->fraction ? "false" : "true", counts->went_back, counts->back_max_ns,
           counts->without_duration);
    if (counts->went_back) {
        putchar(',');
        member_print("went_back_file", counts->back_file);
        printf(",\"went_back_line\":%" PRIu64, counts->back_number);
    }
    printf(",\"unread\":%" PRIu64 ",\"unread_too_long\":%" PRIu64 ",\"unread_path\":%" PRIu64 ",\"unread_first\":[",
           bad->count, bad->too_long, bad->paths_refused);
    for (size_t i = 0; i < bad->shown_count; i++) {
        printf("%s{", i ? "," : "");
        member_print("file", bad->shown[i].file);
        printf(",\"line\":%" PRIu64 ",", bad->shown[i].number);
        member_print("why", bad->shown[i].why);
        putchar('}');
    }
    printf("],\"broken\":[");
    for (size_t i = 0; i < bad->broken_count; i++) {
        printf("%s{", i ? "," : "");
        member_print("file", bad->broken[i].file);
        printf(",\"lines\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"size\":%" PRIu64 ",", bad->broken[i].lines,
               bad->broken[i].bytes, bad->broken[i].size);
        member_print("why", bad->broken[i].why);
        putchar('}');
    }
    putchar(']');
}

static void sets_print(const struct weir_replay_report *report)
{
    static const char *const names[] = { "config", "beside" };
    for (int side = 0; side < WEIR_REPLAY_SIDES; side++) {
        const struct weir_replay_set *set = &report->sets[side];
        struct weir_limiter_stats stats;
        if (!set->rules)
            continue;
        weir_limiter_stats(set->limiter, &stats);
        printf(",\"%s\":{", names[side]);
        member_print("file", set->file);
        printf(",\"decided\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"refused_alone\":%" PRIu64 ",\"unmatched\":%" PRIu64
               ",\"errors\":%" PRIu64 ",",
               set->decided, set->refused, report->counts->only[side], set->unmatched, set->errors);
        member_print("error", set->errors ? set->error : NULL);
        printf(",\"shared_as_exact\":%s,\"concurrency_skipped\":%s,\"permits_lost\":%" PRIu64 ",\"evicted\":%" PRIu64
               ",\"refused_full\":%" PRIu64 "}",
               set->shared ? "true" : "false", set->concurrency_skipped ? "true" : "false", set->permits_lost,
               stats.evicted, stats.refused_full);
    }
}

static void limit_print(const char *name, const struct weir_replay_limit *limit)
{
    printf(",\"%s\":", name);
    if (limit)
        printf("{\"requests\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"shadow_refused\":%" PRIu64
               ",\"keys_refused\":%" PRIu64 "}",
               limit->asked, limit->refused, limit->shadow_refused, limit->keys_refused);
    else
        printf("null");
}

static bool limits_print(const struct weir_replay_report *report)
{
    size_t count = 0;
    struct weir_replay_pair *pairs = weir_replay_pairs(report, &count);
    printf(",\"limits\":[");
    for (size_t i = 0; i < count && pairs; i++) {
        printf("%s{", i ? "," : "");
        member_print("limit", pairs[i].name);
        limit_print("config", pairs[i].of[WEIR_REPLAY_NEW]);
        if (report->plan->beside)
            limit_print("beside", pairs[i].of[WEIR_REPLAY_BESIDE]);
        putchar('}');
    }
    putchar(']');
    free(pairs);
    return pairs != NULL;
}

static bool routes_print(const struct weir_replay_report *report)
{
    size_t count = 0;
    const struct weir_replay_route **routes = weir_replay_routes_sorted(report->counts, &count);
    printf(",\"routes\":[");
    for (size_t i = 0; i < count && i < report->plan->rows && routes; i++) {
        printf("%s{", i ? "," : "");
        member_print("route", routes[i]->pattern);
        printf(",\"requests\":%" PRIu64, routes[i]->asked);
        refused_print(report, routes[i]->refused);
        putchar('}');
    }
    printf("],\"routes_count\":%zu", count);
    free(routes);
    return routes != NULL;
}

static bool keys_print(const struct weir_replay_report *report, const char *name,
                       const struct weir_replay_counts *counts)
{
    size_t count = 0;
    const struct weir_replay_key **keys = weir_replay_keys_sorted(counts, &count);
    printf(",\"%s\":[", name);
    for (size_t i = 0; i < count && i < report->plan->rows && keys; i++) {
        printf("%s{", i ? "," : "");
        member_print("limit", keys[i]->limit);
        putchar(',');
        member_print("key", keys[i]->text);
        if (counts == report->counts)
            refused_print(report, keys[i]->refused);
        else
            printf(",\"refused\":%" PRIu64, keys[i]->refused[WEIR_REPLAY_NEW]);
        putchar('}');
    }
    printf("],\"%s_count\":%zu,\"%s_dropped\":%" PRIu64, name, count, name, counts->keys.dropped);
    free(keys);
    return keys != NULL;
}

static void minutes_print(const struct weir_replay_report *report)
{
    const struct weir_replay_counts *counts = report->counts;
    const uint64_t minute_ns = 60 * WEIR_NS_PER_SECOND;
    bool first = true;
    printf(",\"minutes\":[");
    for (size_t i = 0; i < counts->minutes_count; i++) {
        const struct weir_replay_minute *minute = &counts->minutes[i];
        if (minute->asked == 0)
            continue;
        printf("%s{", first ? "" : ",");
        time_print("minute", (counts->first_ns / minute_ns + i) * minute_ns);
        printf(",\"requests\":%" PRIu64, minute->asked);
        refused_print(report, minute->refused);
        putchar('}');
        first = false;
    }
    printf("],\"minutes_dropped\":%" PRIu64, counts->minutes_dropped);
}

static void advice_print(const struct weir_replay_advice *advice)
{
    printf(",\"proposed\":[");
    for (size_t i = 0; i < advice->count; i++) {
        const struct weir_replay_proposal *proposal = &advice->list[i];
        printf("%s{", i ? "," : "");
        member_print("limit", proposal->name);
        putchar(',');
        member_print("route", proposal->pattern);
        printf(",\"requests\":%" PRIu64 ",\"keys\":%" PRIu64 ",\"minute_median\":%" PRIu64 ",\"minute_high\":%" PRIu64
               ",\"minute_most\":%" PRIu64 ",\"rate_per_minute\":%" PRIu64 ",\"burst\":%" PRIu64 ",\"refused\":%" PRIu64
               ",\"keys_refused\":%" PRIu64 "}",
               proposal->asked, proposal->keys, proposal->median, proposal->high, proposal->most, proposal->rate,
               proposal->burst, proposal->refused, proposal->keys_hit);
    }
    printf("],\"proposed_unseen\":%" PRIu64 ",\"proposed_evicted\":%" PRIu64, advice->dropped, advice->evicted);
}

bool weir_replay_print_json(const struct weir_replay_report *report)
{
    lines_print(report);
    sets_print(report);
    bool good = limits_print(report) && routes_print(report) && keys_print(report, "keys", report->counts);
    minutes_print(report);
    if (report->advice) {
        advice_print(report->advice);
        good = keys_print(report, "proposed_keys", report->tried) && good;
    }
    puts("}");
    if (!good)
        fputs("weir: out of memory\n", stderr);
    return good;
}
