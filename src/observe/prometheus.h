/* SPDX-License-Identifier: Apache-2.0
 *
 * The Prometheus text format (version 0.0.4), written into memory that grows to a bound. After a failure (no memory, or
 * the bound) nothing more is written and `failed` is set.
 *
 * Thread rule: plain values. */
#pragma once

#include "observe/histogram.h"
#include "wire/text.h"

struct weir_prometheus {
    struct weir_text text;
    size_t size_max;
    bool failed;
};

static inline struct weir_prometheus weir_prometheus_init(size_t size_max)
{
    return (struct weir_prometheus){ .size_max = size_max };
}

/* Hands over the text (free it), or NULL after a failure. */
uint8_t *weir_prometheus_take(struct weir_prometheus *prometheus, size_t *ret_size);

/* HELP and TYPE of the metric whose samples follow; type is "counter", "gauge" or "histogram". */
void weir_prometheus_metric(struct weir_prometheus *prometheus, const char *name, const char *type, const char *help);

/* A label; value NULL: there is none. Values are escaped. */
struct weir_label {
    const char *name;
    const char *value;
};

void weir_prometheus_sample(struct weir_prometheus *prometheus, const char *name, struct weir_label first,
                            struct weir_label second, uint64_t value);

/* The same with a value in ns, shown in seconds. */
void weir_prometheus_seconds(struct weir_prometheus *prometheus, const char *name, struct weir_label label,
                             uint64_t value_ns);

/* _bucket, _sum and _count of `count` histograms added up, in seconds. */
void weir_prometheus_histogram(struct weir_prometheus *prometheus, const char *name, struct weir_label label,
                               const struct weir_histogram *const *histograms, size_t count);
