/* SPDX-License-Identifier: Apache-2.0
 *
 * Each line first reserves a bound on its length, then is written by wire/text.h: it is there as a whole or not at all.
 * The buffer doubles. Called by serve/http_metrics.c and by sessions.c, sharing.c and process.c beside this file, which
 * say what metrics there are. */
#include "observe/prometheus.h"

#include <stdlib.h>

#define ROOM_FIRST ((size_t)16 << 10)

/* Room for `size` more bytes. */
static bool reserve(struct weir_prometheus *prometheus, size_t size)
{
    struct weir_text *text = &prometheus->text;
    if (prometheus->failed || size <= text->room - text->size)
        return !prometheus->failed;
    size_t room = text->room ? text->room : ROOM_FIRST;
    while (room - text->size < size)
        room *= 2;
    uint8_t *data = room <= prometheus->size_max ? realloc(text->data, room) : NULL;
    prometheus->failed = data == NULL;
    if (!data)
        return false;
    text->data = data;
    text->room = room;
    return true;
}

uint8_t *weir_prometheus_take(struct weir_prometheus *prometheus, size_t *ret_size)
{
    uint8_t *data = prometheus->text.data;
    if (prometheus->failed) {
        free(data);
        return NULL;
    }
    *ret_size = prometheus->text.size;
    return data;
}

/* A label's value has \, " and LF escaped, a help text \ and LF. */
static void escaped(struct weir_text *text, const char *string, bool quotes)
{
    for (; *string; string++) {
        if (*string == '\n')
            weir_text_lit(text, "\\n");
        else if (*string == '\\')
            weir_text_lit(text, "\\\\");
        else if (*string == '"' && quotes)
            weir_text_lit(text, "\\\"");
        else
            weir_text_bytes(text, string, 1);
    }
}

void weir_prometheus_metric(struct weir_prometheus *prometheus, const char *name, const char *type, const char *help)
{
    struct weir_text *text = &prometheus->text;
    if (!reserve(prometheus, 2 * strlen(name) + strlen(type) + 2 * strlen(help) + 32))
        return;
    weir_text_lit(text, "# HELP ");
    weir_text_str(text, name);
    weir_text_lit(text, " ");
    escaped(text, help, false);
    weir_text_lit(text, "\n# TYPE ");
    weir_text_str(text, name);
    weir_text_lit(text, " ");
    weir_text_str(text, type);
    weir_text_lit(text, "\n");
}

static size_t label_max(struct weir_label label)
{
    return label.value ? strlen(label.name) + 2 * strlen(label.value) + 4 : 0;
}

static const char *write_label(struct weir_text *text, const char *before, struct weir_label label)
{
    if (!label.value)
        return before;
    weir_text_str(text, before);
    weir_text_str(text, label.name);
    weir_text_lit(text, "=\"");
    escaped(text, label.value, true);
    weir_text_lit(text, "\"");
    return ",";
}

/* The name with its labels and a blank; then there is room for a number and the end of the line. */
static bool begin(struct weir_prometheus *prometheus, const char *name, const char *suffix, struct weir_label first,
                  struct weir_label second)
{
    struct weir_text *text = &prometheus->text;
    if (!reserve(prometheus, strlen(name) + strlen(suffix) + label_max(first) + label_max(second) + 48))
        return false;
    weir_text_str(text, name);
    weir_text_str(text, suffix);
    const char *before = write_label(text, "{", first);
    before = write_label(text, before, second);
    weir_text_str(text, *before == ',' ? "} " : " ");
    return true;
}

/* Seconds with up to nine decimals, without zeros at the end. */
static void seconds(struct weir_text *text, uint64_t ns)
{
    char digits[9];
    uint64_t rest = ns % WEIR_NS_PER_SECOND;
    size_t length = sizeof(digits);
    for (size_t i = sizeof(digits); i > 0; i--, rest /= 10)
        digits[i - 1] = (char)('0' + rest % 10);
    while (length > 0 && digits[length - 1] == '0')
        length--;
    weir_text_u64(text, ns / WEIR_NS_PER_SECOND);
    if (length > 0)
        weir_text_lit(text, ".");
    weir_text_bytes(text, digits, length);
}

void weir_prometheus_sample(struct weir_prometheus *prometheus, const char *name, struct weir_label first,
                            struct weir_label second, uint64_t value)
{
    if (!begin(prometheus, name, "", first, second))
        return;
    weir_text_u64(&prometheus->text, value);
    weir_text_lit(&prometheus->text, "\n");
}

static void sample_seconds(struct weir_prometheus *prometheus, const char *name, const char *suffix,
                           struct weir_label label, uint64_t value_ns)
{
    if (!begin(prometheus, name, suffix, label, (struct weir_label){ 0 }))
        return;
    seconds(&prometheus->text, value_ns);
    weir_text_lit(&prometheus->text, "\n");
}

void weir_prometheus_seconds(struct weir_prometheus *prometheus, const char *name, struct weir_label label,
                             uint64_t value_ns)
{
    sample_seconds(prometheus, name, "", label, value_ns);
}

static void bucket_line(struct weir_prometheus *prometheus, const char *name, struct weir_label label, size_t bucket,
                        uint64_t total)
{
    char bound[32] = "+Inf";
    uint64_t bound_ns = weir_histogram_bound_ns(bucket);
    if (bound_ns != UINT64_MAX) {
        struct weir_text text = weir_text_init(bound, sizeof(bound) - 1);
        seconds(&text, bound_ns);
        bound[text.size] = '\0';
    }
    if (!begin(prometheus, name, "_bucket", label, (struct weir_label){ "le", bound }))
        return;
    weir_text_u64(&prometheus->text, total);
    weir_text_lit(&prometheus->text, "\n");
}

void weir_prometheus_histogram(struct weir_prometheus *prometheus, const char *name, struct weir_label label,
                               const struct weir_histogram *const *histograms, size_t count)
{
    uint64_t total = 0, sum_ns = 0;
    for (size_t bucket = 0; bucket < WEIR_HISTOGRAM_BUCKETS; bucket++) {
        for (size_t i = 0; i < count; i++)
            total += weir_counted(&histograms[i]->counts[bucket]);
        bucket_line(prometheus, name, label, bucket, total);
    }
    for (size_t i = 0; i < count; i++)
        sum_ns += weir_counted(&histograms[i]->sum_ns);
    sample_seconds(prometheus, name, "_sum", label, sum_ns);
    if (!begin(prometheus, name, "_count", label, (struct weir_label){ 0 }))
        return;
    weir_text_u64(&prometheus->text, total);
    weir_text_lit(&prometheus->text, "\n");
}
