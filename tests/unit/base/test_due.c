/* SPDX-License-Identifier: Apache-2.0
 *
 * The heap of moments against a list that is searched from end to end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/due.h"
#include "random.h"

enum { MEMBERS = 40, STEPS = 40000 };

static void check(const struct weir_due_heap *heap, const struct weir_due *all, const bool *there)
{
    uint64_t next_ns = UINT64_MAX;
    size_t count = 0;
    for (size_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(all[i].place > 0, there[i]);
        if (!there[i])
            continue;
        count++;
        assert_ptr_equal(heap->members[all[i].place], &all[i]);
        assert_true(all[i].place == 1 || heap->members[all[i].place / 2]->at_ns <= all[i].at_ns);
        if (all[i].at_ns < next_ns)
            next_ns = all[i].at_ns;
    }
    assert_int_equal(heap->count, count);
    assert_int_equal(weir_due_next_ns(heap), next_ns);
    const struct weir_due *first = weir_due_first(heap);
    assert_int_equal(first != NULL, count > 0);
    assert_true(!first || first->at_ns == next_ns);
}

static void due__the_first_is_the_one_that_a_search_finds(void **state)
{
    struct weir_due all[MEMBERS] = { { 0 } }, *members[MEMBERS + 1] = { NULL };
    bool there[MEMBERS] = { false };
    struct weir_due_heap heap = { .members = members, .max = MEMBERS };
    struct test_random random = { test_random_seed() };
    (void)state;
    for (unsigned step = 0; step < STEPS; step++) {
        size_t i = test_random_below(&random, MEMBERS);
        uint64_t fills = step / 1000 % 3; /* it becomes full, and empty */
        if (test_random_below(&random, 3) < fills) {
            uint64_t at_ns = test_random_below(&random, 4) ? test_random_below(&random, 50) : test_random_u64(&random);
            weir_due_set(&heap, &all[i], at_ns);
            assert_int_equal(all[i].at_ns, at_ns);
            there[i] = true;
        } else {
            weir_due_remove(&heap, &all[i]);
            there[i] = false;
        }
        check(&heap, all, there);
    }
    /* All of them leave in their order. */
    for (size_t i = 0; i < MEMBERS; i++) {
        weir_due_set(&heap, &all[i], test_random_below(&random, 20));
        there[i] = true;
    }
    for (uint64_t last_ns = 0; weir_due_first(&heap);) {
        struct weir_due *first = weir_due_first(&heap);
        assert_true(first->at_ns >= last_ns);
        last_ns = first->at_ns;
        weir_due_remove(&heap, first);
        there[first - all] = false;
        check(&heap, all, there);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(due__the_first_is_the_one_that_a_search_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
