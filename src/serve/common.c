/* SPDX-License-Identifier: Apache-2.0
 *
 * What all loops of a server count into and remember with, from before its first connection to after its last. */
#include "limits/fallback.h"
#include "observe/hour.h"
#include "observe/last.h"
#include "observe/metrics.h"
#include "observe/past.h"
#include "observe/top.h"
#include "observe/tracer.h"
#include "serve/hold.h"
#include "serve/loop.h"
#include "serve/reserve.h"

#define FALLBACK_KEYS_MAX 65536 /* keys with a share of their own while an engine fails */

int weir_common_init(struct weir_common *common, size_t loops)
{
    int error = weir_guesses_init(&common->guesses);
    if (!error)
        error = weir_metrics_create(loops, &common->metrics);
    if (!error)
        error = weir_top_create(loops, common->started_ns, &common->top);
    if (!error)
        error = weir_hour_create(common->started_ns, &common->hour);
    if (!error)
        error = weir_past_create(loops, common->started_ns, &common->past);
    if (!error)
        error = weir_last_create(&common->last);
    if (!error)
        error = weir_tracer_create(loops, &common->tracer);
    if (!error)
        error = weir_holds_create(&common->holds);
    if (!error)
        error = weir_reservations_create(&common->reservations);
    if (!error)
        error = weir_fallback_create(WEIR_METRICS_LIMITS_MAX, FALLBACK_KEYS_MAX, common->started_ns, &common->fallback);
    return error;
}

void weir_common_deinit(struct weir_common *common)
{
    weir_fallback_destroy(common->fallback);
    weir_reservations_destroy(common->reservations);
    weir_holds_destroy(common->holds);
    weir_tracer_destroy(common->tracer);
    weir_last_destroy(common->last);
    weir_past_destroy(common->past);
    weir_hour_destroy(common->hour);
    weir_top_destroy(common->top);
    weir_metrics_destroy(common->metrics);
}
