/* SPDX-License-Identifier: Apache-2.0
 *
 * Histograms, counters by limit, and the Prometheus text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "observe/metrics.h"
#include "observe/prometheus.h"
#include "random.h"

static void buckets_hold_what_their_bounds_say(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    assert_int_equal(weir_histogram_bucket(0), 0);
    assert_int_equal(weir_histogram_bucket(256), 0);
    assert_int_equal(weir_histogram_bucket(257), 1);
    assert_int_equal(weir_histogram_bucket(UINT64_MAX), WEIR_HISTOGRAM_BUCKETS - 1);
    for (size_t i = 0; i + 2 < WEIR_HISTOGRAM_BUCKETS; i++) {
        uint64_t bound = weir_histogram_bound_ns(i), next = weir_histogram_bound_ns(i + 1);
        assert_true(next > bound && next - bound <= bound / 4);
        assert_int_equal(weir_histogram_bucket(bound), i);
        assert_int_equal(weir_histogram_bucket(bound + 1), i + 1);
    }
    for (int i = 0; i < 1000000; i++) {
        uint64_t value = test_random_u64(&random) >> test_random_below(&random, 64);
        size_t bucket = weir_histogram_bucket(value);
        assert_true(value <= weir_histogram_bound_ns(bucket));
        assert_true(bucket == 0 || value > weir_histogram_bound_ns(bucket - 1));
    }
}

static void a_name_keeps_its_slot(void **state)
{
    (void)state;
    struct weir_metrics *metrics = NULL;
    assert_int_equal(weir_metrics_create(1, &metrics), 0);
    assert_int_equal(weir_metrics_slots(metrics), 2);
    assert_string_equal(weir_metrics_name(metrics, WEIR_METRICS_THROTTLE), "CL.THROTTLE");
    uint32_t a = weir_metrics_slot(metrics, "a"), b = weir_metrics_slot(metrics, "b");
    assert_true(a > WEIR_METRICS_THROTTLE && b > a);
    assert_int_equal(weir_metrics_slot(metrics, "a"), a);
    assert_string_equal(weir_metrics_name(metrics, b), "b");
    weir_metrics_destroy(metrics);
    weir_metrics_destroy(NULL);
}

static void names_are_bounded(void **state)
{
    (void)state;
    struct weir_metrics *metrics = NULL;
    assert_int_equal(weir_metrics_create(1, &metrics), 0);
    for (size_t i = 2; i < WEIR_METRICS_LIMITS_MAX + 10; i++) {
        char name[16];
        snprintf(name, sizeof(name), "l%zu", i);
        uint32_t slot = weir_metrics_slot(metrics, name);
        assert_int_equal(slot, i < WEIR_METRICS_LIMITS_MAX ? i : WEIR_METRICS_OTHER);
    }
    weir_metrics_decided(metrics, 0, WEIR_METRICS_LIMITS_MAX - 1, WEIR_METRICS_NEVER, 7);
    uint64_t counts[WEIR_METRICS_VERDICTS];
    weir_metrics_decisions(metrics, WEIR_METRICS_LIMITS_MAX - 1, counts);
    assert_int_equal(counts[WEIR_METRICS_NEVER], 7);
    weir_metrics_destroy(metrics);
}

struct writer {
    struct weir_metrics *metrics;
    size_t loop;
    uint32_t slot;
};

static void *write_many(void *argument)
{
    struct writer *writer = argument;
    for (int i = 0; i < 200000; i++)
        weir_metrics_decided(writer->metrics, writer->loop, writer->slot, WEIR_METRICS_ADMITTED, 1);
    return NULL;
}

static void loops_add_up_and_readers_see_only_growth(void **state)
{
    (void)state;
    struct weir_metrics *metrics = NULL;
    assert_int_equal(weir_metrics_create(4, &metrics), 0);
    uint32_t slot = weir_metrics_slot(metrics, "x");
    struct writer writers[4];
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) {
        writers[i] = (struct writer){ metrics, i, slot };
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, &writers[i]), 0);
    }
    uint64_t counts[WEIR_METRICS_VERDICTS], seen = 0;
    for (int i = 0; i < 1000; i++) {
        weir_metrics_decisions(metrics, slot, counts);
        assert_true(counts[WEIR_METRICS_ADMITTED] >= seen);
        seen = counts[WEIR_METRICS_ADMITTED];
    }
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    weir_metrics_decisions(metrics, slot, counts);
    assert_int_equal(counts[WEIR_METRICS_ADMITTED], 800000);
    assert_int_equal(counts[WEIR_METRICS_REFUSED], 0);
    weir_metrics_destroy(metrics);
}

static void units_are_counted_beside_verdicts(void **state)
{
    (void)state;
    struct weir_metrics *metrics = NULL;
    assert_int_equal(weir_metrics_create(2, &metrics), 0);
    uint32_t a = weir_metrics_slot(metrics, "a"), b = weir_metrics_slot(metrics, "b");
    weir_metrics_units(metrics, 0, a, WEIR_UNITS_ADMITTED, 7);
    weir_metrics_units(metrics, 1, a, WEIR_UNITS_ADMITTED, 5);
    weir_metrics_units(metrics, 1, a, WEIR_UNITS_RETURNED, 2);
    weir_metrics_lacked(metrics, 0, b, WEIR_LACK_SHADOWED);
    uint64_t units[WEIR_UNITS], lacks[WEIR_LACKS];
    weir_metrics_units_of(metrics, a, units);
    assert_int_equal(units[WEIR_UNITS_ADMITTED], 12);
    assert_int_equal(units[WEIR_UNITS_RETURNED], 2);
    weir_metrics_lacks(metrics, a, lacks);
    assert_int_equal(lacks[WEIR_LACK_SHADOWED], 0);
    weir_metrics_units_of(metrics, b, units);
    assert_int_equal(units[WEIR_UNITS_ADMITTED] + units[WEIR_UNITS_RETURNED], 0);
    weir_metrics_destroy(metrics);
}

static void verdicts_have_their_words(void **state)
{
    (void)state;
    struct weir_verdict verdict = { .admitted = true };
    assert_int_equal(weir_metrics_verdict_of(&verdict), WEIR_METRICS_ADMITTED);
    verdict.admitted = false;
    verdict.retry_after_ns = 1;
    assert_int_equal(weir_metrics_verdict_of(&verdict), WEIR_METRICS_REFUSED);
    verdict.retry_after_ns = WEIR_NEVER;
    assert_int_equal(weir_metrics_verdict_of(&verdict), WEIR_METRICS_NEVER);
    verdict.shadow = true;
    assert_int_equal(weir_metrics_verdict_of(&verdict), WEIR_METRICS_SHADOW_REFUSED);
    assert_string_equal(weir_metrics_verdict_name(WEIR_METRICS_SHED), "shed");
}

static void assert_written(struct weir_prometheus *out, const char *expected)
{
    size_t size = 0;
    char *text = (char *)weir_prometheus_take(out, &size);
    assert_non_null(text);
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(text, expected, size);
    free(text);
}

static void samples_are_escaped(void **state)
{
    (void)state;
    struct weir_prometheus out = weir_prometheus_init(1 << 20);
    const struct weir_label none = { 0 };
    weir_prometheus_metric(&out, "weir_x_total", "counter", "A \\ and \"b\"\nnew line.");
    weir_prometheus_sample(&out, "weir_x_total", none, none, 18446744073709551615U);
    weir_prometheus_sample(&out, "weir_x_total", (struct weir_label){ "limit", "a\"b\\c\nd\xC3\xA9" }, none, 0);
    weir_prometheus_sample(&out, "weir_x_total", (struct weir_label){ "limit", "" },
                           (struct weir_label){ "verdict", "admitted" }, 1);
    weir_prometheus_seconds(&out, "weir_y", none, 1500000000);
    weir_prometheus_seconds(&out, "weir_y", none, 1);
    weir_prometheus_seconds(&out, "weir_y", none, 0);
    assert_written(&out, "# HELP weir_x_total A \\\\ and \"b\"\\nnew line.\n"
                         "# TYPE weir_x_total counter\n"
                         "weir_x_total 18446744073709551615\n"
                         "weir_x_total{limit=\"a\\\"b\\\\c\\nd\xC3\xA9\"} 0\n"
                         "weir_x_total{limit=\"\",verdict=\"admitted\"} 1\n"
                         "weir_y 1.5\nweir_y 0.000000001\nweir_y 0\n");
}

static void histograms_add_up(void **state)
{
    (void)state;
    static struct weir_histogram a, b;
    const struct weir_histogram *both[] = { &a, &b };
    weir_histogram_add(&a, 256, 2);
    weir_histogram_add(&b, 300, 1);
    weir_histogram_add(&b, UINT64_C(20000000000), 1);
    struct weir_prometheus out = weir_prometheus_init(1 << 20);
    weir_prometheus_histogram(&out, "h", (struct weir_label){ "p", "http" }, both, 2);
    size_t size = 0;
    char *text = (char *)weir_prometheus_take(&out, &size);
    text[size - 1] = '\0';
    static const char head[] = "h_bucket{p=\"http\",le=\"0.000000256\"} 2\nh_bucket{p=\"http\",le=\"0.00000032\"} 3\n";
    assert_memory_equal(text, head, sizeof(head) - 1);
    assert_non_null(strstr(text, "h_bucket{p=\"http\",le=\"17.179869184\"} 3\nh_bucket{p=\"http\",le=\"+Inf\"} 4\n"
                                 "h_sum{p=\"http\"} 20.000000812\nh_count{p=\"http\"} 4"));
    free(text);
}

static void the_text_is_bounded(void **state)
{
    (void)state;
    struct weir_prometheus out = weir_prometheus_init(32 << 10);
    for (int i = 0; i < 10000; i++)
        weir_prometheus_sample(&out, "weir_x_total", (struct weir_label){ 0 }, (struct weir_label){ 0 }, 1);
    size_t size = 0;
    assert_true(out.failed);
    assert_null(weir_prometheus_take(&out, &size));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_hold_what_their_bounds_say),
        cmocka_unit_test(a_name_keeps_its_slot),
        cmocka_unit_test(names_are_bounded),
        cmocka_unit_test(loops_add_up_and_readers_see_only_growth),
        cmocka_unit_test(units_are_counted_beside_verdicts),
        cmocka_unit_test(verdicts_have_their_words),
        cmocka_unit_test(samples_are_escaped),
        cmocka_unit_test(histograms_add_up),
        cmocka_unit_test(the_text_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
