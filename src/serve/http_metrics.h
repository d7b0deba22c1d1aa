/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of GET /metrics. On the loop's thread. */
#pragma once

#include "observe/prometheus.h"

struct weir_loop;
struct weir_common;

/* weir_grpc_answers_total, where something listens for gRPC. */
void weir_http_metrics_grpc(struct weir_prometheus *out, const struct weir_common *common);

/* weir_admitted_units_total and its like: of limits with one counter for all requests. */
/* Hits of Envoy's questions, from the first one on. */
void weir_http_metrics_hits(struct weir_prometheus *out, const struct weir_loop *loop);
void weir_http_metrics_units(struct weir_prometheus *out, const struct weir_loop *loop);

/* weir_reservations_open and its like. */
void weir_http_metrics_reserve(struct weir_prometheus *out, const struct weir_loop *loop);

/* weir_top_refused: of the keys that GET /v1/top tells of. */
void weir_http_metrics_top(struct weir_prometheus *out, const struct weir_loop *loop);
