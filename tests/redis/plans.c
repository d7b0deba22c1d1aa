/* SPDX-License-Identifier: Apache-2.0
 *
 * The plans of `weir sim --mode exact-host` with the script itself in a real Redis: the simulator's checks judge its
 * answers, and the double's are compared with them (real.h).
 *
 *     redis_plans SOCKET [--from A] [--to B] [--plant N] [--alone]    the seeds from A up to and without B
 *     redis_plans SOCKET --plants                       each planted mistake, by the first seed that finds it
 *     redis_plans SOCKET --plants --to B [--alone]      which is that?
 *
 * --alone: the double is not asked. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "real.h"
#include "sim/modes.h"
#include "sim/soak.h"

/* Of the script's text; what stands there stands there once. */
static const struct {
    const char *what;
    uint64_t seed; /* the first that finds it */
    const char *is, *becomes;
} plants[] = {
    { "the seconds of TIME are cut", 2, "(s % 65536) * 1000000000 + us * 1000", "(s % 65536) * 1000000000 + us" },
    { "a carry of the time is lost", 3, "now_h + math.floor(at / W), at % W,", "now_h, at % W," },
    { "a bucket takes one unit more", 3, "local fits, shadow = ahead + ticks <= span,",
      "local fits, shadow = ahead + ticks <= span + ticks," },
    { "a bucket's last unit is refused", 8, "local fits, shadow = ahead + ticks <= span,",
      "local fits, shadow = ahead + ticks < span," },
    { "of two limits one is charged though the other refuses", 3, "is_decide and all and fits and ticks > 0",
      "is_decide and fits and ticks > 0" },
    { "a peek charges", 3, "is_decide and all and fits", "all and fits" },
    { "a plain value of another definition is taken as it is", 3, "written ~= parameters or rest", "rest" },
    { "a value of another definition that is not plain is taken as it is", 3,
      "string.sub(value, 1, PARAMETERS) ~= o.parameters", "false" },
    { "a plain clock that jumped and came back is believed", 16,
      "if ahead > span or left_ns ~= math.ceil(ahead / scale) then return nil end", "" },
    { "a clock that jumped and came back is believed of others", 16, "if not o.off and jumped(o) then settle(o) end",
      "" },
    { "a key goes at once", 3, "'PX', math.ceil(left_ns / 1000000) + margin_ms)", "'PX', margin_ms)" },
    { "a key with a log keeps its old end", 10,
      "if redis.call('PTTL', o.key) < tonumber(ttl_ms) then redis.call('PEXPIRE', o.key, ttl_ms) end", "" },
    { "what was computed is written though another was faster", 2, "~= o.seen then return false",
      "~= o.seen and false then return false" },
    { "what was computed is written by a clock that went back", 888, "struct.unpack('>I4I4', ARGV[1], 5)", "0, 0" },
    { "a node's window is not compared with the clock", 2, "if look or outside or verb", "if look or verb" },
    { "a calendar window ends too late", 2, "h, l = ticks_of(h, l, o.shift)",
      "h, l = ticks_of(h, l + 1000000, o.shift)" },
    { "a counter forgets the window before", 21,
      "o.previous_h, o.previous_l, o.count_h, o.count_l = o.count_h, o.count_l, 0, 0",
      "o.previous_h, o.previous_l, o.count_h, o.count_l = 0, 0, 0, 0" },
    { "all of it counts until the end", 21, "o.overlap_h, o.overlap_l = h, l\n",
      "o.overlap_h, o.overlap_l = o.span_h, o.span_l\n" },
    { "a log's entry counts a moment less", 10, "if less(th, tl, mh, ml) then\n            high",
      "if less(th, tl, mh, ml) and mh > th then\n            high" },
    { "a log forgets its newest entry when it moves", 10, "if run then runs = runs ..",
      "if run and o.runs < 100 then runs = runs .." },
    { "a log joins what came later", 10, "and not less(o.newest_h, o.newest_l, now_h, now_l)", "and now_l % 16 > 0" },
    { "a log tells the wrong entry to wait for", 10, "(o.capacity_l - o.units_l) - 1", "(o.capacity_l - o.units_l)" },
    { "a value that core must look at is decided in the script", 3, "if look or outside or verb == ASK then",
      "if outside or verb == ASK then" },
};
#define PLANTS (sizeof plants / sizeof plants[0])

struct options {
    const char *socket;
    uint64_t from, to;
    size_t plant; /* from 1; 0: none */
    bool all, alone;
};

static char *read_clock(void)
{
    FILE *file = fopen(CLOCK, "r");
    char *text = calloc(1, 65536);
    if (!file || !text || fread(text, 1, 65535, file) == 0)
        server_die(CLOCK, "cannot be read");
    (void)fclose(file);
    return text;
}

static char *script_with(size_t plant)
{
    const char *is = plant > 0 ? plants[plant - 1].is : "", *becomes = plant > 0 ? plants[plant - 1].becomes : "";
    const char *at = strstr(weir_script_text, is);
    char *text;
    if (!at || (plant > 0 && strstr(at + 1, is)))
        server_die(is, "does not stand in the script, or more than once");
    if (asprintf(&text, "%.*s%s%s", (int)(at - weir_script_text), weir_script_text, becomes, at + strlen(is)) < 0)
        server_die("the script", "no memory");
    return text;
}

static void tell_broken(const struct weir_sim_plan *plan, const struct weir_sim_result *result)
{
    printf("seed %" PRIu64 " is broken at %.9f s: %s\n", plan->seed, (double)result->broken_ns / 1e9, result->why);
    struct weir_sim_reduction left_out = weir_sim_shrink(plan, result->broken);
    printf("it needs %u of %u nodes, and no faults 0x%" PRIx64 " of %u, no loads 0x%" PRIx64 ", until %" PRIu64 " ns\n",
           left_out.nodes ? left_out.nodes : plan->nodes, plan->nodes, left_out.faults, plan->faults_count,
           left_out.loads, left_out.until_ns);
}

/* The seed that is broken, or `to`. */
static uint64_t first_broken(struct real *real, const struct options *options, struct weir_sim_cover *cover)
{
    static struct weir_sim_result result;
    struct weir_sim_plan plan;
    struct weir_fault fault;
    for (uint64_t seed = options->from; seed < options->to; seed++) {
        weir_sim_plan_seeded(&plan, &weir_sim_exact_host, seed, NULL);
        plan.server = &real->server;
        if (weir_sim_run(&plan, NULL, &result, &fault))
            server_die("the plan", fault.text);
        weir_sim_cover_add(cover, seed, &plan, &result);
        if (!result.broken)
            continue;
        if (!options->all)
            tell_broken(&plan, &result);
        else
            printf("| %s | %" PRIu64 " | %s |\n", plants[options->plant - 1].what, seed, result.why);
        return seed;
    }
    return options->to;
}

static bool play(const struct options *options)
{
    struct weir_sim_cover cover = { 0 };
    struct real *real = malloc(sizeof *real);
    char *clock = read_clock(), *script = script_with(options->plant);
    if (!real)
        server_die("real", "no memory");
    real_open(real, options->socket, clock, script);
    real->alone = options->alone;
    bool broken = first_broken(real, options, &cover) < options->to;
    if (!options->all)
        printf("%" PRIu64 " runs, %s: %" PRIu64 " calls (D %" PRIu64 ", A %" PRIu64 ", S %" PRIu64 ", C %" PRIu64
               "; of two limits %" PRIu64 "), %" PRIu64 " values restored; %" PRIu64 " decisions, %" PRIu64
               " admitted\n",
               cover.runs, broken ? "BROKEN" : "none broken", real->redis.calls, real->letters['D' - 'A'],
               real->letters['A' - 'A'], real->letters['S' - 'A'], real->letters['C' - 'A'], real->both, real->restored,
               cover.decisions, cover.admitted);
    else if (!broken)
        printf("| %s | none | |\n", plants[options->plant - 1].what);
    (void)fflush(stdout);
    real_close(real);
    free(real);
    free(clock);
    free(script);
    return !broken;
}

static size_t play_plants(struct options options)
{
    size_t found = 0;
    bool search = options.to > 0;
    for (options.plant = 1; options.plant <= PLANTS; options.plant++) {
        if (!search)
            options.to = (options.from = plants[options.plant - 1].seed) + 1;
        found += !play(&options);
    }
    printf("%zu of %zu found\n", found, PLANTS);
    return found;
}

static bool read_options(int argc, char **argv, struct options *options)
{
    *options = (struct options){ .socket = argc > 1 ? argv[1] : NULL, .from = 1 };
    for (int i = 2; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--alone") == 0)
            options->alone = true;
        else if (strcmp(argv[i], "--plants") == 0)
            options->all = true;
        else if (strcmp(argv[i], "--from") == 0 && ++i)
            options->from = strtoull(next, NULL, 10);
        else if (strcmp(argv[i], "--to") == 0 && ++i)
            options->to = strtoull(next, NULL, 10);
        else if (strcmp(argv[i], "--plant") == 0 && ++i)
            options->plant = strtoull(next, NULL, 10);
        else
            return false;
    }
    if (options->to == 0 && !options->all)
        options->to = options->from + 1;
    return options->socket && options->plant <= PLANTS;
}

int main(int argc, char **argv)
{
    struct options options;
    if (!read_options(argc, argv, &options)) {
        fprintf(stderr, "usage: redis_plans SOCKET [--from A] [--to B] [--plant N | --plants] [--alone]\n");
        return 2;
    }
    if (options.all)
        return play_plants(options) == PLANTS ? 0 : 1;
    return play(&options) ? 0 : 1;
}
