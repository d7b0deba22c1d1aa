/* SPDX-License-Identifier: Apache-2.0
 *
 * Each kind of algorithm has a small state of its own: a debt that the rate pays off (buckets), units by window, or a
 * ring of admissions by time (logs). When an allowance's grace ends, advance() lowers a bucket's debt by it. Called by
 * judge.c at each admission, and by run.c when a fault allows more. */
#include "sim/check.h"

#include <stdlib.h>
#include <string.h>

void weir_sim_check_init(struct weir_sim_check *check, const struct weir_limit_spec *limit)
{
    *check = (struct weir_sim_check){ .limit = *limit, .capacity = weir_limit_capacity(limit) };
}

void weir_sim_check_deinit(struct weir_sim_check *check)
{
    free(check->spends);
    check->spends = NULL;
}

static bool is_bucket(const struct weir_sim_check *check)
{
    return check->limit.algorithm == WEIR_TOKEN_BUCKET || check->limit.algorithm == WEIR_LEAKY_BUCKET;
}

static void pay(struct weir_sim_check *check, weir_u128 amount)
{
    check->debt = check->debt > amount ? check->debt - amount : 0;
}

/* Moves on to at_ns. An allowance whose grace ends becomes a credit: intervals that began earlier have it in their
 * debt, later ones never had. For windows and logs it stays two periods, as long as any interval can reach back. */
static void advance(struct weir_sim_check *check, uint64_t at_ns)
{
    weir_assert(at_ns >= check->at_ns);
    uint64_t stay_ns = is_bucket(check) ? 0 : weir_mul_sat(2, check->limit.period_ns);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < check->allowances_count; i++) {
        struct weir_sim_spend allowance = check->allowances[i];
        if (weir_add_sat(allowance.at_ns, stay_ns) > at_ns) {
            check->allowances[kept++] = allowance;
            continue;
        }
        uint64_t end_ns = weir_max_u64(allowance.at_ns, check->at_ns);
        if (is_bucket(check)) {
            pay(check, (weir_u128)check->limit.count * (end_ns - check->at_ns));
            pay(check, (weir_u128)allowance.units * check->limit.period_ns);
            check->at_ns = end_ns;
        }
    }
    check->allowances_count = kept;
    if (is_bucket(check))
        pay(check, (weir_u128)check->limit.count * (at_ns - check->at_ns));
    check->at_ns = at_ns;
}

static uint64_t admit_bucket(struct weir_sim_check *check, uint64_t units)
{
    weir_u128 period = check->limit.period_ns, full = (weir_u128)check->capacity * period;
    check->debt += (weir_u128)units * period;
    return check->debt > full ? (uint64_t)((check->debt - full + period - 1) / period) : 0;
}

static uint64_t admit_window(struct weir_sim_check *check, uint64_t window, uint64_t units)
{
    uint64_t i = window % WEIR_SIM_WINDOWS;
    if (check->windows[i].id != window) {
        check->windows[i].id = window;
        check->windows[i].units = 0;
    }
    check->windows[i].units += units;
    return weir_sub_sat(check->windows[i].units, check->limit.count);
}

static void spends_grow(struct weir_sim_check *check)
{
    uint32_t room = check->spends_room ? check->spends_room * 2 : 256;
    struct weir_sim_spend *spends = malloc(room * sizeof *spends);
    weir_assert(spends);
    for (uint32_t i = 0; i < check->spends_count; i++)
        spends[i] = check->spends[(check->spends_head + i) & (check->spends_room - 1)];
    free(check->spends);
    check->spends = spends;
    check->spends_room = room;
    check->spends_head = 0;
}

/* The newest but `back`. */
static struct weir_sim_spend *spend_at(struct weir_sim_check *check, uint32_t back)
{
    return &check->spends[(check->spends_head + check->spends_count - 1 - back) & (check->spends_room - 1)];
}

/* Forgets what is older than keep_ns and puts the new one in its place by time. */
static void spends_add(struct weir_sim_check *check, const struct weir_sim_spend *spend, uint64_t keep_ns)
{
    while (check->spends_count > 0 && spend_at(check, check->spends_count - 1)->at_ns + keep_ns <= check->at_ns) {
        check->spends_units -= spend_at(check, check->spends_count - 1)->units;
        check->spends_head = (check->spends_head + 1) & (check->spends_room - 1);
        check->spends_count--;
    }
    if (check->spends_count == check->spends_room)
        spends_grow(check);
    uint32_t back = 0;
    for (check->spends_count++; back + 1 < check->spends_count && spend_at(check, back + 1)->at_ns > spend->at_ns;
         back++)
        *spend_at(check, back) = *spend_at(check, back + 1);
    *spend_at(check, back) = *spend;
    check->spends_units += spend->units;
}

static uint64_t admit_log(struct weir_sim_check *check, uint64_t units)
{
    spends_add(check, &(struct weir_sim_spend){ check->at_ns, units, 0 }, check->limit.period_ns);
    return weir_sub_sat(check->spends_units, check->limit.count);
}

uint64_t weir_sim_check_admit_since(struct weir_sim_check *check, const struct weir_sim_spend *spend, uint64_t since_ns,
                                    uint64_t nodes, uint64_t most)
{
    uint64_t units = 0;
    advance(check, weir_max_u64(check->at_ns, spend->at_ns));
    spends_add(check, spend, 2 * check->limit.period_ns);
    for (uint32_t back = 0; back < check->spends_count && spend_at(check, back)->at_ns >= since_ns; back++) {
        const struct weir_sim_spend *one = spend_at(check, back);
        units += one->at_ns <= spend->at_ns && (nodes >> one->node & 1) ? one->units : 0;
    }
    return weir_sub_sat(units, most);
}

uint64_t weir_sim_check_admit(struct weir_sim_check *check, uint64_t at_ns, uint64_t window, uint64_t units)
{
    advance(check, at_ns);
    switch (check->limit.algorithm) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        return admit_bucket(check, units);
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_COUNTER:
        return admit_window(check, window, units);
    case WEIR_SLIDING_LOG:
    case WEIR_CONCURRENCY: /* weir_sim_run refuses it */
        break;
    }
    return admit_log(check, units);
}

void weir_sim_check_allow(struct weir_sim_check *check, uint64_t at_ns, uint64_t grace_ns, uint64_t units)
{
    if (units == 0)
        return;
    advance(check, at_ns);
    uint64_t end_ns = weir_add_sat(at_ns, grace_ns);
    if (check->allowances_count == WEIR_SIM_ALLOWANCES) {
        check->allowances[WEIR_SIM_ALLOWANCES - 1].units += units;
        check->allowances[WEIR_SIM_ALLOWANCES - 1].at_ns = end_ns;
        return;
    }
    check->allowances[check->allowances_count++] = (struct weir_sim_spend){ end_ns, units, 0 };
}

void weir_sim_check_allow_as(struct weir_sim_check *check, const struct weir_sim_check *other)
{
    weir_assert(check->at_ns <= other->at_ns);
    advance(check, other->at_ns);
    memcpy(check->allowances, other->allowances, sizeof check->allowances);
    check->allowances_count = other->allowances_count;
}

uint64_t weir_sim_check_allowed(const struct weir_sim_check *check)
{
    uint64_t units = 0;
    for (uint32_t i = 0; i < check->allowances_count; i++)
        units += check->allowances[i].units;
    return units;
}
