/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints a run or the sums of many, as text or JSON; the command that repeats a failing run; and the plan as a scenario
 * file (sim/plan_file.c). Whether a run is broken was decided in sim/. Called by sim.c; sim_locks.c and sim_sessions.c
 * print their own results. */
#include "cli/sim_report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/plural.h"
#include "cli/verbs.h"
#include "sim/scenario.h"

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static void limit_format(const struct weir_limit_spec *limit, char *buffer, size_t size)
{
    int used = snprintf(buffer, size, "%s %" PRIu64 "/%" PRIu64 "ms", weir_algorithm_name(limit->algorithm),
                        limit->count, limit->period_ns / 1000000);
    if (limit->burst > 0 && used > 0)
        (void)snprintf(buffer + used, size - (size_t)used, " burst %" PRIu64, limit->burst);
}

/* "0,3-5", "all", or "engine" for nobody. */
static void nodes_format(const struct weir_sim_plan *plan, uint64_t mask, char *buffer, size_t size)
{
    uint64_t all = plan->nodes == 64 ? UINT64_MAX : (UINT64_C(1) << plan->nodes) - 1;
    mask &= all;
    size_t used = 0;
    if (mask == all || mask == 0)
        (void)snprintf(buffer, size, "%s", mask ? "all" : "engine");
    for (uint32_t i = 0; mask != all && i < plan->nodes && used + 12 < size; i++) {
        uint32_t last = i;
        if ((mask >> i & 1) == 0)
            continue;
        while (last + 1 < plan->nodes && (mask >> (last + 1) & 1))
            last++;
        used += (size_t)snprintf(buffer + used, size - used, last > i ? "%s%u-%u" : "%s%u", used ? "," : "", i, last);
        i = last;
    }
}

/* With its number, for --without-faults. */
static void fault_print(const struct weir_sim_plan *plan, uint32_t number)
{
    const struct weir_sim_fault *fault = &plan->faults[number];
    char nodes[160];
    bool names = fault->kind <= WEIR_SIM_CRASH;
    nodes_format(plan, fault->nodes, nodes, sizeof(nodes));
    printf("  %2u  %7.3f s  %-9s", number, seconds(fault->from_ns), weir_sim_fault_name(fault->kind));
    if (fault->kind != WEIR_SIM_STEP && fault->kind != WEIR_SIM_LOSE)
        printf("  until %.3f s", seconds(fault->until_ns));
    if (names)
        printf("  nodes %s%s", nodes, fault->one_way && fault->kind <= WEIR_SIM_SPLIT ? ", one way" : "");
    else if (fault->kind == WEIR_SIM_LOSE && fault->step_ns == 0)
        printf("  all of it");
    else if (fault->kind != WEIR_SIM_DROP)
        printf("  %+.3f s", (double)fault->step_ns / 1e9);
    putchar('\n');
}

static void nodes_print(const struct weir_sim_plan *plan, const struct weir_sim_result *result)
{
    printf("\n  %-6s %10s %10s %10s %10s %10s\n", "node", "admitted", "units", "refused", "waited", "dropped");
    struct weir_sim_node_result sum = { 0 };
    for (uint32_t i = 0; i < plan->nodes; i++) {
        const struct weir_sim_node_result *node = &result->nodes[i];
        printf("  %-6u %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 "\n", i, node->admitted,
               node->units, node->refused, node->waited, node->dropped);
        sum.admitted += node->admitted;
        sum.units += node->units;
        sum.refused += node->refused;
        sum.waited += node->waited;
        sum.dropped += node->dropped;
    }
    printf("  %-6s %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 "\n", "all", sum.admitted,
           sum.units, sum.refused, sum.waited, sum.dropped);
}

static void run_print(const struct weir_sim_plan *plan, const struct weir_sim_result *result)
{
    char limit[128];
    limit_format(&plan->limit, limit, sizeof(limit));
    printf("%s: %u node%s, %s, %.1f s", plan->mode->name, plan->nodes, weir_s(plan->nodes), limit,
           seconds(plan->duration_ns));
    if (plan->mode->bound)
        printf(", slack %" PRIu64, plan->slack);
    printf("\n\nfaults\n");
    for (uint32_t i = 0; i < plan->faults_count; i++)
        fault_print(plan, i);
    if (plan->faults_count == 0)
        printf("  none\n");
    nodes_print(plan, result);
    printf("\n  messages %" PRIu64 ", %" PRIu64 " of them to the engine; %" PRIu64 " lost, %" PRIu64 " repeated\n",
           result->messages, result->to_engine, result->lost, result->duplicated);
    printf("  longest wait for an answer %.1f ms\n", (double)result->wait_max_ns / 1e6);
    printf("  the limit allows %" PRIu64 " unit%s, %" PRIu64 " %s admitted\n", result->limit_all,
           weir_s(result->limit_all), result->units, result->units == 1 ? "was" : "were");
    if (plan->calm_ns > 0)
        printf("  in the calm at the end %" PRIu64 " of %" PRIu64 "\n", result->calm_units, result->calm_limit);
    printf("  overshoot: peak %" PRIu64 ", bound %" PRIu64 "\n", result->peak, result->bound);
    if (result->broken)
        printf("\nBROKEN at %.6f s: %s\n", seconds(result->broken_ns), result->why);
}

static void json_print(json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    if (text)
        puts(text);
    free(text);
    json_decref(object);
}

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *faults_json(const struct weir_sim_plan *plan)
{
    json_t *faults = json_array();
    for (uint32_t i = 0; i < plan->faults_count; i++) {
        const struct weir_sim_fault *fault = &plan->faults[i];
        char nodes[160];
        nodes_format(plan, fault->nodes, nodes, sizeof(nodes));
        json_array_append_new(faults,
                              json_pack("{s:s,s:s,s:o,s:o,s:I,s:b}", "kind", weir_sim_fault_name(fault->kind), "nodes",
                                        nodes, "from_ns", number(fault->from_ns), "until_ns", number(fault->until_ns),
                                        "step_ns", (json_int_t)fault->step_ns, "one_way", fault->one_way));
    }
    return faults;
}

static json_t *run_json(const struct weir_sim_plan *plan, const struct weir_sim_result *result)
{
    char limit[128];
    limit_format(&plan->limit, limit, sizeof(limit));
    json_t *nodes = json_array();
    for (uint32_t i = 0; i < plan->nodes; i++) {
        const struct weir_sim_node_result *node = &result->nodes[i];
        json_array_append_new(nodes, json_pack("{s:o,s:o,s:o,s:o,s:o}", "admitted", number(node->admitted), "units",
                                               number(node->units), "refused", number(node->refused), "waited",
                                               number(node->waited), "dropped", number(node->dropped)));
    }
    json_t *object = json_pack("{s:s,s:s,s:o,s:o,s:o,s:o}", "mode", plan->mode->name, "limit", limit, "duration_ns",
                               number(plan->duration_ns), "slack", number(plan->slack), "nodes", nodes, "faults",
                               faults_json(plan));
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = { { "decisions", result->decisions },
                    { "admitted", result->admitted },
                    { "refused", result->refused },
                    { "units", result->units },
                    { "messages", result->messages },
                    { "to_engine", result->to_engine },
                    { "lost", result->lost },
                    { "duplicated", result->duplicated },
                    { "limit_units", result->limit_all },
                    { "peak", result->peak },
                    { "bound", result->bound },
                    { "wait_max_ns", result->wait_max_ns },
                    { "calm_units", result->calm_units },
                    { "calm_limit", result->calm_limit } };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        json_object_set_new(object, numbers[i].name, number(numbers[i].value));
    json_object_set_new(object, "broken", json_boolean(result->broken != WEIR_SIM_WHOLE));
    if (result->broken)
        json_object_set_new(object, "why", json_string(result->why));
    return object;
}

void weir_sim_report_run(const struct weir_sim_plan *plan, const struct weir_sim_result *result, bool json)
{
    if (json)
        json_print(run_json(plan, result));
    else
        run_print(plan, result);
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

static void cover_print(const struct weir_sim_plan *plan, const struct weir_sim_cover *cover, uint64_t took_ns)
{
    printf("%s: %" PRIu64 " run%s, %" PRIu64 " broken; %u to %u nodes; at least %" PRIu64 " decisions, %" PRIu64
           " faults and %.1f s each\n",
           plan->mode->name, cover->runs, weir_s(cover->runs), cover->broken, cover->nodes_min, cover->nodes_max,
           cover->decisions_min, cover->faults_min, seconds(cover->virtual_min_ns));
    printf("  runs with");
    for (int kind = 0; kind < WEIR_SIM_FAULT_KINDS; kind++) {
        if (cover->with[kind] > 0)
            printf(" %s %.0f %%,", weir_sim_fault_name((enum weir_sim_fault_kind)kind),
                   percent(cover->with[kind], cover->runs));
    }
    printf(" repeated messages %.0f %%, lost ones %.0f %%\n", percent(cover->with_duplicates, cover->runs),
           percent(cover->with_losses, cover->runs));
    printf("  closest to the bound %.1f %%; within half of it in %.2f %% of the runs; peak %" PRIu64 " units over\n",
           (double)cover->near_max_ppm / 1e4, percent(cover->near_half, cover->runs), cover->peak_max);
    printf("  %" PRIu64 " decisions, %" PRIu64 " admitted, %" PRIu64
           " messages; %.0f virtual s in %.1f s: %.0f per s\n",
           cover->decisions, cover->admitted, cover->messages, seconds(cover->virtual_ns), seconds(took_ns),
           took_ns > 0 ? seconds(cover->virtual_ns) / seconds(took_ns) : 0);
}

void weir_sim_report_cover(const struct weir_sim_plan *plan, const struct weir_sim_cover *cover, uint64_t took_ns,
                           bool json)
{
    if (!json) {
        cover_print(plan, cover, took_ns);
        return;
    }
    json_t *with = json_object();
    for (int kind = 0; kind < WEIR_SIM_FAULT_KINDS; kind++)
        json_object_set_new(with, weir_sim_fault_name((enum weir_sim_fault_kind)kind), number(cover->with[kind]));
    json_object_set_new(with, "repeated", number(cover->with_duplicates));
    json_object_set_new(with, "lost", number(cover->with_losses));
    json_t *object = json_pack("{s:s,s:o}", "mode", plan->mode->name, "with", with);
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = { { "runs", cover->runs },
                    { "broken", cover->broken },
                    { "nodes_min", cover->nodes_min },
                    { "nodes_max", cover->nodes_max },
                    { "decisions", cover->decisions },
                    { "decisions_min", cover->decisions_min },
                    { "faults_min", cover->faults_min },
                    { "virtual_ns", cover->virtual_ns },
                    { "virtual_min_ns", cover->virtual_min_ns },
                    { "took_ns", took_ns },
                    { "admitted", cover->admitted },
                    { "messages", cover->messages },
                    { "near_half", cover->near_half },
                    { "near_max_ppm", cover->near_max_ppm },
                    { "peak_max", cover->peak_max } };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        json_object_set_new(object, numbers[i].name, number(numbers[i].value));
    if (cover->broken > 0)
        json_object_set_new(object, "first_broken", number(cover->first_broken));
    json_print(object);
}

static void mask_print(const char *name, uint64_t mask)
{
    for (const char *before = name; mask; mask &= mask - 1, before = ",")
        printf("%s%d", before, __builtin_ctzll(mask));
}

void weir_sim_report_command(const struct weir_sim_plan *plan, const struct weir_sim_command *command)
{
    const struct weir_sim_reduction *reduction = &command->reduction;
    printf("  weir sim --mode %s --seed %" PRIu64 "%s", plan->mode->name, command->seed, command->options);
    if (plan->plant != WEIR_SIM_PLANT_NONE)
        printf(" --plant %s", weir_sim_plant_name(plan->plant));
    if (reduction->nodes > 0)
        printf(" --only-nodes %u", reduction->nodes);
    mask_print(" --without-faults ", reduction->faults);
    mask_print(" --without-loads ", reduction->loads);
    if (reduction->until_ns > 0)
        printf(" --until-ns %" PRIu64, reduction->until_ns);
    putchar('\n');
}

int weir_sim_file_open(const char *path, FILE **ret_file)
{
    *ret_file = fopen(path, "w");
    if (*ret_file)
        return 0;
    fprintf(stderr, "weir: cannot write %s\n", path);
    return WEIR_EXIT_ERROR;
}

int weir_sim_file_close(const char *path, FILE *file)
{
    bool failed = ferror(file) != 0;
    if (fclose(file) == 0 && !failed)
        return 0;
    fprintf(stderr, "weir: cannot write %s\n", path);
    return WEIR_EXIT_ERROR;
}

bool weir_sim_report_plan(const struct weir_sim_plan *plan, uint64_t seed, const char *path)
{
    char title[64];
    FILE *file = NULL;
    (void)snprintf(title, sizeof(title), "%s, seed %" PRIu64, plan->mode->name, seed);
    if (weir_sim_file_open(path, &file) != 0)
        return false;
    weir_scenario_write_plan(plan, title, file);
    return weir_sim_file_close(path, file) == 0;
}
