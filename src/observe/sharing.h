/* SPDX-License-Identifier: Apache-2.0
 *
 * Sharing and locks as metrics: weir_engine_*, weir_gossip_*, weir_locks_* and weir_sharing_*, of the
 * value that GET /v1/nodes shows too
 * (wire/nodes.h). Counters end in _total. Labels are addresses and names of the configuration, and words of ours.
 *
 * Thread rule: plain values. */
#pragma once

#include "observe/prometheus.h"
#include "wire/nodes.h"

/* Nothing of what is not there (engine, gossip or locks NULL). */
void weir_sharing_metrics(struct weir_prometheus *out, const struct weir_nodes *nodes);
