/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan as a scenario's file: what a seed drew, or what is left of it, in words that can be read, changed and kept. */
#include <inttypes.h>

#include "sim/scenario.h"

/* "0,3-5"; all of 64: "all" */
static void write_nodes(uint64_t mask, FILE *out)
{
    const char *comma = "";
    if (mask == WEIR_SIM_ALL) {
        fputs(" nodes=all", out);
        return;
    }
    fputs(" nodes=", out);
    for (unsigned first = 0; first < 64; first++) {
        unsigned last = first;
        if ((mask >> first & 1) == 0)
            continue;
        while (last < 63 && (mask >> (last + 1) & 1))
            last++;
        fprintf(out, first < last ? "%s%u-%u" : "%s%u", comma, first, last);
        comma = ",";
        first = last;
    }
    if (*comma == '\0')
        fputs("none", out);
}

static void write_ns(const char *name, uint64_t ns, FILE *out)
{
    fprintf(out, " %s=%" PRIu64 "ns", name, ns);
}

static void write_number(const char *name, uint64_t number, FILE *out)
{
    if (number > 0)
        fprintf(out, " %s=%" PRIu64, name, number);
}

static void write_settings(const struct weir_sim_plan *plan, FILE *out)
{
    fprintf(out, "set   algorithm=%s rate=%" PRIu64 "/%" PRIu64 "ns", weir_algorithm_name(plan->limit.algorithm),
            plan->limit.count, plan->limit.period_ns);
    write_number("burst", plan->limit.burst, out);
    write_number("nodes", plan->nodes, out);
    fprintf(out, " slack=%" PRIu64 " seed=%" PRIu64 "\nset  ", plan->slack, plan->seed);
    write_ns("span", plan->duration_ns, out);
    write_ns("calm", plan->calm_ns, out);
    write_ns("latency_min", plan->latency_min_ns, out);
    write_ns("latency_max", plan->latency_max_ns, out);
    fputs("\nset  ", out);
    write_ns("interval", plan->interval_ns, out);
    write_ns("chunk_ttl", plan->chunk_ttl_ns, out);
    write_ns("deadline", plan->deadline_ns, out);
    write_ns("skew", plan->skew_ns, out);
    fputs("\nset  ", out);
    write_number("drift_ppm", plan->drift_ppm, out);
    write_number("loss_ppm", plan->loss_ppm, out);
    write_number("duplicate_ppm", plan->duplicate_ppm, out);
    write_number("reorder_ppm", plan->reorder_ppm, out);
    write_number("hold_ppm", plan->hold_ppm, out);
    write_number("tick_ppm", plan->tick_ppm, out);
    write_number("numbered", plan->numbered, out);
    write_number("partial", plan->partial, out);
    write_number("door", plan->door, out);
    write_number("twins", plan->twins, out);
    write_number("dozen", plan->dozen, out);
    if (plan->changed.period_ns > 0)
        fprintf(out, "\nset   changed=%" PRIu64, plan->changed.count);
    if (plan->changed.period_ns > 0)
        write_number("changed_burst", plan->changed.burst, out);
    fputc('\n', out);
}

static void write_load(const struct weir_sim_load *load, FILE *out)
{
    fputs("load ", out);
    write_nodes(load->nodes, out);
    write_ns("from", load->from_ns, out);
    write_ns("until", load->until_ns, out);
    write_number("rate", load->rate_per_s, out);
    if (load->rate_per_s == 0) {
        write_number("burst", load->burst, out);
        write_ns("every", load->every_ns, out);
    }
    write_number("cost", load->cost_max, out);
    fputc('\n', out);
}

static void write_fault(const struct weir_sim_fault *fault, FILE *out)
{
    fprintf(out, "fault %s", weir_sim_fault_name(fault->kind));
    write_nodes(fault->nodes, out);
    write_ns("from", fault->from_ns, out);
    write_ns("until", fault->until_ns, out);
    if (fault->step_ns != 0)
        fprintf(out, " step=%" PRId64 "ns", fault->step_ns);
    write_number("one_way", fault->one_way, out);
    fputc('\n', out);
}

void weir_scenario_write_plan(const struct weir_sim_plan *plan, const char *title, FILE *out)
{
    fprintf(out, "title %s\n", title);
    write_settings(plan, out);
    for (uint32_t i = 0; i < plan->loads_count; i++)
        write_load(&plan->loads[i], out);
    for (uint32_t i = 0; i < plan->faults_count; i++)
        write_fault(&plan->faults[i], out);
    fprintf(out, "way   %s : %s\n", plan->mode->name, plan->mode->name);
}
