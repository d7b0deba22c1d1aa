/* SPDX-License-Identifier: Apache-2.0
 *
 * libweir in a C program: two limits decided together, all or nothing.
 *
 *     cc embed.c $(pkg-config --cflags --libs weir) -o embed && ./embed */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

enum { PER_USER, TOGETHER, LIMITS };

static void fail(const char *what, int error, const struct weir_fault *fault)
{
    fprintf(stderr, "%s: %s: %s %s\n", what, weir_error_name(error), fault->field, fault->text);
    exit(1);
}

static struct weir_limiter *create_limiter(weir_limit_id ret_ids[LIMITS])
{
    const struct weir_limit_def defs[LIMITS] = {
        [PER_USER] = { .name = "per-user", .spec = { .count = 10, .period_ns = WEIR_NS_PER_SECOND, .burst = 3 } },
        [TOGETHER] = { .name = "together",
                       .spec = { .algorithm = WEIR_SLIDING_LOG, .count = 5, .period_ns = 60 * WEIR_NS_PER_SECOND } },
    };
    struct weir_limiter_options options = { .memory_max = (size_t)1 << 20 };
    struct weir_fault fault = { 0 };
    struct weir_limiter *limiter;
    int error = weir_limiter_create(&options, &limiter, &fault);
    if (error)
        fail("create", error, &fault);
    error = weir_limiter_define(limiter, defs, LIMITS, NULL, ret_ids, &fault);
    if (error)
        fail("define", error, &fault);
    return limiter;
}

/* One request of `user`: both limits admit and are charged, or neither is. */
static bool ask(struct weir_limiter *limiter, const weir_limit_id ids[LIMITS], const char *user)
{
    const struct weir_slice value = { user, strlen(user) };
    struct weir_charge charges[LIMITS] = {
        [PER_USER] = { .limit = ids[PER_USER], .cost = 1 }, [TOGETHER] = { .limit = ids[TOGETHER], .cost = 1 }
    };
    struct weir_decision decision;
    struct weir_verdict verdicts[LIMITS];
    struct weir_fault none = { 0 };
    int error = weir_limiter_key(limiter, ids[PER_USER], &value, 1, &charges[PER_USER].key);
    if (!error)
        error = weir_limiter_key(limiter, ids[TOGETHER], NULL, 0, &charges[TOGETHER].key);
    if (!error)
        error = weir_limiter_decide(limiter, charges, LIMITS, NULL, 0, &decision, verdicts);
    if (error)
        fail("decide", error, &none);
    printf("%-4s %-8s remaining %" PRIu64 " of %" PRIu64 ", together %" PRIu64 ", retry after %" PRIu64 " ms\n", user,
           decision.admitted ? "admitted" : "refused", verdicts[PER_USER].remaining, verdicts[PER_USER].capacity,
           verdicts[TOGETHER].remaining, (decision.retry_after_ns + 999999) / 1000000);
    return decision.admitted;
}

int main(void)
{
    weir_limit_id ids[LIMITS];
    struct weir_limiter *limiter = create_limiter(ids);
    int admitted = 0;
    for (int i = 0; i < 4; i++)
        admitted += ask(limiter, ids, "ada");
    for (int i = 0; i < 4; i++)
        admitted += ask(limiter, ids, "bob");
    struct weir_limiter_stats stats;
    weir_limiter_stats(limiter, &stats);
    printf("%d admitted, %" PRIu64 " keys, %" PRIu64 " bytes\n", admitted, stats.keys, stats.memory_used);
    weir_limiter_destroy(limiter);
    return 0;
}
