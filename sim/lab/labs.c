/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of questions: a new one is added here and to labs.h. Called by cli/lab.c and by tests/sim/test_labs.c. */
#include "sim/lab/labs.h"

const struct weir_lab *weir_lab_at(size_t index)
{
    static const struct weir_lab *const labs[] = {
        &weir_lab_pauses, &weir_lab_phone,  &weir_lab_counter, &weir_lab_refill,   &weir_lab_expire,
        &weir_lab_gossip, &weir_lab_sticky, &weir_lab_leaky,   &weir_lab_replicas, &weir_lab_tenants,
    };
    return index < sizeof(labs) / sizeof(labs[0]) ? labs[index] : NULL;
}

const struct weir_lab *weir_lab_find(uint64_t number)
{
    const struct weir_lab *lab;
    for (size_t i = 0; (lab = weir_lab_at(i)) && lab->number != number;)
        i++;
    return lab;
}

void weir_lab_simulate(const struct weir_lab *lab, uint64_t seed, struct weir_lab_report *report)
{
    report->seed = lab->drawn ? seed : 0;
    lab->run(seed, report);
}
