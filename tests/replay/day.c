/* SPDX-License-Identifier: Apache-2.0
 *
 * A day of a site: writes its access log, and beside it what libweir decides of each request, given the log's times.
 * It shares nothing with `weir replay` but libweir: no parser, no rules. Which limits a request meets is written here
 * once more, by hand; tests/live/test_replay.py has the same limits as a configuration, and compares.
 *
 * usage: replay_day SEED LINES LOG [durations]
 *
 * The log is nginx's combined format, with $request_time at the end if durations are asked for. Some lines go back in
 * time, by up to three seconds: they are decided at the highest time before. Standard output: what each limit refused,
 * in all ("limit NAME N"), of each key ("key NAME KEY N"), by minute ("minute M N") and by route ("route R N"). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weir/limiter.h"

#define IPS 20000
#define USERS 500
#define DAY 86400
#define BEGIN UINT64_C(1793923200) /* 2026-11-06T00:00:00Z */
#define OUT_MAX 100000

enum limit { API, BIG, LOGIN, QUOTA, SHAPED, COUNTER, ALL, AT_ONCE, LIMITS };
/* BIG is an override of API: the same counters. */
static const char *const names[LIMITS] = { "api-per-ip", "api-per-ip", "login", "quota",
                                           "shaped",     "counter",    "all",   "at-once" };

static const struct weir_limit_spec specs[LIMITS] = {
    [API] = { .count = 3, .period_ns = 60 * WEIR_NS_PER_SECOND, .burst = 4 },
    [BIG] = { .count = 1, .period_ns = 60 * WEIR_NS_PER_SECOND, .burst = 2 },
    [LOGIN] = { .algorithm = WEIR_SLIDING_LOG, .count = 2, .period_ns = 60 * WEIR_NS_PER_SECOND },
    [QUOTA] = { .algorithm = WEIR_FIXED_WINDOW,
                .count = 300,
                .period_ns = DAY * WEIR_NS_PER_SECOND,
                .calendar = WEIR_CALENDAR_DAY,
                .calendar_count = 1,
                .tz = "Europe/Berlin" },
    [SHAPED] = { .algorithm = WEIR_LEAKY_BUCKET, .count = 2, .period_ns = 60 * WEIR_NS_PER_SECOND, .burst = 3 },
    [COUNTER] = { .algorithm = WEIR_SLIDING_COUNTER, .count = 3, .period_ns = 60 * WEIR_NS_PER_SECOND },
    [ALL] = { .burst = 5, .period_ns = WEIR_NS_PER_SECOND },
    [AT_ONCE] = { .algorithm = WEIR_CONCURRENCY, .count = 1, .period_ns = 2 * WEIR_NS_PER_SECOND },
};

enum route { R_API, R_LOGIN, R_STATIC, R_EXPORT, R_ROOT, ROUTES };
static const char *const routes[ROUTES] = { "/api/*", "/login", "/static/*", "/export/*", "/" };

struct request {
    uint64_t now_ns, duration_ns;
    unsigned ip, user; /* user 0: none */
    enum route route;
};

struct out { /* a permit that is out */
    struct weir_key key;
    uint64_t permit, end_ns;
};

struct day {
    uint64_t random;
    bool durations;
    struct weir_limiter *limiter;
    weir_limit_id ids[LIMITS];
    uint64_t refused[LIMITS], by_minute[DAY / 60 + 1], by_route[ROUTES];
    uint32_t by_ip[LIMITS][IPS], by_user[LIMITS][USERS], by_none[LIMITS];
    double ip_weights[IPS], user_weights[USERS];
    struct out out[OUT_MAX];
    size_t out_count;
};

static void check(int error, const char *what)
{
    if (!error)
        return;
    fprintf(stderr, "replay_day: %s: %s\n", what, weir_error_text(error));
    exit(2);
}

/* xorshift64* */
static uint64_t draw(struct day *day)
{
    day->random ^= day->random >> 12;
    day->random ^= day->random << 25;
    day->random ^= day->random >> 27;
    return day->random * UINT64_C(2685821657736338717);
}

static double draw_share(struct day *day)
{
    return (double)(draw(day) >> 11) / 9007199254740992.0;
}

/* Sums of 1 / n^power, from 0 to 1. */
static void weights_init(double *sums, size_t count, double power)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sums[i] = sum += pow((double)(i + 1), -power);
    for (size_t i = 0; i < count; i++)
        sums[i] /= sum;
}

static unsigned draw_weighted(struct day *day, const double *sums, unsigned count)
{
    double share = draw_share(day);
    unsigned low = 0, high = count - 1;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (sums[middle] < share)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void limits_define(struct day *day, uint64_t lines)
{
    const struct weir_limiter_options options = { .memory_max = (size_t)256 << 20 };
    struct weir_limit_def defs[LIMITS];
    struct weir_fault fault = { "", "" };
    for (int i = 0; i < LIMITS; i++)
        defs[i] = (struct weir_limit_def){ names[i], i == BIG ? "10.0.0.1" : NULL, specs[i] };
    defs[ALL].spec.count = 3 * lines / DAY / 2 + 1; /* so that it refuses at noon, and not all day */
    check(weir_limiter_create(&options, &day->limiter, &fault), "create");
    check(weir_limiter_define(day->limiter, defs, LIMITS, NULL, day->ids, &fault), fault.text);
}

/* ---- deciding ---- */

static void ip_text(unsigned ip, char text[24])
{
    (void)snprintf(text, 24, "10.%u.%u.%u", ip >> 16, ip >> 8 & 255, ip & 255);
}

/* Those of whom the log says that they have ended, one after the other. */
static void permits_end(struct day *day, uint64_t now_ns)
{
    for (;;) {
        size_t first = day->out_count;
        for (size_t i = 0; i < day->out_count; i++)
            if (day->out[i].end_ns <= now_ns &&
                (first == day->out_count || day->out[i].end_ns < day->out[first].end_ns))
                first = i;
        if (first == day->out_count)
            return;
        const struct weir_time time = { day->out[first].end_ns, day->out[first].end_ns };
        uint64_t units;
        check(weir_limiter_release(day->limiter, &day->out[first].key, 1, day->out[first].permit, &time, &units),
              "release");
        day->out[first] = day->out[--day->out_count];
    }
}

static size_t limits_of(const struct day *day, const struct request *request, enum limit list[LIMITS])
{
    size_t count = 0;
    if (request->route == R_API)
        list[count++] = request->ip == 1 ? BIG : API;
    if (request->route == R_LOGIN && request->user)
        list[count++] = LOGIN;
    if (request->user)
        list[count++] = QUOTA;
    if (request->route == R_EXPORT)
        list[count++] = SHAPED;
    if (request->route == R_STATIC)
        list[count++] = COUNTER;
    list[count++] = ALL;
    if (day->durations && request->route == R_EXPORT)
        list[count++] = AT_ONCE;
    return count;
}

static void refusal_count(struct day *day, const struct request *request, enum limit limit)
{
    day->refused[limit == BIG ? API : limit]++;
    if (limit == LOGIN || limit == QUOTA)
        day->by_user[limit][request->user]++;
    else if (limit == ALL)
        day->by_none[limit]++;
    else
        day->by_ip[limit == BIG ? API : limit][request->ip]++;
}

static void decide(struct day *day, const struct request *request)
{
    char ip[24], user[24];
    enum limit list[LIMITS];
    struct weir_charge charges[LIMITS];
    struct weir_verdict verdicts[LIMITS];
    struct weir_decision decision;
    const struct weir_time time = { request->now_ns, request->now_ns };
    size_t count = limits_of(day, request, list);
    ip_text(request->ip, ip);
    (void)snprintf(user, sizeof(user), "u%u", request->user);
    permits_end(day, request->now_ns);
    for (size_t i = 0; i < count; i++) {
        bool by_user = list[i] == LOGIN || list[i] == QUOTA;
        const char *text = by_user ? user : ip;
        const struct weir_slice value = { text, strlen(text) };
        charges[i] = (struct weir_charge){ .limit = day->ids[list[i]], .cost = 1 };
        check(weir_limiter_key(day->limiter, day->ids[list[i]], &value, list[i] == ALL ? 0 : 1, &charges[i].key),
              "key");
    }
    check(weir_limiter_decide(day->limiter, charges, count, &time, 0, &decision, verdicts), "decide");
    for (size_t i = 0; i < count; i++) {
        if (!verdicts[i].admitted)
            refusal_count(day, request, list[i]);
        if (decision.admitted && list[i] == AT_ONCE && day->out_count < OUT_MAX)
            day->out[day->out_count++] = (struct out){ charges[i].key, verdicts[i].ticket,
                                                       request->now_ns + request->duration_ns };
    }
    if (decision.admitted)
        return;
    day->by_minute[(request->now_ns / WEIR_NS_PER_SECOND - BEGIN) / 60]++;
    day->by_route[request->route]++;
}

/* ---- the log ---- */

static void line_write(struct day *day, const struct request *request, uint64_t second, FILE *log)
{
    static const char *const spellings[ROUTES][2] = { { "/api/items/%u", "//api/%%69tems/./%u?page=2" },
                                                      { "/login?%u", "/x/../login?%u" },
                                                      { "/static/%u.css", "/static//%u.css" },
                                                      { "/export/%u", "/%%65xport/%u" },
                                                      { "/?%u", "/./?%u" } };
    static const char *const methods[] = { "GET", "POST", "HEAD", "PUT" };
    char ip[24], user[24] = "-", path[64];
    unsigned today = (unsigned)(second - BEGIN), number = (unsigned)(draw(day) >> 50);
    unsigned day_of_month = 6 + today / DAY;
    ip_text(request->ip, ip);
    if (request->user)
        (void)snprintf(user, sizeof(user), "u%u", request->user);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(path, sizeof(path), spellings[request->route][number % 16 == 0], number);
#pragma GCC diagnostic pop
    fprintf(log, "%s - %s [%02u/Nov/2026:%02u:%02u:%02u +0000] \"%s %s HTTP/1.1\" 200 %u \"-\" \"a \\\"b\\\"\"", ip,
            user, day_of_month, today / 3600 % 24, today / 60 % 60, today % 60, methods[number % 4], path, number);
    if (day->durations)
        fprintf(log, " %" PRIu64 ".%03" PRIu64, request->duration_ns / WEIR_NS_PER_SECOND,
                request->duration_ns / 1000000 % 1000);
    fputc('\n', log);
}

static void run(struct day *day, uint64_t lines, FILE *log)
{
    const double turn = 6.283185307179586;
    uint64_t highest = BEGIN;
    for (uint64_t i = 0; i < lines; i++) {
        double share = (double)i / (double)lines; /* of the day; more at noon than at night */
        uint64_t second = BEGIN + (uint64_t)(DAY * (share + 0.12 * sin(turn * share)));
        uint64_t kind = draw(day) >> 32;
        second -= kind % 4096 == 0 && second > BEGIN + 3 ? 1 + kind / 4096 % 3 : 0;
        highest = second > highest ? second : highest; /* of those that stand in the log */
        struct request request = {
            .now_ns = highest * WEIR_NS_PER_SECOND,
            .duration_ns = (draw(day) >> 40) % 4000 * 1000000,
            .ip = draw_weighted(day, day->ip_weights, IPS),
            .user = kind & 64 ? 1 + draw_weighted(day, day->user_weights, USERS - 1) : 0,
            .route = (enum route)(draw(day) >> 32) % ROUTES,
        };
        line_write(day, &request, second, log);
        decide(day, &request);
    }
}

static void counts_print(const struct day *day)
{
    for (int i = 0; i < LIMITS; i++) {
        if (i == BIG || (i == AT_ONCE && !day->durations))
            continue;
        printf("limit %s %" PRIu64 "\n", names[i], day->refused[i]);
        if (day->by_none[i])
            printf("key %s (all) %u\n", names[i], day->by_none[i]);
        for (unsigned user = 0; user < USERS; user++)
            if (day->by_user[i][user])
                printf("key %s user=u%u %u\n", names[i], user, day->by_user[i][user]);
        for (unsigned ip = 0; ip < IPS; ip++) {
            char text[24];
            ip_text(ip, text);
            if (day->by_ip[i][ip])
                printf("key %s ip=%s %u\n", names[i], text, day->by_ip[i][ip]);
        }
    }
    for (unsigned i = 0; i <= DAY / 60; i++)
        if (day->by_minute[i])
            printf("minute %u %" PRIu64 "\n", i, day->by_minute[i]);
    for (int i = 0; i < ROUTES; i++)
        printf("route %s %" PRIu64 "\n", routes[i], day->by_route[i]);
}

int main(int argc, char **argv)
{
    static struct day day;
    if (argc < 4) {
        fputs("usage: replay_day SEED LINES LOG [durations]\n", stderr);
        return 2;
    }
    uint64_t lines = strtoull(argv[2], NULL, 10);
    FILE *log = fopen(argv[3], "w");
    if (!log) {
        perror(argv[3]);
        return 2;
    }
    day.random = strtoull(argv[1], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    day.durations = argc > 4;
    weights_init(day.ip_weights, IPS, 1.0);
    weights_init(day.user_weights, USERS - 1, 0.8);
    limits_define(&day, lines);
    run(&day, lines, log);
    counts_print(&day);
    weir_limiter_destroy(day.limiter);
    return fclose(log) == 0 ? 0 : 2;
}
