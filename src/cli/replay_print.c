/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as tables for people, and what they must know to read it: what could not be read, what differs from a
 * server. Text of the log, and names of files, go through plain.h. The same as JSON is in replay_json.c. Called by
 * replay_run.c. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/plural.h"
#include "cli/plain.h"
#include "cli/replay.h"

#define TEXT_MAX 60 /* of a first column; what is longer moves its own row */

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100 * (double)part / (double)whole : 0;
}

static const char *utc(uint64_t ns, char buffer[WEIR_TEXT_UTC_SIZE + 1])
{
    struct weir_text text = weir_text_init(buffer, WEIR_TEXT_UTC_SIZE);
    weir_text_utc(&text, ns);
    buffer[text.size] = '\0';
    return buffer;
}

/* The width of the text as it is shown, in characters. */
static int shown_width(const char *text)
{
    int width = 0;
    char plain[WEIR_PLAIN_SIZE(WEIR_REPLAY_KEY_TEXT + WEIR_LIMIT_NAME_MAX)];
    for (const char *at = weir_plain(text, plain, sizeof(plain)); *at; at++)
        width += ((unsigned char)*at & 0xc0) != 0x80;
    return width;
}

static void text_print(const char *text, int width)
{
    printf("  ");
    weir_plain_print(stdout, (struct weir_slice){ text, strlen(text) });
    int own = shown_width(text);
    printf("%*s", own < width ? width - own : 0, "");
}

static void name_print(const char *before, const char *file)
{
    weir_assert(file != NULL);
    printf("%s", before);
    weir_plain_print(stdout, (struct weir_slice){ file, strlen(file) });
}

static int wider(int width, const char *text)
{
    int own = shown_width(text);
    return own > width && own <= TEXT_MAX ? own : width;
}

/* ---- tables ---- */

static void counts_head(const struct weir_replay_report *report, const char *first, int width)
{
    printf("\n  %-*s  %12s  %12s  %7s", width, first, "requests", "refused", "%");
    if (report->plan->beside)
        printf("  %12s  %7s", "beside", "%");
    putchar('\n');
}

static void counts_print(const struct weir_replay_report *report, uint64_t asked, uint64_t asked_beside,
                         const uint64_t refused[WEIR_REPLAY_SIDES])
{
    printf("  %12" PRIu64 "  %12" PRIu64 "  %7.2f", asked, refused[WEIR_REPLAY_NEW],
           percent(refused[WEIR_REPLAY_NEW], asked));
    if (report->plan->beside)
        printf("  %12" PRIu64 "  %7.2f", refused[WEIR_REPLAY_BESIDE],
               percent(refused[WEIR_REPLAY_BESIDE], asked_beside));
}

struct weir_replay_pair *weir_replay_pairs(const struct weir_replay_report *report, size_t *ret_count)
{
    size_t room = report->sets[WEIR_REPLAY_NEW].limits_count + report->sets[WEIR_REPLAY_BESIDE].limits_count + 3;
    struct weir_replay_pair *pairs = calloc(room, sizeof(*pairs));
    *ret_count = 0;
    for (int side = 0; side < WEIR_REPLAY_SIDES && pairs; side++) {
        const struct weir_replay_set *set = &report->sets[side];
        size_t others = *ret_count;
        for (size_t i = 0; set->limits && i <= set->limits_count; i++) {
            size_t at = i < others && strcmp(pairs[i].name, set->limits[i].name) == 0 ? i : 0;
            while (at < others && strcmp(pairs[at].name, set->limits[i].name) != 0)
                at++;
            at = at < others ? at : (*ret_count)++;
            pairs[at].name = set->limits[i].name;
            pairs[at].of[side] = &set->limits[i];
        }
    }
    return pairs;
}

static bool limits_print(const struct weir_replay_report *report)
{
    static const struct weir_replay_limit none;
    size_t count = 0;
    int width = 10;
    struct weir_replay_pair *pairs = weir_replay_pairs(report, &count);
    if (!pairs)
        return false;
    for (size_t i = 0; i < count; i++)
        width = wider(width, pairs[i].name);
    if (count > 1 || pairs[0].of[WEIR_REPLAY_NEW]->refused > 0) /* there is always the one for unmatched requests */
        counts_head(report, "by limit", width);
    for (size_t i = 0; i < count; i++) {
        const struct weir_replay_limit *new = pairs[i].of[WEIR_REPLAY_NEW], *beside = pairs[i].of[WEIR_REPLAY_BESIDE];
        new = new ? new : &none;
        beside = beside ? beside : &none;
        const uint64_t refused[] = { new->refused, beside->refused };
        if (refused[0] + refused[1] == 0 && pairs[i].name[0] == '(') /* unmatched: admit */
            continue;
        text_print(pairs[i].name, width);
        counts_print(report, new->asked, beside->asked, refused);
        if (new->keys_refused)
            printf("  %" PRIu64 " key%s", new->keys_refused, weir_s(new->keys_refused));
        if (new->shadow_refused)
            printf("  in shadow: would refuse %" PRIu64, new->shadow_refused);
        if (!pairs[i].of[WEIR_REPLAY_NEW] || (report->plan->beside && !pairs[i].of[WEIR_REPLAY_BESIDE]))
            name_print("  only in ", pairs[i].of[WEIR_REPLAY_NEW] ? report->plan->config : report->plan->beside);
        putchar('\n');
    }
    free(pairs);
    return true;
}

static bool routes_print(const struct weir_replay_report *report)
{
    size_t count = 0;
    int width = 10;
    const struct weir_replay_route **routes = weir_replay_routes_sorted(report->counts, &count);
    if (!routes)
        return false;
    for (size_t i = 0; i < count && i < report->plan->rows; i++)
        width = wider(width, routes[i]->pattern);
    if (count > 0)
        counts_head(report, "by route", width);
    for (size_t i = 0; i < count && i < report->plan->rows; i++) {
        text_print(routes[i]->pattern, width);
        counts_print(report, routes[i]->asked, routes[i]->asked, routes[i]->refused);
        putchar('\n');
    }
    if (count > report->plan->rows)
        printf("  and %zu more\n", count - report->plan->rows);
    free(routes);
    return true;
}

static bool keys_print(const struct weir_replay_report *report, const struct weir_replay_counts *counts)
{
    bool beside = report->plan->beside && counts == report->counts;
    size_t count = 0;
    int limit_width = 5, width = 10;
    const struct weir_replay_key **keys = weir_replay_keys_sorted(counts, &count);
    if (!keys)
        return false;
    for (size_t i = 0; i < count && i < report->plan->rows; i++) {
        limit_width = wider(limit_width, keys[i]->limit);
        width = wider(width, keys[i]->text);
    }
    if (count > 0)
        printf("\n  %-*s    %-*s  %12s%s\n", limit_width, "by limit", width, "and key", "refused",
               beside ? "        beside" : "");
    for (size_t i = 0; i < count && i < report->plan->rows; i++) {
        text_print(keys[i]->limit, limit_width > 8 ? limit_width : 8);
        text_print(keys[i]->text, width);
        printf("  %12" PRIu64, keys[i]->refused[WEIR_REPLAY_NEW]);
        if (beside)
            printf("  %12" PRIu64, keys[i]->refused[WEIR_REPLAY_BESIDE]);
        putchar('\n');
    }
    if (count > report->plan->rows)
        printf("  and %zu more\n", count - report->plan->rows);
    if (counts->keys.dropped)
        printf("  and %" PRIu64 " refusals of keys that came after the first %u\n", counts->keys.dropped,
               WEIR_REPLAY_KEYS_MAX);
    free(keys);
    return true;
}

static bool minutes_print(const struct weir_replay_report *report)
{
    const struct weir_replay_counts *counts = report->counts;
    char time[WEIR_TEXT_UTC_SIZE + 1];
    size_t count = 0;
    const struct weir_replay_minute **minutes = weir_replay_minutes_sorted(counts, &count);
    if (!minutes)
        return false;
    if (count > 0)
        counts_head(report, "by minute", 17);
    for (size_t i = 0; i < count && i < report->plan->rows; i++) {
        uint64_t number = counts->first_ns / WEIR_NS_PER_SECOND / 60 + (uint64_t)(minutes[i] - counts->minutes);
        (void)utc(number * 60 * WEIR_NS_PER_SECOND, time);
        printf("  %.16sZ", time);
        counts_print(report, minutes[i]->asked, minutes[i]->asked, minutes[i]->refused);
        putchar('\n');
    }
    if (count > report->plan->rows)
        printf("  and %zu more with refusals\n", count - report->plan->rows);
    if (counts->minutes_dropped)
        printf("  and %" PRIu64 " lines after the first 366 days\n", counts->minutes_dropped);
    free(minutes);
    return true;
}

/* ---- what was read ---- */

void weir_replay_broken_print(FILE *out, const char *before, const struct weir_replay_bad *bad)
{
    for (size_t i = 0; i < bad->broken_count; i++) {
        const struct weir_replay_broken *broken = &bad->broken[i];
        char of[32] = "";
        if (broken->size > 0)
            (void)snprintf(of, sizeof(of), " of %" PRIu64, broken->size);
        weir_plain_line(out, "%s%s: %s, after %" PRIu64 " line%s and %" PRIu64 "%s byte%s", before, broken->file,
                        broken->why, broken->lines, weir_s(broken->lines), broken->bytes, of,
                        weir_s(broken->size > 0 ? broken->size : broken->bytes));
    }
}

static void bad_print(const struct weir_replay_bad *bad)
{
    weir_replay_broken_print(stdout, "not all of it was read: ", bad);
    if (bad->count == 0)
        return;
    printf("not replayed: %" PRIu64 " line%s that could not be read", bad->count, weir_s(bad->count));
    if (bad->paths_refused)
        printf(" (%" PRIu64 " for their path, which /v1/auth answers 400)", bad->paths_refused);
    printf(". The first:\n");
    for (size_t i = 0; i < bad->shown_count; i++)
        weir_plain_line(stdout, "  %s:%" PRIu64 ": %s", bad->shown[i].file, bad->shown[i].number, bad->shown[i].why);
}

static void times_print(const struct weir_replay_counts *counts)
{
    if (counts->lines > 0 && !counts->fraction)
        puts("times: whole seconds; within a second the order is that of the lines");
    if (counts->went_back == 0)
        return;
    weir_plain_line(stdout,
                    "times: %" PRIu64
                    " line%s went back and %s decided at the highest time before; the longest way by %.3f s, "
                    "from %s:%" PRIu64 " to %s:%" PRIu64,
                    counts->went_back, weir_s(counts->went_back), counts->went_back == 1 ? "was" : "were",
                    (double)counts->back_max_ns / 1e9, counts->ahead_file, counts->ahead_number, counts->back_file,
                    counts->back_number);
}

static void set_notes_print(const struct weir_replay_set *set, const struct weir_replay_report *report)
{
    struct weir_limiter_stats stats;
    weir_limiter_stats(set->limiter, &stats);
    if (set->shared)
        weir_plain_line(stdout,
                        "%s: limits that nodes share, or an engine keeps, were replayed as one exact counter each",
                        set->file);
    if (set->concurrency_skipped)
        weir_plain_line(stdout, "%s: limits of concurrency were left out: the log does not tell how long requests took",
                        set->file);
    else if (set->permits && report->counts->without_duration)
        weir_plain_line(stdout, "%s: %" PRIu64 " line%s told no duration: such a request gave its permit back at once",
                        set->file, report->counts->without_duration, weir_s(report->counts->without_duration));
    if (set->permits_lost)
        weir_plain_line(stdout, "%s: %" PRIu64 " permits more than %u at once ended with their lease", set->file,
                        set->permits_lost, WEIR_REPLAY_PERMITS_MAX);
    if (set->held)
        weir_plain_line(stdout, "%s: who waits under throttle: hold was not counted against hold_max", set->file);
    if (stats.evicted || stats.refused_full)
        weir_plain_line(stdout,
                        "%s: the table was full: %" PRIu64 " keys lost their place, %" PRIu64
                        " found none, as at a server with this table.memory",
                        set->file, stats.evicted, stats.refused_full);
    if (set->errors)
        weir_plain_line(stdout, "%s: %" PRIu64 " request%s would be answered with an error; the first: %s", set->file,
                        set->errors, weir_s(set->errors), set->error);
}

static void sums_print(const struct weir_replay_report *report)
{
    const char *const names[] = { report->plan->config, report->plan->beside };
    for (int side = 0; side < WEIR_REPLAY_SIDES; side++) {
        const struct weir_replay_set *set = &report->sets[side];
        if (!set->rules)
            continue;
        name_print("", names[side]);
        printf(": %" PRIu64 " of %" PRIu64 " refused (%.2f %%)", set->refused, set->decided,
               percent(set->refused, set->decided));
        if (report->plan->beside) {
            printf(", %" PRIu64, report->counts->only[side]);
            name_print(" of them not by ", names[WEIR_REPLAY_SIDES - 1 - side]);
        }
        printf("; %" PRIu64 " met no limit\n", set->unmatched);
    }
}

static bool advice_print(const struct weir_replay_report *report)
{
    const struct weir_replay_advice *advice = report->advice;
    int width = 10;
    for (size_t i = 0; i < advice->count; i++)
        width = wider(width, advice->list[i].pattern);
    if (advice->count == 0) {
        puts("\nnothing is proposed: no request has all attributes of the key, and a route that a rule can name");
        return true;
    }
    printf("\nproposed, so that %g %% of keys stay within (by their busiest minute and ten seconds of the clock)\n\n",
           report->plan->percentile);
    printf("  %-*s  %10s  %8s  %8s  %8s  %10s  %8s  %12s  %7s  %9s\n", width, "route", "keys", "50 %", "high", "most",
           "rate", "burst", "refuses", "%", "keys hit");
    for (size_t i = 0; i < advice->count; i++) {
        const struct weir_replay_proposal *proposal = &advice->list[i];
        char rate[32];
        (void)snprintf(rate, sizeof(rate), "%" PRIu64 "/min", proposal->rate);
        text_print(proposal->pattern, width);
        printf("  %10" PRIu64 "  %8" PRIu64 "  %8" PRIu64 "  %8" PRIu64 "  %10s  %8" PRIu64 "  %12" PRIu64
               "  %7.3f  %9" PRIu64 "\n",
               proposal->keys, proposal->median, proposal->high, proposal->most, rate, proposal->burst,
               proposal->refused, percent(proposal->refused, proposal->asked), proposal->keys_hit);
    }
    bool good = keys_print(report, report->tried);
    if (advice->dropped)
        printf("  %" PRIu64 " requests of keys that came after the first %u were not looked at\n", advice->dropped,
               WEIR_REPLAY_DEMANDS_MAX);
    if (advice->evicted)
        printf("  the table was full: %" PRIu64 " keys lost their place, as at a server without table.memory\n",
               advice->evicted);
    putchar('\n');
    if (report->plan->out)
        weir_plain_line(stdout, "written to %s", report->plan->out);
    else
        printf("%s", advice->yaml);
    return good;
}

bool weir_replay_print(const struct weir_replay_report *report)
{
    const struct weir_replay_counts *counts = report->counts;
    char first[WEIR_TEXT_UTC_SIZE + 1], last[WEIR_TEXT_UTC_SIZE + 1];
    printf("%" PRIu64 " line%s (%s)", counts->lines, weir_s(counts->lines), report->format);
    if (counts->lines > 0)
        printf(" from %s to %s, %.0f a second", utc(counts->first_ns, first), utc(counts->last_ns, last),
               (double)counts->lines / (report->seconds > 0 ? report->seconds : 1));
    putchar('\n');
    bad_print(report->bad);
    times_print(counts);
    for (int side = 0; side < WEIR_REPLAY_SIDES; side++)
        if (report->sets[side].rules)
            set_notes_print(&report->sets[side], report);
    sums_print(report);
    bool decides = report->plan->config || report->plan->beside;
    bool good = !decides || limits_print(report);
    good = good && routes_print(report);
    good = good && (!decides || (keys_print(report, report->counts) && minutes_print(report)));
    good = good && (!report->advice || advice_print(report));
    if (!good)
        fputs("weir: out of memory\n", stderr);
    return good;
}
